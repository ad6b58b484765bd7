//! Layers of a container image: an OCI layout, in a directory or a tar archive, or an archive that `docker save` wrote.
//!
//! Source: the image specification of the OCI, "Image Layout", "Image Index" and "Image Manifest"; Docker's image
//! specification 1.2, "Combined Image JSON + Filesystem Changeset Format".

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use oci_spec::image::{Descriptor, ImageIndex, ImageManifest, MediaType, Platform};
use serde::Deserialize;

use super::digest::{Digest, Digested};
use super::layer::{Content, Layer};
use crate::progress::Progress;
use crate::source::part::{Holes, Part};

/// Bytes of a manifest or an index: what is larger is none.
const JSON_MAX: u64 = 16 << 20;
/// Manifests that are searched for one with a digest.
const INDEXES_MAX: usize = 10_000;
/// Indexes in an index.
const DEPTH_MAX: u32 = 8;
/// The annotation that has the tag.
const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// Files of an image, by path.
pub(crate) enum Blobs {
    Directory(PathBuf),
    /// An archive that was read.
    Archive(HashMap<Vec<u8>, Place>),
}

/// Where a file of an archive is.
pub(crate) enum Place {
    Data(Part),
    Link(Vec<u8>),
}

/// Which image is meant, of several.
#[derive(Clone, Default)]
pub(crate) struct Wanted<'a> {
    pub tag: Option<&'a str>,
    pub digest: Option<&'a str>,
    /// `os/architecture` or `os/architecture/variant`; that of this machine unless given.
    pub platform: Option<&'a str>,
    /// Whether to give up is asked before each index.
    pub progress: Option<&'a dyn Progress>,
}

/// A layer that is to be read.
pub(crate) struct LayerBlob {
    pub name: String,
    pub part: Part,
    pub digest: Option<Digest>,
}

/// An image of `docker save`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// What matters of a configuration.
#[derive(Deserialize)]
struct Config {
    rootfs: RootFs,
}

#[derive(Deserialize)]
struct RootFs {
    diff_ids: Vec<String>,
}

fn wrong(what: impl Into<String>) -> io::Error {
    io::Error::other(what.into())
}

impl Blobs {
    /// The files of an archive; `None` if it is none of a container image.
    pub fn of_archive(layer: &Layer) -> Option<Blobs> {
        let mut files = HashMap::new();
        for entry in &layer.entries {
            let place = match &entry.content {
                Content::Regular { at, segments } => {
                    let part =
                        Part::new(layer.store.clone()?, at.unwrap_or(0), entry.attributes.size);
                    Place::Data(match segments {
                        Some(segments) => part.with_holes(Holes::between(segments.clone())),
                        None => part,
                    })
                }
                Content::HardLink(target) | Content::Symlink(target) => Place::Link(target.clone()),
                _ => continue,
            };
            files.insert(entry.path.clone(), place);
        }
        let is_one = |name: &str| files.contains_key(name.as_bytes());
        let blobs = Blobs::Archive;
        match is_one("oci-layout") && is_one("index.json") {
            true => Some(blobs(files)),
            false => is_one("manifest.json")
                .then(|| blobs(files))
                .filter(|blobs| {
                    let saved = blobs.json::<Vec<Saved>>("manifest.json", None);
                    saved.is_ok_and(|saved| !saved.is_empty())
                }),
        }
    }

    /// A file, by its path.
    fn open(&self, path: &str) -> io::Result<Part> {
        let missing = || wrong(format!("{path} is missing"));
        match self {
            Blobs::Directory(dir) => Part::of_path(dir.join(path)).map_err(|e| match e.kind() {
                io::ErrorKind::NotFound => missing(),
                _ => wrong(format!("{path}: {e}")),
            }),
            Blobs::Archive(files) => {
                let mut at = path.as_bytes().to_vec();
                // Older archives have links to layers that images share.
                for _ in 0..8 {
                    match files.get(&at).ok_or_else(missing)? {
                        Place::Data(part) => return Ok(part.clone()),
                        Place::Link(target) => at = beside(&at, target),
                    }
                }
                Err(missing())
            }
        }
    }

