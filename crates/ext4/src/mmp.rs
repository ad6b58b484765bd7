//! Multi-mount protection: of all hosts that reach the device, one at a time writes a file system with the feature `mmp`.
//!
//! # Data model
//! A block of the file system has a sequence number and the name of the host that writes it. That host changes the number every few seconds
//! (`mmp_update_interval` of the superblock) while it has the file system open; a special number says that none has, another that e2fsck
//! runs. A host that finds any other number waits for twice the interval in which it must change, writes its own if it did not, and opens the
//! file system only if that is still there after the same time again.
//! The block is written past the journal.
//!
//! Source: Linux documentation, filesystems/ext4, "Multiple Mount Protection".
//!
//! # Invariants
//! A host that finds another's number stops: the journal is aborted, and nothing more is written. A host that was stopped for longer than
//! others wait may still write what it had begun: only storage that refuses a host can prevent that.
//!
//! # Locking
//! What was written last is behind a lock (class `mmp`), which is kept while the block is read and written.

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests;

use crate::options::Exclusion;
use crate::prelude::*;
use crate::superblock::{read_superblock_to_recover, unix_now};
use std::time::Instant;
use uext4_block::{DeviceId, host_name};
use uext4_ondisk::{CsumSeed, MMP_SEQ_CLEAN, MMP_SEQ_MAX, Mmp};
use uext4_sync::thread;

/// What the format counts in; tests do not wait as long.
const SECOND: Duration = Duration::from_millis(if cfg!(test) { 20 } else { 1000 });
/// The shortest interval that hosts use, in seconds.
const INTERVAL_MIN: u16 = 5;
/// The longest.
const INTERVAL_MAX: u16 = 300;
/// Twice the interval at most, but no more than this over it.
const WAIT_OVER_INTERVAL_MAX: u16 = 60;

/// A file system that this host holds against others, until it is dropped.
#[derive(Debug)]
pub struct MmpHold {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

/// What a host has written about itself that has a file system, or left it behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MmpHolder {
    /// Its name.
    pub host: String,
    /// What the device is there.
    pub device: String,
    /// When it was there last, in seconds since 1970 by its clock.
    pub time: u64,
    /// For how long [`MmpHold::acquire`] waits to see whether it still is; `None` if it is e2fsck, which is not waited for.
    pub wait: Option<Duration>,
}

#[derive(Debug)]
struct Shared {
    block: MmpBlock,
    state: Mutex<State>,
    ending: Condvar,
}

#[derive(Debug)]
struct State {
    /// What this host wrote last; nothing once the hold is lost, or ends.
    ours: Option<Mmp>,
    /// What to abort when another host takes it.
    journal: Weak<Journal>,
}

impl MmpHold {
    /// Holds the file system, if it has the feature: waits until it is known that no other host does, and drops what this host
    /// kept of the device, so that the superblock must be read again.
    ///
    /// # Errors
    /// [`Ext4Error::OpenElsewhere`], [`Ext4Error::BeingChecked`], [`Ext4Error::LeftBehind`]: another host does, or may do.
    /// [`Ext4Error::Unprotected`]: that could not be found out. Damage of the block; the device's.
    pub fn acquire(
        device: &Arc<dyn BlockDevice>,
        sb: &Superblock,
        exclusion: Exclusion,
    ) -> Result<Option<MmpHold>> {
        let is_remote = device.identity().is_some_and(DeviceId::is_remote);
        // A host that is silent writes nothing where the device keeps it out.
        let is_unsure = is_remote && !device.is_fenced() && exclusion == Exclusion::Hold;
        match sb.incompat.contains(Incompat::MMP) {
            _ if exclusion == Exclusion::Held => return Ok(None),
            false if is_unsure => return Err(Ext4Error::Unprotected),
            false => return Ok(None),
            true => {}
        }
        let block = MmpBlock::of(device, sb)?;
        let (ours, wait) = block.claim(sb, is_unsure)?;
        let mut hold = MmpHold {
            shared: Arc::new(Shared {
                block,
                state: Mutex::new(
                    &class::MMP,
                    State {
                        ours: Some(ours),
                        journal: Weak::new(),
                    },
                ),
                ending: Condvar::new(),
            }),
            thread: None,
        };
        // From here on a failure frees it. A host that takes it over at the same time has written after the wait.
        if let Some(wait) = wait {
            thread::sleep(wait);
        }
        hold.shared.renew()?;
        device.drop_cache(0, device.len())?;
        let keeper = Arc::clone(&hold.shared);
        let interval = SECOND * u32::from(update_interval(sb));
        let thread = thread::Builder::new()
            .name("uext4-mmp".into())
            .spawn(move || keeper.keep(interval));
        hold.thread = Some(thread.map_err(|why| {
            tracing::error!("cannot start the thread of multi-mount protection: {why}");
            Ext4Error::Busy("no thread for multi-mount protection")
        })?);
        Ok(Some(hold))
    }

