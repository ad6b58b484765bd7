//! What e2fsck and the kernel say of a sample of states.

use super::base::BLOCK;
use super::recovery::{Recovered, save};
use super::tally::Tally;
use crate::device::{ForkDevice, Image};
use crate::external::*;
use crate::tree::Tree;
use crate::{image, oracle, tree};
use std::sync::Mutex;

/// Of how many states e2fsck is asked about one.
const FSCK_ONE_IN: u64 = 100;

/// Of how many states the kernel is asked about one.
const KERNEL_ONE_IN: u64 = 4000;

/// Which others are to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// e2fsck.
    Fsck,
    /// e2fsck and the kernel.
    Both,
}

/// Asks them; one for each thread.
#[derive(Debug)]
pub struct Others {
    dir: TempDir,
    kernel: bool,
    shapes: Arc<Mutex<HashSet<u64>>>,
}

impl Others {
    /// Those of a thread; `shapes` are those of trees that e2fsck has seen, `kernel`: whether it mounts images.
    pub fn new(shapes: Arc<Mutex<HashSet<u64>>>, kernel: bool) -> Result<Others> {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
        Ok(Others {
            dir,
            kernel,
            shapes,
        })
    }

    /// Everything there is, of a state that is checked alone.
    pub fn all(&self) -> Option<Ask> {
        Some(match self.kernel {
            true => Ask::Both,
            false => Ask::Fsck,
        })
    }

    /// Whether this state is in the sample.
    pub fn wants(&self, state: &ForkDevice) -> Option<Ask> {
        // Neither repairs a superblock whose write was torn from the journal, as we do.
        let hash = state.hash();
        if !hash.is_multiple_of(FSCK_ONE_IN) || read_superblock(state).is_err() {
            return None;
        }
        match self.kernel && hash.is_multiple_of(KERNEL_ONE_IN) {
            true => Some(Ask::Both),
            false => Some(Ask::Fsck),
        }
    }

    /// Whether no tree had this shape before.
    pub fn is_new_shape(&self, recovered: &Recovered) -> bool {
        let mut shapes = self.shapes.lock().unwrap_or_else(|e| e.into_inner());
        shapes.insert(recovered.shape)
    }

    fn file(&self, image: &Image) -> Result<PathBuf> {
        let path = self.dir.path().join("image");
        save(image, &path)?;
        Ok(path)
    }

    fn load(&self) -> Result<ForkDevice> {
        let bytes = std::fs::read(self.dir.path().join("image"))?;
        Ok(ForkDevice::new(Image::new(&bytes, BLOCK)))
    }

    /// e2fsck finds nothing after our recovery.
    pub fn fsck_recovered(&self, recovered: &Recovered) -> Result<Tally> {
        oracle::fsck(&self.file(&recovered.after.freeze())?)
            .context("e2fsck after our recovery")?;
        Ok(Tally {
            fsck: 1,
            ..Tally::default()
        })
    }

    /// Lets e2fsck repair a state; gives also what it said.
    pub fn repair(&self, state: &ForkDevice) -> Result<(ForkDevice, String)> {
        let said = oracle::repair(&self.file(&state.freeze())?).context("e2fsck -fy")?;
        Ok((self.load()?, said))
    }

    /// Keeps the image of a state, for a message.
    fn keep(&self, state: &ForkDevice) -> Result<String> {
        let kept = tempfile::Builder::new().prefix("state-").tempfile()?;
        save(&state.freeze(), kept.path())?;
        Ok(kept.into_temp_path().keep()?.display().to_string())
    }

    /// The recovery of others leaves the same tree as ours; the kernel's may leave another that is allowed, as
    /// since Linux 6.5 it takes a commit block whose first sector alone was written.
    pub fn ask(
        &self,
        state: &ForkDevice,
        recovered: &Recovered,
        ask: Ask,
        is_allowed: &dyn Fn(&Tree) -> Result<()>,
    ) -> Result<Tally> {
        let mut tally = Tally::default();
        let (repaired, said) = self.repair(state)?;
        tally.fsck += 1;
        let fs = image::mount(Arc::new(repaired) as Arc<_>).context("after e2fsck")?;
        let mut theirs = tree::of_fs(&*fs)?;
        fs.unmount()?;
        oracle::restore_attributes(&said, &recovered.tree, &mut theirs);
        if let Some(difference) = tree::difference(&recovered.tree, &theirs) {
            let kept = self.keep(state)?;
            bail!("our recovery / e2fsck's: {difference}; kept as {kept}; {said}");
        }
        if ask == Ask::Both {
            let path = self.file(&state.freeze())?;
            let mount = oracle::KernelMount::new(&path, &self.dir.path().join("mount"), "rw")?;
            let kernel = tree::of_dir(mount.dir());
            mount.unmount()?;
            let kernel = kernel?;
            if let Some(difference) = tree::difference(&recovered.tree, &kernel) {
                is_allowed(&kernel)
                    .with_context(|| format!("our recovery / the kernel's: {difference}"))?;
            }
            oracle::fsck(&path).context("e2fsck after the kernel")?;
            tally.kernel += 1;
        }
        Ok(tally)
    }
}
