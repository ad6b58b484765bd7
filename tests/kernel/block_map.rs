//! Images without extents, used by us and by the kernel in turn. Needs root and loop devices.

use crate::*;

fn same(what: &str, left: &Tree, right: &Tree) -> Result<()> {
    match tree::difference(left, right) {
        Some(difference) => bail!("{what}: {difference}"),
        None => Ok(()),
    }
}

fn open(image: &Path, seed: u64) -> Result<Arc<Ext4>> {
    mount_as(
        Arc::new(FileDevice::open(image, &OpenOptions::read_write())?),
        seed,
    )
}

fn close(fs: Arc<Ext4>, image: &Path) -> Result<()> {
    fs.unmount()?;
    drop(fs);
    oracle::fsck(image)?;
    oracle::check(&MemoryDevice::from_bytes(&std::fs::read(image)?))
}

/// Random operations by us.
fn work(fs: &Ext4, shape: &Shape, seed: u64, name: &str) -> Result<()> {
    let mut worker = Worker::new(fs, name, seed, Habits::of(shape))?;
    for _ in 0..200 {
        worker.step()?;
    }
    worker.close();
    worker.compare()
}

/// What the kernel makes: files of each level of pointers, holes, names, targets.
fn kernel_work(dir: &Path, block: u64) -> Result<()> {
    let per_block = block / 4;
    let file = File::create(dir.join("sparse"))?;
    let borders = [
        0,
        11,
        12,
        12 + per_block,
        12 + per_block + per_block * per_block,
    ];
    for (i, lblk) in borders.into_iter().enumerate() {
        file.write_all_at(&vec![i as u8 + 1; 3 * block as usize], lblk * block)?;
    }
    // Sparse files are compared whole: not that large.
    file.set_len((300 + per_block) * block)?;
    std::fs::write(
        dir.join("full"),
        vec![7; (20 + per_block as usize) * block as usize],
    )?;
    std::os::unix::fs::symlink("t".repeat(700), dir.join("link"))?;
    std::fs::create_dir(dir.join("many"))?;
    for i in 0..400 {
        std::fs::write(dir.join(format!("many/{i}-{}", "n".repeat(60))), b"x")?;
    }
    std::fs::remove_file(dir.join("full"))?;
    std::fs::write(dir.join("full"), vec![8; (14 * block) as usize])?;
    Ok(())
}

fn in_turn(shape: &Shape, seed: u64) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (image, mount_at) = (dir.path().join("image"), dir.path().join("mount"));
    shape.make()?.save_to(&image)?;
    let fs = open(&image, seed)?;
    let block = u64::from(fs.volume.geometry().block_size);
    let shared = Op::Mkdir {
        path: b"shared".to_vec(),
        mode: 0o755,
    };
    apply(&*fs, &shared)?;
    work(&fs, shape, seed, "t0")?;
    let ours = tree::of_fs(&*fs)?;
    close(fs, &image).context("after our operations")?;
    same(
        "ours / the kernel's",
        &ours,
        &oracle::kernel_tree(&image, &mount_at)?,
    )?;

    let mount = KernelMount::new(&image, &mount_at, "rw")?;
    kernel_work(mount.dir(), block)?;
    let kernel = tree::of_dir(mount.dir())?;
    mount.unmount()?;
    let fs = open(&image, seed)?;
    same("the kernel's / ours", &kernel, &tree::of_fs(&*fs)?)?;

    // What the kernel made is changed and removed by us.
    for (path, size) in [("sparse", 13 * block), ("full", 0), ("sparse", 0)] {
        let path = path.as_bytes().to_vec();
        apply(&*fs, &Op::Truncate { path, size })?;
    }
    for path in ["full", "link", "many/7-", "sparse"] {
        let pad = if path.ends_with('-') {
            "n".repeat(60)
        } else {
            String::new()
        };
        let path = format!("{path}{pad}").into_bytes();
        apply(&*fs, &Op::Unlink { path, keep: false })?;
    }
    work(&fs, shape, seed, "t1")?;
    let ours = tree::of_fs(&*fs)?;
    close(fs, &image).context("after the kernel's operations and ours")?;
    same(
        "ours / the kernel's, again",
        &ours,
        &oracle::kernel_tree(&image, &mount_at)?,
    )
}

#[test]
fn kernel_and_we_in_turn() {
    require!(kernel_mounts());
    for (seed, shape) in (1..).zip(&Shape::BLOCK_MAPPED) {
        in_turn(shape, seed).context(shape.name).unwrap();
    }
}