    /// The host that has the file system, or left it behind; `None` if none has.
    ///
    /// # Errors
    /// Damage; the device's.
    pub fn holder(device: &Arc<dyn BlockDevice>) -> Result<Option<MmpHolder>> {
        let sb = read_superblock_to_recover(&**device)?.0;
        if !sb.incompat.contains(Incompat::MMP) {
            return Ok(None);
        }
        let found = MmpBlock::of(device, &sb)?.read()?;
        let wait = seconds_to_wait(interval_of(&sb, &found));
        Ok((found.seq != MMP_SEQ_CLEAN).then(|| MmpHolder {
            host: text(&found.nodename),
            device: text(&found.bdevname),
            time: found.time,
            wait: (found.seq <= MMP_SEQ_MAX).then(|| 2 * SECOND * u32::from(wait)),
        }))
    }

    /// Reads whether this host still has the file system; if not, nothing may be written any more.
    ///
    /// # Errors
    /// [`Ext4Error::OpenElsewhere`], [`Ext4Error::HoldLost`]: another host has it, or may have. The device's.
    pub fn check(&self) -> Result<()> {
        let state = self.shared.state.lock();
        let ours = state.ours.as_ref().ok_or(Ext4Error::HoldLost)?;
        self.shared.block.check(ours)
    }

    /// The same by what is known, without a read: a thread asks every few seconds.
    ///
    /// # Errors
    /// [`Ext4Error::HoldLost`].
    pub fn check_known(&self) -> Result<()> {
        let state = self.shared.state.lock();
        state.ours.as_ref().map(drop).ok_or(Ext4Error::HoldLost)
    }

    /// Stops to show other hosts that this one has the file system, which is overwritten now. It stays taken until this is dropped,
    /// or forever if it is abandoned.
    pub fn stop_renewing(&mut self) {
        let ours = self.end();
        self.shared.state.lock().ours = ours;
    }

    /// Aborts `journal`, and no other, when another host takes the file system.
    pub(crate) fn protect(&self, journal: &Arc<Journal>) {
        let mut state = self.shared.state.lock();
        state.journal = Arc::downgrade(journal);
        let is_lost = state.ours.is_none();
        drop(state);
        if is_lost {
            abort(journal);
        }
    }

    /// Lets other hosts have the file system.
    ///
    /// # Errors
    /// The device's; another host has it already, or may have had it. Others find it as after a crash then.
    pub fn release(mut self) -> Result<()> {
        let ours = self.end().ok_or(Ext4Error::HoldLost)?;
        self.shared.block.give_back(ours)
    }

    /// As if another host had taken it.
    #[cfg(test)]
    pub(crate) fn lose(&self) {
        self.shared.state.lock().ours = None;
    }

    /// Stops holding it and leaves the block as it is, as a crash does.
    pub fn abandon(mut self) {
        self.end();
    }

