//! Names, namespaces and registrations that come and go at the same time, schedule by schedule.
use crate::explore::explore;
use shuttle::thread;
use std::sync::Arc;
use uext4_mqueue::{
    Accounts, Description, IpcNamespace, Limits, MqFile, MqOpen, MqueueType, Namespace,
    Notification, Wait,
};
use uext4_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use uext4_vfs::{Caller, Errno, FileSystem, NewKind, NewNode, SetAttr, SuperVariant};

const BOTH: MqOpen = MqOpen::READ.union(MqOpen::WRITE);
const CREATE: MqOpen = BOTH.union(MqOpen::CREATE);
const EXCLUSIVE: MqOpen = CREATE.union(MqOpen::EXCLUSIVE);
const USER: Caller = Caller::user(7, 7);
/// A queue for one message of a byte counts 97 bytes.
const QUEUE_BYTES: u64 = 97;

fn open(fs: &IpcNamespace, how: MqOpen) -> Result<Arc<Description>, Errno> {
    let opened = fs.open(&USER, b"/q", how, 0o600, Some((1, 1)));
    opened.map_err(|e| e.errno())
}

fn unlink(fs: &IpcNamespace) -> Result<(), Errno> {
    let gone = FileSystem::unlink(&**fs, &USER, &MqFile::Root, b"q");
    gone.map_err(|e| e.errno())
}

/// A namespace that has room for so many queues of a user, with its type.
fn with_room(queues: u32) -> (MqueueType, IpcNamespace) {
    let all = MqueueType::default();
    let mut limits = Limits::default();
    limits.queues_max = queues;
    limits.user_bytes_max = u64::from(queues) * QUEUE_BYTES;
    let fs = all.create(limits);
    (all, fs)
}

fn spawn<T: Send + 'static>(
    fs: &IpcNamespace,
    f: impl FnOnce(&IpcNamespace) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let fs = fs.clone();
    thread::spawn(move || f(&fs))
}

fn assert_counts(fs: &IpcNamespace, queues: u32) {
    let charged = fs.accounts().bytes_of(7);
    assert_eq!(
        (fs.queues(), charged),
        (queues, u64::from(queues) * QUEUE_BYTES)
    );
}

/// Several make the same name: one does, and a late one takes no place, not even for a moment.
fn one_name() {
    let (_all, fs) = with_room(1);
    let creates = spawn(&fs, |fs| open(fs, CREATE).expect("made or there"));
    let exclusive = [(); 2].map(|()| spawn(&fs, |fs| open(fs, EXCLUSIVE)));
    let first = creates.join().expect("no panic");
    let exclusive = exclusive.map(|e| e.join().expect("no panic"));
    let winners = exclusive.iter().filter(|e| e.is_ok()).count();
    assert!(winners <= 1, "the name was never free again");
    for made in &exclusive {
        match made {
            Ok(queue) => assert!(Arc::ptr_eq(queue.node(), first.node())),
            Err(e) => assert_eq!(*e, Errno::EEXIST),
        }
    }
    assert_counts(&fs, 1);
    drop((first, exclusive));
    assert_counts(&fs, 1);
    unlink(&fs).expect("goes");
    assert_counts(&fs, 0);
}

/// The same while the name goes: as many win as there were times that it was free.
fn one_name_that_goes() {
    let (_all, fs) = with_room(4);
    let creates = spawn(&fs, |fs| open(fs, CREATE).expect("made or there"));
    let exclusive = [(); 2].map(|()| spawn(&fs, |fs| open(fs, EXCLUSIVE)));
    let unlinked = usize::from(unlink(&fs).is_ok());
    let mut queues = vec![creates.join().expect("no panic")];
    let before = queues.len();
    for made in exclusive {
        match made.join().expect("no panic") {
            Ok(queue) => queues.push(queue),
            Err(e) => assert_eq!(e, Errno::EEXIST),
        }
    }
    assert!(queues.len() - before <= 1 + unlinked);
    let mut numbers: Vec<_> = queues.iter().map(|q| q.node().attr().ino).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let named = fs.names().len();
    let linked = queues.iter().filter(|q| q.node().attr().nlink == 1);
    assert!(linked.count() >= named, "what has the name is among them");
    assert_counts(&fs, u32::try_from(numbers.len()).expect("few"));
    drop(queues);
    assert_counts(&fs, u32::try_from(named).expect("one"));
    assert_eq!(unlink(&fs).is_ok(), named == 1);
    assert_counts(&fs, 0);
}

