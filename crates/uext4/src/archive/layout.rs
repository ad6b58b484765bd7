//! An archive as the only layer of an image in an OCI layout.
//!
//! Source: the image specification of the OCI, "Image Layout", "Image Manifest" and "Image Configuration".

use super::export::{self, Names};
use super::options::{Compression, ExportError, ExportOptions, ExportReport};
use super::output::digest_of;
use crate::Progress;
use crate::filesystem::Filesystem;
use crate::image_path::ImagePath;
use oci_spec::OciSpecError;
use oci_spec::image::{
    Arch, Descriptor, DescriptorBuilder, ImageConfigurationBuilder, ImageIndex, ImageIndexBuilder,
    ImageManifestBuilder, MediaType, OciLayoutBuilder, Os, PlatformBuilder, RootFsBuilder,
    SCHEMA_VERSION, Sha256Digest,
};
use std::collections::HashMap;
use std::fs;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The annotation that has the tag.
const REF_NAME: &str = "org.opencontainers.image.ref.name";

impl Filesystem {
    /// Adds an image to the OCI layout in the directory `layout`, which is made if it is not there: one layer, the tree below `path`.
    /// An image with the same tag is replaced in the index; its blobs stay. `platform` is that of the configuration, as
    /// `linux/arm64` or `linux/arm/v7`; that of this machine unless given.
    ///
    /// # Errors
    /// As [`Filesystem::export`]; [`ExportError::Whiteout`]; [`ExportError::Layout`], also for what is not a tag: at most 128 letters, digits, `_`, `.`
    /// and `-`, neither of the last two first. A layout that was to be made is removed.
    pub fn export_to_layout(
        &self,
        path: impl ImagePath,
        layout: impl AsRef<Path>,
        tag: &str,
        platform: Option<&str>,
        options: &ExportOptions,
        progress: &dyn Progress,
    ) -> Result<ExportReport, ExportError> {
        let layout = Layout(layout.as_ref());
        let media = match options.compression {
            Compression::None => MediaType::ImageLayer,
            Compression::Gzip => MediaType::ImageLayerGzip,
            Compression::Zstd => MediaType::ImageLayerZstd,
            Compression::Xz | Compression::Bzip2 => {
                return Err(layout.failed("a layer is compressed with gzip or zstd, or not at all"));
            }
        };
        let platform = parse_platform(platform).map_err(|e| layout.failed(e))?;
        if !is_tag(tag) {
            return Err(layout.failed(format!("{tag:?} is not a tag: {TAG}")));
        }
        let mut made = Made::default();
        let index = layout.open(&mut made)?;
        let options = options.clone().digests(true);
        let blobs = layout.0.join("blobs/sha256");
        let file = tempfile::NamedTempFile::new_in(&blobs).map_err(|e| layout.failed(e))?;
        let out = BufWriter::new(file.as_file());
        let report = export::export(
            self,
            path.as_bytes(),
            out,
            &options,
            progress,
            Names::OfLayer,
        )?;
        let (Some(digest), Some(diff_id)) = (&report.digest, &report.diff_id) else {
            return Err(layout.failed("no digest"));
        };
        layout.keep(file, digest)?;
        let layer = layout.descriptor(media, digest, report.written_bytes)?;
        layout.add(index, layer, diff_id, tag, platform)?;
        made.keep();
        Ok(report)
    }
}

/// What a tag is.
const TAG: &str = "up to 128 letters, digits, `_`, `.` and `-`, the first not `.` or `-`";

/// Whether that is a tag.
///
/// Source: the distribution specification of the OCI, "Pulling manifests".
fn is_tag(text: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let bytes = text.as_bytes();
    bytes.len() <= 128
        && bytes.first().is_some_and(|b| is_word(*b))
        && bytes
            .iter()
            .all(|b| is_word(*b) || matches!(b, b'.' | b'-'))
}

/// Files and directories that were made for a layout, in order; removed unless the layout is complete.
#[derive(Default)]
struct Made(Vec<PathBuf>);

impl Made {
    /// Makes a directory, and those above it that are missing.
    fn dir(&mut self, path: &Path) -> io::Result<()> {
        let above = path.ancestors().filter(|dir| !dir.as_os_str().is_empty());
        let missing: Vec<&Path> = above.take_while(|dir| !dir.exists()).collect();
        for dir in missing.into_iter().rev() {
            match fs::create_dir(dir) {
                Ok(()) => self.0.push(dir.to_owned()),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
                Err(e) => return Err(e),
            }
        }
        match path.is_dir() {
            true => Ok(()),
            false => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn keep(&mut self) {
        self.0.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for path in self.0.iter().rev() {
            // What can't be removed is not what was made. The blobs of a layout that was made belong to this image alone.
            let _ = match path.is_dir() {
                true if path.ends_with("blobs/sha256") => fs::remove_dir_all(path),
                true => fs::remove_dir(path),
                false => fs::remove_file(path),
            };
        }
    }
}

fn parse_platform(text: Option<&str>) -> Result<(Os, Arch, Option<String>), String> {
    let Some(text) = text else {
        return Ok((Os::Linux, Arch::default(), None));
    };
    let mut parts = text.split('/');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(os), Some(arch), variant, None) if !os.is_empty() && !arch.is_empty() => {
            Ok((Os::from(os), Arch::from(arch), variant.map(str::to_owned)))
        }
        _ => Err(format!(
            "platform `{text}` is not OS/ARCH or OS/ARCH/VARIANT"
        )),
    }
}

/// The directory of a layout.
struct Layout<'a>(&'a Path);

