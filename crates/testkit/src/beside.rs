//! The same random operations by us and by the kernel, on images of the same shape: they change places with
//! each round, and each sees of the other's what that saw.

use crate::external::*;
use crate::image::{Shape, mount_as};
use crate::operation::{Op, apply};
use crate::oracle::{self, KernelMount};
use crate::tree::{self, Tree};

/// The trees are the same.
pub fn same(what: &str, left: &Tree, right: &Tree) -> Result<()> {
    match tree::difference(left, right) {
        Some(difference) => bail!("{what}: {difference}"),
        None => Ok(()),
    }
}

/// Mounts an image in variants that `seed` chooses.
pub fn open(image: &Path, seed: u64) -> Result<Arc<Ext4>> {
    mount_as(
        Arc::new(FileDevice::open(image, &OpenOptions::read_write())?),
        seed,
    )
}

/// Unmounts, and asks e2fsck and `uext4-check`.
pub fn close(fs: Arc<Ext4>, image: &Path) -> Result<()> {
    fs.unmount()?;
    drop(fs);
    oracle::fsck(image)?;
    oracle::check(&MemoryDevice::from_bytes(&std::fs::read(image)?))
}

/// The same operations by us and by the kernel give the same tree.
pub fn both(shape: &Shape, seed: u64, values: Values) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let image = |name: &str| dir.path().join(name);
    let (ours, theirs) = (image("ours"), image("theirs"));
    let mount_at = image("mount");
    shape.make()?.save_to(&ours)?;
    shape.make()?.save_to(&theirs)?;
    let mut rng = Rng::with_seed(seed);
    for round in 0..3 {
        let ops: Vec<Op> = (0..250).map(|_| random_op(&mut rng, values)).collect();
        // Each takes what the other has made the round before.
        let (a, b) = match round % 2 {
            0 => (&ours, &theirs),
            _ => (&theirs, &ours),
        };
        let fs = open(a, seed + round)?;
        make_dirs(&fs);
        for op in &ops {
            if let Err(e) = apply(&*fs, op) {
                ensure!(is_expected(e.errno()), "{op:?}: {e:?}");
            }
        }
        let ours = tree::of_fs(&*fs)?;
        close(fs, a).with_context(|| format!("round {round}"))?;
        let mount = KernelMount::new(b, &mount_at, "rw")?;
        for i in 0..4 {
            let _ = std::fs::create_dir(mount.dir().join(format!("d{i}")));
        }
        for op in &ops {
            // Whether it could be done shows in the tree.
            let _ = kernel_apply(mount.dir(), op);
        }
        let theirs = tree::of_dir(mount.dir())?;
        mount.unmount()?;
        oracle::fsck(b).with_context(|| format!("the kernel, round {round}"))?;
        let again = oracle::kernel_tree(b, &mount_at)?;
        same("the kernel / itself later", &theirs, &again)?;
        same("we / the kernel", &ours, &theirs).with_context(|| format!("round {round}"))?;
        let again = oracle::kernel_tree(a, &mount_at)?;
        same("ours / the kernel's view of it", &ours, &again)?;
        let fs = open(b, seed)?;
        same(
            "the kernel's / our view of it",
            &theirs,
            &tree::of_fs(&*fs)?,
        )?;
        close(fs, b)?;
    }
    Ok(())
}

fn make_dirs(fs: &Ext4) {
    for i in 0..4 {
        let path = format!("d{i}").into_bytes();
        // May be there from the round before.
        let _ = apply(fs, &Op::Mkdir { path, mode: 0o755 });
    }
}

/// A name in a directory, or a file's: small numbers, so that operations meet.
fn path(rng: &mut Rng) -> String {
    let pad = "n".repeat(*rng.choice(&[0, 0, 3, 30, 100]).unwrap_or(&0));
    match rng.bool() {
        true => format!("f{}", rng.u8(..12)),
        false => format!("d{}/{}{pad}", rng.u8(..4), rng.u8(..10)),
    }
}

