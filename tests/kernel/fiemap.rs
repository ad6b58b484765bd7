//! FIEMAP, beside the kernel on the same images; and what trimming leaves.

use uext4_testkit::prelude::*;
use uext4_vfs::fiemap::FiemapOf;

/// Prints the extents of each file that it is given: of its data, in ranges too, and of its attributes.
const ASK: &str = r"
import fcntl, json, os, struct, sys
def fiemap(fd, start, length, flags):
    head = struct.pack('=QQLLLL', start, length, flags, 0, 400, 0)
    out = fcntl.ioctl(fd, 0xC020660B, bytearray(head + bytes(56 * 400)), True)
    return out
for path in sys.argv[1:]:
    fd = os.open(path, os.O_RDONLY)
    for start, length, flags in [(0, 1 << 62, 1), (5000, 70000, 1), (100000, 1, 1), (0, 1 << 62, 3)]:
        buf = bytearray(struct.pack('=QQLLLL', start, length, flags, 0, 400, 0) + bytes(56 * 400))
        fcntl.ioctl(fd, 0xC020660B, buf, True)
        count = struct.unpack_from('=L', buf, 20)[0]
        rows = []
        for i in range(count):
            l, p, n, a, b, f = struct.unpack_from('=QQQQQL', buf, 32 + 56 * i)
            rows.append([l, p, n, f])
        print(json.dumps(rows))
";

fn fill(dir: &Path) {
    let script = r"
import os
def put(name, spans, size=None):
    with open(name, 'wb') as f:
        for at, n in spans:
            f.seek(at); f.write(b'x' * n)
        if size is not None: f.truncate(size)
put('plain', [(0, 300000)])
put('holes', [(i * 20000, 6000) for i in range(60)], 5 << 20)
put('empty', [])
put('short', [(0, 50)])
put('longer', [(0, 120)])
os.mkdir('little')
open('little/a', 'w').close()
fd = os.open('given', os.O_RDWR | os.O_CREAT)
try:
    os.posix_fallocate(fd, 0, 1 << 20)
    os.pwrite(fd, b'y' * 9000, 100000)
except OSError: pass
os.setxattr('plain', 'user.small', b'1')
os.setxattr('holes', 'user.large', b'2' * 700)
os.mkdir('dir')
for i in range(300): open('dir/' + 'n' * 100 + str(i), 'w').close()
os.system('sync -f .')
";
    let run = format!("import os; os.chdir({dir:?})\n{script}");
    oracle::run("python3", &["-c", &run], 0).expect("fills");
}

const FILES: [&str; 8] = [
    "plain", "holes", "empty", "given", "dir", "short", "longer", "little",
];

/// The same extents, put together where they follow each other: how a file without extents is cut is not reported.
fn joined(rows: &[[u64; 4]]) -> Vec<[u64; 4]> {
    let mut out: Vec<[u64; 4]> = Vec::new();
    for row in rows {
        match out.last_mut() {
            Some(last)
                if row[3] & 0x1000 != 0
                    && last[0] + last[2] == row[0]
                    && last[1] + last[2] == row[1] =>
            {
                last[2] += row[2];
                last[3] |= row[3];
            }
            _ => out.push(*row),
        }
    }
    out
}

/// Of what lies in an inode only the block: the kernel leaves out where the inode is in it.
fn in_blocks(rows: &[[u64; 4]], block: u64) -> Vec<[u64; 4]> {
    let inline = |row: &[u64; 4]| row[3] & 0x200 != 0;
    let floor = |row: [u64; 4]| [row[0], row[1] / block, row[2], row[3]];
    rows.iter()
        .map(|row| if inline(row) { floor(*row) } else { *row })
        .collect()
}

fn ours(fs: &Ext4, name: &str) -> Vec<Vec<[u64; 4]>> {
    let root = fs.root().expect("there").clone();
    let node = FileSystem::lookup(fs, &Caller::root(), &root, name.as_bytes()).expect("there");
    let ask = |of, start, len| {
        let extents = fs.files.fiemap(&node, of, start, len).expect("extents");
        let rows = extents
            .iter()
            .map(|e| [e.logical, e.physical, e.len, u64::from(e.flags.bits())]);
        joined(&rows.collect::<Vec<_>>())
    };
    vec![
        ask(FiemapOf::Data, 0, 1 << 62),
        ask(FiemapOf::Data, 5000, 70000),
        ask(FiemapOf::Data, 100_000, 1),
        ask(FiemapOf::Xattrs, 0, 1 << 62),
    ]
}

