//! Permission bits as chmod(1) takes them: in octal, or as a change such as `u+x,go=rX`.

use crate::system::process;

const SET_IDS: u16 = 0o6000;

/// A change of permission bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModeChange {
    /// These bits; a directory keeps those of set-user-ID and set-group-ID that are in `kept`.
    To {
        /// All twelve.
        bits: u16,
        /// Kept by directories.
        kept: u16,
    },
    /// One after the other.
    Steps(Vec<Step>),
}

/// One operation of a symbolic mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The bits of the classes that it is for; none if it names no class.
    classes: u16,
    operator: Operator,
    bits: Bits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Remove,
    Set,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bits {
    /// These, for every class; and to execute what already can be by a class, and directories.
    Named { bits: u16, search: bool },
    /// What the class that starts at this bit has.
    OfClass(u32),
    /// In octal: for all, whatever the umask and the directory.
    Octal(u16),
}

impl ModeChange {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong, for the user.
    pub fn parse(text: &str) -> Result<ModeChange, String> {
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let bits = octal(text)?;
            // Five digits name the bits for set-user-ID and set-group-ID of a directory too.
            let kept = if text.len() > 4 { 0 } else { SET_IDS };
            return Ok(ModeChange::To { bits, kept });
        }
        let mut steps = Vec::new();
        for clause in text.split(',') {
            parse_clause(clause, &mut steps).ok_or_else(|| {
                format!("`{text}` is neither octal bits such as 644 nor a change such as u+x,go=rX")
            })?;
        }
        Ok(ModeChange::Steps(steps))
    }

    /// The bits after it. `umask` is for changes that name no class.
    pub fn apply(&self, mode: u16, is_directory: bool, umask: u16) -> u16 {
        match self {
            ModeChange::To { bits, kept } if is_directory => bits | (mode & kept),
            ModeChange::To { bits, .. } => *bits,
            ModeChange::Steps(steps) => steps
                .iter()
                .fold(mode, |mode, step| step.apply(mode, is_directory, umask)),
        }
    }
}

impl Step {
    fn apply(self, mode: u16, is_directory: bool, umask: u16) -> u16 {
        let (value, named) = match self.bits {
            Bits::Octal(bits) => (bits, 0o7777),
            Bits::OfClass(shift) => (((mode >> shift) & 7) * 0o111, 0),
            Bits::Named { bits, search } => {
                let x = search && (is_directory || mode & 0o111 != 0);
                (bits | if x { 0o111 } else { 0 }, bits)
            }
        };
        let classes = match self.classes {
            0 => 0o7777,
            classes => classes,
        };
        let mut kept = !classes;
        // Only a change that names them takes these from a directory.
        if is_directory {
            kept |= SET_IDS & !(named & classes);
        }
        let umask = match (self.classes, self.bits) {
            (0, Bits::Named { .. } | Bits::OfClass(_)) => umask,
            _ => 0,
        };
        let value = value & classes & !umask;
        match self.operator {
            Operator::Add => mode | value,
            Operator::Remove => mode & !(value & !kept),
            Operator::Set => (mode & kept) | (value & !kept),
        }
    }
}

fn octal(text: &str) -> Result<u16, String> {
    match u16::from_str_radix(text, 8) {
        Ok(bits) if bits <= 0o7777 => Ok(bits),
        _ => Err(format!("`{text}` is not a mode: octal bits are 0 to 7777")),
    }
}

/// Reads one clause, such as `ug+rw-x`; `None` if it is not one.
fn parse_clause(clause: &str, steps: &mut Vec<Step>) -> Option<()> {
    let end = clause.find(|c| !"ugoa".contains(c))?;
    let (named, mut rest) = clause.split_at(end);
    let classes = named.chars().fold(0, |bits, class| {
        bits | match class {
            'u' => 0o4700,
            'g' => 0o2070,
            'o' => 0o1007,
            _ => 0o7777,
        }
    });
    while let Some(first) = rest.chars().next() {
        let operator = match first {
            '+' => Operator::Add,
            '-' => Operator::Remove,
            '=' => Operator::Set,
            _ => return None,
        };
        rest = &rest[1..];
        let end = rest.find(['+', '-', '=']).unwrap_or(rest.len());
        let bits = parse_bits(&rest[..end])?;
        rest = &rest[end..];
        steps.push(Step {
            classes,
            operator,
            bits,
        });
    }
    (!clause[end..].is_empty()).then_some(())
}

