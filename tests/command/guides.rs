//! The examples of the guides (`uext4 help TOPIC`) run, page by page, in the order of the page.
//!
//! | fence | runs |
//! | --- | --- |
//! | `sh`, `sh,image` | here |
//! | `sh,mount` | here, where images can be mounted |
//! | `sh,debian` | in `make guest` |
//! | `sh,fragment` | by itself it means nothing: another machine, server or program |

use uext4_testkit::guides::examples;
use uext4_testkit::prelude::*;

/// A fence that runs here only where the machine has what it needs.
const MOUNT: &str = "mount";
/// Fences that this program does not run.
const ELSEWHERE: [&str; 5] = ["debian", "console", "fragment", "bench", "bench-long"];

/// What the pages take to be there.
const SETUP: &str = "
mkdir -p rootfs/etc rootfs/bin overlay/srv/www mnt
echo sandbox >rootfs/etc/hostname
cp /bin/true rootfs/bin/su
echo page >overlay/srv/www/index.html
uext4 mkfs -q disk.img --from rootfs --spare 20M
uext4 mkdir -p disk.img:/var/cache disk.img:/var/log disk.img:/usr/lib disk.img:/srv/www
for f in /var/cache/a /var/log/a.log /usr/lib/a.so.1; do echo a | uext4 cp - disk.img:$f; done
cp disk.img untrusted.img
";

/// Runs the examples of a page; how many.
fn run(name: &str, page: &str, mounts: bool) -> Result<usize> {
    let dir = tempfile::tempdir()?;
    let programs = dir.path().join("programs");
    fs::create_dir(&programs)?;
    std::os::unix::fs::symlink(built::command()?, programs.join("uext4"))?;
    let path = format!("{}:{}", programs.display(), std::env::var("PATH")?);
    let bash = |script: &str| -> Result<()> {
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", script]);
        command.current_dir(dir.path()).env("PATH", &path);
        let out = command.output()?;
        let said = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success(), "{name}: {script}\n{said}");
        Ok(())
    };
    // The first page begins with nothing.
    if name != "start" {
        bash(SETUP)?;
    }
    let mut count = 0;
    for (words, code) in examples(page) {
        let elsewhere = words.iter().any(|word| ELSEWHERE.contains(word));
        if elsewhere || words.contains(&MOUNT) && !mounts {
            continue;
        }
        bash(&code)?;
        count += 1;
    }
    Ok(count)
}

#[test]
fn the_examples_of_the_guides_run() -> Result<()> {
    let mounts = uext4_testkit::mounted_dir::can_mount();
    let mut count = 0;
    for entry in fs::read_dir(Path::new(WORKSPACE).join("crates/cli/topics"))? {
        let path = entry?.path();
        let name = path.file_stem().context("a name")?.to_string_lossy();
        count += run(&name, &fs::read_to_string(&path)?, mounts)?;
    }
    ensure!(count > 15, "{count} examples");
    Ok(())
}
