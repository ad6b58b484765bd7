//! Hosts that lose their power in the middle of what they do to a file system on a server, and others that take over. `UEXT4_TAKEOVERS` sets
//! how often.
//!
//! The host is a process that kills itself at a request: all that it had not sent is gone, and the server keeps what it had accepted. A
//! server of NBD with a cache loses its power as well, every other time. The operations follow from the seed alone, so that this process
//! knows the states that may be found: it does the same in memory.

use rustix::process::Signal;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::stdout;
#[cfg(any(feature = "rbd", feature = "s3"))]
use uext4_testkit::ceph::is_client;
use uext4_testkit::ceph::{Peer, role};
use uext4_testkit::device::{Moment, PowerCut, lose_power};
use uext4_testkit::image::{mount, mount_in};
use uext4_testkit::model::Model;
use uext4_testkit::prelude::*;
use uext4_testkit::remote_image::{RemoteImage, Server};
use uext4_testkit::verdict::{Guarantee, History};

/// What the process is that loses its power.
const HOST: &str = "remote_crashes::remote_host";
/// What it prints before the digest of an operation that has returned.
const DONE: &str = "done ";
/// The worker, and its directory.
const NAME: &str = "t0";

fn shape_of(seed: u64) -> Shape {
    Shape::ALL[(seed % Shape::ALL.len() as u64) as usize]
}

fn dirs() -> [Op; 2] {
    ["shared", NAME].map(|path| Op::Mkdir {
        path: path.into(),
        mode: 0o755,
    })
}

/// The image that a host begins with.
fn base(shape: &Shape) -> Result<MemoryDevice> {
    let device = Arc::new(shape.make()?);
    let fs = mount(Arc::clone(&device) as Arc<_>)?;
    for dir in dirs() {
        apply(&*fs, &dir)?;
    }
    fs.unmount()?;
    drop(fs);
    Ok(MemoryDevice::clone(&device))
}

/// What a host does to it.
fn work(
    device: Arc<dyn BlockDevice>,
    seed: u64,
    mut done: impl FnMut(&Op, Option<Guarantee>, &Model),
) -> Result<()> {
    let fs = mount_in(device, seed, None)?;
    let mut model = Model::new();
    for dir in dirs() {
        model.apply(&dir).map_err(|e| anyhow!("model: {e}"))?;
    }
    let habits = Habits {
        sync_percent: 20,
        ..Habits::of(&shape_of(seed))
    };
    let mut worker = Worker::resume(&fs, NAME, seed, habits, model);
    for _ in 0..20 + seed * 7 % 60 {
        let (op, guarantee) = worker.step()?;
        done(&op, guarantee, &worker.model);
    }
    drop(worker);
    Ok(fs.unmount()?)
}

fn digest(op: &Op) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{op:?}").hash(&mut hasher);
    hasher.finish()
}

/// The operations of a seed, and what each left.
struct Expected {
    first: Model,
    steps: Vec<(Op, Option<Guarantee>, Model)>,
    /// How many requests the device had.
    requests: u64,
}

impl Expected {
    fn of(base: &MemoryDevice, seed: u64) -> Result<Expected> {
        let device = Arc::new(PowerCut::never(base.clone()));
        let mut first = Model::new();
        for dir in dirs() {
            first.apply(&dir).map_err(|e| anyhow!("model: {e}"))?;
        }
        let mut steps = Vec::new();
        work(
            Arc::clone(&device) as Arc<_>,
            seed,
            |op, guarantee, model| {
                steps.push((op.clone(), guarantee, model.clone()));
            },
        )?;
        Ok(Expected {
            first,
            steps,
            requests: device.requests(),
        })
    }

    /// Judges what is found if so many operations had returned, and the next one may have been under way.
    fn judge(&self, returned: usize, found: &Tree) -> Result<()> {
        let mut history = History {
            name: NAME.to_owned(),
            states: vec![self.first.clone()],
            changes: Vec::new(),
        };
        for (op, _, model) in self.steps.iter().take(returned + 1) {
            if history.states.last().map(|last| last.step) < Some(model.step) {
                history.states.push(model.clone());
                history.changes.push(op.clone());
            }
        }
        let returned = self.steps[..returned].iter();
        let guarantees: Vec<_> = returned
            .filter_map(|(_, guarantee, _)| *guarantee)
            .collect();
        history
            .judge(found, &guarantees)
            .map_err(|why| anyhow!(why))
    }
}

/// When a host loses its power, as one argument.
fn moment(kind: u64, time_us: u64) -> Moment {
    match kind {
        0 => Moment::Before,
        1 => Moment::After,
        _ => Moment::Within(Duration::from_micros(time_us)),
    }
}

