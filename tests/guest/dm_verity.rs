//! The hash tree that `mkfs --verity` puts behind an image, and fs-verity of `--fsverity`: the guest's kernel reads all with them, and
//! finds a bit that was changed.
use uext4_testkit::prelude::*;

use crate::{
    debian::{Debian, Source, describe_script},
    images::Home,
    is_asked_for,
    machine::Guest,
    root::COMPARE,
};
use uext4_testkit::program::run;

/// A file without fs-verity.
const PLAIN: &str = "usr/bin/find";

/// The disks: /dev/vdb as it was made, /dev/vdc with a bit changed in `PLAIN`, /dev/vdd in `PROTECTED`.
const COMMANDS: &str = r#"
export DM_DISABLE_UDEV=1
mkdir /run/whole /run/broken /run/direct
open() { veritysetup open "$1" "$2" "$1" "$3" --hash-offset="$OFFSET"; }
wrong=$(echo "$ROOT" | tr 0-9a-f 1-9a-f0)
open /dev/vdb wrong "$wrong"
if mount -o ro /dev/mapper/wrong /run/whole; then echo "mounted with a wrong root hash"; exit 1; fi
veritysetup close wrong

open /dev/vdb whole "$ROOT"
mount -o ro /dev/mapper/whole /run/whole
compare /run/whole "files read through dm-verity"
echo "bytes read through dm-verity: $(cat /dev/mapper/whole | wc -c)"
cd /run/whole
xargs -d '\n' fsverity measure </run/names >/run/measured
cmp /run/measured /run/digests
echo "files measured by fs-verity: $(wc -l </run/measured)"
cd /
umount /run/whole
veritysetup close whole

# fails FILE: reading it is an I/O error
fails() {
  if cat "$1" >/dev/null 2>/run/error; then echo "read: $1"; exit 1; fi
  cat /run/error
  grep -q 'Input/output error' /run/error
}
open /dev/vdc broken "$ROOT"
mount -o ro /dev/mapper/broken /run/broken
fails "/run/broken/$PLAIN"
cd /run/broken
find . -type f ! -path "./$PLAIN" -print0 | xargs -0 cat >/dev/null
cd /
umount /run/broken
veritysetup close broken
dmesg | grep -m 1 "verity: .*: data block $BLOCK is corrupted"

# Without dm-verity the same file is read, and only its digest is another; a file with fs-verity is not read.
mount -o ro /dev/vdc /run/direct
if compare /run/direct >/run/differences; then echo "a changed bit was not found"; exit 1; fi
[ "$(grep -c '^[<>]' /run/differences)" = 2 ]
[ "$(grep -c "^[<>] [0-9a-f]*  ./$PLAIN$" /run/differences)" = 2 ]
umount /run/direct
mount -o ro /dev/vdd /run/direct
fails "/run/direct/$PROTECTED"
dmesg | grep -m 1 'fs-verity.*CORRUPTED'
"#;

/// The files of a report with fs-verity and their digests, as the lines that `fsverity measure` prints. `fsverity digest` prints the same.
fn protected(report: &serde_json::Value, source: &Source) -> Result<(String, String)> {
    let files = report["fsverity"].as_array().context("fsverity")?;
    let (mut names, mut digests) = (String::new(), String::new());
    for file in files {
        let path = file["path"].as_str().context("a path")?;
        let path = path.trim_start_matches('/');
        names += &format!("{path}\n");
        digests += &format!("{} {path}\n", file["digest"].as_str().context("a digest")?);
    }
    let mut fsverity = Command::new("fsverity");
    let theirs = run(fsverity
        .arg("digest")
        .args(names.lines())
        .current_dir(&source.tree))?;
    ensure!(theirs.out == digests, "other digests than fsverity's");
    Ok((names, digests))
}

/// Copies an image with one bit of the first block of a file changed. Returns the number of the block.
fn flip(image: &Path, copy: &Path, file: &str) -> Result<u64> {
    fs::copy(image, copy)?;
    let mut debugfs = Command::new("debugfs");
    debugfs.args(["-R", &format!("bmap /{file} 0")]).arg(image);
    let block: u64 = run(&mut debugfs)?.out.trim().parse()?;
    let at = block * 4096 + 1000;
    let copy = File::options().read(true).write(true).open(copy)?;
    let mut byte = [0];
    copy.read_exact_at(&mut byte, at)?;
    copy.write_all_at(&[byte[0] ^ 0x10], at)?;
    Ok(block)
}

#[test]
fn a_changed_bit_is_an_error() -> Result<()> {
    require!(is_asked_for(), Ok(()));
    let (debian, home) = (Debian::new()?, Home::new()?);
    let source = debian.archive()?;
    home.mkfs("root", &source.from, &[])?;
    let report = home.mkfs("whole", &source.from, &["--verity", "--fsverity", "*.so*"])?;
    let (names, digests) = protected(&report, &source)?;
    let last = names.lines().last().context("files with fs-verity")?;
    let paths = ["root", "whole", "broken", "direct", "names", "digests"].map(|n| home.path(n));
    let [root, whole, broken, direct, names_file, digests_file] = &paths;
    fs::write(names_file, &names)?;
    fs::write(digests_file, &digests)?;
    let block = flip(whole, broken, PLAIN)?;
    flip(whole, direct, last)?;
    let hash = report["verity"]["root_hash"].as_str().context("a hash")?;
    let offset = &report["verity"]["hash_offset"];
    let verify = |image: &Path| {
        let mut veritysetup = Command::new("veritysetup");
        veritysetup.arg("verify").args([image, image]);
        run(veritysetup.args([hash, &format!("--hash-offset={offset}")]))
    };
    verify(whole)?;
    ensure!(verify(broken).is_err() && verify(direct).is_err());

    let guest = Guest {
        disks: &[root, whole, broken, direct],
        files: &[
            &describe_script(),
            &source.expected,
            names_file,
            digests_file,
        ],
        modules: "dm-verity",
    };
    let values =
        format!("ROOT={hash} OFFSET={offset} PLAIN={PLAIN} BLOCK={block} PROTECTED='{last}'");
    guest.boot(&format!("{values}\n{COMPARE}{COMMANDS}"), "true")?;
    home.assert_clean("root")
}
