//! Layers on top of each other, as umoci unpacks them.
use uext4_testkit::prelude::*;

use crate::generator::Generator;
use crate::layout::{Pack, layout};
use sha2::{Digest, Sha256};
use uext4::ImageFormat;
use uext4_build::{Input, MkfsError, MkfsReport, NoProgress, mkfs};

/// Later than all times of the layers: those of directories that umoci makes are cut to it.
const TIME: i64 = 1_650_000_000;

pub fn options(from: Vec<Input>) -> MkfsOptions {
    MkfsOptions {
        size: Some(16 << 20),
        uuid: Some(uuid::Uuid::from_u128(5)),
        time: Some(TIME),
        from,
        ..MkfsOptions::default()
    }
}

/// An image in memory.
pub fn device(options: &MkfsOptions) -> Result<(MemoryDevice, MkfsReport), MkfsError> {
    let device = MemoryDevice::new(options.size.unwrap());
    let report = mkfs(&device, options, &NoProgress)?;
    Ok((device, report))
}

/// The bytes of an image.
pub fn made(options: &MkfsOptions) -> Result<(Vec<u8>, MkfsReport), MkfsError> {
    let (device, report) = device(options)?;
    let mut image = vec![0; device.len() as usize];
    device.read_at(0, &mut image).unwrap();
    Ok((image, report))
}

pub fn oci(dir: &Path) -> Input {
    let mut text = std::ffi::OsString::from("oci:");
    text.push(dir);
    text.push(":x");
    Input::parse(&text)
}

/// Sets of layers: as many as `UEXT4_LAYER_SETS` says.
fn sets() -> u64 {
    std::env::var("UEXT4_LAYER_SETS").map_or(40, |text| text.parse().expect("a number"))
}

#[test]
fn layers_are_applied_as_umoci_applies_them() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: umoci makes devices as root only");
        return;
    }
    let mut refused = 0;
    for seed in 0..sets() {
        let dir = tempfile::tempdir().unwrap();
        let mut generator = Generator::new(seed);
        let packs = [Pack::Plain, Pack::Gzip];
        let layers: Vec<_> = (0..2 + seed % 4)
            .map(|i| (generator.layer(), packs[((seed + i) % 2) as usize]))
            .collect();
        let (image, bundle) = (dir.path().join("image"), dir.path().join("bundle"));
        layout(&image, &layers);
        let args = [
            "unpack",
            "--image",
            &format!("{}:x", image.display()),
            bundle.to_str().unwrap(),
        ];
        let Ok(unpacked) = Command::new("umoci").args(args).output() else {
            eprintln!("skipped: no umoci");
            return;
        };
        let ours = made(&options(vec![oci(&image)]));
        if !unpacked.status.success() {
            let said = String::from_utf8_lossy(&unpacked.stderr);
            assert!(ours.is_err(), "seed {seed}: umoci refuses it: {said}");
            refused += 1;
            eprintln!("seed {seed}: {} ## {}", said.trim(), ours.unwrap_err());
            continue;
        }
        let (ours, report) = ours.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!(report.warnings, [""; 0], "seed {seed}");
        let theirs = made(&options(vec![bundle.join("rootfs").into()]))
            .unwrap()
            .0;
        if ours != theirs {
            std::fs::write("/tmp/ours.img", &ours).unwrap();
            std::fs::write("/tmp/theirs.img", &theirs).unwrap();
            let kept = dir.keep();
            panic!(
                "seed {seed}: /tmp/ours.img is not /tmp/theirs.img, as umoci unpacks {}",
                kept.display()
            );
        }
    }
    assert!(refused * 2 < sets(), "too few sets can be unpacked");
    eprintln!("{refused} refused");
}

/// A layer of one file.
fn one_file(name: &str, content: &str) -> Vec<u8> {
    let mut to = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_mode(0o644);
    header.set_size(content.len() as u64);
    header.set_mtime(1);
    header.set_uid(0);
    header.set_gid(0);
    to.append_data(&mut header, name, content.as_bytes())
        .unwrap();
    to.into_inner().unwrap()
}

