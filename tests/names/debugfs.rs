//! Command lines of debugfs and e2image.

use crate::{Line, all_equal};

const MADE: &str = "mke2fs -q -t ext4 -U 11111111-2222-4333-8444-555555555555 -E hash_seed=11111111-2222-4333-8444-666666666666 -d ../tree t.img 64M";
const OLD: &str = "mke2fs -q -t ext2 -d ../tree t.img 16M";

/// A line that is equal in everything.
const fn equal(before: &'static str, line: &'static str) -> Line {
    Line {
        before,
        line,
        differs: &[],
    }
}

/// What is read is equal, byte for byte: as libguestfs, dracut, initramfs-tools and recovery guides script it.
#[test]
fn requests_that_read() {
    all_equal(
        "debugfs",
        &[
            equal(
                MADE,
                "debugfs -R 'ls -l /' t.img; debugfs -R 'ls -p /etc' t.img; debugfs -R 'ls -d' t.img; debugfs -R 'ls -c etc' t.img",
            ),
            equal(
                MADE,
                "debugfs -R 'stat /usr/bin/tool' t.img; debugfs -R 'stat <2>' t.img; debugfs -R 'stat <8>' t.img; debugfs -R 'stat <7>' t.img; debugfs -R 'stat bin' t.img",
            ),
            equal(MADE, "debugfs -R 'stat /sbin/init' t.img; echo $?"),
            equal(
                MADE,
                "debugfs -R 'ncheck 12 13 14' t.img; debugfs -R 'icheck 8000 100 1 99999' t.img",
            ),
            equal(
                MADE,
                "debugfs -R 'dump -p /usr/bin/tool out' t.img; stat -c '%s %a' out; cmp out ../tree/usr/bin/tool; debugfs -R 'cat /etc/hostname' t.img",
            ),
            equal(
                MADE,
                "mkdir d; debugfs -R 'rdump /etc /usr d' t.img; find d -type f -printf '%P %s %m\n' | sort",
            ),
            equal(
                MADE,
                "debugfs -R features t.img; debugfs -R 'testb 100 3' t.img; debugfs -R 'testi <12>' t.img; debugfs -R 'imap /etc' t.img",
            ),
            equal(
                MADE,
                "debugfs -R 'blocks /usr/bin/tool' t.img; debugfs -R 'ex /usr/bin/tool' t.img; debugfs -R 'bmap /usr/bin/tool 3' t.img",
            ),
            equal(
                OLD,
                "debugfs -R 'stat /usr/bin/tool' t.img; debugfs -R 'blocks /usr/bin/tool' t.img; debugfs -R 'ex /usr' t.img; debugfs -R logdump t.img",
            ),
            equal(
                MADE,
                "debugfs -R logdump t.img; debugfs -R 'logdump -O' t.img; debugfs -R 'logdump -aS' t.img",
            ),
            equal(
                MADE,
                "debugfs -R stats t.img; debugfs -R 'stats -h' t.img | grep -c .",
            ),
            equal(
                MADE,
                "printf 'cd etc\npwd\n# comment\n\nls\nfrob\nstat nix\n' > c; debugfs -f c t.img; echo $?; debugfs t.img < c; echo $?; debugfs -f - t.img < c; echo $?",
            ),
            equal(
                MADE,
                "printf 'cd /usr/bin\nchroot .\npwd\nls /\ncd ..\npwd\nq\nls' | debugfs t.img",
            ),
            equal(
                "",
                "debugfs -R ls none; echo $?; debugfs -V; echo $?; debugfs -Q; echo $?; debugfs -f none",
            ),
        ],
    );
}

/// populate-extfs.sh of OpenEmbedded.
const POPULATE: &str = r#"
seq 1 40000 > big; cat > c <<'E'
mkdir "new"
sif "new" mode 0x41ed
sif "new" uid 1000
sif "new" gid 100
cd /new
write "big" "a b"
sif "a b" mode 0x89ed
sif "a b" uid 0
sif "a b" gid 0
symlink "sh" "busybox"
sif "sh" mode 0xa1ff
sif "sh" uid 5
sif "sh" gid 5
mknod "console" c 0x5 0x1
sif "console" mode 0x2180
mknod "sda" b 0x8 0x0
sif "sda" mode 0x61b0
mknod "pipe" p
sif "pipe" mode 0x1180
cd /
write big other
rm /other
ln "/new/a b" /other
sif "/new/a b" links_count 2
sif /other mtime @1600000000
sif /other atime 20200101
sif /other ctime 20200101123456
sif /other crtime 20200101
sif /new mtime @1500000000
E
debugfs -w -f c t.img; echo $?; debugfs -R 'ls -p /new' t.img; debugfs -R 'ls -p' t.img
debugfs -R 'stat other' t.img | grep -e time -e Links -e Mode; debugfs -R 'dump /other out' t.img; cmp out big; debugfs -R 'stat new' t.img | grep mtime"#;

