//! The extended attributes of an entry: `SCHILY.xattr.*`, `LIBARCHIVE.xattr.*`, `SCHILY.acl.*`, `RHT.security.selinux`.

use std::io;

use uext4_ondisk::{XattrIndex, XattrList, XattrOwnedValue, acl_encode_disk};

use super::acl_text;
use super::pax::Records;
use crate::xattrs::on_disk;

/// Bytes of attributes that the largest inode and a block hold.
const BYTES_MAX: usize = 8192;

/// The attributes that records give, and what of them has no place in ext4.
///
/// # Errors
/// More of them than any image holds.
pub(crate) fn from_records(records: &Records) -> io::Result<(Option<XattrList>, Vec<String>)> {
    let (mut list, mut refused) = (XattrList::default(), Vec::new());
    // In this order, later ones count more.
    for (key, value) in records.iter() {
        if let Some(name) = key.strip_prefix(b"LIBARCHIVE.xattr.") {
            match percent_decoded(name).zip(base64_decoded(value)) {
                Some((name, value)) => set(&mut list, &mut refused, &name, &value),
                None => refused.push(shown(key)),
            }
        }
    }
    if let Some(context) = records.get("RHT.security.selinux") {
        set(&mut list, &mut refused, b"security.selinux", context);
    }
    for (key, name, index) in [
        (
            "SCHILY.acl.access",
            "system.posix_acl_access",
            XattrIndex::POSIX_ACL_ACCESS,
        ),
        (
            "SCHILY.acl.default",
            "system.posix_acl_default",
            XattrIndex::POSIX_ACL_DEFAULT,
        ),
    ] {
        // The value itself says more: text may have names, of which only the archived system knows the numbers.
        let value = ["SCHILY.xattr.", "LIBARCHIVE.xattr."].map(|front| front.to_owned() + name);
        let Some(text) = records.get(key) else {
            continue;
        };
        if value.iter().any(|value| records.get(value).is_some()) {
            continue;
        }
        match str::from_utf8(text).ok().and_then(acl_text::parse) {
            // What mode bits say as well.
            Some(entries) if entries.len() <= 3 && index == XattrIndex::POSIX_ACL_ACCESS => {}
            Some(entries) => {
                let value = XattrOwnedValue::Inline(acl_encode_disk(&entries));
                list.set(index, b"", value);
            }
            None => refused.push(format!("{key} (a user or group without a number?)")),
        }
    }
    for (key, value) in records.iter() {
        if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
            set(&mut list, &mut refused, name, value);
        }
    }
    match list.encoded_size() {
        bytes if bytes > BYTES_MAX => Err(io::Error::other(format!(
            "extended attributes of {bytes} bytes do not fit an inode and a block"
        ))),
        _ => Ok(((!list.is_empty()).then_some(list), refused)),
    }
}

fn set(list: &mut XattrList, refused: &mut Vec<String>, name: &[u8], value: &[u8]) {
    match on_disk(name, value) {
        Some((index, rest, value)) if rest.len() <= 255 => {
            list.set(index, rest, XattrOwnedValue::Inline(value.into_owned()));
        }
        _ => refused.push(shown(name)),
    }
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// A name in which `%XX` stands for a byte.
fn percent_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        if *byte != b'%' {
            out.push(*byte);
            rest = after;
            continue;
        }
        let (digits, after) = after.split_at_checked(2)?;
        out.push(u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    Some(out)
}

/// Base 64 of RFC 4648, with or without padding.
fn base64_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.trim_ascii_end();
    let text = text
        .strip_suffix(b"==")
        .or(text.strip_suffix(b"="))
        .unwrap_or(text);
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    for four in text.chunks(4) {
        let mut bits: u32 = 0;
        for letter in four {
            let value = match letter {
                b'A'..=b'Z' => letter - b'A',
                b'a'..=b'z' => letter - b'a' + 26,
                b'0'..=b'9' => letter - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(value);
        }
        match four.len() {
            4 => out.extend(&bits.to_be_bytes()[1..]),
            3 => out.extend(&(bits << 6).to_be_bytes()[1..3]),
            2 => out.push((bits >> 4) as u8),
            _ => return None,
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: &[(&str, &[u8])]) -> (Option<XattrList>, Vec<String>) {
        let mut records = Records::default();
        for (key, value) in lines {
            let len = key.len() + value.len() + 3;
            let len = len + (len + 2).to_string().len();
            let mut bytes = format!("{len} {key}=").into_bytes();
            bytes.extend_from_slice(value);
            bytes.push(b'\n');
            records.add(&bytes).unwrap();
        }
        from_records(&records).unwrap()
    }

    fn value(list: &XattrList, index: XattrIndex, name: &[u8]) -> Vec<u8> {
        match &list.get(index, name).unwrap().value {
            XattrOwnedValue::Inline(value) => value.clone(),
            XattrOwnedValue::Inode { .. } => panic!("a value in an inode"),
        }
    }

    #[test]
    fn every_form_is_read() {
        let (list, refused) = found(&[
            ("SCHILY.xattr.security.capability", b"a\nb\0c"),
            ("LIBARCHIVE.xattr.user.a%2eb", b"aGVsbG8="),
            ("RHT.security.selinux", b"system_u:object_r:etc_t:s0"),
            (
                "SCHILY.acl.access",
                b"user::rw-,user:5:r--,group::r--,mask::r--,other::r--",
            ),
            ("SCHILY.xattr.system.nfs4_acl", b"x"),
        ]);
        let list = list.unwrap();
        assert_eq!(
            value(&list, XattrIndex::SECURITY, b"capability"),
            b"a\nb\0c"
        );
        assert_eq!(value(&list, XattrIndex::USER, b"a.b"), b"hello");
        assert_eq!(value(&list, XattrIndex::SECURITY, b"selinux").len(), 26);
        assert!(!value(&list, XattrIndex::POSIX_ACL_ACCESS, b"").is_empty());
        assert_eq!(refused, ["system.nfs4_acl"]);
        assert!(found(&[("path", b"x")]).0.is_none());
    }

    #[test]
    fn no_more_than_an_image_holds() {
        let value = vec![b'v'; 9000];
        let len = value.len() + "9000 SCHILY.xattr.user.a=\n".len();
        let mut record = format!("{len} SCHILY.xattr.user.a=").into_bytes();
        record.extend([&value[..], b"\n"].concat());
        let mut records = Records::default();
        records.add(&record).unwrap();
        let error = from_records(&records).unwrap_err().to_string();
        assert!(error.contains("do not fit"), "{error}");
    }

    #[test]
    fn base_64() {
        for (text, bytes) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg", "foob"),
        ] {
            assert_eq!(base64_decoded(text.as_bytes()).unwrap(), bytes.as_bytes());
        }
        assert!(base64_decoded(b"Z").is_none() && base64_decoded(b"Z-==").is_none());
    }
}
