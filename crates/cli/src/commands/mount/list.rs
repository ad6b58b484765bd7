//! The list of mounts.

use crate::show;
use anyhow::{Context, Result};
use serde::Serialize;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use uext4_mountd::mountinfo::MountEntry;

#[derive(Serialize)]
struct Json {
    source: String,
    dir: String,
    options: String,
}

/// Prints what is mounted, as mount(8) does.
pub fn list(as_json: bool) -> Result<()> {
    let mut entries = MountEntry::all().context("/proc/self/mountinfo")?;
    entries.retain(MountEntry::is_ours);
    if as_json {
        let json = |entry: &MountEntry| Json {
            source: entry.source.to_string_lossy().into_owned(),
            dir: entry.dir.to_string_lossy().into_owned(),
            options: entry.options.clone(),
        };
        return show::json(&entries.iter().map(json).collect::<Vec<_>>());
    }
    let mut out = std::io::stdout().lock();
    for entry in entries {
        out.write_all(&show::name(entry.source.as_os_str().as_bytes()))?;
        out.write_all(b" on ")?;
        out.write_all(&show::name(entry.dir.as_os_str().as_bytes()))?;
        writeln!(out, " type {} ({})", entry.kind, entry.options)?;
    }
    Ok(())
}
