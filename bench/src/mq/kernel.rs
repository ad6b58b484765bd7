//! A queue of the kernel.

use super::channel::Channel;
use anyhow::{Context as _, anyhow};
use nix::mqueue::{MQ_OFlag, MqAttr, MqdT, mq_close, mq_open, mq_receive, mq_send, mq_unlink};
use nix::sys::stat::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use uext4_mqueue::QueueSize;

pub struct KernelQueue {
    /// There until it is closed.
    descriptor: Option<MqdT>,
}

impl KernelQueue {
    /// Makes `n` queues without names, allowing the process as many bytes as they need beside what it may have.
    pub fn make(n: usize, size: QueueSize) -> anyhow::Result<Vec<KernelQueue>> {
        KernelQueue::allow(n, size)?;
        let nameless = |number: usize| {
            let name = format!("/uext4-bench-{}-{number}", std::process::id());
            let queue = KernelQueue::create(&name, size)?;
            // Nothing of it stays, however the run ends.
            KernelQueue::unlink(&name)?;
            Ok(queue)
        };
        (0..n).map(nameless).collect()
    }

    /// Lets the process have `n` queues more.
    pub fn allow(n: usize, size: QueueSize) -> anyhow::Result<()> {
        allow_bytes(n as u64 * size.charged_bytes())
    }

    /// Makes one.
    pub fn create(name: &str, size: QueueSize) -> anyhow::Result<KernelQueue> {
        let how = MQ_OFlag::O_RDWR | MQ_OFlag::O_CREAT | MQ_OFlag::O_EXCL;
        let (most, longest) = (i64::from(size.maxmsg), i64::from(size.msgsize));
        let attr = MqAttr::new(0, most, longest, 0);
        opened(name, how, Some(&attr))
    }

    pub fn open(name: &str) -> anyhow::Result<KernelQueue> {
        opened(name, MQ_OFlag::O_RDWR, None)
    }

    /// Takes its name away.
    pub fn unlink(name: &str) -> anyhow::Result<()> {
        mq_unlink(name).with_context(|| format!("mq_unlink({name})"))
    }

    fn descriptor(&self) -> anyhow::Result<&MqdT> {
        self.descriptor
            .as_ref()
            .ok_or_else(|| anyhow!("the queue is closed"))
    }
}

fn opened(name: &str, how: MQ_OFlag, attr: Option<&MqAttr>) -> anyhow::Result<KernelQueue> {
    let opened = mq_open(name, how, Mode::S_IRUSR | Mode::S_IWUSR, attr);
    let descriptor = opened.with_context(|| format!("mq_open({name})"))?;
    Ok(KernelQueue {
        descriptor: Some(descriptor),
    })
}

/// Lets the queues of the process take so many bytes more than now.
fn allow_bytes(bytes: u64) -> anyhow::Result<()> {
    let now = getrlimit(Resource::Msgqueue);
    let Some(current) = now.current else {
        return Ok(());
    };
    let wanted = current + bytes;
    let raise = |maximum: Option<u64>| {
        let most = maximum.unwrap_or(wanted);
        setrlimit(
            Resource::Msgqueue,
            Rlimit {
                current: Some(wanted.min(most)),
                maximum,
            },
        )
    };
    // Without root the hard limit stays, which may do.
    raise(now.maximum.map(|most| most.max(wanted)))
        .or_else(|_| raise(now.maximum))
        .context("RLIMIT_MSGQUEUE")
}

impl Channel for KernelQueue {
    fn send(&self, bytes: &[u8], priority: u32) -> anyhow::Result<()> {
        Ok(mq_send(self.descriptor()?, bytes, priority)?)
    }

    fn receive(&self, buffer: &mut [u8]) -> anyhow::Result<(usize, u32)> {
        let mut priority = 0;
        let len = mq_receive(self.descriptor()?, buffer, &mut priority)?;
        Ok((len, priority))
    }
}

impl Drop for KernelQueue {
    fn drop(&mut self) {
        if let Some(descriptor) = self.descriptor.take() {
            // It fails for a descriptor that is none, which this is not.
            let _ = mq_close(descriptor);
        }
    }
}
