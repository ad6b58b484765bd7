//! Handles of files outlive the mount that gave them.

use crate::*;
use std::io;

/// A handle as name_to_handle_at(2) gives it: its length and type, then its bytes.
#[repr(C)]
#[derive(Clone, Copy)]
struct Handle {
    len: u32,
    kind: i32,
    bytes: [u8; 128],
}

fn handle_of(path: &Path) -> Result<Handle> {
    let mut handle = Handle {
        len: 128,
        kind: 0,
        bytes: [0; 128],
    };
    let (name, mut mount) = (CString::new(path.as_os_str().as_bytes())?, 0);
    // SAFETY: the call writes to the handle, as much as its length says, and to the number, which live until it returns.
    let done = unsafe {
        let (name, handle) = (name.as_ptr(), (&raw mut handle).cast());
        libc::name_to_handle_at(libc::AT_FDCWD, name, handle, &raw mut mount, 0)
    };
    ensure!(
        done == 0,
        "name_to_handle_at: {}",
        io::Error::last_os_error()
    );
    Ok(handle)
}

fn open(dir: &Path, handle: &Handle) -> io::Result<File> {
    let mount = File::open(dir)?;
    let mut handle = *handle;
    // SAFETY: the call reads the handle, which lives until it returns.
    let fd = unsafe {
        libc::open_by_handle_at(mount.as_raw_fd(), (&raw mut handle).cast(), libc::O_RDONLY)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and owned here.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

#[test]
fn a_handle_is_good_until_its_file_goes() -> Result<()> {
    require!(can_mount(), Ok(()));
    let mut mount = MountedDir::new(Driver::Ours(String::new()), &Shape::DEFAULT)?;
    let dir = mount.dir().to_owned();
    fs::create_dir(dir.join("d"))?;
    fs::write(dir.join("d/kept"), "kept")?;
    fs::write(dir.join("d/gone"), "gone")?;
    let [kept, gone] = [
        handle_of(&dir.join("d/kept"))?,
        handle_of(&dir.join("d/gone"))?,
    ];
    mount.remount()?;
    for (handle, content) in [(&kept, "kept"), (&gone, "gone")] {
        let mut found = String::new();
        open(&dir, handle)
            .with_context(|| content.to_owned())?
            .read_to_string(&mut found)?;
        ensure!(found == content);
    }
    fs::remove_file(dir.join("d/gone"))?;
    mount.remount()?;
    // As many as it takes to get the inode again.
    for number in 0..64 {
        fs::write(dir.join(format!("d/new-{number}")), "new")?;
    }
    let refused = open(&dir, &gone).err().and_then(|e| e.raw_os_error());
    ensure!(refused == Some(libc::ESTALE), "{refused:?}");
    open(&dir, &kept)?;
    mount.finish()
}

/// Few inodes, so that a number is used again soon.
const FEW_INODES: Shape = Shape {
    args: "-t ext4 -b 1024 -I 256 -N 64 -J size=1",
    bytes: 16 << 20,
};

fn inode_of(path: &Path) -> Result<u64> {
    Ok(fs::metadata(path)?.ino())
}

/// Makes files in a directory of their own until one has the number `ino`; its path.
fn reuse(dir: &Path, ino: u64) -> Result<PathBuf> {
    // A server learns some time after its file was removed that the kernel has forgotten it.
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        let _ = fs::remove_dir_all(dir);
        fs::create_dir(dir)?;
        for number in 0..40 {
            let path = dir.join(number.to_string());
            match fs::write(&path, "new") {
                // Of what was removed the server does not know yet that it is forgotten.
                Err(e) if e.kind() == io::ErrorKind::StorageFull => break,
                done => done?,
            }
            if inode_of(&path)? == ino {
                return Ok(path);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    bail!("inode {ino} is not used again")
}

fn assert_stale(dir: &Path, handle: &Handle, what: &str) -> Result<()> {
    let refused = open(dir, handle).err().and_then(|e| e.raw_os_error());
    ensure!(refused == Some(libc::ESTALE), "{what}: {refused:?}");
    Ok(())
}

fn assert_content(dir: &Path, handle: &Handle, content: &str) -> Result<()> {
    let mut found = String::new();
    open(dir, handle)
        .with_context(|| content.to_owned())?
        .read_to_string(&mut found)?;
    ensure!(found == content, "{found:?}");
    Ok(())
}

/// In every variant that assigns a generation, in this mount and in the next ones.
#[test]
fn a_handle_is_stale_when_its_inode_is_used_again() -> Result<()> {
    require!(can_mount(), Ok(()));
    let all = GenerationVariant::ALL.into_iter();
    for variant in all.filter(|variant| *variant != GenerationVariant::None) {
        let options = format!("generation={variant}");
        let mut mount = MountedDir::new(Driver::Ours(options), &FEW_INODES)?;
        let dir = mount.dir().to_owned();
        fs::write(dir.join("kept"), "kept")?;
        fs::write(dir.join("file"), "old")?;
        let kept = handle_of(&dir.join("kept"))?;
        let (ino, first) = (inode_of(&dir.join("file"))?, handle_of(&dir.join("file"))?);
        assert_content(&dir, &first, "old")?;
        fs::remove_file(dir.join("file"))?;
        let second = handle_of(&reuse(&dir.join("d"), ino)?)?;
        assert_stale(&dir, &first, &format!("{variant}, reused"))?;
        assert_content(&dir, &second, "new")?;

        mount.remount()?;
        assert_stale(&dir, &first, &format!("{variant}, reused, then mounted"))?;
        assert_content(&dir, &second, "new")?;
        fs::remove_dir_all(dir.join("d"))?;
        mount.remount()?;
        for handle in [&first, &second] {
            assert_stale(&dir, handle, &format!("{variant}, removed"))?;
        }
        let third = handle_of(&reuse(&dir.join("d"), ino)?)?;
        for handle in [&first, &second] {
            assert_stale(&dir, handle, &format!("{variant}, reused in a later mount"))?;
        }
        assert_content(&dir, &third, "new")?;
        assert_content(&dir, &kept, "kept")?;
        mount.finish()?;
    }
    Ok(())
}

/// What `none` leaves out: a handle opens the file that has the number.
#[test]
fn without_generations_a_handle_opens_another_file() -> Result<()> {
    require!(can_mount(), Ok(()));
    let options = Driver::Ours("generation=none".to_owned());
    let mut mount = MountedDir::new(options, &FEW_INODES)?;
    let dir = mount.dir().to_owned();
    fs::write(dir.join("file"), "old")?;
    let (ino, first) = (inode_of(&dir.join("file"))?, handle_of(&dir.join("file"))?);
    fs::remove_file(dir.join("file"))?;
    reuse(&dir.join("d"), ino)?;
    assert_content(&dir, &first, "new")?;
    mount.remount()?;
    assert_content(&dir, &first, "new")?;
    mount.finish()
}
