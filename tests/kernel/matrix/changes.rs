//! What we do to a tree that the kernel made.

use uext4_testkit::prelude::*;
use uext4_testkit::tree::names;

struct Changer<'f, F: FileSystem> {
    fs: &'f F,
    caller: Caller,
    root: F::Node,
}

const FILE: NewNode<'_> = NewNode {
    mode: 0o640,
    kind: NewKind::Regular,
};

/// Makes them all.
pub fn make<F: FileSystem>(fs: &F) -> Result<()> {
    let changer = Changer {
        fs,
        caller: Caller::root(),
        root: fs.root()?.clone(),
    };
    changer.names().context("names")?;
    changer.long().context("long")?;
    changer.deep().context("deep")?;
    changer.extents().context("extents")?;
    changer.sparse().context("sparse")?;
    changer.attributes().context("attributes")?;
    changer.links().context("links")?;
    changer.special().context("special")
}

impl<F: FileSystem> Changer<'_, F> {
    fn find(&self, path: &[u8]) -> Result<F::Node> {
        let mut node = self.root.clone();
        for name in path.split(|b| *b == b'/') {
            node = self.fs.lookup(&self.caller, &node, name)?;
        }
        Ok(node)
    }

    fn put(&self, dir: &F::Node, name: &[u8], data: &[u8]) -> Result<F::Node> {
        let node = self.fs.create(&self.caller, dir, name, &FILE)?;
        let mut at = 0;
        while at < data.len() {
            at += self.fs.write(&node, at as u64, &data[at..])?;
        }
        Ok(node)
    }

    fn names(&self) -> Result<()> {
        let (fs, who) = (self.fs, &self.caller);
        let dir = self.find(b"names")?;
        let other = self.find(b"target0")?;
        for (i, name) in names(fs, &dir, 1 << 20)?.iter().enumerate() {
            match i % 100 {
                0..20 => fs.unlink(who, &dir, name)?,
                20..25 => {
                    let to = [b"renamed-", &name[..]].concat();
                    fs.rename(who, &dir, name, &dir, &to, RenameFlags::empty())?;
                }
                25..30 => {
                    self.put(&dir, format!("new-{i}").as_bytes(), &[])?;
                }
                30 => fs.link(who, &other, &dir, format!("link-{i}").as_bytes())?,
                _ => {}
            }
        }
        Ok(())
    }

    fn long(&self) -> Result<()> {
        let dir = self.find(b"long")?;
        for (i, name) in names(self.fs, &dir, 1 << 20)?.iter().enumerate() {
            if i % 2 == 0 {
                self.fs.unlink(&self.caller, &dir, name)?;
            }
            let mut new = format!("{i}+").into_bytes();
            new.resize(255, b'+');
            self.put(&dir, &new, b"new")?;
        }
        Ok(())
    }

    /// The lower half moves up, and what was between moves below it.
    fn deep(&self) -> Result<()> {
        let (fs, who) = (self.fs, &self.caller);
        let top = self.find(b"deep")?;
        let middle = self.find(b"deep/d/d/d/d/d/d/d/d/d/d")?;
        fs.rename(
            who,
            &middle,
            b"d",
            &self.root,
            b"lower",
            RenameFlags::empty(),
        )?;
        let lower = self.find(b"lower/d/d/d")?;
        fs.rename(who, &top, b"d", &lower, b"upper", RenameFlags::empty())?;
        self.put(&self.find(b"lower/d/d/d/upper/d")?, b"g", b"below")
            .map(drop)
    }

    fn extents(&self) -> Result<()> {
        let file = self.find(b"extents")?;
        let block = u64::from(self.fs.statfs()?.block_size);
        let blocks = self.fs.getattr(&file)?.size / block;
        for i in (0..blocks).step_by(400) {
            self.fs.write(&file, i * block + 7, b"written by us")?;
            let hole = (i + 200) * block;
            self.fs
                .fallocate(&file, Fallocate::PunchHole, hole, 20 * block)?;
            match self
                .fs
                .fallocate(&file, Fallocate::Allocate, hole + 40 * block, 30 * block)
            {
                Err(e) if e == Errno::EOPNOTSUPP => {}
                done => done?,
            }
        }
        let size = with(|o: &mut SetAttr| o.size = Some(blocks / 3 * 2 * block + 11));
        self.fs.setattr(&self.caller, &file, &size)?;
        self.fs.write(&file, blocks * block, b"end")?;
        Ok(())
    }

    fn sparse(&self) -> Result<()> {
        let file = self.find(b"sparse")?;
        let size = self.fs.getattr(&file)?.size;
        self.fs
            .write(&file, size - 20, b"twenty before the end")
            .map(drop)
            .or_else(|e| if e == Errno::EFBIG { Ok(()) } else { Err(e) })?;
        self.fs.write(&file, size / 5 * 4, &[9; 30_000])?;
        self.fs
            .fallocate(&file, Fallocate::PunchHole, size / 3 - 100_000, 200_000)?;
        Ok(())
    }

    fn attributes(&self) -> Result<()> {
        let who = &self.caller;
        for n in 0..4 {
            let file = self.find(format!("attributes{n}").as_bytes())?;
            for (i, name) in self.fs.listxattr(who, &file)?.iter().enumerate() {
                if i % 2 == 0 {
                    self.fs.removexattr(who, &file, name)?;
                }
            }
            for i in 0..40_usize {
                let (name, value) = (format!("user.new{i}"), vec![i as u8; i * 7]);
                let flags = XattrFlags::empty();
                match self.fs.setxattr(who, &file, name.as_bytes(), &value, flags) {
                    Err(e) if e == Errno::ENOSPC => break,
                    done => done?,
                }
            }
        }
        Ok(())
    }

    fn links(&self) -> Result<()> {
        let dir = self.find(b"links")?;
        let file = self.find(b"linked")?;
        for (i, name) in names(self.fs, &dir, 1 << 20)?.iter().enumerate() {
            if i % 2 == 0 {
                self.fs.unlink(&self.caller, &dir, name)?;
            }
        }
        for i in 0..100 {
            let name = format!("again{i}");
            self.fs.link(&self.caller, &file, &dir, name.as_bytes())?;
        }
        Ok(())
    }

    fn special(&self) -> Result<()> {
        let (fs, who) = (self.fs, &self.caller);
        let dir = self.find(b"special")?;
        for n in [0, 1, 59, 60, 61, 100, 160, 200, 5000_usize] {
            let file = self.find(format!("special/file{n}").as_bytes())?;
            fs.write(&file, n as u64 / 2, &vec![7; n / 2 + 30])?;
            let sub = self.find(format!("special/dir{n}").as_bytes())?;
            for i in 0..6 {
                self.put(&sub, format!("more{i}").as_bytes(), &vec![3; i * 50])?;
            }
        }
        fs.unlink(who, &dir, b"link61")?;
        let long = vec![b'l'; 700];
        for (name, target) in [(&b"new1"[..], &long[..59]), (b"new2", &long)] {
            let new = NewNode {
                mode: 0o777,
                kind: NewKind::Symlink(target),
            };
            fs.create(who, &dir, name, &new)?;
        }
        let (fifo, from) = (b"fifo", RenameFlags::EXCHANGE);
        fs.rename(who, &dir, fifo, &dir, b"dir5000", from)?;
        Ok(())
    }
}
