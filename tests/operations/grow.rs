//! Growing while mounted: every shape stays sound, keeps its files, and uses what it gained.

use std::thread::scope;
use uext4_testkit::prelude::*;

const MIB: u64 = 1 << 20;
/// How often it grows while threads write.
const GROWTHS: u64 = 40;

/// An image of mke2fs, and the sizes that it grows to, in MiB.
struct Case {
    args: &'static str,
    from: &'static str,
    to: &'static [u64],
    /// What it can't grow to.
    refuses: Option<u64>,
}

const fn case(args: &'static str, from: &'static str, to: &'static [u64]) -> Case {
    Case {
        args,
        from,
        to,
        refuses: None,
    }
}

/// Groups have 8 MiB with blocks of 1 KiB, and 128 MiB with blocks of 4 KiB. First within the last group, then by one, then by many, which
/// with blocks of 1 KiB need more blocks of descriptors.
const CASES: &[Case] = &[
    case("-b 1024", "20M", &[22, 30, 350, 351]),
    case("-b 4096", "100M", &[120, 200, 5300]),
    case("-b 1024 -O ^resize_inode,meta_bg", "20M", &[22, 30, 350]),
    Case {
        args: "-b 1024 -O ^resize_inode",
        from: "20M",
        to: &[22, 30, 128],
        refuses: Some(350),
    },
    case("-b 1024 -O ^flex_bg", "20M", &[22, 30, 350]),
    case(
        "-b 1024 -O sparse_super2,^resize_inode",
        "20M",
        &[22, 30, 120],
    ),
    case("-b 1024 -O sparse_super2", "20M", &[22, 30, 350]),
    case(
        "-b 1024 -O ^sparse_super,^resize_inode",
        "20M",
        &[22, 30, 120],
    ),
    case("-b 1024 -O ^has_journal", "20M", &[22, 30, 350]),
    case("-b 1024 -O ^metadata_csum,uninit_bg", "20M", &[22, 30, 350]),
    case(
        "-b 1024 -O ^metadata_csum,^uninit_bg",
        "20M",
        &[22, 30, 350],
    ),
    case("-b 1024 -O ^64bit", "20M", &[22, 30, 600]),
    case("-b 1024 -t ext2", "20M", &[22, 30, 600]),
    case("-b 1024 -t ext3", "20M", &[22, 30, 600]),
    case(
        "-b 1024 -O inline_data,orphan_file,metadata_csum_seed",
        "20M",
        &[22, 30, 350],
    ),
    case(
        "-b 1024 -I 128 -g 1024 -N 800 -J size=4",
        "20M",
        &[21, 22, 60, 100],
    ),
    case("-b 2048 -G 4", "40M", &[41, 80, 900]),
];

fn mounted(image: &TempImage) -> Arc<Ext4> {
    // Few inodes stay in memory, so that those of new groups are read again.
    let options = MountOptions {
        inodes_max: 50,
        ..MountOptions::default()
    };
    uext4_testkit::mke2fs::mount(image, options)
}

fn content(number: u64) -> Vec<u8> {
    let mut rng = Rng::with_seed(number);
    (0..rng.usize(1..200_000)).map(|_| rng.u8(..)).collect()
}

/// Files, each with content of its own, in a few directories.
#[derive(Default)]
struct Files {
    count: u64,
}

impl Files {
    fn add(&mut self, fs: &Ext4) {
        let (top, name) = (fs.top(), format!("d{}", self.count / 100));
        let dir = match fs.lookup(&Caller::root(), &top, name.as_bytes()) {
            Ok(dir) => dir,
            Err(_) => fs
                .create(&Caller::root(), &top, name.as_bytes(), &DIR)
                .expect("mkdir"),
        };
        let name = self.count.to_string();
        let file = fs.create(&Caller::root(), &dir, name.as_bytes(), &FILE);
        let content = content(self.count);
        let len = fs.put(&file.expect("create"), 0, &content);
        assert_eq!(len, content.len());
        self.count += 1;
    }

