//! The lives of one seed.

use super::life::{Ending, Life, Past, worker_name};
use super::plan::Plan;
use super::scheduler::SeededScheduler;
use super::tally::Tally;
use crate::external::*;
use crate::image::Shape;
use crate::model::Model;
use crate::operation::{Op, apply};
use std::sync::{Mutex, OnceLock, PoisonError};
use uext4_sync::clock;

/// Far more than the frames of the engine need.
const STACK_BYTES: usize = 1 << 20;

/// Far beyond what a run takes that ends.
const STEPS_MAX: usize = 100_000_000;

/// When images were made, in seconds since 1970.
const TIME: u64 = 1_700_000_000;

/// The most workers.
pub const THREADS_MAX: usize = 4;

const fn small(name: &'static str, features: &'static str) -> Shape {
    Shape {
        name,
        bytes: 8 << 20,
        features,
        block_size: 1024,
        journal_bytes: Some(1 << 20),
        inodes: Some(1024),
        ..Shape::DEFAULT
    }
}

/// The images to begin with: small, so that logs wrap, groups are two or more, and copies are quick.
const SHAPES: [Shape; 5] = [
    small("blocks of 1 KiB", ""),
    Shape {
        bytes: 20 << 20,
        ..small("three groups", "")
    },
    small("without an orphan file", "^orphan_file"),
    small(
        "without checksums",
        "^metadata_csum,^metadata_csum_seed,^orphan_file",
    ),
    Shape {
        bytes: 24 << 20,
        block_size: 4096,
        journal_bytes: Some(4 << 20),
        ..small("blocks of 4 KiB", "")
    },
];

/// Runs `scenario` as the first task of an execution whose schedule `seed` decides.
fn execute<T: Send + 'static>(
    seed: u64,
    scenario: impl Fn() -> Result<T> + Send + Sync + 'static,
) -> Result<T> {
    let mut config = shuttle::Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = shuttle::MaxSteps::FailAfter(STEPS_MAX);
    config.failure_persistence = shuttle::FailurePersistence::None;
    config.silence_warnings = true;
    let done = Arc::new(Mutex::new(None));
    let out = Arc::clone(&done);
    // What the engine draws from generators of the thread.
    fastrand::seed(seed);
    shuttle::Runner::new(SeededScheduler::new(seed), config).run(move || {
        let result = scenario();
        *out.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    });
    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
    done.take().context("the execution ended early")?
}

/// The image that lives of a shape begin with, which has the directories of workers.
fn image(shape: usize) -> Result<Arc<Vec<u8>>> {
    static IMAGES: [OnceLock<Arc<Vec<u8>>>; SHAPES.len()] = [const { OnceLock::new() }; _];
    if let Some(made) = IMAGES[shape].get() {
        return Ok(Arc::clone(made));
    }
    let made = execute(0, move || {
        // The thread's clock shows what an earlier seed left.
        clock::set(Duration::from_secs(TIME));
        let device = Arc::new(SHAPES[shape].make_as(Some(TIME as i64))?);
        let fs = crate::image::mount(Arc::clone(&device) as Arc<_>)?;
        let names = (0..THREADS_MAX).map(worker_name);
        for path in names.chain(["shared".to_owned(), "contested".to_owned()]) {
            let path = path.into_bytes();
            apply(&*fs, &Op::Mkdir { path, mode: 0o755 })?;
        }
        fs.unmount()?;
        drop(fs);
        Ok(device.snapshot())
    })?;
    Ok(Arc::clone(IMAGES[shape].get_or_init(|| Arc::new(made))))
}

/// What such an image holds, as its worker knows it.
fn first_model(index: usize) -> Result<Model> {
    let mut model = Model::new();
    for path in ["shared".to_owned(), worker_name(index)] {
        let path = path.into_bytes();
        let made = model.apply(&Op::Mkdir { path, mode: 0o755 });
        made.map_err(|e| anyhow!("model: {e}"))?;
    }
    Ok(model)
}

/// Simulates what a plan says. An error says which life failed, and how.
pub fn run(plan: &Plan) -> Result<Tally> {
    let shape = Rng::with_seed(!plan.seed).usize(..SHAPES.len());
    let image = image(shape)?;
    let copy = plan.clone();
    execute(plan.schedule, move || lives(&copy, shape, &image))
        .with_context(|| format!("seed {}, {}", plan.seed, SHAPES[shape].name))
}

fn lives(plan: &Plan, shape: usize, image: &[u8]) -> Result<Tally> {
    clock::set(Duration::from_secs(TIME));
    let mut tally = Tally::default();
    let models: Result<Vec<Model>> = (0..plan.threads).map(first_model).collect();
    let mut past = Past {
        image: image.to_vec(),
        models: models?,
        done: Vec::new(),
        ending: Ending::Unmount,
    };
    let mut number = 0;
    while tally.attempted < plan.operations as u64 && number < plan.lives {
        let life = Life::new(plan, &SHAPES[shape], number);
        past = life
            .live(past, &mut tally)
            .with_context(|| format!("life {number}"))?;
        tally.note_image(&past.image);
        number += 1;
    }
    // What the last one left.
    let life = Life::new(plan, &SHAPES[shape], number);
    life.examine(past, &mut tally)
        .with_context(|| format!("after life {number}"))?;
    tally.seconds = clock::since_epoch().as_secs().saturating_sub(TIME);
    Ok(tally)
}
