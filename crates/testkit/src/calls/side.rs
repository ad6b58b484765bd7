//! What both sides do, and what they answer.

use super::call::{At, Call};
use super::person::Person;
use crate::external::*;
use std::fmt;

/// A timestamp as far as it can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// Of today.
    Recent,
    /// As it was set.
    Set(i64, u32),
}

impl Time {
    pub fn new(sec: i64, nsec: u32) -> Time {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("after 1970");
        match (now.as_secs().cast_signed() - sec).abs() < 86_400 {
            true => Time::Recent,
            false => Time::Set(sec, nsec),
        }
    }
}

/// Space in sectors. Whether a file of some extents needs a block for them depends on how they were merged on the way.
#[derive(Clone, Copy, Debug)]
pub struct Blocks(pub u64);

impl PartialEq for Blocks {
    fn eq(&self, other: &Blocks) -> bool {
        self.0.abs_diff(other.0) <= 8
    }
}

impl Eq for Blocks {}

/// Attributes but for the times that cannot be the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    pub kind: FileKind,
    pub mode: u16,
    pub nlink: u32,
    pub owner: (u32, u32),
    pub size: u64,
    pub blocks: Blocks,
    pub rdev: (u32, u32),
    /// Of access and of the last change of the data.
    pub times: [Time; 2],
}

/// What a call gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Nothing,
    Number(u64),
    Bytes(Vec<u8>),
    Names(Vec<Vec<u8>>),
    Stat(Stat),
    /// Flags as chattr(1) knows them, and the project.
    Flags(u32, u32),
}

/// A value or an errno.
pub type Answer = Result<Value, i32>;

/// Which of the times of access, data and attributes a call changed.
pub type Changed = [bool; 3];

/// A name in a tree at the end.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    pub stat: Stat,
    /// Content, or target.
    pub data: Vec<u8>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Of files and directories.
    pub flags: Option<Value>,
    /// The first name of the same file.
    pub first_name: Vec<u8>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} flags {:?}", self.stat, self.flags)?;
        let name = |n: &[u8]| String::from_utf8_lossy(n).into_owned();
        for (attribute, value) in &self.xattrs {
            write!(f, " {}={value:x?}", name(attribute))?;
        }
        // Content as runs of bytes.
        write!(f, " same as {} data", name(&self.first_name))?;
        for run in self.data.chunk_by(|a, b| a == b) {
            write!(f, " {}x{:x}", run.len(), run[0])?;
        }
        Ok(())
    }
}

pub type Tree = BTreeMap<Vec<u8>, Entry>;

/// A file system that is called.
pub trait Side {
    /// A directory of its own for a sequence.
    fn begin(&mut self, name: &str);
    /// Makes a call.
    fn call(&mut self, who: &Person, call: &Call) -> Answer;
    /// What a name is; the superuser looks.
    fn kind(&self, at: &At) -> Option<FileKind>;
    /// Sets the times of all that a call concerns to `sec`, and remembers them.
    fn age(&mut self, call: &Call, sec: i64);
    /// What has changed since [`Side::age`]; `None` where the times could not be set.
    fn changed(&mut self) -> Vec<(String, Option<Changed>)>;
    /// All below the directory of the sequence.
    fn tree(&mut self) -> Tree;
    /// Closes what is open, and removes everything.
    fn end(&mut self);
}
