//! Ranges that are taken out of, and put into, files with deep trees.

use uext4_testkit::image::mount;
use uext4_testkit::prelude::*;

const BLOCK: u64 = 1024;
/// A stamp in every other block, so that each is an extent: a tree of three levels.
const BLOCKS: u64 = 16_000;

#[test]
fn thousands_of_extents_move() {
    let shape = Shape {
        bytes: 64 << 20,
        ..Shape::SMALL_JOURNAL[0]
    };
    let device = Arc::new(shape.make().expect("an image"));
    let fs = mount(device.clone()).expect("mounts");
    let new = NewNode {
        mode: 0o600,
        kind: NewKind::Regular,
    };
    let (root, caller) = (fs.top(), Caller::root());
    let file = FileSystem::create(&*fs, &caller, &root, b"f", &new).expect("is made");
    let mut model: Vec<u32> = vec![0; BLOCKS as usize];
    for at in (0..BLOCKS).step_by(2) {
        let stamp = at as u32 + 1;
        fs.put(&file, at * BLOCK, &stamp.to_le_bytes());
        model[at as usize] = stamp;
    }
    fs.resize(&file, BLOCKS * BLOCK);
    let mut rng = Rng::with_seed(3);
    for step in 0..env_number("UEXT4_MOVES", 60) {
        let at = rng.usize(..model.len());
        let len = rng.usize(1..40);
        let range = (at as u64 * BLOCK, len as u64 * BLOCK);
        if rng.bool() && at + len < model.len() {
            fs.fallocate(&file, Fallocate::CollapseRange, range.0, range.1)
                .expect("is taken out");
            model.drain(at..at + len);
        } else {
            fs.fallocate(&file, Fallocate::InsertRange, range.0, range.1)
                .expect("is put in");
            model.splice(at..at, std::iter::repeat_n(0, len));
        }
        assert_eq!(file.size(), model.len() as u64 * BLOCK, "step {step}");
        let near = at.saturating_sub(50)..(at + 100).min(model.len());
        let all = step % 20 == 19;
        for block in if all { 0..model.len() } else { near } {
            let mut bytes = [0; 4];
            fs.read(&file, block as u64 * BLOCK, &mut bytes)
                .expect("reads");
            assert_eq!(
                u32::from_le_bytes(bytes),
                model[block],
                "step {step}, block {block}"
            );
        }
    }
    drop(file);
    drop(root);
    fs.end_on(&device);
}
