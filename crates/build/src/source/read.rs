//! Reading what an image is filled from.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::archive::{
    Blobs, Layer, LayerBlob, LayerInput, Limit, Merge, Reading, Spool, Wanted, layout_in,
};
use super::part::Part;
use super::scan::{Left, Scan};
use crate::error::{MkfsError, Result};
use crate::input::{Input, InputKind};
use crate::metadata::{Excluded, Manifest};
use crate::options::MkfsOptions;
use crate::parallel;
use crate::progress::Progress;

impl Scan {
    /// Reads what [`MkfsOptions::from`] names; `None` if it names nothing.
    ///
    /// # Errors
    /// [`MkfsError::Tree`] and [`MkfsError::Archive`].
    pub fn of(options: &MkfsOptions, progress: &dyn Progress) -> Result<Option<Scan>> {
        let [first, others @ ..] = &options.from[..] else {
            return match &options.manifest {
                Some(path) => {
                    let why = "there is no source whose files it describes";
                    Err(MkfsError::option("manifest", path.display(), why))
                }
                None => Ok(None),
            };
        };
        let excluded = Excluded::new(&options.exclude)?;
        let manifest = options
            .manifest
            .as_deref()
            .map(Manifest::read)
            .transpose()?;
        let makes = |manifest: &Manifest| manifest.rules.iter().any(|rule| rule.made.is_some());
        if let InputKind::Path(path) = &first.kind
            && others.is_empty()
            && first.below.is_empty()
            && path.as_os_str() != "-"
            && options.platform.is_none()
            && !manifest.as_ref().is_some_and(makes)
            && is_directory(path)?
        {
            let left = Left {
                excluded: &excluded,
                below: b"",
            };
            let scan = Scan::read_some(path, options.threads, progress, left)?;
            return Ok(Some(Scan { manifest, ..scan }));
        }
        check_streams(&options.from)?;
        progress.phase("scan", 0);
        let dir = options.spool.clone().unwrap_or_else(std::env::temp_dir);
        let limit = Limit::new(options.limit);
        let mut sources = Sources {
            options,
            reading: Reading {
                limit: &limit,
                spool: &dir,
                progress,
            },
            merge: Merge::new(options.identity().time),
            excluded: &excluded,
            spool: None,
            images: 0,
        };
        for input in &options.from {
            sources.add(input)?;
        }
        if let Some(platform) = &options.platform
            && sources.images == 0
        {
            let why = "no source is a container image";
            return Err(MkfsError::option("platform", platform, why));
        }
        let root = match others {
            [] => first.kind.path().to_owned(),
            _ => PathBuf::new(),
        };
        if let Some(manifest) = &manifest {
            sources.merge.make(manifest)?;
        }
        let scan = sources.merge.finish(root, &excluded)?;
        Ok(Some(Scan { manifest, ..scan }))
    }
}

/// Refuses a second source on standard input.
fn check_streams(inputs: &[Input]) -> Result<()> {
    match inputs.iter().filter(|input| is_stream(input)).count() {
        0 | 1 => Ok(()),
        _ => Err(MkfsError::unfit(
            "-".into(),
            "standard input can be read only once",
        )),
    }
}

/// Sources that are put on top of each other.
struct Sources<'a> {
    options: &'a MkfsOptions,
    reading: Reading<'a>,
    merge: Merge,
    excluded: &'a Excluded,
    /// For data of archives that are not layers.
    spool: Option<Spool>,
    /// How many of the sources were container images.
    images: usize,
}

