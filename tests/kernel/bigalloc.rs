//! Images with clusters of several blocks, used by us and by the kernel in turn. Needs root and loop devices.

use crate::*;
use uext4_testkit::beside::{close, open, same};

/// The part of a file that one step changes.
fn range(rng: &mut Rng, end: u64) -> (u64, u64) {
    let unit = *rng.choice(&[1, 512, 1024, 4096, 16384]).unwrap_or(&1);
    let at = rng.u64(..end) / unit * unit;
    (at, (rng.u64(1..60_000) / unit).max(1) * unit)
}

/// Operations on a few files, whose extents begin and end within clusters.
fn random_ops(rng: &mut Rng, unit: u64) -> Vec<Op> {
    let mut ops = Vec::new();
    for _ in 0..150 {
        let path = format!("f{}", rng.u8(..6)).into_bytes();
        let (at, len) = range(rng, 300_000);
        ops.push(match rng.u8(..20) {
            0..=1 => Op::Create { path, mode: 0o644 },
            2..=8 => Op::Write {
                path,
                at,
                data: vec![rng.u8(1..); len as usize],
                direct: false,
            },
            9..=10 => Op::Truncate { path, size: at },
            11 => Op::Unlink { path, keep: false },
            12 => Op::Fallocate {
                path,
                what: *rng
                    .choice(&[Fallocate::CollapseRange, Fallocate::InsertRange])
                    .unwrap_or(&Fallocate::InsertRange),
                at: at / unit * unit,
                // Now and then less than a cluster.
                len: *rng.choice(&[unit, 2 * unit, unit, 1024]).unwrap_or(&unit),
            },
            _ => Op::Fallocate {
                path,
                what: *rng
                    .choice(&[
                        Fallocate::Allocate,
                        Fallocate::AllocateKeepSize,
                        Fallocate::PunchHole,
                        Fallocate::PunchHole,
                        Fallocate::ZeroRange,
                    ])
                    .unwrap_or(&Fallocate::PunchHole),
                at,
                len,
            },
        });
    }
    ops
}

/// The same by a system call.
fn call(dir: &Path, op: &Op) -> Result<()> {
    let host = |path: &[u8]| -> Result<PathBuf> { Ok(dir.join(std::str::from_utf8(path)?)) };
    let write =
        |path: &[u8]| -> Result<File> { Ok(File::options().write(true).open(host(path)?)?) };
    match op {
        Op::Create { path, .. } => drop(File::create_new(host(path)?)?),
        Op::Write { path, at, data, .. } => write(path)?.write_all_at(data, *at)?,
        Op::Truncate { path, size } => write(path)?.set_len(*size)?,
        Op::Unlink { path, .. } => std::fs::remove_file(host(path)?)?,
        Op::Fallocate {
            path,
            what,
            at,
            len,
        } => {
            use rustix::fs::FallocateFlags as F;
            let flags = match what {
                Fallocate::PunchHole => F::PUNCH_HOLE | F::KEEP_SIZE,
                Fallocate::ZeroRange => F::ZERO_RANGE,
                Fallocate::CollapseRange => F::COLLAPSE_RANGE,
                Fallocate::InsertRange => F::INSERT_RANGE,
                Fallocate::AllocateKeepSize => F::KEEP_SIZE,
                _ => F::empty(),
            };
            rustix::fs::fallocate(write(path)?, flags, *at, *len)?;
        }
        other => bail!("{other:?}"),
    }
    Ok(())
}

/// A shape that the kernel of the machine mounts, which may have no quotas.
fn without_quotas(seed: usize) -> Shape {
    let shape = Shape::BIGALLOC[seed % Shape::BIGALLOC.len()];
    let args = "-t ext4 -O bigalloc,orphan_file -C 16384 -b 1024 -N 2048 -J size=1";
    let quotas = shape.mke2fs.is_some_and(|args| args.contains("quota"));
    Shape {
        mke2fs: if quotas { Some(args) } else { shape.mke2fs },
        ..shape
    }
}

/// Each does the same operations on an image that the other had before.
fn both(shape: &Shape, seed: u64) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    let mount_at = dir.path().join("mount");
    for image in [&one, &two] {
        shape.make()?.save_to(image)?;
    }
    let mut rng = Rng::with_seed(seed);
    for round in 0..4 {
        let ops = random_ops(&mut rng, shape.moved_unit);
        let (ours, theirs) = match round % 2 {
            0 => (&one, &two),
            _ => (&two, &one),
        };
        let fs = open(ours, seed + round)?;
        let mount = KernelMount::new(theirs, &mount_at, "rw")?;
        for (at, op) in ops.iter().enumerate() {
            let done = (apply(&*fs, op).is_ok(), call(mount.dir(), op).is_ok());
            ensure!(done.0 == done.1, "step {at}: {op:?}: {done:?}");
        }
        let (our_tree, their_tree) = (tree::of_fs(&*fs)?, tree::of_dir(mount.dir())?);
        mount.unmount()?;
        close(fs, ours).with_context(|| format!("round {round}"))?;
        oracle::fsck(theirs).with_context(|| format!("the kernel, round {round}"))?;
        same("we / the kernel", &our_tree, &their_tree)?;
        let seen = oracle::kernel_tree(ours, &mount_at)?;
        same("ours / the kernel's view of it", &our_tree, &seen)?;
        let fs = open(theirs, seed)?;
        same(
            "the kernel's / our view of it",
            &their_tree,
            &tree::of_fs(&*fs)?,
        )?;
        close(fs, theirs)?;
    }
    Ok(())
}

#[test]
fn kernel_and_we_do_the_same() {
    require!(kernel_mounts());
    let runs = env_number("UEXT4_MODEL_RUNS", 5);
    for seed in 0..runs {
        let shape = &without_quotas(seed as usize);
        both(shape, seed).context(seed).context(shape.name).unwrap();
    }
}

/// What statfs says, as the kernel does.
#[test]
fn kernel_and_we_count_the_same() {
    require!(kernel_mounts());
    for shape in (0..Shape::BIGALLOC.len()).map(without_quotas) {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        shape.make().unwrap().save_to(&image).unwrap();
        let mount = KernelMount::new(&image, &dir.path().join("mount"), "rw").unwrap();
        std::fs::write(mount.dir().join("file"), vec![1; 5000]).unwrap();
        File::open(mount.dir()).unwrap().sync_all().unwrap();
        rustix::fs::syncfs(File::open(mount.dir()).unwrap()).unwrap();
        let theirs = rustix::fs::statvfs(mount.dir()).unwrap();
        let blocks = std::fs::metadata(mount.dir().join("file")).unwrap();
        mount.unmount().unwrap();
        let fs = open(&image, 0).unwrap();
        let ours = FileSystem::statfs(&*fs).unwrap();
        let have = (ours.blocks_free, ours.blocks, ours.block_size.into());
        assert_eq!(have, (theirs.f_bfree, theirs.f_blocks, theirs.f_bsize));
        let file = fs.getattr(&find(&*fs, b"file").unwrap()).unwrap();
        assert_eq!(file.blocks, std::os::unix::fs::MetadataExt::blocks(&blocks));
        close(fs, &image).unwrap();
    }
}
