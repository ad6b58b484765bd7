//! Flags as chattr(1) and lsattr(1) write them.

use uext4::unstable::ondisk::InodeFlags;

/// A flag of other file systems, for files of the host.
const NO_COW: InodeFlags = InodeFlags::from_bits_retain(0x0080_0000);

/// Letters, in the order of lsattr(1); with what they stand for, and in words.
const FLAGS: [(char, (InodeFlags, &str)); 22] = [
    ('s', (InodeFlags::SECRM, "secure-deletion")),
    ('u', (InodeFlags::UNRM, "undelete")),
    ('S', (InodeFlags::SYNC, "sync")),
    ('D', (InodeFlags::DIRSYNC, "dirsync")),
    ('i', (InodeFlags::IMMUTABLE, "immutable")),
    ('a', (InodeFlags::APPEND, "append-only")),
    ('d', (InodeFlags::NODUMP, "no-dump")),
    ('A', (InodeFlags::NOATIME, "no-atime")),
    ('c', (InodeFlags::COMPR, "compress")),
    ('E', (InodeFlags::ENCRYPT, "encrypted")),
    ('j', (InodeFlags::JOURNAL_DATA, "journal-data")),
    ('I', (InodeFlags::INDEX, "indexed")),
    ('t', (InodeFlags::NOTAIL, "no-tail")),
    ('T', (InodeFlags::TOPDIR, "top-directory")),
    ('e', (InodeFlags::EXTENTS, "extents")),
    ('C', (NO_COW, "no-copy-on-write")),
    ('x', (InodeFlags::DAX, "dax")),
    ('F', (InodeFlags::CASEFOLD, "casefold")),
    ('N', (InodeFlags::INLINE_DATA, "inline-data")),
    ('P', (InodeFlags::PROJINHERIT, "project-inherit")),
    ('V', (InodeFlags::VERITY, "verity")),
    ('m', (InodeFlags::NOCOMPR, "no-compress")),
];

/// As a column of letters and dashes.
pub fn column(flags: InodeFlags) -> String {
    let letter = |(letter, (flag, _)): &(char, (InodeFlags, &str))| match flags.contains(*flag) {
        true => *letter,
        false => '-',
    };
    FLAGS.iter().map(letter).collect()
}

/// In words.
pub fn words(flags: InodeFlags) -> Vec<&'static str> {
    let set = FLAGS.iter().filter(|(_, (flag, _))| flags.contains(*flag));
    set.map(|(_, (_, word))| *word).collect()
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
            match known {
                Some((_, (flag, _))) => flags |= *flag,
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
