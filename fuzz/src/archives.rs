//! Archives and container images written by a script.

use crate::input::Input;
use std::io::Write;
use std::path::{Path, PathBuf};
use tar::{EntryType, Header};
use uext4_block::MemoryDevice;
use uext4_build::{Input as Source, InputKind, MkfsOptions, NoProgress, mkfs};
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
    let _ = std::fs::remove_dir_all(&dir);
    let _ = std::fs::create_dir(&dir);
    let count = 1 + usize::from(input.u8() % 3);
    let is_container = input.u8().is_multiple_of(2);
    let archives: Vec<Vec<u8>> = (0..count).map(|_| packed(&mut input)).collect();
    let mut options = MkfsOptions {
        size: Some(2 << 20),
        time: Some(1 << 30),
        spool: Some(dir.clone()),
        limit: LIMIT,
        threads: 1 + usize::from(input.u8() % 2),
        ..MkfsOptions::default()
    };
    options.from = match is_container {
        true => vec![container_in(&dir, &archives, &mut input)],
        false => (0..)
            .zip(&archives)
            .map(|(i, archive)| {
                let path = dir.join(i.to_string());
                std::fs::write(&path, archive).expect("room in /dev/shm");
                source(&path, &mut input)
            })
            .collect(),
    };
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

/// A container image of these layers, an archive or a directory, of which a tag or a digest may be wanted.
fn container_in(dir: &Path, layers: &[Vec<u8>], input: &mut Input<'_>) -> Source {
    let container = Container::new(layers, input);
    let path = dir.join("container");
    match input.u8().is_multiple_of(4) {
        true => container.write_to(&path),
        false => std::fs::write(&path, container.archive()).expect("room in /dev/shm"),
    }
    let mut source = source(&path, input);
    let tag = match input.u8() % 4 {
        0 => Some("a".to_owned()),
        1 => Some("b".to_owned()),
        _ => None,
    };
    let digest = match input.u8() % 8 {
        0 => Some(digest(b"")),
        1..4 => input.choose(&container.digests).cloned(),
        _ => None,
    };
    if tag.is_some() || digest.is_some() || input.u8().is_multiple_of(4) {
        source.kind = InputKind::Container { path, tag, digest };
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
    let mut bytes = match kind % 8 {
        0..=3 => archive,
        4 => zstd::encode_all(&archive[..], 1).expect("memory"),
        5 => liblzma::encode_all(&archive[..], 0).expect("memory"),
        6 => {
            let mut to = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            to.write_all(&archive).expect("memory");
            to.finish().expect("memory")
        }
        _ => {
            let (first, second) = archive.split_at(input.below(archive.len() + 1));
            let mut bytes = Vec::new();
            for part in [first, second] {
                let mut to = flate2::write::GzEncoder::new(bytes, flate2::Compression::fast());
                to.write_all(part).expect("memory");
                bytes = to.finish().expect("memory");
                bytes.resize(bytes.len() + usize::from(input.u8() % 4), input.u8() % 2);
            }
            bytes
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
        b'S' if input.u8().is_multiple_of(2) => return sparse(archive, name, input),
        b'S' => return sparse_by_records(archive, name, input),
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
    let mut record = key_and_value(key, &value);
    if input.u8().is_multiple_of(32) {
        record[0] = input.u8();
    }
    record
}

/// A record of an extended header.
fn key_and_value(key: &str, value: &[u8]) -> Vec<u8> {
    let len = key.len() + value.len() + 3;
    let digits = (1..).find(|digits| (len + digits).to_string().len() == *digits);
    let len = len + digits.unwrap_or(1);
    [format!("{len} {key}=").as_bytes(), value, b"\n"].concat()
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

/// A sparse file of GNU tar with extended headers: its map is in records, in one record, or before the data.
fn sparse_by_records(archive: &mut Vec<u8>, name: &str, input: &mut Input<'_>) {
    let (mut parts, mut at, mut stored) = (Vec::new(), 0, 0);
    for _ in 0..input.u8() % 5 {
        at += u64::from(input.u16());
        let len = u64::from(input.u8());
        parts.push((at, len));
        (at, stored) = (at + len, stored + len);
    }
    let mut size = at + u64::from(input.u8());
    if input.u8().is_multiple_of(16) {
        size = input.position();
    }
    let numbers = parts
        .iter()
        .flat_map(|(start, len)| [start.to_string(), len.to_string()]);
    let mut numbers: Vec<String> = numbers.collect();
    if input.u8().is_multiple_of(16) {
        let other = input.choose(&VALUES).unwrap_or(&"").to_string();
        numbers.insert(input.below(numbers.len() + 1), other);
    }
    let mut records = Vec::new();
    let mut add = |key: &str, value: &str| records.extend(key_and_value(key, value.as_bytes()));
    let mut data = Vec::new();
    match input.u8() % 3 {
        0 => {
            add("GNU.sparse.size", &size.to_string());
            for (i, number) in numbers.iter().enumerate() {
                let key = ["GNU.sparse.offset", "GNU.sparse.numbytes"][i % 2];
                add(key, number);
            }
        }
        1 => {
            add("GNU.sparse.size", &size.to_string());
            add("GNU.sparse.map", &numbers.join(","));
        }
        _ => {
            add("GNU.sparse.major", "1");
            add("GNU.sparse.minor", "0");
            add("GNU.sparse.name", name);
            add("GNU.sparse.realsize", &size.to_string());
            data = format!("{}\n{}\n", parts.len(), numbers.join("\n")).into_bytes();
            data.resize(data.len().next_multiple_of(512), 0);
        }
    }
    data.resize(data.len() + stored as usize, 9);
    push(archive, b'x', "x", "", &records, input);
    push(archive, b'0', name, "", &data, input);
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

/// A layout, or what `docker save` writes.
struct Container {
    files: Vec<(String, Vec<u8>)>,
    /// Those of the manifests and indexes.
    digests: Vec<String>,
}

impl Container {
    /// Digests are right.
    fn new(layers: &[Vec<u8>], input: &mut Input<'_>) -> Container {
        let mut new = Container {
            files: Vec::new(),
            digests: Vec::new(),
        };
        match input.u8().is_multiple_of(3) {
            true => new.save(layers, input),
            false => new.lay_out(layers, input),
        }
        new
    }

    fn add(&mut self, name: &str, bytes: &[u8]) {
        self.files.push((name.to_owned(), bytes.to_vec()));
    }

    fn save(&mut self, layers: &[Vec<u8>], input: &mut Input<'_>) {
        let (mut names, mut digests) = (Vec::new(), Vec::new());
        for (i, layer) in layers.iter().enumerate() {
            self.add(&format!("{i}/layer.tar"), layer);
            names.push(format!("\"{i}/layer.tar\""));
            digests.push(format!("\"{}\"", digest(layer)));
        }
        if input.u8().is_multiple_of(16) {
            digests.pop();
        }
        let config = format!("{{\"rootfs\":{{\"diff_ids\":[{}]}}}}", digests.join(","));
        let names = names.join(",");
        let images = ["a", "x:b"].map(|tag| {
            format!("{{\"Config\":\"c.json\",\"RepoTags\":[\"{tag}\"],\"Layers\":[{names}]}}")
        });
        let manifest = images[..1 + usize::from(input.u8() % 2)].join(",");
        self.add("c.json", config.as_bytes());
        let manifest = changed(format!("[{manifest}]"), input);
        self.add("manifest.json", manifest.as_bytes());
    }

    fn lay_out(&mut self, layers: &[Vec<u8>], input: &mut Input<'_>) {
        let layer = |layer: &Vec<u8>| self.blob("image.layer.v1.tar", layer, "", input);
        let layers: Vec<String> = layers.iter().map(layer).collect();
        let config = self.blob("image.config.v1+json", b"{}", "", input);
        let layers = layers.join(",");
        let mut manifests = Vec::new();
        for _ in 0..1 + input.u8() % 3 {
            let manifest = format!(
                "{{\"schemaVersion\":2,\"config\":{config},\"layers\":[{layers}],\"annotations\":{{\"n\":\"{}\"}}}}",
                manifests.len()
            );
            let manifest = changed(manifest, input);
            let about = about(input);
            manifests.push(self.blob("image.manifest.v1+json", manifest.as_bytes(), about, input));
        }
        for _ in 0..input.u8() % 4 {
            let index = index(&manifests, input);
            let about = about(input);
            let inner = self.blob("image.index.v1+json", index.as_bytes(), about, input);
            match input.u8().is_multiple_of(2) {
                true => manifests = vec![inner],
                false => manifests.push(inner),
            }
        }
        self.add("oci-layout", b"{\"imageLayoutVersion\":\"1.0.0\"}");
        let index = index(&manifests, input);
        self.add("index.json", index.as_bytes());
    }

    /// A file by its digest, and its descriptor.
    fn blob(&mut self, media: &str, bytes: &[u8], about: &str, input: &mut Input<'_>) -> String {
        let digest = match input.u8().is_multiple_of(8) {
            true => hash::<sha2::Sha512>("sha512", bytes),
            false => digest(bytes),
        };
        self.add(&format!("blobs/{}", digest.replace(':', "/")), bytes);
        if media.contains("json") {
            self.digests.push(digest.clone());
        }
        format!(
            "{{\"mediaType\":\"application/vnd.oci.{media}\",\"digest\":\"{digest}\",\"size\":{}{about}}}",
            bytes.len()
        )
    }

    /// All in one archive.
    fn archive(&self) -> Vec<u8> {
        let mut archive = Vec::new();
        for (name, bytes) in &self.files {
            // Nothing of it is changed: a script that has ended says zero, and so not the size of a file.
            let input = &mut Input::new(&[1; 32]);
            if name.len() > 100 {
                push(&mut archive, b'L', "long", "", name.as_bytes(), input);
            }
            let name = name.get(..100).unwrap_or(name);
            push(&mut archive, b'0', name, "", bytes, input);
        }
        archive
    }

    fn write_to(&self, dir: &Path) {
        for (name, bytes) in &self.files {
            let path = dir.join(name);
            let parent = path.parent().expect("below a directory");
            std::fs::create_dir_all(parent).expect("room in /dev/shm");
            std::fs::write(&path, bytes).expect("room in /dev/shm");
        }
    }
}

/// What a descriptor says besides.
fn about(input: &mut Input<'_>) -> &'static str {
    let all = [
        "",
        "",
        ",\"annotations\":{\"org.opencontainers.image.ref.name\":\"a\"}",
        ",\"annotations\":{\"org.opencontainers.image.ref.name\":\"x:b\"}",
        ",\"platform\":{\"architecture\":\"amd64\",\"os\":\"linux\"}",
        ",\"platform\":{\"architecture\":\"arm64\",\"os\":\"linux\",\"variant\":\"v8\"}",
        ",\"platform\":{\"architecture\":\"unknown\",\"os\":\"unknown\"}",
    ];
    input.choose(&all).copied().unwrap_or("")
}

fn index(manifests: &[String], input: &mut Input<'_>) -> String {
    let manifests = manifests.join(",");
    let index = format!("{{\"schemaVersion\":2,\"manifests\":[{manifests}]}}");
    changed(index, input)
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

fn digest(bytes: &[u8]) -> String {
    hash::<sha2::Sha256>("sha256", bytes)
}

fn hash<H: sha2::Digest>(name: &str, bytes: &[u8]) -> String {
    let digits: String = H::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{name}:{digits}")
}
