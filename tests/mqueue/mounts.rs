//! Namespaces and their mounts, in every variant: all mounts of one show the same queues, and with the last of
//! them the namespace goes, and what its queues were charged.
use std::sync::Arc;
use uext4_mqueue::{
    Accounts, Description, IpcNamespace, Limits, MqFile, MqOpen, MqueueType, NamespaceId, Wait,
};
use uext4_testkit::with;
use uext4_vfs::{Caller, Errno, FileSystem, NewKind, NewNode, SetAttr, SuperVariant};

const ROOT: Caller = Caller::root();
const BOTH: MqOpen = MqOpen::READ.union(MqOpen::WRITE);
const QUEUE: NewNode<'_> = NewNode {
    mode: 0o600,
    kind: NewKind::Regular,
};

fn in_every_variant(test: impl Fn(&MqueueType, &Arc<Accounts>)) {
    for variant in SuperVariant::ALL {
        let accounts = Accounts::new();
        let queues = MqueueType::with_accounts(variant, Arc::clone(&accounts));
        test(&queues, &accounts);
        assert_eq!(queues.namespaces(), 0, "{variant}");
        assert_eq!(accounts.bytes_of(0), 0, "{variant}");
    }
}

fn open(fs: &IpcNamespace, name: &[u8], how: MqOpen) -> Arc<Description> {
    let opened = fs.open(&ROOT, name, how, 0o600, Some((4, 8)));
    opened.expect("opens")
}

fn receive(queue: &Description) -> Vec<u8> {
    let mut buffer = [0; 8];
    let got = queue.receive(&mut buffer, &Wait::default());
    buffer[..got.expect("there").len].to_vec()
}

/// Names and cookies after a position, at most so many.
fn list(fs: &IpcNamespace, cookie: u64, max: usize) -> Vec<(Vec<u8>, u64)> {
    let mut names = Vec::new();
    let read = fs.readdir(&ROOT, &MqFile::Root, cookie, &mut |entry| {
        assert!(names.len() < 1000, "no end");
        if names.len() < max {
            names.push((entry.name.to_vec(), entry.cookie));
        }
        names.len() < max
    });
    read.expect("lists");
    names
}

fn names(fs: &IpcNamespace) -> Vec<Vec<u8>> {
    list(fs, 0, usize::MAX)
        .into_iter()
        .map(|(n, _)| n)
        .collect()
}

fn mount(queues: &MqueueType, id: NamespaceId) -> Result<IpcNamespace, Errno> {
    queues.mount(id).map_err(|e| e.errno())
}

#[test]
fn mounts_of_one_namespace() {
    in_every_variant(|queues, accounts| {
        let first = queues.create(Limits::default());
        let stranger = queues.create(Limits::default());
        let id = first.id();
        let second = mount(queues, id).expect("is there");
        let third = second.clone();
        let sends = open(&first, b"/a", BOTH | MqOpen::CREATE);
        second
            .create(&ROOT, &MqFile::Root, b"b", &QUEUE)
            .expect("makes it");
        for fs in [&first, &second, &third] {
            assert_eq!(fs.id(), id);
            assert_eq!(names(fs), [b".".as_slice(), b"..", b"a", b"b"]);
            assert_eq!((fs.names().len(), fs.queues()), (2, 2));
        }
        assert_eq!(names(&stranger), [b".".as_slice(), b".."]);
        let [a, b] = [&first, &third].map(|fs| {
            let node = fs.lookup(&ROOT, &MqFile::Root, b"a").expect("is there");
            (fs.handle(&node), fs.getattr(&node).expect("is there"))
        });
        assert_eq!(a, b);
        let mode = with(|o: &mut SetAttr| o.mode = Some(0o755));
        first.setattr(&ROOT, &MqFile::Root, &mode).expect("may");
        let root = third.getattr(&MqFile::Root).expect("is there");
        assert_eq!((root.mode, third.root_attr().mode), (0o755, 0o755));
        sends.send(b"here", 0, &Wait::default()).expect("fits");
        let receives = open(&second, b"/a", BOTH);
        assert_eq!(receive(&receives), b"here");
        drop((first, third));
        assert_eq!(queues.namespaces(), 2);
        assert_eq!(names(&second).len(), 4);
        drop(second);
        assert_eq!(mount(queues, id).err(), Some(Errno::ENOENT));
        assert_eq!(queues.namespaces(), 1);
        // What is open stays, and counts.
        sends.send(b"still", 0, &Wait::default()).expect("fits");
        assert_eq!(receive(&receives), b"still");
        assert!(accounts.bytes_of(0) > 0);
        assert_eq!(sends.node().attr().nlink, 1);
    });
}

