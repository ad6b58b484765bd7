//! A librbd with faults: a library of that name, made from `librbd_shim.c`, in front of the one of the host.

use crate::external::*;

/// The variable that names the fault.
pub const FAULT: &str = "UEXT4_RBD_FAULT";
/// The variable that names where the loader searches first.
pub const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
/// The name by which the library with faults needs the one of the host.
const HOST: &str = "librbd-of-the-host.so";

/// Builds it, in a directory for [`LIBRARY_PATH`].
pub fn build() -> Result<TempDir> {
    let dir = tempfile::tempdir()?;
    let (host, shim) = (dir.path().join(HOST), dir.path().join("librbd.so.1"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/librbd_shim.c");
    // The linker finds an empty library of the name that the loader finds the one of the host by.
    let empty = format!("-shared -x c /dev/null -Wl,-soname,{HOST} -o");
    cc(Command::new("cc").args(empty.split(' ')).arg(&host))?;
    let flags = "-shared -fPIC -O1 -Wall -Werror -Wl,--no-as-needed -Wl,-rpath,$ORIGIN -o";
    let mut command = Command::new("cc");
    cc(command.args(flags.split(' ')).args([&shim, &source, &host]))?;
    fs::remove_file(&host)?;
    symlink(host_library()?, &host)?;
    Ok(dir)
}

fn cc(command: &mut Command) -> Result<()> {
    crate::program::run(command).map(|_| ())
}

fn host_library() -> Result<PathBuf> {
    let mut command = Command::new("ldconfig");
    command
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .arg("-p");
    let known = crate::program::run(&mut command)?.out;
    let line = known
        .lines()
        .find(|line| line.trim_start().starts_with("librbd.so.1 "));
    let path = line.and_then(|line| line.rsplit(' ').next());
    Ok(PathBuf::from(path.context("librbd.so.1")?))
}
