//! A store of objects in memory, and what goes wrong between it and its hosts.

use crate::external::*;
use std::sync::{Condvar, Mutex, OnceLock};
use uext4_block::objects::{Created, Listed, ObjectStore, StoreError, StoreResult};

/// What a store holds. Hosts share it.
#[derive(Debug, Default)]
pub struct Bucket {
    objects: Mutex<BTreeMap<String, Arc<[u8]>>>,
    /// What is planted.
    bug: OnceLock<Bug>,
}

/// How long a host with [`Bug::Clock`] is sure, in requests.
const LEASE: u64 = 16;

/// A bug that is planted, so that tests show that they find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The store replaces an object that exists, and says that it did not exist.
    Replaces,
    /// The store refuses nothing. A host looks whether it is the writer, and is sure of it for a time by its own clock, which stands still when it
    /// does.
    Clock,
}

impl Bucket {
    /// Plants a bug, for good.
    pub fn plant(&self, bug: Bug) {
        self.bug.set(bug).expect("one bug");
    }

    /// The names of all objects.
    pub fn names(&self) -> Vec<String> {
        self.objects.lock().unwrap().keys().cloned().collect()
    }

    /// The objects whose names begin with `prefix`.
    pub fn list(&self, prefix: &str) -> Vec<Listed> {
        let objects = self.objects.lock().unwrap();
        let found = objects.iter().filter(|(name, _)| name.starts_with(prefix));
        let listed = |(name, bytes): (&String, &Arc<[u8]>)| Listed {
            name: name.clone(),
            bytes: bytes.len() as u64,
        };
        found.map(listed).collect()
    }

    /// Changes a byte of an object.
    pub fn damage(&self, name: &str, at: usize) {
        let mut objects = self.objects.lock().unwrap();
        let mut bytes = objects[name].to_vec();
        bytes[at] ^= 1;
        objects.insert(name.to_owned(), bytes.into());
    }

    fn apply(&self, request: &Request) -> Created {
        let mut objects = self.objects.lock().unwrap();
        match request {
            Request::Put(name, bytes) => drop(objects.insert(name.clone(), Arc::clone(bytes))),
            Request::Create(name, bytes) => match objects.get(name) {
                Some(found) if self.bug.get() != Some(&Bug::Replaces) || found == bytes => {
                    return Created::Exists;
                }
                _ => drop(objects.insert(name.clone(), Arc::clone(bytes))),
            },
            Request::Delete(names) => names.iter().for_each(|name| drop(objects.remove(name))),
        }
        Created::Yes
    }
}

/// What changes a store.
#[derive(Clone, Debug)]
enum Request {
    Put(String, Arc<[u8]>),
    Create(String, Arc<[u8]>),
    Delete(Vec<String>),
}

/// What happens to the requests of a host, in percent of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trouble {
    /// It does not reach the store.
    pub lost: u8,
    /// It does, but not the answer.
    pub unanswered: u8,
    /// It does when [`HostStore::deliver`] is called; the host has an error before.
    pub late: u8,
}

/// A host's way to a store.
#[derive(Debug)]
pub struct HostStore {
    bucket: Arc<Bucket>,
    network: Mutex<Network>,
    resumed: Condvar,
}

#[derive(Debug)]
struct Network {
    rng: Rng,
    trouble: Trouble,
    late: Vec<Request>,
    is_stopped: bool,
    /// After so many requests it is stopped.
    stops_at: Option<u64>,
    /// How long a request takes.
    latency: Duration,
    requests: u64,
    /// With [`Bug::Clock`].
    leased_until: u64,
}

impl HostStore {
    /// Of a new host.
    pub fn new(bucket: &Arc<Bucket>, seed: u64) -> Arc<HostStore> {
        Arc::new(HostStore {
            bucket: Arc::clone(bucket),
            network: Mutex::new(Network {
                rng: Rng::with_seed(seed),
                trouble: Trouble::default(),
                late: Vec::new(),
                is_stopped: false,
                stops_at: None,
                latency: Duration::ZERO,
                requests: 0,
                leased_until: 0,
            }),
            resumed: Condvar::new(),
        })
    }

    /// What happens from now on.
    pub fn set_trouble(&self, trouble: Trouble) {
        self.network.lock().unwrap().trouble = trouble;
    }

    /// Stops the host when it has made so many requests.
    pub fn stop_at(&self, requests: u64) {
        self.network.lock().unwrap().stops_at = Some(requests);
    }

