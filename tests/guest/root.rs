//! A guest boots from an image, finds all that was in its source, writes to it, and leaves it clean.
use uext4_testkit::prelude::*;

use crate::{
    debian::{Debian, Source, describe_script},
    images::Home,
    is_asked_for,
    machine::{Guest, printed},
};
use sha2::{Digest, Sha256};

/// The first process, before anything is changed: the file system, without what is mounted in it, is as expected.
pub const COMPARE: &str = r#"
export PATH=/usr/sbin:/usr/bin
compare() {
  sh /run/describe.sh "$1" >/run/found
  if ! cmp -s /run/expected /run/found; then diff /run/expected /run/found | head -20; return 1; fi
  echo "$2: $(find "$1" -type f | wc -l)"
}
mkdir /run/tree
mount --bind / /run/tree
compare /run/tree "files that are as expected"
umount /run/tree
"#;

/// dpkg finds each file of its packages with its digest.
const DPKG: &str = r#"
dpkg --verify >/run/changed
if [ -s /run/changed ]; then head -20 /run/changed; exit 1; fi
echo "verified packages: $(dpkg-query -W | wc -l)"
"#;

/// The booted system: a writable root, no service that failed, and files that are written, renamed and removed.
const WRITE: &str = r#"
[ "$(cat /proc/1/comm)" = systemd ]
findmnt -no SOURCE,FSTYPE,OPTIONS / | grep '^/dev/vda *ext4 *rw'
failed=$(systemctl --failed --plain --no-legend)
[ -z "$failed" ] || { echo "$failed"; exit 1; }
head -c 500000 /dev/urandom >/root/new
mv /root/new /root/written
mkdir /root/directory
for n in $(seq 100); do echo $n >/root/directory/$n; done
rm /root/directory/1*
ln /root/written /root/directory/link
echo "written: $(sha256sum </root/written)"
"#;

fn boots(source: &Source, first: &str) -> Result<()> {
    let home = Home::new()?;
    home.mkfs("image", &source.from, &[])?;
    let image = home.path("image");
    let guest = Guest {
        disks: &[&image],
        files: &[&describe_script(), &source.expected],
        ..Guest::default()
    };
    let lines = guest.boot(&format!("{COMPARE}{first}"), WRITE)?;
    home.assert_clean("image")?;
    let fs = uext4::Filesystem::open(&image, &uext4::ImageOptions::read_only())?;
    let digest: String = Sha256::digest(fs.read("/root/written")?)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    ensure!(printed(&lines, "written")? == format!("{digest}  -"));
    ensure!(fs.read_dir("/root/directory")?.count() == 100 - 12 + 1);
    Ok(())
}

#[test]
fn an_image_of_an_archive_boots() -> Result<()> {
    require!(is_asked_for(), Ok(()));
    let debian = Debian::new()?;
    boots(&debian.archive()?, DPKG)
}

#[test]
fn an_image_of_three_layers_boots() -> Result<()> {
    require!(is_asked_for(), Ok(()));
    let debian = Debian::new()?;
    boots(&debian.container(false)?, "")
}

#[test]
fn images_of_fifty_thousand_files_boot() -> Result<()> {
    require!(is_asked_for(), Ok(()));
    let debian = Debian::new()?;
    let source = debian.container(true)?;
    boots(&source, "")?;
    boots(&debian.packed(&source)?, "")
}
