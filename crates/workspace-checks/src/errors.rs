//! Every error code has a page, and every page has a code.
//!
//! A code is `IJ-`, a letter for the crate and three digits. It is given out once: a code that is no longer used keeps
//! its page, with a line that starts with "Retired".

use std::collections::{BTreeMap, BTreeSet};

use crate::files::TextFile;

/// Headings that each page has, in this order.
pub const SECTIONS: &[&str] = &["## What happened", "## What to do"];

/// What is wrong between `sources` (Rust files), `pages` (`docs/errors/*.md`) and the list of pages in `index`.
pub fn broken_pages(sources: &[TextFile], pages: &[TextFile], index: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let mut used: BTreeMap<&str, &TextFile> = BTreeMap::new();
    for source in sources {
        for code in codes(&source.text) {
            used.entry(code).or_insert(source);
        }
    }
    findings.extend(codes_given_twice(sources));

    let mut described = BTreeSet::new();
    for page in pages {
        let name = page.path.file_stem().unwrap_or_default().to_string_lossy();
        let Some(code) = codes(&name).next().filter(|code| *code == name) else {
            findings.push(format!("{} is not named after an error code", page.path.display()));
            continue;
        };
        findings.extend(faults_of_page(page, code, index));
        if !used.contains_key(code) && !page.text.lines().any(|line| line.starts_with("Retired")) {
            findings.push(format!(
                "no source uses the code of {}: a code that went out of use keeps its page, with a line that starts with \
                 \"Retired\"",
                page.path.display()
            ));
        }
        described.insert(code.to_owned());
    }
    for (code, source) in used {
        if !described.contains(code) {
            findings.push(format!(
                "{code}, used in {}, has no page: write docs/errors/{code}.md and list it in docs/errors/README.md",
                source.path.display()
            ));
        }
    }
    findings
}

fn faults_of_page(page: &TextFile, code: &str, index: &str) -> Vec<String> {
    let path = page.path.display();
    let mut findings = Vec::new();
    if !page.text.starts_with(&format!("# {code}: ")) {
        findings.push(format!("{path} does not start with `# {code}: ` and a title"));
    }
    for section in SECTIONS {
        if !page.text.lines().any(|line| line == *section) {
            findings.push(format!("{path} has no section `{section}`"));
        }
    }
    if !index.contains(&format!("({code}.md)")) {
        findings.push(format!("{path} is not listed in docs/errors/README.md"));
    }
    findings
}

/// A code stands for one error: `=> "IJ-…"`, as in a `code()` method, may name it once.
fn codes_given_twice(sources: &[TextFile]) -> Vec<String> {
    let mut given = BTreeMap::new();
    let mut findings = Vec::new();
    for source in sources {
        for (at, arrow) in source.text.match_indices("=> \"") {
            let value = &source.text[at + arrow.len()..];
            let value = value.split('"').next().unwrap_or_default();
            let Some(code) = codes(value).next().filter(|code| *code == value) else { continue };
            if let Some(before) = given.insert(code, &source.path) {
                findings.push(format!(
                    "{code} stands for two errors, in {} and in {}",
                    before.display(),
                    source.path.display()
                ));
            }
        }
    }
    findings
}

/// The error codes in a text, in order, with repetitions.
fn codes(text: &str) -> impl Iterator<Item = &str> {
    const LEN: usize = "IJ-S001".len();
    text.match_indices("IJ-").filter_map(|(at, _)| {
        let code = text.get(at..at + LEN)?;
        let (letter, digits) = code["IJ-".len()..].split_at_checked(1)?;
        let ends = !text[at + LEN..].starts_with(|next: char| next.is_ascii_alphanumeric());
        let is_code = letter.bytes().all(|byte| byte.is_ascii_uppercase())
            && digits.bytes().all(|byte| byte.is_ascii_digit());
        (is_code && ends).then_some(code)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = "| [IJ-X001](IJ-X001.md) | … |";

    fn source(text: &str) -> TextFile {
        TextFile::new("crates/x/src/error.rs", text)
    }

    fn page(code: &str) -> TextFile {
        TextFile::new(
            format!("docs/errors/{code}.md"),
            format!("# {code}: title\n\n## What happened\n\nText.\n\n## What to do\n\nText.\n"),
        )
    }

    #[track_caller]
    fn only_finding(findings: Vec<String>, text: &str) {
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].contains(text), "{findings:?}");
    }

    #[test]
    fn codes_are_recognised_and_look_alikes_are_not() {
        let text = "`IJ-S001` IJ-S002, \"IJ-M010\" IJ-M0xx IJ-s003 IJ-S0045 IJ-S00 IJ-é12 IJ-";
        assert_eq!(codes(text).collect::<Vec<_>>(), ["IJ-S001", "IJ-S002", "IJ-M010"]);
    }

    #[test]
    fn a_code_with_its_page_is_fine() {
        assert_eq!(
            broken_pages(&[source("A => \"IJ-X001\",")], &[page("IJ-X001")], INDEX),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_code_without_a_page_is_found() {
        let sources = [source("A => \"IJ-X001\", B => \"IJ-X002\",")];
        only_finding(
            broken_pages(&sources, &[page("IJ-X001")], INDEX),
            "IJ-X002, used in crates/x/src/error.rs",
        );
    }

    #[test]
    fn a_page_without_a_code_is_found_unless_retired() {
        only_finding(broken_pages(&[], &[page("IJ-X001")], INDEX), "no source uses");
        let mut retired = page("IJ-X001");
        retired.text.push_str("\nRetired in 0.2.0.\n");
        assert_eq!(broken_pages(&[], &[retired], INDEX), Vec::<String>::new());
    }

    #[test]
    fn a_page_must_be_listed_titled_and_complete() {
        let sources = [source("\"IJ-X001\"")];
        only_finding(broken_pages(&sources, &[page("IJ-X001")], ""), "not listed");
        let mut untitled = page("IJ-X001");
        untitled.text = untitled.text.replace("# IJ-X001: title", "# IJ-X002: title");
        only_finding(broken_pages(&sources, &[untitled], INDEX), "does not start with");
        let mut short = page("IJ-X001");
        short.text = short.text.replace("## What to do", "");
        only_finding(broken_pages(&sources, &[short], INDEX), "has no section `## What to do`");
    }

    #[test]
    fn a_code_stands_for_one_error() {
        let sources =
            [source("A => \"IJ-X001\","), TextFile::new("crates/y/src/lib.rs", "B => \"IJ-X001\",")];
        only_finding(broken_pages(&sources, &[page("IJ-X001")], INDEX), "stands for two errors");
    }
}
