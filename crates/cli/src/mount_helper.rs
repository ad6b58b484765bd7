//! The command lines of mount(8) and umount(8), which start a program of a name that they make up.
//!
//! | caller | starts |
//! | --- | --- |
//! | mount(8), type `fuse.uext4` | `/sbin/mount.fuse.uext4 SOURCE DIR [-sfnvw] [-o OPTIONS] [-t TYPE]`, if that is there |
//! | else, mount.fuse3(8) | `uext4 SOURCE DIR -o OPTIONS` |
//! | umount(8) | `/sbin/umount.fuse.uext4 DIR [-flnrv] [-t TYPE]`, if that is there |

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// What the arguments mean, as `uext4` takes them, if they are those of a helper; `is_command` recognises the names of
/// commands.
pub fn arguments(args: &[OsString], is_command: impl Fn(&OsStr) -> bool) -> Option<Vec<OsString>> {
    let program = Path::new(args.first()?).file_name()?;
    match program.to_str()? {
        "mount.fuse.uext4" | "mount.uext4" => Some(mount(args)),
        "umount.fuse.uext4" | "umount.uext4" => Some(umount(args)),
        _ => {
            let first = args.get(1)?;
            let is_option = first.as_encoded_bytes().starts_with(b"-");
            // Else it is a command that is not spelled right.
            let is_path = first.as_encoded_bytes().contains(&b'/') || Path::new(first).exists();
            let is_image = is_path && !is_option && !is_command(first) && args.len() > 2;
            is_image.then(|| mount(args))
        }
    }
}

fn mount(args: &[OsString]) -> Vec<OsString> {
    let mut words = vec![args[0].clone(), "mount".into()];
    let mut places = Vec::new();
    let mut rest = args[1..].iter();
    while let Some(arg) = rest.next() {
        match arg.to_str() {
            // The type is known.
            Some("-t") => drop(rest.next()),
            Some("-o") => {
                let list = rest.next();
                let cleared = list.and_then(|list| cleared_by_remount(list.to_str()?));
                words.extend(
                    cleared
                        .into_iter()
                        .flat_map(|list| ["-o".into(), list.into()]),
                );
                words.push(arg.clone());
                words.extend(list.cloned());
            }
            // Sloppy, fake, no mtab, verbose, and read-write are nothing to us; -r is.
            Some(flags) if flags.starts_with('-') && is_of(flags, "sfnvwr") => {
                if flags.contains('r') {
                    words.extend(["-o".into(), "ro".into()]);
                }
                if flags.contains('f') {
                    // A fake mount only writes mtab.
                    return vec![args[0].clone(), "--version".into()];
                }
            }
            _ => places.push(arg.clone()),
        }
    }
    words.extend(places);
    words
}

/// What a remount by mount(8) clears: it passes all flags that are to hold, and leaves those out that a word like `exec`
/// took away. As for mount(2), times of access stay as they are if nothing is said of them. `nosuid` and `nodev` stay
/// unless their opposites are given.
fn cleared_by_remount(list: &str) -> Option<&'static str> {
    let has = |name: &str| list.split(',').any(|option| option == name);
    let times = ["noatime", "nodiratime", "relatime", "strictatime"];
    has("remount").then(|| match times.into_iter().any(has) {
        true => "exec,async,relatime,diratime",
        false => "exec,async",
    })
}

fn umount(args: &[OsString]) -> Vec<OsString> {
    let mut words = vec![args[0].clone(), "umount".into()];
    let mut rest = args[1..].iter();
    while let Some(arg) = rest.next() {
        match arg.to_str() {
            Some("-t" | "-N") => drop(rest.next()),
            Some(flags) if flags.starts_with('-') && is_of(flags, "flnrv") => {
                // Forced is for servers that are out of reach; it may take long, but it need not be busy.
                if flags.contains(['l', 'f']) {
                    words.push("--lazy".into());
                }
            }
            _ => words.push(arg.clone()),
        }
    }
    words
}

fn is_of(flags: &str, letters: &str) -> bool {
    flags.len() > 1 && flags[1..].chars().all(|flag| letters.contains(flag))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn become_of(line: &str) -> Option<String> {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let args = arguments(&args, |name| name == "ls" || name == "help")?;
        let args: Vec<_> = args.iter().map(|a| a.to_str().unwrap()).collect();
        Some(args[1..].join(" "))
    }

    #[test]
    fn helpers() {
        for (line, want) in [
            (
                "/sbin/mount.fuse.uext4 /a.img /mnt -sv -o rw,noauto -t fuse.uext4",
                "mount -o rw,noauto /a.img /mnt",
            ),
            ("mount.uext4 a.img /mnt -r", "mount -o ro a.img /mnt"),
            ("mount.uext4 a.img /mnt -f", "--version"),
            ("uext4 /a.img /mnt -o ro", "mount -o ro /a.img /mnt"),
            (
                "mount.fuse.uext4 /a.img /mnt -o rw,nosuid,remount",
                "mount -o exec,async -o rw,nosuid,remount /a.img /mnt",
            ),
            (
                "mount.fuse.uext4 /a.img /mnt -o ro,relatime,remount",
                "mount -o exec,async,relatime,diratime -o ro,relatime,remount /a.img /mnt",
            ),
            ("umount.fuse.uext4 /mnt -n -t fuse.uext4", "umount /mnt"),
            ("umount.fuse.uext4 -l /mnt", "umount --lazy /mnt"),
        ] {
            assert_eq!(become_of(line).as_deref(), Some(want), "{line}");
        }
        for line in [
            "uext4",
            "uext4 ls a.img",
            "uext4 --journal j ls",
            "uext4 typo a.img -l",
        ] {
            assert_eq!(become_of(line), None, "{line}");
        }
    }
}
