//! Each program in `examples/` runs, and does what it says.

use uext4_testkit::prelude::*;

/// Runs an example in `dir`; what it printed.
fn run(dir: &Path, name: &str, args: &[&str]) -> Result<String> {
    let program = built::examples()?.join(name);
    let mut command = Command::new(program);
    command.current_dir(dir).args(args);
    command.env("UEXT4", built::command()?);
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {errors}");
    Ok(String::from_utf8(output.stdout)?)
}

/// Checks that `walk_image` prints these lines of `image`.
fn walk(dir: &Path, image: &str, lines: &[&str]) -> Result<()> {
    let walked = run(dir, "walk_image", &[image])?;
    for line in lines {
        ensure!(
            walked.lines().any(|l| l == *line),
            "{line} is not in\n{walked}"
        );
    }
    Ok(())
}

#[test]
fn images_are_built_filled_and_walked() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (path, tree) = (dir.path(), dir.path().join("tree/sub"));
    fs::create_dir_all(&tree)?;
    fs::write(tree.join("file"), "content")?;
    std::os::unix::fs::symlink("file", tree.join("link"))?;
    let printed = run(path, "build_image", &["tree", "image"])?;
    ensure!(printed.starts_with("1 files, "), "{printed}");
    walk(path, "image", &["Regular 0644 7 /sub/file"])?;
    // An image that was built from a tree has no room for another one.
    let mut mkfs = Command::new(built::command()?);
    mkfs.current_dir(path)
        .args(["mkfs", "empty", "--size", "16M"]);
    ensure!(mkfs.output()?.status.success(), "{mkfs:?}");
    run(path, "copy_tree", &["tree/sub", "empty", "/copies/a"])?;
    let copied = [
        "Regular 0644 7 /copies/a/file",
        "Symlink 0777 4 /copies/a/link",
    ];
    walk(path, "empty", &copied)
}

#[test]
fn many_threads_use_one_image() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let printed = run(dir.path(), "many_threads", &["4"])?;
    ensure!(printed.starts_with("4000 files by 4 threads"), "{printed}");
    Ok(())
}

#[test]
fn a_message_queue_distributes_jobs() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let printed = run(dir.path(), "message_queue", &[])?;
    ensure!(printed == "100 jobs by 4 workers\n", "{printed}");
    Ok(())
}

#[test]
fn an_image_is_mounted() -> Result<()> {
    require!(can_mount(), Ok(()));
    let dir = tempfile::tempdir()?;
    fs::create_dir(dir.path().join("mnt"))?;
    let printed = run(dir.path(), "mount_image", &["image", "mnt"])?;
    ensure!(printed == "from the mount\n", "{printed}");
    Ok(())
}
