//! All of a block map, in order.

use crate::mapping::Mapped;
use crate::mapping::block_map::Reader;
use crate::prelude::*;
use uext4_ondisk::EXTENT_LEN_MAX;
use uext4_ondisk::MAP_ROOTS;

struct Walk<'r, 'f> {
    reader: Reader<'r>,
    shape: MapShape,
    each: &'f mut dyn FnMut(Mapped) -> ControlFlow<()>,
    /// Nothing before this block is walked.
    from: u64,
    /// What may still go on.
    run: Option<Extent>,
    above: ArrayVec<Pblk, MAP_LEVELS>,
    nodes_left: u64,
    /// Blocks that a map may still have: each block of the device once.
    blocks_left: u64,
}

impl Reader<'_> {
    /// Calls `each` for every block of pointers and every run that reach past `from`, in order, until it says that
    /// it has enough, or more than `nodes_max` blocks of pointers would have to be read.
    pub fn walk(
        &self,
        root: &[u8; 60],
        nodes_max: u64,
        from: u64,
        each: &mut dyn FnMut(Mapped) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let mut walk = Walk {
            reader: *self,
            shape: self.shape(),
            each,
            from,
            run: None,
            above: ArrayVec::new(),
            nodes_left: nodes_max,
            blocks_left: self.bounds.end,
        };
        for slot in 0..MAP_ROOTS {
            let (levels, first) = walk.shape.root(slot);
            if walk
                .pointer(map_pointer(root, slot), levels, first)?
                .is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        }
        walk.end_run()
    }
}

impl Walk<'_, '_> {
    fn pointer(&mut self, to: Option<Pblk>, levels: usize, at: u64) -> Result<ControlFlow<()>> {
        let span = match levels {
            0 => 1,
            levels => self.shape.span(levels),
        };
        let in_range = at < self.shape.blocks_max() && at + span > self.from;
        let Some(pblk) = to.filter(|_| in_range) else {
            return Ok(ControlFlow::Continue(()));
        };
        if self.above.contains(&pblk) || self.blocks_left == 0 {
            return Err(self.reader.corrupt(CorruptKind::MapCycle, pblk));
        }
        self.blocks_left -= 1;
        if levels == 0 {
            return self.data(pblk, Lblk(at as u32));
        }
        self.reader.check_run(pblk, 1)?;
        if self.nodes_left == 0 {
            return Ok(ControlFlow::Break(()));
        }
        self.nodes_left -= 1;
        if (self.each)(Mapped::Node(pblk)).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let buffer = self.reader.load(pblk)?;
        let content = buffer.read();
        self.above.push(pblk);
        for slot in 0..self.shape.per_block() {
            let child = map_pointer(content.data(), slot);
            let first = at + slot as u64 * self.shape.span(levels - 1);
            if self.pointer(child, levels - 1, first)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        self.above.pop();
        Ok(ControlFlow::Continue(()))
    }

    fn data(&mut self, pblk: Pblk, lblk: Lblk) -> Result<ControlFlow<()>> {
        if let Some(run) = &mut self.run
            && run.len < EXTENT_LEN_MAX
            && run.end() == u64::from(lblk.0)
            && run.pblk.0 + u64::from(run.len) == pblk.0
        {
            run.len += 1;
            return Ok(ControlFlow::Continue(()));
        }
        let ended = self.end_run();
        self.run = Some(Extent {
            lblk,
            len: 1,
            unwritten: false,
            pblk,
        });
        ended
    }

    fn end_run(&mut self) -> Result<ControlFlow<()>> {
        let Some(run) = self.run.take() else {
            return Ok(ControlFlow::Continue(()));
        };
        self.reader.check_run(run.pblk, u64::from(run.len))?;
        Ok((self.each)(Mapped::Run(run)))
    }
}
