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
use std::path::Path;
use std::str::FromStr;

/// The annotation that has the tag.
const REF_NAME: &str = "org.opencontainers.image.ref.name";

impl Filesystem {
    /// Adds an image to the OCI layout in the directory `layout`, which is made if it is not there: one layer, the tree below `path`.
    /// An image with the same tag is replaced in the index; its blobs stay. `platform` is that of the configuration, as
    /// `linux/arm64` or `linux/arm/v7`; that of this machine unless given.
    ///
    /// # Errors
    /// As [`Filesystem::export`]; [`ExportError::Whiteout`], [`ExportError::Layout`].
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
        let index = layout.open()?;
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
        Ok(report)
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
    fn open(&self) -> Result<ImageIndex, ExportError> {
        let failed = |e: io::Error| self.failed(e);
        fs::create_dir_all(self.0).map_err(failed)?;
        let marker = self.0.join("oci-layout");
        if !marker.exists() {
            if fs::read_dir(self.0).map_err(failed)?.next().is_some() {
                return Err(self.failed("is not empty, and not an OCI layout"));
            }
            let version = OciLayoutBuilder::default().image_layout_version("1.0.0");
            let text = version.build().and_then(|layout| layout.to_string());
            fs::write(&marker, text.map_err(|e| self.failed(e))?).map_err(failed)?;
        }
        fs::create_dir_all(self.0.join("blobs/sha256")).map_err(failed)?;
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
