//! `uext4 mkfs --from` an archive: pipes, limits, and what is left where one fails.

use crate::*;
use std::process::Stdio;

/// A tar archive of the tree, and the tree.
fn packed(workdir: &Workdir, args: &[&str]) {
    workdir.tree();
    let mut tar = Command::new("tar");
    tar.current_dir(workdir.dir())
        .args(["-C", "tree", "--sort=name", "-cf"])
        .args(args)
        .arg(".");
    assert!(tar.status().unwrap().success());
}

fn files(workdir: &Workdir) -> Vec<String> {
    let entries = fs::read_dir(workdir.dir()).unwrap();
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn an_archive_is_read_from_a_file_and_a_pipe() {
    let workdir = Workdir::new();
    packed(&workdir, &["a.tar.gz", "-z"]);
    let uuid = "00000000-0000-0000-0000-000000000003";
    let run = |image: &str, from: &str| {
        let mut command = Command::new(uext4());
        command
            .current_dir(workdir.dir())
            .args(["mkfs", image, "--from", from, "--uuid", uuid]);
        command
            .env("SOURCE_DATE_EPOCH", "4000000000")
            .stdin(Stdio::from(
                fs::File::open(workdir.path("a.tar.gz")).unwrap(),
            ));
        let out = command.output().unwrap();
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        fs::read(workdir.path(image)).unwrap()
    };
    let from_file = run("a.img", "a.tar.gz");
    assert!(from_file == run("b.img", "-"));
    assert!(from_file == run("c.img", "tar:a.tar.gz"));
    workdir.assert_clean("a.img");
    workdir.prints(&["cat", "a.img:/etc/passwd"], "root:x:0:0");
    assert_eq!(
        files(&workdir),
        ["a.img", "a.tar.gz", "b.img", "c.img", "tree"]
    );
}

#[test]
fn an_archive_that_fails_leaves_nothing() {
    let workdir = Workdir::new();
    packed(&workdir, &["a.tar"]);
    let whole = fs::read(workdir.path("a.tar")).unwrap();
    fs::write(workdir.path("cut.tar"), &whole[..whole.len() / 2]).unwrap();
    fs::write(workdir.path("text"), "no archive at all\n".repeat(100)).unwrap();
    fs::write(workdir.path("old.img"), "kept").unwrap();
    let before = files(&workdir);
    for image in ["new.img", "old.img"] {
        let refuses = |from: &[&str], text: &str| {
            let args = [&["mkfs", image, "--force", "--from"], from].concat();
            workdir.refuses(1, &args, text);
        };
        refuses(&["cut.tar"], "cut.tar: ");
        refuses(&["text"], "text: at byte 0: no header of an archive");
        refuses(
            &["a.tar", "--limit", "10K"],
            "beyond the limit of 10240 bytes; a larger --limit",
        );
        refuses(&["oci:tree"], "neither an OCI layout nor");
        refuses(&["oci:none"], "can't open none");
    }
    assert_eq!(files(&workdir), before);
    assert_eq!(fs::read(workdir.path("old.img")).unwrap(), b"kept");
}

/// What a shell does before it becomes the command, such as `ulimit -n 64`.
fn run_with(workdir: &Workdir, before: &str, args: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.current_dir(workdir.dir()).env("UEXT4", uext4());
    command.args(["-c", &format!("{before}\nexec \"$UEXT4\" \"$@\""), "sh"]);
    command.args(args).output().unwrap()
}

fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn a_full_host_is_not_the_archives_fault() {
    let workdir = Workdir::new();
    packed(&workdir, &["a.tar.gz", "-z"]);
    fs::create_dir(workdir.path("full")).unwrap();
    let limit = "trap '' XFSZ; ulimit -f 100";
    let out = run_with(
        &workdir,
        limit,
        &["mkfs", "full/a.img", "--from", "a.tar.gz"],
    );
    let said = stderr(&out);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(
        said.contains("can't keep the data of archives in full: "),
        "{said}"
    );
    assert!(said.contains("make room there"), "{said}");
}

#[test]
fn a_dry_run_keeps_data_beside_the_image() {
    let workdir = Workdir::new();
    packed(&workdir, &["a.tar.gz", "-z"]);
    let before = files(&workdir);
    let args = ["mkfs", "-n", "a.img", "--from", "a.tar.gz"];
    let out = run_with(&workdir, "export TMPDIR=/none", &args);
    assert!(out.status.success(), "{}", stderr(&out));
    assert_eq!(files(&workdir), before);
}

#[test]
fn standard_input_that_is_too_large_is_answered_with_a_size_that_works() {
    let workdir = Workdir::new();
    packed(&workdir, &["a.tar"]);
    let run = |size: &str| {
        let args = ["mkfs", "-F", "a.img", "--size", size, "--from", "-"];
        run_with(&workdir, "exec <a.tar", &args)
    };
    let said = stderr(&run("1M"));
    let (_, size) = said.split_once("; --size ").expect(&said);
    let out = run(size.strip_suffix(" suffices\n").expect(&said));
    assert!(out.status.success(), "{}", stderr(&out));
}

/// An archive of headers, each of `kind` with a name from a number.
fn headers(count: usize, kind: tar::EntryType) -> Vec<u8> {
    let mut bytes = Vec::new();
    for i in 0..count {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_path(i.to_string()).unwrap();
        header.set_mode(0o644);
        header.set_size(0);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        header.set_cksum();
        bytes.extend(header.as_bytes());
    }
    bytes
}

#[test]
fn few_of_many_warnings_are_printed() {
    let workdir = Workdir::new();
    let sockets = headers(5000, tar::EntryType::new(b'Z'));
    fs::write(workdir.path("a.tar"), sockets).unwrap();
    let run = |args: &[&str]| {
        let args = [&["mkfs", "-F", "a.img", "--from", "a.tar"], args].concat();
        let out = workdir.run(&args);
        assert!(out.status.success(), "{}", stderr(&out));
        out
    };
    let said = stderr(&run(&[]));
    assert_eq!(said.lines().count(), 12, "{said}");
    assert!(said.contains("990 more, which --json lists"), "{said}");
    assert!(said.contains("a.tar: 4000 more such warnings"), "{said}");
    let report = run(&["--json"]).stdout;
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    let list = report["warnings"].as_array().unwrap();
    assert_eq!(list.len(), 1001);
    let count = list
        .iter()
        .filter(|text| text.as_str().unwrap().contains("4000 more"));
    assert_eq!(count.count(), 1);
}

/// Archives that expand to far more than they hold, in 256 MiB.
#[test]
fn memory_is_bounded() {
    let workdir = Workdir::new();
    let record = |key: &str, value: &str| {
        let len = key.len() + value.len() + 3;
        let digits = (len + 2).to_string().len();
        format!("{} {key}={value}\n", len + digits).into_bytes()
    };
    let extended = |kind: u8, records: &[u8]| {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::new(kind));
        header.set_size(records.len() as u64);
        header.set_cksum();
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend(records);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes
    };
    let file = headers(1, tar::EntryType::Regular);
    let value = "v".repeat(3000);
    let many: Vec<u8> = (0..20)
        .flat_map(|i| record(&format!("SCHILY.xattr.user.a{i}"), &value))
        .collect();
    let shared = record("SCHILY.xattr.user.a", &value);
    let long: String = "a".repeat(255) + "/";
    let path = record("path", &long.repeat(250));
    let short = |i: usize| record("path", &format!("{i}/{}", "a/".repeat(1900)));
    let archives = [
        (
            "records",
            extended(b'g', &b"4 =\n".repeat(3_900_000)),
            false,
        ),
        (
            "own records",
            extended(b'x', &b"5 a=\n".repeat(3_000_000)),
            false,
        ),
        (
            "attributes",
            [
                extended(b'g', &many),
                headers(20_000, tar::EntryType::Regular),
            ]
            .concat(),
            false,
        ),
        (
            "equal attributes",
            [
                extended(b'g', &shared),
                headers(20_000, tar::EntryType::Regular),
            ]
            .concat(),
            true,
        ),
        (
            "paths",
            [extended(b'x', &path), file.clone()].concat().repeat(2000),
            false,
        ),
        (
            "directories",
            (0..400)
                .flat_map(|i| [extended(b'x', &short(i)), file.clone()].concat())
                .collect(),
            false,
        ),
    ];
    for (name, archive, is_fine) in archives {
        let packed = zstd::encode_all(&archive[..], 1).unwrap();
        fs::write(workdir.path("a.tar"), packed).unwrap();
        let args = ["mkfs", "-F", "a.img", "--from", "a.tar"];
        let out = run_with(&workdir, "ulimit -d 262144", &args);
        let said = stderr(&out);
        let code = if is_fine { 0 } else { 1 };
        assert_eq!(out.status.code(), Some(code), "{name}: {said}");
    }
}

