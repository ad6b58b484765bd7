//! Flags as chattr(1) and lsattr(1) write them.

use uext4::unstable::ondisk::InodeFlags;

/// Letters, in the order of lsattr(1); with what they stand for, and in words.
const FLAGS: [(char, Option<(InodeFlags, &str)>); 22] = [
    ('s', Some((InodeFlags::SECRM, "secure-deletion"))),
    ('u', Some((InodeFlags::UNRM, "undelete"))),
    ('S', Some((InodeFlags::SYNC, "sync"))),
    ('D', Some((InodeFlags::DIRSYNC, "dirsync"))),
    ('i', Some((InodeFlags::IMMUTABLE, "immutable"))),
    ('a', Some((InodeFlags::APPEND, "append-only"))),
    ('d', Some((InodeFlags::NODUMP, "no-dump"))),
    ('A', Some((InodeFlags::NOATIME, "no-atime"))),
    ('c', Some((InodeFlags::COMPR, "compress"))),
    ('E', Some((InodeFlags::ENCRYPT, "encrypted"))),
    ('j', Some((InodeFlags::JOURNAL_DATA, "journal-data"))),
    ('I', Some((InodeFlags::INDEX, "indexed"))),
    ('t', Some((InodeFlags::NOTAIL, "no-tail"))),
    ('T', Some((InodeFlags::TOPDIR, "top-directory"))),
    ('e', Some((InodeFlags::EXTENTS, "extents"))),
    // Of other file systems.
    ('C', None),
    ('x', Some((InodeFlags::DAX, "dax"))),
    ('F', Some((InodeFlags::CASEFOLD, "casefold"))),
    ('N', Some((InodeFlags::INLINE_DATA, "inline-data"))),
    ('P', Some((InodeFlags::PROJINHERIT, "project-inherit"))),
    ('V', Some((InodeFlags::VERITY, "verity"))),
    ('m', Some((InodeFlags::NOCOMPR, "no-compress"))),
];

/// As a column of letters and dashes.
pub fn column(flags: InodeFlags) -> String {
    let letter = |(letter, known): &(char, Option<(InodeFlags, &str)>)| match known {
        Some((flag, _)) if flags.contains(*flag) => *letter,
        _ => '-',
    };
    FLAGS.iter().map(letter).collect()
}

/// In words.
pub fn words(flags: InodeFlags) -> Vec<&'static str> {
    let known = FLAGS.iter().filter_map(|(_, known)| *known);
    known
        .filter(|(flag, _)| flags.contains(*flag))
        .map(|(_, word)| word)
        .collect()
}

/// A change of flags: `+i`, `-ad`, `=A`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// These too.
    Add(InodeFlags),
    /// Not these any more.
    Remove(InodeFlags),
    /// Of those that can be set, these and no others.
    Set(InodeFlags),
}

impl Change {
    /// Reads one; `None` if it does not look like one.
    ///
    /// # Errors
    /// A letter that stands for nothing.
    pub fn parse(text: &str) -> Option<Result<Change, String>> {
        let (sign, letters) = text.split_at_checked(1)?;
        let make = match sign {
            "+" => Change::Add,
            "-" => Change::Remove,
            "=" => Change::Set,
            _ => return None,
        };
        let mut flags = InodeFlags::empty();
        for letter in letters.chars() {
            let known = FLAGS.iter().find(|(l, _)| *l == letter);
            match known.and_then(|(_, known)| *known) {
                Some((flag, _)) => flags |= flag,
                None => {
                    return Some(Err(format!(
                        "no flag has the letter `{letter}`; there are aAcdDijPsStTu, as in chattr(1)"
                    )));
                }
            }
        }
        Some(Ok(make(flags)))
    }

    /// The flags after it; `=` leaves alone how data is kept.
    pub fn apply(self, flags: InodeFlags) -> InodeFlags {
        let kept = InodeFlags::EXTENTS;
        match self {
            Change::Add(more) => flags | more,
            Change::Remove(less) => flags - less,
            Change::Set(all) => (flags - (InodeFlags::USER_MODIFIABLE - kept)) | all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes() {
        let change = |text| Change::parse(text).expect("is one");
        let fixed = InodeFlags::IMMUTABLE | InodeFlags::EXTENTS;
        assert_eq!(change("+i").unwrap().apply(InodeFlags::EXTENTS), fixed);
        assert_eq!(change("-ia").unwrap().apply(fixed), InodeFlags::EXTENTS);
        let set = change("=d").unwrap().apply(fixed);
        assert_eq!(set, InodeFlags::NODUMP | InodeFlags::EXTENTS);
        assert!(change("+q").is_err());
        assert_eq!(Change::parse("disk.img:/"), None);
        assert_eq!(Change::parse(""), None);
        assert_eq!(column(set), "------d-------e-------");
        assert_eq!(words(set), ["no-dump", "extents"]);
    }
}
