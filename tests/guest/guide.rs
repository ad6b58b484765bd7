//! The guide to a virtual machine, word for word: what it makes boots to a login.
use uext4_testkit::prelude::*;

use crate::is_asked_for;
use std::io::Read;
use std::process::{Child, Stdio};

/// What is typed on the console of the guide, after what the guest has printed there.
const DIALOGUE: [(&str, &str); 3] = [
    ("vm login: ", "root\n"),
    (
        "root@vm:~# ",
        "findmnt -no SOURCE,FSTYPE,OPTIONS /; echo status=$?\n",
    ),
    ("status=0", "systemctl poweroff\n"),
];

/// Runs an example in `dir`, with the programs in `dir/programs` before others.
fn start(dir: &Path, code: &str, stdin: Stdio, stdout: Stdio) -> Result<Child> {
    let path = format!(
        "{}:{}",
        dir.join("programs").display(),
        std::env::var("PATH")?
    );
    let mut command = Command::new("timeout");
    command.args(["900", "bash", "-euo", "pipefail", "-c", code]);
    command.current_dir(dir).env("PATH", path);
    Ok(command.stdin(stdin).stdout(stdout).spawn()?)
}

/// Talks to the console that an example opens; returns what it printed.
fn talk(dir: &Path, code: &str) -> Result<String> {
    let mut child = start(dir, code, Stdio::piped(), Stdio::piped())?;
    let mut input = child.stdin.take().context("standard input")?;
    let mut output = child.stdout.take().context("standard output")?;
    let (mut said, mut begin) = (String::new(), 0);
    let mut left = DIALOGUE.iter().peekable();
    let mut bytes = [0; 4096];
    loop {
        let count = output.read(&mut bytes)?;
        if count == 0 {
            break;
        }
        said.push_str(&String::from_utf8_lossy(&bytes[..count]));
        while let Some((prompt, answer)) = left.peek() {
            let Some(at) = said[begin..].find(prompt) else {
                break;
            };
            begin += at + prompt.len();
            input.write_all(answer.as_bytes())?;
            left.next();
        }
    }
    ensure!(child.wait()?.success() && left.peek().is_none(), "{said}");
    Ok(said)
}

#[test]
fn the_machine_of_the_guide_boots() -> Result<()> {
    require!(is_asked_for(), Ok(()));
    let dir = tempfile::tempdir()?;
    let programs = dir.path().join("programs");
    fs::create_dir(&programs)?;
    std::os::unix::fs::symlink(built::command()?, programs.join("uext4"))?;
    // The test is root.
    fs::write(programs.join("sudo"), "#!/bin/sh\nexec \"$@\"\n")?;
    fs::set_permissions(programs.join("sudo"), fs::Permissions::from_mode(0o755))?;
    let page = fs::read_to_string(Path::new(WORKSPACE).join("crates/cli/topics/vm.md"))?;
    let mut said = None;
    for (words, code) in uext4_testkit::guides::examples(&page) {
        if words.contains(&"debian") {
            let mut child = start(dir.path(), &code, Stdio::null(), Stdio::inherit())?;
            ensure!(child.wait()?.success(), "{code}");
        } else if words.contains(&"console") {
            said = Some(talk(dir.path(), &code)?);
        }
    }
    let said = said.context("a console")?;
    ensure!(said.contains("/dev/vda ext4 "), "{said}");
    oracle::fsck(&dir.path().join("vm.img"))
}
