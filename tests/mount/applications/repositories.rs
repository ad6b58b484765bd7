//! git: a repository that is made, cloned, packed and verified in the mount.

use super::transports::{can_run, on_each_transport, run, workspace};
use uext4_testkit::prelude::*;

/// Nothing of the user's, nothing in the background, and repositories of any owner.
const CONFIG: &str = "\
[user]
    name = A
    email = a@example.org
[safe]
    directory = *
[gc]
    auto = 0
[maintenance]
    auto = false
[init]
    defaultBranch = main
[advice]
    detachedHead = false
";

/// git with the configuration file, in a directory.
struct Git<'a> {
    config: &'a Path,
}

impl Git<'_> {
    fn run(&self, dir: &Path, args: &[&str]) -> Result<String> {
        let mut git = Command::new("git");
        git.current_dir(dir).args(args);
        // Of the git that runs these tests, as a hook does.
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            git.env_remove(name);
        }
        git.env("GIT_CONFIG_GLOBAL", self.config);
        run(git.env("GIT_CONFIG_SYSTEM", "/dev/null"))
    }

    /// All objects are there and whole, and the work tree is what was committed.
    fn verify(&self, repository: &Path) -> Result<()> {
        self.run(repository, &["fsck", "--strict", "--full"])?;
        let changed = self.run(repository, &["status", "--porcelain"])?;
        ensure!(changed.is_empty(), "{}: {changed}", repository.display());
        Ok(())
    }

    fn commit_many(&self, repository: &Path, commits: u64) -> Result<()> {
        for commit in 0..commits {
            let dir = repository.join(format!("dir-{}", commit % 7));
            fs::create_dir_all(&dir)?;
            fs::write(
                dir.join(format!("file-{}", commit % 23)),
                format!("{commit}\n").repeat(1 + 97 * commit as usize % 3000),
            )?;
            if commit % 10 == 9 {
                let gone = format!("dir-{}/file-{}", (commit - 3) % 7, (commit - 3) % 23);
                self.run(repository, &["rm", "-q", "--ignore-unmatch", "--", &gone])?;
            }
            self.run(repository, &["add", "-A"])?;
            let message = format!("commit {commit}");
            self.run(repository, &["commit", "-q", "-m", &message])?;
        }
        Ok(())
    }
}

#[test]
fn a_repository_is_made_cloned_and_packed() -> Result<()> {
    if !can_run(&["git"]) {
        return Ok(());
    }
    let commits = env_number("UEXT4_GIT_COMMITS", 20);
    let files = tempfile::tempdir()?;
    let config = files.path().join("config");
    fs::write(&config, CONFIG)?;
    let git = Git { config: &config };
    on_each_transport("", |mount| {
        let dir = mount.dir();
        let made = dir.join("made");
        git.run(dir, &["init", "-q", "made"])?;
        git.commit_many(&made, commits)?;
        git.verify(&made)?;
        // Objects are linked, or copied through a pack.
        git.run(dir, &["clone", "-q", "made", "linked"])?;
        let url = format!("file://{}", made.display());
        git.run(dir, &["clone", "-q", &url, "packed"])?;
        git.run(&made, &["gc", "-q", "--aggressive", "--prune=now"])?;
        for name in ["made", "linked", "packed"] {
            git.verify(&dir.join(name))?;
        }
        mount.remount()?;
        let dir = mount.dir();
        let heads = ["made", "linked", "packed"]
            .map(|name| git.run(&dir.join(name), &["rev-parse", "HEAD"]));
        let [made, linked, packed] = heads;
        let made = made?;
        ensure!(made == linked? && made == packed?, "another head");
        let count = git.run(&dir.join("made"), &["rev-list", "--count", "HEAD"])?;
        ensure!(count.trim() == commits.to_string(), "{count} commits");
        for name in ["made", "linked", "packed"] {
            git.verify(&dir.join(name))?;
        }
        Ok(())
    })
}

#[test]
fn the_project_is_cloned() -> Result<()> {
    if !can_run(&["git"]) {
        return Ok(());
    }
    let project = workspace()?;
    if !project.join(".git").exists() {
        eprintln!("skipped: {} is not a checkout", project.display());
        return Ok(());
    }
    let files = tempfile::tempdir()?;
    let config = files.path().join("config");
    fs::write(&config, CONFIG)?;
    let git = Git { config: &config };
    on_each_transport("", |mount| {
        let url = format!("file://{}", project.display());
        git.run(mount.dir(), &["clone", "-q", &url, "project"])?;
        git.verify(&mount.dir().join("project"))?;
        git.run(&mount.dir().join("project"), &["gc", "-q"])?;
        mount.remount()?;
        git.verify(&mount.dir().join("project"))
    })
}
