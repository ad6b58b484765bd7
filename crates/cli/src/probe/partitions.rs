//! The tables of GPT (UEFI specification, chapter 5) and MBR.

use super::{HEAD_BYTES, in_head, read};
use std::fs::File;
use std::io;
use uuid::Uuid;

/// Most partitions that are read of a table.
const PARTITIONS_MAX: usize = 256;
const SECTOR: u64 = 512;

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number, as in the name of its device.
    pub number: u32,
    /// Where it starts, in bytes.
    pub start: u64,
    /// Its bytes.
    pub len: u64,
    /// What the table says that it is for.
    pub kind: String,
    /// What it holds.
    pub holds: Option<&'static str>,
}

/// Partitions of a file or device; none without a table.
///
/// # Errors
/// It can't be read.
pub fn find(file: &File) -> io::Result<Vec<Partition>> {
    let mut found = gpt(file)?;
    if found.is_empty() {
        found = mbr(file)?;
    }
    for partition in &mut found {
        partition.holds = in_head(&read(file, partition.start, HEAD_BYTES)?);
    }
    Ok(found)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

fn gpt(file: &File) -> io::Result<Vec<Partition>> {
    let head = read(file, 0, 8192)?;
    for sector in [SECTOR, 4096] {
        let header = head.get(sector as usize..).unwrap_or_default();
        if !header.starts_with(b"EFI PART") {
            continue;
        }
        let fields = (u64_at(header, 72), u32_at(header, 80), u32_at(header, 84));
        let (Some(at), Some(count), Some(size @ 128..=4096)) = fields else {
            continue;
        };
        let size = size as usize;
        let count = (count as usize).min(PARTITIONS_MAX);
        let table = read(file, at.saturating_mul(sector), count * size)?;
        let entries = (1..).zip(table.chunks_exact(size));
        return Ok(entries
            .filter_map(|(number, entry)| gpt_entry(number, entry, sector))
            .collect());
    }
    Ok(Vec::new())
}

fn gpt_entry(number: u32, entry: &[u8], sector: u64) -> Option<Partition> {
    let kind = Uuid::from_bytes_le(*entry.first_chunk()?);
    let (first, last) = (u64_at(entry, 32)?, u64_at(entry, 40)?);
    if kind.is_nil() || last < first {
        return None;
    }
    Some(Partition {
        number,
        start: first.checked_mul(sector)?,
        len: (last - first).checked_add(1)?.checked_mul(sector)?,
        kind: gpt_kind(&kind),
        holds: None,
    })
}

/// Types that are often met.
fn gpt_kind(kind: &Uuid) -> String {
    let known = match kind.as_u128() >> 96 {
        0x0fc6_3daf => "Linux",
        0xc12a_7328 => "EFI system",
        0x2168_6148 => "BIOS boot",
        0x0657_fd6d => "Linux swap",
        0xe6d6_d379 => "Linux LVM",
        0xa19d_880f => "Linux RAID",
        0x4f68_bce3 => "Linux root (x86-64)",
        0xb921_b045 => "Linux root (arm64)",
        0x933a_c7e1 => "Linux home",
        0xebd0_a0a2 => "Microsoft data",
        0xe3c9_e316 => "Microsoft reserved",
        _ => return kind.to_string(),
    };
    known.to_owned()
}

/// An entry of an MBR: type, first sector, sectors.
type Entry = (u8, u64, u64);

fn mbr_entries(sector: &[u8]) -> Vec<Option<Entry>> {
    let table = match sector.get(510..512) {
        Some(b"\x55\xaa") => &sector[446..510],
        _ => return Vec::new(),
    };
    let entry = |entry: &[u8]| {
        let (kind, first, len) = (entry[4], u32_at(entry, 8)?, u32_at(entry, 12)?);
        // A boot sector has code there.
        let is_entry = entry[0] & 0x7f == 0 && kind != 0 && len != 0;
        is_entry.then_some((kind, first.into(), len.into()))
    };
    table.chunks_exact(16).map(entry).collect()
}

fn mbr(file: &File) -> io::Result<Vec<Partition>> {
    let mut found = Vec::new();
    let mut extended = None;
    for (number, entry) in (1..).zip(mbr_entries(&read(file, 0, 512)?)) {
        let Some(entry @ (kind, first, _)) = entry else {
            continue;
        };
        if is_extended(kind) {
            extended = extended.or(Some(first));
        }
        found.push(mbr_partition(number, 0, entry));
    }
    if let Some(base) = extended {
        logical(file, base, &mut found)?;
    }
    Ok(found)
}

/// Logical partitions: a chain of tables, each of a partition and the next table.
fn logical(file: &File, base: u64, found: &mut Vec<Partition>) -> io::Result<()> {
    let mut at = base;
    for number in 5..PARTITIONS_MAX as u32 {
        let entries = mbr_entries(&read(file, at * SECTOR, 512)?);
        let mut entries = entries.into_iter().flatten();
        let Some(entry) = entries.next() else {
            break;
        };
        found.push(mbr_partition(number, at, entry));
        match entries.next() {
            Some((kind, next, _)) if is_extended(kind) && next != 0 => at = base + next,
            _ => break,
        }
    }
    Ok(())
}

fn mbr_partition(number: u32, base: u64, (kind, first, len): Entry) -> Partition {
    Partition {
        number,
        start: (base + first) * SECTOR,
        len: len * SECTOR,
        kind: mbr_kind(kind),
        holds: None,
    }
}

const fn is_extended(kind: u8) -> bool {
    matches!(kind, 0x05 | 0x0f | 0x85)
}

fn mbr_kind(kind: u8) -> String {
    let known = match kind {
        0x83 => "Linux",
        0x82 => "Linux swap",
        0x8e => "Linux LVM",
        0xfd => "Linux RAID",
        0x05 | 0x0f | 0x85 => "extended",
        0x07 => "NTFS or exFAT",
        0x01 | 0x04 | 0x06 | 0x0e => "FAT16",
        0x0b | 0x0c => "FAT32",
        0xee => "GPT",
        0xef => "EFI system",
        _ => return format!("type {kind:02x}"),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: u8, first: u32, len: u32) -> [u8; 16] {
        let mut entry = [0; 16];
        entry[4] = kind;
        entry[8..12].copy_from_slice(&first.to_le_bytes());
        entry[12..].copy_from_slice(&len.to_le_bytes());
        entry
    }

    fn sector(entries: &[[u8; 16]]) -> [u8; 512] {
        let mut sector = [0; 512];
        for (i, entry) in entries.iter().enumerate() {
            sector[446 + i * 16..][..16].copy_from_slice(entry);
        }
        sector[510..].copy_from_slice(b"\x55\xaa");
        sector
    }

    fn of(sectors: &[(u64, [u8; 512])]) -> Vec<(u32, u64, String)> {
        use std::os::unix::fs::FileExt;
        let file = tempfile::tempfile().unwrap();
        for (at, bytes) in sectors {
            file.write_all_at(bytes, at * SECTOR).unwrap();
        }
        let found = find(&file).unwrap();
        let short = |p: Partition| (p.number, p.start / SECTOR, p.kind);
        found.into_iter().map(short).collect()
    }

    #[test]
    fn an_mbr_has_primary_and_logical_partitions() {
        let table = sector(&[entry(0x83, 64, 8), [0; 16], entry(0x05, 100, 100)]);
        let first = sector(&[entry(0x82, 2, 8), entry(0x05, 50, 20)]);
        let second = sector(&[entry(0x77, 2, 8)]);
        let found = of(&[(0, table), (100, first), (150, second)]);
        let want = [
            (1, 64, "Linux"),
            (3, 100, "extended"),
            (5, 102, "Linux swap"),
            (6, 152, "type 77"),
        ];
        assert_eq!(found, want.map(|(n, at, kind)| (n, at, kind.to_owned())));
    }

    /// A chain that leads back to itself ends.
    #[test]
    fn a_chain_of_tables_ends() {
        let table = sector(&[entry(0x05, 100, 100)]);
        let again = sector(&[entry(0x83, 2, 8), entry(0x05, 1, 20)]);
        let found = of(&[(0, table), (100, again), (101, again)]);
        assert!(found.len() <= PARTITIONS_MAX);
        assert_eq!(of(&[(0, [0xff; 512])]), []);
    }

    #[test]
    fn a_gpt_names_types_and_places() {
        let mut header = [0; 512];
        header[..8].copy_from_slice(b"EFI PART");
        header[72..80].copy_from_slice(&2_u64.to_le_bytes());
        header[80..84].copy_from_slice(&u32::MAX.to_le_bytes());
        header[84..88].copy_from_slice(&128_u32.to_le_bytes());
        let mut table = [0; 512];
        for (i, kind) in [
            "0fc63daf-8483-4772-8e79-3d69d8477de4",
            "12345678-1234-1234-1234-123456789abc",
        ]
        .into_iter()
        .enumerate()
        {
            let entry = &mut table[i * 256..][..128];
            entry[..16].copy_from_slice(&Uuid::try_parse(kind).unwrap().to_bytes_le());
            entry[32..40].copy_from_slice(&(2048 * (i as u64 + 1)).to_le_bytes());
            entry[40..48].copy_from_slice(&(2048 * (i as u64 + 2) - 1).to_le_bytes());
        }
        // A place that no file has.
        let far = (u64::MAX >> 9).to_le_bytes();
        table.copy_within(..16, 128);
        table[160..168].copy_from_slice(&far);
        table[168..176].copy_from_slice(&far);
        let protective = sector(&[entry(0xee, 1, 99)]);
        let found = of(&[(0, protective), (1, header), (2, table)]);
        let want = [
            (1, 2048, "Linux"),
            (2, u64::MAX >> 9, "Linux"),
            (3, 4096, "12345678-1234-1234-1234-123456789abc"),
        ];
        assert_eq!(found, want.map(|(n, at, kind)| (n, at, kind.to_owned())));
    }
}
