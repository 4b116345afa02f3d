//! Links between our documents lead somewhere.

use std::path::{Component, Path, PathBuf};

use crate::files::TextFile;

/// Relative links in `documents` to files that `exists` does not know. Links to the web and within a page are left
/// alone, as is everything in code.
pub fn dead_links(documents: &[TextFile], exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut findings = Vec::new();
    for document in documents {
        let directory = document.path.parent().unwrap_or(Path::new(""));
        for target in targets(&document.text) {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
                continue;
            }
            if !exists(&normal(&directory.join(file))) {
                findings.push(format!("{} links to {target}, which does not exist", document.path.display()));
            }
        }
    }
    findings
}

/// What stands in the round brackets of `[text](target)`.
fn targets(markdown: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut in_code_block = false;
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            in_code_block = !in_code_block;
        } else if !in_code_block {
            // Every second piece between backticks is code.
            for prose in line.split('`').step_by(2) {
                let pieces = prose.split("](").skip(1);
                found.extend(pieces.filter_map(|piece| piece.split_once(')')).map(|(target, _)| target));
            }
            // The text of a link is often code, which the split above cuts off from its target.
            let pieces = line.split("`](").skip(1);
            found.extend(pieces.filter_map(|piece| piece.split_once(')')).map(|(target, _)| target));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Resolves `..` by name alone.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(markdown: &str) -> Vec<String> {
        let document = TextFile::new("docs/guide.md", markdown);
        dead_links(&[document], |path| path == Path::new("docs/other.md") || path == Path::new("README.md"))
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        let text =
            "[a](other.md) [b](../README.md#top) [c](#here) [d](https://example.org/x) [`e`](other.md)";
        assert_eq!(dead(text), Vec::<String>::new());
    }

    #[test]
    fn dead_links_are_found() {
        assert_eq!(dead("see [a](gone.md)"), ["docs/guide.md links to gone.md, which does not exist"]);
        assert_eq!(dead("[`code`](README.md)"), ["docs/guide.md links to README.md, which does not exist"]);
    }

    #[test]
    fn code_is_not_read_for_links() {
        assert_eq!(dead("`[a](gone.md)`\n```\n[a](gone.md)\n```\n"), Vec::<String>::new());
    }
}
