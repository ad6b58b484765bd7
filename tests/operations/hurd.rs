//! Images of GNU Hurd: what its inodes have where Linux has fields of its own stays, and the block of a translator goes with its file.

use uext4_testkit::mke2fs;
use uext4_testkit::prelude::*;

const BLOCK: &str = "2000";

fn translated() -> TempImage {
    let image = image("16M", "-t ext2 -o hurd");
    let fs = image.mount();
    for name in ["translated", "plain"] {
        let file = fs.make(&fs.top(), &name, &FILE);
        fs.put(&file, 0, b"data");
    }
    image.end(fs);
    mke2fs::debugfs(&image, &format!("setb {BLOCK}"));
    for field in [&format!("translator {BLOCK}"), "author 77", "blocks 16"] {
        mke2fs::debugfs(&image, &format!("sif /translated {field}"));
    }
    // What debugfs did not count.
    oracle::repair(&image).expect("e2fsck");
    image
}

fn fields(image: &Path) -> String {
    let said = mke2fs::run(
        Command::new("debugfs")
            .args(["-R", "stat /translated"])
            .arg(image),
    );
    let line = said.lines().find(|line| line.contains("Translator"));
    line.expect("the inode").to_owned()
}

/// Both verifiers find no fault.
#[track_caller]
fn sound(image: &Path) {
    fsck(image);
    let device = FileDevice::open(image, &OpenOptions::read_only()).expect("opens");
    oracle::check(&device).expect("no fault");
}

#[test]
fn translators_stay_and_go_with_their_files() {
    let image = translated();
    sound(&image);
    assert!(fields(&image).contains(BLOCK));

    let fs = image.mount();
    let file = fs.get(&fs.top(), b"translated");
    fs.put(&file, 0, &[7; 50_000]);
    let change = SetAttr {
        mode: Some(0o600),
        uid: Some(70_000),
        ..SetAttr::default()
    };
    fs.setattr(&Caller::root(), &file, &change).expect("chmod");
    drop(file);
    image.end(fs);
    sound(&image);
    assert!(fields(&image).contains(BLOCK), "{}", fields(&image));

    let fs = image.mount();
    let (root, top) = (Caller::root(), fs.top());
    fs.unlink(&root, &top, b"translated").expect("unlink");
    // The number is used again, without the translator.
    let again = fs.make(&top, &"translated", &FILE);
    drop((again, top));
    image.end(fs);
    sound(&image);
    assert!(!fields(&image).contains(BLOCK));
}

/// A translator in a block that does not exist is reported, and the repair leaves none.
#[test]
fn translators_that_are_nowhere_are_repaired() {
    let image = translated();
    mke2fs::debugfs(&image, "sif /plain translator 99999999");
    let check = |write: &[&str]| {
        let mut check = Command::new(built::uext4());
        check
            .arg("check")
            .args(write)
            .arg(&*image)
            .output()
            .expect("runs")
    };
    let said = String::from_utf8(check(&[]).stdout).expect("text");
    assert!(said.contains("block of a translator"), "{said}");
    assert!(check(&["-y"]).status.code() == Some(1));
    sound(&image);
    assert!(fields(&image).contains(BLOCK));
}