/// Two unlink one name, while its queue is open.
fn two_unlink() {
    let (_all, fs) = with_room(1);
    let queue = open(&fs, EXCLUSIVE).expect("makes it");
    let unlinks = [(); 2].map(|()| spawn(&fs, unlink));
    let answers = unlinks.map(|u| u.join().expect("no panic"));
    assert!(answers.contains(&Ok(())) && answers.contains(&Err(Errno::ENOENT)));
    assert_eq!(
        open(&fs, EXCLUSIVE).err(),
        Some(Errno::ENOSPC),
        "it is open"
    );
    drop(queue);
    assert_counts(&fs, 0);
}

/// Queues come and go beside each other: each is counted and charged while it exists.
fn queues_come_and_go() {
    let (_all, fs) = with_room(3);
    let makers = [b"/a", b"/b", b"/c"].map(|name| {
        spawn(&fs, move |fs| {
            let made = fs.open(&USER, name, EXCLUSIVE, 0o600, Some((1, 1)));
            let made = made.expect("there is room for all");
            Namespace::unlink(fs, &USER, name).expect("goes");
            drop(made);
        })
    });
    for maker in makers {
        maker.join().expect("no panic");
    }
    assert_counts(&fs, 0);
}

/// So many queues that CPUs reserve bytes in advance until few are left.
const MANY: u32 = 34;

/// Makes `count` queues, and gives those that fit.
fn make_many(fs: &IpcNamespace, of: usize, count: u32) -> Vec<Arc<Description>> {
    let made = (0..count).filter_map(|i| {
        let name = format!("/{of}-{i}");
        let made = fs.open(&USER, name.as_bytes(), EXCLUSIVE, 0o600, Some((1, 1)));
        // Only its description keeps it.
        made.inspect(|_| Namespace::unlink(fs, &USER, name.as_bytes()).expect("goes"))
            .map_err(|e| assert_eq!(e, Errno::EMFILE))
            .ok()
    });
    made.collect()
}

/// Threads make more queues than the user may have, in namespaces of their own: as many exist as fit.
fn charges_up_to_the_limit() {
    let (all, fs) = with_room(MANY);
    let makers = [0, 1].map(|of| {
        let fs = all.create(fs.limits());
        thread::spawn(move || make_many(&fs, of, MANY))
    });
    let mut queues = make_many(&fs, 2, MANY);
    for maker in makers {
        queues.extend(maker.join().expect("no panic"));
    }
    assert_eq!(queues.len(), MANY as usize);
    assert_eq!(fs.accounts().bytes_of(7), u64::from(MANY) * QUEUE_BYTES);
    drop(queues);
    assert_eq!(fs.accounts().bytes_of(7), 0);
}

/// Threads that never have more than fit, together, never find the limit, whatever their CPUs have in advance; a namespace
/// with another limit is among them.
fn charges_that_fit() {
    let (all, fs) = with_room(MANY);
    let makers = [0, 1].map(|of| {
        let mut limits = fs.limits();
        limits.user_bytes_max += of as u64;
        let fs = all.create(limits);
        thread::spawn(move || {
            for _ in 0..2 {
                let made = make_many(&fs, of, MANY / 2);
                assert_eq!(made.len() as u32, MANY / 2);
            }
        })
    });
    for maker in makers {
        maker.join().expect("no panic");
    }
    assert_eq!(fs.accounts().bytes_of(7), 0);
}

