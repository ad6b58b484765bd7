//! Loop devices.

use crate::external::*;

/// A loop device; detached when dropped.
#[derive(Debug)]
pub struct LoopDevice(String);

impl LoopDevice {
    /// Attaches a file, with options of losetup(8). `None`, with a line on stderr, where the machine or the user has no
    /// loop devices.
    pub fn attach(file: &Path, options: &[&str]) -> Option<LoopDevice> {
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show"]).args(options).arg(file);
        match losetup.output() {
            Ok(out) if out.status.success() => {
                let node = String::from_utf8_lossy(&out.stdout);
                Some(LoopDevice(node.trim().to_owned()))
            }
            other => {
                eprintln!("skipped: needs losetup, root and a loop device: {other:?}");
                None
            }
        }
    }

    /// The path of its node.
    pub fn path(&self) -> &str {
        &self.0
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}