/// The content of the file `name` of an image from a source.
pub fn content(source: &str, name: &str) -> Result<String, String> {
    let input = Input::parse(source.as_ref());
    let (device, _) = device(&options(vec![input])).map_err(|e| e.to_string())?;
    let options = uext4::ImageOptions::read_only();
    let fs = uext4::Filesystem::open_device(std::sync::Arc::new(device), &options).unwrap();
    let bytes = fs.read(name).map_err(|e| e.to_string())?;
    Ok(String::from_utf8(bytes).unwrap())
}

/// A layout of images `one` and `two`, and `many` for two platforms.
fn several(dir: &Path) {
    let tagged = |mut manifest: serde_json::Value, tag: &str| {
        manifest["annotations"] = serde_json::json!({"org.opencontainers.image.ref.name": tag});
        manifest
    };
    let image = |name: &str, architecture| {
        crate::layout::image(dir, &[(one_file("name", name), Pack::Zstd)], architecture)
    };
    let platforms: Vec<_> = ["amd64", "arm64", "s390x"]
        .iter()
        .map(|architecture| {
            let mut manifest = image(architecture, architecture);
            manifest["platform"] = serde_json::json!({"os": "linux", "architecture": architecture});
            manifest
        })
        .collect();
    let media = "application/vnd.oci.image.index.v1+json";
    let inner = serde_json::json!({"schemaVersion": 2, "manifests": platforms});
    let many = crate::layout::blob(dir, media, inner.to_string().as_bytes());
    let all = [
        tagged(image("one", "amd64"), "one"),
        tagged(image("two", "amd64"), "registry/name:two"),
        tagged(many, "many"),
    ];
    crate::layout::index(dir, &all);
}

#[test]
fn an_image_is_named_by_tag_digest_and_platform() {
    let dir = tempfile::tempdir().unwrap();
    several(dir.path());
    let source = |rest: &str| format!("oci:{}{rest}", dir.path().display());
    let name = |rest: &str| content(&source(rest), "name");
    assert_eq!(name(":one").unwrap(), "one");
    assert_eq!(name(":two").unwrap(), "two");
    let error = name("").unwrap_err();
    assert!(error.contains(":one, :registry/name:two, :many"), "{error}");
    let error = name(":three").unwrap_err();
    assert!(error.contains("no image has the tag three"), "{error}");
    let index = std::fs::read_to_string(dir.path().join("index.json")).unwrap();
    let index: serde_json::Value = serde_json::from_str(&index).unwrap();
    let digest = |i: usize| index["manifests"][i]["digest"].as_str().unwrap();
    assert_eq!(name(&format!("@{}", digest(1))).unwrap(), "two");
    let error = name(&format!("@{}0", digest(1))).unwrap_err();
    assert!(error.contains("is not a digest"), "{error}");
    for architecture in ["amd64", "arm64", "s390x"] {
        let mut options = options(vec![Input::parse(source(":many").as_ref())]);
        options.platform = Some(format!("linux/{architecture}"));
        let image = made(&options).unwrap().0;
        let is_there = image
            .windows(5)
            .any(|five| five == &architecture.as_bytes()[..5]);
        assert!(is_there, "{architecture}");
    }
    let mut options = options(vec![Input::parse(source(":many").as_ref())]);
    options.platform = Some("linux/riscv64".into());
    let error = made(&options).unwrap_err().to_string();
    assert!(
        error.contains("linux/amd64, linux/arm64, linux/s390x"),
        "{error}"
    );
}

#[test]
fn archives_of_images_are_images() {
    let dir = tempfile::tempdir().unwrap();
    let layers: Vec<_> = (0..3)
        .map(|i| (Generator::new(i).layer(), Pack::Gzip))
        .collect();
    let image = dir.path().join("image");
    layout(&image, &layers);
    let expected = made(&options(vec![oci(&image)])).unwrap().0;
    let archive = dir.path().join("oci.tar");
    let mut to = tar::Builder::new(File::create(&archive).unwrap());
    to.append_dir_all(".", &image).unwrap();
    to.finish().unwrap();
    assert!(made(&options(vec![archive.as_path().into()])).unwrap().0 == expected);
    let packed = Pack::Zstd.pack(&std::fs::read(&archive).unwrap());
    std::fs::write(&archive, packed).unwrap();
    assert!(made(&options(vec![archive.as_path().into()])).unwrap().0 == expected);
    // As an archive, it is that of the layout's own files.
    let plain = content(&format!("tar:{}", archive.display()), "oci-layout").unwrap();
    assert!(plain.contains("imageLayoutVersion"));
    let saved = dir.path().join("saved.tar");
    let (from, to) = (
        format!("oci:{}:x", image.display()),
        format!("docker-archive:{}:x:latest", saved.display()),
    );
    match Command::new("skopeo")
        .args(["copy", "--insecure-policy", &from, &to])
        .output()
    {
        Ok(copied) => {
            assert!(
                copied.status.success(),
                "{}",
                String::from_utf8_lossy(&copied.stderr)
            );
            assert!(made(&options(vec![saved.as_path().into()])).unwrap().0 == expected);
        }
        Err(e) => eprintln!("skipped: skopeo: {e}"),
    }
}

