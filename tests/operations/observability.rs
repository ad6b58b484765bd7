//! Spans and counts of failures of library operations, and durations of commits and checkpoints.

use std::sync::{Arc, mpsc};
use tracing::level_filters::LevelFilter;
use uext4::unstable::Reporter;
use uext4::{Errno, Filesystem, ImageOptions, MemoryDevice, MkfsOptions, NoProgress};
use uext4::{OpenOptions, failures, mkfs_on};

fn image() -> Filesystem {
    let device = Arc::new(MemoryDevice::new(32 << 20));
    mkfs_on(&*device, &MkfsOptions::new(), &NoProgress).unwrap();
    Filesystem::open_device(device, &ImageOptions::read_write()).unwrap()
}

/// The lines of the spans of `work`, without their durations.
fn spans(level: LevelFilter, work: impl FnOnce()) -> Vec<String> {
    let (sink, lines) = mpsc::channel();
    let reporter = Reporter::new(level, move |_, line| sink.send(line).unwrap());
    tracing::subscriber::with_default(reporter, work);
    let fields = |line: String| line.split(" took ").next().map(str::to_owned);
    lines.try_iter().filter_map(fields).collect()
}

#[test]
fn each_operation_has_one_span_with_its_fields() {
    let fs = image();
    let work = || {
        fs.write("/new\n", b"data").unwrap();
        fs.create_dir_all("/a/b").unwrap();
        fs.read("/missing").unwrap_err();
        let root = fs.root().unwrap().clone();
        root.open_dir("new\n").unwrap_err();
        let file = fs.open_file("/new\n").unwrap();
        file.write_at(b"x", 0).unwrap_err();
        fs.remove_dir_all("/a").unwrap();
    };
    let ino = || fs.metadata("/new\n").unwrap().ino();
    let found = spans(LevelFilter::DEBUG, work);
    let expected = [
        r"library operation=write path=/new\n".to_owned(),
        "library operation=create_dir_all path=/a/b".to_owned(),
        "library operation=read path=/missing errno=ENOENT".to_owned(),
        "library operation=root".to_owned(),
        r"library operation=open_dir inode=2 path=new\n errno=ENOTDIR".to_owned(),
        r"library operation=open path=/new\n".to_owned(),
        format!("library operation=write_at inode={} errno=EBADF", ino()),
        "library operation=remove_dir_all path=/a".to_owned(),
    ];
    assert_eq!(found, expected);
    assert_eq!(spans(LevelFilter::INFO, work), Vec::<String>::new());
}

#[test]
fn a_failure_is_counted_once() {
    let fs = image();
    let count = || {
        let all = failures();
        let of = all.iter().find(|(errno, _)| *errno == Errno::EFBIG);
        of.map_or(0, |(_, count)| *count)
    };
    // No other test of this program fails like this.
    let before = count();
    fs.write("/f", b"x").unwrap();
    fs.truncate("/f", u64::MAX >> 1).unwrap_err();
    let file = OpenOptions::new().write(true).open(&fs, "/f").unwrap();
    file.write_all_at(b"x", u64::MAX >> 1).unwrap_err();
    assert_eq!(count() - before, 2);
}

#[test]
fn commits_and_checkpoints_are_timed() {
    let fs = image();
    let engine = Arc::clone(fs.engine());
    let stats = || engine.volume.journal().stats();
    let before = stats();
    fs.write("/f", b"x").unwrap();
    fs.sync().unwrap();
    let synced = stats();
    assert!(synced.commit.count > before.commit.count);
    assert!(synced.commit.max <= synced.commit.total && !synced.commit.max.is_zero());
    fs.unmount().unwrap();
    let ended = stats();
    assert_eq!(ended.commit.count, ended.commits);
    assert!(ended.checkpoint.count > before.checkpoint.count);
    let within: u64 = ended.checkpoint.buckets().map(|(_, count)| count).sum();
    assert!(within <= ended.checkpoint.count);
}