/// No user makes a queue in a directory once it is closed to that user.
fn the_directory_is_closed() {
    let (_all, fs) = with_room(2);
    let closed = Arc::new(AtomicBool::new(false));
    let makes = {
        let closed = Arc::clone(&closed);
        spawn(&fs, move |fs| {
            let late = closed.load(SeqCst);
            let new = NewNode {
                mode: 0o600,
                kind: NewKind::Regular,
            };
            // Too large for the user: it shows which was checked.
            let made = fs.create(&USER, &MqFile::Root, b"q", &new);
            let e = made.err().map(|e| e.errno());
            assert!(e == Some(Errno::EACCES) || e == Some(Errno::EMFILE) && !late);
            (late, open(fs, CREATE).map(drop))
        })
    };
    let mode = SetAttr {
        mode: Some(0o755),
        ..SetAttr::default()
    };
    fs.setattr(&Caller::root(), &MqFile::Root, &mode)
        .expect("may");
    closed.store(true, SeqCst);
    let names = fs.names().len();
    let (late, made) = makes.join().expect("no panic");
    assert_eq!(fs.names().len(), names, "none came since");
    assert!(made.is_err() || !late && names == 1);
}

/// A namespace is mounted while the last of its mounts goes: it is there or gone, and never half.
fn namespaces(variant: SuperVariant) {
    let accounts = Accounts::new();
    let all = Arc::new(MqueueType::with_accounts(variant, Arc::clone(&accounts)));
    let fs = all.create(Limits::default());
    let id = fs.id();
    open(&fs, CREATE).expect("makes it");
    let mounters = [(); 2].map(|()| {
        let all = Arc::clone(&all);
        thread::spawn(move || match all.mount(id) {
            Ok(fs) => {
                let again = fs.clone();
                open(&again, BOTH).expect("it exists with the namespace");
                assert_eq!((fs.id(), fs.names().len()), (id, 1));
            }
            Err(e) => assert_eq!(e, Errno::ENOENT),
        })
    });
    let creator = {
        let all = Arc::clone(&all);
        thread::spawn(move || {
            let other = all.create(Limits::default());
            assert_ne!(other.id(), id);
            assert_eq!(other.names().len(), 0);
            let mounted = all.mount(other.id()).expect("is there");
            drop(other);
            open(&mounted, EXCLUSIVE).expect("makes it");
        })
    };
    drop(fs);
    for mounter in mounters {
        mounter.join().expect("no panic");
    }
    creator.join().expect("no panic");
    assert_eq!((all.namespaces(), accounts.bytes_of(7)), (0, 0));
    assert!(all.mount(id).is_err());
}

/// A queue and how often its registrant was notified.
fn registered() -> (IpcNamespace, Arc<Description>, Arc<AtomicU32>) {
    let fs = MqueueType::default().create(Limits::default());
    let how = CREATE;
    let queue = fs.open(&USER, b"/q", how, 0o600, Some((4, 1)));
    let queue = queue.expect("opens");
    let told = Arc::new(AtomicU32::new(0));
    register(&queue, 1, &told).expect("is the first");
    (fs, queue, told)
}

fn register(queue: &Description, process: u32, told: &Arc<AtomicU32>) -> Result<(), Errno> {
    let told = Arc::clone(told);
    let how = Notification::Call(Box::new(move || {
        told.fetch_add(1, SeqCst);
    }));
    let registered = queue.notify(process, Some(how));
    registered.map_err(|e| e.errno())
}

fn send(queue: &Description) {
    queue.send(b"x", 0, &Wait::default()).expect("fits");
}

fn receive(queue: &Description) {
    queue.receive(&mut [0], &Wait::default()).expect("there");
}