#[test]
fn sources_are_put_on_top_of_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::create_dir_all(path("tree/sub")).unwrap();
    std::fs::write(path("tree/name"), "tree").unwrap();
    std::fs::write(path("tree/sub/kept"), "kept").unwrap();
    std::fs::hard_link(path("tree/sub/kept"), path("tree/link")).unwrap();
    std::fs::write(path("a.tar"), one_file("name", "archive")).unwrap();
    std::fs::write(path("b.tar"), one_file("sub/more", "more")).unwrap();
    let input = |text: String| Input::parse(text.as_ref());
    let from = vec![
        path("tree").into(),
        path("a.tar").into(),
        input(format!("/opt/=tar:{}", path("b.tar").display())),
        path("b.tar").into(),
    ];
    let (device, report) = device(&options(from)).unwrap();
    assert_eq!((report.files, report.hard_links), (4, 1));
    let options = uext4::ImageOptions::read_only();
    let fs = uext4::Filesystem::open_device(std::sync::Arc::new(device), &options).unwrap();
    for (name, content) in [
        ("name", "archive"),
        ("sub/kept", "kept"),
        ("link", "kept"),
        ("sub/more", "more"),
        ("opt/sub/more", "more"),
    ] {
        assert_eq!(fs.read(name).unwrap(), content.as_bytes(), "{name}");
    }
}

/// The number of threads changes no byte.
#[test]
fn threads_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let packs = [Pack::Zstd, Pack::Gzip, Pack::Plain];
    let mut generator = Generator::new(4);
    let layers: Vec<_> = (0..6).map(|i| (generator.layer(), packs[i % 3])).collect();
    layout(dir.path(), &layers);
    let options = |threads| MkfsOptions {
        threads,
        ..options(vec![oci(dir.path())])
    };
    let image = |threads| made(&options(threads)).unwrap().0;
    let one = image(1);
    assert!(image(2) == one && image(8) == one);
    let want: [u8; 32] = Sha256::digest(&one).into();
    let digest = |threads, format| {
        let options: uext4::MkfsOptions = options(threads).into();
        let path = dir.path().join("image");
        let report = uext4::mkfs(&path, &options.digest().format(format), &NoProgress).unwrap();
        std::fs::remove_file(path).unwrap();
        report.digest.unwrap()
    };
    for threads in [1, 8] {
        assert_eq!(digest(threads, ImageFormat::Raw), want);
        assert_eq!(digest(threads, ImageFormat::Qcow2), want);
    }
}

/// The digest is of all that the file has: of a hash tree and a partition table, too.
#[test]
fn the_digest_is_that_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let options = |disk| {
        let options = uext4::MkfsOptions::new().size(16 << 20).verity(None);
        if disk {
            options.partition("root")
        } else {
            options
        }
    };
    for disk in [false, true] {
        let made = |options| uext4::mkfs(&path, &options, &NoProgress).unwrap().digest;
        assert_eq!(made(options(disk)), None);
        let digest = made(options(disk).digest()).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(digest, <[u8; 32]>::from(Sha256::digest(bytes)));
    }
    let device = MemoryDevice::new(32 << 20);
    let options = uext4::MkfsOptions::new()
        .size(16 << 20)
        .verity(None)
        .digest();
    let report = uext4::mkfs_on(&device, &options, &NoProgress).unwrap();
    let verity = report.verity.unwrap();
    let mut bytes = vec![0; (verity.hash_offset + verity.bytes) as usize];
    device.read_at(0, &mut bytes).unwrap();
    assert_eq!(
        report.digest.unwrap(),
        <[u8; 32]>::from(Sha256::digest(bytes))
    );
}
