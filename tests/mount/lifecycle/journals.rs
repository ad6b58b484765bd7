//! An image whose journal is on another device: mounted, ended, killed and recovered.

use crate::*;

const PATIENCE: Duration = Duration::from_secs(30);

/// An image and its journal, each a file.
struct Pair {
    files: TempDir,
}

fn succeeds(command: &mut Command) -> Result<Output> {
    let out = command.output();
    let out = out.with_context(|| format!("running {command:?}"))?;
    let said = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{command:?}: {}: {said}", out.status);
    Ok(out)
}

/// A loop device, which mke2fs wants the journal to be on.
struct Loop(String);

impl Loop {
    fn new(file: &Path) -> Result<Loop> {
        let out = succeeds(Command::new("losetup").args(["-f", "--show"]).arg(file))?;
        Ok(Loop(String::from_utf8(out.stdout)?.trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

impl Pair {
    fn new() -> Result<Pair> {
        let pair = Pair {
            files: tempfile::tempdir_in("/dev/shm")?,
        };
        File::create(pair.path("journal"))?.set_len(16 << 20)?;
        fs::create_dir(pair.path("mount"))?;
        let journal = Loop::new(&pair.path("journal"))?;
        let mut mke2fs = Command::new("mke2fs");
        mke2fs.args(["-q", "-F", "-b", "4096", "-O", "journal_dev"]);
        succeeds(mke2fs.arg(&journal.0))?;
        let mut mke2fs = Command::new("mke2fs");
        mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "4096", "-J"]);
        mke2fs.arg(format!("device={}", journal.0));
        succeeds(mke2fs.arg(pair.path("image")).arg("64M"))?;
        Ok(pair)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    fn mount(&self, transport: &str) -> Result<()> {
        let journal = self.path("journal");
        let mut mount = Command::new(built::command()?);
        mount.args(["mount", "-o"]);
        mount.arg(format!(
            "transport={transport},journal={}",
            journal.display()
        ));
        succeeds(mount.arg(self.path("image")).arg(self.path("mount")))?;
        Ok(())
    }

    fn unmount(&self) -> Result<()> {
        succeeds(
            Command::new(built::command()?)
                .arg("umount")
                .arg(self.path("mount")),
        )?;
        self.check()
    }

    fn check(&self) -> Result<()> {
        let mut e2fsck = Command::new("e2fsck");
        e2fsck.arg("-fn").arg("-j").arg(self.path("journal"));
        succeeds(e2fsck.arg(self.path("image")))?;
        Ok(())
    }

    fn is_mounted(&self) -> bool {
        is_mounted(&self.path("mount"))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        unmount_what_is_left(&self.path("mount"));
    }
}

#[test]
fn a_journal_elsewhere_is_written_and_recovered() -> Result<()> {
    require!(can_mount(), Ok(()));
    let pair = Pair::new()?;
    let dir = pair.path("mount");
    for transport in transports() {
        pair.mount(transport)?;
        let file = dir.join(transport);
        fs::write(&file, b"kept")?;
        pair.unmount()?;
        pair.mount(transport)?;
        ensure!(fs::read(&file).context("the first file")? == b"kept");
        for number in 0..100 {
            let mut file = File::create(dir.join(format!("{transport}-{number}")))?;
            file.write_all(b"durable")?;
            // The kernel keeps syncfs(2) to itself.
            file.sync_all()?;
        }
        kill_process(pid_of(&dir, "pid").context("its pid")?, Signal::KILL)?;
        let end = Instant::now() + PATIENCE;
        while pair.is_mounted() {
            ensure!(Instant::now() < end, "the monitor does not unmount");
            thread::sleep(Duration::from_millis(20));
        }
        pair.mount(transport)?;
        for number in 0..100 {
            let path = dir.join(format!("{transport}-{number}"));
            let found = fs::read(&path).with_context(|| path.display().to_string())?;
            ensure!(found == b"durable", "{}", path.display());
        }
        pair.unmount()?;
    }
    Ok(())
}

#[test]
fn without_its_journal_nothing_is_mounted() -> Result<()> {
    require!(can_mount(), Ok(()));
    let pair = Pair::new()?;
    let mut mount = Command::new(built::command()?);
    mount.arg("mount").arg(pair.path("image"));
    let out = mount.arg(pair.path("mount")).output()?;
    let said = String::from_utf8_lossy(&out.stderr);
    ensure!(!out.status.success() && said.contains("journal"), "{said}");
    ensure!(!pair.is_mounted());
    pair.check()
}
