//! The program `uext4-bench`, which `uext4 bench` executes.
#![forbid(unsafe_code)]

use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;
use uext4_malloc as _;

fn main() -> ExitCode {
    abort_on_panic();
    match uext4_bench::run(std::env::args_os().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) if is_closed_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            // Standard error may be closed; the exit code still reports the failure.
            let _ = writeln!(std::io::stderr(), "uext4: {}", one_line(&e));
            ExitCode::FAILURE
        }
    }
}

/// A panic ends the process, so that no worker continues beside one that unwinds.
fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        std::process::abort();
    }));
}

/// The chain of causes as one text, without a cause that the text already contains.
fn one_line(e: &anyhow::Error) -> String {
    let mut causes = e.chain().map(ToString::to_string);
    let first = causes.next().unwrap_or_default();
    causes.fold(first, |line, cause| match line.contains(&cause) {
        true => line,
        false => format!("{line}: {cause}"),
    })
}

/// Whether the reader of standard output closed it.
fn is_closed_pipe(e: &anyhow::Error) -> bool {
    let kind = e.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    let of_json = e.downcast_ref::<serde_json::Error>();
    kind.or(of_json.and_then(serde_json::Error::io_error_kind)) == Some(ErrorKind::BrokenPipe)
}
