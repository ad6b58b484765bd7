//! The operations that sequences are made of, and their numbers.
//!
//! Every sequence begins with the same tree: the files `a` (4,700 bytes), `b` (with a hole and an attribute),
//! `j` (its data is journaled) and `d/x`, the directories `d` and `e` (empty), and the link `l`.

use super::base::TOP;
use crate::external::*;
use crate::model::Model;
use crate::operation::Op;
use crate::operation::split;

/// What follows an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Nothing.
    None,
    /// fsync(2) of what it changed.
    Fsync,
    /// fdatasync(2) of what it changed.
    Fdatasync,
    /// syncfs(2).
    Syncfs,
}

impl Sync {
    /// All of them.
    pub const ALL: [Sync; 4] = [Sync::None, Sync::Fsync, Sync::Fdatasync, Sync::Syncfs];
}

/// An operation and what follows it.
#[derive(Clone, Debug)]
pub struct Step {
    /// The operation.
    pub op: Op,
    /// What follows.
    pub sync: Sync,
}

impl Step {
    /// The call that follows, on what is there after the operation.
    pub fn sync_op(&self, after: &Model) -> Option<Op> {
        let data_only = match self.sync {
            Sync::None => return None,
            Sync::Syncfs => return Some(Op::Syncfs),
            Sync::Fsync => false,
            Sync::Fdatasync => true,
        };
        let path = target(&self.op);
        let is_link = matches!(self.op, Op::Symlink { .. });
        let path = match after.find(path) {
            Ok(_) if !is_link => path.to_vec(),
            _ => split(path).0.to_vec(),
        };
        Some(Op::Fsync { path, data_only })
    }
}

/// What an operation is about, as it is called afterwards.
fn target(op: &Op) -> &[u8] {
    match op {
        Op::Create { path, .. }
        | Op::Mkdir { path, .. }
        | Op::Symlink { path, .. }
        | Op::Unlink { path, .. }
        | Op::Rmdir { path }
        | Op::Write { path, .. }
        | Op::Fallocate { path, .. }
        | Op::Append { path, .. }
        | Op::Truncate { path, .. }
        | Op::Chmod { path, .. }
        | Op::SetXattr { path, .. }
        | Op::RemoveXattr { path, .. }
        | Op::JournalData { path, .. }
        | Op::Fsync { path, .. } => path,
        Op::Link { new, .. } | Op::Rename { new, .. } => new,
        Op::Syncfs => b"",
    }
}

fn at(name: &str) -> Vec<u8> {
    format!("{TOP}/{name}").into_bytes()
}

fn write(name: &str, offset: u64, len: usize, byte: u8, direct: bool) -> Op {
    Op::Write {
        path: at(name),
        at: offset,
        data: (0..len).map(|i| byte ^ (i / 512) as u8).collect(),
        direct,
    }
}

fn rename(old: &str, new: &str, flags: RenameFlags) -> Op {
    Op::Rename {
        old: at(old),
        new: at(new),
        flags,
    }
}

fn fallocate(name: &str, what: Fallocate, offset: u64, len: u64) -> Op {
    Op::Fallocate {
        path: at(name),
        what,
        at: offset,
        len,
    }
}

fn truncate(name: &str, size: u64) -> Op {
    Op::Truncate {
        path: at(name),
        size,
    }
}

fn names() -> Vec<Op> {
    let none = RenameFlags::empty();
    let unlink = |name, keep| Op::Unlink {
        path: at(name),
        keep,
    };
    vec![
        Op::Create {
            path: at("c"),
            mode: 0o600,
        },
        Op::Create {
            path: at("d/y"),
            mode: 0o640,
        },
        Op::Mkdir {
            path: at("n"),
            mode: 0o700,
        },
        Op::Symlink {
            path: at("s"),
            target: vec![b't'; 100],
        },
        Op::Link {
            old: at("a"),
            new: at("d/h"),
        },
        unlink("a", false),
        unlink("b", true),
        unlink("j", false),
        unlink("d/x", false),
        Op::Rmdir { path: at("e") },
        rename("a", "c", none),
        rename("a", "b", none),
        rename("d/x", "a", none),
        rename("a", "d/x", RenameFlags::EXCHANGE),
        rename("d", "b", RenameFlags::EXCHANGE),
        rename("a", "d/n", RenameFlags::NOREPLACE),
        rename("d", "e/d", none),
        rename("d", "e", none),
        rename("a", "w", RenameFlags::WHITEOUT),
    ]
}

