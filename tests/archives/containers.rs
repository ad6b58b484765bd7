//! Layers on top of each other, as umoci unpacks them.
use uext4_testkit::prelude::*;

use crate::generator::Generator;
use crate::layout::{Pack, layout};
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
