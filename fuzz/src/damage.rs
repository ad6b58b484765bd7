//! Damage that a script describes.

use crate::base::{Base, bases};
use crate::input::Input;
use crate::work;
use fastrand::Rng;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once};
use uext4_ondisk::{GroupNo, Ino, InodeFlags, JournalDevice};
use uext4_testkit::damage::{DamagedImage, Target, mutate};

/// What is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Superblock,
    Groups,
    Inode,
    Directory,
    Mapping,
    Attribute,
    Inline,
    Other,
    /// As the mutator of the verifier's tests does.
    Mutator,
}

/// Fields of the superblock that decide what follows: sizes of blocks and clusters, blocks of a group, state, what errors do, revision,
/// first inode and inode size, features, hash, size of descriptors, first meta group, checksum.
const FIELDS: [usize; 24] = [
    0x18, 0x1c, 0x20, 0x28, 0x3a, 0x3c, 0x4c, 0x54, 0x58, 0x5c, 0x5d, 0x60, 0x61, 0x62, 0x64, 0x65,
    0xfc, 0xfe, 0x104, 0x108, 0x15c, 0x160, 0x174, 0x175,
];

impl Kind {
    pub const ALL: [Kind; 9] = [
        Kind::Superblock,
        Kind::Groups,
        Kind::Inode,
        Kind::Directory,
        Kind::Mapping,
        Kind::Attribute,
        Kind::Inline,
        Kind::Other,
        Kind::Mutator,
    ];

    fn has(self, target: &Target) -> bool {
        match target {
            Target::Linear { .. } | Target::Dx { .. } => self == Kind::Directory,
            Target::Extents { .. } | Target::Indirect { .. } => self == Kind::Mapping,
            Target::Xattr { .. } | Target::InodeXattr { .. } | Target::Value { .. } => {
                self == Kind::Attribute
            }
            Target::InlineDir { .. } => self == Kind::Inline,
            _ => self == Kind::Other,
        }
    }

    /// Whether an image has it at all.
    fn is_in(self, base: &Base) -> bool {
        match self {
            Kind::Superblock | Kind::Groups | Kind::Inode | Kind::Mutator => true,
            Kind::Mapping => true,
            Kind::Inline => !inline_inodes(&base.image).is_empty(),
            _ => base.targets.iter().any(|target| self.has(target)),
        }
    }
}

thread_local! {
    /// The mutator panics where earlier damage leaves it nothing to read.
    static MAY_PANIC: Cell<bool> = const { Cell::new(false) };
}

/// Lets the mutator panic: the hook of libFuzzer would end the process.
fn allow_panics_of_the_mutator() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let abort = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !MAY_PANIC.get() {
                abort(info);
            }
        }));
    });
}

/// Damages an image and works on it.
pub fn run(data: &[u8], kinds: &[Kind]) {
    allow_panics_of_the_mutator();
    let mut input = Input::new(data);
    let suitable = bases()
        .iter()
        .filter(|base| kinds.iter().any(|kind| kind.is_in(base)));
    let suitable: Vec<&Base> = suitable.collect();
    let Some(base) = input.choose(&suitable) else {
        return;
    };
    let mut image = base.image.clone();
    for _ in 0..input.u8() % 8 {
        let kind = *input.choose(kinds).unwrap_or(&Kind::Mutator);
        MAY_PANIC.set(true);
        let done = catch_unwind(AssertUnwindSafe(|| {
            damage(&mut input, &mut image, base, kind)
        }));
        MAY_PANIC.set(false);
        if done.is_err() {
            break;
        }
    }
    // As that of a device with a journal, which it may say it is.
    let _ = JournalDevice::parse(&image.bytes[1024..2048]);
    work::leaves_no_damage(&Arc::new(base.device(&image.bytes)), &mut input);
}

