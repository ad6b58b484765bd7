//! The images that are damaged: made once, of every shape.

use std::sync::{Arc, OnceLock};
use uext4_block::{BlockDevice, MemoryDevice};
use uext4_ext4::Ext4;
use uext4_ondisk::RawSuperblock;
use uext4_testkit::damage::{DamagedImage, Target, targets_of};
use uext4_testkit::image::{mke2fs, mount};
use uext4_testkit::operation::{Op, apply};
use uext4_vfs::attr::{RenameFlags, XattrFlags};
use uext4_vfs::io::Fallocate;
use uext4_vfs::{Caller, FileSystem};
use zerocopy::FromBytes;

/// An image, and what has a block of its own in it.
pub struct Base {
    pub image: DamagedImage,
    pub targets: Vec<Target>,
    device: MemoryDevice,
}

impl Base {
    /// Of the bytes of an image.
    pub fn new(bytes: &[u8]) -> Base {
        let image = DamagedImage::new(bytes.to_vec());
        Base {
            targets: targets_of(&image),
            image,
            device: MemoryDevice::from_bytes(bytes),
        }
    }

    /// A device with other bytes: a copy of the image's, and what differs.
    pub fn device(&self, bytes: &[u8]) -> MemoryDevice {
        let device = self.device.clone();
        let all = bytes.chunks(CHUNK).zip(self.image.bytes.chunks(CHUNK));
        for (number, (new, old)) in (0u64..).zip(all) {
            if new != old {
                let written = device.write_at(number * CHUNK as u64, new);
                written.expect("within the device");
            }
        }
        device
    }
}

const CHUNK: usize = 4096;

/// Options of mke2fs, and MiB.
const SHAPES: [(&str, u64); 16] = [
    ("-t ext4 -b 1024 -N 128 -J size=1", 3),
    ("-t ext4 -b 1024 -N 128 -O ^has_journal", 2),
    (
        "-t ext4 -b 1024 -N 128 -g 1024 -O ^metadata_csum,uninit_bg,^has_journal",
        2,
    ),
    ("-t ext2 -b 1024 -N 128", 2),
    ("-t ext3 -b 1024 -N 128 -I 128 -J size=1", 3),
    (
        "-t ext4 -b 1024 -N 128 -I 512 -O inline_data,^has_journal",
        2,
    ),
    (
        "-t ext4 -b 4096 -N 128 -I 1024 -O inline_data,^has_journal,^metadata_csum",
        4,
    ),
    (
        "-t ext4 -b 1024 -N 128 -O ea_inode,large_dir,^has_journal",
        2,
    ),
    (
        "-t ext4 -b 1024 -N 128 -O ea_inode,inline_data,^metadata_csum,^has_journal",
        2,
    ),
    (
        "-t ext4 -b 1024 -N 128 -g 1024 -O orphan_file,meta_bg,^resize_inode -J size=1",
        3,
    ),
    (
        "-t ext4 -b 1024 -N 128 -g 1024 -O sparse_super2,^has_journal",
        2,
    ),
    ("-t ext4 -b 1024 -N 128 -O quota,project,^has_journal", 2),
    ("-t ext4 -b 1024 -N 128 -O mmp,^has_journal", 2),
    ("-O none -b 1024 -N 128 -I 128", 2),
    (
        "-t ext4 -b 1024 -N 128 -O ^filetype,^dir_nlink,^huge_file,^flex_bg,^has_journal",
        2,
    ),
    ("-t ext4 -b 2048 -N 128 -O ^extent,^64bit,^has_journal", 4),
];

/// The images, all of which mke2fs makes and the engine fills when one is first asked for.
pub fn bases() -> &'static [Base] {
    static BASES: OnceLock<Vec<Base>> = OnceLock::new();
    BASES.get_or_init(|| {
        let made = (0..).zip(&SHAPES).map(|(number, (options, mib))| {
            make(options, *mib, number).unwrap_or_else(|why| panic!("{options}: {why:#}"))
        });
        made.collect()
    })
}

fn make(options: &str, mib: u64, number: u8) -> anyhow::Result<Base> {
    let device = Arc::new(mke2fs(options, mib << 20)?);
    hash_by(&device, number)?;
    // One that is not mounted is damaged as mke2fs made it.
    if let Ok(fs) = mount(Arc::clone(&device) as Arc<dyn BlockDevice>) {
        if !fs.volume.is_read_only() {
            fill(&fs);
            if options.contains("large_dir") {
                fill_directory(&fs);
            }
        }
        fs.unmount()?;
    }
    Ok(Base::new(&device.snapshot()))
}

