//! What the end of space leaves of an operation, which the model follows.

use super::Worker;
use crate::external::*;
use crate::operation::Op;

impl Worker<'_> {
    /// A range that met the end of space is allocated or zeroed in part; the model follows what it finds.
    fn follow_short_fallocate(&mut self, path: &[u8], range: Range<u64>) -> Result<()> {
        let node = crate::operation::find(self.fs, path)?;
        let mut now = vec![0; self.fs.getattr(&node)?.size as usize];
        self.fs.read(&node, 0, &mut now)?;
        let id = self.model.find(path).unwrap_or_default();
        let old = self.model.data(id).map(|data| data.to_vec());
        let old = old.unwrap_or_default();
        let wrong = now.iter().enumerate().find(|&(at, &byte)| {
            let before = old.get(at).copied().unwrap_or(0);
            byte != before && (byte != 0 || !range.contains(&(at as u64)))
        });
        if let Some((at, byte)) = wrong {
            bail!("after a short fallocate: byte {at} is {byte:#x}");
        }
        if now.len() < old.len() || now.len() as u64 > range.end.max(old.len() as u64) {
            bail!(
                "after a short fallocate: size {}, was {}",
                now.len(),
                old.len()
            );
        }
        if now == old {
            return Ok(());
        }
        let write = Op::Write {
            path: path.to_vec(),
            at: 0,
            data: now,
            direct: false,
        };
        let applied = self.model.apply(&write);
        applied.map_err(|e| anyhow::anyhow!("model: {e}"))
    }

    /// A write that met the end of space has written a part; the model follows what it finds.
    pub(super) fn resize_after_short_write(&mut self, op: &Op) -> Result<()> {
        if let Op::Fallocate { path, at, len, .. } = op {
            return self.follow_short_fallocate(path, *at..*at + *len);
        }
        let (path, at, data) = match op {
            Op::Write { path, at, data, .. } => (path, *at as usize, data),
            Op::Append { path, data } => {
                let id = self.model.find(path).unwrap_or_default();
                let at = self.model.data(id).map_or(0, |data| data.len());
                (path, at, data)
            }
            _ => return Ok(()),
        };
        let node = crate::operation::find(self.fs, path)?;
        let size = self.fs.getattr(&node)?.size as usize;
        let mut now = vec![0; size];
        self.fs.read(&node, 0, &mut now)?;
        let id = self.model.find(path).unwrap_or_default();
        let old = self
            .model
            .data(id)
            .map(|data| data.to_vec())
            .unwrap_or_default();
        let len = size.saturating_sub(at).min(data.len());
        let fits = |n: usize| {
            let mut want = old.clone();
            want.resize(old.len().max(if n > 0 { at + n } else { 0 }), 0);
            if let Some(part) = want.get_mut(at..at + n) {
                part.copy_from_slice(&data[..n]);
            }
            want == now
        };
        // Written is what the size covers, or within the old size, whole blocks.
        let Some(n) = (0..=len)
            .rev()
            .find(|&n| (n == len || n % 512 == 0 || (at + n) % 512 == 0) && fits(n))
        else {
            bail!("after a short write: size {size}, was {}", old.len());
        };
        let part = Op::Write {
            path: path.clone(),
            at: at as u64,
            data: data[..n].to_vec(),
            direct: false,
        };
        self.model
            .apply(&part)
            .map_err(|e| anyhow::anyhow!("model: {e}"))
    }
}
