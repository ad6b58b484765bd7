//! A guest, by `tools/guest.sh`.
use uext4_testkit::prelude::*;

/// What a guest boots from, and what it finds there.
#[derive(Default)]
pub struct Guest<'a> {
    /// Images that are `/dev/vda`, `/dev/vdb`, ...; the first is its root file system, if it boots.
    pub disks: &'a [&'a Path],
    /// Files that it finds in `/run`, or in `/` if it does not boot.
    pub files: &'a [&'a Path],
    /// Kernel modules that are loaded.
    pub modules: &'a str,
}

impl Guest<'_> {
    /// Boots from the first disk: runs `commands` as its first process, then its `/sbin/init`, then `later`; each by `sh -e`.
    /// Returns what they printed, one line each.
    pub fn boot(&self, commands: &str, later: &str) -> Result<Vec<String>> {
        self.start(&["-r", "-m", "1024"], &[commands, later])
    }

    /// Runs `commands` in BusyBox's `sh -e` in a system that is only in memory, with the disks for data alone, where the files are in `/`. Returns what they
    /// printed, one line each.
    pub fn run(&self, commands: &str) -> Result<Vec<String>> {
        self.start(&[], &[commands])
    }

    fn start(&self, options: &[&str], commands: &[&str]) -> Result<Vec<String>> {
        let started = Instant::now();
        let mut script = Command::new(Path::new(WORKSPACE).join("tools/guest.sh"));
        script.args(options).args(["-k", self.modules]);
        for disk in self.disks {
            script.arg("-d").arg(disk);
        }
        for file in self.files {
            script.arg("-f").arg(file);
        }
        let output = script.args(commands).output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (printed, errors) = (text(&output.stdout), text(&output.stderr));
        eprint!("{printed}");
        eprintln!("guest: {:.0} s", started.elapsed().as_secs_f64());
        ensure!(output.status.success(), "the guest failed: {errors}");
        Ok(printed.lines().map(str::to_owned).collect())
    }
}

/// The value of the line `name: value`.
pub fn printed<'a>(lines: &'a [String], name: &str) -> Result<&'a str> {
    lines
        .iter()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        .with_context(|| format!("the guest printed no {name}: {lines:?}"))
}