/// Sets the hash of directories: each of the versions, of signed bytes and of unsigned.
fn hash_by(device: &MemoryDevice, number: u8) -> anyhow::Result<()> {
    let mut sb = [0; 1024];
    device.read_at(1024, &mut sb)?;
    if let Ok(raw) = RawSuperblock::mut_from_bytes(&mut sb) {
        raw.def_hash_version = number % 3;
        raw.flags.set(1 << (number / 3 % 2));
        raw.update_checksum();
    }
    device.write_at(1024, &sb)?;
    Ok(())
}

/// Names of one file, so many that the tree of a directory has two levels.
fn fill_directory(fs: &Ext4) {
    for i in 0..450 {
        let name = format!("dir/{i}{}", "l".repeat(235));
        let (old, new) = (b"small/a".to_vec(), name.into_bytes());
        drop(apply(fs, &Op::Link { old, new }));
    }
}

/// A bit of every structure that the image can have: what it cannot have is left out.
pub fn fill(fs: &Ext4) {
    let path = |text: &str| text.as_bytes().to_vec();
    let done = |op: Op| drop(apply(fs, &op));
    done(Op::Mkdir {
        path: path("dir"),
        mode: 0o755,
    });
    for i in 0..60 {
        let path = format!("dir/{i}{}", "n".repeat(30)).into_bytes();
        done(Op::Create { path, mode: 0o644 });
    }
    done(Op::Mkdir {
        path: path("small"),
        mode: 0o755,
    });
    done(Op::Create {
        path: path("small/a"),
        mode: 0o644,
    });
    done(Op::Link {
        old: path("small/a"),
        new: path("small/b"),
    });
    done(Op::Symlink {
        path: path("fast"),
        target: path("target"),
    });
    done(Op::Symlink {
        path: path("slow"),
        target: vec![b's'; 200],
    });
    for (name, len) in [("file", 700), ("tiny", 40), ("value", 100)] {
        done(Op::Create {
            path: path(name),
            mode: 0o644,
        });
        done(Op::Append {
            path: path(name),
            data: vec![7; len],
        });
    }
    for at in (0..12).map(|i| i * 3 * 1024) {
        let data = vec![at as u8; 1024];
        done(Op::Write {
            path: path("file"),
            at,
            data,
            direct: false,
        });
    }
    // Into the second level of pointer blocks.
    done(Op::Write {
        path: path("file"),
        at: 300 << 10,
        data: vec![9; 100],
        direct: false,
    });
    done(Op::Fallocate {
        path: path("file"),
        what: Fallocate::Allocate,
        at: 400 << 10,
        len: 20 << 10,
    });
    let long = [
        (&b"user.small"[..], 5),
        (b"user.large", 600),
        (b"user.huge", 3000),
    ];
    for (name, len) in long {
        let value = vec![b'v'; len];
        done(Op::SetXattr {
            path: path("value"),
            name: name.to_vec(),
            value,
        });
    }
    done(Op::SetXattr {
        path: path("tiny"),
        name: path("user.x"),
        value: path("1"),
    });
    let acl = [
        2, 0, 0, 0, 1, 0, 6, 0, 0xff, 0xff, 0xff, 0xff, 2, 0, 4, 0, 9, 0, 0, 0, 4, 0, 4, 0, 0xff,
        0xff, 0xff, 0xff, 0x10, 0, 6, 0, 0xff, 0xff, 0xff, 0xff, 0x20, 0, 4, 0, 0xff, 0xff, 0xff,
        0xff,
    ];
    if let Ok(node) = uext4_testkit::operation::find(fs, b"value") {
        let name = b"system.posix_acl_access";
        let _ = fs.setxattr(&Caller::root(), &node, name, &acl, XattrFlags::empty());
    }
    done(Op::Unlink {
        path: format!("dir/7{}", "n".repeat(30)).into_bytes(),
        keep: false,
    });
    done(Op::Rename {
        old: path("small/b"),
        new: path("c"),
        flags: RenameFlags::empty(),
    });
}
