//! Reading directories, also while they change.

use crate::on_names::{Entry, entries, some_entries};
use crate::*;
use std::collections::BTreeSet;

const CASES: [Case; 7] = [
    ("dir_entries", listing),
    ("dir_small_buffers", small_buffers),
    ("dir_many", many),
    ("dir_positions", positions),
    ("dir_removing", removing),
    ("dir_adding", adding),
    ("dir_working", working),
];

#[test]
fn directory_calls() {
    compare(&CASES, &[]);
}

fn open_dir(s: &mut Scene, path: &str) -> i32 {
    s.open(path, O_RDONLY | O_DIRECTORY, 0)
}

fn listing(s: &mut Scene) {
    s.file("f", 1);
    s.mkdir("d", 0o755);
    s.symlink("x", "l");
    s.mknod("p", S_IFIFO | 0o600, (0, 0));
    s.mknod("s", S_IFSOCK | 0o600, (0, 0));
    s.mknod("c", S_IFCHR | 0o600, (1, 3));
    s.mknod("b", S_IFBLK | 0o600, (7, 0));
    s.list(".");
    s.list("d");
    s.list("f");
    let d = open_dir(s, ".");
    let mut found = entries(d).expect("lists");
    found.sort();
    for entry in found {
        let stat = crate::on_attributes::stat_of(d, &entry.name).expect("is there");
        let is_parent = entry.name == b"..";
        s.line(format_args!(
            "{} inode as stat: {}",
            short(&entry.name),
            is_parent || stat.st_ino == entry.inode
        ));
    }
    let f = s.open("f", O_RDONLY, 0);
    s.done("getdents of a file", some_entries(f, 1000).map(|_| 0));
    let w = s.open(".", O_PATH, 0);
    s.done("getdents of a path", some_entries(w, 1000).map(|_| 0));
}

fn small_buffers(s: &mut Scene) {
    s.file(&"n".repeat(200), 1);
    for at in 0..20 {
        s.file(&format!("f{at}"), 0);
    }
    for room in [1, 20, 24, 40, 100, 300] {
        let d = open_dir(s, ".");
        let mut names = Vec::new();
        let end = loop {
            match some_entries(d, room) {
                Ok(some) if some.is_empty() => break Ok(names.len() as i64),
                Ok(some) => names.extend(some.into_iter().map(|e| e.name)),
                Err(e) => break Err(e),
            }
        };
        // How many fit before one that does not depends on their order.
        s.number(format!("entries in {room} bytes"), end);
        let once: BTreeSet<_> = names.iter().collect();
        s.line(once.len() == names.len());
    }
}

fn names_of(found: &[Entry]) -> BTreeSet<Vec<u8>> {
    found.iter().map(|e| e.name.clone()).collect()
}

fn many(s: &mut Scene) {
    s.mkdir("d", 0o755);
    for at in 0..3000 {
        std::fs::write(format!("d/a name of some length {at}"), "").expect("makes it");
    }
    let d = open_dir(s, "d");
    let found = entries(d).expect("lists");
    s.line(format_args!(
        "{} entries, {} names",
        found.len(),
        names_of(&found).len()
    ));
    let before: BTreeSet<_> = found.iter().map(|e| e.next).collect();
    s.line(format_args!(
        "each has a position: {}",
        before.len() == found.len()
    ));
    s.stat("d");
    for at in (0..3000).filter(|at| at % 3 != 0) {
        std::fs::remove_file(format!("d/a name of some length {at}")).expect("removes it");
    }
    s.lseek(d, 0, SEEK_SET);
    let found = entries(d).expect("lists");
    s.line(format_args!(
        "{} entries, {} names",
        found.len(),
        names_of(&found).len()
    ));
    s.rmdir("d");
    for at in (0..3000).filter(|at| at % 3 == 0) {
        std::fs::remove_file(format!("d/a name of some length {at}")).expect("removes it");
    }
    s.rmdir("d");
}