/// Layers that have no files of their own open.
#[test]
fn images_may_have_many_layers() {
    let workdir = Workdir::new();
    let dir = workdir.path("image");
    let blobs = dir.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let blob = |media: &str, bytes: &[u8]| {
        let digits: String = <sha2::Sha256 as sha2::Digest>::digest(bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        fs::write(blobs.join(&digits), bytes).unwrap();
        serde_json::json!({"mediaType": media, "digest": format!("sha256:{digits}"), "size": bytes.len()})
    };
    let layers: Vec<_> = (0..200)
        .map(|i| {
            let mut to = tar::Builder::new(Vec::new());
            let mut header = tar::Header::new_ustar();
            header.set_mode(0o644);
            header.set_size(4);
            header.set_uid(0);
            header.set_gid(0);
            header.set_mtime(0);
            to.append_data(&mut header, i.to_string(), &b"text"[..])
                .unwrap();
            let plain = to.into_inner().unwrap();
            let media = "application/vnd.oci.image.layer.v1.tar";
            match i % 2 {
                0 => blob(media, &plain),
                _ => blob(
                    &format!("{media}+zstd"),
                    &zstd::encode_all(&plain[..], 1).unwrap(),
                ),
            }
        })
        .collect();
    let config = blob("application/vnd.oci.image.config.v1+json", b"{}");
    let media = "application/vnd.oci.image.manifest.v1+json";
    let manifest = serde_json::json!({"schemaVersion": 2, "config": config, "layers": layers});
    let manifest = blob(media, manifest.to_string().as_bytes());
    let index = serde_json::json!({"schemaVersion": 2, "manifests": [manifest]});
    fs::write(dir.join("index.json"), index.to_string()).unwrap();
    fs::write(dir.join("oci-layout"), "{}").unwrap();
    let args = ["mkfs", "a.img", "--from", "oci:image"];
    let out = run_with(&workdir, "ulimit -n 64", &args);
    assert!(out.status.success(), "{}", stderr(&out));
    for i in [0, 1, 198, 199] {
        workdir.prints(&["cat", &format!("a.img:/{i}")], "text");
    }
}

/// An index that leads to many others is searched until a signal arrives.
#[test]
fn a_search_is_interrupted() {
    let workdir = Workdir::new();
    let dir = workdir.path("image");
    fs::create_dir_all(dir.join("blobs/sha256")).unwrap();
    let digest = |bytes: &[u8]| -> String {
        let digest = <sha2::Sha256 as sha2::Digest>::digest(bytes);
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let media = "application/vnd.oci.image.index.v1+json";
    // Each of 1000 indexes of 100 KiB names nothing.
    let mut manifests = Vec::new();
    for i in 0..1000 {
        let text = serde_json::json!({"schemaVersion": 2, "manifests": [], "annotations": {"i": i.to_string()}});
        let bytes = format!("{text}{}", " ".repeat(100 << 10)).into_bytes();
        let digits = digest(&bytes);
        fs::write(dir.join("blobs/sha256").join(&digits), &bytes).unwrap();
        manifests.push(serde_json::json!({"mediaType": media, "digest": format!("sha256:{digits}"), "size": bytes.len()}));
    }
    let index = serde_json::json!({"schemaVersion": 2, "manifests": manifests});
    fs::write(dir.join("index.json"), index.to_string()).unwrap();
    fs::write(dir.join("oci-layout"), "{}").unwrap();
    let source = format!("oci:image@sha256:{}", "0".repeat(64));
    let args = ["mkfs", "a.img", "--from", &source];
    // SIGTERM, as a process in the background may ignore SIGINT. It is sent when it is caught.
    let before = "(while [ -d /proc/$$ ]; do grep -q '^SigCgt:.*[4567cdef]...$' /proc/$$/status && kill -TERM $$ && exit; sleep 0.01; done) &";
    let out = run_with(&workdir, before, &args);
    let said = stderr(&out);
    assert_eq!(out.status.code(), Some(143), "{said}");
    assert!(said.contains("interrupted"), "{said}");
}
