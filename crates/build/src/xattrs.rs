//! Extended attributes: in the form of the disk, divided between inode and block.

use std::borrow::Cow;

use uext4_ondisk::{XattrIndex, XattrList, acl_decode_xattr, acl_encode_disk};

/// Attributes of an inode, divided.
#[derive(Clone, Debug, Default)]
pub(crate) struct Divided {
    /// Those in the inode.
    pub inode: XattrList,
    /// Those in a block.
    pub block: XattrList,
}

/// Puts into the inode what fits there and the rest into a block; `None` if there is too much.
pub(crate) fn divide(
    list: &XattrList,
    inode_size: u16,
    extra_isize: u16,
    block_size: u32,
) -> Option<Divided> {
    let room = match extra_isize {
        0 => 0,
        _ => XattrList::inode_room(inode_size, extra_isize),
    };
    let mut divided = Divided::default();
    if list.encoded_size() <= room {
        divided.inode = list.clone();
        return Some(divided);
    }
    for x in list.iter() {
        divided.inode.set(x.index, &x.name, x.value.clone());
        if divided.inode.encoded_size() > room {
            divided.inode.remove(x.index, &x.name);
            divided.block.set(x.index, &x.name, x.value.clone());
        }
    }
    let fits = divided.block.encoded_size() <= XattrList::block_room(block_size as usize);
    fits.then_some(divided)
}

/// Front of the name, rest of the name, value.
pub(crate) type OnDisk<'a> = (XattrIndex, &'a [u8], Cow<'a, [u8]>);

/// An attribute in the form it has on disk; `None` if ext4 would not show it.
pub(crate) fn on_disk<'a>(name: &'a [u8], value: &'a [u8]) -> Option<OnDisk<'a>> {
    let (index, rest) = XattrIndex::split_name(name)?;
    match index {
        XattrIndex::POSIX_ACL_ACCESS | XattrIndex::POSIX_ACL_DEFAULT => {
            let entries = acl_decode_xattr(value).ok()?;
            Some((index, rest, Cow::Owned(acl_encode_disk(&entries))))
        }
        XattrIndex::USER | XattrIndex::TRUSTED | XattrIndex::SECURITY => {
            Some((index, rest, Cow::Borrowed(value)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4_ondisk::{XattrIndex, XattrOwnedValue};

    #[test]
    fn divides_between_inode_and_block() {
        let mut list = XattrList::default();
        let value = |n| XattrOwnedValue::Inline(vec![7; n]);
        list.set(XattrIndex::USER, b"small", value(8));
        let all = divide(&list, 256, 32, 4096).unwrap();
        assert!(all.block.is_empty());
        list.set(XattrIndex::USER, b"large", value(2000));
        let both = divide(&list, 256, 32, 4096).unwrap();
        assert_eq!((both.inode.len(), both.block.len()), (1, 1));
        assert_eq!(divide(&list, 128, 0, 4096).unwrap().block.len(), 2);
        list.set(XattrIndex::USER, b"huge", value(3000));
        assert!(divide(&list, 256, 32, 4096).is_none());
    }

    #[test]
    fn keeps_what_ext4_shows() {
        assert!(on_disk(b"btrfs.compression", b"zstd").is_none());
        assert!(on_disk(b"system.nfs4_acl", b"").is_none());
        let (index, rest, _) = on_disk(b"security.capability", b"x").unwrap();
        assert_eq!((index, rest), (XattrIndex::SECURITY, &b"capability"[..]));
    }
}
