//! A mounted directory that ignores case: the kernel keeps a name for each spelling, and none may outlive a change by another.

use super::MountedImage;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use uext4_testkit::prelude::*;
use uext4_testkit::program::run;

fn list(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn names_follow_changes_by_other_spellings() {
    let mounted = require!(some MountedImage::new());
    mounted.ok(&[
        "mkfs", "-q", "-F", "a.img", "--size", "64M", "-O", "casefold",
    ]);
    for options in ["rw", "dir-lock=exclusive"] {
        mounted.ok(&["mount", "-o", options, "a.img", "mnt"]);
        let dir = mounted.path("mnt/d");
        fs::create_dir(&dir).unwrap();
        let at = |name: &str| dir.join(name);
        let absent = |name: &str| {
            let kind = fs::symlink_metadata(at(name)).map_err(|e| e.kind());
            assert_eq!(kind.map(|_| ()), Err(ErrorKind::NotFound), "{name}");
        };
        // Not there before the directory ignores case, nor after.
        ["File", "FILE", "file"].into_iter().for_each(absent);
        run(Command::new("chattr").arg("+F").arg(&dir)).unwrap();
        ["File", "FILE", "file"].into_iter().for_each(absent);
        fs::write(at("File"), "one").unwrap();
        for name in ["FILE", "file", "File", "fi\u{200b}le"] {
            assert_eq!(fs::read(at(name)).unwrap(), b"one", "{name}");
        }
        let again = fs::File::create_new(at("fILE")).map(drop);
        assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(list(&dir), ["File"]);

        fs::remove_file(at("FILE")).unwrap();
        ["File", "FILE", "file"].into_iter().for_each(absent);
        fs::write(at("file"), "two").unwrap();
        fs::write(at("Other"), "three").unwrap();
        assert_eq!(fs::read(at("OTHER")).unwrap(), b"three");
        fs::rename(at("OTHER"), at("FILE")).unwrap();
        ["Other", "OTHER"].into_iter().for_each(absent);
        for name in ["file", "File", "FILE"] {
            assert_eq!(fs::read(at(name)).unwrap(), b"three", "{name}");
        }
        assert_eq!(list(&dir), ["file"]);

        // Directories, of which the kernel keeps one name; open, and the current directory of a process.
        fs::create_dir(at("Sub")).unwrap();
        fs::write(at("SUB/Below"), "four").unwrap();
        assert_eq!(fs::read(at("sub/BELOW")).unwrap(), b"four");
        let shell =
            "cd sUB; cat below; cat ../FiLe; cd ../SUB; rm BELOW; ls -a; cd ..; rmdir SuB; ls";
        let said = run(Command::new("sh").args(["-ec", shell]).current_dir(&dir)).unwrap();
        assert_eq!(said.out, "fourthree.\n..\nfile\n");
        ["Sub", "SUB", "sub"].into_iter().for_each(absent);
        fs::write(at("sub"), "five").unwrap();
        assert!(at("SUB").is_file());

        let invalid = dir.join(OsStr::from_bytes(b"\xffA"));
        fs::write(&invalid, "six").unwrap();
        assert_eq!(fs::read(&invalid).unwrap(), b"six");
        absent("\u{ff}a");
        let stays = run(Command::new("chattr").arg("-F").arg(&dir));
        assert!(stays.is_err());
        fs::remove_dir_all(&dir).unwrap();
        fs::create_dir(&dir).unwrap();
        fs::write(at("file"), "seven").unwrap();
        absent("FILE");
        fs::remove_dir_all(&dir).unwrap();
        mounted.ok(&["umount", "mnt"]);
        mounted.assert_clean();
    }
}

/// Calls of several threads that spell names otherwise each time.
#[test]
fn threads_agree_on_names_whatever_their_spelling() {
    let mounted = require!(some MountedImage::new());
    mounted.ok(&[
        "mkfs", "-q", "-F", "a.img", "--size", "64M", "-O", "casefold",
    ]);
    mounted.ok(&["mount", "a.img", "mnt"]);
    let dir = mounted.path("mnt/d");
    fs::create_dir(&dir).unwrap();
    run(Command::new("chattr").arg("+F").arg(&dir)).unwrap();
    let spell = |i: usize, bits: usize| {
        let letters = "straße".chars().enumerate();
        let spelled = letters.map(|(at, c)| match bits >> at & 1 {
            0 => c.to_string(),
            _ => c.to_uppercase().to_string(),
        });
        dir.join(format!("{}-{i}", spelled.collect::<String>()))
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for i in 0..50 {
                    let path = |bits: usize| spell(thread * 1000 + i, bits * 7 + thread);
                    fs::write(path(0), "data").unwrap();
                    assert_eq!(fs::read(path(i)).unwrap(), b"data");
                    fs::rename(path(i + 1), path(3).with_extension("new")).unwrap();
                    assert!(!path(i).exists() && !path(0).exists());
                    fs::rename(path(2).with_extension("NEW"), path(5)).unwrap();
                    assert!(path(0).exists());
                    if i % 2 == 0 {
                        fs::remove_file(path(i + 2)).unwrap();
                        assert!(!path(0).exists() && !path(5).exists());
                    }
                }
            });
        }
    });
    assert_eq!(list(&dir).len(), 100);
    mounted.ok(&["umount", "mnt"]);
    mounted.assert_clean();
}
