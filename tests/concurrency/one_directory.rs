//! Several threads in one directory, whose leaves are split beside them: each name is one thing at a time, what stays is found and
//! listed once, and what comes and goes is what the calls returned.

use crate::make;
use std::collections::BTreeMap;
use uext4_testkit::prelude::*;
use uext4_testkit::tree;

/// Names that all threads make and remove.
const CONTENDED: usize = 24;
/// Names that stay.
const STAYING: usize = 60;

struct Shared<'a> {
    fs: &'a Ext4,
    dir: &'a InodeRef,
    /// Makes of each contended name that succeeded, less removals.
    balance: Vec<AtomicU64>,
    staying: BTreeMap<Vec<u8>, Ino>,
    stop: AtomicBool,
}

fn staying(i: usize) -> Vec<u8> {
    format!("stays, for a name of some length: {i}").into_bytes()
}

impl Shared<'_> {
    fn contend(&self, rng: &mut Rng) {
        let caller = Caller::root();
        let i = rng.usize(..CONTENDED);
        let name = format!("contended {i:0>40}").into_bytes();
        let made = |result: Result<_, Errno>| match result {
            Ok(()) => {
                self.balance[i].fetch_add(1, Ordering::SeqCst);
            }
            Err(why) => assert_eq!(why, Errno::EEXIST),
        };
        match rng.u8(..7) {
            0 => made(make(self.fs, self.dir, &name, NewKind::Regular).map(drop)),
            1 => made(make(self.fs, self.dir, &name, NewKind::Directory).map(drop)),
            2 => {
                let old = rng.usize(..STAYING);
                let old = FileSystem::lookup(self.fs, &caller, self.dir, &staying(old));
                let link = self.fs.link(&caller, &old.expect("stays"), self.dir, &name);
                made(link.map_err(|why| why.errno()));
            }
            3 | 4 => match FileSystem::unlink(self.fs, &caller, self.dir, &name) {
                Ok(()) => {
                    self.balance[i].fetch_sub(1, Ordering::SeqCst);
                }
                Err(why) => assert!([Errno::ENOENT, Errno::EISDIR].contains(&why.errno())),
            },
            5 => match FileSystem::rmdir(self.fs, &caller, self.dir, &name) {
                Ok(()) => {
                    self.balance[i].fetch_sub(1, Ordering::SeqCst);
                }
                Err(why) => assert!([Errno::ENOENT, Errno::ENOTDIR].contains(&why.errno())),
            },
            _ => match FileSystem::lookup(self.fs, &caller, self.dir, &name) {
                Ok(_) => {}
                Err(why) => assert_eq!(why.errno(), Errno::ENOENT),
            },
        }
    }

    /// Makes, finds and removes names of its own.
    fn own(&self, thread: usize, rounds: usize, mut rng: Rng) {
        let caller = Caller::root();
        let mut mine: BTreeMap<Vec<u8>, Ino> = BTreeMap::new();
        for round in 0..rounds {
            let name = format!("{thread}/{:0>60}", rng.usize(..200)).replace('/', "-");
            let name = name.into_bytes();
            let found = FileSystem::lookup(self.fs, &caller, self.dir, &name);
            match mine.get(&name) {
                Some(ino) => assert_eq!(found.expect("is there").ino, *ino),
                None => assert_eq!(found.expect_err("is gone").errno(), Errno::ENOENT),
            }
            if mine.remove(&name).is_some() {
                FileSystem::unlink(self.fs, &caller, self.dir, &name).expect("goes");
            } else {
                let made = make(self.fs, self.dir, &name, NewKind::Regular).expect("is made");
                mine.insert(name, made.ino);
            }
            self.contend(&mut rng);
            if round % 64 == 0 {
                let to = format!("{thread}-renamed").into_bytes();
                let flags = RenameFlags::empty();
                if let Some((name, _)) = mine.pop_first() {
                    let (fs, dir) = (self.fs, self.dir);
                    FileSystem::rename(fs, &caller, dir, &name, dir, &to, flags).expect("moves");
                    FileSystem::unlink(fs, &caller, dir, &to).expect("goes");
                }
            }
        }
    }

    /// Lists, and looks up what stays.
    fn read(&self, mut rng: Rng) {
        let caller = Caller::root();
        while !self.stop.load(Ordering::Relaxed) {
            let mut names = tree::names(self.fs, self.dir, 1 << 20).expect("lists");
            names.sort_unstable();
            let all = names.len();
            names.dedup();
            assert_eq!(names.len(), all, "a name was listed twice");
            for name in self.staying.keys() {
                assert!(names.binary_search(name).is_ok(), "a name was not listed");
            }
            for _ in 0..50 {
                let name = staying(rng.usize(..STAYING));
                let found = FileSystem::lookup(self.fs, &caller, self.dir, &name);
                assert_eq!(found.expect("stays").ino, self.staying[&name]);
            }
        }
    }
}

#[test]
fn many_threads_in_one_directory() {
    let rounds = env_number("UEXT4_STRESS", 1) as usize * 1500;
    for (round, dir_lock) in (0..).zip(DirLockVariant::ALL) {
        let device = Arc::new(Shape::SMALL_JOURNAL[0].make().expect("an image"));
        let options = MountOptions {
            dir_lock,
            // Few, so that inodes that are looked up leave memory beside it.
            inodes_max: 40,
            cache_bytes: 8 << 20,
            exclusion: Exclusion::Held,
            ..MountOptions::default()
        };
        let fs = Ext4::mount(device.clone(), options).expect("mounts");
        let root = fs.top();
        let dir = make(&fs, &root, b"one", NewKind::Directory).expect("is made");
        let stays = |i| {
            let made = make(&fs, &dir, &staying(i), NewKind::Regular).expect("is made");
            (staying(i), made.ino)
        };
        let shared = Shared {
            fs: &fs,
            dir: &dir,
            balance: (0..CONTENDED).map(|_| AtomicU64::new(0)).collect(),
            staying: (0..STAYING).map(stays).collect(),
            stop: AtomicBool::new(false),
        };
        std::thread::scope(|scope| {
            let shared = &shared;
            let writers: Vec<_> = (0..4)
                .map(|thread| {
                    let rng = Rng::with_seed(round * 16 + thread);
                    scope.spawn(move || shared.own(thread as usize, rounds, rng))
                })
                .collect();
            let reader = scope.spawn(move || shared.read(Rng::with_seed(round)));
            let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
            shared.stop.store(true, Ordering::Relaxed);
            reader.join().expect("reads");
            assert!(ended.iter().all(Result::is_ok), "a writer failed");
        });
        for (i, balance) in shared.balance.iter().enumerate() {
            let name = format!("contended {i:0>40}").into_bytes();
            let found = FileSystem::lookup(&*fs, &Caller::root(), &dir, &name);
            let balance = balance.load(Ordering::SeqCst);
            assert_eq!(balance, u64::from(found.is_ok()), "name {i}");
        }
        drop((root, dir));
        fs.end_on(&device);
    }
}
