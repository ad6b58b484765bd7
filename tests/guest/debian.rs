//! A Debian system as an archive and as a container image, and the trees that other programs make of both.
use uext4_testkit::prelude::*;

use tar::{Builder, EntryType, Header};
use uext4_testkit::program::run;

/// Packages beside the essential ones: an init, and what the guest verifies with.
const PACKAGES: &str = "systemd-sysv,cryptsetup-bin,fsverity,attr,libcap2-bin,iputils-ping";
/// Directories of the generated tree, and files in each.
const TREE: (u32, u32) = (250, 200);

/// Where the sources of images are made.
pub struct Debian {
    files: TempDir,
}

/// A source of an image, and what the image must hold.
pub struct Source {
    /// What `mkfs --from` takes.
    pub from: String,
    /// The tree that another program made of it.
    pub tree: PathBuf,
    /// The file `expected` with what `describe.sh` prints of that tree.
    pub expected: PathBuf,
}

impl Debian {
    /// A minute, where the system is not yet in the cache of `tools/guest.sh`.
    pub fn new() -> Result<Debian> {
        let debian = Debian {
            files: tempfile::tempdir()?,
        };
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(debian.files.path(), mode)?;
        fs::copy(system()?, debian.path("root.tar"))?;
        Ok(debian)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// The archive of the system.
    pub fn archive(&self) -> Result<Source> {
        let (archive, tree) = (self.path("root.tar"), self.path("archive/rootfs"));
        fs::create_dir_all(&tree)?;
        let mut tar = Command::new("tar");
        tar.args(["--numeric-owner", "--xattrs", "--xattrs-include=*", "-xpC"]);
        run(tar.arg(&tree).arg("-f").arg(&archive))?;
        source(archive.display().to_string(), tree)
    }

    /// A container image: the system, what is added to it, what is removed; and with `many`, a layer of 50,000 files.
    pub fn container(&self, many: bool) -> Result<Source> {
        let layout = self.path("layout").display().to_string();
        let image = format!("{layout}:system");
        let umoci = |args: &[&str]| run(Command::new("umoci").args(args)).map(|_| ());
        umoci(&["init", "--layout", &layout])?;
        umoci(&["new", "--image", &image])?;
        let layers = ["root.tar", "added.tar", "removed.tar", "files.tar"].map(|l| self.path(l));
        added(&layers[1])?;
        removed(&layers[2])?;
        generated(&layers[3])?;
        for layer in &layers[..if many { 4 } else { 3 }] {
            let layer = layer.to_str().context("a path in UTF-8")?;
            umoci(&["raw", "add-layer", "--image", &image, layer])?;
        }
        run(Command::new("chmod").args(["-R", "a+rX", &layout]))?;
        let bundle = self.path("bundle");
        run(Command::new("umoci")
            .args(["unpack", "--image", &image])
            .arg(&bundle))?;
        source(format!("oci:{image}"), bundle.join("rootfs"))
    }

    /// An archive of the tree of `source`.
    pub fn packed(&self, source: &Source) -> Result<Source> {
        let (archive, tree) = (self.path("packed.tar"), source.tree.clone());
        let mut tar = Command::new("tar");
        tar.args(["--format=posix", "--numeric-owner", "--xattrs", "-cf"]);
        run(tar.arg(&archive).arg("-C").arg(&tree).arg("."))?;
        Ok(Source {
            from: archive.display().to_string(),
            tree,
            expected: source.expected.clone(),
        })
    }
}

fn source(from: String, tree: PathBuf) -> Result<Source> {
    let expected = tree.with_file_name("expected");
    let mut describe = Command::new("sh");
    let printed = run(describe.arg(describe_script()).arg(&tree))?;
    fs::write(&expected, printed.out)?;
    Ok(Source {
        from,
        tree,
        expected,
    })
}

/// The script that prints all that a tree has, here and in the guest.
pub fn describe_script() -> PathBuf {
    Path::new(WORKSPACE).join("tests/guest/describe.sh")
}

/// The archive of the system, of this machine's release, in the cache.
fn system() -> Result<PathBuf> {
    let release = fs::read_to_string("/etc/os-release")?;
    let release = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .context("the release of this machine")?;
    let cache = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME").context("HOME")?).join(".cache"),
    };
    let cache = cache.join("uext4-guest");
    let archive = cache.join(format!("{release},{PACKAGES}.tar"));
    if !archive.exists() {
        fs::create_dir_all(&cache)?;
        let dir = tempfile::tempdir_in(&cache)?;
        let new = dir.path().join("new.tar");
        let mut mmdebstrap = Command::new("mmdebstrap");
        mmdebstrap.args(["--quiet", "--variant=minbase"]);
        mmdebstrap.arg(format!("--include={PACKAGES}"));
        run(mmdebstrap.arg(release).arg(&new))?;
        fs::rename(&new, &archive)?;
    }
    Ok(archive)
}

