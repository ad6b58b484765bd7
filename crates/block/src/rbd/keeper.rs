//! The thread of a client that has the lock of an image: it keeps fenced clients blocklisted, checks what other clients change, and
//! resigns when the lock is lost.

use super::claim::{Claim, Event, RETRY};
use super::cluster::BLOCKLIST_SECONDS;
use super::librbd::Cluster;
use super::librbd::watch::{Watch, WatchEvent};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The time between two checks that the clients which were fenced are still blocklisted.
const RENEWAL: Duration = Duration::from_secs(10);

/// The watch of an image and the thread that acts on it, until dropped.
pub struct Keeper {
    claim: Arc<Claim>,
    watch: Option<Watch>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Watches the head of the image of a claim; `fenced` are the clients whose lock was broken before.
    ///
    /// # Errors
    /// The cluster's.
    pub fn start(
        claim: &Arc<Claim>,
        fenced: Vec<String>,
        events: Receiver<Event>,
    ) -> io::Result<Keeper> {
        let head = format!("rbd_header.{}", claim.image.id()?);
        let watching = claim.clone();
        let watch = Watch::new(&claim.pool, &head, move |event| match event {
            WatchEvent::Notified(notification) => watching.send(Event::Notified(notification)),
            WatchEvent::Lost => watching.note_unwatched(),
        })?;
        let kept = claim.clone();
        let thread = thread::Builder::new().name("uext4-rbd".to_owned());
        let thread = thread.spawn(move || keep(&kept, fenced, &events))?;
        Ok(Keeper {
            claim: claim.clone(),
            watch: Some(watch),
            thread: Some(thread),
        })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.watch.take());
        self.claim.send(Event::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn keep(claim: &Claim, fenced: Vec<String>, events: &Receiver<Event>) {
    let mut fenced: Vec<_> = fenced.into_iter().map(Fenced::new).collect();
    let mut renewal = Instant::now();
    let mut has_resigned = false;
    loop {
        let until = renewal.saturating_duration_since(Instant::now());
        let must_resign = claim.is_lost() && !has_resigned;
        let wait = if must_resign { RETRY } else { until };
        match events.recv_timeout(wait) {
            Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => return,
            Ok(Event::Notified(notification)) => {
                // A flush checks it again.
                let _ = claim.check_len();
                drop(notification);
            }
            Ok(Event::Wake) | Err(RecvTimeoutError::Timeout) => {}
        }
        claim.check_watch();
        if claim.is_lost() && !has_resigned {
            has_resigned = claim.resign().is_ok();
        }
        if Instant::now() >= renewal {
            // What fails is tried again at the next renewal.
            let _ = renew(&mut fenced, claim.pool.cluster());
            renewal = Instant::now() + RENEWAL;
        }
    }
}

/// A client whose lock was broken.
struct Fenced {
    address: String,
    /// Its line in the blocklist, with the time when it ends.
    line: Option<String>,
}

impl Fenced {
    fn new(address: String) -> Fenced {
        Fenced {
            address,
            line: None,
        }
    }

    fn line_in<'a>(&self, blocklist: &'a str) -> Option<&'a str> {
        let mut lines = blocklist.lines();
        lines.find(|line| line.split(' ').next() == Some(&self.address))
    }
}

/// Blocklists clients again whose entry was removed, or changed since it was last made here.
fn renew(fenced: &mut [Fenced], cluster: &Cluster) -> io::Result<()> {
    if fenced.is_empty() {
        return Ok(());
    }
    let mut blocklist = cluster.blocklisted()?;
    for one in fenced {
        if one.line.is_none() || one.line.as_deref() != one.line_in(&blocklist) {
            cluster.blocklist(&one.address, BLOCKLIST_SECONDS)?;
            blocklist = cluster.blocklisted()?;
            one.line = one.line_in(&blocklist).map(str::to_owned);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_blocklist_is_found_by_its_whole_address() {
        let one = Fenced::new("127.0.0.1:0/12".to_owned());
        let line = "127.0.0.1:0/12 2036-11-24T11:16:01.000000+0000";
        let other = "127.0.0.1:0/123 2036-11-24T11:16:01.000000+0000";
        assert_eq!(one.line_in(&format!("{other}\n{line}\n")), Some(line));
        assert_eq!(one.line_in(other), None);
        assert_eq!(one.line_in(""), None);
    }
}
