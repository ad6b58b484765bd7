//! Archives and container images written by a script.

use crate::input::Input;
use std::path::{Path, PathBuf};
use tar::{EntryType, Header};
use uext4_block::MemoryDevice;
use uext4_build::{Input as Source, MkfsOptions, NoProgress, mkfs};
use uext4_check::{CheckOptions, NoProgress as Unseen};

/// Names that meet often.
const NAMES: [&str; 12] = [
    "a",
    "b",
    "a/b",
    "a/c/d",
    "./",
    "..",
    "/a",
    ".wh.a",
    "a/.wh..wh..opq",
    "a/.wh.b",
    "b/x",
    "index.json",
];
const TYPES: &[u8] = b"0123456700055551122LKxgSVA\0";
const KEYS: [&str; 20] = [
    "path",
    "linkpath",
    "size",
    "uid",
    "gid",
    "mtime",
    "atime",
    "ctime",
    "SCHILY.xattr.user.a",
    "SCHILY.xattr.security.capability",
    "SCHILY.xattr.system.posix_acl_access",
    "LIBARCHIVE.xattr.user.%41",
    "SCHILY.acl.access",
    "SCHILY.acl.default",
    "RHT.security.selinux",
    "GNU.sparse.major",
    "GNU.sparse.realsize",
    "GNU.sparse.size",
    "GNU.sparse.map",
    "GNU.sparse.name",
];
const VALUES: [&str; 14] = [
    "",
    "0",
    "1",
    "512",
    "5000",
    "99999999999",
    "18446744073709551615",
    "-1.5",
    "1.25",
    "0,4",
    "0,4,100,8,200,0",
    "YQ==",
    "user::rw-,user:5:r--,group::r--,mask::r--,other::---",
    "a/b",
];
/// More than scripts ask for.
const LIMIT: u64 = 4 << 20;

/// Archives, in a container image or one on top of the other: an error, or an image without a fault.
pub fn archives(data: &[u8]) {
    let mut input = Input::new(data);
    let dir = PathBuf::from(format!("/dev/shm/uext4-fuzz-{}", std::process::id()));
    let _ = std::fs::create_dir(&dir);
    let count = 1 + usize::from(input.u8() % 3);
    let is_container = input.u8().is_multiple_of(2);
    let mut archives: Vec<Vec<u8>> = (0..count).map(|_| packed(&mut input)).collect();
    if is_container {
        archives = vec![container(&archives, &mut input)];
    }
    let mut options = MkfsOptions {
        size: Some(2 << 20),
        time: Some(1 << 30),
        spool: Some(dir.clone()),
        limit: LIMIT,
        threads: 1 + usize::from(input.u8() % 2),
        ..MkfsOptions::default()
    };
    for (i, archive) in archives.iter().enumerate() {
        let path = dir.join(i.to_string());
        std::fs::write(&path, archive).expect("room in /dev/shm");
        options.from.push(source(&path, &mut input));
    }
    let device = MemoryDevice::new(2 << 20);
    if mkfs(&device, &options, &NoProgress).is_ok() {
        let report = uext4_check::check(&device, &CheckOptions::default(), &Unseen);
        let report = report.expect("what was made can be read");
        assert!(report.is_clean(), "{:?}", report.faults);
    }
}

fn source(path: &Path, input: &mut Input<'_>) -> Source {
    let mut source = Source::from(path);
    if input.u8().is_multiple_of(4) {
        source.below = b"a/b".to_vec();
    }
    source
}

fn packed(input: &mut Input<'_>) -> Vec<u8> {
    let kind = input.u8();
    let mut archive = Vec::new();
    while !input.is_empty() && archive.len() < 1 << 20 && !input.u8().is_multiple_of(16) {
        member(&mut archive, input);
    }
    if !input.u8().is_multiple_of(8) {
        archive.extend([0; 1024]);
    }
    if input.u8().is_multiple_of(16) {
        archive.truncate(input.below(archive.len()));
    }
    let mut bytes = match kind % 5 {
        0..=2 => archive,
        3 => zstd::encode_all(&archive[..], 1).expect("memory"),
        _ => {
            use std::io::Write;
            let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            to.write_all(&archive).expect("memory");
            to.finish().expect("memory")
        }
    };
    if input.u8().is_multiple_of(16) {
        let at = input.below(bytes.len());
        if let Some(byte) = bytes.get_mut(at) {
            *byte = input.u8();
        }
    }
    bytes
}

