//! Trees that are copied into the mount, within it, and removed.

use super::transports::{can_run, on_each_transport, run, workspace};
use std::fs::Permissions;
use uext4_testkit::prelude::*;
use uext4_testkit::server::{all_is_freed, in_use};

/// Of each name: path, type, mode, owner, links, size but for directories, time of change, target.
const LISTED: &str = "%P %y %m %U:%G %n %T@ %l\\n";

/// The checkout without what is built, and names that a checkout does not have.
fn make_source(source: &Path, archive: &Path) -> Result<()> {
    fs::create_dir(source)?;
    let mut tar = Command::new("tar");
    tar.args([
        "--exclude=./target",
        "--exclude=./fuzz/*",
        "--exclude=./.git",
        "-C",
    ]);
    run(tar.arg(workspace()?).arg("-cf").arg(archive).arg("."))?;
    run(Command::new("tar")
        .arg("-xf")
        .arg(archive)
        .arg("-C")
        .arg(source))?;
    let odd = source.join("odd");
    fs::create_dir(&odd)?;
    symlink("nowhere", odd.join("dangling"))?;
    symlink("x".repeat(200), odd.join("long-target"))?;
    fs::write(odd.join("n".repeat(255)), b"a long name")?;
    fs::write(odd.join("line\nbreak and \u{fc}"), b"an odd name")?;
    fs::write(odd.join("linked"), b"two names")?;
    fs::hard_link(odd.join("linked"), odd.join("linked-too"))?;
    let sparse = File::create(odd.join("sparse"))?;
    sparse.write_all_at(b"far out", 300 << 20)?;
    run(Command::new("mkfifo").arg(odd.join("fifo")))?;
    for mode in [0o000, 0o444, 0o755, 0o4755, 0o2711] {
        let path = odd.join(format!("mode-{mode:o}"));
        fs::write(&path, b"")?;
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    fs::create_dir(odd.join("sticky"))?;
    fs::set_permissions(odd.join("sticky"), Permissions::from_mode(0o1777))?;
    run(Command::new("tar")
        .arg("--sparse")
        .arg("-cf")
        .arg(archive)
        .arg("-C")
        .arg(source)
        .arg("."))?;
    Ok(())
}

/// A tree's names with their attributes, sorted.
fn listing(dir: &Path) -> Result<Vec<String>> {
    let mut find = Command::new("find");
    let listed = run(find.arg(dir).args(["-mindepth", "1", "-printf", LISTED]))?;
    let mut lines: Vec<String> = listed.lines().map(str::to_owned).collect();
    lines.sort();
    Ok(lines)
}

/// The two trees are the same. Times may be cut to what an archive keeps.
fn compare(source: &Path, copy: &Path, with_times: bool) -> Result<()> {
    let mut diff = Command::new("diff");
    // A fifo is not to be read.
    diff.args(["-r", "--no-dereference", "--exclude=fifo"]);
    run(diff.arg(source).arg(copy))?;
    let cut = |line: String| match with_times {
        true => line,
        // A fraction of a second.
        false => line
            .split(' ')
            .filter_map(|w| w.split('.').next())
            .collect::<Vec<_>>()
            .join(" "),
    };
    let [ours, theirs] = [source, copy].map(listing);
    let ours: Vec<String> = ours?.into_iter().map(cut).collect();
    let theirs: Vec<String> = theirs?.into_iter().map(cut).collect();
    let differing = ours.iter().zip(&theirs).find(|(a, b)| a != b);
    ensure!(
        ours.len() == theirs.len() && differing.is_none(),
        "{} names, {} in the copy: {differing:?}",
        ours.len(),
        theirs.len()
    );
    Ok(())
}

#[test]
fn trees_are_copied_and_removed() -> Result<()> {
    if !can_run(&["tar", "diff", "find", "mkfifo"]) {
        return Ok(());
    }
    let files = tempfile::tempdir_in("/dev/shm")?;
    let (source, archive) = (files.path().join("source"), files.path().join("archive"));
    make_source(&source, &archive)?;
    let rsync = is_installed("rsync");
    on_each_transport("", |mount| {
        let dir = mount.dir();
        let [unpacked, copied, synced] =
            ["unpacked", "copied", "synced"].map(|name| dir.join(name));
        let before = in_use(dir)?;
        fs::create_dir(&unpacked)?;
        let mut tar = Command::new("tar");
        run(tar.arg("-xpf").arg(&archive).arg("-C").arg(&unpacked))?;
        compare(&source, &unpacked, false)?;
        run(Command::new("cp").arg("-a").arg(&unpacked).arg(&copied))?;
        compare(&unpacked, &copied, true)?;
        if rsync {
            let from = format!("{}/", copied.display());
            run(Command::new("rsync").arg("-aHS").arg(from).arg(&synced))?;
            compare(&unpacked, &synced, true)?;
        }
        mount.remount()?;
        let dir = mount.dir();
        compare(&source, &unpacked, false)?;
        compare(&unpacked, &copied, true)?;
        for tree in fs::read_dir(dir)? {
            let tree = tree?;
            if tree.file_name() != "lost+found" {
                run(Command::new("rm").arg("-r").arg(tree.path()))?;
            }
        }
        all_is_freed(dir, before, 0)
    })
}