fn parse_bits(text: &str) -> Option<Bits> {
    match text {
        "u" => return Some(Bits::OfClass(6)),
        "g" => return Some(Bits::OfClass(3)),
        "o" => return Some(Bits::OfClass(0)),
        text if text.starts_with(|c: char| c.is_ascii_digit()) => {
            return octal(text).ok().map(Bits::Octal);
        }
        _ => {}
    }
    let (mut bits, mut search) = (0, false);
    for letter in text.chars() {
        match letter {
            'r' => bits |= 0o444,
            'w' => bits |= 0o222,
            'x' => bits |= 0o111,
            'X' => search = true,
            's' => bits |= SET_IDS,
            't' => bits |= 0o1000,
            _ => return None,
        }
    }
    Some(Bits::Named { bits, search })
}

/// What the process's umask takes from the bits of new files.
pub fn umask() -> u16 {
    process::umask().unwrap_or(0o022)
}

/// `rwxr-sr-t`.
pub fn letters(mode: u16) -> String {
    let mut text = String::new();
    for (shift, special, set, unset) in [
        (6, 0o4000, 's', 'S'),
        (3, 0o2000, 's', 'S'),
        (0, 0o1000, 't', 'T'),
    ] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => set,
            (true, false) => unset,
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str, mode: u16) -> u16 {
        ModeChange::parse(text).unwrap().apply(mode, false, 0o022)
    }

    fn directory(text: &str, mode: u16) -> u16 {
        ModeChange::parse(text).unwrap().apply(mode, true, 0o022)
    }

    #[test]
    fn changes_are_those_of_chmod() {
        for (text, before, after) in [
            ("644", 0o4755, 0o644),
            ("u+x", 0o644, 0o744),
            ("a=rX", 0o640, 0o444),
            ("a=rX", 0o740, 0o555),
            ("+X", 0o644, 0o644),
            ("+w", 0o444, 0o644),
            ("-r", 0o644, 0o200),
            ("go=u-w", 0o700, 0o755),
            ("u=g", 0o640, 0o440),
            ("g+s,o+t", 0o755, 0o3755),
            ("u-s", 0o4755, 0o755),
            ("ug=rw,o=", 0o777, 0o660),
            ("=", 0o7777, 0),
            ("=640", 0o777, 0o640),
            ("+111", 0o600, 0o711),
            ("a-x+X", 0o755, 0o644),
            ("=rwx", 0o000, 0o755),
        ] {
            assert_eq!(file(text, before), after, "{text} of {before:o}");
        }
    }

    #[test]
    fn a_directory_keeps_what_is_not_named() {
        for (text, before, after) in [
            ("755", 0o2700, 0o2755),
            ("0755", 0o2700, 0o2755),
            ("00755", 0o2700, 0o755),
            ("u=rwx,go=rx", 0o2700, 0o2755),
            ("g-s", 0o2755, 0o755),
            ("g=s", 0o2770, 0o2700),
            ("4755", 0o2700, 0o6755),
            ("+X", 0o600, 0o711),
            ("=755", 0o2700, 0o755),
        ] {
            assert_eq!(directory(text, before), after, "{text} of {before:o}");
        }
    }

    #[test]
    fn what_is_not_a_mode_is_refused() {
        for text in ["", "8", "77777", "u", "u+q", "u+x,", "z+x", "u+gr", "rwx"] {
            assert!(ModeChange::parse(text).is_err(), "{text}");
        }
    }
}
