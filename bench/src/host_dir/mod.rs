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

/// The directories that are given.
#[derive(Clone, Debug, Args)]
pub struct PeerArgs {
    /// A directory of another file system, which does the same in turn; a comma list of several, each as NAME=DIR
    #[arg(long = "peer", value_name = "DIR", value_delimiter = ',', value_parser = parse_peer)]
    pub all: Vec<PeerDir>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerDir {
    /// Its name in results.
    pub name: String,
    pub dir: PathBuf,
}

fn parse_peer(text: &str) -> Result<PeerDir, String> {
    let (name, dir) = match text.split_once('=') {
        Some(("", _) | (_, "")) => return Err(format!("`{text}` is neither DIR nor NAME=DIR")),
        Some((name, dir)) => (format!("{PEER} {name}"), dir),
        None => (PEER.to_owned(), text),
    };
    let dir = dir.into();
    Ok(PeerDir { name, dir })
}

impl PeerArgs {
    /// Their names in results.
    pub fn all_series(&self) -> Vec<&str> {
        self.all.iter().map(|peer| &*peer.name).collect()
    }

    /// The names of all that take turns: the variants, then the peers.
    pub fn names(&self, variants: &[Variant]) -> Vec<String> {
        let ours = variants.iter().map(|variant| &variant.name);
        let peers = self.all.iter().map(|peer| &peer.name);
        ours.chain(peers).cloned().collect()
    }

    /// Makes the directories of a run in each, as [`HostTree::make`] does.
    pub fn trees(&self, top_name: &'static str, names: &[String]) -> anyhow::Result<Vec<HostTree>> {
        let make = |peer: &PeerDir| HostTree::make(&peer.dir, top_name, names.to_vec());
        self.all.iter().map(make).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_have_names() {
        let parsed = |text| parse_peer(text).map(|peer| (peer.name, peer.dir));
        assert_eq!(parsed("/mnt"), Ok(("peer".to_owned(), "/mnt".into())));
        assert_eq!(
            parsed("kernel=/a=b"),
            Ok(("peer kernel".to_owned(), "/a=b".into()))
        );
        parsed("=/mnt").expect_err("no name");
        parsed("kernel=").expect_err("no directory");
    }
}
