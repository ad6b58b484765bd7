//! filefrag of files of the host and of an image, beside the original on the kernel's mount of the same image.

use uext4_testkit::oracle::KernelMount;
use uext4_testkit::prelude::*;

/// Files in pieces: with holes, unwritten, unordered, short, in the inode, without data.
const FILL: &str = r"
import os
def put(name, *at):
    fd = os.open(name, os.O_CREAT | os.O_RDWR)
    for offset in at:
        os.pwrite(fd, b'x' * 4096, offset)
        os.fsync(fd)
    return fd
put('plain', *range(0, 1 << 20, 65536))
put('gaps', 0, 40960, 20480)
put('late', 1 << 20, (1 << 20) + 8192)
put('far', 0, 1 << 33)
put('between1', 0); put('between2', 0); put('between1', 4096)
os.truncate(put('hole'), 1 << 20)
try: os.posix_fallocate(put('given', 8192), 0, 1 << 20)
except OSError: pass
open('short', 'w').write('hi\n')
os.mkdir('dir'); open('dir/file', 'w').close()
os.symlink('gaps', 'link')
os.setxattr('plain', 'user.a', b'1')
os.setxattr('gaps', 'user.b', b'2' * 700)
os.system('sync -f .')
";

const FILES: [&str; 12] = [
    "plain", "gaps", "late", "far", "between1", "hole", "given", "short", "dir", "link", "missing",
    "plain",
];

const OPTIONS: [&[&str]; 12] = [
    &[],
    &["-v"],
    &["-e"],
    &["-k", "-v"],
    &["-b1M", "-v"],
    &["-b100", "-s"],
    &["-b", "-v"],
    &["-Xv"],
    &["-x"],
    &["-x", "-v"],
    &["-b2G"],
    &["-Q"],
];

/// What a program prints, and its exit code.
fn printed(
    program: &Path,
    options: &[&str],
    files: &[String],
    dir: &Path,
) -> (String, Option<i32>) {
    let mut command = Command::new(program);
    let command = command.args(options).args(files).current_dir(dir);
    let out = command.env("LC_ALL", "C").output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    (text, out.status.code())
}

/// The lines without the numbers of the device where the kernel and the image may say it in two ways: in how many parts blocks are listed
/// that are mapped one by one, and where in its block an inode has its data.
fn told(text: &str) -> String {
    let rows = text.lines().filter(|line| {
        !line.contains("merged") && !line.contains("inline") && !line.contains("ext:")
    });
    rows.collect::<Vec<_>>().join("\n")
}

#[test]
fn extents_are_listed_as_the_original_does() {
    require!(
        kernel_mounts()
            && ["mke2fs", "filefrag", "python3"]
                .into_iter()
                .all(is_installed)
    );
    let work = tempfile::tempdir().unwrap();
    let ours = work.path().join("filefrag");
    std::os::unix::fs::symlink(built::uext4(), &ours).unwrap();
    let theirs = Path::new("filefrag");
    let names: Vec<String> = FILES.map(str::to_owned).into();
    for format in [
        "-t ext4 -b 1024",
        "-t ext4 -b 4096 -O inline_data",
        "-t ext2 -b 1024",
    ] {
        let image = work.path().join("t.img");
        let args: Vec<&str> = format.split(' ').collect();
        uext4_testkit::mke2fs::make(&image, "64M", &args);
        let dir = work.path().join("mount");
        fs::create_dir_all(&dir).unwrap();
        let mounted = KernelMount::new(&image, &dir, "").unwrap();
        oracle::run(
            "python3",
            &["-c", &format!("import os; os.chdir({dir:?})\n{FILL}")],
            0,
        )
        .unwrap();
        let mut told_of_image = Vec::new();
        for options in OPTIONS {
            let (theirs, code) = printed(theirs, options, &names, &dir);
            let found = printed(&ours, options, &names, &dir);
            assert_eq!(found, (theirs.clone(), code), "{format}: {options:?}");
            told_of_image.push((options, told(&theirs), code));
        }
        mounted.unmount().unwrap();
        let names = FILES.map(|name| format!("t.img:/{name}"));
        for (options, theirs, code) in told_of_image {
            let (found, found_code) = printed(&ours, options, &names, work.path());
            assert_eq!(
                told(&found.replace("t.img:/", "")),
                theirs,
                "{format}: {options:?}"
            );
            assert_eq!(found_code, code, "{format}: {options:?}");
        }
    }
}
