//! How much a copy of trees will be, counted while it runs.

use crate::bar::Bar;
use crate::endpoint::Endpoint;
use crate::system::paths;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use uext4::FileKind;

/// The counting; ended when it is dropped.
pub struct Counting {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Counting {
    /// Counts the bytes of all files below these places, and then gives `bar` its total. Nothing is counted where no bar is shown.
    pub fn begin(places: Vec<(Arc<dyn Endpoint>, PathBuf)>, bar: &Bar) -> Counting {
        let is_over = Arc::new(AtomicBool::new(false));
        let (stop, set_total) = (Arc::clone(&is_over), bar.total());
        let count = move || {
            let bytes = |(endpoint, path): &(Arc<dyn Endpoint>, PathBuf)| {
                bytes_below(&**endpoint, path, &stop)
            };
            if let Some(total) = places.iter().map(bytes).sum() {
                set_total(total);
            }
        };
        let thread = bar.is_wanted().then(|| thread::spawn(count));
        Counting { is_over, thread }
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What it counted is of no use any more.
            let _ = thread.join();
        }
    }
}

/// The bytes of the files below a path; `None` once it is over. What cannot be read counts as nothing: the copy reports it.
fn bytes_below(endpoint: &dyn Endpoint, path: &Path, is_over: &AtomicBool) -> Option<u64> {
    let (mut total, mut stack) = (0, vec![path.to_owned()]);
    let mut directories = HashSet::new();
    while let Some(path) = stack.pop() {
        if is_over.load(Ordering::Relaxed) {
            return None;
        }
        let Ok(Some(found)) = endpoint.find(&path, false) else {
            continue;
        };
        match found.attr.kind {
            FileKind::Regular => total += found.attr.size,
            FileKind::Directory if directories.insert((found.dev, found.attr.ino)) => {
                let names = endpoint.list_undamaged(&path).unwrap_or_default();
                stack.extend(names.iter().map(|name| path.join(paths::path(name))));
            }
            _ => {}
        }
    }
    Some(total)
}