#[test]
fn numbers_of_namespaces() {
    in_every_variant(|queues, _| {
        let mut ids = Vec::new();
        for _ in 0..3 {
            let many: Vec<_> = (0..100).map(|_| queues.create(Limits::default())).collect();
            assert_eq!(queues.namespaces(), 100);
            ids.extend(many.iter().map(|one| one.id()));
            for fs in &many {
                assert_eq!(mount(queues, fs.id()).map(|m| m.id()), Ok(fs.id()));
            }
        }
        assert!(ids.iter().all(|id| mount(queues, *id).is_err()));
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 300, "none comes twice");
    });
}

#[test]
fn what_is_charged_comes_back() {
    in_every_variant(|queues, accounts| {
        let user = Caller::user(7, 7);
        let make = |fs: &IpcNamespace| fs.create(&user, &MqFile::Root, b"q", &QUEUE);
        let all: Vec<_> = (0..9).map(|_| queues.create(Limits::default())).collect();
        for fs in &all {
            make(fs).expect("fits");
        }
        assert_eq!(accounts.bytes_of(7), 9 * 82_880);
        let tenth = queues.create(Limits::default());
        assert_eq!(make(&tenth).err().map(|e| e.errno()), Some(Errno::EMFILE));
        assert_eq!(
            (tenth.queues(), names(&tenth).len()),
            (0, 2),
            "nothing is left"
        );
        drop(all);
        assert_eq!(accounts.bytes_of(7), 0);
        let node = make(&tenth).expect("fits");
        FileSystem::unlink(&*tenth, &user, &MqFile::Root, b"q").expect("goes");
        assert_eq!((tenth.queues(), accounts.bytes_of(7)), (1, 82_880));
        drop(node);
        assert_eq!((tenth.queues(), accounts.bytes_of(7)), (0, 0));
    });
}

/// A reader with a position meets what is there all the time once, whatever comes and goes.
#[test]
fn positions_in_the_directory() {
    in_every_variant(|queues, _| {
        let limits = Limits {
            user_bytes_max: u64::MAX,
            ..Limits::default()
        };
        let fs = queues.create(limits);
        let make = |kind: &str, n: usize| {
            let name = format!("{kind}{n}").into_bytes();
            fs.create(&ROOT, &MqFile::Root, &name, &QUEUE)
                .expect("makes it");
        };
        let unlink = |kind: &str, n: usize| {
            let name = format!("{kind}{n}").into_bytes();
            FileSystem::unlink(&*fs, &ROOT, &MqFile::Root, &name).expect("goes");
        };
        for n in 0..100 {
            make("stays", n);
            make("goes", n);
        }
        let (mut seen, mut cookie) = (Vec::new(), 0);
        for n in 0.. {
            let some = list(&fs, cookie, 3);
            let Some((_, last)) = some.last() else {
                break;
            };
            assert!(seen.len() < 1000, "no end");
            assert_eq!(
                list(&fs, cookie, 2)[..],
                some[..some.len().min(2)],
                "comes again"
            );
            cookie = *last;
            seen.extend(some.into_iter().map(|(name, _)| name));
            if n < 50 {
                // Before the position, after it, and new ones.
                unlink("goes", n);
                unlink("goes", 99 - n);
                make("comes", n);
            }
        }
        let count = |name: &str| seen.iter().filter(|n| *n == name.as_bytes()).count();
        assert_eq!((count("."), count("..")), (1, 1));
        assert!((0..100).all(|n| count(&format!("stays{n}")) == 1));
        let all =
            ["goes", "comes"].map(|kind| (0..100).map(|n| count(&format!("{kind}{n}"))).max());
        assert!(all <= [Some(1); 2], "{all:?}");
        let mut left: Vec<_> = fs.names().into_iter().map(Vec::from).collect();
        left.sort_unstable();
        let mut listed = names(&fs)[2..].to_vec();
        listed.sort_unstable();
        assert_eq!(left, listed);
        assert!(
            listed
                .iter()
                .all(|n| fs.lookup(&ROOT, &MqFile::Root, n).is_ok()),
            "all there"
        );
        assert_eq!(listed.len() as u32, fs.queues());
        for empty in [cookie, cookie + 1, u64::MAX] {
            assert_eq!(list(&fs, empty, 9), []);
        }
    });
}
