//! Which line of our source an access belongs to.

use super::record::Site;
use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;
use std::path::Path;
use std::rc::Rc;

/// Code that says less of an access than what calls it.
const TOOLS: [&str; 3] = [
    "crates/sync",
    "crates/jbd2/src/buffer/block.rs",
    "crates/ondisk/src/bytes.rs",
];

/// A function of ours and a line in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub function: String,
    /// From the root of the project.
    pub file: String,
    pub line: u32,
}

/// The device of the measurement: memory, in the place of what the kernel and the hardware do.
const DEVICE: &str = "crates/block/src/memory.rs";

impl Place {
    /// Code of the device in memory.
    pub fn is_of_device(&self) -> bool {
        self.file == DEVICE
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} {}", self.file, self.line, self.function)
    }
}

/// Finds places, and remembers those of an instruction.
#[derive(Default)]
pub struct Places {
    known: HashMap<u64, Option<Rc<Place>>>,
}

impl Places {
    /// The innermost place of ours; `None` in code that none of ours called.
    pub fn of(&mut self, site: &Site) -> Option<Rc<Place>> {
        site.stack.iter().enumerate().find_map(|(depth, ip)| {
            // A return address is behind its call.
            let ip = ip - u64::from(depth > 0);
            self.known
                .entry(ip)
                .or_insert_with(|| find(ip).map(Rc::new))
                .clone()
        })
    }
}

fn find(ip: u64) -> Option<Place> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    let mut found = None;
    backtrace::resolve(ip as *mut c_void, |symbol| {
        let (Some(file), Some(line), Some(name)) =
            (symbol.filename(), symbol.lineno(), symbol.name())
        else {
            return;
        };
        let Ok(file) = file.strip_prefix(root) else {
            return;
        };
        let is_ours = file.starts_with("crates") && !TOOLS.iter().any(|t| file.starts_with(t));
        if found.is_none() && is_ours {
            found = Some(Place {
                function: short(&format!("{name:#}")),
                file: file.to_string_lossy().into_owned(),
                line,
            });
        }
    });
    found
}

/// A function's path without its crate and generic arguments.
fn short(name: &str) -> String {
    let mut depth = 0_i32;
    let mut plain = String::new();
    for c in name.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    let parts: Vec<&str> = plain.split("::").filter(|part| !part.is_empty()).collect();
    let from = parts.len().saturating_sub(3);
    match parts.is_empty() {
        true => name.to_owned(),
        false => parts[from..].join("::"),
    }
}