/// Two send to an empty queue: its registrant is notified once.
fn told_once() {
    let (_fs, queue, told) = registered();
    let senders = [(); 2].map(|()| {
        let queue = Arc::clone(&queue);
        thread::spawn(move || send(&queue))
    });
    for sender in senders {
        sender.join().expect("no panic");
    }
    assert_eq!(told.load(SeqCst), 1);
    receive(&queue);
    receive(&queue);
    send(&queue);
    assert_eq!(told.load(SeqCst), 1, "the registration went");
}

/// A process closes the queue while a message comes: it is not notified of what is sent afterwards.
fn told_or_closed() {
    let (fs, queue, told) = registered();
    let other = open(&fs, BOTH).expect("is there");
    let closed = Arc::new(AtomicBool::new(false));
    let sender = {
        let (queue, told, closed) = (Arc::clone(&other), Arc::clone(&told), Arc::clone(&closed));
        thread::spawn(move || {
            let late = closed.load(SeqCst);
            send(&queue);
            let told = told.load(SeqCst);
            assert!(told == 0 || !late && told == 1);
        })
    };
    // Another process still has the description.
    Arc::clone(&queue).close(1);
    closed.store(true, SeqCst);
    sender.join().expect("no panic");
    assert!(other.status().contains(" NOTIFY_PID:0 "));
    let before = told.load(SeqCst);
    receive(&other);
    send(&other);
    assert_eq!(told.load(SeqCst), before);
    assert!(before <= 1);
}

/// Two processes register while messages arrive: each message notifies one of them at most, and a
/// registration that was taken is there until then.
fn two_registrants() {
    let (_fs, queue, told) = registered();
    let taken = Arc::new(AtomicU64::new(1));
    let registrants = [2, 3].map(|process| {
        let (queue, told, taken) = (Arc::clone(&queue), Arc::clone(&told), Arc::clone(&taken));
        thread::spawn(move || match register(&queue, process, &told) {
            Ok(()) => {
                taken.fetch_add(1, SeqCst);
            }
            Err(e) => assert_eq!(e, Errno::EBUSY),
        })
    });
    send(&queue);
    receive(&queue);
    send(&queue);
    for registrant in registrants {
        registrant.join().expect("no panic");
    }
    let (told, taken) = (u64::from(told.load(SeqCst)), taken.load(SeqCst));
    let left = u64::from(!queue.status().contains(" NOTIFY_PID:0 "));
    assert_eq!(taken, told + left, "each was notified or is there");
    assert!((1..=2).contains(&told));
}

/// A waiting receiver gets the message, and no process is notified.
fn told_or_received() {
    let (_fs, queue, told) = registered();
    let receiver = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || receive(&queue))
    };
    let waited = queue.node().queue.waiting() == (0, 1);
    send(&queue);
    receiver.join().expect("no panic");
    let told = told.load(SeqCst);
    assert!(told == 0 || !waited && told == 1);
    let left = !queue.status().contains(" NOTIFY_PID:0 ");
    assert_eq!(left, told == 0, "an unused registration stays");
}

#[test]
fn shuttle_one_name() {
    explore(one_name);
}

#[test]
fn shuttle_one_name_that_goes() {
    explore(one_name_that_goes);
}

#[test]
fn shuttle_two_unlink() {
    explore(two_unlink);
}

#[test]
fn shuttle_queues_come_and_go() {
    explore(queues_come_and_go);
}

#[test]
fn shuttle_charges_up_to_the_limit() {
    explore(charges_up_to_the_limit);
}

#[test]
fn shuttle_charges_that_fit() {
    explore(charges_that_fit);
}

#[test]
fn shuttle_the_directory_is_closed() {
    explore(the_directory_is_closed);
}

#[test]
fn shuttle_namespaces() {
    for variant in SuperVariant::ALL {
        explore(move || namespaces(variant));
    }
}

#[test]
fn shuttle_notified_once() {
    explore(told_once);
}

#[test]
fn shuttle_notified_or_closed() {
    explore(told_or_closed);
}

#[test]
fn shuttle_two_registrants() {
    explore(two_registrants);
}

#[test]
fn shuttle_notified_or_received() {
    explore(told_or_received);
}
