//! What `bench all` runs: the sections of its report in their order, each one command of `plan.json`.

use super::pair::{Locations, PairSpec, typed_image};
use serde::Deserialize;

/// How long the runs take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// The length that good figures need: half an hour.
    Full,
    /// Three minutes.
    Quick,
    /// A blink each, for tests: figures mean nothing.
    Smoke,
}

/// Stands in a section's words for the image that ours uses.
pub const IMAGE: &str = "{image}";
/// Stands in a section's words for the directory where the kernel has mounted its image.
pub const PEER: &str = "{peer}";
/// Stands in a section's words for the directory where images in memory are.
pub const MEMORY: &str = "{memory}";
/// Stands in a section's words for the kernel as a peer, which needs root.
const KERNEL: &str = "{kernel}";

/// A section with the words and the images of each scale.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    full: String,
    quick: String,
    smoke: String,
    pair: Option<Pair>,
    device: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    mib: [u64; 3],
    journal_mib: [u64; 3],
    inodes: Option<[u64; 3]>,
    options: Option<String>,
    #[serde(default)]
    on_disk: bool,
}

/// One run of a workload.
#[derive(Clone, Debug)]
pub struct Section {
    /// In `--only`, in the report, and in comparisons.
    pub name: String,
    /// The words after `uext4 bench`.
    words: String,
    /// Two images that the run needs, one of them mounted by the kernel.
    pub pair: Option<PairSpec>,
    /// A device that the run can't do without.
    pub device: Option<String>,
}

impl Section {
    fn of(entry: Entry, scale: Scale, root: bool) -> Section {
        let pair = |pair: Pair| PairSpec {
            mib: pair.mib[scale as usize],
            journal_mib: pair.journal_mib[scale as usize],
            inodes: pair.inodes.map_or(16_384, |all| all[scale as usize]),
            options: pair.options.unwrap_or_else(|| "loop".to_owned()),
            on_disk: pair.on_disk,
        };
        let words = match scale {
            Scale::Full => entry.full,
            Scale::Quick => entry.quick,
            Scale::Smoke => entry.smoke,
        };
        Section {
            name: entry.name,
            words: words.replace(KERNEL, if root { "--peer kernel" } else { "" }),
            pair: entry.pair.map(pair),
            device: entry.device,
        }
    }

    /// The words after `uext4 bench`, with what stands for each of the names in them.
    pub fn words(&self, names: &[(&str, &str)]) -> Vec<String> {
        let fill = |word: String, (name, value): &(&str, &str)| word.replace(name, value);
        let filled = |word: &str| names.iter().fold(word.to_owned(), fill);
        self.words.split_whitespace().map(filled).collect()
    }

    /// The command as a user would type it.
    pub fn command(&self, locations: &Locations) -> String {
        let image = self
            .pair
            .as_ref()
            .map(|pair| typed_image(locations.of(pair)));
        let (image, memory) = (image.unwrap_or_default(), &locations.memory);
        let (image, memory) = (image.to_string_lossy(), memory.to_string_lossy());
        let typed = [(IMAGE, &*image), (PEER, "/mnt"), (MEMORY, &*memory)];
        format!("uext4 bench {}", self.words(&typed).join(" "))
    }
}

/// Every section. Peers of the kernel that need root are there with `root`.
pub fn sections(scale: Scale, root: bool) -> serde_json::Result<Vec<Section>> {
    let all: Vec<Entry> = serde_json::from_str(include_str!("plan.json"))?;
    Ok(all
        .into_iter()
        .map(|entry| Section::of(entry, scale, root))
        .collect())
}
