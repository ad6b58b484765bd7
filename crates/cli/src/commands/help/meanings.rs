//! Words that are typed for a command of another name.

/// Each word, and what does that here; where that is more than a command line, the end of a sentence that starts with one.
const MEANINGS: &[(&[&str], &str)] = &[
    (&["list", "dir", "l"], "ls IMAGE:/PATH"),
    (
        &["copy", "put", "add", "insert", "upload"],
        "cp FILE IMAGE:/PATH",
    ),
    (
        &["get", "extract", "unpack", "export", "download"],
        "cp -a IMAGE:/PATH DIR",
    ),
    (&["write"], "cp - IMAGE:/PATH"),
    (
        &["read", "type", "print", "head", "tail", "less", "grep"],
        "cat IMAGE:/PATH",
    ),
    (
        &["edit", "vi", "vim", "nano"],
        "cp IMAGE:/PATH FILE` gets it, and `uext4 cp FILE IMAGE:/PATH` puts it back",
    ),
    (
        &["delete", "del", "remove", "unlink", "erase"],
        "rm IMAGE:/PATH",
    ),
    (&["move", "rename"], "mv IMAGE:/OLD IMAGE:/NEW"),
    (&["symlink", "link"], "ln -s TARGET IMAGE:/PATH"),
    (&["md"], "mkdir IMAGE:/PATH"),
    (
        &[
            "format",
            "create",
            "mke2fs",
            "mkfs.ext4",
            "mkfs.ext3",
            "mkfs.ext2",
            "make",
            "new",
            "init",
        ],
        "mkfs IMAGE --size SIZE",
    ),
    (
        &["create"],
        "mkfs IMAGE --size SIZE` or `uext4 touch IMAGE:/PATH` does that",
    ),
    (&["build", "pack", "genext2fs"], "mkfs IMAGE --from DIR"),
    (
        &["import"],
        "cp -a DIR IMAGE:/PATH` or for a new image `uext4 mkfs IMAGE --from DIR` does that",
    ),
    (
        &["e2fsck", "fsck.ext4", "verify", "scan", "test"],
        "check IMAGE",
    ),
    (
        &["dumpe2fs", "show", "super", "inspect", "blkid", "file"],
        "info IMAGE",
    ),
    (
        &["tune2fs"],
        "info IMAGE` shows what tune2fs -l shows; tune2fs itself changes it",
    ),
    (
        &["repair"],
        "check IMAGE` names what is damaged, and `e2fsck -fy IMAGE` repairs it",
    ),
    (&["realpath"], "readlink -f IMAGE:/PATH"),
    (
        &["debugfs", "e2image", "filefrag"],
        "dump IMAGE inode /PATH",
    ),
    (
        &["unmount", "fusermount", "fusermount3", "eject"],
        "umount DIR",
    ),
    (&["mounts", "findmnt"], "mount"),
    (&["fstrim", "discard", "sparsify"], "trim IMAGE"),
    (&["usage", "size", "free"], "df IMAGE"),
    (&["getfattr", "attr"], "xattr list -d IMAGE:/PATH"),
    (&["setfattr"], "xattr set IMAGE:/PATH NAME VALUE"),
    (&["fallocate"], "truncate -s SIZE IMAGE:/PATH"),
    (&["tee", "dd"], "cp - IMAGE:/PATH"),
    (
        &["tar", "cpio"],
        "mount IMAGE DIR` shows the files to it, and `uext4 cp -a IMAGE:/PATH DIR` copies them",
    ),
    (&["untar", "rsync"], "cp -a DIR IMAGE:/PATH"),
];

/// The command line for what `word` asks for.
pub fn meant(word: &str) -> Option<&'static str> {
    let found = MEANINGS.iter().find(|(words, _)| words.contains(&word));
    found.map(|(_, line)| *line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_meant_is_a_command_and_the_word_is_not() {
        let command = super::super::command();
        let is_command = |word: &str| command.find_subcommand(word).is_some();
        for (words, line) in MEANINGS {
            assert!(is_command(line.split(' ').next().unwrap()), "{line}");
            assert!(words.iter().all(|word| !is_command(word)), "{words:?}");
        }
        assert_eq!(meant("unmount"), Some("umount DIR"));
        assert_eq!(meant("ls"), None);
    }
}
