//! Images of every shape that mke2fs makes and the kernel has filled with a nasty tree: we read what the kernel reads,
//! change it, and e2fsck and the kernel agree with the result.
//!
//! By default a few images with a small tree; `UEXT4_MATRIX=1` takes all with a large one, 2 all with a small
//! one, and `UEXT4_MATRIX_ONLY=N` just that image.

mod changes;
mod print;
mod shapes;

use self::shapes::{SHAPES, Shape};
use uext4_testkit::prelude::*;

/// How large the tree is.
#[derive(Clone, Copy)]
struct Scale {
    bytes: u64,
    names: u32,
    extents: u32,
    depth: u32,
}

const LARGE: Scale = Scale {
    bytes: 1400 << 20,
    names: 200_000,
    extents: 100_000,
    depth: 200,
};
const SMALL: Scale = Scale {
    bytes: 160 << 20,
    names: 3000,
    extents: 3000,
    depth: 40,
};

fn make(shape: &Shape, scale: Scale, image: &Path) -> Result<()> {
    let path = image.to_str().context("a path in UTF-8")?;
    let size = format!("{}K", scale.bytes / 1024);
    let mut args = vec!["-q", "-F", "-E", "root_owner=0:0"];
    args.extend(shape.mke2fs.split(' '));
    args.extend([path, &size]);
    oracle::run("mke2fs", &args, 0)?;
    for request in shape.debugfs {
        oracle::run("debugfs", &["-w", "-R", request, path], 0)?;
    }
    Ok(())
}

fn fill(shape: &Shape, scale: Scale, dir: &Path) -> Result<()> {
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/kernel/matrix/fill.py"
    );
    let linear = shape.linear_directories;
    let names = if linear {
        scale.names.min(4000)
    } else {
        scale.names
    };
    let numbers = [names, scale.extents, scale.depth].map(|n| n.to_string());
    let mut args = vec![script, dir.to_str().context("a path in UTF-8")?];
    args.extend(numbers.iter().map(String::as_str));
    oracle::run("python3", &args, 0).map(drop)
}

fn open(image: &Path, read_only: bool) -> Result<Arc<Ext4>> {
    let device = FileDevice::open(image, &OpenOptions::read_write())?;
    let options = with(|o: &mut MountOptions| o.read_only = read_only);
    Ok(Ext4::mount(Arc::new(device), options)?)
}

fn examine(shape: &Shape, scale: Scale) -> Result<()> {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
    let (image, mount) = (dir.path().join("image"), dir.path().join("mount"));
    make(shape, scale, &image)?;
    let kernel = match oracle::KernelMount::new(&image, &mount, shape.mount) {
        Err(why) if shape.mke2fs.contains("project") => {
            println!("SKIPPED: this kernel does not write images with projects: {why:#}");
            return Ok(());
        }
        mounted => mounted?,
    };
    fill(shape, scale, kernel.dir()).context("the kernel fills it")?;
    kernel.unmount()?;
    // As it is on disk: in memory times may be what no inode holds.
    let kernel = oracle::KernelMount::new(&image, &mount, "ro")?;
    let theirs = print::of_dir(kernel.dir()).context("the kernel's")?;
    kernel.unmount()?;

    let fs = open(&image, true)?;
    let ours = print::of_fs(&*fs).context("ours, read-only")?;
    print::same(&ours, &theirs)?;
    fs.unmount()?;
    drop(fs);

    let fs = open(&image, false)?;
    changes::make(&*fs).context("our changes")?;
    let ours = print::of_fs(&*fs).context("ours, changed")?;
    fs.unmount()?;
    drop(fs);
    oracle::fsck(&image)?;

    let kernel = oracle::KernelMount::new(&image, &mount, "ro")?;
    let theirs = print::of_dir(kernel.dir()).context("the kernel's, changed")?;
    kernel.unmount()?;
    print::same(&ours, &theirs).context("changed")
}

#[test]
fn images_of_every_shape() {
    require!(kernel_mounts());
    let matrix = env_number("UEXT4_MATRIX", 0);
    let all = matrix != 0;
    let only = std::env::var("UEXT4_MATRIX_ONLY")
        .ok()
        .and_then(|n| n.parse::<usize>().ok());
    let scale = if matrix == 1 { LARGE } else { SMALL };
    let mut failed = Vec::new();
    for (number, shape) in SHAPES.iter().enumerate() {
        let wanted = match only {
            Some(only) => only == number,
            None => all || number % 7 == 0,
        };
        if !wanted {
            continue;
        }
        let began = std::time::Instant::now();
        let done = examine(shape, scale);
        println!("{number}: {}: {:.1?}", shape.mke2fs, began.elapsed());
        if let Err(why) = done {
            println!("{number}: FAILED: {why:#}");
            failed.push(number);
        }
    }
    assert!(failed.is_empty(), "failed: {failed:?} of {}", SHAPES.len());
}
