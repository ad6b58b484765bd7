//! fuse2fs: `fuse2fs IMAGE DIR [-o OPTIONS]`, a mount of `uext4 mount`.

use super::{Program, exit};
use crate::commands::mount;
use anyhow::Result;
use std::ffi::OsString;
use std::path::Path;
use uext4::ImageName;
use uext4::unstable::to_stderr;

const USAGE: &str = "\
usage: fuse2fs device/image mountpoint [options]

    -o opt,[opt...]  mount options
    -h   --help      print help
    -V   --version   print version
    -f               stay in the foreground
    -d               the same, for debugging
    -s               serve with one thread

fuse2fs options:
    -o ro                  read-only mount
    -o rw                  read-write mount (default)
    -o errors=panic        end the server at an error
    -o bsddf               bsd-style df (default)
    -o fakeroot            pretend to be root for permission checks
    -o no_default_opts     do not include default fuse options
    -o offset=<bytes>      mount the partition starting at <bytes>
    -o norecovery          don't replay the journal (implies ro)
    -o kernel              allow_other, suid and dev, as a mount of the kernel
    and those of `uext4 mount --help`";

/// The exit code when the image can't be opened.
const NO_IMAGE: u8 = 2;

pub fn run(program: &Program) -> Result<u8> {
    let mut program_words = program.words.clone();
    for (long, short) in [("--help", "-h"), ("--version", "-V")] {
        for word in program_words.iter_mut().filter(|word| *word == long) {
            *word = short.into();
        }
    }
    let program = Program {
        name: program.name,
        words: program_words,
    };
    let words = program.read("o:hVfdsF:", USAGE, 1)?;
    if words.has('h') {
        to_stderr(format_args!("{USAGE}"));
        return Ok(1);
    }
    if words.has('V') {
        to_stderr(format_args!("{}", program.version()));
        return Ok(0);
    }
    let (image, dir) = match words.operands.as_slice() {
        [image, dir] => (image, dir),
        [] => {
            return Err(exit(
                1,
                "Missing ext4 device/image\nSee 'fuse2fs -h' for usage",
            ));
        }
        _ => return Err(exit(1, USAGE)),
    };
    let name = ImageName::parse(Path::new(image));
    if !name.is_remote() && !name.path().exists() {
        let image = Path::new(image).display();
        let why = format!("{image}: No such file or directory.\nPlease run e2fsck -fy {image}.");
        return Err(exit(NO_IMAGE, why));
    }
    let mut line: Vec<OsString> = Vec::new();
    let list = words.list('o').unwrap_or_default();
    let options = options(&list);
    if !options.is_empty() {
        line.extend(["-o".into(), options.join(",").into()]);
    }
    if words.has('f') || words.has('d') {
        line.push("-f".into());
    }
    if words.has('s') {
        line.extend(["-o".into(), "threads=1".into()]);
    }
    line.extend(["--".into(), image.clone(), dir.clone()]);
    let args = mount::Args::read(line).map_err(|e| exit(1, e.to_string()))?;
    mount::run(args)?;
    Ok(0)
}

/// The options of `uext4 mount` that those of fuse2fs are.
fn options(list: &str) -> Vec<&str> {
    let mut all = Vec::new();
    for word in list.split(',').filter(|word| !word.is_empty()) {
        match word {
            // FUSE's own defaults, and messages.
            "no_default_opts" | "fuse2fs_debug" | "debug" => {}
            "norecovery" => all.extend(["ro", "noload"]),
            "kernel" => all.extend(["allow_other", "suid", "dev"]),
            word => all.push(word),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_mount() {
        assert_eq!(options("ro,no_default_opts,offset=5"), ["ro", "offset=5"]);
        assert_eq!(
            options("norecovery,,fakeroot"),
            ["ro", "noload", "fakeroot"]
        );
        assert_eq!(options("kernel"), ["allow_other", "suid", "dev"]);
    }
}
