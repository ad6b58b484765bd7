//! Words that are typed for a command of another name.

/// Each word, and what does that here; where that is more than a command line, the end of a sentence that starts with one.
const MEANINGS: &[(&[&str], &str)] = &[
    (&["list", "dir", "l"], "ls IMAGE:/PATH"),
    (
        &["copy", "put", "add", "insert", "upload"],
        "cp FILE IMAGE:/PATH",
    ),
    (
        &["get", "extract", "unpack", "download"],
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
        &["repair"],
        "check IMAGE` names what is damaged, and `check --repair IMAGE` repairs it",
    ),
    (&["realpath"], "readlink -f IMAGE:/PATH"),
    (
        &["debugfs", "e2image"],
        "dump IMAGE inode /PATH` shows a file as it is on disk; a link named debugfs or e2image to uext4 acts as the program",
    ),
    (&["filefrag"], "dump IMAGE inode /PATH"),
    (
        &["unmount", "fusermount", "fusermount3", "eject"],
        "umount DIR",
    ),
    (&["fsfreeze"], "freeze DIR"),
    (&["unfreeze"], "thaw DIR"),
    (&["mounts", "findmnt"], "mount"),
    (&["fstrim", "discard", "sparsify"], "trim IMAGE"),
    (&["usage", "size", "free"], "df IMAGE"),
    (
        &["getfattr", "attr"],
        "xattr list -d IMAGE:/PATH` shows all attributes, and `uext4 xattr get IMAGE:/PATH NAME` one",
    ),
    (
        &["setfattr"],
        "xattr set IMAGE:/PATH NAME VALUE` sets an attribute, and `uext4 xattr remove IMAGE:/PATH NAME` removes one",
    ),
    (&["fallocate"], "truncate -s SIZE IMAGE:/PATH"),
    (
        &["tee"],
        "cp --append - IMAGE:/PATH` appends standard input, and `uext4 cp - IMAGE:/PATH` replaces the file by it",
    ),
    (&["append"], "cp --append FILE IMAGE:/PATH"),
    (&["dd"], "cp - IMAGE:/PATH"),
    (
        &["tar", "cpio", "untar", "unzip"],
        "cp -a DIR/. IMAGE:/PATH` copies what was unpacked into DIR, and `uext4 cp -a IMAGE:/PATH DIR` copies files out, to be packed",
    ),
    (&["rsync"], "cp -a DIR/. IMAGE:/PATH"),
    (
        &["install"],
        "cp FILE IMAGE:/PATH` and then `uext4 chmod`, or `uext4 mkdir -p -m MODE IMAGE:/PATH` for a directory",
    ),
    (
        &[
            "md5sum",
            "sha1sum",
            "sha256sum",
            "sha512sum",
            "b2sum",
            "cksum",
        ],
        "cat IMAGE:/PATH | sha256sum",
    ),
    (
        &[
            "wc", "sort", "hexdump", "xxd", "od", "strings", "awk", "sed",
        ],
        "cat IMAGE:/PATH` writes the file to standard output, for other programs to read",
    ),
    (
        &["cmp"],
        "cat IMAGE:/PATH | cmp - FILE` compares a file, and `uext4 mount -r IMAGE DIR` shows trees to diff",
    ),
    (
        &["losetup", "kpartx"],
        "info IMAGE` lists the partitions of a disk, and --offset BYTES makes all commands use one",
    ),
    (
        &["getcap", "setcap"],
        "xattr list -d IMAGE:/PATH` shows security.capability, and `uext4 cp -a` keeps it",
    ),
];

/// Options that another program of the name of a command has, and what does that here.
const OPTIONS: &[(&str, &[&str], &str)] = &[
    ("xattr", &["-w"], "xattr set IMAGE:/PATH NAME VALUE"),
    ("xattr", &["-l"], "xattr list -d IMAGE:/PATH"),
    ("xattr", &["-p"], "xattr get IMAGE:/PATH NAME"),
    ("xattr", &["-d"], "xattr remove IMAGE:/PATH NAME"),
    (
        "cp",
        &["--parents"],
        "mkdir -p IMAGE:/DIR` makes the directories to copy into",
    ),
    ("df", &["--output"], "df --json IMAGE"),
    (
        "mkfs",
        &["--all-root", "--root-owned", "--squash"],
        "mkfs IMAGE --from DIR --owner 0:0",
    ),
];

/// The command line for what `option` of `command` asks for.
pub fn option_meant(command: &str, option: &str) -> Option<&'static str> {
    let is_meant =
        |(of, options, _): &&(&str, &[&str], &str)| *of == command && options.contains(&option);
    OPTIONS.iter().find(is_meant).map(|(.., line)| *line)
}

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
        for (of, _, line) in OPTIONS {
            assert!(
                is_command(of) && is_command(line.split(' ').next().unwrap()),
                "{line}"
            );
        }
        assert_eq!(meant("unmount"), Some("umount DIR"));
        assert_eq!(option_meant("df", "--output"), Some("df --json IMAGE"));
        assert_eq!(option_meant("du", "--output"), None);
        assert_eq!(meant("ls"), None);
    }
}
