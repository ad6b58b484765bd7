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
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The time between two checks that the clients which were fenced are still blocklisted.
const RENEWAL: Duration = Duration::from_secs(10);
/// The same while an entry is there that expires.
const WATCHING: Duration = Duration::from_secs(1);
const YEAR_SECONDS: u32 = 31_556_952;

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
        let thread = thread.spawn(move || keep(&kept, &fenced, &events))?;
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

fn keep(claim: &Claim, fenced: &[String], events: &Receiver<Event>) {
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
            let is_due_soon = renew(fenced, claim.pool.cluster());
            // What fails is tried again at the next renewal.
            let pause = if is_due_soon.unwrap_or(false) {
                WATCHING
            } else {
                RENEWAL
            };
            renewal = Instant::now() + pause;
        }
    }
}

/// Blocklists clients again that are not any more, and returns whether one of them has an entry that expires: one that another client made.
/// The cluster keeps an entry that is there as it is, so that it is replaced only once it has expired, and by then the client may write.
fn renew(fenced: &[String], cluster: &Cluster) -> io::Result<bool> {
    if fenced.is_empty() {
        return Ok(false);
    }
    let blocklist = cluster.blocklisted()?;
    let mut expires = false;
    for address in fenced {
        match year_of_expiry(address, &blocklist) {
            None => cluster.blocklist(address, BLOCKLIST_SECONDS)?,
            Some(year) => expires |= year < this_year() + BLOCKLIST_SECONDS / 2 / YEAR_SECONDS,
        }
    }
    Ok(expires)
}

/// The year in the line of a client; 0 if it can't be read.
fn year_of_expiry(address: &str, blocklist: &str) -> Option<u32> {
    let mut lines = blocklist.lines();
    let time = lines.find_map(|line| line.strip_prefix(address)?.strip_prefix(' '))?;
    Some(
        time.split('-')
            .next()
            .and_then(|year| year.parse().ok())
            .unwrap_or(0),
    )
}

/// It may be the next one in the night before.
fn this_year() -> u32 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let years = since.as_secs() / u64::from(YEAR_SECONDS);
    1970 + u32::try_from(years).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_blocklist_is_found_by_its_whole_address() {
        let line = "127.0.0.1:0/12 2036-11-24T11:16:01.000000+0000";
        let other = "127.0.0.1:0/123 2037-11-24T11:16:01.000000+0000";
        let found = |blocklist: &str| year_of_expiry("127.0.0.1:0/12", blocklist);
        assert_eq!(found(&format!("{other}\n{line}\n")), Some(2036));
        assert_eq!(found(other), None);
        assert_eq!(found(""), None);
        assert_eq!(found("127.0.0.1:0/12 never"), Some(0));
    }
}
