//! The tables of GPT (UEFI specification, chapter 5) and MBR.

use crate::device::BlockDevice;
use crate::error::{BlockError, BlockOp, EINVAL, Result};
use crc::{CRC_32_ISO_HDLC, Crc};
use std::io;
use uuid::{Uuid, uuid};

/// Most partitions that are read of a table.
const PARTITIONS_MAX: usize = 256;
/// Most bytes of a table of GPT.
const TABLE_BYTES_MAX: usize = 1 << 20;
const SECTOR: u64 = 512;
const SIGNATURE: &[u8] = b"EFI PART";
/// Bytes of the header of GPT, of an entry of its table, and entries of the table that is written.
const HEADER_BYTES: usize = 92;
const ENTRY_BYTES: usize = 128;
const ENTRIES: usize = 128;
/// Most characters of a partition's name, as UTF-16.
const NAME_MAX: usize = 36;
const LINUX: Uuid = uuid!("0fc63daf-8483-4772-8e79-3d69d8477de4");
/// Where the partition of a new disk begins; as much is left after it, for the second table.
pub const ALIGN_BYTES: u64 = 1 << 20;

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
    /// Its name; empty in an MBR.
    pub name: String,
}

/// Partitions of a disk; none without a table.
///
/// # Errors
/// It can't be read.
pub fn find(device: &dyn BlockDevice) -> Result<Vec<Partition>> {
    match gpt(device)? {
        Some(found) => Ok(found),
        None => mbr(device),
    }
}

