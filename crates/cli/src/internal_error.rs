//! A panic: a bug of ours, that must not leave half a change.
//!
//! Unwinding would stop handles in the middle of what they change, and the journal would commit that. So the process ends
//! where it is: what was durable stays so, and the next open recovers the image.

use std::io::Write;
use std::panic::{self, PanicHookInfo};

/// From now on a panic of any thread is reported on standard error, in one line, and ends the process.
pub fn abort_on_panic() {
    panic::set_hook(Box::new(|info| {
        // Nothing that fails here keeps the process from ending.
        let _ = writeln!(std::io::stderr(), "uext4: {}", describe(info));
        std::process::abort();
    }));
}

fn describe(info: &PanicHookInfo<'_>) -> String {
    let what = info.payload_as_str().unwrap_or("a panic");
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("?");
    let trace = std::backtrace::Backtrace::capture();
    let trace = match trace.status() {
        std::backtrace::BacktraceStatus::Captured => format!("\n{trace}"),
        _ => String::new(),
    };
    format!(
        "internal error at {place}, thread '{thread}': {what}; please report it (images recover when they are opened){trace}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::path::Path;
    use std::process::Command;
    use uext4::{Filesystem, ImageOptions, MkfsOptions, NoProgress, mkfs};

    /// Set in the child, to the image.
    const CHILD: &str = "UEXT4_TEST_PANIC";

    fn child(image: &Path) {
        abort_on_panic();
        let fs = Filesystem::open(image, &ImageOptions::read_write()).unwrap();
        fs.write("/kept", b"kept").unwrap();
        fs.sync().unwrap();
        fs.write("/late", b"late").unwrap();
        let worker = std::thread::Builder::new().name("worker".into());
        let worker = worker.spawn(|| panic!("planted")).unwrap();
        // With unwinding, this is where the end of a thread would be noticed, and all be closed.
        let _ = worker.join();
        fs.unmount().unwrap();
    }

    #[test]
    fn a_panic_of_a_thread_ends_the_process_and_the_image_recovers() {
        let name =
            "internal_error::tests::a_panic_of_a_thread_ends_the_process_and_the_image_recovers";
        if let Some(image) = std::env::var_os(CHILD) {
            return child(image.as_ref());
        }
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        let options = MkfsOptions::new().size(32 << 20);
        mkfs(&image, &options, &NoProgress).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, &image);
        let out = command.env("RUST_BACKTRACE", "0").output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.signal(), Some(libc::SIGABRT), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("thread 'worker': planted"), "{said}");
        let fs = Filesystem::open(&image, &ImageOptions::read_write()).unwrap();
        assert_eq!(fs.read("/kept").unwrap(), b"kept");
        fs.unmount().unwrap();
    }
}
