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

impl Phase {
    /// The operation in results.
    pub const fn op(self) -> &'static str {
        match (self.item, self.step) {
            (Item::File, Step::Create) => "create",
            (Item::File, Step::Stat) => "stat",
            (_, Step::Read) => "read",
            (Item::File, Step::Remove) => "remove",
            (Item::Directory, Step::Create) => "dir_create",
            (Item::Directory, Step::Stat) => "dir_stat",
            (Item::Directory, Step::Remove) => "dir_remove",
        }
    }

    /// The operation in mdtest's summary.
    pub const fn title(self) -> &'static str {
        match (self.item, self.step) {
            (Item::File, Step::Create) => "File creation",
            (Item::File, Step::Stat) => "File stat",
            (_, Step::Read) => "File read",
            (Item::File, Step::Remove) => "File removal",
            (Item::Directory, Step::Create) => "Directory creation",
            (Item::Directory, Step::Stat) => "Directory stat",
            (Item::Directory, Step::Remove) => "Directory removal",
        }
    }
}

/// The items of a run, directories first.
pub fn items(args: &MdtestArgs) -> &'static [Item] {
    match args.files_only {
        true => &[Item::File],
        false => &[Item::Directory, Item::File],
    }
}

/// The steps that are measured for an item.
pub fn steps(args: &MdtestArgs, item: Item) -> Vec<Step> {
    let all = !(args.create || args.stat || args.read || args.remove);
    [
        (Step::Create, args.create),
        (Step::Stat, args.stat),
        (Step::Read, args.read),
        (Step::Remove, args.remove),
    ]
    .into_iter()
    .filter(|(step, chosen)| (all || *chosen) && (item == Item::File || *step != Step::Read))
    .map(|(step, _)| step)
    .collect()
}

/// Everything that is measured, in its order.
pub fn phases(args: &MdtestArgs) -> Vec<Phase> {
    items(args)
        .iter()
        .flat_map(|&item| {
            let steps = steps(args, item);
            steps.into_iter().map(move |step| Phase { item, step })
        })
        .collect()
}
