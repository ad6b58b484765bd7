//! What every line finds: an image, and a directory of host files.

use crate::*;

/// What is prepared once, and copied for every run.
pub struct Stage {
    dir: TempDir,
}

/// Makes the files of the image, in a directory that is mounted or about to be an image.
const IMAGE_FILES: &str = r#"
mkdir -p etc/init.d home/ann 'with space' deep/a/b/c empty var/cache var/log bin
printf 'root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1::/:/bin/false\nann:x:1000:1000::/home/ann:/bin/sh\n' > etc/passwd
printf 'root:x:0:\ndaemon:x:1:\nstaff:x:50:ann\nann:x:1000:\n' > etc/group
echo 127.0.0.1 localhost > etc/hosts
echo start > etc/init.d/net; chmod 755 etc/init.d/net
seq 1 5000 > numbers; seq 1 200 > var/log/messages; echo hidden > .hidden; mkdir .config; echo x > .config/x
for i in 1 2 3 10; do echo $i > var/cache/file$i; done; : > var/cache/none; echo s > var/cache/.secret
echo a > deep/a/one; echo b > deep/a/b/two; echo c > deep/a/b/c/three
echo text > 'with space/a file'; ln -s ../etc/hosts deep/link; ln -s nowhere dangling; ln -s etc linkdir; ln -s /etc/passwd absolute
ln etc/hosts hosts-again; cp etc/init.d/net bin/tool; chmod 4755 bin/tool; chmod 2775 home/ann; chmod 1777 var/cache
mkfifo pipe; mknod null c 1 3; mknod disk b 8 1; chown -R 1000:1000 home/ann; chown 1:50 var/log/messages; chmod 640 var/log/messages
truncate -s 1M sparse; printf middle | dd of=sparse bs=1 seek=500000 conv=notrunc status=none
setfattr -n user.note -v remember etc/hosts; setfattr -n user.empty etc/hosts; setfacl -m u:1000:rw etc/init.d/net
find . -exec touch -h -d '2020-02-03 04:05:06.7' {} +
touch -d '2021-01-01 00:00:00' etc/hosts; touch -d '2019-05-05 05:05:05' numbers; touch -d '2022-06-07 08:09:10' var/log/messages
"#;

/// Makes the files of the host.
const HOST_FILES: &str = r#"
mkdir -p tree/sub out; echo one > tree/one; echo two > tree/sub/two; ln -s one tree/link; chmod 600 tree/one; chmod 755 tree/sub
mkfifo tree/fifo; echo new > new; echo '#!/bin/sh' > script; chmod 755 script; truncate -s 300K holes; echo end >> holes
touch -d '2018-03-04 05:06:07' new tree/one script; chown 1000:1000 script; ln new tree/new-again
mkdir mnt mnt2; mke2fs -q -t ext4 -b 1024 -d tree other.ext4 4M; truncate -s 8M disk.raw
dd if=other.ext4 of=disk.raw bs=1M seek=1 conv=notrunc status=none
touch -d '2020-02-03 04:05:06' tree tree/sub tree/sub/two out holes tree/fifo mnt mnt2 other.ext4 disk.raw
"#;

impl Stage {
    /// The image and the files; `None`, with a line on stderr, where the kernel can't mount.
    pub fn new() -> Option<Stage> {
        if !kernel_mounts() || !is_installed("setfacl") || !is_installed("setfattr") {
            return None;
        }
        let stage = Stage { dir: memory_dir() };
        let image = stage.dir.path().join("image");
        fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        let image = image.to_str().unwrap();
        let root = stage.dir.path().join("root");
        oracle::run("mke2fs", &["-q", "-t", "ext4", "-b", "4096", image], 0).unwrap();
        let mount = KernelMount::new(Path::new(image), &root, "noatime").unwrap();
        sh(mount.dir(), IMAGE_FILES);
        mount.unmount().unwrap();
        let host = stage.dir.path().join("host");
        fs::create_dir(&host).unwrap();
        sh(&host, HOST_FILES);
        Some(stage)
    }

    /// A copy of the image and of the host's files, for one run.
    pub fn copy(&self) -> TempDir {
        let copy = memory_dir();
        let (from, to) = (self.dir.path(), copy.path());
        let line = format!(
            "cp --sparse=always {0}/image {1}/test.img && cp -a {0}/host {1}/host",
            from.display(),
            to.display()
        );
        sh(Path::new("/"), &line);
        copy
    }
}

fn sh(dir: &Path, script: &str) {
    let mut sh = Command::new("sh");
    sh.args(["-ec", script]).current_dir(dir).env("TZ", "UTC");
    let out = sh.output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
}

/// A directory in memory, where a mount is over in milliseconds.
fn memory_dir() -> TempDir {
    let dir = tempfile::tempdir_in("/dev/shm");
    dir.or_else(|_| TempDir::new()).unwrap()
}
