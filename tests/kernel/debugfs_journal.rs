//! Journals that debugfs wrote, of kinds that no kernel of today writes any more (checksums of version
//! 2): our recovery against e2fsck's, block by block.

use crate::*;

/// Features of the file system, what debugfs opens the journal with, what the journal has then.
#[rustfmt::skip]
const KINDS: [(&str, &str, &[&str]); 7] = [
    ("^metadata_csum,^64bit", "jo", &[]),
    ("^metadata_csum,64bit", "jo", &["journal_64bit"]),
    ("^metadata_csum,^64bit", "jo -c -v 1", &["journal_checksum"]),
    ("metadata_csum,^64bit", "jo -c -v 2", &["journal_checksum_v2"]),
    ("metadata_csum,64bit", "jo -c -v 2", &["journal_checksum_v2", "journal_64bit"]),
    ("metadata_csum,^64bit", "jo -c -v 3", &["journal_checksum_v3"]),
    ("metadata_csum,64bit", "jo -c -v 3", &["journal_checksum_v3", "journal_64bit"]),
];

/// Blocks that a new image has free.
const FREE: u64 = 12_000;
const BLOCK: usize = 1024;

#[test]
fn journals_of_debugfs_are_recovered_as_e2fsck_does() {
    for (features, open, journal) in KINDS {
        one(features, open, journal)
            .with_context(|| format!("{features}, {open}"))
            .unwrap();
    }
}

fn one(features: &str, open: &str, journal: &[&str]) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let image = dir.path().join("image");
    let text = |path: &Path| path.to_str().map(str::to_owned).context("path");
    let path = text(&image)?;
    let args = ["-q", "-t", "ext4", "-b", "1024", "-J", "size=4", "-O"];
    oracle::run(
        "mke2fs",
        &[&args[..], &[features, &path, "16M"]].concat(),
        0,
    )?;
    let commands = dir.path().join("commands");
    std::fs::write(&commands, script(dir.path(), open)?)?;
    oracle::run("debugfs", &["-w", "-f", &text(&commands)?, &path], 0)?;
    let said = oracle::run("dumpe2fs", &["-h", &path], 0)?;
    let has = said.lines().find(|l| l.starts_with("Journal features"));
    for feature in journal {
        if !has.is_some_and(|line| line.split_whitespace().any(|word| word == *feature)) {
            bail!("debugfs wrote a journal without {feature}: {has:?}");
        }
    }
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    std::fs::copy(&image, &ours)?;
    std::fs::copy(&image, &theirs)?;
    let device = Arc::new(FileDevice::open(&ours, &OpenOptions::read_write())?);
    let fs = mount(Arc::clone(&device) as Arc<_>)?;
    fs.unmount()?;
    drop((fs, device));
    oracle::fsck(&ours)?;
    oracle::repair(&theirs)?;
    let (before, ours, theirs) = (blocks(&image)?, blocks(&ours)?, blocks(&theirs)?);
    let wrong = ours.chunks(BLOCK).zip(theirs.chunks(BLOCK));
    if let Some(at) = wrong.map(|(a, b)| a == b).position(|same| !same) {
        bail!("block {} differs from e2fsck's", FREE + at as u64);
    }
    if before == ours {
        bail!("nothing was replayed");
    }
    Ok(())
}

/// What debugfs does: transactions with blocks to escape, blocks written again, revoked, and revoked and
/// written again.
fn script(dir: &Path, open: &str) -> Result<String> {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut script = format!("{open}\n");
    for transaction in 0..12 {
        let count = rng.usize(1..30);
        let mut data = vec![0u8; count * BLOCK];
        rng.fill(&mut data);
        for block in data.chunks_mut(BLOCK * 3) {
            block[..4].copy_from_slice(&[0xc0, 0x3b, 0x39, 0x98]);
        }
        let file = dir.join(format!("data{transaction}"));
        std::fs::write(&file, data)?;
        let mut list: Vec<u64> = (0..60).map(|i| FREE + i).collect();
        rng.shuffle(&mut list);
        let text = |list: &[u64]| {
            let list: Vec<String> = list.iter().map(u64::to_string).collect();
            list.join(",")
        };
        script += &format!("jw -b {} {}\n", text(&list[..count]), file.display());
        if rng.bool() {
            rng.shuffle(&mut list);
            script += &format!("jw -r {}\n", text(&list[..rng.usize(1..8)]));
        }
    }
    Ok(script + "jc\n")
}

/// The blocks that were written through the journal.
fn blocks(image: &Path) -> Result<Vec<u8>> {
    let image = std::fs::read(image)?;
    let start = FREE as usize * BLOCK;
    let blocks = image.get(start..start + 60 * BLOCK);
    Ok(blocks.context("a short image")?.to_vec())
}
