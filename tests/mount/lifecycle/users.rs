//! Mounts of a user that is not root: fusermount3 mounts and unmounts, and only the server can end the
//! connection, by ending.

use rustix::fs::{Gid, Uid, chown};
use std::fs::Permissions;
use std::sync::MutexGuard;
use uext4_testkit::prelude::*;

/// A user that owns nothing else.
const NOBODY: u32 = 65534;
/// How long something may take that is about to happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whose mode a test changes; it leaves the mode that it found.
static FUSE_DEVICE: Exclusive<&str> = Exclusive::new("/dev/fuse");

/// `/dev/fuse` for all users, until this is dropped.
struct OpenDevice {
    before: Permissions,
    device: MutexGuard<'static, &'static str>,
}

impl OpenDevice {
    fn new() -> Result<OpenDevice> {
        let device = FUSE_DEVICE.take();
        let before = fs::metadata(*device)?.permissions();
        fs::set_permissions(*device, Permissions::from_mode(0o666))?;
        Ok(OpenDevice { before, device })
    }
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        let _ = fs::set_permissions(*self.device, self.before.clone());
    }
}

/// A user's image, directory to mount it on, and program.
struct Home {
    files: TempDir,
    _device: OpenDevice,
}

impl Home {
    /// `None`, with a word about it, where a user can't mount.
    fn new() -> Result<Option<Home>> {
        if !can_mount() {
            return Ok(None);
        }
        for program in ["fusermount3", "setpriv"] {
            if Command::new(program).arg("--version").output().is_err() {
                eprintln!("skipped: needs {program}");
                return Ok(None);
            }
        }
        let files = tempfile::tempdir_in("/dev/shm")?;
        let home = Home {
            files,
            _device: OpenDevice::new()?,
        };
        fs::copy(built::command()?, home.path("uext4"))?;
        fs::create_dir(home.path("mount"))?;
        let mut mke2fs = Command::new("mke2fs");
        mke2fs.args(["-q", "-F", "-t", "ext4", "-E"]);
        mke2fs.arg(format!("root_owner={NOBODY}:{NOBODY}"));
        let made = mke2fs.arg(home.path("image")).arg("64M").status()?;
        ensure!(made.success(), "mke2fs: {made}");
        for name in ["", "mount", "image"] {
            let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
            chown(home.path(name), Some(uid), Some(gid))?;
        }
        Ok(Some(home))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// A program that the user runs in the directory.
    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        command.arg(program.as_ref()).current_dir(self.files.path());
        command.stdin(Stdio::null());
        command
    }

    fn uext4(&self, args: &[&str]) -> Result<Output> {
        Ok(self.command(self.path("uext4")).args(args).output()?)
    }

    fn ok(&self, args: &[&str]) -> Result<String> {
        let out = self.uext4(args)?;
        let said = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success(), "{args:?}: {}: {said}", out.status);
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }

    /// What a shell of the user's answers.
    fn shell(&self, script: &str) -> Result<String> {
        let out = self.command("sh").args(["-ec", script]).output()?;
        let said = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success(), "{script}: {}: {said}", out.status);
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }

    /// Mounts in the foreground, and returns once it is mounted. Output is written to the file `log`.
    fn foreground(&self, options: &str) -> Result<Child> {
        let log = File::create(self.path("log"))?;
        let mut command = self.command(self.path("uext4"));
        command.args(["mount", "-f", "-o", options, "image", "mount"]);
        let child = command.stderr(log).spawn()?;
        self.eventually("it is mounted", || {
            self.said().is_ok_and(|said| said.contains("is mounted"))
        })?;
        Ok(child)
    }

    fn said(&self) -> Result<String> {
        Ok(fs::read_to_string(self.path("log"))?)
    }

    fn is_mounted(&self) -> bool {
        is_mounted(&self.path("mount"))
    }

    /// Waits for what another process is about to do.
    fn eventually(&self, what: &str, is_so: impl Fn() -> bool) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while !is_so() {
            let said = self.said().unwrap_or_default();
            ensure!(Instant::now() < end, "not so in time: {what}; {said}");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let out = Command::new("e2fsck")
            .arg("-fn")
            .arg(self.path("image"))
            .output()?;
        let said = String::from_utf8_lossy(&out.stdout);
        ensure!(out.status.success(), "e2fsck: {}: {said}", out.status);
        Ok(())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        unmount_what_is_left(&self.path("mount"));
    }
}

#[test]
fn a_user_mounts_writes_and_unmounts() -> Result<()> {
    let home = require!(some Home::new()?, Ok(()));
    for transport in transports() {
        let options = format!("transport={transport}");
        home.ok(&["mount", "-o", &options, "image", "mount"])?;
        home.shell(&format!(
            "echo {transport} > mount/{transport}; mkdir mount/d; mv mount/{transport} mount/d"
        ))?;
        ensure!(home.shell("cat mount/d/*")?.trim() == transport);
        // It is the user's alone, even for the superuser.
        ensure!(fs::read_dir(home.path("mount")).is_err());
        home.shell("rm -r mount/d")?;
        home.ok(&["umount", "mount"])?;
        ensure!(!home.is_mounted());
        home.check()?;
    }
    Ok(())
}

