//! Any position of a directory can be asked for: FUSE passes on what a client gave to lseek(2).

use uext4_testkit::prelude::*;

/// Found by the fuzz target `extents`: the addition of one to the position overflowed.
#[test]
fn regression_a_directory_is_read_from_the_highest_position() {
    for shape in [
        "-b 1024",
        "-b 1024 -O ^dir_index",
        "-b 1024 -I 512 -O inline_data",
    ] {
        let path = image("16M", shape);
        let fs = path.mount();
        let top = fs.top();
        let small = fs.make(&top, b"small", &DIR);
        fs.make(&small, b"file", &FILE);
        let large = fs.make(&top, b"large", &DIR);
        for number in 0..300 {
            fs.make(&large, &format!("file-with-a-name-{number}"), &FILE);
        }
        for dir in [&small, &large] {
            for position in [u64::MAX, u64::MAX - 1, u64::MAX - 2, 1 << 63] {
                let mut names = 0;
                let listed = fs.readdir(&Caller::root(), dir, position, &mut |_| {
                    names += 1;
                    true
                });
                assert_eq!(
                    (listed.map_err(|e| e.errno()), names),
                    (Ok(()), 0),
                    "{shape}: {position:#x}"
                );
            }
        }
        drop((small, large, top));
        path.end(fs);
    }
}
