//! mke2fs.conf(5): what types of file systems have, where the command line says nothing.

use crate::diagnostics;
use anyhow::Result;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::PathBuf;

/// Where it is, unless `MKE2FS_CONFIG` names another.
const PLACE: &str = "/etc/mke2fs.conf";

/// What mke2fs 1.47 has without one.
const BUILT_IN: &str = "\
[defaults]
base_features = sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr
default_mntopts = acl,user_xattr
blocksize = 4096
inode_size = 256
inode_ratio = 16384
[fs_types]
ext3 = {
features = has_journal
}
ext4 = {
features = has_journal,extent,huge_file,flex_bg,metadata_csum,metadata_csum_seed,64bit,dir_nlink,extra_isize,orphan_file
}
small = {
blocksize = 1024
inode_ratio = 4096
}
floppy = {
blocksize = 1024
inode_ratio = 8192
}
big = {
inode_ratio = 32768
}
huge = {
inode_ratio = 65536
}
news = {
inode_ratio = 4096
}
largefile = {
inode_ratio = 1048576
}
largefile4 = {
inode_ratio = 4194304
}
";

/// Keys and values.
type Values = HashMap<String, String>;

/// What the file says.
#[derive(Debug, Default)]
pub struct Conf {
    defaults: Values,
    types: HashMap<String, Values>,
}

impl Conf {
    /// Reads the file, if there is one.
    ///
    /// # Errors
    /// It can't be read.
    pub fn load() -> Result<Conf> {
        let named = std::env::var_os("MKE2FS_CONFIG").map(PathBuf::from);
        let path = named.unwrap_or_else(|| PathBuf::from(PLACE));
        match std::fs::read(&path) {
            Ok(text) => Ok(Conf::parse(&String::from_utf8_lossy(&text))),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Conf::parse(BUILT_IN)),
            Err(e) => Err(diagnostics::on_host(&path, e)),
        }
    }

    fn parse(text: &str) -> Conf {
        let mut conf = Conf::default();
        let (mut section, mut subsection) = (String::new(), None);
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = line
                .strip_prefix('[')
                .and_then(|line| line.strip_suffix(']'))
            {
                (section, subsection) = (name.trim().to_owned(), None);
                continue;
            }
            if line == "}" {
                subsection = None;
                continue;
            }
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            let (key, value) = (
                key.trim().to_owned(),
                value.trim().trim_matches('"').to_owned(),
            );
            if value == "{" {
                conf.types.entry(key.clone()).or_default();
                subsection = Some(key);
                continue;
            }
            match (section.as_str(), &subsection) {
                ("defaults", None) => drop(conf.defaults.insert(key, value)),
                ("fs_types", Some(name)) => {
                    conf.types
                        .entry(name.clone())
                        .or_default()
                        .insert(key, value);
                }
                _ => {}
            }
        }
        conf
    }

    /// The value of a key: that of the last of `types` that has one, else the default.
    pub fn value(&self, types: &[String], key: &str) -> Option<&str> {
        let of_types = types
            .iter()
            .rev()
            .find_map(|name| self.types.get(name)?.get(key));
        of_types
            .or_else(|| self.defaults.get(key))
            .map(String::as_str)
    }

    /// The features of a file system of these types.
    pub fn features(&self, types: &[String]) -> Vec<String> {
        let base = self
            .value(types, "base_features")
            .unwrap_or("sparse_super,large_file,filetype,resize_inode,dir_index");
        let of_types = types
            .iter()
            .filter_map(|name| self.types.get(name)?.get("features"));
        let mut all: Vec<String> = Vec::new();
        for list in std::iter::once(base).chain(of_types.map(String::as_str)) {
            for word in list.split([',', ' ']).filter(|word| !word.is_empty()) {
                let name = word.strip_prefix('^').unwrap_or(word);
                all.retain(|other| other != name);
                if name == word {
                    all.push(name.to_owned());
                }
            }
        }
        all
    }

    /// What is changed of them unless the command line changes something.
    pub fn default_features(&self, types: &[String]) -> Option<String> {
        self.value(types, "default_features").map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_type_counts() {
        let conf = Conf::parse(BUILT_IN);
        let types = ["ext4".to_owned(), "small".to_owned()];
        assert_eq!(conf.value(&types, "blocksize"), Some("1024"));
        assert_eq!(conf.value(&types[..1], "blocksize"), Some("4096"));
        let features = conf.features(&types);
        assert!(features.contains(&"orphan_file".to_owned()));
        assert!(features.contains(&"ext_attr".to_owned()));
    }

    #[test]
    fn lines_are_read_as_they_are_written() {
        let conf = Conf::parse(
            "# x\n[defaults]\n\tbase_features = a,b\n[fs_types]\n e = {\n\tfeatures = ^a, c\n\tk=\"v\"\n }\n",
        );
        let types = ["e".to_owned()];
        assert_eq!(conf.features(&types), ["b", "c"]);
        assert_eq!(conf.value(&types, "k"), Some("v"));
    }
}
