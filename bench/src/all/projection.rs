//! What the simulation makes of the sections.

use super::result::Report;
use crate::model::{Document, Inputs, Parameters, Projection, project};
use serde_json::Value;

/// Fits, checks and projects what was measured.
pub fn of(report: &Report, parameters: &Parameters) -> Projection {
    let read = |name: &str| -> Option<Document> {
        report
            .document(name)
            .and_then(|value| serde_json::from_value(value.clone()).ok())
    };
    let dio = report.document("randrw").cloned().and_then(of_small_blocks);
    let [slow, plain] = ["mdtest-access", "mdtest"].map(read);
    let [generation, icache] = ["create-unlink", "create-unlink-lazytime"].map(read);
    let registry = read("clone-workers");
    let inputs = Inputs {
        ialloc_delayed: slow.as_ref(),
        ialloc: plain.as_ref(),
        generation: generation.as_ref(),
        icache: icache.as_ref(),
        dio: dio.as_ref(),
        registry: registry.as_ref(),
    };
    project(&inputs, parameters)
}

/// The rows of 4 KiB: a document may have several sizes of blocks, and the model knows one.
fn of_small_blocks(mut document: Value) -> Option<Document> {
    let rows = document.get_mut("rows")?.as_array_mut()?;
    rows.retain(|row| row.get("block_size").and_then(Value::as_u64) == Some(4096));
    serde_json::from_value(document).ok()
}
