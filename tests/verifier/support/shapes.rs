//! The images that are damaged: every feature and structure is in one of them at least.

use super::{add_xattrs, e2fsck, mke2fs, run, run_ok, source_tree};
use uext4_build::{Plan, Scan};
use uext4_testkit::prelude::*;

/// How an image is made.
pub struct Shape {
    /// Options of mke2fs.
    pub options: &'static str,
    pub size: &'static str,
    /// What is done beyond: `htree` (with a hash: `htree=tea`), `unsigned`, `large-values`, `no-xattrs`,
    /// `triple` (a file with a triply indirect block), `deep` (a hash tree of three levels, made
    /// by our own mkfs), `csum`
    /// (a journal with checksums), `unwritten`.
    pub extras: &'static [&'static str],
}

const fn shape(
    options: &'static str,
    size: &'static str,
    extras: &'static [&'static str],
) -> Shape {
    Shape {
        options,
        size,
        extras,
    }
}

#[rustfmt::skip]
pub const SHAPES: &[Shape] = &[
    shape("-t ext4 -b 1024 -N 1024 -g 4096", "12M", &["htree", "unwritten"]),
    shape("-t ext4 -b 4096 -N 1024 -O ^has_journal", "16M", &[]),
    shape("-t ext4 -b 1024 -N 1024 -O ^metadata_csum,uninit_bg -g 2048", "12M", &["htree"]),
    shape("-t ext2 -b 1024 -N 1024", "12M", &["htree", "unsigned"]),
    shape("-t ext4 -b 2048 -N 1024 -I 512 -O inline_data,^64bit", "16M", &["htree"]),
    shape("-t ext3 -b 1024 -N 1024 -I 128", "12M", &["htree=tea", "triple"]),
    shape("-t ext4 -b 1024 -N 1024 -g 1024 -O orphan_file,meta_bg,^resize_inode", "16M", &["csum"]),
    shape("-t ext4 -b 1024 -N 1024 -g 2048 -O sparse_super2", "12M", &["unwritten"]),
    shape("-t ext4 -b 1024 -N 1024 -O ea_inode,large_dir", "12M", &["large-values"]),
    shape("-t ext4 -b 1024 -N 1024 -O quota,project", "12M", &["htree"]),
    shape("-t ext4 -b 1024 -N 1024 -O mmp", "12M", &["no-xattrs"]),
    shape("-t ext4 -b 1024 -N 1024 -O casefold,encrypt,stable_inodes,verity", "12M", &["htree"]),
    shape("-t ext4 -b 1024 -N 1024 -O ^metadata_csum,^uninit_bg,^flex_bg,^has_journal", "12M", &["htree=legacy"]),
    shape("-t ext4 -b 1024 -N 1024 -g 2048 -O ^flex_bg,^64bit,^extra_isize", "12M", &["htree=tea", "unsigned"]),
    shape("large_dir by uext4 mkfs", "", &["deep"]),
    shape("-O none -b 1024 -N 1024 -I 128", "12M", &[]),
    shape("-t ext4 -b 4096 -N 1024 -I 1024 -O metadata_csum_seed,fast_commit,orphan_file", "32M", &["csum", "htree"]),
    shape("-t ext4 -b 1024 -N 1024 -O ^filetype,^dir_nlink,^huge_file", "12M", &["htree=legacy"]),
    shape("-t ext4 -b 1024 -N 1024 -O inline_data,ea_inode,^metadata_csum", "12M", &["large-values"]),
];

/// Images in clusters of several blocks, which can't get larger or smaller.
#[rustfmt::skip]
pub const CLUSTERED: &[Shape] = &[
    shape("-t ext4 -b 1024 -N 1024 -O bigalloc -C 4096", "24M", &["htree", "unwritten"]),
    shape("-t ext4 -b 4096 -N 1024 -O bigalloc,ea_inode,^metadata_csum -C 16384", "64M", &["large-values"]),
];

/// Makes the image of a shape in `dir`; `files` is the size of its largest directory.
pub fn make(shape: &Shape, dir: &Path, files: usize) -> PathBuf {
    let path = dir.join("base.img");
    let _ = std::fs::remove_file(&path);
    let _ = std::fs::remove_dir_all(dir.join("tree"));
    let tree = source_tree(dir, files);
    let has = |what: &str| shape.extras.contains(&what);
    if has("triple") {
        sparse(
            &tree.join("a/triple"),
            &[5 << 10, 100 << 10, 300 << 10, 67 << 20, 68 << 20],
        );
    }
    if has("deep") {
        make_deep(&tree, &path);
    } else {
        mke2fs(&path, shape.size, shape.options, Some(&tree));
    }
    let image = path.to_str().expect("path");
    if !has("no-xattrs") {
        add_xattrs(&path);
    }
    if has("large-values") {
        large_values(&path);
    }
    if has("unwritten") {
        run_ok("debugfs", &["-w", "-R", "fallocate /a/f3 40 60", image]);
    }
    if has("csum") {
        let script = path.with_extension("script");
        std::fs::write(&script, "jo -c\njc\n").expect("write");
        run_ok(
            "debugfs",
            &["-w", "-f", script.to_str().expect("path"), image],
        );
    }
    if has("unsigned") {
        run_ok("debugfs", &["-w", "-R", "ssv flags 2", image]);
    }
    for extra in shape.extras {
        if let Some(hash) = extra.strip_prefix("htree=") {
            run_ok("tune2fs", &["-E", &format!("hash_alg={hash}"), image]);
        }
    }
    // Makes hash trees, and counts the blocks of values as debugfs does not.
    let tree = shape.extras.iter().any(|e| e.starts_with("htree"));
    run("e2fsck", &[if tree { "-fyD" } else { "-fy" }, image]);
    let (clean, text) = e2fsck(&path);
    assert!(clean, "{}: {text}", shape.options);
    path
}

/// An image of the tree and a directory whose hash tree has three levels; mke2fs takes minutes for it.
fn make_deep(tree: &Path, image: &Path) {
    let one = tree.join("one");
    std::fs::write(&one, "x").expect("write");
    std::fs::create_dir(tree.join("deep")).expect("mkdir");
    for i in 0..48_000 {
        let name = format!("deep/{i:05}{}", "n".repeat(250));
        std::fs::hard_link(&one, tree.join(name)).expect("link");
    }
    let options = MkfsOptions {
        from: vec![tree.into()],
        block_size: 1024,
        inodes: Some(1024),
        features: FeatureSet::parse("large_dir,^has_journal").expect("features"),
        ..MkfsOptions::default()
    };
    let scan = Scan::read(tree, 1, &uext4_build::NoProgress).expect("scan");
    let plan = Plan::new(&options, Some(scan)).expect("plan");
    let device = MemoryDevice::new(plan.image_bytes());
    plan.write(&device, &uext4_build::NoProgress)
        .expect("write");
    device.save_to(image).expect("save");
}

/// A file with a block at each place.
fn sparse(path: &Path, places: &[u64]) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::create(path).expect("create");
    for at in places {
        file.write_all_at(&[7; 1024], *at).expect("write");
    }
}

/// Values that need an inode of their own, one of them shared.
fn large_values(image: &Path) {
    let value = image.with_extension("large");
    let image = image.to_str().expect("path");
    let value_path = value.to_str().expect("path");
    for (n, len) in [(1, 3000usize), (2, 5000), (7, 9000), (8, 9000)] {
        std::fs::write(&value, vec![b'A' + n.min(7); len]).expect("write");
        let set = format!("ea_set -f {value_path} /a/f{n} user.value");
        run_ok("debugfs", &["-w", "-R", &set, image]);
    }
}
