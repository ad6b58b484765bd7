//! A directory of the host that takes turns with the variants: the same work, done by system calls.
//!
//! | module | holds |
//! | --- | --- |
//! | `tree` | what a run makes in it, and removes |
//! | `dir` | what a worker does in its directory |

mod dir;
mod tree;

pub use tree::HostTree;

use crate::report::PEER;
use crate::variants::Variant;
use clap::Args;
use std::path::PathBuf;

/// The directory, if one is given.
#[derive(Clone, Debug, Args)]
pub struct PeerArgs {
    /// A directory of another file system, which does the same in turn
    #[arg(long = "peer", value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

impl PeerArgs {
    /// Its name in results, where there is one.
    pub fn all_series(&self) -> &'static [&'static str] {
        match self.dir {
            Some(_) => &[PEER],
            None => &[],
        }
    }

    /// The names of all that take turns: the variants, then the peer.
    pub fn names(&self, variants: &[Variant]) -> Vec<String> {
        let ours = variants.iter().map(|variant| variant.name.clone());
        let peers = self.all_series().iter().map(|name| (*name).to_owned());
        ours.chain(peers).collect()
    }

    /// Makes the directories of a run in it, as [`HostTree::make`] does.
    pub fn tree(
        &self,
        top_name: &'static str,
        names: Vec<String>,
    ) -> anyhow::Result<Option<HostTree>> {
        let make = |dir| HostTree::make(dir, top_name, names);
        self.dir.as_deref().map(make).transpose()
    }
}