fn damage(input: &mut Input<'_>, image: &mut DamagedImage, base: &Base, kind: Kind) {
    match kind {
        Kind::Mutator => {
            let mut rng = Rng::with_seed(u64::from(input.u32()));
            mutate(&mut rng, image, &base.targets);
        }
        Kind::Superblock => {
            match input.choose(&FIELDS) {
                Some(at) if input.u8().is_multiple_of(2) => image.bytes[1024 + at] = input.u8(),
                _ => change(input, &mut image.bytes[1024..2048]),
            }
            if !input.u8().is_multiple_of(16) {
                image.fix_super();
            }
        }
        Kind::Groups => {
            let group = GroupNo(input.below(image.geo().groups_count as usize) as u32);
            let desc = image.desc(group);
            let range = match input.u8() % 4 {
                0 => image.block(desc.block_bitmap.0),
                1 => image.block(desc.inode_bitmap.0),
                _ => image.desc_at(group),
            };
            change(input, &mut image.bytes[range]);
            image.fix_bitmaps(group);
        }
        Kind::Inode => of_inode(input, image, &base.image.used()),
        Kind::Inline if !input.u8().is_multiple_of(4) => {
            of_inode(input, image, &inline_inodes(&base.image))
        }
        Kind::Mapping if input.u8().is_multiple_of(2) => {
            let files = base.image.used();
            let files: Vec<Ino> = files
                .into_iter()
                .filter(|ino| ino.0 > 11 || ino.0 == 2)
                .collect();
            root_of_mapping(input, image, &files);
        }
        kind => {
            let targets: Vec<&Target> = base.targets.iter().filter(|t| kind.has(t)).collect();
            if let Some(target) = input.choose(&targets) {
                let range = place(image, target);
                change(input, &mut image.bytes[range]);
                if !input.u8().is_multiple_of(16) {
                    image.fix(target);
                }
            }
        }
    }
}

/// Where the bytes of a target are.
fn place(image: &DamagedImage, target: &Target) -> std::ops::Range<usize> {
    match *target {
        Target::InlineDir { ino } | Target::InodeXattr { ino } | Target::Value { ino } => {
            image.inode_at(ino)
        }
        Target::Linear { block, .. }
        | Target::Dx { block, .. }
        | Target::Extents { block, .. }
        | Target::Indirect { block, .. }
        | Target::Xattr { block }
        | Target::Link { block, .. }
        | Target::JournalSuper { block }
        | Target::OrphanFile { block, .. }
        | Target::Mmp { block }
        | Target::Quota { block, .. } => image.block(block),
    }
}

fn inline_inodes(image: &DamagedImage) -> Vec<Ino> {
    let is_inline = |ino: &Ino| image.inode(*ino).flags.contains(InodeFlags::INLINE_DATA);
    image.used().into_iter().filter(is_inline).collect()
}

fn of_inode(input: &mut Input<'_>, image: &mut DamagedImage, inodes: &[Ino]) {
    let Some(&ino) = input.choose(inodes) else {
        return;
    };
    let range = image.inode_at(ino);
    change(input, &mut image.bytes[range]);
    if !input.u8().is_multiple_of(16) {
        image.fix_inode(ino);
    }
}

/// Changes the root of a tree of extents, or the first pointers.
fn root_of_mapping(input: &mut Input<'_>, image: &mut DamagedImage, inodes: &[Ino]) {
    let Some(&ino) = input.choose(inodes) else {
        return;
    };
    let start = image.inode_at(ino).start + 0x28;
    change(input, &mut image.bytes[start..start + 60]);
    image.fix_inode(ino);
}

/// Changes a few bytes somewhere: most structures have what matters at their beginning, some have a tail.
fn change(input: &mut Input<'_>, bytes: &mut [u8]) {
    let len = bytes.len();
    let at = match input.u8() % 8 {
        0..=2 => input.below(len.min(64)),
        3 => len - 1 - input.below(len.min(16)),
        _ => input.below(len),
    };
    let kind = input.u8();
    let rest = &mut bytes[at..];
    match kind % 4 {
        0 => {
            let new = input.bytes(usize::from(kind / 4 % 8) + 1);
            let len = new.len().min(rest.len());
            rest[..len].copy_from_slice(&new[..len]);
        }
        1 => rest[0] ^= 1 << (kind / 4 % 8),
        2 => rest[0] = rest[0].wrapping_add((kind / 4) as i8 as u8),
        _ => {
            let len = rest.len().min(usize::from(kind / 4 % 4) * 2 + 1);
            let byte = if kind & 0x40 == 0 { 0 } else { 0xff };
            rest[..len].fill(byte);
        }
    }
}
