//! Layers at random, with all that hides, replaces and links.
use tar::{Builder, EntryType, Header};

/// Makes layers from a seed; it knows what the layers so far hold, so that most of what it says is about something.
pub struct Generator {
    rng: fastrand::Rng,
    /// Paths of the layers so far that are files, and that are directories.
    files: Vec<String>,
    dirs: Vec<String>,
    /// What is neither, and no symbolic link.
    others: Vec<String>,
}

const NAMES: [&str; 6] = ["a", "b", "c", "dir", "sub", "lib"];

impl Generator {
    pub fn new(seed: u64) -> Generator {
        Generator {
            rng: fastrand::Rng::with_seed(seed),
            files: Vec::new(),
            dirs: vec![String::new()],
            others: Vec::new(),
        }
    }

    /// A layer, as a tar archive.
    pub fn layer(&mut self) -> Vec<u8> {
        let mut to = Builder::new(Vec::new());
        // umoci gives a root that no layer has the time 0.
        let header = self.header(EntryType::Directory);
        append(&mut to, header, "./", "", b"");
        for _ in 0..self.rng.usize(1..14) {
            self.entry(&mut to);
        }
        to.into_inner().unwrap()
    }

    fn pick(&mut self, of: &[String]) -> String {
        match of.is_empty() {
            true => "a".into(),
            false => of[self.rng.usize(..of.len())].clone(),
        }
    }

    fn header(&mut self, kind: EntryType) -> Header {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        let mode = [0o755, 0o644, 0o4711, 0o2750, 0o1777, 0o600];
        header.set_mode(mode[self.rng.usize(..mode.len())]);
        header.set_uid(self.rng.u64(0..3) * 1000);
        header.set_gid(self.rng.u64(0..3) * 100_000);
        // What hides something in a directory leaves it with the time of the day in umoci; all later times are one in the image.
        header.set_mtime(match kind {
            EntryType::Directory => u64::from(u32::MAX),
            _ => self.rng.u64(0..1_600_000_000),
        });
        header.set_size(0);
        header
    }

    /// Extended headers, sometimes.
    fn extend(&mut self, to: &mut Builder<Vec<u8>>) {
        let nanoseconds = format!(
            "{}.{:09}",
            self.rng.u32(0..1_600_000_000),
            self.rng.u32(0..1_000_000_000)
        );
        let value: Vec<u8> = (0..self.rng.usize(1..40))
            .map(|_| self.rng.u8(..))
            .collect();
        let mut records: Vec<(&str, &[u8])> = Vec::new();
        if self.rng.bool() {
            records.push(("mtime", nanoseconds.as_bytes()));
        }
        if self.rng.u8(..4) == 0 {
            records.push(("SCHILY.xattr.user.mark", &value));
        }
        if !records.is_empty() {
            to.append_pax_extensions(records).unwrap();
        }
    }

    fn entry(&mut self, to: &mut Builder<Vec<u8>>) {
        let (files, dirs) = (self.files.clone(), self.dirs.clone());
        let dir = self.pick(&dirs);
        let name = NAMES[self.rng.usize(..NAMES.len())];
        let inside = |dir: &str, name: &str| match dir {
            "" => name.to_owned(),
            _ => format!("{dir}/{name}"),
        };
        let path = inside(&dir, name);
        let front = format!("{path}/");
        match self.rng.u8(..16) {
            0..=3 => {
                let header = self.header(EntryType::Directory);
                append(to, header, &front, "", b"");
                // A directory keeps what is in it.
                for list in [&mut self.files, &mut self.dirs, &mut self.others] {
                    list.retain(|other| *other != path);
                }
                self.dirs.push(path);
            }
            4..=7 => {
                self.extend(to);
                let data: Vec<u8> = (0..self.rng.usize(..9000)).map(|i| i as u8).collect();
                let header = self.header(EntryType::Regular);
                append(to, header, &path, "", &data);
                self.forget(&path);
                self.files.push(path);
            }
            8 => {
                let targets = ["a", "../b", "/dir", "missing/deep", ".", "/sub/../lib"];
                let target = targets[self.rng.usize(..targets.len())];
                let header = self.header(EntryType::Symlink);
                append(to, header, &path, target, b"");
                self.forget(&path);
            }
            9 | 10 if !files.is_empty() => {
                let target = self.pick(&files);
                if target != path && !target.starts_with(&front) {
                    let header = self.header(EntryType::Link);
                    append(to, header, &path, &target, b"");
                    self.forget(&path);
                    self.files.push(path);
                }
            }
            11 => {
                let mut header = self.header(EntryType::Char);
                header.set_device_major(self.rng.u32(1..300)).unwrap();
                header.set_device_minor(self.rng.u32(..70_000)).unwrap();
                append(to, header, &path, "", b"");
                self.forget(&path);
                self.others.push(path);
            }
            12 => {
                let header = self.header(EntryType::Fifo);
                append(to, header, &path, "", b"");
                self.forget(&path);
                self.others.push(path);
            }
            13 => {
                // Hidden by a file, or by a hard link to one.
                let all = [files.clone(), dirs].concat();
                let hidden = self.pick(&all);
                if hidden.is_empty() {
                    return;
                }
                let (above, name) = hidden.rsplit_once('/').unwrap_or(("", &hidden));
                let whiteout = inside(above, &format!(".wh.{name}"));
                let is_link = self.rng.bool() && !files.is_empty();
                let kind = if is_link {
                    EntryType::Link
                } else {
                    EntryType::Regular
                };
                let target = if is_link {
                    self.pick(&files)
                } else {
                    String::new()
                };
                let header = self.header(kind);
                append(to, header, &whiteout, &target, b"");
                self.forget(&hidden);
            }
            14 if !dir.is_empty() => {
                let header = self.header(EntryType::Regular);
                append(to, header, &inside(&dir, ".wh..wh..opq"), "", b"");
                let front = format!("{dir}/");
                for list in [&mut self.files, &mut self.dirs, &mut self.others] {
                    list.retain(|other| !other.starts_with(&front));
                }
            }
            _ => {
                // Nothing describes the directory in between.
                let path = inside(&path, "deep/file");
                let header = self.header(EntryType::Regular);
                let is_above = |file: &String| path.starts_with(&format!("{file}/"));
                if !files.iter().chain(&self.others).any(is_above) {
                    append(to, header, &path, "", b"deep");
                    self.files.push(path);
                }
            }
        }
    }

    /// What a new entry replaces is gone, with all in it.
    fn forget(&mut self, path: &str) {
        let front = format!("{path}/");
        for list in [&mut self.files, &mut self.dirs, &mut self.others] {
            list.retain(|other| other != path && !other.starts_with(&front));
        }
    }
}

fn append(to: &mut Builder<Vec<u8>>, mut header: Header, path: &str, target: &str, data: &[u8]) {
    header.set_path(path).unwrap();
    if !target.is_empty() {
        header.set_link_name_literal(target).unwrap();
    }
    header.set_size(data.len() as u64);
    header.set_cksum();
    to.append(&header, data).unwrap();
}
