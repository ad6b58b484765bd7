//! What a case does in its directory, line by line: each call says what was called, and what it answered.
//!
//! A call that fails gives -1, and its use as a descriptor fails with `EBADF` on either side: cases need not
//! check what they get.

use std::fmt::{Display, Write as _};
use std::io::{Error, Write as _};
use uext4_testkit::prelude::*;

/// What a call gives: something, or an errno.
pub type Answer<T> = Result<T, i32>;

/// A system call of the C library.
macro_rules! call {
    ($function:expr $(, $argument:expr)* $(,)?) => {
        // SAFETY: what pointers point at belongs to the caller of the method, or to it, and lives through the call.
        $crate::scene::check(unsafe { $function($($argument),*) } as i64)
    };
}
pub(crate) use call;

/// What `result` says, with the errno of this moment.
pub fn check(result: i64) -> Answer<i64> {
    match result {
        -1 => Err(Error::last_os_error().raw_os_error().unwrap_or(0)),
        n => Ok(n),
    }
}

/// The path as the kernel takes it.
pub fn text(path: impl AsRef<[u8]>) -> CString {
    CString::new(path.as_ref()).expect("no zero byte")
}

/// The path as a line shows it.
pub fn short(path: impl AsRef<[u8]>) -> String {
    let path = path.as_ref();
    match path.len() {
        0..60 => path.escape_ascii().to_string(),
        len => format!("{}...({len} bytes)", path[..8].escape_ascii()),
    }
}

/// Bytes as runs.
pub fn runs(bytes: &[u8]) -> String {
    let mut text = format!("{} bytes", bytes.len());
    for run in bytes.chunk_by(|a, b| a == b).take(12) {
        write!(text, " {}x{}", run.len(), run[0].escape_ascii()).expect("text");
    }
    text
}

/// The name of an errno.
pub fn errno(code: i32) -> String {
    match Errno(code).name() {
        "EUNKNOWN" => format!("errno {code}"),
        name => name.to_owned(),
    }
}

/// Ends this process, and nothing that the one it came from had to do at its end.
pub fn exit(code: i32) -> ! {
    // SAFETY: no memory is passed.
    unsafe { libc::_exit(code) }
}

pub struct Scene {
    out: File,
    inodes: BTreeMap<u64, usize>,
}

impl Scene {
    /// One whose lines go into a file.
    pub fn new(out: File) -> Scene {
        Scene {
            out,
            inodes: BTreeMap::new(),
        }
    }

    /// Says something.
    pub fn line(&mut self, text: impl Display) {
        writeln!(self.out, "{text}").expect("memory");
    }

    /// Says what was called, and a number that it gave.
    pub fn number(&mut self, what: impl Display, answer: Answer<i64>) -> i64 {
        match answer {
            Ok(n) => self.line(format_args!("{what} = {n}")),
            Err(e) => self.line(format_args!("{what}: {}", errno(e))),
        }
        answer.unwrap_or(-1)
    }

    /// Says what was called, and whether it was done; its number does not matter.
    pub fn done(&mut self, what: impl Display, answer: Answer<i64>) -> i32 {
        match answer {
            Ok(_) => self.line(format_args!("{what} done")),
            Err(e) => self.line(format_args!("{what}: {}", errno(e))),
        }
        answer.unwrap_or(-1) as i32
    }

    /// Says what was called, and what it gave.
    pub fn shown(&mut self, what: impl Display, answer: Answer<impl Display>) {
        match answer {
            Ok(shown) => self.line(format_args!("{what} = {shown}")),
            Err(e) => self.line(format_args!("{what}: {}", errno(e))),
        }
    }

    /// An inode's number, as how many others there were before it.
    pub fn inode(&mut self, number: u64) -> usize {
        let next = self.inodes.len();
        *self.inodes.entry(number).or_insert(next)
    }

    /// Waits until the clock of timestamps has moved on.
    pub fn tick(&self) {
        std::thread::sleep(Duration::from_millis(12));
    }

    /// Does something as a user with these groups, the first of which is its own.
    pub fn as_user(&mut self, uid: u32, groups: &[u32], run: impl FnOnce(&mut Scene)) {
        self.line(format_args!("as user {uid} of {groups:?}"));
        let (keep, root) = (0, 0u32);
        let more = &groups[1..];
        call!(
            libc::syscall,
            libc::SYS_setgroups,
            more.len(),
            more.as_ptr()
        )
        .expect("as root");
        call!(
            libc::syscall,
            libc::SYS_setresgid,
            groups[0],
            groups[0],
            keep
        )
        .expect("as root");
        call!(libc::syscall, libc::SYS_setresuid, uid, uid, keep).expect("as root");
        run(self);
        call!(libc::syscall, libc::SYS_setresuid, root, root, root).expect("was root");
        call!(libc::syscall, libc::SYS_setresgid, root, root, root).expect("was root");
        call!(libc::syscall, libc::SYS_setgroups, 0, more.as_ptr()).expect("was root");
        self.line("as root");
    }

    /// Does something in another process, and says how that ended.
    pub fn in_child(&mut self, run: impl FnOnce(&mut Scene)) {
        let child = call!(libc::fork).expect("forks");
        if child == 0 {
            run(self);
            exit(0);
        }
        let mut status = 0;
        call!(libc::waitpid, child as i32, &raw mut status, 0).expect("a child");
        match libc::WIFSIGNALED(status) {
            true => self.line(format_args!("child: signal {}", libc::WTERMSIG(status))),
            false => self.line(format_args!("child: exit {}", libc::WEXITSTATUS(status))),
        }
    }
}
