//! The command lines.

#![expect(non_upper_case_globals, reason = "they have the names of the tests")]

use crate::Line;

/// A line that is equal in everything.
const fn equal(before: &'static str, line: &'static str) -> Line {
    Line {
        before,
        line,
        differs: &[],
    }
}

/// A line of which something may differ.
const fn but(before: &'static str, line: &'static str, differs: &'static [&'static str]) -> Line {
    Line {
        before,
        line,
        differs,
    }
}

const EMPTY: &str = "truncate -s 300M t.img";
const MADE: &str =
    "mke2fs -q -t ext4 -L data -U 11111111-2222-4333-8444-555555555555 -d ../tree t.img 64M";
const SMALL: &str = "mke2fs -q -t ext4 t.img 16M";
const LARGE: &str = "mke2fs -q -t ext4 -b 4096 t.img 600M";
/// The smallest size is an estimate of resize2fs; here it is the smallest that is possible.
const SMALLEST: &[&str] = &[
    "output",
    "Block count",
    "Reserved block count",
    "Free blocks",
    "Free inodes",
    "Inode count",
    "Overhead clusters",
    "bytes",
];
/// systemd-repart, systemd-makefs and systemd-growfs.
pub const systemd: &[Line] = &[
    equal(
        EMPTY,
        "mkfs.ext4 -L root -U 0c1d2e3f-0000-4000-8000-000000000001 -I 256 -m 0 -E nodiscard,lazy_itable_init=1 -b 4096 -T default t.img",
    ),
    equal(
        EMPTY,
        "mkfs.ext4 -q -L root -U 0c1d2e3f-0000-4000-8000-000000000001 -I 256 -m 0 -E nodiscard,lazy_itable_init=1 -b 4096 -T default -d ../tree t.img",
    ),
    equal(
        EMPTY,
        "mkfs.ext4 -E nodiscard,hash_seed=0c1d2e3f-0000-4000-8000-000000000002 -O ^has_journal t.img",
    ),
    equal(EMPTY, "mkfs.ext2 -q -L esp -m 0 -E nodiscard t.img"),
    equal(LARGE, "truncate -s 800M t.img && resize2fs t.img"),
];

/// mkosi, and what it calls in its tests.
pub const mkosi: &[Line] = &[
    equal(
        "",
        "mkfs.ext4 -q -t ext4 -E lazy_itable_init=1,lazy_journal_init=1 -L mkosi t.img 64M",
    ),
    equal(
        MADE,
        "tune2fs -U 0c1d2e3f-0000-4000-8000-000000000003 t.img",
    ),
    equal(MADE, "e2fsck -fp t.img; resize2fs t.img 40M"),
];

/// fs/ext2 of buildroot, and genimage.
pub const buildroot: &[Line] = &[
    equal(
        "",
        "mkfs.ext4 -d ../tree -r 1 -N 0 -m 5 -L rootfs -I 256 -O ^64bit t.img 60M",
    ),
    equal(
        "",
        "mkfs.ext2 -d ../tree -r 1 -N 0 -m 5 -L rootfs t.img 60M",
    ),
    equal("", "mkfs.ext3 -d ../tree -N 0 -m 5 -L rootfs t.img 61440"),
    equal(
        MADE,
        "tune2fs -O extents,uninit_bg,dir_index t.img >/dev/null; e2fsck -fy t.img >/dev/null; echo $?",
    ),
    equal(
        "",
        "mke2fs -t ext4 -L '' -E root_owner=0:0 t.img 32768; tune2fs -c 0 -i 0 t.img",
    ),
];

/// The image types of OpenEmbedded, and wic.
pub const yocto: &[Line] = &[
    equal(
        "truncate -s 64M t.img",
        "mkfs.ext4 -F -i 8192 t.img -d ../tree",
    ),
    equal(
        "truncate -s 64M t.img",
        "mkfs.ext3 -F -i 4096 t.img -d ../tree",
    ),
    // The lines of -v that count by kind of file are other ones.
    but(MADE, "fsck.ext4 -pvfD t.img", &["output"]),
    equal(
        MADE,
        "fsck.ext4 -pfD t.img >/dev/null; tune2fs -U 0c1d2e3f-0000-4000-8000-000000000004 t.img >/dev/null; echo $?",
    ),
    equal(
        "",
        "mke2fs -t ext4 -O ^metadata_csum,^64bit -b 1024 -F -L boot t.img 32M",
    ),
];