fn positions(s: &mut Scene) {
    for at in 0..300 {
        s.file(&format!("name {at}"), 0);
    }
    let d = open_dir(s, ".");
    let all = entries(d).expect("lists");
    let mut wrong = 0;
    for (at, entry) in all.iter().enumerate() {
        call!(lseek, d, entry.next, SEEK_SET).expect("a position");
        let rest = entries(d).expect("lists");
        let names = |found: &[Entry]| found.iter().map(|e| e.name.clone()).collect::<Vec<_>>();
        wrong += i32::from(names(&rest) != names(&all[at + 1..]));
    }
    s.line(format_args!("{wrong} positions that others follow"));
    let at_end = call!(lseek, d, 0, SEEK_CUR).expect("a position");
    s.line(format_args!(
        "at the end as returned: {}",
        at_end == all[all.len() - 1].next
    ));
    s.lseek(d, 0, SEEK_SET);
    s.lseek(d, -1, SEEK_SET);
    s.lseek(d, 0, SEEK_DATA);
    s.lseek(d, 0, 77);
    s.number("entries", entries(d).map(|e| e.len() as i64));
    let again = open_dir(s, ".");
    call!(lseek, again, all[150].next, SEEK_SET).expect("a position");
    let rest = entries(again).expect("lists");
    s.line(format_args!(
        "the same in another: {}",
        names_of(&rest) == names_of(&all[151..])
    ));
}

fn removing(s: &mut Scene) {
    for at in 0..500 {
        s.file(&format!("name {at}"), 0);
    }
    let d = open_dir(s, ".");
    let mut seen = BTreeSet::new();
    let (mut twice, mut removed) = (0, 0);
    loop {
        let some = some_entries(d, 500).expect("lists");
        if some.is_empty() {
            break;
        }
        for entry in some.iter().filter(|e| e.kind == 8) {
            twice += i32::from(!seen.insert(entry.name.clone()));
            let name = crate::scene::text(&entry.name);
            removed += i32::from(call!(unlink, name.as_ptr()).is_ok());
        }
    }
    s.line(format_args!(
        "{} seen, {twice} of them twice, {removed} removed",
        seen.len()
    ));
    s.list(".");
}

fn adding(s: &mut Scene) {
    for at in 0..300 {
        s.file(&format!("old {at}"), 0);
    }
    let d = open_dir(s, ".");
    let mut seen = Vec::new();
    let mut made = 0;
    loop {
        let some = some_entries(d, 400).expect("lists");
        if some.is_empty() {
            break;
        }
        seen.extend(some.into_iter().map(|e| e.name));
        if made < 400 {
            for _ in 0..20 {
                s.file(&format!("new {made}"), 0);
                made += 1;
            }
        }
    }
    let old: Vec<_> = seen
        .iter()
        .filter(|name| name.starts_with(b"old"))
        .collect();
    let once: BTreeSet<_> = old.iter().collect();
    s.line(format_args!("{} old ones, {} names", old.len(), once.len()));
    s.lseek(d, 0, SEEK_SET);
    let found = entries(d).expect("lists");
    s.line(format_args!("{}", names_of(&found).len() == made + 302));
}

fn working(s: &mut Scene) {
    s.mkdir("a", 0o755);
    s.mkdir("a/b", 0o755);
    s.chdir("a/b");
    s.rename("../../a", "../../moved");
    let mut path = vec![0u8; 4096];
    let n = call!(syscall, SYS_getcwd, path.as_mut_ptr(), path.len()).expect("is there") as usize;
    let text = String::from_utf8_lossy(&path[..n - 1]).into_owned();
    s.line(text.ends_with("dir_working/moved/b"));
    s.list("..");
    s.chdir("none");
    s.chdir("..");
    s.chdir("..");
    s.file("f", 1);
    s.chdir("f");
    s.chmod("moved", 0o600);
    s.as_user(1001, &[1001], |s| {
        s.chdir("moved");
        s.list("moved");
        s.stat("moved/b");
    });
    s.chmod("moved", 0o711);
    s.as_user(1001, &[1001], |s| {
        s.list("moved");
        s.stat("moved/b");
        s.chdir("moved/b");
        s.list(".");
    });
}
