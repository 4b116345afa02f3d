//! The parts of a snapshot.

use std::collections::BTreeMap;

use manifest::snapshot::{
    ArchiveSection, GpuSection, HostSection, LabelSection, NotebookSection, WorkspacePolicy, WorkspaceSection,
};
use manifest::{Root, RootTarget, Section, Snapshot, TypedSection};
use serde::Serialize;
use serde_json::Value;

use crate::format;
use crate::output::Style;

#[derive(Serialize)]
pub(super) struct SectionView<'a> {
    name: &'a str,
    version: u32,
    bytes: u64,
    attributes: &'a BTreeMap<String, Value>,
    roots: Vec<RootView<'a>>,
}

#[derive(Serialize)]
struct RootView<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    id: String,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pages: Option<u64>,
}

impl<'a> SectionView<'a> {
    pub(super) fn new(section: &'a Section) -> Self {
        Self {
            name: &section.name,
            version: section.version,
            bytes: section.bytes(),
            attributes: &section.attributes,
            roots: section.roots.iter().map(RootView::new).collect(),
        }
    }
}

impl<'a> RootView<'a> {
    fn new(root: &'a Root) -> Self {
        let (kind, pages) = match root.target {
            RootTarget::Blob(_) => ("blob", None),
            RootTarget::Memory(map) => ("memory", Some(map.pages)),
            RootTarget::Tree(_) => ("tree", None),
            RootTarget::Object(..) => ("object", None),
        };
        Self { name: &root.name, kind, id: root.id().to_string(), bytes: root.bytes, pages }
    }
}

/// Sections with their roots below them, then what the known ones say.
pub(super) fn lines(snapshot: &Snapshot, style: Style) -> Vec<String> {
    let mut rows = Vec::new();
    for section in snapshot.sections() {
        let size = if section.roots.is_empty() { String::new() } else { format::size(section.bytes()) };
        rows.push(vec![format::safe(&section.name), size, String::new(), String::new()]);
        for root in &section.roots {
            let view = RootView::new(root);
            rows.push(vec![
                format!("  {}", format::safe(view.name)),
                format::size(view.bytes),
                view.kind.to_owned(),
                root.id().short(),
            ]);
        }
    }
    let head = ["section", "size", "type", "object"].map(str::to_owned).to_vec();
    rows.insert(0, head);
    let mut lines = format::table(&rows, &[false, true]);
    if let Some(first) = lines.first_mut() {
        *first = style.bold(first);
    }
    let facts = facts(snapshot);
    if !facts.is_empty() {
        lines.push(String::new());
        lines.extend(facts.into_iter().map(|(name, value)| format!("{name:<12}{}", format::safe(&value))));
    }
    lines
}

/// What sections of a newer version say is not known here; they are listed all the same.
fn known<T: TypedSection>(snapshot: &Snapshot) -> Option<T> {
    snapshot.get::<T>().ok().flatten()
}

fn facts(snapshot: &Snapshot) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Some(notebook) = known::<NotebookSection>(snapshot) {
        let path = format::safe_bytes(notebook.path.as_bytes());
        facts.push(("notebook", format!("{path}, kernel {}", notebook.kernel_name)));
    }
    if let Some(workspace) = known::<WorkspaceSection>(snapshot) {
        let what = match workspace.policy {
            WorkspacePolicy::Tree => "everything in",
            WorkspacePolicy::Open => "files open for writing in",
            WorkspacePolicy::None => "nothing of",
        };
        facts.push(("workspace", format!("{what} {}", format::safe_bytes(workspace.root.as_bytes()))));
        for left_out in workspace.not_captured {
            let path = format::safe_bytes(left_out.path.as_bytes());
            facts.push(("  left out", format!("{path}: {}", left_out.reason)));
        }
    }
    for process in known::<GpuSection>(snapshot).map(|section| section.processes).unwrap_or_default() {
        let devices = process.devices.join(", ");
        facts
            .push(("gpu", format!("pid {}: {} on {devices}", process.pid, format::size(process.vram_bytes))));
    }
    if let Some(ArchiveSection { said, .. }) = known::<ArchiveSection>(snapshot) {
        let image = if said.image.is_empty() { String::new() } else { format!(", image {}", said.image) };
        facts.push(("archive", format!("container {} of {}{image}", said.container, said.engine)));
        let sorts: Vec<String> =
            said.never_applied.iter().map(|(sort, count)| format!("{count} {sort}")).collect();
        if !sorts.is_empty() {
            facts.push(("  asks for", format!("{} (never applied)", sorts.join(", "))));
        }
        facts.extend(said.left_out.into_iter().map(|what| ("  not taken", what)));
    }
    if let Some(label) = known::<LabelSection>(snapshot) {
        facts.extend(label.fields.into_iter().map(|(name, value)| ("mark", format!("{name} = {value}"))));
    }
    if let Some(HostSection { fingerprint: host }) = known::<HostSection>(snapshot) {
        facts.push((
            "host",
            format!("{}, {}, Linux {}", host.hostname, host.architecture, host.kernel_release),
        ));
        facts.push(("  cpu", format!("{} ({} features)", host.cpu.model_name, host.cpu.features.len())));
        facts.extend(host.criu_version.map(|version| ("  criu", version)));
        facts.extend(host.driver_version.map(|version| ("  driver", version)));
        for gpu in host.gpus {
            facts.push(("  gpu", format!("{} {}, {}", gpu.name, gpu.uuid, format::size(gpu.memory_bytes))));
        }
    }
    facts
}