/// A host whose role is `NAME SEED REQUEST MOMENT TIME IGNORES_FLUSHES`.
#[test]
#[ignore = "is a host that other tests start"]
fn remote_host() {
    let Some(role) = role() else { return };
    let mut words = role.rsplit(' ');
    let mut number = || words.next().unwrap().parse::<u64>().unwrap();
    let (ignores, time_us, kind, request, seed) =
        (number(), number(), number(), number(), number());
    let name = words.next().unwrap();
    let device = open_image(Path::new(name), &OpenOptions::read_write()).unwrap();
    let device = PowerCut::at(device, request, moment(kind, time_us));
    let device = Arc::new(device.ignoring_flushes(ignores == 1));
    work(device, seed, |op, _, _| {
        // One write: a line is there, or it is not.
        let line = format!("{DONE}{:x}\n", digest(op));
        stdout().write_all(line.as_bytes()).unwrap();
    })
    .unwrap();
    lose_power();
}

/// What may go wrong besides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    IgnoredFlushes,
}

/// One loss of power, and what another host finds.
fn crash_point(
    image: &mut RemoteImage,
    base: &MemoryDevice,
    seed: u64,
    planted: Planted,
) -> Result<()> {
    let expected = Expected::of(base, seed)?;
    image.put(base).context("the image before")?;
    let mut rng = Rng::with_seed(!seed);
    let request = rng.u64(1..=expected.requests);
    let within_max = 1 << rng.u32(6..15);
    let within = rng.u64(..within_max);
    let ignores = u8::from(planted == Planted::IgnoredFlushes);
    let role = format!(
        "{} {seed} {request} {} {within} {ignores}",
        image.name(),
        rng.u8(..4)
    );
    let mut host = Peer::start(HOST, &role);
    let mut returned = 0;
    while let Some(line) = host.line(DONE) {
        let same = format!("{:x}", digest(&expected.steps[returned].0)) == line;
        ensure!(same, "the host did something else in step {returned}");
        returned += 1;
    }
    let end = host.end();
    ensure!(
        end.signal() == Some(Signal::KILL.as_raw()),
        "the host: {end}"
    );
    if seed.is_multiple_of(2) {
        image.lose_server();
    }
    image.take_over().context("the takeover")?;
    let device = image.open(&OpenOptions::read_write())?;
    let fs = mount(Arc::clone(&device)).context("recovery by the other host")?;
    expected
        .judge(returned, &tree::of_fs(&*fs)?)
        .with_context(|| format!("power lost at request {request}, {returned} operations"))?;
    fs.unmount()?;
    drop(fs);
    oracle::check(&*device)?;
    drop(device);
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("export");
    image.export(&file)?;
    oracle::fsck(&file)
}

fn crash_points(server: Server) {
    let bases = Shape::ALL.map(|shape| base(&shape).expect("an image"));
    let bytes = bases.iter().map(BlockDevice::len).max().unwrap();
    let rounds = env_number("UEXT4_TAKEOVERS", 8);
    let mut image = require!(some RemoteImage::new(server, bytes).unwrap());
    let first = env_number("UEXT4_CRASH_SEED", 0);
    for seed in first..first + rounds {
        let base = &bases[seed as usize % bases.len()];
        crash_point(&mut image, base, seed, Planted::Nothing)
            .unwrap_or_else(|e| panic!("{server:?}, seed {seed}: {e:#}"));
    }
    println!("{rounds} losses of power with an image on {server:?}");
}

#[test]
#[ignore = "takes long; make test-remote runs it"]
fn remote_nbd_over_tcp() {
    crash_points(Server::NbdTcp);
}

#[test]
#[ignore = "takes long; make test-remote runs it"]
fn remote_nbd_over_a_socket() {
    crash_points(Server::NbdSocket);
}

#[cfg(feature = "rbd")]
#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn remote_rbd() {
    require!(is_client("remote_crashes::remote_rbd"));
    crash_points(Server::Rbd);
}

#[cfg(feature = "s3")]
#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn remote_s3() {
    require!(is_client("remote_crashes::remote_s3"));
    crash_points(Server::S3);
}

/// A host that flushes nothing, and a server that loses its cache.
#[test]
#[ignore = "takes long; make test-remote runs it"]
fn remote_canary_ignored_flushes_are_caught() {
    let shape = shape_of(0);
    let base = base(&shape).expect("an image");
    let mut image = require!(some RemoteImage::new(Server::NbdTcp, base.len()).unwrap());
    // Seeds of this shape with which the server loses its power.
    let mut seeds = (0..40).step_by(2 * Shape::ALL.len());
    let is_caught =
        seeds.any(|seed| crash_point(&mut image, &base, seed, Planted::IgnoredFlushes).is_err());
    assert!(is_caught, "ignored flushes went unnoticed");
}
