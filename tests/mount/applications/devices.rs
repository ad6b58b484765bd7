//! fio: what it writes has checksums, which it verifies at once and after the next mount.

use super::transports::{can_run, on_mount, run};
use uext4_testkit::prelude::*;

/// How the data goes: through the kernel's cache by write(2), by mapping, past the cache one by one and several at
/// a time.
const ENGINES: [(&str, &[&str]); 4] = [
    ("buffered", &["--ioengine=psync"]),
    ("mapped", &["--ioengine=mmap"]),
    ("direct", &["--ioengine=psync", "--direct=1"]),
    (
        "in-flight",
        &["--ioengine=libaio", "--direct=1", "--iodepth=8"],
    ),
];

/// All jobs at once, each in files of its own.
fn fio(dir: &Path, what: &[&str]) -> Result<()> {
    let mib = env_number("UEXT4_FIO_MIB", 4);
    let mut fio = Command::new("fio");
    fio.args(["--numjobs=2", "--group_reporting", "--minimal"]);
    // Blocks of each size, and of none between.
    fio.arg("--bssplit=4k/50:8k/10:64k/20:256k/10:1m/10");
    fio.args(["--verify=crc32c", "--verify_fatal=1", "--randrepeat=1"]);
    fio.arg(format!("--size={mib}m"));
    fio.arg("--directory").arg(dir).args(what);
    for (name, engine) in ENGINES {
        for rw in ["write", "randwrite"] {
            fio.arg(format!("--name={name}-{rw}"));
            fio.arg(format!("--rw={rw}")).args(engine);
        }
    }
    // Its records of a run are not read.
    run(fio.current_dir(std::env::temp_dir()))?;
    Ok(())
}

fn verified(options: &str) -> Result<()> {
    on_mount(options, |mount| {
        fio(mount.dir(), &["--do_verify=1", "--end_fsync=1"])?;
        mount.remount()?;
        fio(mount.dir(), &["--verify_only"])
    })
}

#[test]
fn what_is_written_is_read() -> Result<()> {
    if !can_run(&["fio"]) {
        return Ok(());
    }
    for transport in transports() {
        verified(&format!("transport={transport}"))?;
    }
    Ok(())
}

#[test]
fn what_the_kernel_writes_back_is_read() -> Result<()> {
    if !can_run(&["fio"]) {
        return Ok(());
    }
    for transport in transports() {
        verified(&format!("transport={transport},writeback"))?;
    }
    Ok(())
}