    /// How long each request takes from now on.
    pub fn set_latency(&self, latency: Duration) {
        self.network.lock().unwrap().latency = latency;
    }

    /// Stops the host before its next request, or resumes it.
    pub fn stop(&self, is_stopped: bool) {
        self.network.lock().unwrap().is_stopped = is_stopped;
        self.resumed.notify_all();
    }

    /// Delivers a late request, if there is one; several in any order.
    pub fn deliver(&self) -> bool {
        let mut network = self.network.lock().unwrap();
        if network.late.is_empty() {
            return false;
        }
        let len = network.late.len();
        let at = network.rng.usize(..len);
        let request = network.late.swap_remove(at);
        self.bucket.apply(&request);
        true
    }

    /// Waits until it is stopped; false if it has not been after a second.
    pub fn wait_until_stopped(&self) -> bool {
        let network = self.network.lock().unwrap();
        let second = Duration::from_secs(1);
        let waited = self
            .resumed
            .wait_timeout_while(network, second, |n| !n.is_stopped);
        !waited.unwrap().1.timed_out()
    }

    /// How many requests it made.
    pub fn requests(&self) -> u64 {
        self.network.lock().unwrap().requests
    }

    /// Draws what happens to a request: nothing, or an error, before which it may have its effect.
    fn send(&self, request: Option<Request>) -> StoreResult<Created> {
        let mut network = self.network.lock().unwrap();
        if network.stops_at == Some(network.requests) {
            network.is_stopped = true;
            network.stops_at = None;
            self.resumed.notify_all();
        }
        while network.is_stopped {
            network = self.resumed.wait(network).unwrap();
        }
        network.requests += 1;
        let drawn = network.rng.u8(..100);
        let Trouble {
            lost,
            unanswered,
            late,
        } = network.trouble;
        let failed = |why: &str| Err(StoreError::Failed(why.to_owned()));
        if drawn < lost {
            return failed("the request was lost");
        }
        if drawn < lost + unanswered {
            request.iter().for_each(|r| {
                self.bucket.apply(r);
            });
            return failed("the answer was lost");
        }
        if drawn < lost + unanswered + late {
            network.late.extend(request);
            return failed("the request is late");
        }
        let latency = network.latency;
        drop(network);
        if !latency.is_zero() {
            thread::sleep(latency);
        }
        Ok(request.map_or(Created::Yes, |r| self.bucket.apply(&r)))
    }
}

impl ObjectStore for HostStore {
    fn get(&self, name: &str, range: Option<Range<u64>>) -> StoreResult<Vec<u8>> {
        self.send(None)?;
        let objects = self.bucket.objects.lock().unwrap();
        let bytes = objects.get(name).ok_or(StoreError::NotFound)?;
        let range = range.unwrap_or(0..bytes.len() as u64);
        let end = (range.end as usize).min(bytes.len());
        let bytes = bytes.get(range.start as usize..end);
        let outside = || StoreError::Failed("the range is outside".into());
        Ok(bytes.ok_or_else(outside)?.to_vec())
    }

    fn put(&self, name: &str, bytes: &[u8]) -> StoreResult<()> {
        let request = Request::Put(name.to_owned(), bytes.into());
        self.send(Some(request)).map(drop)
    }

    fn create(&self, name: &str, bytes: &[u8]) -> StoreResult<Created> {
        let (name, bytes) = (name.to_owned(), bytes.into());
        if self.bucket.bug.get() != Some(&Bug::Clock) {
            return self.send(Some(Request::Create(name, bytes)));
        }
        let mut network = self.network.lock().unwrap();
        if network.requests >= network.leased_until {
            if !self.bucket.list(&name).is_empty() {
                return Ok(Created::Exists);
            }
            network.leased_until = network.requests + LEASE;
        }
        drop(network);
        self.send(Some(Request::Put(name, bytes)))
    }

    fn list(&self, prefix: &str) -> StoreResult<Vec<Listed>> {
        self.send(None)?;
        Ok(self.bucket.list(prefix))
    }

    fn delete(&self, names: &[String]) -> StoreResult<()> {
        self.send(Some(Request::Delete(names.to_vec()))).map(drop)
    }

    /// A seed decides the order of requests, unless they take time.
    fn in_flight(&self) -> usize {
        match self.network.lock().unwrap().latency.is_zero() {
            true => 1,
            false => 32,
        }
    }

    fn pause(&self, _: Duration) {}
}