/// Values of attributes.
#[derive(Clone, Copy, Debug)]
pub struct Values {
    /// The most bytes.
    pub bytes_max: usize,
    /// How many kinds of large ones there are: with few, some are equal.
    pub kinds: u8,
}

fn value(rng: &mut Rng, values: Values) -> Vec<u8> {
    match rng.u8(..3) {
        0 if values.bytes_max > 90 => {
            vec![rng.u8(..values.kinds); rng.usize(1..5) * values.bytes_max / 4]
        }
        _ => vec![rng.u8(..); rng.usize(..90)],
    }
}

/// An operation about the limit of what an inode holds.
fn random_op(rng: &mut Rng, values: Values) -> Op {
    let path_of = |rng: &mut Rng| path(rng).into_bytes();
    let path = path_of(rng);
    let data = vec![rng.u8(1..); rng.usize(1..200)];
    match rng.u8(..24) {
        0..=4 => Op::Create { path, mode: 0o644 },
        5..=8 => Op::Write {
            path,
            at: rng.u64(..400),
            data,
            direct: false,
        },
        9..=11 => Op::Append { path, data },
        12..=14 => Op::Truncate {
            path,
            size: rng.u64(..400),
        },
        15..=16 => Op::Unlink { path, keep: false },
        17..=18 => Op::Rename {
            old: path,
            new: path_of(rng),
            flags: *rng
                .choice(&[RenameFlags::empty(), RenameFlags::EXCHANGE])
                .unwrap_or(&RenameFlags::empty()),
        },
        19..=21 => Op::SetXattr {
            path,
            name: format!("user.{}", rng.char('a'..='c')).into_bytes(),
            value: value(rng, values),
        },
        22 => Op::RemoveXattr {
            path,
            name: format!("user.{}", rng.char('a'..='c')).into_bytes(),
        },
        _ => Op::Mkdir {
            path: format!("d{}/sub{}", rng.u8(..4), rng.u8(..4)).into_bytes(),
            mode: 0o755,
        },
    }
}

fn is_expected(e: Errno) -> bool {
    use Errno as E;
    [
        E::EEXIST,
        E::ENOENT,
        E::EISDIR,
        E::ENOTDIR,
        E::ENOTEMPTY,
        E::EINVAL,
        E::ENODATA,
        E::EPERM,
    ]
    .contains(&e)
}

fn kernel_apply(dir: &Path, op: &Op) -> Result<()> {
    let host = |path: &[u8]| -> Result<PathBuf> { Ok(dir.join(std::str::from_utf8(path)?)) };
    let write =
        |path: &[u8]| -> Result<File> { Ok(File::options().write(true).open(host(path)?)?) };
    match op {
        Op::Create { path, .. } => drop(File::create_new(host(path)?)?),
        Op::Mkdir { path, .. } => std::fs::create_dir(host(path)?)?,
        Op::Write { path, at, data, .. } => {
            write(path)?.write_all_at(data, *at)?;
        }
        Op::Append { path, data } => {
            let file = write(path)?;
            let at = file.metadata()?.len();
            file.write_all_at(data, at)?;
        }
        Op::Truncate { path, size } => {
            let file = write(path)?;
            let old = file.metadata()?.len();
            // Linux 6.18 loses what is written to a file with inline data after truncate made it grow.
            match old < *size {
                true => file.write_all_at(&vec![0; (*size - old) as usize], old)?,
                false => file.set_len(*size)?,
            }
        }
        Op::Unlink { path, .. } => std::fs::remove_file(host(path)?)?,
        Op::Rename { old, new, flags } => {
            let flags = match flags.contains(RenameFlags::EXCHANGE) {
                true => rustix::fs::RenameFlags::EXCHANGE,
                false => rustix::fs::RenameFlags::empty(),
            };
            let cwd = rustix::fs::CWD;
            rustix::fs::renameat_with(cwd, host(old)?, cwd, host(new)?, flags)?;
        }
        Op::SetXattr { path, name, value } => {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(host(path)?, &**name, value, flags)?;
        }
        Op::RemoveXattr { path, name } => rustix::fs::removexattr(host(path)?, &**name)?,
        other => bail!("{other:?}"),
    }
    Ok(())
}