#[test]
fn extents_are_those_that_the_kernel_reports() {
    require!(kernel_mounts());
    let shapes = [
        "-t ext4 -b 4096",
        "-t ext4 -b 1024",
        "-t ext4 -b 1024 -O ^extent,^64bit",
        "-t ext4 -b 4096 -I 128",
        "-t ext2 -b 1024",
        "-t ext4 -b 4096 -O inline_data",
    ];
    for args in shapes {
        let dir = tempfile::tempdir().expect("a directory");
        let image = dir.path().join("image");
        uext4_testkit::image::mke2fs(args, 32 << 20)
            .expect("is made")
            .save_to(&image)
            .expect("saves");
        let mount = oracle::KernelMount::new(&image, &dir.path().join("m"), "rw").expect("mounts");
        fill(mount.dir());
        let paths = FILES.map(|f| mount.dir().join(f).display().to_string());
        let mut all = vec!["-c", ASK];
        all.extend(paths.iter().map(String::as_str));
        let text = oracle::run("python3", &all, 0).expect("asks");
        mount.unmount().expect("unmounts");
        let answers: Vec<Vec<[u64; 4]>> = text
            .lines()
            .map(|line| {
                let rows: Vec<[u64; 4]> = serde_json::from_str(line).expect("rows");
                joined(&rows)
            })
            .collect();
        let device = FileDevice::open(&image, &OpenOptions::read_write()).expect("opens");
        let fs = Ext4::mount(Arc::new(device), MountOptions::default()).expect("mounts");
        for (name, theirs) in FILES.iter().zip(answers.chunks(4)) {
            let block = u64::from(fs.volume.geometry().block_size);
            let [ours, theirs] = [ours(&fs, name), theirs.to_vec()].map(|all| {
                all.iter()
                    .map(|rows| in_blocks(rows, block))
                    .collect::<Vec<_>>()
            });
            assert_eq!(ours, theirs, "{args}: {name}");
        }
        fs.unmount().expect("unmounts");
    }
}

#[test]
fn a_trimmed_image_is_as_small_as_its_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("image");
    let shape = uext4_testkit::image::Shape::DEFAULT;
    shape
        .make()
        .expect("an image")
        .save_to(&path)
        .expect("saves");
    let options = OpenOptions::read_write();
    let device = Arc::new(FileDevice::open(&path, &options).expect("opens"));
    let fs = Ext4::mount(
        Arc::clone(&device) as Arc<dyn BlockDevice>,
        MountOptions::default(),
    );
    let fs = fs.expect("mounts");
    let uext = |name: &[u8]| {
        let new = uext4_vfs::attr::NewNode {
            mode: 0o600,
            kind: uext4_vfs::attr::NewKind::Regular,
        };
        let root = fs.root().expect("there").clone();
        FileSystem::create(&*fs, &Caller::root(), &root, name, &new).expect("is made")
    };
    let (kept, gone) = (uext(b"kept"), uext(b"gone"));
    fs.put(&kept, 0, &vec![7; 1 << 20]);
    fs.put(&gone, 0, &vec![8; 8 << 20]);
    FileSystem::setxattr(
        &*fs,
        &Caller::root(),
        &kept,
        b"user.x",
        b"1",
        XattrFlags::empty(),
    )
    .expect("is set");
    fs.sync().expect("syncs");
    let used = || std::fs::metadata(&path).expect("there").blocks() * 512;
    let before = used();
    fs.resize(&gone, 0);
    // What is free and not durable stays.
    let early = fs.blocks.trim(0, u64::MAX, 0).expect("trims");
    fs.sync().expect("syncs");
    let all = fs.blocks.trim(0, u64::MAX, 0).expect("trims");
    assert!(all >= early + (8 << 20), "{early}, then {all}");
    assert!(used() + 8_000_000 <= before, "{} of {before}", used());
    assert!(fs.blocks.trim(1 << 40, 1 << 20, 0).is_err());
    let mut back = vec![0; 1 << 20];
    assert_eq!(fs.read(&kept, 0, &mut back).expect("reads"), 1 << 20);
    assert!(back.iter().all(|b| *b == 7));
    drop((kept, gone));
    fs.unmount().expect("unmounts");
    drop(fs);
    oracle::check(&*device).expect("clean");
    oracle::fsck(&path).expect("clean");
}