    /// Ends the thread; what it wrote last, unless it was ended before or has lost the file system.
    fn end(&mut self) -> Option<Mmp> {
        let ours = self.shared.state.lock().ours.take();
        self.shared.ending.notify_all();
        // The thread itself may drop the last reference to the file system.
        let thread = self.thread.take();
        if let Some(thread) = thread.filter(|it| it.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
        ours
    }
}

/// As [`MmpHold::check`], where there may be none.
///
/// # Errors
/// As [`MmpHold::check`].
pub(crate) fn check_hold(hold: Option<&MmpHold>) -> Result<()> {
    hold.map_or(Ok(()), MmpHold::check)
}

/// As [`MmpHold::check_known`], where there may be none.
///
/// # Errors
/// As [`MmpHold::check_known`].
pub(crate) fn check_hold_known(hold: Option<&MmpHold>) -> Result<()> {
    hold.map_or(Ok(()), MmpHold::check_known)
}

impl Drop for MmpHold {
    fn drop(&mut self) {
        if let Some(ours) = self.end()
            && let Err(why) = self.shared.block.give_back(ours)
        {
            tracing::error!("multi-mount protection: {why}");
        }
    }
}

impl Shared {
    fn renew(&self) -> Result<()> {
        let mut state = self.state.lock();
        let ours = state.ours.as_mut().ok_or(Ext4Error::HoldLost)?;
        self.block.renew(ours)
    }

    /// Changes the block again and again, until the hold ends or is lost.
    fn keep(&self, interval: Duration) {
        let mut last = Instant::now();
        let mut state = self.state.lock();
        loop {
            if state.ours.is_some() {
                self.ending.wait_for(&mut state, interval);
            }
            // Its end takes it.
            let Some(ours) = &mut state.ours else {
                return;
            };
            // A slow device makes others wait for longer.
            ours.check_interval = seconds_of(last.elapsed().max(interval));
            last = Instant::now();
            if let Err(why) = self.block.renew(ours) {
                tracing::error!("multi-mount protection: {why}");
                state.ours = None;
                break;
            }
        }
        let journal = state.journal.upgrade();
        drop(state);
        if let Some(journal) = journal {
            abort(&journal);
        }
    }
}

fn abort(journal: &Journal) {
    let why = "multi-mount protection does not hold the file system any more";
    journal.abort(JournalError::Aborted(why.into()));
}

/// The block on its device.
#[derive(Debug)]
struct MmpBlock {
    device: Arc<dyn BlockDevice>,
    no: Pblk,
    /// Where it begins, in bytes.
    offset: u64,
    bytes: usize,
    seed: Option<CsumSeed>,
}

impl MmpBlock {
    fn of(device: &Arc<dyn BlockDevice>, sb: &Superblock) -> Result<MmpBlock> {
        let no = Pblk(sb.raw.mmp_block.get());
        let geometry = &sb.geometry;
        if geometry.group_of_block(no).is_none() {
            return Err(Corrupt::new(CorruptKind::BlockRange).pblk(no).into());
        }
        Ok(MmpBlock {
            device: Arc::clone(device),
            no,
            offset: geometry.block_offset(no),
            bytes: geometry.block_size as usize,
            seed: sb.has_metadata_csum().then_some(sb.csum_seed),
        })
    }

    fn read(&self) -> Result<Mmp> {
        let mut bytes = vec![0; self.bytes];
        self.device.drop_cache(self.offset, self.bytes as u64)?;
        self.device.read_at(self.offset, &mut bytes)?;
        Ok(Mmp::parse(&bytes, self.seed).map_err(|e| e.pblk(self.no))?)
    }

    fn write(&self, mmp: &Mmp) -> Result<()> {
        let mut bytes = vec![0; self.bytes];
        self.device.read_at(self.offset, &mut bytes)?;
        mmp.encode_into(&mut bytes, self.seed);
        Ok(self.device.write_fua(self.offset, &bytes)?)
    }

