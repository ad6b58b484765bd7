//! Connectivity: going up from any directory leads to the root, and `..` agrees.

use crate::dirs::{Dir, Dirs};
use crate::prelude::*;

/// What is known of a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Unseen,
    /// On the way that is being walked.
    Walking,
    Done,
}

/// Checks every directory.
pub(crate) fn run(dirs: &Dirs, faults: &mut Faults) {
    let mut marks = vec![Mark::Unseen; dirs.dirs.len()];
    let mut way = Vec::new();
    for (i, dir) in dirs.dirs.iter().enumerate() {
        check_dot_dot(dir, faults);
        walk_up(dirs, i, &mut marks, &mut way, faults);
        for at in way.drain(..) {
            if let Some(m) = marks.get_mut(at) {
                *m = Mark::Done;
            }
        }
    }
}

fn parent(dir: &Dir) -> Ino {
    if dir.ino == Ino::ROOT {
        return Ino::ROOT;
    }
    Ino(dir.parent.load(Ordering::Relaxed))
}

fn check_dot_dot(dir: &Dir, faults: &mut Faults) {
    let (want, have) = (parent(dir), Ino(dir.dot_dot.load(Ordering::Relaxed)));
    if want == Ino::NONE {
        faults.push(Fault::new(FaultKind::DirUnconnected).ino(dir.ino));
    } else if have != Ino::NONE && have != want {
        let fault = Fault::new(FaultKind::DirDotDotParent).ino(dir.ino);
        faults.push(fault.detail(format_args!("is inode {have}, not {want}")));
    }
}

fn walk_up(dirs: &Dirs, i: usize, marks: &mut [Mark], way: &mut Vec<usize>, faults: &mut Faults) {
    let mut at = i;
    loop {
        let (Some(dir), Some(mark)) = (dirs.dirs.get(at), marks.get_mut(at)) else {
            return;
        };
        match *mark {
            Mark::Done => return,
            Mark::Walking => {
                faults.push(Fault::new(FaultKind::DirLoop).ino(dir.ino));
                return;
            }
            Mark::Unseen => *mark = Mark::Walking,
        }
        way.push(at);
        let up = parent(dir);
        if up == dir.ino {
            return;
        }
        match dirs.dirs.binary_search_by_key(&up, |d| d.ino) {
            Ok(next) => at = next,
            Err(_) => return,
        }
    }
}