impl Layout<'_> {
    fn failed(&self, e: impl std::fmt::Display) -> ExportError {
        ExportError::Layout(format!("{}: {e}", self.0.display()))
    }

    /// Makes what is missing; the index.
    fn open(&self, made: &mut Made) -> Result<ImageIndex, ExportError> {
        let failed = |e: io::Error| self.failed(e);
        made.dir(self.0).map_err(failed)?;
        let marker = self.0.join("oci-layout");
        if !marker.exists() {
            if fs::read_dir(self.0).map_err(failed)?.next().is_some() {
                return Err(self.failed("is not empty, and not an OCI layout"));
            }
            let version = OciLayoutBuilder::default().image_layout_version("1.0.0");
            let text = version.build().and_then(|layout| layout.to_string());
            let text = text.map_err(|e| self.failed(e))?;
            made.0.push(marker.clone());
            fs::write(&marker, text).map_err(failed)?;
        }
        made.dir(&self.0.join("blobs/sha256")).map_err(failed)?;
        let index = self.0.join("index.json");
        match index.exists() {
            true => ImageIndex::from_file(index).map_err(|e| self.failed(e)),
            false => {
                let empty = ImageIndexBuilder::default().schema_version(SCHEMA_VERSION);
                let empty = empty.manifests(Vec::new()).build();
                empty.map_err(|e| self.failed(e))
            }
        }
    }

    /// Gives a blob the name of its digest.
    fn keep(&self, file: tempfile::NamedTempFile, digest: &str) -> Result<(), ExportError> {
        let name = digest.rsplit(':').next().unwrap_or_default();
        self.persist(file, &self.0.join("blobs/sha256").join(name))
    }

    fn descriptor(
        &self,
        media: MediaType,
        digest: &str,
        bytes: u64,
    ) -> Result<Descriptor, ExportError> {
        let digits = digest.trim_start_matches("sha256:");
        let digest = Sha256Digest::from_str(digits).map_err(|e| self.failed(e))?;
        let made = DescriptorBuilder::default().media_type(media);
        let made = made.digest(digest).size(bytes).build();
        made.map_err(|e| self.failed(e))
    }

    fn write_blob(&self, media: MediaType, text: &str) -> Result<Descriptor, ExportError> {
        let failed = |e: io::Error| self.failed(e);
        let file = tempfile::NamedTempFile::new_in(self.0.join("blobs/sha256")).map_err(failed)?;
        fs::write(file.path(), text).map_err(failed)?;
        let digest = digest_of(text.as_bytes());
        self.keep(file, &digest)?;
        self.descriptor(media, &digest, text.len() as u64)
    }

    /// Writes configuration, manifest and index.
    fn add(
        &self,
        mut index: ImageIndex,
        layer: Descriptor,
        diff_id: &str,
        tag: &str,
        (os, arch, variant): (Os, Arch, Option<String>),
    ) -> Result<(), ExportError> {
        let failed = |e: OciSpecError| self.failed(e);
        let rootfs = RootFsBuilder::default()
            .typ("layers")
            .diff_ids(vec![diff_id.to_owned()]);
        let mut config = ImageConfigurationBuilder::default()
            .architecture(arch.clone())
            .os(os.clone())
            .rootfs(rootfs.build().map_err(failed)?);
        let mut of_image = PlatformBuilder::default().architecture(arch).os(os);
        if let Some(variant) = variant {
            config = config.variant(variant.clone());
            of_image = of_image.variant(variant);
        }
        let config = config.build().and_then(|config| config.to_string());
        let config = self.write_blob(MediaType::ImageConfig, &config.map_err(failed)?)?;
        let manifest = ImageManifestBuilder::default()
            .schema_version(SCHEMA_VERSION)
            .media_type(MediaType::ImageManifest)
            .config(config)
            .layers(vec![layer])
            .build()
            .and_then(|manifest| manifest.to_string());
        let mut manifest = self.write_blob(MediaType::ImageManifest, &manifest.map_err(failed)?)?;
        let name = (REF_NAME.to_owned(), tag.to_owned());
        manifest.set_annotations(Some(HashMap::from([name])));
        manifest.set_platform(Some(of_image.build().map_err(failed)?));
        let mut manifests = index.manifests().clone();
        manifests.retain(|other| tag_of(other) != Some(tag));
        manifests.push(manifest);
        index.set_manifests(manifests);
        let text = index.to_string().map_err(failed)?;
        let failed = |e: io::Error| self.failed(e);
        let file = tempfile::NamedTempFile::new_in(self.0).map_err(failed)?;
        fs::write(file.path(), text).map_err(failed)?;
        self.persist(file, &self.0.join("index.json"))
    }

    fn persist(&self, file: tempfile::NamedTempFile, path: &Path) -> Result<(), ExportError> {
        let kept = file.as_file().sync_all().and_then(|()| readable(&file));
        kept.map_err(|e| self.failed(e))?;
        file.persist(path).map_err(|e| self.failed(e))?;
        Ok(())
    }
}

fn tag_of(descriptor: &Descriptor) -> Option<&str> {
    let annotations = descriptor.annotations().as_ref()?;
    annotations.get(REF_NAME).map(String::as_str)
}

/// Gives a temporary file the permission that other new files have.
#[cfg(unix)]
fn readable(file: &tempfile::NamedTempFile) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.as_file()
        .set_permissions(fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn readable(_file: &tempfile::NamedTempFile) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_follow_the_grammar() {
        let longest = "t".repeat(128);
        for tag in ["latest", "v1.2-rc_3", "_", "0", &longest] {
            assert!(is_tag(tag), "{tag}");
        }
        let longer = "t".repeat(129);
        for tag in [
            "", ".a", "-a", "a b", "a/b", "a:b", "a+b", "\u{e4}", &longer,
        ] {
            assert!(!is_tag(tag), "{tag}");
        }
    }
}
