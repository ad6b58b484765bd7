//! Namespaces by the ten thousand, made, used by two threads each and dropped, in every variant: no message is
//! lost or comes twice, and at the end there is no namespace, no charge and no more memory than before.
//!
//! `UEXT4_SOAK_SECONDS` says for how long in all, `UEXT4_SOAK_NAMESPACES` how many are alive at a time;
//! `make soak` has 300 and 10,000.
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use uext4_mqueue::{
    Accounts, Description, IpcNamespace, Limits, MqFile, MqOpen, MqueueType, NamespaceId, Wait,
};
use uext4_testkit::prelude::*;
use uext4_vfs::SuperVariant;

/// Two threads each: one makes a namespace, the other mounts it too.
const PAIRS: usize = 8;
/// Queues of a namespace; half of them carry messages one way, half the other.
const QUEUES: u64 = 10;
/// Messages through each; more than fit.
const MESSAGES: u64 = 6;
const SIZE: Option<(i64, i64)> = Some((4, 8));
/// How many it takes at least for what each leaves behind to be seen.
const NAMESPACES_MIN: u64 = 30_000;
/// How far the memory of a process that has let everything go may differ: a few bytes for each namespace
/// would be more.
const NOISE_BYTES: u64 = 64 << 10;

/// Counts what is allocated. Resident memory would differ by megabytes from run to run, as what is left of
/// a heap depends on the order of the threads.
struct Counting;

static ALLOCATED_BYTES: AtomicU64 = AtomicU64::new(0);

// SAFETY: forwards each call unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED_BYTES.fetch_add(layout.size() as u64, Relaxed);
        // SAFETY: the caller's guarantee.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALLOCATED_BYTES.fetch_sub(layout.size() as u64, Relaxed);
        // SAFETY: the caller's guarantee.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn number(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.map_or(default, |text| text.parse().expect("a number"))
}

/// What each side keeps of a namespace: its mount, and with it some queues that are open.
type Kept = VecDeque<(IpcNamespace, Vec<Arc<Description>>)>;

/// The name of a queue, with the number of its maker so that no two namespaces have the same ones.
fn name(made: u64, queue: u64) -> Vec<u8> {
    format!("/{made:x}.{queue}").into_bytes()
}

fn open(fs: &IpcNamespace, caller: &Caller, made: u64, queue: u64) -> Arc<Description> {
    // Every other one is there already; the rest is made by the first user.
    let how = MqOpen::READ | MqOpen::WRITE | MqOpen::CREATE;
    let opened = fs.open(caller, &name(made, queue), how, 0o600, SIZE);
    opened.expect("opens")
}

fn send_all(queue: &Description, first: u64) {
    for n in first..first + MESSAGES {
        let sent = queue.send(&n.to_le_bytes(), 3, &Wait::default());
        sent.expect("sends");
    }
}

fn receive_all(queue: &Description, first: u64) {
    let mut buffer = [0; 8192];
    for want in first..first + MESSAGES {
        let got = queue.receive(&mut buffer, &Wait::default());
        assert_eq!(got.expect("receives").len, 8);
        let got = u64::from_le_bytes(buffer[..8].try_into().expect("eight bytes"));
        assert_eq!(got, want, "none is lost, none comes twice");
    }
    assert_eq!(queue.getattr().curmsgs, 0);
}

/// One side's part with the queues of a namespace.
fn exchange(fs: &IpcNamespace, caller: &Caller, made: u64, makes: bool) -> Vec<Arc<Description>> {
    let open = |i| open(fs, caller, made, i);
    let queues: Vec<_> = (0..QUEUES).map(open).collect();
    let (there, back) = queues.split_at(queues.len() / 2);
    let first = |i: usize| made << 8 | (i as u64) << 4;
    for (i, queue) in there.iter().enumerate() {
        if makes {
            send_all(queue, first(i));
        } else {
            receive_all(queue, first(i));
        }
    }
    for (i, queue) in back.iter().enumerate() {
        if makes {
            receive_all(queue, first(i));
        } else {
            send_all(queue, first(i));
        }
    }
    queues
}

/// Keeps it, and no more than `max`.
fn keep(kept: &mut Kept, max: usize, fs: IpcNamespace, mut open: Vec<Arc<Description>>) {
    open.truncate(open.len() / 4);
    kept.push_back((fs, open));
    while kept.len() > max {
        kept.pop_front();
    }
}

