//! Files that were durable, as fsync(2) reported, and have not been touched since.

use std::sync::Mutex;
use uext4_testkit::prelude::*;

/// What makes a content: a seed and a length.
pub type Content = (u64, u64);

/// Which files there must be, by their makers.
#[derive(Debug, Default)]
pub struct DurableFiles(Mutex<BTreeMap<u64, Vec<(PathBuf, Content)>>>);

impl DurableFiles {
    /// The bytes of a content.
    pub fn bytes(content: Content) -> Vec<u8> {
        let mut rng = Rng::with_seed(content.0);
        (0..content.1).map(|_| rng.u8(..)).collect()
    }

    /// The file is durable.
    pub fn make(&self, worker: u64, path: PathBuf, content: Content) {
        let mut all = self.0.lock().expect("whole");
        all.entry(worker).or_default().push((path, content));
    }

    /// One of the worker's own files, about which nothing is guaranteed any more.
    pub fn take(&self, worker: u64, rng: &mut Rng) -> Option<(PathBuf, Content)> {
        let mut all = self.0.lock().expect("whole");
        let own = all.get_mut(&worker)?;
        (!own.is_empty()).then(|| own.swap_remove(rng.usize(..own.len())))
    }

    /// Forgets all but the last `kept` of each worker, and gives their files.
    pub fn retire(&self, kept: usize) -> Vec<PathBuf> {
        let mut all = self.0.lock().expect("whole");
        let mut retired = Vec::new();
        for own in all.values_mut() {
            let old = own.len().saturating_sub(kept);
            retired.extend(own.drain(..old).map(|(path, _)| path));
        }
        retired
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.lock().expect("whole").values().map(Vec::len).sum()
    }

    /// Those that are not kept; `dir` is what the paths lie in.
    pub fn broken(&self, dir: &Path) -> Vec<String> {
        let all = self.0.lock().expect("whole");
        let mut broken = Vec::new();
        for (path, content) in all.values().flatten() {
            assert!(path.starts_with(dir));
            match std::fs::read(path) {
                Ok(found) if found == DurableFiles::bytes(*content) => {}
                Ok(found) => broken.push(format!(
                    "{}: {} bytes of {}, or others",
                    path.display(),
                    found.len(),
                    content.1
                )),
                Err(e) => broken.push(format!("{}: {e}", path.display())),
            }
        }
        broken
    }
}
