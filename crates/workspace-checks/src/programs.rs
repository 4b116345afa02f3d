//! One list says which programs are installed, `python/infinijup/programs.txt`. Every program of ours is on it, and the Debian package, which
//! cannot read it, has the same ones.

use std::collections::BTreeSet;

use crate::files::TextFile;
use crate::metadata::Metadata;

/// What the list, the crates and the Debian package disagree about. Programs of ours are those whose names begin with `infinijup`.
pub fn disagreements(metadata: &Metadata, list: &TextFile, deb: &TextFile) -> Vec<String> {
    let built: BTreeSet<String> = metadata
        .packages
        .iter()
        .flat_map(|package| package.targets.iter().map(move |target| (package, target)))
        .filter(|(_, target)| {
            target.kind.iter().any(|kind| kind == "bin") && target.name.starts_with("infinijup")
        })
        .map(|(package, target)| format!("{} {}", target.name, package.name))
        .collect();
    let lines = list.text.lines().filter(|line| !line.starts_with('#'));
    let listed: BTreeSet<String> = lines.map(str::to_owned).collect();

    let path = list.path.display();
    let mut findings = Vec::new();
    findings.extend(built.difference(&listed).map(|line| format!("{path} has no line `{line}`")));
    findings.extend(listed.difference(&built).map(|line| format!("{path}: no crate builds `{line}`")));
    for line in &listed {
        let name = line.split(' ').next().unwrap_or_default();
        if !deb.text.contains(&format!("[\"target/release/{name}\", ")) {
            findings.push(format!("{}: the Debian package lacks `{name}`", deb.path.display()));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKSPACE: &[u8] = br#"{"workspace_root": "/r", "packages": [{
        "name": "cli", "version": "1.0.0", "manifest_path": "/r/crates/cli/Cargo.toml", "rust_version": null, "dependencies": [],
        "targets": [{"name": "infinijup", "kind": ["bin"]}, {"name": "infinijup_tests", "kind": ["test"]}, {"name": "helper", "kind": ["bin"]}]
    }]}"#;

    fn found(list: &str, deb: &str) -> Vec<String> {
        let metadata = Metadata::parse(WORKSPACE).unwrap();
        disagreements(&metadata, &TextFile::new("list", list), &TextFile::new("deb", deb))
    }

    #[test]
    fn all_three_have_the_same() {
        let deb = "assets = [[\"target/release/infinijup\", \"usr/bin/\", \"755\"]]";
        assert!(found("# why\ninfinijup cli\n", deb).is_empty());
        assert_eq!(found("", deb), ["list has no line `infinijup cli`"]);
        assert_eq!(found("infinijup cli\n", ""), ["deb: the Debian package lacks `infinijup`"]);
        let gone = found("infinijup cli\ninfinijup-old cli\n", deb);
        assert_eq!(
            gone,
            ["list: no crate builds `infinijup-old cli`", "deb: the Debian package lacks `infinijup-old`"]
        );
    }
}
