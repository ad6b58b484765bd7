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
