//! A kernel with quotas and uext4 change an image in turn: usage stays right, and the same limits refuse the same.
use uext4_ext4::{EnforcedQuotas, QuotaLimits, QuotaSettings};
use uext4_ondisk::QuotaKind;
use uext4_testkit::{
    mke2fs::{self, mount},
    prelude::*,
};
use uext4_vfs::attr::SetAttr;
use uext4_vfs::io::IoFlags;

use crate::{is_asked_for, machine::Guest};

/// What user 1000 can have: bytes, and inodes besides the first file.
const COMMANDS: &str = r#"
mkdir -p /m /etc
mount -t ext4 -o usrquota,grpquota /dev/vda /m
printf 'root:x:0:0::/:/bin/sh\nu:x:1000:1000::/:/bin/sh\n' >/etc/passwd
cat >/as_user <<'END'
dd if=/dev/zero of=/m/open/first bs=4096 count=40 2>/dev/null || true
echo "bytes: $(stat -c %s /m/open/first)"
made=0
for i in 1 2 3 4 5 6 7 8 9; do if touch /m/open/$i; then made=$i; fi; done 2>/dev/null
echo "inodes: $made"
END
su u -c 'sh /as_user'
mkdir /m/by_kernel
for id in 5 600 70000; do
  dd if=/dev/urandom of=/m/by_kernel/$id bs=1024 count=$((id % 97)) 2>/dev/null
  chown $id:$((id + 1)) /m/by_kernel/$id
done
chown 4242:4242 /m/before/0
rm /m/before/1
umount /m
"#;

fn limits() -> QuotaLimits {
    QuotaLimits {
        space_hard: 80 << 10,
        inodes_hard: 6,
        ..QuotaLimits::default()
    }
}

/// A directory with files of several owners.
fn fill(fs: &Ext4, name: &str) {
    let root = Caller::root();
    let top = fs.top();
    let dir = fs.make(&top, &name, &DIR);
    for i in 0..30u32 {
        let file = fs.make(&dir, &i.to_string(), &FILE);
        fs.put(&file, 0, &vec![1; 3000 * i as usize]);
        let owner = SetAttr {
            uid: Some(i * 1001),
            gid: Some(i),
            ..SetAttr::default()
        };
        fs.setattr(&root, &file, &owner).expect("chown");
    }
}

fn used(fs: &Ext4, id: u32) -> (u64, u64) {
    let report = fs.quota(QuotaKind::User).expect("quotas");
    let found = report.entries.iter().find(|entry| entry.id == id);
    found.map_or((0, 0), |entry| (entry.space, entry.inodes))
}

/// As the guest's user does: bytes of the first file, and how many more it can make.
fn as_user(fs: &Ext4) -> (usize, usize) {
    let user = Caller::user(1000, 1000);
    let root = Caller::root();
    let dir = fs.lookup(&root, &fs.top(), b"open").expect("found");
    let first = fs.create(&user, &dir, b"first", &FILE).expect("create");
    let mut bytes = 0;
    for _ in 0..40 {
        let written = fs.write_with(&first, bytes as u64, &[0; 4096], IoFlags::NO_RESERVE);
        bytes += written.map_or(0, |w| w.len);
    }
    let names = 1..10u32;
    let made = names.filter(|i| {
        fs.create(&user, &dir, i.to_string().as_bytes(), &FILE)
            .is_ok()
    });
    (bytes, made.count())
}

#[test]
fn a_kernel_and_uext4_change_it_in_turn() {
    if !is_asked_for() {
        return;
    }
    for args in ["-O quota -b 4096", "-O quota,project -b 1024 -I 256"] {
        let image = image("64M", args);
        let options = || MountOptions {
            quotas: EnforcedQuotas {
                user: true,
                ..EnforcedQuotas::default()
            },
            ..MountOptions::default()
        };
        let fs = mount(&image, options());
        fill(&fs, "before");
        let open = fs.make(&fs.top(), &"open", &DIR);
        let mode = SetAttr {
            mode: Some(0o777),
            ..SetAttr::default()
        };
        fs.setattr(&Caller::root(), &open, &mode).expect("chmod");
        drop(open);
        fs.set_quota(QuotaKind::User, &QuotaSettings::Limits(1000, limits()))
            .expect("limits");
        image.end(fs);
        let copy = image.with_extension("copy");
        std::fs::copy(&*image, &copy).expect("copies");

        let guest = Guest {
            disks: &[&image],
            modules: "ext4 quota_v2",
            ..Guest::default()
        };
        let lines = guest.run(COMMANDS).expect("the guest");
        mke2fs::fsck(&image);
        let fs = mount(&copy, options());
        let (bytes, inodes) = as_user(&fs);
        assert_eq!(
            lines,
            [format!("bytes: {bytes}"), format!("inodes: {inodes}")]
        );
        let ours = used(&fs, 1000);
        fs.unmount().expect("unmount");
        drop(fs);
        mke2fs::fsck(&copy);

        let fs = mount(&image, options());
        assert!(!fs.volume.is_read_only());
        assert_eq!(used(&fs, 1000), ours);
        assert_eq!(used(&fs, 4242).1, 1);
        fill(&fs, "after");
        image.end(fs);
    }
}