/// libguestfs and its tools.
pub const libguestfs: &[Line] = &[
    equal(EMPTY, "mke2fs -F -t ext4 -b 4096 -i 16384 -L guest t.img"),
    equal(MADE, "tune2fs -l t.img"),
    equal(MADE, "e2fsck -f -y t.img"),
    equal(MADE, "e2fsck -p -f t.img"),
    but(
        MADE,
        "e2fsck -fy t.img >/dev/null; resize2fs -M t.img",
        SMALLEST,
    ),
    but(MADE, "resize2fs -P -f t.img | sed 's/[0-9]*$/N/'", &[]),
    equal(
        MADE,
        "tune2fs -U clear t.img; dumpe2fs -h t.img 2>/dev/null | grep UUID",
    ),
    equal(MADE, "e2label t.img; e2label t.img other; e2label t.img"),
    equal(
        MADE,
        "tune2fs -c 20 -i 1w -C 3 -m 1 -e remount-ro -g 0 -u 0 -M /mnt t.img",
    ),
    equal(
        MADE,
        "tune2fs -o acl,^user_xattr -E stride=4,stripe_width=16 t.img",
    ),
];

/// cloud-init's growpart and resizefs, cloud-utils, image builders of clouds.
pub const cloud_init: &[Line] = &[
    equal(
        LARGE,
        "truncate -s 900M t.img; resize2fs t.img; resize2fs t.img",
    ),
    equal(MADE, "dumpe2fs -h t.img"),
    equal(MADE, "dumpe2fs t.img"),
    equal(
        SMALL,
        "tune2fs -L cloudimg-rootfs t.img; tune2fs -l t.img | grep -E '^(Filesystem volume name|Block (count|size))'",
    ),
];

/// firecracker, kata containers, and other sandboxes in virtual machines.
pub const sandboxes: &[Line] = &[
    equal("truncate -s 128M t.img", "mkfs.ext4 -F t.img"),
    equal(
        "truncate -s 128M t.img",
        "mkfs.ext4 -q -F -b 4096 -m 0 -O ^has_journal -d ../tree t.img",
    ),
    but(
        MADE,
        "e2fsck -fy t.img >/dev/null && resize2fs -M t.img >/dev/null; echo $?",
        SMALLEST,
    ),
    equal(MADE, "resize2fs t.img 163840s"),
    equal(MADE, "resize2fs -f t.img 96M"),
    equal(MADE, "resize2fs t.img 50000"),
];

/// fsck(8) at boot, initramfs-tools and dracut.
pub const boot: &[Line] = &[
    equal(MADE, "e2fsck -p t.img"),
    equal(MADE, "fsck.ext4 -a -C0 t.img"),
    equal(MADE, "e2fsck -n t.img"),
    equal(MADE, "e2fsck -fn t.img"),
    equal(PIECES, "e2fsck -fn ext4.img; e2fsck -fn ext2.img"),
    equal(
        "mke2fs -q -t ext4 -L data t.img 64M; tune2fs -c 3 -C 7 t.img",
        "e2fsck -p t.img; e2fsck -p t.img",
    ),
    equal(
        "mke2fs -q -t ext4 -L data t.img 64M; debugfs -w -R 'set_super_value state 2' t.img",
        "e2fsck -p t.img; e2fsck -p t.img",
    ),
    // Faults are named in other words.
    but(
        "mke2fs -q -t ext4 -L data t.img 64M; debugfs -w -R 'set_inode_field <11> links_count 9' t.img",
        "e2fsck -fn t.img",
        &["output"],
    ),
    but(
        "mke2fs -q -t ext4 -L data t.img 64M; debugfs -w -R 'set_inode_field <11> links_count 9' t.img",
        "e2fsck -fp t.img; e2fsck -fp t.img",
        &["output"],
    ),
    but(
        "mke2fs -q -t ext4 -L data t.img 64M; debugfs -w -R 'set_inode_field <11> links_count 9' t.img",
        "e2fsck -fy t.img; e2fsck -fn t.img",
        &["output"],
    ),
    but(
        "mke2fs -q -t ext4 -b 4096 -L data t.img 600M; dd if=/dev/zero of=t.img bs=4k count=1 conv=notrunc",
        "e2fsck -fy t.img >/dev/null 2>&1; echo $?; e2label t.img",
        &["output"],
    ),
];