/// What is changed is equal, and the image is sound.
#[test]
fn requests_that_write() {
    all_equal(
        "debugfs -w",
        &[
            equal(MADE, POPULATE),
            // buildroot and embedded builds: single requests.
            equal(
                MADE,
                "seq 1 9 > f; debugfs -w -R 'write f /etc/f' t.img; debugfs -R 'cat /etc/f' t.img; debugfs -w -R 'rm /etc/f' t.img; debugfs -w -R 'mkdir /new' t.img; debugfs -w -R 'rmdir /new' t.img",
            ),
            equal(
                OLD,
                "seq 1 90000 > f; debugfs -w -R 'rm /usr/bin/tool' t.img; debugfs -w -R 'write f /f' t.img >/dev/null; debugfs -R 'dump /f out' t.img; cmp f out",
            ),
            equal(
                MADE,
                "debugfs -w -R 'ea_set /etc/hostname security.selinux system_u:object_r:etc_t:s0' t.img; debugfs -R 'ea_list /etc/hostname' t.img; debugfs -R 'ea_get -V /etc/hostname security.selinux' t.img; debugfs -w -R 'ea_rm /etc/hostname security.selinux' t.img; debugfs -R 'ea_list /etc/hostname' t.img",
            ),
            equal(
                MADE,
                "debugfs -w -R 'ssv volume_name root' t.img; debugfs -w -R 'ssv mnt_count 7' t.img; debugfs -w -R 'set_super_value last_mounted /mnt' t.img; debugfs -w -R 'ssv max_mnt_count -1' t.img; debugfs -w -R 'ssv lastcheck 20200101' t.img; dumpe2fs -h t.img 2>/dev/null | grep 'Last checked: *Wed'",
            ),
            equal(
                MADE,
                "debugfs -w -R 'feature ^dir_nlink' t.img; debugfs -w -R 'sif /etc flags 0x80080' t.img; debugfs -R 'stat /etc' t.img | grep Flags",
            ),
            // Damage that is asked for is what e2fsck finds.
            equal(
                MADE,
                "debugfs -w -R 'sif /etc/hostname links_count 5' t.img; e2fsck -fn t.img >f; echo $?; debugfs -w -R 'sif /etc/hostname links_count 1' t.img",
            ),
            equal(
                MADE,
                "debugfs -w -R 'seti <900>' t.img; debugfs -R 'testi <900>' t.img; debugfs -w -R 'freei <900>' t.img",
            ),
            equal(
                MADE,
                "debugfs -w -R 'setb 5000' t.img; debugfs -R 'testb 5000' t.img; debugfs -w -R 'freeb 5000' t.img",
            ),
        ],
    );
}

/// A write that failed is an exit code of 1, which the original does not have.
#[test]
fn failures_are_exit_codes() {
    let differing = |line: &'static str| Line {
        before: MADE,
        line,
        // The original leaves a directory without a name.
        differs: &["faults"],
    };
    all_equal(
        "debugfs -w",
        &[
            differing("debugfs -w -R 'mkdir /etc' t.img || test -n \"$OURS\""),
            differing("debugfs -w -R 'rm /none' t.img || test -n \"$OURS\""),
            differing("debugfs -R 'mkdir /x' t.img || test -n \"$OURS\""),
            differing("debugfs -w -R 'write none /x' t.img || test -n \"$OURS\""),
        ],
    );
}

/// Metadata images: e2fsck and debugfs see in them what they see in those of the original.
#[test]
fn images_of_metadata() {
    all_equal(
        "e2image",
        &[
            equal(
                MADE,
                "e2image -r t.img m.img; debugfs -R 'ls -p /etc' m.img; debugfs -R 'stat /usr/bin/tool' m.img; debugfs -R 'cat /usr/bin/tool' m.img | tr -d '\\0' | wc -c",
            ),
            equal(
                MADE,
                "e2image -Q t.img m.qcow2; qemu-img convert -O raw m.qcow2 m.img; rm m.qcow2",
            ),
            equal(
                OLD,
                "e2image -ra t.img m.img; cmp <(debugfs -R 'cat /usr/bin/tool' m.img) ../tree/usr/bin/tool",
            ),
            equal(
                MADE,
                "e2image -r t.img - >m.img; e2image -r none m; echo $?; e2image; echo $?",
            ),
        ],
    );
}