/// Writes a layer.
struct Layer {
    tar: Builder<File>,
    random: Rng,
    time: u64,
}

impl Layer {
    fn new(path: &Path) -> Result<Layer> {
        Ok(Layer {
            tar: Builder::new(File::create(path)?),
            random: Rng::with_seed(1),
            time: 1_600_000_000,
        })
    }

    fn header(&mut self, kind: EntryType, mode: u32) -> Header {
        self.time += 1;
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(self.time);
        header.set_size(0);
        header
    }

    fn directory(&mut self, path: &str) -> Result<()> {
        let mut header = self.header(EntryType::Directory, 0o755);
        Ok(self.tar.append_data(&mut header, path, &[][..])?)
    }

    /// A file of fewer than `limit` bytes.
    fn file(&mut self, path: &str, limit: usize) -> Result<()> {
        let mut header = self.header(EntryType::Regular, 0o640);
        header.set_uid(1000);
        header.set_gid(100);
        let data: Vec<u8> = (0..self.random.usize(..limit))
            .map(|_| self.random.u8(..))
            .collect();
        header.set_size(data.len() as u64);
        Ok(self.tar.append_data(&mut header, path, &data[..])?)
    }

    fn link(&mut self, kind: EntryType, path: &str, target: &str) -> Result<()> {
        let mut header = self.header(kind, 0o777);
        Ok(self.tar.append_link(&mut header, path, target)?)
    }

    fn finish(mut self) -> Result<()> {
        Ok(self.tar.finish()?)
    }
}

/// A layer of files and hard links, also to a file of the layer below, and of one that replaces another.
fn added(path: &Path) -> Result<()> {
    let mut layer = Layer::new(path)?;
    for directory in ["opt/added", "opt/opaque", "opt/removed"] {
        layer.directory(directory)?;
        for n in 0..100 {
            layer.file(&format!("{directory}/{n}"), 20_000)?;
        }
    }
    for n in 0..50 {
        let (link, file) = (format!("opt/added/link {n}"), format!("opt/added/{n}"));
        layer.link(EntryType::Link, &link, &file)?;
    }
    layer.link(EntryType::Link, "usr/local/bin/bash", "usr/bin/bash")?;
    layer.link(EntryType::Symlink, "opt/symlink", "added/link 1")?;
    layer.file("etc/issue", 1000)?;
    layer.finish()
}

/// A layer of whiteouts, an opaque directory, and a directory instead of a file.
fn removed(path: &Path) -> Result<()> {
    let mut layer = Layer::new(path)?;
    layer.directory("opt/opaque")?;
    layer.file("opt/opaque/.wh..wh..opq", 1)?;
    layer.file("opt/opaque/new", 5000)?;
    layer.file("opt/.wh.removed", 1)?;
    for n in (0..100).step_by(7) {
        layer.file(&format!("opt/added/.wh.{n}"), 1)?;
    }
    layer.file("usr/share/doc/.wh.bash", 1)?;
    layer.directory("opt/added/1")?;
    layer.file("opt/added/1/file", 5000)?;
    layer.finish()
}

/// A layer of 50,000 small files.
fn generated(path: &Path) -> Result<()> {
    let mut layer = Layer::new(path)?;
    layer.directory("srv/tree")?;
    for directory in 0..TREE.0 {
        layer.directory(&format!("srv/tree/{directory}"))?;
        for n in 0..TREE.1 {
            layer.file(&format!("srv/tree/{directory}/{n}"), 4096)?;
        }
    }
    layer.finish()
}
