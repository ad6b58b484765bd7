//! `bindings/c/include/uext4.h` is what cbindgen makes of `bindings/c/src`. UEXT4_WRITE_HEADER=1 writes it.

use cbindgen::{Builder, DocumentationStyle, Language, Style};
use uext4_testkit::built::WORKSPACE;
use uext4_testkit::prelude::*;

const HEAD: &str = "\
/* ext4 images in user space, from C. Generated from bindings/c/src; docs/C.md is the manual.
 *
 * Results    A call returns 0 or a count, or a negative errno, of which uext4_message() returns the text. A handle or structure that is
 *            NULL, as other arguments that can't be, is -EINVAL. No call ends the program or calls back into it.
 * Pointers   Strings end with a 0. Buffers have the size that is passed with them. A handle is from the call that opens it, and its close
 *            is its last use. Structures need no value before the call that fills them.
 * Threads    Any threads may use a handle at the same time, but nothing may use it while or after it is closed. Calls block the thread.
 * Paths      Inside an image a path is bytes, with or without a / at its start: at most 4095, and 255 for a name.
 * Crashes    A change is durable once uext4_sync, uext4_file_sync (of that file) or uext4_close returns 0. After a crash any other change
 *            of names and attributes is there as a whole or not at all.
 *
 * Example
 *
 *     uext4_fs *fs;
 *     if (uext4_mkfs(\"disk.img\", 64 << 20, NULL) < 0 || uext4_open(\"disk.img\", UEXT4_OPEN_READ_WRITE, NULL, &fs) < 0 ||
 *         uext4_mkdir(fs, \"/etc\", 0755) < 0 || uext4_close(fs) < 0)
 *         fprintf(stderr, \"%s\\n\", uext4_message());
 */";

fn generated() -> String {
    let mut config = cbindgen::Config {
        language: Language::C,
        style: Style::Both,
        documentation_style: DocumentationStyle::C99,
        header: Some(HEAD.to_owned()),
        include_guard: Some("UEXT4_H".to_owned()),
        no_includes: true,
        sys_includes: vec!["stddef.h".to_owned(), "stdint.h".to_owned()],
        cpp_compat: true,
        usize_is_size_t: true,
        line_length: 140,
        ..cbindgen::Config::default()
    };
    config.export.include = vec!["uext4_open_flags".to_owned()];
    let bindings = Builder::new()
        .with_config(config)
        .with_crate(Path::new(WORKSPACE).join("bindings/c"))
        .generate()
        .expect("cbindgen reads the source");
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).expect("UTF-8")
}

#[test]
fn the_header_is_that_of_the_source() {
    let path = Path::new(WORKSPACE).join("bindings/c/include/uext4.h");
    let header = generated();
    if std::env::var_os("UEXT4_WRITE_HEADER").is_some() {
        std::fs::write(&path, &header).expect("it is written");
    }
    let there = std::fs::read_to_string(&path).expect("the header");
    assert!(
        there == header,
        "{} is out of date: run this test with UEXT4_WRITE_HEADER=1",
        path.display()
    );
}
