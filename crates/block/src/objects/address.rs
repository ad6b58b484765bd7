//! Where an image is in S3.

use super::names;
use super::s3::S3Store;
use super::{CacheDir, ObjectDevice};
use crate::device_id::DeviceId;
use crate::error::{BlockError, Result};
use crate::open::OpenOptions;
use crate::scheme::S3;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes of the cache on this host where `UEXT4_CACHE_BYTES` names none.
const CACHE_BYTES: u64 = 1 << 30;

/// `s3://BUCKET/PREFIX`: the names of an image's objects begin with `PREFIX/`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct S3Address {
    bucket: String,
    prefix: String,
}

impl S3Address {
    /// Reads an address.
    ///
    /// # Errors
    /// Why it is none: the end of a sentence.
    pub fn parse(name: &str) -> std::result::Result<S3Address, &'static str> {
        let rest = name.strip_prefix(S3).ok_or("is not an address of S3")?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_end_matches('/');
        if bucket.is_empty() {
            return Err("names no bucket; s3://BUCKET/PREFIX does");
        }
        if prefix.is_empty() {
            return Err("names no image in the bucket; s3://BUCKET/PREFIX does");
        }
        if prefix
            .split('/')
            .any(|part| matches!(part, "" | "." | ".."))
        {
            return Err("has an empty part, or one of dots");
        }
        if prefix.split('/').any(names::is_of_objects) {
            return Err("has a part that the objects of images have: root, segment or reader");
        }
        Ok(S3Address {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        })
    }

    /// By which two opens of the image are recognised.
    pub fn identity(&self) -> DeviceId {
        DeviceId::of_name(self.to_string())
    }

    /// The store of it.
    ///
    /// # Errors
    /// [`BlockError::Open`]: what is missing to reach it.
    pub fn store(&self) -> Result<S3Store> {
        S3Store::new(&self.bucket, &self.prefix).map_err(|why| BlockError::Open {
            path: PathBuf::from(self.to_string()),
            source: why.into(),
        })
    }

    /// Opens the image.
    ///
    /// # Errors
    /// As [`ObjectDevice::open`].
    pub fn open(&self, options: &OpenOptions) -> Result<ObjectDevice> {
        let cache = self.cache();
        let store = Arc::new(self.store()?);
        ObjectDevice::open(store, cache.as_ref(), &self.to_string(), options)
    }

    /// What is read of it is kept in a directory below `UEXT4_CACHE_DIR` or the user's cache; `UEXT4_CACHE_BYTES=0`: it is not.
    fn cache(&self) -> Option<CacheDir> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let bytes_max = match variable("UEXT4_CACHE_BYTES") {
            Some(bytes) => bytes.to_str().and_then(|bytes| bytes.parse().ok())?,
            None => CACHE_BYTES,
        };
        let dir = variable("UEXT4_CACHE_DIR").map(PathBuf::from).or_else(|| {
            let user = variable("XDG_CACHE_HOME").map(PathBuf::from);
            let user = user.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cache")));
            Some(user?.join("uext4"))
        })?;
        let endpoint = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
        let DeviceId::Remote { name } = DeviceId::of_name((self, endpoint)) else {
            return None;
        };
        (bytes_max > 0).then(|| CacheDir {
            dir: dir.join(format!("{name:016x}")),
            bytes_max,
        })
    }
}

impl fmt::Display for S3Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{S3}{}/{}", self.bucket, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for name in ["s3://bucket/image", "s3://bucket/a/b.c"] {
            assert_eq!(S3Address::parse(name).unwrap().to_string(), name);
        }
        let same = S3Address::parse("s3://bucket/image/").unwrap();
        assert_eq!(same, S3Address::parse("s3://bucket/image").unwrap());
        for name in [
            "s3://",
            "s3://bucket",
            "s3://bucket/",
            "s3:///image",
            "s3://b/../c",
            "s3://b/c/segment/d",
        ] {
            S3Address::parse(name).unwrap_err();
        }
    }
}
