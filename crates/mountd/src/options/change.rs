//! Options of a mount that changes while it is in use.

use super::{OptionError, Options, split};
use uext4::AtimeUpdate;
use uext4::unstable::MountOptions;
use uext4_fuse::KernelFlags;

impl Options {
    /// The flags among them that the kernel enforces, for an image mounted with these options.
    pub fn kernel_flags(&self) -> KernelFlags {
        let mount = &self.open.mount;
        KernelFlags {
            read_only: mount.read_only,
            nosuid: self.nosuid,
            nodev: self.nodev,
            noexec: self.noexec,
            sync: self.sync,
            dirsync: self.dirsync,
            noatime: mount.atime == AtimeUpdate::Never,
            strictatime: mount.atime == AtimeUpdate::Strict,
            nodiratime: mount.nodiratime,
        }
    }

    /// Default options with those flags.
    pub fn with_kernel_flags(flags: KernelFlags) -> Options {
        let mut options = Options {
            nosuid: flags.nosuid,
            nodev: flags.nodev,
            noexec: flags.noexec,
            sync: flags.sync,
            dirsync: flags.dirsync,
            ..Options::default()
        };
        let mount = &mut options.open.mount;
        mount.read_only = flags.read_only;
        mount.nodiratime = flags.nodiratime;
        mount.atime = match (flags.noatime, flags.strictatime) {
            (true, _) => AtimeUpdate::Never,
            (false, true) => AtimeUpdate::Strict,
            (false, false) => AtimeUpdate::Relative,
        };
        options
    }

    /// These options, changed by all `-o` of a remount; an option that they do not name keeps its value.
    ///
    /// # Errors
    /// As [`Options::parse`]; an option that has another value now and cannot change.
    pub fn changed<S: AsRef<str>>(&self, lists: &[S]) -> Result<Options, OptionError> {
        let mut options = self.clone();
        for list in lists {
            for option in split(list.as_ref()) {
                let before = options.clone();
                options.apply(&option)?;
                if !options.is_remount_of(&before) {
                    let name = option.split('=').next().unwrap_or_default();
                    return Err(OptionError::Fixed(name.to_owned()));
                }
            }
        }
        options.check()?;
        Ok(options)
    }

    /// Whether a mount in use can change from those options to these.
    fn is_remount_of(&self, before: &Options) -> bool {
        let (now, then) = (&self.open.mount, &before.open.mount);
        let fixed = MountOptions {
            read_only: then.read_only,
            atime: then.atime,
            nodiratime: then.nodiratime,
            lazytime: then.lazytime,
            errors: then.errors,
            commit_interval: then.commit_interval,
            barrier: then.barrier,
            discard: then.discard,
            ..now.clone()
        };
        fixed == *then
            && (self.open.direct, &self.open.journal) == (before.open.direct, &before.open.journal)
            && (self.transport, self.threads, self.memory)
                == (before.transport, before.threads, before.memory)
            && (self.allow_other, self.writeback, self.readahead)
                == (before.allow_other, before.writeback, before.readahead)
            && (self.ownership, self.offset, self.size_limit)
                == (before.ownership, before.offset, before.size_limit)
            && self.superblock == before.superblock
            && (&self.subdir, &self.fs_name) == (&before.subdir, &before.fs_name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remount_changes_what_it_names_and_nothing_else() {
        let before = Options::parse(&["noexec,commit=30,data=journal,noatime"]).unwrap();
        let after = before
            .changed(&["remount,ro", "strictatime,lazytime"])
            .unwrap();
        assert!(after.remount && after.noexec && after.nosuid);
        let mount = &after.open.mount;
        assert!(mount.read_only && mount.lazytime);
        assert_eq!(mount.atime, AtimeUpdate::Strict);
        assert_eq!(mount.commit_interval.as_secs(), 30);
        let back = after.changed(&["remount,rw,nolazytime,noatime"]).unwrap();
        assert_eq!(back.open.mount, before.open.mount);
        assert_eq!(back.kernel_flags(), before.kernel_flags());
    }

    #[test]
    fn what_can_not_change_is_named_unless_it_is_so_already() {
        let before = Options::parse(&["data=journal,threads=3,fsname=x"]).unwrap();
        for option in [
            "data=ordered",
            "threads=4",
            "writeback",
            "transport=dev",
            "fsname=y",
            "noload",
            "journal=/dev/x",
            "ialloc=retry-locked",
            "balloc=trylock",
            "memory=1G",
            "direct",
            "allow_other",
        ] {
            let Err(e) = before.changed(&[format!("remount,{option}")]) else {
                panic!("{option} can change");
            };
            let name = option.split('=').next().unwrap();
            let said = e.to_string();
            // Variants are checked for their values first.
            let is_named = said.starts_with(&format!("option '{name}'"));
            assert!(is_named, "{said}");
        }
        let same =
            "remount,data=journal,threads=3,fsname=x,user_id=0,group_id=0,default_permissions";
        assert!(before.changed(&[same]).is_ok());
    }

    #[test]
    fn flags_lead_to_options_and_back() {
        for list in [
            "ro,suid,dev",
            "strictatime,sync,noexec",
            "noatime,nodiratime,dirsync",
        ] {
            let flags = Options::parse(&[list]).unwrap().kernel_flags();
            assert_eq!(Options::with_kernel_flags(flags).kernel_flags(), flags);
        }
    }
}