impl Sources<'_> {
    /// Adds a source.
    fn add(&mut self, input: &Input) -> Result<()> {
        check_below(input)?;
        if let InputKind::Tree(named) = &input.kind {
            return self
                .merge
                .apply_tree(named, &input.below, self.reading.progress);
        }
        let (reading, progress) = (&self.reading, self.reading.progress);
        let path = input.kind.path();
        let name = path.display().to_string();
        let mut wanted = Wanted {
            platform: self.options.platform.as_deref(),
            progress: Some(progress),
            ..Wanted::default()
        };
        if let InputKind::Container { tag, digest, .. } = &input.kind {
            (wanted.tag, wanted.digest) = (tag.as_deref(), digest.as_deref());
        }
        let blobs = if !is_stream(input) && is_directory(path)? {
            match &input.kind {
                InputKind::Path(_) => {
                    let left = Left {
                        excluded: self.excluded,
                        below: &input.below,
                    };
                    let scan = Scan::read_some(path, self.options.threads, progress, left)?;
                    return self.merge.apply_scan(scan, &input.below);
                }
                InputKind::Tar(_) => {
                    let what = "is a directory, not an archive";
                    return Err(MkfsError::unfit(path.to_owned(), what));
                }
                InputKind::Container { .. } => layout_in(path),
                InputKind::Tree(_) => None,
            }
        } else {
            let layer = Layer::read(&name, open(path)?, None, reading, &mut self.spool)?;
            let blobs = match input.kind {
                InputKind::Tar(_) => None,
                _ => Blobs::of_archive(&layer),
            };
            if blobs.is_none() && !matches!(input.kind, InputKind::Container { .. }) {
                return self.merge.apply(layer, &input.below, false, progress);
            }
            blobs
        };
        let no_image = || {
            let what =
                "holds no container image: neither an OCI layout nor what `docker save` writes";
            MkfsError::unfit(path.to_owned(), what)
        };
        let layers = blobs.ok_or_else(no_image)?.layers(&wanted);
        let layers = layers.map_err(|e| match progress.is_cancelled() {
            true => MkfsError::Cancelled,
            false => MkfsError::unfit(path.to_owned(), e.to_string()),
        })?;
        self.images += 1;
        self.add_layers(&layers, &input.below)
    }

    /// Adds the layers of a container image. Those that a thread reads share a file for their data.
    fn add_layers(&mut self, layers: &[LayerBlob], below: &[u8]) -> Result<()> {
        let reading = &self.reading;
        let read = parallel::run(
            self.options.thread_count(),
            layers.len(),
            || None,
            |spool, i| {
                let layer = &layers[i];
                let part = LayerInput::Part(layer.part.clone());
                Layer::read(&layer.name, part, layer.digest.as_ref(), reading, spool)
            },
        )?;
        for layer in read {
            self.merge.apply(layer, below, true, reading.progress)?;
        }
        Ok(())
    }
}

fn is_directory(path: &Path) -> Result<bool> {
    let metadata = std::fs::metadata(path);
    let metadata = metadata.map_err(|e| MkfsError::tree("open", path.to_owned(), e))?;
    Ok(metadata.is_dir())
}

fn is_stream(input: &Input) -> bool {
    !matches!(input.kind, InputKind::Tree(_)) && input.kind.path().as_os_str() == "-"
}

/// Refuses a path of the image that no directory can have.
fn check_below(input: &Input) -> Result<()> {
    let names = input.below.split(|byte| *byte == b'/');
    let is_wrong =
        |name: &[u8]| matches!(name, b"." | b"..") || name.len() > 255 || name.contains(&0);
    match !input.below.is_empty() && names.into_iter().any(is_wrong) {
        false => Ok(()),
        true => {
            let path = format!("/{}", String::from_utf8_lossy(&input.below));
            let what = "names in front of a source have 1 to 255 bytes, and none is `..`";
            Err(MkfsError::unfit(path.into(), what))
        }
    }
}

/// A file, a pipe, or standard input.
fn open(path: &Path) -> Result<LayerInput> {
    if path.as_os_str() == "-" {
        return Ok(LayerInput::Stream(Box::new(std::io::stdin())));
    }
    let fail = |e| MkfsError::tree("open", path.to_owned(), e);
    let file = File::open(path).map_err(fail)?;
    match file.metadata().map_err(fail)?.is_file() {
        true => Ok(LayerInput::Part(Part::whole(file).map_err(fail)?)),
        false => Ok(LayerInput::Stream(Box::new(file))),
    }
}
