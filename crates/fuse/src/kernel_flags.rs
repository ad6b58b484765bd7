//! The flags of a mount that the kernel acts on.

use rustix::mount::MountFlags;

/// The flags of a mount that the kernel acts on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelFlags {
    /// Nothing can be written.
    pub read_only: bool,
    /// Set-id bits have no effect.
    pub nosuid: bool,
    /// Device files can't be opened.
    pub nodev: bool,
    /// Nothing can be executed.
    pub noexec: bool,
    /// Every change is durable when its call returns.
    pub sync: bool,
    /// Every change of a directory is durable when its call returns.
    pub dirsync: bool,
    /// Access times are never updated.
    pub noatime: bool,
    /// Access times are updated at every access.
    pub strictatime: bool,
    /// Access times of directories are never updated.
    pub nodiratime: bool,
}

impl KernelFlags {
    /// The flags of mount(2).
    pub fn mount_flags(self) -> MountFlags {
        let mut flags = MountFlags::empty();
        flags.set(MountFlags::RDONLY, self.read_only);
        flags.set(MountFlags::NOSUID, self.nosuid);
        flags.set(MountFlags::NODEV, self.nodev);
        flags.set(MountFlags::NOEXEC, self.noexec);
        flags.set(MountFlags::SYNCHRONOUS, self.sync);
        flags.set(MountFlags::DIRSYNC, self.dirsync);
        flags.set(MountFlags::NODIRATIME, self.nodiratime);
        flags
            | match (self.noatime, self.strictatime) {
                (true, _) => MountFlags::NOATIME,
                (false, true) => MountFlags::STRICTATIME,
                (false, false) => MountFlags::RELATIME,
            }
    }
}
