//! Patterns for paths, as people know them from `.gitignore`.
//!
//! `*` and `?` stand for anything but `/`, `[a-z]` for one of these, `**` as a whole component for any number of
//! directories. A pattern without `/` is compared with the name at any depth, one with `/` with the path from the workspace.
//! What fits a directory fits everything below it.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What of a directory is wanted.
#[derive(Clone, Default, Debug)]
pub(crate) struct Patterns {
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
}

#[derive(Clone, Debug)]
struct Pattern {
    components: Vec<Vec<u8>>,
    anchored: bool,
}

impl Patterns {
    /// Everything that fits one of `include`, or everything if there are none, and none of `exclude`.
    pub(crate) fn new(include: &[String], exclude: &[String]) -> Self {
        let parse = |texts: &[String]| texts.iter().filter_map(|text| Pattern::parse(text)).collect();
        Self { include: parse(include), exclude: parse(exclude) }
    }

    /// Whether nothing at or below this path is wanted.
    pub(crate) fn excludes(&self, path: &Path) -> bool {
        self.exclude.iter().any(|pattern| pattern.fits(path))
    }

    /// Whether a file is wanted; asked only below directories that are not excluded.
    pub(crate) fn includes(&self, path: &Path) -> bool {
        self.include.is_empty()
            || path.ancestors().any(|above| self.include.iter().any(|pattern| pattern.fits(above)))
    }
}

impl Pattern {
    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix("./").unwrap_or(text);
        let bare = text.trim_matches('/');
        if bare.is_empty() {
            return None;
        }
        let anchored = text.trim_end_matches('/').contains('/');
        let components = bare.split('/').filter(|part| !part.is_empty()).map(|part| part.as_bytes().to_vec());
        Some(Self { components: components.collect(), anchored })
    }

    fn fits(&self, path: &Path) -> bool {
        let names: Vec<&[u8]> = path.components().map(|part| part.as_os_str().as_bytes()).collect();
        match (self.anchored, names.last(), self.components.first()) {
            (_, None, _) | (_, _, None) => false,
            (false, Some(name), Some(pattern)) => fits_name(pattern, name),
            (true, ..) => fits_path(&self.components, &names),
        }
    }
}

/// Both in lists: `**` is to components what `*` is to bytes.
fn fits_path(pattern: &[Vec<u8>], names: &[&[u8]]) -> bool {
    // The same walk as in `fits_name`: one star is remembered, so it takes no more than pattern × names steps.
    let (mut at, mut name, mut star) = (0, 0, None);
    while let Some(current) = names.get(name) {
        match pattern.get(at) {
            Some(part) if part == b"**" => {
                star = Some((at, name));
                at += 1;
            }
            Some(part) if fits_name(part, current) => (at, name) = (at + 1, name + 1),
            _ => match star {
                Some((star_at, taken)) => {
                    star = Some((star_at, taken + 1));
                    (at, name) = (star_at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern.get(at..).is_none_or(|rest| rest.iter().all(|part| part == b"**"))
}

fn fits_name(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut byte, mut star) = (0, 0, None);
    while let Some(&current) = name.get(byte) {
        let rest = pattern.get(at..).unwrap_or_default();
        if rest.first() == Some(&b'*') {
            star = Some((at, byte));
            at += 1;
            continue;
        }
        match one(rest, current) {
            Some(length) => (at, byte) = (at + length, byte + 1),
            None => match star {
                Some((star_at, taken)) => {
                    star = Some((star_at, taken + 1));
                    (at, byte) = (star_at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern.get(at..).is_none_or(|rest| rest.iter().all(|&byte| byte == b'*'))
}

/// How many bytes of the pattern stand for this byte of the name.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern {
        [b'?', ..] => Some(1),
        [b'\\', literal, ..] => (literal == byte).then_some(2),
        [b'[', ref rest @ ..] => match class(rest, byte) {
            Some((fits, length)) => fits.then_some(length + 1),
            // A bracket that is never closed stands for itself.
            None => (byte == b'[').then_some(1),
        },
        [literal, ..] => (literal == byte).then_some(1),
        [] => None,
    }
}

/// What follows a `[`: whether it fits, and how long it is.
fn class(rest: &[u8], byte: u8) -> Option<(bool, usize)> {
    let negated = matches!(rest.first(), Some(b'!' | b'^'));
    let mut at = usize::from(negated);
    let start = at;
    let mut fits = false;
    loop {
        match (*rest.get(at)?, rest.get(at + 1), rest.get(at + 2)) {
            (b']', ..) if at > start => return Some((fits != negated, at + 1)),
            (low, Some(b'-'), Some(&high)) if high != b']' => {
                fits |= (low..=high).contains(&byte);
                at += 3;
            }
            (single, ..) => {
                fits |= single == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, path: &str) -> bool {
        Pattern::parse(pattern).unwrap().fits(Path::new(path))
    }

    #[test]
    fn patterns_fit_what_people_expect() {
        for (pattern, path) in [
            ("*.pyc", "a/b/c.pyc"),
            ("node_modules", "a/node_modules"),
            ("node_modules/", "a/node_modules"),
            ("/data", "data"),
            ("data/*.csv", "data/x.csv"),
            ("data/**", "data/a/b"),
            ("**/x", "x"),
            ("a/**/x", "a/x"),
            ("a/**/x", "a/b/c/x"),
            ("[a-c]?[!z]", "bxy"),
            ("[]]", "]"),
            ("a[", "a["),
            ("\\*", "*"),
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
        ] {
            assert!(!fits(pattern, path), "{pattern} {path}");
        }
        assert!(Pattern::parse("/").is_none() && Pattern::parse("").is_none());
    }

    #[test]
    fn a_hostile_pattern_takes_no_longer_than_a_plain_one() {
        let name = vec![b'a'; 4096];
        let pattern = b"*a".repeat(2000);
        assert!(fits_name(&pattern, &name));
        let pattern = [pattern, b"b".to_vec()].concat();
        assert!(!fits_name(&pattern, &name));
    }

    #[test]
    fn including_a_directory_includes_what_is_below() {
        let patterns = Patterns::new(&["src".into(), "*.ipynb".into()], &["*.tmp".into()]);
        assert!(patterns.includes(Path::new("src/a/b.rs")));
        assert!(patterns.includes(Path::new("x/n.ipynb")));
        assert!(!patterns.includes(Path::new("x/b.rs")));
        assert!(patterns.excludes(Path::new("src/a.tmp")));
        assert!(Patterns::default().includes(Path::new("x")));
    }
}
