//! The command in a directory of its own.

use crate::*;
use uext4_testkit::loop_device::LoopDevice;

/// A directory to work in.
pub struct Workdir(TempDir);

impl Workdir {
    /// A new one.
    pub fn new() -> Workdir {
        Workdir(TempDir::new().unwrap())
    }

    /// The directory itself.
    pub fn dir(&self) -> &Path {
        self.0.path()
    }

    /// A name in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs the command with these arguments.
    pub fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(uext4());
        command
            .current_dir(self.0.path())
            .args(args)
            .output()
            .unwrap()
    }

    /// Standard output of a command that has to work.
    pub fn ok(&self, args: &[&str]) -> String {
        let out = self.run(args);
        let err = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{args:?}: {err}");
        String::from_utf8(out.stdout).unwrap()
    }

    /// The one line that a command which has to fail prints.
    pub fn fails(&self, code: i32, args: &[&str]) -> String {
        let out = self.run(args);
        let err = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(code), "{args:?}: {err}");
        assert_eq!(err.lines().count(), 1, "{err}");
        assert!(err.starts_with("uext4: "), "{err}");
        err
    }

    /// A command that has to fail with this text.
    #[track_caller]
    pub fn refuses(&self, code: i32, args: &[&str], text: &str) {
        let said = self.fails(code, args);
        assert!(said.contains(text), "{args:?}: {said}");
    }

    /// A command that has to work and print this text.
    #[track_caller]
    pub fn prints(&self, args: &[&str], text: &str) {
        let said = self.ok(args);
        assert!(said.contains(text), "{args:?}: {said}");
    }

    /// e2fsck and our own check find nothing to say about an image.
    pub fn assert_clean(&self, image: &str) {
        self.ok(&["check", image]);
        match Command::new("e2fsck")
            .arg("-fn")
            .arg(self.path(image))
            .output()
        {
            Ok(out) => {
                let said = String::from_utf8_lossy(&out.stdout);
                assert_eq!(out.status.code(), Some(0), "{said}");
            }
            Err(e) => eprintln!("SKIPPED e2fsck: {e}"),
        }
    }

    /// A small tree with one of everything that needs no root.
    pub fn tree(&self) -> PathBuf {
        let root = self.path("tree");
        fs::create_dir_all(root.join("etc/empty")).unwrap();
        fs::write(root.join("etc/passwd"), "root:x:0:0\n").unwrap();
        fs::set_permissions(root.join("etc/passwd"), PermissionsExt::from_mode(0o4751)).unwrap();
        fs::hard_link(root.join("etc/passwd"), root.join("etc/same")).unwrap();
        symlink("passwd", root.join("etc/link")).unwrap();
        symlink("x".repeat(200), root.join("long-link")).unwrap();
        fs::write(root.join("large"), vec![0xa5; 3_000_001]).unwrap();
        let sparse = fs::File::create(root.join("sparse")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&sparse, b"middle", 2 << 20).unwrap();
        sparse.set_len(8 << 20).unwrap();
        let node = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::from_raw_mode(0o640);
        rustix::fs::mknodat(rustix::fs::CWD, root.join("pipe"), node, mode, 0).unwrap();
        for i in 0..300 {
            fs::write(root.join(format!("etc/file-{i}")), i.to_string()).unwrap();
        }
        root
    }
}

impl Workdir {
    /// A loop device on a file of the directory.
    pub fn attach(&self, file: &str, options: &[&str]) -> Option<LoopDevice> {
        LoopDevice::attach(&self.path(file), options)
    }
}
