//! Message queues and namespaces: the initial state, the calls of each CPU, and which of them commute.
//!
//! A CPU has a namespace of its own and shares another, which a third CPU made, with all. In both it has queues of its own;
//! one queue they share. All CPUs are charged as one user.

use super::cpu::Cpu;
use super::pairs::Kind;
use super::recorded::Recorded;
use crate::aligned::AlignedBuf;
use anyhow::{Context as _, Result};
use std::sync::{Arc, Mutex, PoisonError};
use uext4_mqueue::{Description, IpcNamespace, Limits, MqOpen, MqueueType, Wait};
use uext4_vfs::{Caller, SuperVariant};

/// The user of all queues, and its limit, of which all CPUs together use little.
const USER: Caller = Caller::user(1000, 1000);
const USER_BYTES_MAX: u64 = 1 << 30;
/// Most messages and longest message of a queue.
const SIZE: (i64, i64) = (10, 64);
/// Bytes of a message.
const MESSAGE: [u8; 32] = [7; 32];
/// Messages that are in each queue, of a priority above those that are sent.
const MESSAGES: usize = 2;
const PRIORITY: u32 = 9;
/// How often a CPU does its calls before.
const WARM_UP: usize = 3;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    CreateNamespace,
    DropNamespace,
    /// mq_open(3) of a queue that is made.
    Create,
    Unlink,
    /// mq_open(3) and mq_close(3) of a queue that is there.
    Open,
    Send,
    Receive,
}

/// What the two calls of a case have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Nothing: each in its own namespace.
    Own,
    /// The namespace.
    Namespace,
    /// The queue.
    Queue,
}

/// A call on queue `name`, as seen by one CPU.
#[derive(Clone, Debug)]
pub struct Case {
    scope: Scope,
    what: What,
    which: usize,
}

/// What calls of two CPUs on one queue are, in both orders.
const ON_ONE_QUEUE: [(What, What, bool, &str); 6] = [
    (What::Open, What::Open, true, "each gets its own"),
    (What::Open, What::Send, true, "opening shows no message"),
    (What::Open, What::Receive, true, "opening shows no message"),
    (What::Send, What::Send, true, "of two priorities"),
    (What::Send, What::Receive, true, "one of a higher priority"),
    (
        What::Receive,
        What::Receive,
        false,
        "each the other's message",
    ),
];

impl Case {
    /// What the calls of CPU `which` are.
    pub fn all(which: usize) -> Vec<Case> {
        use What::*;
        let own = [
            CreateNamespace,
            DropNamespace,
            Create,
            Unlink,
            Open,
            Send,
            Receive,
        ];
        let scopes = [
            (Scope::Own, &own[..]),
            (Scope::Namespace, &own[2..]),
            (Scope::Queue, &own[4..]),
        ];
        let cases = scopes
            .into_iter()
            .flat_map(|(scope, calls)| calls.iter().map(move |what| (scope, *what)));
        cases
            .map(|(scope, what)| Case { scope, what, which })
            .collect()
    }

    /// The kind of a pair that commutes. Which numbers new namespaces, queues and descriptions get does not count, and no
    /// limit is near: so what is done in different namespaces, or to different names and queues, commutes.
    pub fn pair(&self, other: &Case) -> Option<Kind> {
        if self.scope == Scope::Own || other.scope == Scope::Own {
            return Some(Kind::Apart);
        }
        let one_queue = self.scope == Scope::Queue && other.scope == Scope::Queue;
        let names = |case: &Case| !matches!(case.what, What::Send | What::Receive);
        if !one_queue {
            return Some(match names(self) && names(other) {
                true => Kind::SharedNamespace,
                false => Kind::Apart,
            });
        }
        let is = |a, b| (a, b) == (self.what, other.what) || (b, a) == (self.what, other.what);
        let known = ON_ONE_QUEUE.iter().find(|(a, b, ..)| is(*a, *b));
        known.filter(|known| known.2).map(|_| Kind::SharedQueue)
    }

    /// Whether it is in the CPU's own namespace.
    pub fn is_own(&self) -> bool {
        self.scope == Scope::Own
    }

    fn queue_name(&self, name: &str) -> Vec<u8> {
        match self.scope {
            Scope::Queue => b"/both".to_vec(),
            _ => format!("/{name}{}", self.which).into_bytes(),
        }
    }
}

/// What a CPU has.
struct OfCpu {
    own: IpcNamespace,
    shared: IpcNamespace,
    /// Dropped by the call that drops a namespace.
    empty: Mutex<Option<IpcNamespace>>,
    /// An open queue in each scope.
    open: [Arc<Description>; 3],
}

/// The namespaces, and what each CPU has of them.
pub struct Queues {
    types: Arc<MqueueType>,
    cpus: Vec<Box<OfCpu>>,
}

fn limits() -> Limits {
    Limits {
        user_bytes_max: USER_BYTES_MAX,
        queues_max: 1 << 16,
        ..Limits::default()
    }
}

