//! Which pairs of calls commute, and which lines they share.

use super::call::What;
use super::cases::{Case, Scope};
use super::place::{Place, Places};
use super::record::{Recording, Site};
use std::collections::BTreeMap;
use std::rc::Rc;
use uext4_testkit::model::Model;
use uext4_testkit::tree::{Entry, Tree};

/// Where one call writes a line and the other reads or writes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shared {
    pub writer: Rc<Place>,
    pub other: Rc<Place>,
    /// The other writes, too.
    pub both_write: bool,
    /// It is the allocator's or the device's in memory, not ours.
    pub of_others: bool,
}

/// Two calls that commute, and the lines that they share.
pub struct Pair {
    pub names: [String; 2],
    pub kind: Kind,
    pub shared: Vec<Shared>,
}

impl Pair {
    /// No line of ours is shared.
    pub fn is_conflict_free(&self) -> bool {
        self.shared.iter().all(|shared| shared.of_others)
    }
}

/// What two calls on files are counted by, if they commute.
pub fn kind_of_files(initial: &Model, [a, b]: [&Case; 2]) -> Option<Kind> {
    if !commute(initial, [a, b]) {
        return None;
    }
    let walks = [a, b].map(|case| case.call.what == What::StatPath);
    // Two walks look a name up in the root.
    let shared_dir = a.call.directory() == b.call.directory() || walks == [true; 2];
    Some(if a.call.allocates() || b.call.allocates() {
        Kind::Allocates
    } else if a.scope == Scope::File && b.scope == Scope::File {
        Kind::SharedFile
    } else if shared_dir && (a.call.names() || b.call.names()) {
        Kind::SharedDirectory
    } else {
        Kind::Apart
    })
}

/// Kinds of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Neither a file, a queue nor names in common, and no blocks allocated or freed.
    Apart,
    /// The same file.
    SharedFile,
    /// The same queue.
    SharedQueue,
    /// Names of one directory.
    SharedDirectory,
    /// Names of one namespace.
    SharedNamespace,
    /// One of them allocates or frees blocks.
    Allocates,
}

impl Kind {
    pub const ALL: [Kind; 6] = [
        Kind::Apart,
        Kind::SharedFile,
        Kind::SharedQueue,
        Kind::SharedDirectory,
        Kind::SharedNamespace,
        Kind::Allocates,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Apart => "apart",
            Kind::SharedFile => "one file",
            Kind::SharedQueue => "one queue",
            Kind::SharedNamespace => "names of one namespace",
            Kind::SharedDirectory => "names of one directory",
            Kind::Allocates => "blocks allocated or freed",
        }
    }
}

/// The tree without what the order may decide: the numbers of new files.
fn comparable(tree: Tree) -> Vec<(Vec<u8>, Entry)> {
    let entries = tree.into_iter();
    entries
        .map(|(path, entry)| (path, Entry { ino: 0, ..entry }))
        .collect()
}

/// Whether both calls learn the same and leave the same, whichever is first.
fn commute(initial: &Model, cases: [&Case; 2]) -> bool {
    let outcome = |first: usize| {
        let mut model = initial.clone();
        let mut learned = [String::new(), String::new()];
        for which in [first, 1 - first] {
            learned[which] = cases[which].call.on_model(&mut model, which as u8);
        }
        (learned, comparable(model.tree()))
    };
    outcome(0) == outcome(1)
}

/// The lines that two calls share, each place once.
pub fn shared(places: &mut Places, a: &Recording, b: &Recording) -> Vec<Shared> {
    let mut found = BTreeMap::new();
    for (line, touch) in &a.lines {
        let Some(other) = b.lines.get(line) else {
            continue;
        };
        let (writer, reader) = match (&touch.write, &other.write) {
            (Some(ours), Some(theirs)) => (ours, theirs),
            (Some(ours), None) => match &other.read {
                Some(read) => (ours, read),
                None => continue,
            },
            (None, Some(theirs)) => match &touch.read {
                Some(read) => (theirs, read),
                None => continue,
            },
            (None, None) => continue,
        };
        let both_write = touch.write.is_some() && other.write.is_some();
        if let Some(shared) = describe(places, writer, reader, both_write) {
            found.insert(shared, ());
        }
    }
    found.into_keys().collect()
}

fn describe(places: &mut Places, writer: &Site, other: &Site, both_write: bool) -> Option<Shared> {
    let (by_allocator, writer, other) = (
        writer.by_allocator || other.by_allocator,
        places.of(writer)?,
        places.of(other)?,
    );
    let by_device = writer.is_of_device() && other.is_of_device();
    Some(Shared {
        writer,
        other,
        both_write,
        of_others: by_allocator || by_device,
    })
}