    /// Until so many bytes are in use.
    fn fill(&mut self, fs: &Ext4, bytes: u64) {
        let used = || {
            let stat = fs.statfs().expect("statfs");
            (stat.blocks - stat.blocks_free) * u64::from(stat.block_size)
        };
        while used() < bytes {
            self.add(fs);
        }
    }

    fn check(&self, fs: &Ext4) {
        for number in 0..self.count {
            let path = format!("/d{}/{number}", number / 100);
            let file = uext4_testkit::operation::find(fs, path.as_bytes()).expect("a file");
            let wanted = content(number);
            let mut found = vec![0; wanted.len() + 1];
            let len = fs.read(&file, 0, &mut found).expect("read");
            assert!(found[..len] == wanted, "{path}");
        }
    }
}

/// The blocks that dumpe2fs shows.
fn shown_blocks(image: &Path) -> u64 {
    let text = uext4_testkit::mke2fs::run(Command::new("dumpe2fs").arg("-h").arg(image));
    let line = text.lines().find_map(|l| l.strip_prefix("Block count:"));
    line.and_then(|n| n.trim().parse().ok()).expect("a count")
}

fn grow_step(fs: &Ext4, mib: u64) -> u64 {
    let block = u64::from(fs.volume.geometry().block_size);
    let before = fs.statfs().expect("statfs");
    let blocks = fs.grow(mib * MIB / block).expect("grow");
    assert_eq!(blocks, fs.volume.geometry().blocks_count);
    let after = fs.statfs().expect("statfs");
    assert!(after.blocks > before.blocks && after.blocks_free > before.blocks_free);
    assert!(after.inodes >= before.inodes && after.inodes_free >= before.inodes_free);
    // A last group that is too short for its metadata is left out.
    assert!((mib - 9) * MIB <= blocks * block && blocks * block <= mib * MIB);
    blocks
}

fn grows(case: &Case, kernel: bool) {
    let image = image(case.from, case.args);
    let old_bytes = fs::metadata(&image).expect("an image").len();
    let mut fs = mounted(&image);
    let mut files = Files::default();
    for _ in 0..20 {
        files.add(&fs);
    }
    let mut blocks = 0;
    for (step, mib) in case.to.iter().enumerate() {
        blocks = grow_step(&fs, *mib);
        assert_eq!(fs.grow(blocks).expect("as large"), blocks);
        files.add(&fs);
        if step == 1 {
            image.end(fs);
            assert_eq!(shown_blocks(&image), blocks);
            fs = mounted(&image);
        }
    }
    if let Some(mib) = case.refuses {
        let block = u64::from(fs.volume.geometry().block_size);
        let why = fs.grow(mib * MIB / block).expect_err("no descriptors");
        assert_eq!(why.errno(), Errno::EOPNOTSUPP);
    }
    files.fill(&fs, old_bytes + old_bytes / 2);
    files.check(&fs);
    image.end(fs);
    assert_eq!(shown_blocks(&image), blocks);
    let fs = mounted(&image);
    files.check(&fs);
    files.add(&fs);
    image.end(fs);
    if kernel {
        by_kernel(&image, &files, blocks);
    }
}

/// The kernel finds the files, and writes.
fn by_kernel(image: &TempImage, files: &Files, blocks: u64) {
    let dir = tempfile::tempdir().expect("a directory");
    let mount =
        KernelMount::new(image, &dir.path().join("mount"), "rw").expect("the kernel mounts it");
    for number in 0..files.count {
        let path = mount.dir().join(format!("d{}/{number}", number / 100));
        assert!(fs::read(path).expect("a file") == content(number));
    }
    fs::write(mount.dir().join("new"), content(1)).expect("write");
    mount.unmount().expect("unmount");
    fsck(image);
    assert_eq!(shown_blocks(image), blocks);
}

#[test]
fn every_shape_grows_while_it_is_mounted() {
    let kernel = kernel_mounts();
    for case in CASES {
        println!("{}", case.args);
        grows(case, kernel);
    }
}

