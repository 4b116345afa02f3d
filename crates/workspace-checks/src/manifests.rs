//! Rules for `Cargo.toml` files. They are read line by line, as we write them: a rule that needs more than that is too
//! clever for a manifest.

use crate::files::TextFile;
use crate::metadata::Metadata;

/// A panic must unwind everywhere: a program that holds a frozen process or a locked GPU lets go of it in destructors.
pub fn aborting_panics(tomls: &[TextFile]) -> Vec<String> {
    let mut findings = Vec::new();
    for toml in tomls {
        for (number, line) in toml.text.lines().enumerate() {
            let setting: String =
                code(line).chars().filter(|c| !c.is_whitespace() && !matches!(c, '"' | '\'')).collect();
            if setting.contains("panic=abort") || setting.contains("panic-strategy=abort") {
                findings.push(format!(
                    "{}:{}: panics must unwind, not abort",
                    toml.path.display(),
                    number + 1
                ));
            }
        }
    }
    findings
}

/// A member takes lints and the versions of its dependencies from the workspace.
pub fn not_inherited(member: &TextFile) -> Vec<String> {
    let mut findings = Vec::new();
    let mut section = String::new();
    let mut lints = false;
    let mut depth = 0_usize;
    for (number, line) in member.text.lines().enumerate() {
        let line = code(line);
        let inside_value = depth > 0;
        if !inside_value && line.starts_with('[') {
            section = line.trim_matches(['[', ']']).to_owned();
            if section.contains("dependencies.") {
                findings.push(format!(
                    "{}:{}: write the dependency on one line, with `workspace = true`",
                    member.path.display(),
                    number + 1
                ));
            }
            continue;
        }
        depth = (depth + line.matches('[').count()).saturating_sub(line.matches(']').count());
        let inherits = line.contains("workspace = true");
        if section == "lints" && inherits {
            lints = true;
        }
        if !inside_value && section.ends_with("dependencies") && line.contains('=') && !inherits {
            findings.push(format!(
                "{}:{}: name the version in [workspace.dependencies] of the root Cargo.toml and write `workspace = true` here",
                member.path.display(),
                number + 1
            ));
        }
    }
    if !lints {
        findings.push(format!("{} has no `[lints]` with `workspace = true`", member.path.display()));
    }
    findings
}

/// Packages that ask for a newer compiler than `ours`, the workspace's `rust-version`.
pub fn newer_than_msrv(metadata: &Metadata, ours: &str) -> Vec<String> {
    metadata
        .packages
        .iter()
        .filter_map(|package| Some((package, package.rust_version.as_deref()?)))
        .filter(|(_, theirs)| version(theirs) > version(ours))
        .map(|(package, theirs)| {
            format!(
                "{} {} asks for Rust {theirs}, the workspace promises {ours}",
                package.name, package.version
            )
        })
        .collect()
}

/// The value of `rust-version` in the root manifest.
pub fn msrv(root: &TextFile) -> Option<&str> {
    let line = root.text.lines().find_map(|line| line.strip_prefix("rust-version = \""))?;
    line.split('"').next()
}

fn version(text: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> = text.split('.').map(|number| number.parse().unwrap_or(0)).collect();
    numbers.resize(3, 0);
    numbers
}

/// A line without its comment. Our manifests have no `#` inside strings.
fn code(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toml(text: &str) -> TextFile {
        TextFile::new("Cargo.toml", text)
    }

    #[test]
    fn abort_is_found_however_it_is_written() {
        for text in [
            "panic = \"abort\"",
            "panic='abort'",
            "rustflags = [\"-C\", \"panic=abort\"]",
            "  panic = \"abort\" # why",
        ] {
            assert_eq!(aborting_panics(&[toml(text)]).len(), 1, "{text}");
        }
        for text in ["panic = \"unwind\"", "# no `panic = \"abort\"` here", "panic = \"warn\""] {
            assert_eq!(aborting_panics(&[toml(text)]), Vec::<String>::new(), "{text}");
        }
    }

    const GOOD: &str = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\n\
        b = { workspace = true, features = [\n    \"c = d\",\n] }\n[dev-dependencies]\ne.workspace = true\n[lints]\nworkspace = true\n";

    #[test]
    fn a_manifest_that_inherits_is_fine() {
        assert_eq!(
            not_inherited(&toml(&GOOD.replace(".workspace = true", " = { workspace = true }"))),
            Vec::<String>::new()
        );
        // The short form `a.workspace = true` is the one we write.
        assert_eq!(not_inherited(&toml(GOOD)), Vec::<String>::new());
    }

    #[test]
    fn a_version_of_its_own_and_missing_lints_are_found() {
        let own = not_inherited(&toml(&GOOD.replace("e.workspace = true", "e = \"1\"")));
        assert_eq!(own.len(), 1, "{own:?}");
        assert!(own[0].starts_with("Cargo.toml:9: name the version"), "{own:?}");
        let table =
            not_inherited(&toml(&GOOD.replace("[lints]", "[dependencies.f]\nversion = \"1\"\n[lints]")));
        assert_eq!(table.len(), 1, "{table:?}");
        let lints = not_inherited(&toml(&GOOD.replace("[lints]", "[badges]")));
        assert_eq!(lints, ["Cargo.toml has no `[lints]` with `workspace = true`"]);
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let json = serde_json::json!({ "workspace_root": "/", "packages": [
            { "name": "old", "version": "1.0.0", "manifest_path": "/a", "rust_version": "1.9", "dependencies": [] },
            { "name": "same", "version": "1.0.0", "manifest_path": "/a", "rust_version": "1.89.0", "dependencies": [] },
            { "name": "silent", "version": "1.0.0", "manifest_path": "/a", "rust_version": null, "dependencies": [] },
            { "name": "new", "version": "2.0.0", "manifest_path": "/a", "rust_version": "1.100", "dependencies": [] },
        ]});
        let metadata = Metadata::parse(json.to_string().as_bytes()).unwrap();
        assert_eq!(
            newer_than_msrv(&metadata, "1.89"),
            ["new 2.0.0 asks for Rust 1.100, the workspace promises 1.89"]
        );
    }
}