fn member(archive: &mut Vec<u8>, input: &mut Input<'_>) {
    if input.u8().is_multiple_of(2) {
        let mut records = Vec::new();
        for _ in 0..1 + input.u8() % 3 {
            records.extend(record(input));
        }
        push(archive, b'x', "x", "", &records, input);
    }
    let kind = *input.choose(TYPES).unwrap_or(&b'0');
    let name = *input.choose(&NAMES).unwrap_or(&"a");
    let target = *input.choose(&NAMES).unwrap_or(&"a");
    let data = match kind {
        b'L' | b'K' => name.repeat(1 + usize::from(input.u8())).into_bytes(),
        b'g' | b'x' => record(input),
        b'S' => return sparse(archive, name, input),
        b'1'..=b'6' => Vec::new(),
        _ if input.u8().is_multiple_of(4) => map(input),
        _ => vec![7; usize::from(input.u16() % 9000)],
    };
    push(archive, kind, name, target, &data, input);
}

/// A record of an extended header; its length is right, as a rule.
fn record(input: &mut Input<'_>) -> Vec<u8> {
    let key = *input.choose(&KEYS).unwrap_or(&"path");
    let value: Vec<u8> = match input.u8() % 4 {
        0 => {
            let len = usize::from(input.u8() % 40);
            input.bytes(len).to_vec()
        }
        _ => input.choose(&VALUES).unwrap_or(&"").as_bytes().to_vec(),
    };
    let len = key.len() + value.len() + 3;
    let mut len = len + (len + 2).to_string().len();
    if input.u8().is_multiple_of(32) {
        len = usize::from(input.u8());
    }
    [format!("{len} {key}=").as_bytes(), &value, b"\n"].concat()
}

/// A map before the data of a sparse file, and some data.
fn map(input: &mut Input<'_>) -> Vec<u8> {
    let numbers = ["2", "0", "4", "100", "8", "1", "999999999999"];
    let mut text = String::new();
    for _ in 0..input.u8() % 8 {
        text += input.choose(&numbers).unwrap_or(&"0");
        text.push('\n');
    }
    let mut bytes = text.into_bytes();
    bytes.resize(512, 0);
    bytes.extend(vec![5; usize::from(input.u8())]);
    bytes
}

/// A sparse file of GNU tar, sometimes with a second header.
fn sparse(archive: &mut Vec<u8>, name: &str, input: &mut Input<'_>) {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::GNUSparse);
    let _ = header.set_path(name);
    let (mut stored, mut at) = (0, 0);
    let mut more = Vec::new();
    if let Some(gnu) = header.as_gnu_mut() {
        for part in &mut gnu.sparse[..usize::from(input.u8() % 5)] {
            let len = u64::from(input.u8()) * 8;
            at += u64::from(input.u16());
            part.offset = octal(at);
            part.numbytes = octal(len);
            (at, stored) = (at + len, stored + len);
        }
        gnu.realsize = octal(at + u64::from(input.u8()));
        if input.u8().is_multiple_of(2) {
            gnu.isextended[0] = 1;
            more = vec![0; 512];
            more[504] = u8::from(input.u8().is_multiple_of(32));
        }
    }
    header.set_size(stored);
    header.set_cksum();
    archive.extend(header.as_bytes());
    archive.extend(more);
    archive.extend(vec![9; stored.next_multiple_of(512) as usize]);
}

fn octal(number: u64) -> [u8; 12] {
    let mut field = [0; 12];
    field[..11].copy_from_slice(&format!("{number:011o}").as_bytes()[..11]);
    field
}

