//! Patterns of paths and names, as `--exclude` and manifests have them.

use globset::{Candidate, Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use crate::error::{MkfsError, Result};

/// Patterns by number. One with a slash matches paths from the root of the image, one without names at any depth.
#[derive(Clone, Debug, Default)]
pub(crate) struct Globs {
    paths: Numbered,
    names: Numbered,
}

#[derive(Clone, Debug, Default)]
struct Numbered {
    set: GlobSet,
    numbers: Vec<usize>,
}

struct Building {
    set: GlobSetBuilder,
    numbers: Vec<usize>,
}

/// Puts patterns together.
pub(crate) struct Builder {
    paths: Building,
    names: Building,
}

/// Reads a pattern in which only `**` matches slashes.
fn glob(text: &str) -> std::result::Result<Glob, globset::Error> {
    GlobBuilder::new(text).literal_separator(true).build()
}

impl Building {
    fn new() -> Building {
        Building {
            set: GlobSet::builder(),
            numbers: Vec::new(),
        }
    }

    fn push(&mut self, glob: Glob, number: usize) {
        self.set.add(glob);
        self.numbers.push(number);
    }

    fn build(self) -> std::result::Result<Numbered, globset::Error> {
        Ok(Numbered {
            set: self.set.build()?,
            numbers: self.numbers,
        })
    }
}

impl Builder {
    /// Without patterns.
    pub fn new() -> Builder {
        Builder {
            paths: Building::new(),
            names: Building::new(),
        }
    }

    /// Adds a pattern under a number.
    ///
    /// # Errors
    /// Text that is none.
    pub fn add(&mut self, text: &str, number: usize) -> std::result::Result<(), globset::Error> {
        let trimmed = text.trim_end_matches('/');
        match trimmed.strip_prefix('/') {
            Some(path) => self.paths.push(glob(path)?, number),
            None if trimmed.contains('/') => self.paths.push(glob(trimmed)?, number),
            None => self.names.push(glob(trimmed)?, number),
        }
        Ok(())
    }

    /// The patterns.
    ///
    /// # Errors
    /// There are too many.
    pub fn build(self) -> std::result::Result<Globs, globset::Error> {
        Ok(Globs {
            paths: self.paths.build()?,
            names: self.names.build()?,
        })
    }
}

fn candidate(bytes: &[u8]) -> Candidate<'_> {
    Candidate::from_bytes(bytes)
}

fn last_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

impl Globs {
    /// The patterns of an option, by their places in its list.
    ///
    /// # Errors
    /// [`MkfsError::Option`]: text that is not a pattern.
    pub fn of_option(option: &'static str, patterns: &[String]) -> Result<Globs> {
        let wrong = |text: &str| MkfsError::option(option, text, "not a pattern");
        let mut builder = Builder::new();
        for (i, pattern) in patterns.iter().enumerate() {
            builder.add(pattern, i).map_err(|_| wrong(pattern))?;
        }
        builder.build().map_err(|e| wrong(&e.to_string()))
    }

    /// Whether any matches a path, which has no slash in front.
    pub fn is_match(&self, path: &[u8]) -> bool {
        let names = &self.names.set;
        (!names.is_empty() && names.is_match_candidate(&candidate(last_name(path))))
            || (!self.paths.set.is_empty() && self.paths.set.is_match_candidate(&candidate(path)))
    }

    /// Adds the numbers of those that match a path to `out`.
    pub fn matches(&self, path: &[u8], out: &mut Vec<usize>) {
        for (globs, text) in [(&self.names, last_name(path)), (&self.paths, path)] {
            if !globs.set.is_empty() {
                let found = globs.set.matches_candidate(&candidate(text));
                out.extend(found.into_iter().map(|i| globs.numbers[i]));
            }
        }
    }
}

/// What is left out of an image.
#[derive(Clone, Debug, Default)]
pub(crate) struct Excluded(Option<Globs>);

impl Excluded {
    /// By the patterns of an option.
    ///
    /// # Errors
    /// [`MkfsError::Option`]: text that is not a pattern.
    pub fn new(patterns: &[String]) -> Result<Excluded> {
        if patterns.is_empty() {
            return Ok(Excluded(None));
        }
        Ok(Excluded(Some(Globs::of_option("exclude", patterns)?)))
    }

    /// Whether a path is left out, with all below it. Those above it are asked for first.
    pub fn has(&self, path: &[u8]) -> bool {
        self.0.as_ref().is_some_and(|globs| globs.is_match(path))
    }

    /// Whether nothing is left out.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_anywhere_and_paths_from_the_root() {
        let excluded = |text: &str| Excluded::new(&[text.to_owned()]).unwrap();
        for (pattern, path, is_match) in [
            ("*.o", "a.o", true),
            ("*.o", "src/deep/a.o", true),
            ("*.o", "a.o/x", false),
            ("/a", "a", true),
            ("/a", "b/a", false),
            ("usr/*", "usr/lib", true),
            ("usr/*", "usr/lib/x", false),
            ("usr/**/x", "usr/lib/deep/x", true),
            ("usr/lib/", "usr/lib", true),
            ("{a,b}?", "b1", true),
            ("[!a]", "a", false),
        ] {
            assert_eq!(
                excluded(pattern).has(path.as_bytes()),
                is_match,
                "{pattern} {path}"
            );
        }
        assert!(excluded("*.o").has(b"\xff.o"));
        assert!(!Excluded::default().has(b"x"));
        Excluded::new(&["[".to_owned()]).unwrap_err();
    }
}
