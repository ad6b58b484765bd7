//! The files that a walk found, which its thread and others copy.

use super::data::Copier;
use super::file::{FileCopier, FileCopy};
use super::options::Report;
use crate::{failures, mode, quoted};
use anyhow::Result;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use uext4::FileKind;
use uext4::unstable::{Attr, SetAttr};

/// A directory that is copied; held by the walk and by each file and directory below it that is not copied yet.
pub struct Directory {
    /// The one that it is in; none for an operand.
    pub within: Option<Arc<Directory>>,
    /// Its path.
    pub path: PathBuf,
    /// Its attributes.
    pub attr: Attr,
    /// The path of the copy.
    pub to: PathBuf,
    /// Whether the copy was made, and not found.
    pub is_new: bool,
}

/// A thread that panics ends the process.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file in a directory.
pub type Task = (FileCopy, Arc<Directory>);

/// What the threads of a copy share.
pub struct Work<'a> {
    files: FileCopier<'a>,
    failed: AtomicBool,
    copied: Mutex<Vec<(PathBuf, FileKind)>>,
    /// Files that were handed over and are not copied yet.
    left: Mutex<usize>,
    none_left: Condvar,
    /// Nothing more is to be copied.
    is_over: AtomicBool,
    ended_by: Mutex<Option<anyhow::Error>>,
}

/// What came of a copy.
pub struct Done {
    /// Something was not copied.
    pub failed: bool,
    /// What was copied, if that is wanted, directories before what is in them.
    pub copied: Vec<(PathBuf, FileKind)>,
    /// Why the rest was not copied.
    pub ended_by: Option<anyhow::Error>,
}

impl<'a> Work<'a> {
    /// Nothing copied.
    pub fn new(files: FileCopier<'a>) -> Work<'a> {
        Work {
            files,
            failed: AtomicBool::new(false),
            copied: Mutex::default(),
            left: Mutex::default(),
            none_left: Condvar::new(),
            is_over: AtomicBool::new(false),
            ended_by: Mutex::default(),
        }
    }

    /// Copies files until no more come.
    pub fn copy_all(&self, tasks: &Mutex<Receiver<Task>>) {
        let mut copier = Copier::new(self.files.bar);
        let next = || lock(tasks).recv();
        while let Ok(task) = next() {
            self.copy(task, &mut copier);
        }
    }

    /// Leaves a file to another thread, or has `copier` copy it if `queue` is full.
    pub fn add(&self, task: Task, queue: Option<&SyncSender<Task>>, copier: &mut Copier<'_>) {
        *lock(&self.left) += 1;
        let left = match queue {
            None => Some(task),
            Some(queue) => queue.try_send(task).err().map(|e| match e {
                TrySendError::Full(task) | TrySendError::Disconnected(task) => task,
            }),
        };
        if let Some(task) = left {
            self.copy(task, copier);
        }
    }

    /// Waits until all files are copied that were added.
    pub fn wait(&self) {
        let some_left = |left: &mut usize| *left > 0;
        // The count stands for nothing but itself.
        drop(self.none_left.wait_while(lock(&self.left), some_left));
    }

    /// Copies a file. A failure is reported, one that ends the command kept for [`Work::check`].
    fn copy(&self, (file, within): Task, copier: &mut Copier<'_>) {
        if !self.is_over.load(Ordering::Relaxed) {
            let copied = self.files.copy(&file, copier);
            self.settle(copied.and_then(|()| {
                let kind = file.attr.kind;
                self.print(&file.path, &file.to, kind)?;
                self.note(file.path, kind);
                Ok(())
            }));
        }
        self.leave(within);
        let mut left = lock(&self.left);
        *left -= 1;
        if *left == 0 {
            self.none_left.notify_all();
        }
    }

    /// Releases a directory. The last to do so gives the copy what is kept, which files that are made in it would change.
    pub fn leave(&self, directory: Arc<Directory>) {
        let mut last = Arc::into_inner(directory);
        while let Some(directory) = last {
            if !self.is_over.load(Ordering::Relaxed) {
                self.settle(self.keep(&directory));
            }
            last = directory.within.and_then(Arc::into_inner);
        }
    }

    fn keep(&self, directory: &Directory) -> Result<()> {
        let FileCopier { options, to, .. } = self.files;
        let mode = directory.attr.mode & 0o777;
        if !options.preserve.mode && directory.is_new && mode & 0o700 != 0o700 {
            let change = SetAttr {
                mode: Some(mode & !mode::umask()),
                ..SetAttr::default()
            };
            to.set_attr(&directory.to, FileKind::Directory, &change)?;
        }
        self.files
            .keep(&directory.path, &directory.attr, &directory.to)
    }

    fn settle(&self, done: Result<()>) {
        let reported = done.or_else(|e| self.report(e));
        if let Err(e) = reported {
            lock(&self.ended_by).get_or_insert(e);
            self.stop();
        }
    }

    /// Nothing more is to be copied.
    pub fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Reports a failure below an operand.
    ///
    /// # Errors
    /// As [`failures::report`].
    pub fn report(&self, e: anyhow::Error) -> Result<()> {
        self.leave_out();
        failures::report(e)
    }

    /// Notes that something is not copied.
    pub fn leave_out(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Prints that something was copied, if that is asked for.
    ///
    /// # Errors
    /// Those of standard output.
    pub fn print(&self, path: &Path, to: &Path, kind: FileKind) -> Result<()> {
        let report = self.files.options.report;
        if report == Report::Nothing {
            return Ok(());
        }
        let (name, other) = (
            quoted::always(self.files.from.display(path)),
            quoted::always(self.files.to.display(to)),
        );
        let line = match report {
            Report::Nothing => return Ok(()),
            Report::Copies => format!("{name} -> {other}"),
            Report::Moves if kind == FileKind::Directory => format!("created directory {other}"),
            Report::Moves => format!("copied {name} -> {other}"),
        };
        Ok(writeln!(std::io::stdout(), "{line}")?)
    }

    /// Notes that something was copied, where that is to be removed.
    pub fn note(&self, path: PathBuf, kind: FileKind) {
        if self.files.options.moves {
            lock(&self.copied).push((path, kind));
        }
    }

    /// Fails once a thread had an error that ends the command.
    ///
    /// # Errors
    /// That one.
    pub fn check(&self) -> Result<()> {
        if !self.is_over.load(Ordering::Relaxed) {
            return Ok(());
        }
        lock(&self.ended_by).take().map_or(Ok(()), Err)
    }

    /// What came of it.
    pub fn end(self) -> Done {
        let mut copied = std::mem::take(&mut *lock(&self.copied));
        copied.sort_by(|(a, _), (b, _)| a.cmp(b));
        let ended_by = lock(&self.ended_by).take();
        Done {
            failed: self.failed.into_inner(),
            copied,
            ended_by,
        }
    }
}