#[test]
fn another_users_mount_is_not_unmounted() -> Result<()> {
    let home = require!(some Home::new()?, Ok(()));
    let mut uext4 = Command::new(built::command()?);
    uext4.current_dir(home.files.path());
    ensure!(uext4.args(["mount", "image", "mount"]).status()?.success());
    let out = home.uext4(&["umount", "mount"])?;
    let said = String::from_utf8_lossy(&out.stderr);
    let expected = "mount: another user mounted it; only that user and root can unmount it";
    ensure!(
        out.status.code() == Some(1) && said.contains(expected),
        "{said}"
    );
    ensure!(home.is_mounted());
    Ok(())
}

/// The user has root's files in the image, and leaves them root's.
#[test]
fn a_user_changes_files_of_root_with_fakeroot() -> Result<()> {
    let home = require!(some Home::new()?, Ok(()));
    let image = home.path("image");
    let script = "mkdir /etc\nwrite /etc/hostname /etc/secret\nset_inode_field /etc/secret mode 0100600\n\
                  set_inode_field / uid 0\nset_inode_field / gid 0\n";
    fs::write(home.path("script"), script)?;
    let mut debugfs = Command::new("debugfs");
    debugfs
        .args(["-w", "-f"])
        .arg(home.path("script"))
        .arg(&image);
    ensure!(debugfs.output()?.status.success(), "debugfs");
    home.ok(&["mount", "image", "mount"])?;
    ensure!(
        home.shell("echo x > mount/etc/new").is_err(),
        "root's directory can be written"
    );
    home.ok(&["umount", "image"])?;
    home.ok(&["mount", "-o", "fakeroot", "image", "mount"])?;
    home.shell(
        "cat mount/etc/secret > /dev/null; echo x > mount/etc/new; chown 33:44 mount/etc/secret",
    )?;
    ensure!(home.shell("stat -c %u:%g mount/etc/new mount/etc/secret")? == "0:0\n33:44\n");
    ensure!(
        fs::read_dir(home.path("mount")).is_err(),
        "others may use it"
    );
    home.ok(&["umount", "mount"])?;
    let options = "fakeroot,allow_other";
    ensure!(
        home.ok(&["mount", "-o", options, "image", "mount"])
            .is_err()
    );
    home.check()
}

/// Writes to a file, and to one without a name, until nothing can be made any more. With `writeback` the kernel
/// itself takes what is written, whether or not there is a server.
const WRITER: &str = "\
written=$PWD/written
cd mount
exec 3> open 4> nameless
rm nameless
echo before >&3
sync -f .
i=0
while echo $i >&3 && echo $i >&4 && true > made-$((i % 50)) && rm -f made-$((i % 37)); do
    i=$((i + 1))
    echo $i > $written
done 2> /dev/null
exit 0
";

#[test]
fn a_mount_in_use_ends_when_its_monitor_is_told_to() -> Result<()> {
    let home = require!(some Home::new()?, Ok(()));
    for options in ["transport=dev", "transport=dev,writeback"]
        .map(str::to_owned)
        .into_iter()
        .chain(
            transports()
                .into_iter()
                .map(|t| format!("transport={t},threads=3")),
        )
    {
        let mut mount = home.foreground(&options)?;
        let mut writer = home.command("sh").args(["-c", WRITER]).spawn()?;
        let written = || fs::read_to_string(home.path("written")).is_ok_and(|n| n.trim() > "2");
        home.eventually("it writes", written)?;
        let monitor = rustix::process::Pid::from_child(&mount);
        rustix::process::kill_process(monitor, rustix::process::Signal::TERM)?;
        let ended = mount.wait()?;
        let said = home.said()?;
        ensure!(
            ended.success() && said.contains("in use"),
            "{options}: {ended}: {said}"
        );
        ensure!(!home.is_mounted());
        ensure!(writer.wait()?.success());
        home.check().context(options)?;
        let text = home.ok(&["cat", "image:/open"])?;
        ensure!(text.starts_with("before\n"), "{text:.80}");
        home.ok(&["rm", "image:/open"])?;
        fs::remove_file(home.path("written"))?;
    }
    Ok(())
}

#[test]
fn what_a_user_can_not_do_says_why() -> Result<()> {
    let home = require!(some Home::new()?, Ok(()));
    for (args, want) in [
        (&["mount", "image", "/usr"][..], "no write access"),
        (
            &["mount", "-o", "allow_other", "image", "mount"],
            "user_allow_other",
        ),
        (
            &["mount", "-o", "suid", "image", "mount"],
            "option 'suid' is root's",
        ),
    ] {
        let out = home.uext4(args)?;
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        let conf = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
        if want == "user_allow_other" && conf.lines().any(|line| line.trim() == want) {
            home.ok(&["umount", "mount"])?;
            continue;
        }
        ensure!(
            !out.status.success() && said.contains(want),
            "{args:?}: {said}"
        );
        ensure!(!home.is_mounted());
    }
    home.check()
}
