//! Mounts an image in the foreground, without the monitor and the sandbox: `mount IMAGE DIR [dev|uring]`.

use std::os::fd::AsFd;
use std::path::Path;
use uext4::{Filesystem, OpenOptions};
use uext4_fuse::{KernelOptions, Mountpoint, Prepared, ServeOptions, serve};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, image, dir, rest @ ..] = &args[..] else {
        return Err("usage: mount IMAGE DIR [dev|uring]".into());
    };
    let mut options = ServeOptions::default();
    if let Some(transport) = rest.first() {
        options.transport = transport.parse()?;
    }
    if let Some(threads) = rest.get(1) {
        options.threads = Some(threads.parse()?);
    }
    let prepared = Prepared::new(&options)?;
    let fs = Filesystem::open(image, &OpenOptions::read_write())?;
    let kernel = KernelOptions {
        fs_name: image.clone(),
        subtype: "uext4".into(),
        allow_other: true,
        uring: options.transport != uext4_fuse::TransportKind::Dev,
        writeback: rest.get(2).is_some_and(|w| w == "writeback"),
        ..KernelOptions::default()
    };
    let mountpoint = Mountpoint::mount(Path::new(dir), &kernel)?;
    let connection = mountpoint.connection().as_fd().try_clone_to_owned()?;
    let negotiated = mountpoint.negotiated();
    serve(
        fs.inode().clone(),
        connection,
        prepared,
        negotiated,
        &options,
        |_| println!("serving"),
    )?;
    fs.unmount()?;
    Ok(())
}
