//! Images as an ordinary user makes them, and what e2fsck finds in them.
use uext4_testkit::prelude::*;

use uext4_testkit::program::run;

const USER: u32 = 65534;

/// The directory of an ordinary user, with the command.
pub struct Home {
    files: TempDir,
}

impl Home {
    pub fn new() -> Result<Home> {
        let home = Home {
            files: tempfile::tempdir()?,
        };
        fs::copy(built::command()?, home.path("uext4"))?;
        std::os::unix::fs::chown(home.files.path(), Some(USER), Some(USER))?;
        Ok(home)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// Makes the image `name` by `uext4 mkfs NAME --from FROM` and `options`, as the user. Returns its report.
    pub fn mkfs(&self, name: &str, from: &str, options: &[&str]) -> Result<serde_json::Value> {
        let mut mkfs = Command::new("setpriv");
        mkfs.args([
            &format!("--reuid={USER}"),
            &format!("--regid={USER}"),
            "--clear-groups",
        ]);
        mkfs.args(["--", "./uext4", "mkfs", name, "--from", from, "--json"]);
        let printed = run(mkfs.args(options).current_dir(self.files.path()))?;
        let report: serde_json::Value = serde_json::from_str(&printed.out)?;
        ensure!(report["warnings"] == serde_json::json!([]), "{report}");
        let owner = fs::metadata(self.path(name))?.uid();
        ensure!(owner == USER, "{name}: owner {owner}");
        eprintln!(
            "mkfs {name} --from {from}: {} files, {} hard links, {} MiB, {:.1} s",
            report["files"],
            report["hard_links"],
            report["image_bytes"].as_u64().unwrap_or(0) >> 20,
            report["seconds"].as_f64().unwrap_or(0.0),
        );
        self.assert_clean(name)?;
        Ok(report)
    }

    /// Fails unless the image needs no recovery and e2fsck finds nothing in it.
    pub fn assert_clean(&self, name: &str) -> Result<()> {
        let image = self.path(name);
        let superblock = run(Command::new("dumpe2fs").arg("-h").arg(&image))?;
        ensure!(!superblock.out.contains("needs_recovery"), "{name}");
        let checked = run(Command::new("e2fsck").arg("-fn").arg(&image))?;
        // Five passes and the summary.
        ensure!(checked.out.lines().count() == 6, "{name}: {}", checked.out);
        Ok(())
    }
}
