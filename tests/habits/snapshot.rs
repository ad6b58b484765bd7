//! A tree as lines, a line for each file.

use crate::*;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::FileTypeExt;
use std::time::SystemTime;

/// Times of the last hour are the run's own.
const RECENT_SECONDS: i64 = 3600;

/// All that is to be seen of a tree. Times of the run itself are `now`; links and sizes of directories are left out.
pub fn of(root: &Path) -> Vec<String> {
    let mut first_names = HashMap::new();
    let mut lines = Vec::new();
    let mut stack = vec![root.to_owned()];
    while let Some(path) = stack.pop() {
        let found = fs::symlink_metadata(&path).unwrap();
        if found.is_dir() {
            let mut names: Vec<_> = fs::read_dir(&path)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .filter(|path| !path.ends_with("lost+found") && !is_mounted_by_lines(path))
                .collect();
            names.sort();
            stack.extend(names.into_iter().rev());
        }
        let name = path.strip_prefix(root).unwrap().to_path_buf();
        let first = first_names
            .entry(found.ino())
            .or_insert_with(|| name.clone());
        let same = if *first == name {
            String::new()
        } else {
            format!(" = {}", first.display())
        };
        let is_image = path.extension().is_some_and(|ext| ext == "img");
        let image = is_image.then(|| image::described(&path)).flatten();
        let content = match image {
            Some(_) => "image".to_owned(),
            None => content(&path, &found),
        };
        let described = image.into_iter().flatten();
        lines.extend(described.map(|line| format!("{name:?} {line}")));
        lines.push(format!(
            "{:?} {:o} {}:{} mtime {} {}{}{same}",
            name,
            found.mode(),
            found.uid(),
            found.gid(),
            time(found.mtime(), found.mtime_nsec()),
            content,
            xattrs(&path),
        ));
    }
    lines
}

/// Whether it is an image that lines mount, which changes its superblock.
fn is_mounted_by_lines(path: &Path) -> bool {
    let extension = path.extension();
    extension.is_some_and(|extension| extension == "ext4" || extension == "raw")
}

fn time(sec: i64, nsec: i64) -> String {
    let now = SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .as_secs()
        .cast_signed();
    match (now - sec).abs() < RECENT_SECONDS {
        true => "now".to_owned(),
        false => format!("{sec}.{nsec:09}"),
    }
}

fn content(path: &Path, found: &fs::Metadata) -> String {
    let kind = found.file_type();
    if path
        .extension()
        .is_some_and(|ext| ext == "ext4" || ext == "raw")
    {
        // An image that lines mount: mounting changes its superblock.
        return String::new();
    }
    if kind.is_symlink() {
        format!("-> {:?}", fs::read_link(path).unwrap())
    } else if kind.is_file() {
        let mut hasher = DefaultHasher::new();
        fs::read(path).unwrap().hash(&mut hasher);
        // Whether a file has holes, not how many blocks its tree takes.
        let sparse = found.blocks() * 512 < found.size() / 2;
        format!(
            "{} bytes {:x}{}",
            found.size(),
            hasher.finish(),
            if sparse { " sparse" } else { "" }
        )
    } else if kind.is_char_device() || kind.is_block_device() {
        format!("{}", found.rdev())
    } else {
        String::new()
    }
}

/// The extended attributes.
fn xattrs(path: &Path) -> String {
    let found = tree::host_xattrs(path).unwrap();
    let text = |(name, value): (&Vec<u8>, &Vec<u8>)| {
        let name = String::from_utf8_lossy(name).into_owned();
        format!(" {name}={value:x?}")
    };
    found.iter().map(text).collect()
}