    /// A file of JSON, whose bytes must have the digest.
    fn json<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        digest: Option<&Digest>,
    ) -> io::Result<T> {
        let fail = |e: io::Error| wrong(format!("{path}: {e}"));
        let mut digested = Digested::new(self.open(path)?, digest);
        let mut bytes = Vec::new();
        (&mut digested).take(JSON_MAX).read_to_end(&mut bytes)?;
        digested.finish().map_err(fail)?;
        serde_json::from_slice(&bytes).map_err(|e| fail(e.into()))
    }

    /// The layers of the image that is wanted, first to last.
    ///
    /// # Errors
    /// No such image, or several; files that are missing or damaged.
    pub fn layers(&self, wanted: &Wanted<'_>) -> io::Result<Vec<LayerBlob>> {
        if self.open("index.json").is_err() {
            return self.saved_layers(wanted);
        }
        let index: ImageIndex = self.json("index.json", None)?;
        let descriptor = self.select(index.manifests(), wanted, 0)?;
        let digest = digest_of(&descriptor)?;
        let manifest: ImageManifest = self.json(&digest.path(), Some(&digest))?;
        let layers = manifest.layers().iter();
        layers.map(|layer| self.layer(layer)).collect()
    }

    fn layer(&self, descriptor: &Descriptor) -> io::Result<LayerBlob> {
        let digest = digest_of(descriptor)?;
        let media = descriptor.media_type().to_string();
        if !media.contains("tar") {
            return Err(wrong(format!(
                "layer {digest} is of type {media}, which is not an archive"
            )));
        }
        let part = self.open(&digest.path())?;
        let (len, said) = (part.len, descriptor.size());
        if len != said {
            return Err(wrong(format!("layer {digest} has {len} bytes, not {said}")));
        }
        Ok(LayerBlob {
            name: digest.to_string(),
            part,
            digest: Some(digest),
        })
    }

    /// The manifest that is wanted.
    fn select(
        &self,
        descriptors: &[Descriptor],
        wanted: &Wanted<'_>,
        depth: u32,
    ) -> io::Result<Descriptor> {
        let mut found: Vec<&Descriptor> = descriptors.iter().filter(|d| is_image(d)).collect();
        if let Some(digest) = wanted.digest {
            return self.by_digest(&found, &Digest::parse(digest)?, wanted);
        }
        if let Some(tag) = wanted.tag.filter(|_| depth == 0) {
            found.retain(|d| tag_of(d).is_some_and(|t| is_tag(t, tag)));
            if found.is_empty() {
                let tags: Vec<&str> = descriptors.iter().filter_map(tag_of).collect();
                let there = tags.join(", ");
                return Err(wrong(format!(
                    "no image has the tag {tag}; there is {there}"
                )));
            }
        }
        if found.len() > 1 || depth > 0 {
            keep_platform(&mut found, wanted)?;
        }
        match found[..] {
            [] => Err(wrong("the index names no image")),
            [one] => self.descend(one, wanted, depth),
            _ => {
                let name = |d: &&Descriptor| match tag_of(d) {
                    Some(tag) => format!(":{tag}"),
                    None => format!("@{}", d.digest()),
                };
                let names: Vec<String> = found.iter().map(name).collect();
                let names = names.join(", ");
                Err(wrong(format!(
                    "there are several images; name one of {names}"
                )))
            }
        }
    }

    /// The manifest with a digest, or that the index with it names, in this index or one in it.
    fn by_digest(
        &self,
        descriptors: &[&Descriptor],
        digest: &Digest,
        wanted: &Wanted<'_>,
    ) -> io::Result<Descriptor> {
        let text = digest.to_string();
        let mut left: Vec<Descriptor> = descriptors.iter().copied().cloned().collect();
        let mut seen = HashSet::new();
        while let Some(descriptor) = left.pop() {
            let found = descriptor.digest().to_string();
            if found == text {
                return self.descend(&descriptor, wanted, 0);
            }
            if seen.insert(found) && is_index(&descriptor) {
                if seen.len() > INDEXES_MAX {
                    return Err(wrong(format!(
                        "more than {INDEXES_MAX} manifests are named"
                    )));
                }
                let inner = self.index(&descriptor, wanted)?;
                let images = inner.manifests().iter().filter(|d| is_image(d));
                left.extend(images.cloned());
            }
        }
        Err(wrong(format!("no manifest has the digest {digest}")))
    }

    fn descend(
        &self,
        found: &Descriptor,
        wanted: &Wanted<'_>,
        depth: u32,
    ) -> io::Result<Descriptor> {
        if !is_index(found) {
            return Ok(found.clone());
        }
        if depth == DEPTH_MAX {
            return Err(wrong("indexes name each other without end"));
        }
        let inner = self.index(found, wanted)?;
        let wanted = Wanted {
            digest: None,
            ..wanted.clone()
        };
        self.select(inner.manifests(), &wanted, depth + 1)
    }

    fn index(&self, descriptor: &Descriptor, wanted: &Wanted<'_>) -> io::Result<ImageIndex> {
        if wanted.progress.is_some_and(Progress::is_cancelled) {
            return Err(wrong("given up"));
        }
        let digest = digest_of(descriptor)?;
        self.json(&digest.path(), Some(&digest))
    }

    /// The layers of an archive that `docker save` wrote.
    fn saved_layers(&self, wanted: &Wanted<'_>) -> io::Result<Vec<LayerBlob>> {
        let images: Vec<Saved> = self.json("manifest.json", None)?;
        let tags = |image: &Saved| image.repo_tags.clone().unwrap_or_default();
        let has = |image: &&Saved| match wanted.tag {
            Some(tag) => tags(image).iter().any(|t| is_tag(t, tag)),
            None => true,
        };
        let found: Vec<&Saved> = images.iter().filter(has).collect();
        let [image] = found[..] else {
            let all: Vec<String> = images.iter().flat_map(tags).collect();
            return Err(wrong(format!(
                "{} images fit; name the tag of one: {}",
                found.len(),
                all.join(", ")
            )));
        };
        let config: Config = self.json(&image.config, None)?;
        let digests = &config.rootfs.diff_ids;
        if digests.len() != image.layers.len() {
            return Err(wrong(format!(
                "{} names other layers than manifest.json",
                image.config
            )));
        }
        let mut layers = Vec::new();
        for (path, digest) in image.layers.iter().zip(digests) {
            let part = self.open(path)?;
            let mut magic = [0; 6];
            let n = part.clone().read(&mut magic)?;
            // The digest is that of what is not compressed.
            let plain = super::compression::Compression::of(&magic[..n])
                == super::compression::Compression::Plain;
            layers.push(LayerBlob {
                name: path.clone(),
                part,
                digest: plain.then(|| Digest::parse(digest)).transpose()?,
            });
        }
        Ok(layers)
    }
}