    /// Waits until it is known that no other host has the file system, and writes that this one has; how long to wait until it is
    /// known that no other has written the same. If that `is_unsure` even then, what another has left behind is refused.
    fn claim(&self, sb: &Superblock, is_unsure: bool) -> Result<(Mmp, Option<Duration>)> {
        let found = self.read()?;
        if found.seq > MMP_SEQ_MAX && found.seq != MMP_SEQ_CLEAN {
            let host = text(&found.nodename);
            return Err(Ext4Error::BeingChecked { host });
        }
        if found.seq != MMP_SEQ_CLEAN && is_unsure {
            let host = text(&found.nodename);
            return Err(Ext4Error::LeftBehind { host });
        }
        let interval = interval_of(sb, &found);
        let wait = SECOND * u32::from(seconds_to_wait(interval));
        if found.seq != MMP_SEQ_CLEAN {
            let host = text(&found.nodename);
            tracing::warn!(
                "host {host} had it open last and did not close it; {} seconds show whether it still has (multi-mount protection)",
                (2 * wait).as_secs()
            );
            thread::sleep(wait);
            let now = self.read()?;
            if now.seq != found.seq {
                return Err(open_elsewhere(&now));
            }
        }
        let mut ours = Mmp {
            seq: 0,
            time: unix_now(),
            nodename: field(&host_name()),
            bdevname: field("uext4"),
            check_interval: update_interval(sb),
        };
        // Two hosts that find it free at a time do not write the same.
        while ours.seq == 0 || ours.seq == found.seq {
            ours.seq = fastrand::u32(1..=MMP_SEQ_MAX);
        }
        self.write(&ours)?;
        Ok((ours, (found.seq != MMP_SEQ_CLEAN).then_some(wait)))
    }

    /// Shows other hosts that this one still has the file system.
    fn renew(&self, ours: &mut Mmp) -> Result<()> {
        self.check(ours)?;
        let next = Mmp {
            seq: ours.seq % MMP_SEQ_MAX + 1,
            time: unix_now(),
            ..ours.clone()
        };
        self.write(&next)?;
        *ours = next;
        Ok(())
    }

    fn check(&self, ours: &Mmp) -> Result<()> {
        let found = self.read()?;
        match found.seq {
            seq if seq == ours.seq && found.nodename == ours.nodename => Ok(()),
            // Another host had it, and may have written.
            MMP_SEQ_CLEAN => Err(Ext4Error::HoldLost),
            seq if seq > MMP_SEQ_MAX => {
                let host = text(&found.nodename);
                Err(Ext4Error::BeingChecked { host })
            }
            _ => Err(open_elsewhere(&found)),
        }
    }

    fn give_back(&self, mut ours: Mmp) -> Result<()> {
        self.check(&ours)?;
        ours.seq = MMP_SEQ_CLEAN;
        ours.time = unix_now();
        self.write(&ours)
    }
}

/// Seconds after which a host that has the file system changes the number.
fn update_interval(sb: &Superblock) -> u16 {
    let interval = sb.raw.mmp_update_interval.get();
    interval.clamp(INTERVAL_MIN, INTERVAL_MAX)
}

/// The same, where the host that wrote the block took longer.
fn interval_of(sb: &Superblock, found: &Mmp) -> u16 {
    let interval = found.check_interval.max(update_interval(sb));
    interval.min(INTERVAL_MAX)
}

/// Whole seconds, as the block has them.
fn seconds_of(time: Duration) -> u16 {
    let seconds = time.as_millis() / SECOND.as_millis();
    u16::try_from(seconds).map_or(INTERVAL_MAX, |seconds| seconds.min(INTERVAL_MAX))
}

/// In which a host that has the file system changes the number.
fn seconds_to_wait(interval: u16) -> u16 {
    (interval * 2 + 1).min(interval + WAIT_OVER_INTERVAL_MAX)
}

#[cold]
fn open_elsewhere(found: &Mmp) -> Ext4Error {
    Ext4Error::OpenElsewhere {
        host: text(&found.nodename),
        device: text(&found.bdevname),
    }
}

/// A name in a field that ends with a zero, or with the field.
fn text(field: &[u8]) -> String {
    let name = field.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).escape_debug().to_string()
}

/// The field of a name; the last byte stays zero.
fn field<const N: usize>(name: &str) -> [u8; N] {
    let mut field = [0; N];
    for (to, from) in field.iter_mut().take(N - 1).zip(name.bytes()) {
        *to = from;
    }
    field
}
