//! The phases of mdtest.

use super::MdtestArgs;

/// What the phases are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// Empty directories.
    Directory,
    /// Files, empty unless `-w` is given.
    File,
}

/// What a phase does with each item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// openat with `O_CREAT | O_EXCL` (and write, and fsync) and close, or mkdirat.
    Create,
    /// A look-up and stat.
    Stat,
    /// A look-up and read.
    Read,
    /// unlinkat.
    Remove,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// What it is about.
    pub item: Item,
    pub step: Step,
}

/// The operations of the phases in results, and in mdtest's summary.
const NAMES: [(Item, Step, [&str; 2]); 7] = [
    (
        Item::Directory,
        Step::Create,
        ["dir_create", "Directory creation"],
    ),
    (Item::Directory, Step::Stat, ["dir_stat", "Directory stat"]),
    (
        Item::Directory,
        Step::Remove,
        ["dir_remove", "Directory removal"],
    ),
    (Item::File, Step::Create, ["create", "File creation"]),
    (Item::File, Step::Stat, ["stat", "File stat"]),
    (Item::File, Step::Read, ["read", "File read"]),
    (Item::File, Step::Remove, ["remove", "File removal"]),
];

impl Phase {
    fn names(self) -> [&'static str; 2] {
        let mut all = NAMES.iter();
        let found = all.find(|(item, step, _)| (*item, *step) == (self.item, self.step));
        found.map_or([""; 2], |(_, _, names)| *names)
    }

    /// The operation in results.
    pub fn op(self) -> &'static str {
        self.names()[0]
    }

    /// The operation in mdtest's summary.
    pub fn title(self) -> &'static str {
        self.names()[1]
    }
}

/// The items of a run, directories first.
pub fn items(args: &MdtestArgs) -> &'static [Item] {
    match args.files_only {
        true => &[Item::File],
        false => &[Item::Directory, Item::File],
    }
}

/// Everything that is measured, in its order.
pub fn phases(args: &MdtestArgs) -> Vec<Phase> {
    let all = !(args.create || args.stat || args.read || args.remove);
    let is_chosen = |item: Item, step: Step| {
        let chosen = match step {
            Step::Create => args.create,
            Step::Stat => args.stat,
            Step::Read => args.read,
            Step::Remove => args.remove,
        };
        items(args).contains(&item) && (all || chosen)
    };
    let measured = NAMES
        .iter()
        .filter(|(item, step, _)| is_chosen(*item, *step));
    measured
        .map(|&(item, step, _)| Phase { item, step })
        .collect()
}
