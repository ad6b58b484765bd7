//! How often stamps of `bits` bits repeat, measured.

use super::arithmetic::Placement;
use super::{HOLD, INODES};
use crate::workers;
use serde::Serialize;
use uext4_ext4::GenerationVariant;
use uext4_ext4::generation::Generator;
use uext4_ondisk::Generation;
use uext4_sync::percpu;

/// A thread looks where it runs after so many draws.
const CPU_CHECK: u64 = 1024;
/// Draws that the search for the first repeat may take, all trials together.
const FIRST_REPEAT_DRAWS: f64 = 4e6;

/// What was counted.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Measured {
    /// Reuses of each experiment, all threads together.
    pub reuses: u64,
    /// Reuses of one inode that drew the stamp of the use just before.
    pub back_to_back: u64,
    /// The share of all pairs of uses of one inode that have the same stamp: that a handle of a random
    /// earlier use is accepted.
    pub earlier_handle: f64,
    /// In a population, the share of reuses after which a handle held was accepted.
    pub stale_handle: f64,
    /// Draws until a stamp came again, the mean over trials.
    pub first_repeat: f64,
}

/// All experiments with one variant and width.
pub fn measure(
    variant: GenerationVariant,
    bits: u32,
    reuses: u64,
    threads: usize,
) -> anyhow::Result<(Measured, Placement)> {
    let each = (reuses / threads as u64).max(2);
    let own = workers::run(threads, None, |_, _| Ok(reuse_one(variant, bits, each)))?.results;
    let mean = |f: fn(&OneInode) -> f64| own.iter().map(f).sum::<f64>() / threads as f64;
    let generator = Generator::with_width(variant, bits);
    let crowd = workers::run(threads, None, |thread, _| {
        Ok(reuse_many(&generator, thread, threads, each))
    })?;
    let accepted: u64 = crowd.results.iter().sum();
    let measured = Measured {
        reuses: each * threads as u64,
        back_to_back: own.iter().map(|one| one.back_to_back).sum(),
        earlier_handle: mean(|one| one.equal_pairs),
        stale_handle: accepted as f64 / (each * threads as u64) as f64,
        first_repeat: first_repeat(variant, bits),
    };
    let placement = Placement {
        same_cpu: mean(|one| one.same_cpu),
        ..undisturbed(threads)
    };
    Ok((measured, placement))
}

/// Every thread on a CPU of its own, where it stays.
pub fn undisturbed(threads: usize) -> Placement {
    Placement {
        cpus: percpu::cpu_shards(),
        threads,
        same_cpu: 1.0,
    }
}

/// What reusing one inode gave.
struct OneInode {
    back_to_back: u64,
    equal_pairs: f64,
    /// The chance that two draws were on the same CPU.
    same_cpu: f64,
}

/// Reuses one inode of a file system of its own: no other thread draws.
fn reuse_one(variant: GenerationVariant, bits: u32, reuses: u64) -> OneInode {
    let generator = Generator::with_width(variant, bits);
    let mut counts = vec![0u64; 1 << bits];
    let mut on_cpu = vec![0u64; percpu::cpu_shards()];
    let cpu_mask = on_cpu.len() - 1;
    let mut back_to_back = 0;
    let mut last = generator.draw(None);
    counts[last.0 as usize] += 1;
    for i in 0..reuses {
        if i % CPU_CHECK == 0 {
            on_cpu[percpu::cpu() & cpu_mask] += 1;
        }
        let drawn = generator.draw(Some(last));
        back_to_back += u64::from(drawn == last);
        counts[drawn.0 as usize] += 1;
        last = drawn;
    }
    let looks = on_cpu.iter().sum::<u64>().max(1) as f64;
    let same_cpu = on_cpu.iter().map(|&n| (n as f64 / looks).powi(2)).sum();
    let pairs = |n: f64| n * (n - 1.0) / 2.0;
    let equal: f64 = counts.iter().map(|&n| pairs(n as f64)).sum();
    OneInode {
        back_to_back,
        equal_pairs: equal / pairs(reuses as f64 + 1.0),
        same_cpu,
    }
}

/// An inode of the population.
#[derive(Clone, Copy)]
struct Reused {
    stamp: Generation,
    held: Generation,
}

/// Reuses this thread's share of the inodes at random; gives how often a handle was accepted after a
/// reuse. For every inode one handle is held; after each reuse it is, by a chance of one in [`HOLD`],
/// released and the present one taken.
fn reuse_many(generator: &Generator, thread: usize, threads: usize, reuses: u64) -> u64 {
    let mut rng = fastrand::Rng::with_seed(thread as u64);
    let inodes = (INODES / threads).max(1);
    let mut share: Vec<Reused> = (0..inodes)
        .map(|_| {
            let stamp = generator.draw(None);
            Reused { stamp, held: stamp }
        })
        .collect();
    let mut reuse = |times: u64| {
        let mut accepted = 0;
        for _ in 0..times {
            let inode = &mut share[rng.usize(..inodes)];
            inode.stamp = generator.draw(Some(inode.stamp));
            accepted += u64::from(inode.stamp == inode.held);
            if rng.u64(..HOLD) == 0 {
                inode.held = inode.stamp;
            }
        }
        accepted
    };
    // Until the handles are as old as they get.
    reuse(inodes as u64 * HOLD);
    reuse(reuses)
}

/// Draws of a new file system until a stamp comes again, the mean.
fn first_repeat(variant: GenerationVariant, bits: u32) -> f64 {
    let most = f64::from(1u32 << bits);
    let each = match variant {
        GenerationVariant::Random | GenerationVariant::RandomPrng | GenerationVariant::Beyond => {
            1.3 * most.sqrt()
        }
        GenerationVariant::Increment | GenerationVariant::None => 2.0,
        _ => most,
    };
    let trials = (FIRST_REPEAT_DRAWS / each).clamp(4.0, 2000.0) as u32;
    let mut seen = vec![u32::MAX; 1 << bits];
    let mut draws = 0u64;
    for trial in 0..trials {
        let generator = Generator::with_width(variant, bits);
        loop {
            draws += 1;
            let stamp = &mut seen[generator.draw(None).0 as usize];
            if *stamp == trial {
                break;
            }
            *stamp = trial;
        }
    }
    draws as f64 / f64::from(trials)
}
