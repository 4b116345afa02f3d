//! Patterns for paths, exactly as in a `.gitignore`: the `ignore` crate reads them.
//!
//! `*` and `?` stand for anything but `/`, `[a-z]` for one of these, `**` as a whole component for any number of
//! directories. A pattern without `/` is compared with the name at any depth, one with `/` with the path from the workspace; one that ends
//! with `/` fits directories only. What fits a directory fits everything below it. A pattern that begins with `!` takes back what one before
//! it said; but what is below a directory that is excluded is never looked at, so nothing there can be taken back.
//!
//! Two things differ from a file of patterns: there are no comments, and a bracket that is never closed stands for itself. Matching takes
//! time in proportion to the path, whatever the pattern.

use std::io;
use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// What of a directory is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Patterns {
    /// None: everything.
    include: Option<Gitignore>,
    exclude: Gitignore,
}

impl Patterns {
    /// All that there is.
    pub(crate) fn everything() -> Self {
        Self { include: None, exclude: Gitignore::empty() }
    }

    /// Everything that fits one of `include`, or everything if there are none, and none of `exclude`.
    pub(crate) fn new(include: &[String], exclude: &[String]) -> io::Result<Self> {
        let include = read(include)?;
        Ok(Self { include: (!include.is_empty()).then_some(include), exclude: read(exclude)? })
    }

    /// Whether nothing at or below this path is wanted; asked only below directories that are not excluded.
    pub(crate) fn excludes(&self, path: &Path, is_dir: bool) -> bool {
        self.exclude.matched(path, is_dir).is_ignore()
    }

    /// Whether a file is wanted; asked only below directories that are not excluded.
    pub(crate) fn includes(&self, path: &Path) -> bool {
        self.include
            .as_ref()
            .is_none_or(|include| include.matched_path_or_any_parents(path, false).is_ignore())
    }
}

fn read(patterns: &[String]) -> io::Result<Gitignore> {
    let too_much = |error: ignore::Error| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("patterns of files: {error}"))
    };
    // Paths are given from the workspace on, so its own name does not matter.
    let mut all = GitignoreBuilder::new("");
    for pattern in patterns {
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        let pattern = if pattern.starts_with('#') { format!("\\{pattern}") } else { pattern.to_owned() };
        if all.add_line(None, &pattern).is_err() {
            all.add_line(None, &pattern.replace('[', "\\[")).map_err(too_much)?;
        }
    }
    all.build().map_err(too_much)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(include: &[&str], exclude: &[&str]) -> Patterns {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Patterns::new(&owned(include), &owned(exclude)).unwrap()
    }

    fn fits(pattern: &str, path: &str) -> bool {
        patterns(&[], &[pattern]).excludes(Path::new(path), false)
    }

    #[test]
    fn patterns_fit_what_people_expect() {
        for (pattern, path) in [
            ("*.pyc", "a/b/c.pyc"),
            ("node_modules", "a/node_modules"),
            ("/data", "data"),
            ("./data", "data"),
            ("data/*.csv", "data/x.csv"),
            ("data/**", "data/a/b"),
            ("**/x", "x"),
            ("a/**/x", "a/x"),
            ("a/**/x", "a/b/c/x"),
            ("[a-c]?[!z]", "bxy"),
            ("[]]", "]"),
            ("a[", "a["),
            ("\\*", "*"),
            ("#draft", "#draft"),
            ("*a*b*", "xxaxxbxx"),
        ] {
            assert!(fits(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("/data", "a/data"),
            ("data/*.csv", "data/a/x.csv"),
            ("data/*.csv", "x/data/x.csv"),
            ("?", "ab"),
            ("[!z]", "z"),
            ("*.pyc", "a.pyc/x"),
            ("\\*", "x"),
            ("a/**/x", "b/x"),
            ("", "a"),
            ("/", "a"),
        ] {
            assert!(!fits(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn a_slash_at_the_end_means_directories() {
        let directories = patterns(&[], &["build/"]);
        assert!(directories.excludes(Path::new("a/build"), true));
        assert!(!directories.excludes(Path::new("a/build"), false));
    }

    #[test]
    fn an_exclamation_mark_takes_back_what_came_before() {
        let logs = patterns(&[], &["*.log", "!keep.log", "!data/**"]);
        assert!(logs.excludes(Path::new("a/run.log"), false));
        assert!(!logs.excludes(Path::new("a/keep.log"), false));
        assert!(!logs.excludes(Path::new("data/run.log"), false));
        let again = patterns(&[], &["!keep.log", "*.log"]);
        assert!(again.excludes(Path::new("keep.log"), false), "the last one counts");
        assert!(fits("\\!important", "!important"));

        let notebooks = patterns(&["*.ipynb", "!draft-*"], &[]);
        assert!(notebooks.includes(Path::new("a/study.ipynb")));
        assert!(!notebooks.includes(Path::new("a/draft-1.ipynb")));
    }

    #[test]
    fn a_hostile_pattern_takes_no_longer_than_a_plain_one() {
        let name = "a".repeat(4096);
        assert!(fits(&"*a".repeat(2000), &name));
        assert!(!fits(&format!("{}b", "*a".repeat(2000)), &name));
    }

    #[test]
    fn including_a_directory_includes_what_is_below() {
        let patterns = patterns(&["src", "*.ipynb"], &["*.tmp"]);
        assert!(patterns.includes(Path::new("src/a/b.rs")));
        assert!(patterns.includes(Path::new("x/n.ipynb")));
        assert!(!patterns.includes(Path::new("x/b.rs")));
        assert!(patterns.excludes(Path::new("src/a.tmp"), false));
        assert!(Patterns::everything().includes(Path::new("x")));
    }
}
