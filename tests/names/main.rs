//! The established names: command lines as projects script them, each run with the programs of e2fsprogs and with links of their names to
//! `uext4`, on equal images. Exit code, what scripts read of the output, and the images afterwards are equal.
//!
//! | module | holds |
//! | --- | --- |
//! | `debugfs` | the same for debugfs |
//! | `filefrag` | filefrag, of the host and of images |
//! | `lines` | the command lines, by the project that scripts them |
//! | `run` | a line, run both ways |
//! | `shown` | what is compared |
//! | `links` | the links, and what is not an image |

mod debugfs;
mod filefrag;
mod lines;
mod links;
mod run;
mod shown;

use run::Stage;

/// A command line of a project.
struct Line {
    /// What makes the images, with the programs of e2fsprogs.
    before: &'static str,
    /// The line.
    line: &'static str,
    /// Fields of dumpe2fs, or other lines, that may differ; each with the reason beside it in `lines`.
    differs: &'static [&'static str],
}

/// Runs the lines of a project.
fn all_equal(project: &str, lines: &[Line]) {
    let Some(stage) = Stage::new() else {
        return;
    };
    let differing: Vec<String> = lines
        .iter()
        .filter_map(|line| stage.difference(line))
        .collect();
    assert!(
        differing.is_empty(),
        "{project}: {} of {} differ:\n{}",
        differing.len(),
        lines.len(),
        differing.join("\n")
    );
}

macro_rules! projects {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            all_equal(stringify!($name), lines::$name);
        })*
    };
}

projects! { systemd mkosi buildroot yocto libguestfs cloud_init sandboxes boot install_scripts wrong }

/// A line that differs is found, whatever differs.
#[test]
fn differences_are_found() {
    let Some(stage) = Stage::new() else {
        return;
    };
    // Only uext4's lines have the variable.
    for (line, what) in [
        ("test -z \"$OURS\"", "exit code"),
        ("echo a$OURS", "output"),
        (
            "echo x >&2; test -z \"$OURS\" || echo tune2fs >/dev/null",
            "",
        ),
        ("test -z \"$OURS\" || echo x >&2", "standard error"),
        (
            "e2label t.img \"${OURS:-a}\" >/dev/null",
            "Filesystem volume name",
        ),
        ("test -z \"$OURS\" || truncate -s +1M t.img", "bytes"),
    ] {
        let line = Line {
            before: "mke2fs -q -t ext4 t.img 8M",
            line,
            differs: &[],
        };
        match (stage.difference(&line), what) {
            (None, "") => {}
            (Some(found), what) if !what.is_empty() => assert!(found.contains(what), "{found}"),
            (found, _) => panic!("{}: {found:?}", line.line),
        }
    }
}
