//! Writing OCI layouts.
use uext4_testkit::prelude::*;

use sha2::{Digest, Sha256};
use std::io::Write;

/// How a layer is compressed.
#[derive(Clone, Copy, Debug)]
pub enum Pack {
    Plain,
    Gzip,
    Zstd,
}

impl Pack {
    fn media(self) -> &'static str {
        match self {
            Pack::Plain => "application/vnd.oci.image.layer.v1.tar",
            Pack::Gzip => "application/vnd.oci.image.layer.v1.tar+gzip",
            Pack::Zstd => "application/vnd.oci.image.layer.v1.tar+zstd",
        }
    }

    pub fn pack(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Pack::Plain => bytes.to_vec(),
            Pack::Gzip => {
                let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                to.write_all(bytes).unwrap();
                to.finish().unwrap()
            }
            Pack::Zstd => zstd::encode_all(bytes, 1).unwrap(),
        }
    }
}

pub fn digest(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

/// Keeps a blob; its descriptor.
pub fn blob(dir: &Path, media: &str, bytes: &[u8]) -> serde_json::Value {
    let digest = digest(bytes);
    let blobs = dir.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).unwrap();
    std::fs::write(blobs.join(&digest["sha256:".len()..]), bytes).unwrap();
    serde_json::json!({"mediaType": media, "digest": digest, "size": bytes.len()})
}

/// Keeps an image of layers; the descriptor of its manifest.
pub fn image(dir: &Path, layers: &[(Vec<u8>, Pack)], architecture: &str) -> serde_json::Value {
    let diff_ids: Vec<String> = layers.iter().map(|(bytes, _)| digest(bytes)).collect();
    let config = serde_json::json!({
        "architecture": architecture, "os": "linux", "config": {},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    });
    let config = blob(
        dir,
        "application/vnd.oci.image.config.v1+json",
        config.to_string().as_bytes(),
    );
    let layers: Vec<_> = layers
        .iter()
        .map(|(bytes, pack)| blob(dir, pack.media(), &pack.pack(bytes)))
        .collect();
    let media = "application/vnd.oci.image.manifest.v1+json";
    let manifest = serde_json::json!({
        "schemaVersion": 2, "mediaType": media, "config": config, "layers": layers,
    });
    blob(dir, media, manifest.to_string().as_bytes())
}

/// Writes the index of a layout.
pub fn index(dir: &Path, manifests: &[serde_json::Value]) {
    let index = serde_json::json!({"schemaVersion": 2, "manifests": manifests});
    std::fs::write(dir.join("index.json"), index.to_string()).unwrap();
    std::fs::write(dir.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
}

/// A layout of one image, with the tag `x`.
pub fn layout(dir: &Path, layers: &[(Vec<u8>, Pack)]) {
    let mut manifest = image(dir, layers, "amd64");
    manifest["annotations"] = serde_json::json!({"org.opencontainers.image.ref.name": "x"});
    index(dir, &[manifest]);
}
