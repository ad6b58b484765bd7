//! `make install` into a directory: each file is there, works, and has what the command's definition says.

use uext4_testkit::prelude::*;

fn run(command: &mut Command) -> Output {
    let output = command.output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    output
}

/// Links an example as pkg-config says, and runs it with the library that is installed.
fn programs_in_c_are_built(prefix: &Path) {
    if !is_installed("cc") || !is_installed("pkg-config") {
        eprintln!("skipped: no cc or no pkg-config");
        return;
    }
    let lib = prefix.join("lib");
    let flags = run(Command::new("pkg-config")
        .args(["--cflags", "--libs", "uext4"])
        .env("PKG_CONFIG_PATH", lib.join("pkgconfig")));
    let flags = String::from_utf8(flags.stdout).expect("UTF-8");
    let program = prefix.join("write_file");
    let source = Path::new(built::WORKSPACE).join("examples/c/write_file.c");
    let mut cc = Command::new("cc");
    cc.arg(source).arg("-o").arg(&program);
    run(cc.args(flags.split_whitespace()));
    run(Command::new(program)
        .arg(prefix.join("image"))
        .env("LD_LIBRARY_PATH", lib));
}

#[test]
fn everything_is_installed() {
    let command = built::command().expect("it builds");
    let library = built::preloaded_library().expect("it builds");
    let for_c = built::c_library().expect("it builds");
    let archive = for_c.with_extension("a");
    let from = tempfile::tempdir().expect("a directory");
    for file in [command, library, for_c, archive.as_path()] {
        let name = file.file_name().expect("a name");
        std::os::unix::fs::symlink(file, from.path().join(name)).expect("a link");
    }
    let prefix = tempfile::tempdir().expect("a directory");
    let variable = |name: &str, path: &Path| format!("{name}={}", path.display());
    run(Command::new("make")
        .args(["-C", built::WORKSPACE, "install"])
        .arg(variable("BUILT", from.path()))
        .arg(variable("PREFIX", prefix.path())));

    let at = |path: &str| prefix.path().join(path);
    let read =
        |path: &str| std::fs::read_to_string(at(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    assert!(at("lib/libuext4_mq.so").is_file());
    assert!(read("include/uext4_mq.h").contains("mq_open"));
    programs_in_c_are_built(prefix.path());
    for helper in ["mount.fuse.uext4", "umount.fuse.uext4"] {
        let help = run(Command::new(at("sbin").join(helper)).arg("--help")).stdout;
        let help = String::from_utf8(help).expect("UTF-8");
        assert!(help.contains(helper), "{help}");
        assert!(read(&format!("share/man/man8/{helper}.8")).contains("fstab"));
    }
    let started = format!("ExecStart={} mount ", at("bin/uext4").display());
    assert!(read("lib/systemd/system/uext4@.service").contains(&started));
    let help = run(Command::new(at("bin/uext4")).arg("help")).stdout;
    let help = String::from_utf8(help).expect("UTF-8");
    for name in ["mkfs", "mount", "check"] {
        assert!(help.contains(name));
        assert!(read("share/man/man1/uext4.1").contains(name));
        assert!(read(&format!("share/man/man1/uext4-{name}.1")).contains("SYNOPSIS"));
        for completions in [
            "bash-completion/completions/uext4",
            "zsh/site-functions/_uext4",
            "fish/vendor_completions.d/uext4.fish",
        ] {
            assert!(read(&format!("share/{completions}")).contains("complete --"));
        }
    }
    let page = read("share/man/man1/uext4.1");
    for last in [
        ".SH \"HELP TOPICS\"\n",
        "\\fBembedding\\fR\nin a program",
        ".SH \"SEE ALSO\"\n",
    ] {
        assert!(page.contains(last), "{last}");
    }
    assert!(
        !at("share/man/man1/uext4-serve.1").exists(),
        "hidden commands have no page"
    );
    run(Command::new("bash")
        .arg("-n")
        .arg(at("share/bash-completion/completions/uext4")));
}
