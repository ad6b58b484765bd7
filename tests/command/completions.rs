//! What shells complete: commands, options, files of the host, and files in images.

use crate::*;

/// What the completions of bash make of a line, as bash splits it.
fn in_bash(workdir: &Workdir, words: &[&str]) -> Vec<String> {
    let line = words.join(" ").replace(" : ", ":");
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let script = format!(
        "source <($UEXT4 completions bash); uext4() {{ $UEXT4 \"$@\"; }}; COMP_LINE='{line}' COMP_WORDS=({}) COMP_CWORD={}\n\
         _uext4 2>/dev/null; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        quoted.join(" "),
        words.len() - 1
    );
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).current_dir(workdir.dir());
    let out = bash.env("UEXT4", uext4()).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    text.lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

fn prepared() -> Workdir {
    let workdir = Workdir::new();
    workdir.tree();
    workdir.ok(&["mkfs", "a.img", "--from", "tree"]);
    workdir.ok(&["mkdir", "a.img:/with space"]);
    workdir
}

#[test]
fn bash_completes_commands_options_and_files_in_images() {
    let workdir = prepared();
    let complete = |words: &[&str]| in_bash(&workdir, words);
    assert_eq!(complete(&["uext4", "mo"]), ["mount"]);
    assert_eq!(complete(&["uext4", "stat", "--js"]), ["--json"]);
    assert_eq!(complete(&["uext4", "ls", "a"]), ["a.img", "a.img:/"]);
    // Bash makes words of its own of the colon, and replaces what follows it.
    assert_eq!(
        complete(&["uext4", "ls", "a.img", ":", "/l"]),
        ["/large", "/long-link", "/lost+found/"]
    );
    assert_eq!(
        complete(&["uext4", "ls", "a.img", ":", "/etc/pass"]),
        ["/etc/passwd"]
    );
    assert_eq!(
        complete(&["uext4", "ls", "a.img", ":", "/with"]),
        [r"/with\ space/"]
    );
    assert_eq!(complete(&["uext4", "cp", "tree/et"]), ["tree/etc/"]);
    assert_eq!(complete(&["uext4", "cat", "none.img", ":", "/"]), [""; 0]);
}

#[test]
fn fish_and_zsh_have_completions() {
    let workdir = prepared();
    for shell in ["zsh", "fish"] {
        let script = workdir.ok(&["completions", shell]);
        assert!(script.contains("complete --"), "{shell}");
        let Ok(out) = Command::new(shell).arg("--version").output() else {
            eprintln!("skipped: needs {shell}");
            continue;
        };
        assert!(out.status.success());
        fs::write(workdir.path("script"), script).unwrap();
        let mut parse = Command::new(shell);
        let parsed = parse
            .arg("-n")
            .arg(workdir.path("script"))
            .status()
            .unwrap();
        assert!(parsed.success(), "{shell}");
    }
}