fn is_index(descriptor: &Descriptor) -> bool {
    matches!(descriptor.media_type(), MediaType::ImageIndex)
        || descriptor.media_type().to_string()
            == "application/vnd.docker.distribution.manifest.list.v2+json"
}

/// Whether it is an image, and not what is kept beside one, such as an attestation.
fn is_image(descriptor: &Descriptor) -> bool {
    let platform = descriptor.platform().as_ref();
    platform.is_none_or(|platform| platform.os().to_string() != "unknown")
}

/// Leaves those of the platform that is wanted, if any says its platform.
fn keep_platform(found: &mut Vec<&Descriptor>, wanted: &Wanted<'_>) -> io::Result<()> {
    if found.iter().any(|d| fits(d.platform().as_ref(), wanted)) {
        found.retain(|d| fits(d.platform().as_ref(), wanted));
        return Ok(());
    }
    let platforms: Option<Vec<String>> = found
        .iter()
        .map(|d| d.platform().as_ref().map(shown))
        .collect();
    match platforms {
        Some(platforms) if !platforms.is_empty() => {
            let (wanted, there) = (platform(wanted), platforms.join(", "));
            Err(wrong(format!("no image is for {wanted}; there is {there}")))
        }
        _ => Ok(()),
    }
}

/// Whether a name is a tag, alone or after that of the repository.
fn is_tag(name: &str, tag: &str) -> bool {
    name.strip_suffix(tag)
        .is_some_and(|front| front.is_empty() || front.ends_with(':'))
}

fn tag_of(descriptor: &Descriptor) -> Option<&str> {
    let annotations = descriptor.annotations().as_ref()?;
    annotations.get(REF_NAME).map(String::as_str)
}

fn digest_of(descriptor: &Descriptor) -> io::Result<Digest> {
    Digest::parse(descriptor.digest().as_ref())
}

fn shown(platform: &Platform) -> String {
    let variant = platform.variant().as_ref().map(|v| format!("/{v}"));
    format!(
        "{}/{}{}",
        platform.os(),
        platform.architecture(),
        variant.unwrap_or_default()
    )
}

/// The platform that is wanted.
fn platform(wanted: &Wanted<'_>) -> String {
    let here = || format!("linux/{}", oci_spec::image::Arch::default());
    wanted.platform.map_or_else(here, str::to_owned)
}

fn fits(of_image: Option<&Platform>, wanted: &Wanted<'_>) -> bool {
    let Some(of_image) = of_image.map(shown) else {
        return false;
    };
    let wanted = platform(wanted);
    // Without a variant, any fits.
    of_image == wanted || of_image.starts_with(&format!("{wanted}/"))
}

/// The path that a link beside a path leads to.
fn beside(path: &[u8], target: &[u8]) -> Vec<u8> {
    let mut names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    names.pop();
    for name in target.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => drop(names.pop()),
            _ => names.push(name),
        }
    }
    names.join(&b'/')
}

/// The directory of a layout; `None` if it is none.
pub(crate) fn layout_in(dir: &Path) -> Option<Blobs> {
    let is_one = dir.join("oci-layout").is_file() && dir.join("index.json").is_file();
    is_one.then(|| Blobs::Directory(dir.to_owned()))
}
