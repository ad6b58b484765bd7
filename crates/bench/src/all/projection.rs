//! What the simulation makes of the sections.

use super::result::Report;
use uext4_model::{Document, Inputs, Parameters, Projection, project};

/// Fits, checks and projects what was measured.
pub fn of(report: &Report, parameters: &Parameters) -> Projection {
    let read = |name: &str| -> Option<Document> {
        report.document(name).and_then(|value| serde_json::from_value(value.clone()).ok())
    };
    let mut dio = read("randrw");
    if let Some(dio) = &mut dio {
        dio.rows.retain(|row| row.block_size == Some(4096));
    }
    let [slow, plain] = ["mdtest-delay", "mdtest"].map(read);
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
