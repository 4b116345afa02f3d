//! What goes with a snapshot.

use api::CellNote;

/// What goes with a snapshot.
pub(crate) fn along(
    label: Option<String>,
    notebook: Option<String>,
    cell: Option<CellNote>,
    variables: Option<bool>,
) -> lifecycle::Along {
    let cell = cell.map(|cell| lifecycle::Cell { id: cell.id, number: cell.number, source: cell.source });
    lifecycle::Along { label, notebook, cell, variables }
}
