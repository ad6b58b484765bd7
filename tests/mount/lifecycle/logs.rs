//! What goes wrong in the background is in the system's log: the death of a server, and what it finds wrong with
//! its image.

use crate::*;
use std::os::unix::net::UnixDatagram;

const SOCKET: &str = "/dev/log";

/// Where the system's log would be, on a machine that has none.
struct Listener(UnixDatagram);

impl Listener {
    fn new() -> Result<Option<Listener>> {
        if std::fs::symlink_metadata(SOCKET).is_ok() {
            eprintln!("skipped: {SOCKET} is another's");
            return Ok(None);
        }
        let socket = UnixDatagram::bind(SOCKET)?;
        socket.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(Some(Listener(socket)))
    }

    /// The next line with all of these words; others are passed over.
    fn line_with(&self, words: &[&str]) -> Result<String> {
        let mut line = [0; 8192];
        loop {
            let len = self.0.recv(&mut line).context("nothing is logged")?;
            let line = String::from_utf8_lossy(&line[..len]);
            if words.iter().all(|word| line.contains(word)) {
                return Ok(line.into_owned());
            }
            eprintln!("also logged: {line}");
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(SOCKET);
    }
}

/// Overwrites the blocks of a directory, whose places debugfs reports.
fn damage_directory(image: &Path, dir: &str) -> Result<()> {
    let mut debugfs = Command::new("debugfs");
    let out = debugfs
        .args(["-R", &format!("blocks {dir}")])
        .arg(image)
        .output()?;
    let blocks = String::from_utf8_lossy(&out.stdout).into_owned();
    let file = std::fs::OpenOptions::new().write(true).open(image)?;
    for block in blocks.split_whitespace() {
        let block: u64 = block.parse().context("a block")?;
        file.write_all_at(&[0xa5; 4096], block * 4096)?;
    }
    ensure!(!blocks.trim().is_empty(), "{dir} has no blocks");
    Ok(())
}

#[test]
fn what_goes_wrong_in_the_background_is_logged() -> Result<()> {
    require!(can_mount(), Ok(()));
    let log = require!(some Listener::new()?, Ok(()));
    let mut mount = MountedDir::new(Driver::Ours("transport=dev".into()), &Shape::DEFAULT)?;
    std::fs::create_dir(mount.dir().join("broken"))?;
    kill_process(pid_of(mount.dir(), "pid")?, Signal::KILL)?;
    let line = log.line_with(&["the server died (signal: 9"])?;
    ensure!(line.starts_with("<27>uext4["), "{line}");
    mount.abandon()?;
    mount.mount_with("transport=dev")?;
    std::fs::create_dir_all(mount.dir().join("broken"))?;
    mount.unmount()?;
    damage_directory(mount.image(), "/broken")?;
    mount.mount_with("transport=dev")?;
    ensure!(std::fs::read_dir(mount.dir().join("broken"))?.any(|entry| entry.is_err()));
    let line = log.line_with(&["inode"])?;
    let image = mount.image().display().to_string();
    ensure!(
        line.starts_with("<27>uext4[") && line.contains(&image),
        "{line}"
    );
    mount.unmount()
}
