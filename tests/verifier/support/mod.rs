//! Images for the tests, made by mke2fs, and what e2fsck says of them.
pub mod shapes;

use uext4_check::{CheckError, CheckOptions, CheckReport, NoProgress, check};
use uext4_testkit::prelude::*;

/// True if the machine has what makes images; says so if not.
pub fn have_tools() -> bool {
    let have = ["mke2fs", "e2fsck", "debugfs"].iter().all(|tool| {
        Command::new(tool)
            .arg("-V")
            .output()
            .is_ok_and(|o| o.status.success())
    });
    if !have {
        eprintln!("SKIPPED: e2fsprogs is not installed");
    }
    have
}

/// A directory for images, in memory where there is such a place.
pub fn scratch() -> TempDir {
    let shm = Path::new("/dev/shm");
    let dir = if shm.is_dir() {
        TempDir::new_in(shm)
    } else {
        TempDir::new()
    };
    dir.expect("temporary directory")
}

pub fn run(program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).output().expect(program)
}

pub fn run_ok(program: &str, args: &[&str]) {
    let out = run(program, args);
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{program} {args:?}: {text}");
}

/// Makes an image of `size`, filled from `source`.
pub fn mke2fs(path: &Path, size: &str, options: &str, source: Option<&Path>) {
    let mut args: Vec<&str> = vec!["-q", "-F"];
    args.extend(options.split_whitespace());
    if let Some(source) = source {
        args.extend(["-d", source.to_str().expect("path")]);
    }
    args.extend([path.to_str().expect("path"), size]);
    run_ok("mke2fs", &args);
}

/// What [`e2fsck`] says of an image on which e2fsck never ends.
pub const NO_VERDICT: &str = "e2fsck does not end";

/// What `e2fsck -fn` says: true if its exit code is 0 and it did not have to fall back to a backup of
/// the superblock or the descriptors.
pub fn e2fsck(path: &Path) -> (bool, String) {
    let path = path.to_str().expect("path");
    let out = run("timeout", &["60", "e2fsck", "-fn", path]);
    if out.status.code() == Some(124) {
        return (false, NO_VERDICT.to_owned());
    }
    let mut text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&out.stderr));
    let clean = out.status.code() == Some(0) && !text.contains("trying backup blocks");
    (clean, text)
}

/// True if e2fsck's words have an offer to mend something.
pub fn complains(text: &str) -> bool {
    text.contains("? no") || text.contains("IGNORED")
}

/// Checks bytes in memory.
pub fn check_bytes(bytes: &[u8], threads: usize) -> Result<CheckReport, CheckError> {
    let device = MemoryDevice::from_bytes(bytes);
    let options = CheckOptions {
        threads,
        faults_max: 200,
    };
    check(&device, &options, &NoProgress)
}

/// Checks a file and wants no fault.
pub fn assert_clean(path: &Path, what: &str) -> CheckReport {
    let bytes = std::fs::read(path).expect("image");
    let report = check_bytes(&bytes, 2).unwrap_or_else(|e| panic!("{what}: {e}"));
    let text: Vec<String> = report.faults.iter().map(ToString::to_string).collect();
    assert!(
        report.is_clean(),
        "{what}: {} faults:\n{}",
        report.faults_total,
        text.join("\n")
    );
    report
}

/// A directory tree with every kind of file, for `mke2fs -d`. `names` is the size of its largest
/// directory.
pub fn source_tree(root: &Path, names: usize) -> PathBuf {
    let tree = root.join("tree");
    let path = |name: &str| tree.join(name);
    std::fs::create_dir_all(path("a/b/c/d")).expect("mkdir");
    std::fs::create_dir_all(path("big")).expect("mkdir");
    for i in 0..names {
        let name = format!("big/name-{i:06}-{}", "x".repeat(i % 40));
        std::fs::write(path(&name), "z".repeat(i % 90)).expect("write");
    }
    for i in 0..40usize {
        std::fs::write(path(&format!("a/f{i}")), vec![i as u8; i * 337]).expect("write");
        std::fs::create_dir_all(path(&format!("a/b/sub{i}"))).expect("mkdir");
    }
    for i in 0..3 {
        std::fs::hard_link(path("a/f9"), path(&format!("a/b/link{i}"))).expect("link");
    }
    for (i, len) in [5usize, 59, 60, 200, 900].into_iter().enumerate() {
        let target = "t".repeat(len);
        std::os::unix::fs::symlink(target, path(&format!("a/symlink{i}"))).expect("symlink");
    }
    // Every other block, so that there are many extents.
    let mut sparse = vec![0u8; 0];
    for i in 0..700usize {
        sparse.extend(std::iter::repeat_n(if i % 2 == 0 { 1 } else { 0 }, 4096));
    }
    std::fs::write(path("a/sparse"), sparse).expect("write");
    tree
}

/// Gives files extended attributes with debugfs, in inodes and blocks.
pub fn add_xattrs(image: &Path) {
    let value = image.with_extension("value");
    std::fs::write(&value, vec![b'v'; 500]).expect("write");
    let value = value.to_str().expect("path");
    let image = image.to_str().expect("path");
    for i in 1..6 {
        let set = format!("ea_set /a/f{i} user.small value{i}");
        run_ok("debugfs", &["-w", "-R", &set, image]);
    }
    for i in 3..6 {
        let set = format!("ea_set -f {value} /a/f{i} user.large");
        run_ok("debugfs", &["-w", "-R", &set, image]);
    }
    run_ok("debugfs", &["-w", "-R", "mknod fifo p", image]);
    run_ok("debugfs", &["-w", "-R", "mknod chr c 300 70000", image]);
}
