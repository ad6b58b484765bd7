//! Where an image of Ceph is.

use crate::device_id::DeviceId;
use crate::scheme::RBD;
use std::fmt;

/// An image, or a snapshot of one: `rbd:POOL[/NAMESPACE]/NAME[@SNAP]`. The cluster is that of Ceph's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RbdAddress {
    pub(super) pool: String,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) snapshot: Option<String>,
}

impl RbdAddress {
    /// Reads an address.
    ///
    /// # Errors
    /// Why it is none: the end of a sentence.
    pub fn parse(name: &str) -> Result<RbdAddress, &'static str> {
        let rest = name.strip_prefix(RBD).ok_or("is not an address of Ceph")?;
        let (path, snapshot) = match rest.split_once('@') {
            Some((path, snapshot)) => (path, Some(snapshot)),
            None => (rest, None),
        };
        if snapshot.is_some_and(|snapshot| snapshot.is_empty() || snapshot.contains(['@', '/'])) {
            return Err("has an `@` without one name of a snapshot behind it");
        }
        let parts: Vec<&str> = path.split('/').collect();
        let (pool, namespace, image) = match parts[..] {
            [pool, image] => (pool, None, image),
            [pool, namespace, image] => (pool, Some(namespace), image),
            _ => return Err("is not of the form rbd:POOL[/NAMESPACE]/NAME[@SNAP]"),
        };
        if pool.is_empty() || image.is_empty() || namespace == Some("") {
            return Err("has an empty name; the form is rbd:POOL[/NAMESPACE]/NAME[@SNAP]");
        }
        if rest.contains('\0') {
            return Err("has a zero byte");
        }
        Ok(RbdAddress {
            pool: pool.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: image.to_owned(),
            snapshot: snapshot.map(str::to_owned),
        })
    }

    /// By which two opens of the image are recognised.
    pub fn identity(&self) -> DeviceId {
        DeviceId::of_name(self)
    }

    /// The image as Ceph's own commands take it.
    pub(super) fn image_spec(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{}/{namespace}/{}", self.pool, self.name),
            None => format!("{}/{}", self.pool, self.name),
        }
    }
}

impl fmt::Display for RbdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{RBD}{}", self.image_spec())?;
        match &self.snapshot {
            Some(snapshot) => write!(f, "@{snapshot}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_pool_and_a_name() {
        for (name, pool, namespace, image, snapshot) in [
            ("rbd:p/a", "p", None, "a", None),
            ("rbd:p/n/a", "p", Some("n"), "a", None),
            ("rbd:p/a@s", "p", None, "a", Some("s")),
            ("rbd:p/n/a:b@s 1", "p", Some("n"), "a:b", Some("s 1")),
        ] {
            let address = RbdAddress::parse(name).expect(name);
            assert_eq!(address.pool, pool);
            assert_eq!(address.namespace.as_deref(), namespace);
            assert_eq!(address.name, image);
            assert_eq!(address.snapshot.as_deref(), snapshot);
            assert_eq!(address.to_string(), name);
        }
        let identity = |name| RbdAddress::parse(name).expect(name).identity();
        assert_eq!(identity("rbd:p/a"), identity("rbd:p/a"));
        assert_ne!(identity("rbd:p/a"), identity("rbd:p/a@s"));
        assert_ne!(identity("rbd:p/n/a"), identity("rbd:p/a"));
        for wrong in [
            "rbd:",
            "rbd:a",
            "rbd:p/",
            "rbd:/a",
            "rbd:p//a",
            "rbd:p/n/a/b",
            "rbd:p/a@",
            "rbd:p/a@s@t",
            "rbd:p/a@s/t",
            "rbd:p/a\0",
            "rbd:p/@s",
            "a.img",
            "rbd://p/a",
        ] {
            RbdAddress::parse(wrong).expect_err(wrong);
        }
    }
}