/// The kernel makes a file as large as we do, and no larger.
#[test]
fn kernel_has_the_same_largest_size() {
    require!(kernel_mounts());
    for args in [
        "-t ext2 -b 1024",
        "-t ext2 -b 2048",
        "-t ext3 -b 4096",
        "-t ext4 -O ^extent,^64bit -b 1024",
        "-t ext4 -O ^extent,^64bit -b 4096",
        "-t ext4 -O ^extent,^64bit,^huge_file -b 4096",
    ] {
        largest(args).context(args).unwrap();
    }
}

fn largest(args: &'static str) -> Result<()> {
    let shape = Shape {
        mke2fs: Some(args),
        block_maps: true,
        ..Shape::DEFAULT
    };
    let dir = tempfile::tempdir()?;
    let (image, mount_at) = (dir.path().join("image"), dir.path().join("mount"));
    shape.make()?.save_to(&image)?;
    let mount = KernelMount::new(&image, &mount_at, "rw")?;
    let file = File::create(mount.dir().join("kernel"))?;
    let (mut fits, mut too_large) = (0, 1 << 45);
    while fits + 1 < too_large {
        let middle = fits + (too_large - fits) / 2;
        match file.set_len(middle) {
            Ok(()) => fits = middle,
            Err(_) => too_large = middle,
        }
    }
    drop(file);
    mount.unmount()?;
    let fs = open(&image, 0)?;
    let create = Op::Create {
        path: b"ours".to_vec(),
        mode: 0o644,
    };
    apply(&*fs, &create)?;
    let truncate = |size| {
        let path = b"ours".to_vec();
        apply(&*fs, &Op::Truncate { path, size }).map(drop)
    };
    truncate(fits).with_context(|| format!("{fits} bytes"))?;
    match truncate(too_large) {
        Err(e) if e == Errno::EFBIG => {}
        other => bail!("{too_large} bytes: {other:?}"),
    }
    // The last byte can be written, and read back by the kernel.
    let node = find(&*fs, b"ours")?;
    FileSystem::write(&*fs, &node, fits - 1, b"!")?;
    drop(node);
    close(fs, &image)?;
    let mount = KernelMount::new(&image, &mount_at, "ro")?;
    let mut last = [0];
    File::open(mount.dir().join("ours"))?.read_exact_at(&mut last, fits - 1)?;
    mount.unmount()?;
    if last != *b"!" {
        bail!("the last byte is {last:?}");
    }
    Ok(())
}

/// ext3 becomes ext4: what was there keeps its map, what is new gets extents; both ways.
#[test]
fn kernel_and_we_with_both_kinds() {
    require!(kernel_mounts());
    let run = || -> Result<()> {
        let shape = Shape::BLOCK_MAPPED[0];
        let dir = tempfile::tempdir()?;
        let (image, mount_at) = (dir.path().join("image"), dir.path().join("mount"));
        shape.make()?.save_to(&image)?;
        let fs = open(&image, 0)?;
        let shared = Op::Mkdir {
            path: b"shared".to_vec(),
            mode: 0o755,
        };
        apply(&*fs, &shared)?;
        work(&fs, &shape, 3, "old")?;
        let old = tree::of_fs(&*fs)?;
        close(fs, &image)?;
        let path = image.to_str().unwrap_or("");
        oracle::run("tune2fs", &["-O", "extent", path], 0)?;
        let mount = KernelMount::new(&image, &mount_at, "rw")?;
        std::fs::create_dir(mount.dir().join("kernel"))?;
        kernel_work(&mount.dir().join("kernel"), 1024)?;
        mount.unmount()?;

        let fs = open(&image, 5)?;
        work(&fs, &Shape::DEFAULT, 4, "new")?;
        // Files of both kinds grow, shrink and go.
        for (path, entry) in &old {
            if entry.kind == uext4_vfs::attr::FileKind::Regular && entry.nlink == 1 {
                let path = path.clone();
                let op = match entry.ino % 3 {
                    0 => Op::Unlink { path, keep: false },
                    1 => Op::Truncate { path, size: 5000 },
                    _ => Op::Append {
                        path,
                        data: vec![3; 20_000],
                    },
                };
                apply(&*fs, &op)?;
            }
        }
        let ours = tree::of_fs(&*fs)?;
        close(fs, &image)?;
        same(
            "ours / the kernel's",
            &ours,
            &oracle::kernel_tree(&image, &mount_at)?,
        )
    };
    run().unwrap();
}
