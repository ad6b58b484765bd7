//! A copy of several operands.

use super::data::Copier;
use super::file::FileCopier;
use super::options::{Follow, Options};
use super::walk::{Named, Seen, Walk};
use super::work::Work;
use crate::bar::Bar;
use crate::endpoint::{Endpoint, Target};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, mpsc};
use std::thread;
use uext4::FileKind;

/// Files that were found and wait for a thread. With as many the one that finds them copies too; more threads than that are of no use.
const WAITING_MAX: usize = 64;

/// A copy under way.
pub struct Job<'a> {
    /// What is asked for of the files to come.
    pub options: Options,
    to: &'a dyn Target,
    bar: &'a Bar,
    seen: Seen,
    /// Something below the last operand was not copied.
    failed: bool,
    /// What was copied of the last operand, directories before what is in them.
    copied: Vec<(PathBuf, FileKind)>,
}

impl<'a> Job<'a> {
    /// A copy to `to`.
    pub fn new(options: Options, to: &'a dyn Target, bar: &'a Bar) -> Job<'a> {
        Job {
            options,
            to,
            bar,
            seen: Seen::default(),
            failed: false,
            copied: Vec::new(),
        }
    }

    /// Copies what is at `path`, which an operand names. Files below a directory are copied by several threads.
    ///
    /// # Errors
    /// It is not copied. Failures below a directory are reported.
    pub fn operand(
        &mut self,
        from: &dyn Endpoint,
        path: &Path,
        to: &Path,
        named: Named,
    ) -> Result<()> {
        let files = FileCopier {
            options: self.options,
            from,
            to: self.to,
            bar: self.bar,
        };
        let work = Work::new(files);
        let device = from.find(path, false)?.map_or(0, |found| found.dev);
        let helpers = self.threads(from, path) - 1;
        let (queue, tasks) = mpsc::sync_channel(WAITING_MAX);
        let tasks = Mutex::new(tasks);
        let copied = thread::scope(|scope| {
            let start = || {
                let helper = thread::Builder::new().name("copy".to_owned());
                helper.spawn_scoped(scope, || work.copy_all(&tasks))
            };
            let started = (0..helpers).take_while(|_| start().is_ok()).count();
            let mut walk = Walk {
                work: &work,
                files,
                seen: &mut self.seen,
                above: Vec::new(),
                device,
                copier: Copier::new(self.bar),
                queue: (started > 0).then_some(queue),
            };
            // Without it no more files come, and the threads end.
            let copied = walk.copy(path, to, named, None);
            if copied.is_err() {
                work.stop();
            }
            copied
        });
        let done = work.end();
        self.failed = done.failed;
        self.copied = done.copied;
        copied.and(done.ended_by.map_or(Ok(()), Err))
    }

    /// How many threads copy what is at `path`: more than one if it is a tree, as far as that is known.
    fn threads(&self, from: &dyn Endpoint, path: &Path) -> usize {
        let follows = self.options.follow != Follow::Never;
        let found = from.find(path, follows).ok().flatten();
        let is_directory = found.is_some_and(|found| found.attr.kind == FileKind::Directory);
        let threads = match self.options.threads {
            _ if !is_directory || !self.options.recursive => 1,
            0 => thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        threads.min(WAITING_MAX)
    }

    /// What of the last operand was copied, directories before what is in them; `None` if not all was.
    pub fn all_copied(&self) -> Option<&[(PathBuf, FileKind)]> {
        (!self.failed).then_some(&self.copied)
    }
}