struct Run<'a> {
    queues: &'a MqueueType,
    /// How many namespaces are alive at a time, for each pair.
    alive: usize,
    until: Instant,
    made: &'a AtomicU64,
    made_min: u64,
}

impl Run<'_> {
    fn make(&self, caller: &Caller, partner: &SyncSender<(NamespaceId, u64)>) {
        let mut kept = Kept::new();
        let mut limits = Limits::default();
        (limits.user_bytes_max, limits.queues_max) = (u64::MAX, 10);
        while Instant::now() < self.until || self.made.load(Relaxed) < self.made_min {
            let made = self.made.fetch_add(1, Relaxed);
            let fs = self.queues.create(limits);
            for queue in (0..QUEUES).step_by(2) {
                // The file system makes queues of the default size; these few are not sent to.
                let name = &name(made, queue)[1..];
                let new = NewNode {
                    mode: 0o600,
                    kind: NewKind::Regular,
                };
                fs.create(caller, &MqFile::Root, name, &new)
                    .expect("makes it");
            }
            partner.send((fs.id(), made)).expect("listens");
            let open = exchange(&fs, caller, made, true);
            keep(&mut kept, self.alive, fs, open);
        }
    }

    fn mount(&self, caller: &Caller, maker: &Receiver<(NamespaceId, u64)>) {
        let mut kept = Kept::new();
        for (id, made) in maker {
            let fs = self.queues.mount(id).expect("is there");
            let open = exchange(&fs, caller, made, false);
            assert_eq!((fs.names().len(), fs.queues()), (10, 10));
            // So that now the one side is the last, now the other.
            let max = if made % 1000 < 500 {
                self.alive / 2
            } else {
                self.alive
            };
            keep(&mut kept, max, fs, open);
        }
    }
}

/// Runs a variant, and gives how many namespaces there were.
fn run(variant: SuperVariant, alive: u64, seconds: Duration, made_min: u64) -> u64 {
    let accounts = Accounts::new();
    let queues = MqueueType::with_accounts(variant, Arc::clone(&accounts));
    let made = AtomicU64::new(0);
    let run = Run {
        queues: &queues,
        alive: (alive as usize).div_ceil(PAIRS),
        until: Instant::now() + seconds,
        made: &made,
        made_min,
    };
    std::thread::scope(|s| {
        for pair in 0..PAIRS {
            let user = u32::try_from(pair).expect("few");
            let caller = [user, user].map(|uid| Caller::user(uid, uid));
            // The partner mounts it while it is sure to be alive.
            let (to, from) = sync_channel(1);
            let [maker, mounter] = caller;
            let run = &run;
            s.spawn(move || run.make(&maker, &to));
            s.spawn(move || run.mount(&mounter, &from));
        }
    });
    assert_eq!(queues.namespaces(), 0, "{variant}");
    for pair in 0..PAIRS {
        assert_eq!(accounts.bytes_of(pair as u32), 0, "{variant}");
    }
    made.into_inner()
}

#[test]
fn soak() {
    // The partner of a thread that panics would wait forever.
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
    let seconds = Duration::from_secs(number("UEXT4_SOAK_SECONDS", 3));
    let alive = number("UEXT4_SOAK_NAMESPACES", 500);
    let variants = SuperVariant::ALL.len() as u32;
    // What is made once and kept.
    for variant in SuperVariant::ALL {
        run(variant, alive, Duration::ZERO, 2 * alive);
    }
    let before = ALLOCATED_BYTES.load(Relaxed);
    let mut made = 0;
    for variant in SuperVariant::ALL {
        let some = run(
            variant,
            alive,
            seconds / variants,
            NAMESPACES_MIN / u64::from(variants),
        );
        eprintln!(
            "{variant}: {some} namespaces, {} bytes allocated",
            ALLOCATED_BYTES.load(Relaxed)
        );
        made += some;
    }
    let after = ALLOCATED_BYTES.load(Relaxed);
    eprintln!("{made} namespaces, {alive} at a time: {before} bytes, then {after}");
    assert!(after < before + NOISE_BYTES, "{before} bytes, then {after}");
}