fn push(
    archive: &mut Vec<u8>,
    kind: u8,
    name: &str,
    target: &str,
    data: &[u8],
    input: &mut Input<'_>,
) {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::new(kind));
    header.set_mode(input.u16().into());
    header.set_uid(u64::from(input.u8()));
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(match input.u8() {
        0 => input.position(),
        _ => data.len() as u64,
    });
    let old = header.as_old_mut();
    old.name[..name.len()].copy_from_slice(name.as_bytes());
    old.linkname[..target.len()].copy_from_slice(target.as_bytes());
    if matches!(kind, b'3' | b'4') {
        let _ = header.set_device_major(input.u16().into());
        let _ = header.set_device_minor(input.u8().into());
    }
    if input.u8().is_multiple_of(32) {
        let (at, byte) = (usize::from(input.u16() % 512), input.u8());
        header.as_mut_bytes()[at] = byte;
    }
    if !input.u8().is_multiple_of(64) {
        header.set_cksum();
    }
    archive.extend(header.as_bytes());
    archive.extend(data);
    archive.resize(archive.len().next_multiple_of(512), 0);
}

/// A layout, as an archive, with digests that are right; or what `docker save` writes.
fn container(layers: &[Vec<u8>], input: &mut Input<'_>) -> Vec<u8> {
    let mut archive = Vec::new();
    if input.u8().is_multiple_of(3) {
        let (mut names, mut digests) = (Vec::new(), Vec::new());
        for (i, layer) in layers.iter().enumerate() {
            plain(&mut archive, &format!("{i}/layer.tar"), layer);
            names.push(format!("\"{i}/layer.tar\""));
            digests.push(format!("\"{}\"", digest(layer)));
        }
        let config = format!("{{\"rootfs\":{{\"diff_ids\":[{}]}}}}", digests.join(","));
        let names = names.join(",");
        let manifest =
            format!("[{{\"Config\":\"c.json\",\"RepoTags\":[\"x:y\"],\"Layers\":[{names}]}}]");
        plain(&mut archive, "c.json", config.as_bytes());
        plain(
            &mut archive,
            "manifest.json",
            changed(manifest, input).as_bytes(),
        );
        return archive;
    }
    let mut blob = |media: &str, bytes: &[u8]| {
        let digest = digest(bytes);
        plain(
            &mut archive,
            &format!("blobs/sha256/{}", &digest[7..]),
            bytes,
        );
        format!(
            "{{\"mediaType\":\"{media}\",\"digest\":\"{digest}\",\"size\":{}}}",
            bytes.len()
        )
    };
    let layers: Vec<String> = layers
        .iter()
        .map(|layer| blob("application/vnd.oci.image.layer.v1.tar", layer))
        .collect();
    let config = blob("application/vnd.oci.image.config.v1+json", b"{}");
    let layers = layers.join(",");
    let media = "application/vnd.oci.image.manifest.v1+json";
    let manifest = format!(
        "{{\"schemaVersion\":2,\"mediaType\":\"{media}\",\"config\":{config},\"layers\":[{layers}]}}"
    );
    let mut manifest = blob(media, changed(manifest, input).as_bytes());
    for _ in 0..input.u8() % 3 {
        let index = format!("{{\"schemaVersion\":2,\"manifests\":[{manifest}]}}");
        manifest = blob(
            "application/vnd.oci.image.index.v1+json",
            changed(index, input).as_bytes(),
        );
    }
    let index = format!("{{\"schemaVersion\":2,\"manifests\":[{manifest}]}}");
    plain(
        &mut archive,
        "oci-layout",
        b"{\"imageLayoutVersion\":\"1.0.0\"}",
    );
    plain(&mut archive, "index.json", changed(index, input).as_bytes());
    archive
}

/// Text of JSON, now and then with another byte.
fn changed(text: String, input: &mut Input<'_>) -> String {
    if !input.u8().is_multiple_of(8) {
        return text;
    }
    let mut bytes = text.into_bytes();
    let at = input.below(bytes.len());
    bytes[at] = *input.choose(b"{}[]\",:0a9").unwrap_or(&b'0');
    String::from_utf8_lossy(&bytes).into_owned()
}

fn plain(archive: &mut Vec<u8>, name: &str, data: &[u8]) {
    // Nothing of it is changed: a script that has ended says zero, and so not the size of a file.
    push(archive, b'0', name, "", data, &mut Input::new(&[1; 16]));
}

fn digest(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    let hash = Sha256::digest(bytes);
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}