/// The bytes from `offset` on, as many as there are.
fn read(device: &dyn BlockDevice, offset: u64, len: usize) -> Result<Vec<u8>> {
    let there = device.len().saturating_sub(offset).min(len as u64);
    let mut bytes = vec![0; there as usize];
    if !bytes.is_empty() {
        device.read_at(offset, &mut bytes)?;
    }
    Ok(bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

fn crc(bytes: &[u8]) -> u32 {
    const TABLE: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);
    TABLE.checksum(bytes)
}

/// The partitions of a GPT; if the first table is damaged, those of the second.
pub(crate) fn gpt(device: &dyn BlockDevice) -> Result<Option<Vec<Partition>>> {
    for is_backup in [false, true] {
        for sector in [SECTOR, 4096] {
            let at = match is_backup {
                false => sector,
                true => (device.len() / sector).saturating_sub(1) * sector,
            };
            if let Some(found) = gpt_at(device, at, sector)? {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// Those of the table whose header is at `at`, if its checksums are right.
fn gpt_at(device: &dyn BlockDevice, at: u64, sector: u64) -> Result<Option<Vec<Partition>>> {
    let mut header = read(device, at, sector as usize)?;
    let len = u32_at(&header, 12).unwrap_or(0) as usize;
    if !header.starts_with(SIGNATURE) || !(HEADER_BYTES..=header.len()).contains(&len) {
        return Ok(None);
    }
    let stored = u32_at(&header, 16);
    header[16..20].fill(0);
    let fields = (
        u64_at(&header, 72),
        u32_at(&header, 80),
        u32_at(&header, 84),
    );
    let (Some(table_at), Some(count), Some(size @ 128..=4096)) = fields else {
        return Ok(None);
    };
    let (count, size) = (count as usize, size as usize);
    let table_len = count.saturating_mul(size);
    if stored != Some(crc(&header[..len])) || table_len > TABLE_BYTES_MAX {
        return Ok(None);
    }
    let table = read(device, table_at.saturating_mul(sector), table_len)?;
    if table.len() < table_len || u32_at(&header, 88) != Some(crc(&table)) {
        return Ok(None);
    }
    let entries = (1..).zip(table.chunks_exact(size)).take(PARTITIONS_MAX);
    let found = entries.filter_map(|(number, entry)| gpt_entry(number, entry, sector));
    Ok(Some(found.collect()))
}

fn gpt_entry(number: u32, entry: &[u8], sector: u64) -> Option<Partition> {
    let kind = Uuid::from_bytes_le(*entry.first_chunk()?);
    let (first, last) = (u64_at(entry, 32)?, u64_at(entry, 40)?);
    if kind.is_nil() || last < first {
        return None;
    }
    let name = entry.get(56..ENTRY_BYTES)?.chunks_exact(2);
    let name = name.map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    let name: Vec<u16> = name.take_while(|unit| *unit != 0).collect();
    Some(Partition {
        number,
        start: first.checked_mul(sector)?,
        len: (last - first).checked_add(1)?.checked_mul(sector)?,
        kind: gpt_kind(&kind),
        name: String::from_utf16_lossy(&name),
    })
}

/// Bytes of a disk for a partition of `len` bytes.
pub fn disk_bytes(len: u64) -> u64 {
    len.next_multiple_of(ALIGN_BYTES)
        .saturating_add(2 * ALIGN_BYTES)
}

/// Makes a device a disk with one partition, of Linux, and returns it. The identifiers are made from `uuid`.
///
/// # Errors
/// The device's; `EINVAL`: it is smaller than 3 MiB, or the name is longer than 36 characters.
pub fn write_gpt(device: &dyn BlockDevice, name: &str, uuid: [u8; 16]) -> Result<Partition> {
    let sectors = device.len() / SECTOR;
    let first = ALIGN_BYTES / SECTOR;
    let end = (device.len() / ALIGN_BYTES).saturating_sub(1) * first;
    let name: Vec<u16> = name.encode_utf16().collect();
    if end <= first || name.len() > NAME_MAX {
        let e = io::Error::from_raw_os_error(EINVAL);
        return Err(BlockError::io(BlockOp::Write, 0, device.len(), e));
    }
    let mut entry = vec![0; ENTRY_BYTES];
    entry[..16].copy_from_slice(&LINUX.to_bytes_le());
    entry[16..32].copy_from_slice(&derived(uuid, 1));
    entry[32..40].copy_from_slice(&first.to_le_bytes());
    entry[40..48].copy_from_slice(&(end - 1).to_le_bytes());
    for (place, unit) in entry[56..].chunks_exact_mut(2).zip(&name) {
        place.copy_from_slice(&unit.to_le_bytes());
    }
    let mut table = entry.clone();
    table.resize(ENTRIES * ENTRY_BYTES, 0);
    let table_sectors = table.len() as u64 / SECTOR;
    let (primary, backup) = (1, sectors - 1);
    let places = [
        (primary, backup, 2),
        (backup, primary, backup - table_sectors),
    ];
    for (own, other, table_at) in places {
        let mut header = vec![0; SECTOR as usize];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, SIGNATURE);
        put(8, &0x1_0000_u32.to_le_bytes());
        put(12, &(HEADER_BYTES as u32).to_le_bytes());
        put(24, &own.to_le_bytes());
        put(32, &other.to_le_bytes());
        put(40, &(2 + table_sectors).to_le_bytes());
        put(48, &(backup - table_sectors - 1).to_le_bytes());
        put(56, &derived(uuid, 0));
        put(72, &table_at.to_le_bytes());
        put(80, &(ENTRIES as u32).to_le_bytes());
        put(84, &(ENTRY_BYTES as u32).to_le_bytes());
        put(88, &crc(&table).to_le_bytes());
        let own_crc = crc(&header[..HEADER_BYTES]);
        header[16..20].copy_from_slice(&own_crc.to_le_bytes());
        device.write_at(own * SECTOR, &header)?;
        device.write_at(table_at * SECTOR, &table)?;
    }
    device.write_at(0, &protective_mbr(sectors))?;
    let found = gpt_entry(1, &entry, SECTOR);
    found.ok_or_else(|| BlockError::io(BlockOp::Write, 0, 0, io::Error::from_raw_os_error(EINVAL)))
}

/// An identifier of version 4 that depends on another one.
fn derived(uuid: [u8; 16], number: u8) -> [u8; 16] {
    let mut bytes = uuid;
    bytes[15] ^= number + 1;
    bytes[0] ^= 0x5a;
    uuid::Builder::from_random_bytes(bytes)
        .into_uuid()
        .to_bytes_le()
}

/// An MBR whose one entry covers the disk.
fn protective_mbr(sectors: u64) -> [u8; 512] {
    let mut mbr = [0; 512];
    let len = u32::try_from(sectors - 1).unwrap_or(u32::MAX);
    mbr[446..454].copy_from_slice(&[0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff]);
    mbr[454..458].copy_from_slice(&1_u32.to_le_bytes());
    mbr[458..462].copy_from_slice(&len.to_le_bytes());
    mbr[510..].copy_from_slice(b"\x55\xaa");
    mbr
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
        // The entry of type 0xee stands for a GPT, which is damaged if it was not read.
        let is_entry = entry[0] & 0x7f == 0 && !matches!(kind, 0 | 0xee) && len != 0;
        is_entry.then_some((kind, first.into(), len.into()))
    };
    table.chunks_exact(16).map(entry).collect()
}

fn mbr(device: &dyn BlockDevice) -> Result<Vec<Partition>> {
    let mut found = Vec::new();
    let mut extended = None;
    for (number, entry) in (1..).zip(mbr_entries(&read(device, 0, 512)?)) {
        let Some(entry @ (kind, first, _)) = entry else {
            continue;
        };
        if is_extended(kind) {
            extended = extended.or(Some(first));
        }
        found.push(mbr_partition(number, 0, entry));
    }
    if let Some(base) = extended {
        logical(device, base, &mut found)?;
    }
    Ok(found)
}

/// Logical partitions: a chain of tables, each of a partition and the next table.
fn logical(device: &dyn BlockDevice, base: u64, found: &mut Vec<Partition>) -> Result<()> {
    let mut at = base;
    for number in 5..PARTITIONS_MAX as u32 {
        let entries = mbr_entries(&read(device, at * SECTOR, 512)?);
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
        name: String::new(),
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
        0xef => "EFI system",
        _ => return format!("type {kind:02x}"),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

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
        let disk = MemoryDevice::new(1 << 20);
        for (at, bytes) in sectors {
            disk.write_at(at * SECTOR, bytes).unwrap();
        }
        let found = find(&disk).unwrap();
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
        header[..8].copy_from_slice(SIGNATURE);
        header[12..16].copy_from_slice(&92_u32.to_le_bytes());
        header[72..80].copy_from_slice(&2_u64.to_le_bytes());
        header[80..84].copy_from_slice(&4_u32.to_le_bytes());
        header[84..88].copy_from_slice(&128_u32.to_le_bytes());
        let mut table = [0; 512];
        for (i, kind) in [LINUX, uuid!("12345678-1234-1234-1234-123456789abc")]
            .into_iter()
            .enumerate()
        {
            let entry = &mut table[i * 256..][..128];
            entry[..16].copy_from_slice(&kind.to_bytes_le());
            entry[32..40].copy_from_slice(&(2048 * (i as u64 + 1)).to_le_bytes());
            entry[40..48].copy_from_slice(&(2048 * (i as u64 + 2) - 1).to_le_bytes());
        }
        // A place that no file has.
        let far = (u64::MAX >> 9).to_le_bytes();
        table.copy_within(..16, 128);
        table[160..168].copy_from_slice(&far);
        table[168..176].copy_from_slice(&far);
        header[88..92].copy_from_slice(&crc(&table).to_le_bytes());
        let own = crc(&header[..92]);
        header[16..20].copy_from_slice(&own.to_le_bytes());
        let protective = protective_mbr(100);
        let found = of(&[(0, protective), (1, header), (2, table)]);
        let want = [
            (1, 2048, "Linux"),
            (2, u64::MAX >> 9, "Linux"),
            (3, 4096, "12345678-1234-1234-1234-123456789abc"),
        ];
        assert_eq!(found, want.map(|(n, at, kind)| (n, at, kind.to_owned())));
        for (at, table) in [(1, &mut header), (2, &mut table)] {
            table[100 % 92] ^= 1;
            assert_eq!(
                of(&[(0, protective), (at, *table)]),
                [],
                "damaged sector {at}"
            );
            table[100 % 92] ^= 1;
        }
    }

    /// What is written is read, by the first table and by the second.
    #[test]
    fn a_written_gpt_is_found() {
        let disk = MemoryDevice::new(disk_bytes(5_000_000));
        let uuid = [7; 16];
        let written = write_gpt(&disk, "r\u{fc}t", uuid).unwrap();
        assert_eq!((written.start, written.len), (1 << 20, 5 << 20));
        assert_eq!(find(&disk).unwrap(), std::slice::from_ref(&written));
        disk.write_at(512, &[0; 512]).unwrap();
        assert_eq!(find(&disk).unwrap(), [written]);
        assert!(write_gpt(&disk, &"x".repeat(37), uuid).is_err());
        assert!(write_gpt(&MemoryDevice::new(2 << 20), "", uuid).is_err());
    }
}