/// Opens a queue to send and to receive.
fn open(namespace: &IpcNamespace, name: &[u8], how: MqOpen) -> Result<Arc<Description>> {
    let how = how | MqOpen::READ | MqOpen::WRITE;
    let opened = namespace.open(&USER, name, how, 0o600, Some(SIZE));
    opened.with_context(|| format!("queue {}", String::from_utf8_lossy(name)))
}

fn fill(queue: &Description) -> Result<()> {
    for _ in 0..MESSAGES {
        queue.send(&MESSAGE, PRIORITY, &Wait::default())?;
    }
    Ok(())
}

impl OfCpu {
    /// What CPU `which` makes.
    fn make(which: usize, types: &MqueueType, shared: &IpcNamespace) -> Result<Box<OfCpu>> {
        let (own, shared) = (types.create(limits()), shared.clone());
        for namespace in [&own, &shared] {
            open(namespace, format!("/old{which}").as_bytes(), MqOpen::CREATE)?;
        }
        let name = format!("/open{which}").into_bytes();
        let mine = [&own, &shared].map(|namespace| open(namespace, &name, MqOpen::CREATE));
        let [in_own, in_shared] = mine;
        let (in_own, in_shared) = (in_own?, in_shared?);
        fill(&in_own)?;
        fill(&in_shared)?;
        let both = open(&shared, b"/both", MqOpen::empty())?;
        let empty = Mutex::new(Some(types.create(limits())));
        Ok(Box::new(OfCpu {
            own,
            shared,
            empty,
            open: [in_own, in_shared, both],
        }))
    }

    /// Does what the calls do, and back.
    fn warm_up(&self, which: usize, types: &MqueueType) -> Result<()> {
        let mut buffer = [0; SIZE.1 as usize];
        for namespace in [&self.own, &self.shared] {
            let name = format!("/new{which}").into_bytes();
            drop(open(namespace, &name, MqOpen::CREATE)?);
            namespace.unlink(&USER, &name)?;
        }
        for queue in &self.open {
            // More than are there when the call is recorded, so that it needs no more room.
            for _ in 0..2 {
                queue.send(&MESSAGE, which as u32 % 2, &Wait::default())?;
            }
            for _ in 0..2 {
                queue.receive(&mut buffer, &Wait::default())?;
            }
            while queue.getattr().curmsgs > 0 {
                queue.receive(&mut buffer, &Wait::default())?;
            }
            fill(queue)?;
        }
        drop(types.create(limits()));
        Ok(())
    }
}

impl Queues {
    /// Makes the initial state: what CPUs share is made by the first, unless `maker` is another.
    pub fn new(registry: SuperVariant, cpus: &[Cpu], maker: &Cpu) -> Result<Arc<Queues>> {
        let types = Arc::new(MqueueType::new(registry));
        let shared = {
            let types = Arc::clone(&types);
            maker.run(move || {
                let shared = types.create(limits());
                fill(&*open(&shared, b"/both", MqOpen::CREATE)?)?;
                Ok(shared)
            })?
        };
        let mut made = Vec::new();
        for (which, cpu) in cpus.iter().enumerate() {
            let (types, shared) = (Arc::clone(&types), shared.clone());
            made.push(cpu.run(move || OfCpu::make(which, &types, &shared))?);
        }
        let queues = Arc::new(Queues { types, cpus: made });
        for _ in 0..WARM_UP {
            for (which, cpu) in cpus.iter().enumerate() {
                let queues = Arc::clone(&queues);
                cpu.run(move || queues.cpus[which].warm_up(which, &queues.types))?;
            }
        }
        Ok(queues)
    }
}

impl Recorded for Case {
    type World = Queues;

    fn name(&self) -> String {
        let scope = match self.scope {
            Scope::Own => "own namespace",
            Scope::Namespace => "shared namespace",
            Scope::Queue => "shared queue",
        };
        format!("{:?}, {scope}", self.what)
    }

    fn run(&self, queues: &Queues, buffer: &mut AlignedBuf) -> Result<()> {
        let here = &queues.cpus[self.which];
        let namespace = match self.scope {
            Scope::Own => &here.own,
            Scope::Namespace | Scope::Queue => &here.shared,
        };
        let queue = &here.open[self.scope as usize];
        match self.what {
            // It lives on.
            What::CreateNamespace => std::mem::forget(queues.types.create(limits())),
            What::DropNamespace => {
                let mut empty = here.empty.lock().unwrap_or_else(PoisonError::into_inner);
                drop(empty.take());
            }
            What::Create => drop(open(namespace, &self.queue_name("new"), MqOpen::CREATE)?),
            What::Unlink => namespace.unlink(&USER, &self.queue_name("old"))?,
            What::Open => drop(open(namespace, &self.queue_name("open"), MqOpen::empty())?),
            What::Send => queue.send(&MESSAGE, self.which as u32 % 2, &Wait::default())?,
            What::Receive => drop(queue.receive(buffer.bytes_mut(), &Wait::default())?),
        }
        Ok(())
    }
}