fn data() -> Vec<Op> {
    use Fallocate::{Allocate, AllocateKeepSize, CollapseRange, InsertRange, PunchHole, ZeroRange};
    let append = |name: &str, len, byte: u8| Op::Append {
        path: at(name),
        data: vec![byte; len],
    };
    vec![
        append("a", 300, 0x51),
        append("a", 3000, 0x52),
        append("j", 1500, 0x53),
        write("a", 512, 2000, 0x60, false),
        write("j", 1024, 1024, 0x61, false),
        write("b", 1024, 2048, 0x62, false),
        write("d/x", 0, 40_000, 0x63, false),
        write("a", 1024, 2048, 0x70, true),
        write("a", 4096, 3072, 0x71, true),
        write("b", 1536, 1024, 0x72, true),
        truncate("a", 0),
        truncate("a", 1500),
        truncate("a", 9000),
        truncate("j", 1000),
        fallocate("a", PunchHole, 1024, 2048),
        fallocate("a", PunchHole, 500, 2000),
        fallocate("j", PunchHole, 0, 2048),
        fallocate("a", ZeroRange, 700, 2600),
        fallocate("a", CollapseRange, 1024, 2048),
        fallocate("a", InsertRange, 1024, 2048),
        fallocate("a", AllocateKeepSize, 4096, 6000),
        fallocate("b", Allocate, 0, 8192),
    ]
}

fn attributes() -> Vec<Op> {
    let set = |name: &str, attribute: &str, len| Op::SetXattr {
        path: at(name),
        name: format!("user.{attribute}").into_bytes(),
        value: vec![b'v'; len],
    };
    let journal = |name, on| Op::JournalData { path: at(name), on };
    vec![
        set("a", "y", 20),
        set("a", "z", 600),
        set("b", "x", 25),
        Op::RemoveXattr {
            path: at("b"),
            name: b"user.x".to_vec(),
        },
        Op::Chmod {
            path: at("a"),
            mode: 0o400,
        },
        journal("a", true),
        journal("j", false),
    ]
}

/// Every operation, in the order of their numbers.
pub fn operations() -> Vec<Op> {
    let mut all = names();
    all.append(&mut data());
    all.append(&mut attributes());
    all
}

/// Every sequence of so many steps.
#[derive(Clone, Debug)]
pub struct Sequences {
    ops: Vec<Op>,
    steps: u32,
}

impl Sequences {
    /// Those of `steps` steps.
    pub fn of(steps: u32) -> Sequences {
        Sequences {
            ops: operations(),
            steps,
        }
    }

    /// The number of steps.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    fn choices(&self) -> u64 {
        (self.ops.len() * Sync::ALL.len()) as u64
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.choices().pow(self.steps)
    }

    /// The sequence of this number, below [`Sequences::count`]; the last step's digit is the first.
    pub fn get(&self, number: u64) -> Vec<Step> {
        let mut rest = number;
        let mut steps: Vec<Step> = (0..self.steps)
            .map(|_| {
                let choice = (rest % self.choices()) as usize;
                rest /= self.choices();
                Step {
                    op: self.ops[choice / Sync::ALL.len()].clone(),
                    sync: Sync::ALL[choice % Sync::ALL.len()],
                }
            })
            .collect();
        steps.reverse();
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::base::{Base, CONFIGS};

    #[test]
    fn numbers_name_all_sequences() {
        let two = Sequences::of(2);
        assert_eq!(two.count(), Sequences::of(1).count().pow(2));
        let mut seen = std::collections::HashSet::new();
        for number in (0..two.count()).step_by(7) {
            assert!(seen.insert(format!("{:?}", two.get(number))), "{number}");
        }
    }

    /// No operation of the alphabet fails at the start, so that a sequence of one does something.
    #[test]
    fn every_operation_works_at_the_start() {
        let base = Base::new(CONFIGS[0]).expect("an image");
        for op in operations() {
            let done = base.model.clone().apply(&op);
            assert_eq!(done, Ok(()), "{op:?}");
        }
    }
}