/// Files that lie in pieces, with extents and with block maps.
const PIECES: &str = "for t in ext4 ext2; do mke2fs -q -t $t -b 1024 $t.img 8M; seq 1 20000 > a; head -c 30000 a > b; \
                      printf '%s\\n' 'write b 1' 'write b 2' 'write b 3' 'rm 2' 'write a 4' | debugfs -w -f - $t.img; done";

/// Install scripts: of distributions, and what they read back.
pub const install_scripts: &[Line] = &[
    equal(EMPTY, "mke2fs -n -t ext4 t.img"),
    equal(EMPTY, "mke2fs -t ext4 -O bigalloc -C 16384 t.img"),
    equal(EMPTY, "mkfs.ext4 -q -O bigalloc -b 4096 -d ../tree t.img"),
    equal(EMPTY, "mke2fs -q -t ext4 -C 16384 t.img; echo $?"),
    equal("truncate -s 9G t.img", "mke2fs -n t.img"),
    equal("truncate -s 700G t.img", "mkfs.ext4 -n -m 1 t.img"),
    equal(EMPTY, "mkfs.ext4 -v -T small t.img"),
    equal(
        EMPTY,
        "mkfs.ext4 -T largefile t.img; mkfs.ext4 -j -J size=8 t.img",
    ),
    equal(
        "",
        "mke2fs -t ext4 t.img 16M; mke2fs -t ext3 b.img 8192; mke2fs c.img 4M",
    ),
    equal(EMPTY, "mkfs.ext4 t.img 100M"),
    equal(
        EMPTY,
        "mkfs.ext4 -O quota -E quotatype=usrquota:grpquota t.img",
    ),
    equal(
        EMPTY,
        "for o in 'quota -E quotatype=usr' 'quota,project -E quotatype=grpquota' 'quota -E quotatype=prjquota' 'none,quota,project -I 256'; do mkfs.ext4 -q -F -O $o t.img; dumpe2fs -h t.img 2>/dev/null | grep 'quota inode'; done",
    ),
    equal(
        SMALL,
        "for q in usrquota grpquota,prjquota ^usrquota prj,^grp ^prjquota; do tune2fs -Q $q t.img >/dev/null; echo $?; dumpe2fs -h t.img 2>/dev/null | grep -E 'quota inode|^Filesystem features'; done",
    ),
    equal(
        "truncate -s 300M t.img",
        "mkfs.ext4 -q -E offset=1048576 t.img 100M; dd if=t.img of=u.img bs=1M skip=1 count=100 2>/dev/null",
    ),
    equal(
        MADE,
        "dumpe2fs -g t.img; dumpe2fs -x t.img; dumpe2fs -o superblock=8193 -h t.img | grep -v Checksum",
    ),
    // The blocks of the journal are still counted as overhead here, which the kernel counts again.
    but(
        SMALL,
        "tune2fs -O ^has_journal t.img; tune2fs -j t.img",
        &["Overhead clusters"],
    ),
    equal(SMALL, "resize2fs -s t.img; resize2fs -b t.img"),
    equal(
        "mkdir d; touch d/a d/b",
        "chattr +d d/a; chattr =A d/b; lsattr d | sort; lsattr -d d; chattr -R -dA d; lsattr d/a",
    ),
];