#[test]
fn it_grows_while_threads_write() {
    for args in [
        "-b 1024",
        "-b 1024 -O ^has_journal",
        "-b 1024 -O meta_bg,^resize_inode",
    ] {
        let image = image("20M", args);
        let fs = mounted(&image);
        let stop = AtomicBool::new(false);
        scope(|scope| {
            for thread in 0..4 {
                let (fs, stop) = (&fs, &stop);
                scope.spawn(move || works(fs, thread, stop));
            }
            for mib in (21..).step_by(3).take(GROWTHS as usize) {
                fs.grow(mib * 1024).expect("grow");
                thread::yield_now();
            }
            stop.store(true, Ordering::SeqCst);
        });
        assert!(fs.volume.geometry().blocks_count > (20 + 3 * (GROWTHS - 3)) * 1024);
        image.end(fs);
    }
}

/// Makes, checks and removes files.
fn works(fs: &Ext4, thread: u64, stop: &AtomicBool) {
    let (caller, top) = (Caller::root(), fs.top());
    let name = |number: u64| format!("{thread}-{}", number % 40);
    for number in 0.. {
        let wanted = content(number);
        let _ = fs.unlink(&caller, &top, name(number).as_bytes());
        let file = fs
            .create(&caller, &top, name(number).as_bytes(), &FILE)
            .expect("create");
        // It may be full just now.
        match fs.write(&file, 0, &wanted) {
            Ok(len) => {
                let mut found = vec![0; len];
                assert_eq!(fs.read(&file, 0, &mut found).expect("read"), len);
                assert!(found == wanted[..len]);
            }
            Err(why) => assert_eq!(why.errno(), Errno::ENOSPC),
        }
        if stop.load(Ordering::SeqCst) {
            return;
        }
    }
}

#[test]
fn only_one_grows_at_a_time_and_what_can_not_is_refused() {
    let image = image("20M", "-b 1024");
    let fs = mounted(&image);
    let refused = |blocks: u64| fs.grow(blocks).expect_err("refused").errno();
    assert_eq!(refused(20 * 1024 - 1), Errno::EINVAL);
    assert_eq!(refused(u64::MAX / 1024), Errno::EINVAL);
    assert_eq!(fs.grow(20 * 1024).expect("as large"), 20 * 1024);
    fs.freeze().expect("freeze");
    assert_eq!(refused(30 * 1024), Errno::EBUSY);
    fs.thaw().expect("thaw");
    // A group of its own needs room for more than its metadata.
    let in_whole_groups = 24 * 1024 + 1;
    assert_eq!(
        fs.grow(in_whole_groups + 60).expect("grow"),
        in_whole_groups
    );
    let grown: Vec<_> = scope(|scope| {
        let grow = |mib: u64| {
            let fs = &fs;
            scope.spawn(move || fs.grow(mib * 1024))
        };
        let threads: Vec<_> = (30..34).map(grow).collect();
        let done = threads.into_iter().map(|t| t.join().expect("no panic"));
        done.collect()
    });
    for why in grown.iter().filter_map(|grown| grown.as_ref().err()) {
        assert!(
            [Errno::EBUSY, Errno::EINVAL].contains(&why.errno()),
            "{why}"
        );
    }
    let largest = grown.iter().filter_map(|grown| grown.as_ref().ok()).max();
    assert_eq!(largest, Some(&fs.volume.geometry().blocks_count));
    image.end(fs);
    let read_only = MountOptions {
        read_only: true,
        ..MountOptions::default()
    };
    let fs = uext4_testkit::mke2fs::mount(&image, read_only);
    assert_eq!(
        fs.grow(40 * 1024).expect_err("read-only").errno(),
        Errno::EROFS
    );
}

#[test]
fn a_journal_without_room_for_the_transaction_is_an_error() {
    // Each of 256 reserved blocks gets a pointer to a new group.
    let image = image("20M", "-b 1024 -g 1024 -J size=1");
    let fs = mounted(&image);
    let before = fs::metadata(&image).expect("an image").len();
    let why = fs.grow(60 * 1024).expect_err("too large");
    assert_eq!(why.errno(), Errno::ENOSPC, "{why}");
    assert_eq!(fs::metadata(&image).expect("an image").len(), before);
    // The last group is the 20th, which has a backup neither before nor after this.
    fs.grow(21 * 1024).expect("grow");
    image.end(fs);
}
