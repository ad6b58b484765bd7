//! POSIX access control lists: ext4's form on disk, and the form of `system.posix_acl_*` values.
//!
//! On disk (version 1) entries without an identity are short; in attribute values (version 2) all
//! entries have eight bytes. Source: Linux documentation, filesystems/ext4, "Extended Attributes";
//! acl(5).

use crate::bytes::{le16, le32};
use crate::corrupt::{Corrupt, CorruptKind, Result};

const DISK_VERSION: u32 = 1;
const XATTR_VERSION: u32 = 2;
const NO_ID: u32 = u32::MAX;

/// The subject of an entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u16)]
pub enum AclTag {
    /// The owner.
    UserObj = 0x01,
    /// A user.
    User = 0x02,
    /// The owning group.
    GroupObj = 0x04,
    /// A group.
    Group = 0x08,
    /// The most that users and groups get.
    Mask = 0x10,
    /// All other users.
    Other = 0x20,
}

impl AclTag {
    fn from_raw(v: u16) -> Result<Self> {
        Ok(match v {
            0x01 => AclTag::UserObj,
            0x02 => AclTag::User,
            0x04 => AclTag::GroupObj,
            0x08 => AclTag::Group,
            0x10 => AclTag::Mask,
            0x20 => AclTag::Other,
            _ => return Err(Corrupt::new(CorruptKind::AclTag).detail(format_args!("{v:#x}"))),
        })
    }

    fn has_id(self) -> bool {
        matches!(self, AclTag::User | AclTag::Group)
    }
}

/// An entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AclEntry {
    /// The subject.
    pub tag: AclTag,
    /// Read 4, write 2, execute 1.
    pub perm: u16,
    /// User or group; all ones for tags without.
    pub id: u32,
}

fn body(bytes: &[u8], version: u32) -> Result<&[u8]> {
    let Some(v) = le32(bytes, 0) else {
        return Err(CorruptKind::AclHeader.into());
    };
    if v != version {
        return Err(Corrupt::new(CorruptKind::AclVersion).detail(v));
    }
    Ok(bytes.get(4..).unwrap_or(&[]))
}

/// Reads entries; `short` says that those without an identity have four bytes.
fn decode(mut rest: &[u8], short: bool) -> Result<Vec<AclEntry>> {
    let mut out = Vec::with_capacity(rest.len() / 8 + 4);
    let partial = || Corrupt::new(CorruptKind::AclSize);
    while !rest.is_empty() {
        let tag = AclTag::from_raw(le16(rest, 0).ok_or_else(partial)?)?;
        let perm = le16(rest, 2).ok_or_else(partial)?;
        let id = if short && !tag.has_id() {
            None
        } else {
            Some(le32(rest, 4).ok_or_else(partial)?)
        };
        rest = rest.get(if id.is_some() { 8 } else { 4 }..).unwrap_or(&[]);
        out.push(AclEntry {
            tag,
            perm,
            id: id.filter(|_| tag.has_id()).unwrap_or(NO_ID),
        });
    }
    Ok(out)
}

fn encode(entries: &[AclEntry], version: u32, short: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + entries.len() * 8);
    out.extend(version.to_le_bytes());
    for e in entries {
        out.extend((e.tag as u16).to_le_bytes());
        out.extend(e.perm.to_le_bytes());
        if e.tag.has_id() {
            out.extend(e.id.to_le_bytes());
        } else if !short {
            out.extend(NO_ID.to_le_bytes());
        }
    }
    out
}

/// Reads the form on disk.
///
/// # Errors
/// The `Acl*` kind of the first check that fails.
pub fn acl_decode_disk(bytes: &[u8]) -> Result<Vec<AclEntry>> {
    decode(body(bytes, DISK_VERSION)?, true)
}

/// Makes the form on disk.
pub fn acl_encode_disk(entries: &[AclEntry]) -> Vec<u8> {
    encode(entries, DISK_VERSION, true)
}

/// Reads the form of attribute values.
///
/// # Errors
/// The `Acl*` kind of the first check that fails.
pub fn acl_decode_xattr(bytes: &[u8]) -> Result<Vec<AclEntry>> {
    decode(body(bytes, XATTR_VERSION)?, false)
}

/// Makes the form of attribute values.
pub fn acl_encode_xattr(entries: &[AclEntry]) -> Vec<u8> {
    encode(entries, XATTR_VERSION, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_round_trip() {
        #[rustfmt::skip]
        let acl = [
            AclEntry { tag: AclTag::UserObj, perm: 7, id: NO_ID },
            AclEntry { tag: AclTag::User, perm: 5, id: 1000 },
            AclEntry { tag: AclTag::GroupObj, perm: 5, id: NO_ID },
            AclEntry { tag: AclTag::Mask, perm: 5, id: NO_ID },
            AclEntry { tag: AclTag::Other, perm: 0, id: NO_ID },
        ];
        let (disk, xattr) = (acl_encode_disk(&acl), acl_encode_xattr(&acl));
        assert_eq!((disk.len(), xattr.len()), (28, 44));
        assert_eq!(acl_decode_disk(&disk).unwrap(), acl);
        assert_eq!(acl_decode_xattr(&xattr).unwrap(), acl);
        let kind = |b: &[u8]| acl_decode_disk(b).unwrap_err().kind;
        assert_eq!(kind(&xattr), CorruptKind::AclVersion);
        assert_eq!(kind(&disk[..27]), CorruptKind::AclSize);
        assert_eq!(kind(&disk[..3]), CorruptKind::AclHeader);
        assert_eq!(kind(&[1, 0, 0, 0, 3, 0, 0, 0]), CorruptKind::AclTag);
    }
}