/// What is wrong: command lines, names, images.
pub const wrong: &[Line] = &[
    equal(
        "",
        "mke2fs; echo $?; mke2fs -Q t; echo $?; mke2fs none; echo $?; mkfs.ext4 -n none 300M",
    ),
    // Counts of clusters and of blocks, and where the first superblock is.
    equal(
        "mke2fs -q -t ext4 -O bigalloc -b 1024 -U 11111111-2222-4333-8444-555555555555 t.img 48M",
        "dumpe2fs t.img 2>/dev/null; dumpe2fs -g t.img 2>/dev/null; e2fsck -n t.img; e2fsck -fn t.img; debugfs -R stats t.img 2>/dev/null; debugfs -w -R 'setb 40000' t.img; debugfs -w -R 'freeb 40000' t.img",
    ),
    equal(
        "mke2fs -q -t ext4 -O sparse_super2 -b 4096 -U 11111111-2222-4333-8444-555555555555 t.img 48M",
        "dumpe2fs -h t.img; tune2fs -l t.img",
    ),
    // A device that ends before its file system, which is marked clean; the original marks it as one with errors.
    but(
        MADE,
        "truncate -s -1M t.img; for o in -p -fp; do e2fsck $o t.img >/dev/null 2>&1; echo $?; done; dumpe2fs t.img >/dev/null 2>&1; echo $?",
        &["Filesystem state"],
    ),
    but(
        MADE,
        "truncate -s 2M t.img; e2fsck -p t.img >/dev/null 2>&1; echo $?; dumpe2fs -h t.img >/dev/null 2>&1; echo $?; truncate -s 24M t.img",
        &["Filesystem state"],
    ),
    // Values that there are none of.
    equal(
        MADE,
        "for o in '-b x' '-C x' '-C 77' '-C -77' '-E ea_ver=9' -D -s -S; do e2fsck -n $o t.img >/dev/null 2>&1; echo $?; done",
    ),
    equal(
        MADE,
        "for o in '-i 1023' '-i 67108865' '-i 0' '-E quotatype=foo' '-E quotatype=usrquota:' '-r 2' '-r x' '-b 3'; do mke2fs -F -q $o t.img >/dev/null 2>&1; echo $?; done; debugfs -b x -R ls t.img >/dev/null 2>&1; echo $?",
    ),
    equal(EMPTY, "mke2fs -O frob t.img; mkfs.ext4 t.img 1000x"),
    equal(
        "",
        "e2fsck; echo $?; e2fsck -Q t; echo $?; e2fsck -p none; echo $?; e2fsck -n none; echo $?; e2fsck t; echo $?; e2fsck -py t",
    ),
    equal(
        "",
        "resize2fs; echo $?; resize2fs none; echo $?; resize2fs -V; echo $?; dumpe2fs; echo $?; dumpe2fs none; echo $?; e2label; echo $?; e2label none",
    ),
    equal(
        "",
        "tune2fs; echo $?; tune2fs -l none; echo $?; chattr; echo $?; chattr +i none; echo $?; lsattr none; echo $?; lsattr -Q",
    ),
    equal(
        MADE,
        "resize2fs t.img 100x; echo $?; resize2fs t.img 1M; echo $?; tune2fs -U nix t.img; echo $?; tune2fs -e nix t.img; echo $?; tune2fs -O frob t.img",
    ),
    equal(
        MADE,
        "tune2fs t.img; echo $?; tune2fs -O ^extent t.img; echo $?; tune2fs -J size=4 t.img; echo $?; tune2fs -m 90 t.img; echo $?; tune2fs -r 99999999 t.img",
    ),
    equal(
        "truncate -s 1M t.img",
        "dumpe2fs t.img; echo $?; tune2fs -L x t.img; echo $?; resize2fs t.img; echo $?; e2label t.img",
    ),
    but(
        "truncate -s 1M t.img",
        "e2fsck -p t.img >/dev/null; echo $?; e2fsck -fn t.img >/dev/null; echo $?",
        &[],
    ),
    equal(
        "mke2fs -q -t ext4 t.img 16M; debugfs -w -R 'feature needs_recovery' t.img; debugfs -w -R 'set_super_value state 0' t.img",
        "resize2fs t.img 32M; echo $?",
    ),
    equal(
        MADE,
        "tune2fs -c 16001 t.img >/dev/null 2>&1; echo $?; tune2fs -c random t.img >/dev/null; tune2fs -l t.img | grep -cE 'Maximum mount count: +([23][0-9]|40)$'; tune2fs -c 7 t.img; dumpe2fs -m t.img; echo $?; mke2fs -F -q -O inline_data -I 128 t.img 2>/dev/null; echo $?",
    ),
    equal(
        "mke2fs -q -b 1024 t.img 16M",
        "e2fsck -fn -b 1 t.img >/dev/null 2>&1; echo $?",
    ),
];
