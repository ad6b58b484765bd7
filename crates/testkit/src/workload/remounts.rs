//! A worker on a device that is mounted again and again.

use super::{Habits, Worker};
use crate::external::*;
use crate::image::{Shape, mount_in};
use crate::operation::{Op, apply};
use crate::oracle;

/// Random operations on a device that has an image of this shape, which is mounted four times and each time compared with the model,
/// verified and checked by e2fsck.
///
/// # Errors
/// What differs.
pub fn remounts_on(device: Arc<dyn BlockDevice>, seed: u64, shape: Shape) -> Result<()> {
    let mut model = None;
    for round in 0..4 {
        let modes = [None, Some(DataMode::Journal), Some(DataMode::Writeback)];
        let data = modes[((seed + round) % 3) as usize];
        let fs = mount_in(Arc::clone(&device), seed ^ round, data)?;
        let habits = Habits::of(&shape);
        let mut worker = match model.take() {
            Some(model) => Worker::resume(&fs, "t0", seed ^ round, habits, model),
            None => {
                let shared = Op::Mkdir {
                    path: b"shared".to_vec(),
                    mode: 0o755,
                };
                apply(&*fs, &shared)?;
                Worker::new(&fs, "t0", seed, habits)?
            }
        };
        for step in 0..150 {
            worker
                .step()
                .with_context(|| format!("round {round}, step {step}"))?;
        }
        worker.compare().with_context(|| format!("round {round}"))?;
        worker.close();
        model = Some(worker.model.clone());
        drop(worker);
        fs.unmount()?;
        drop(fs);
        let device = MemoryDevice::copy_of(&*device)?;
        let is_clean = oracle::check(&device).and_then(|()| oracle::fsck_device(&device));
        is_clean.with_context(|| format!("round {round}"))?;
    }
    Ok(())
}
