//! How long a file may be, and how large a crate that everything is drawn to.
//!
//! A file has one subject, and most need 100 to 250 lines for it. One that has grown beyond [`MOST_LINES`] has found a second
//! subject, and is divided between the two. Tests may be longer: they are lists.
//!
//! A crate in the middle grows in the same way, a file at a time, and no file says so. [`MOST_OF_CRATES`] does.

use std::path::Path;

use crate::files::TextFile;

/// More lines than this are two files.
pub const MOST_LINES: usize = 500;

/// Crates that hold to a size, with their tests. One that is at its limit has knowledge in it that belongs into a room below.
pub const MOST_OF_CRATES: &[(&str, usize)] = &[("lifecycle", 8_000)];

/// Crates of [`MOST_OF_CRATES`] that are too large.
pub fn too_large(sources: &[TextFile]) -> Vec<String> {
    let size = |name: &str| -> usize {
        let home = Path::new("crates").join(name);
        sources.iter().filter(|file| file.path.starts_with(&home)).map(|file| file.text.lines().count()).sum()
    };
    MOST_OF_CRATES
        .iter()
        .map(|(name, most)| (name, most, size(name)))
        .filter(|(_, most, size)| size >= most)
        .map(|(name, most, size)| {
            format!(
                "crates/{name} has {size} lines, and is to stay under {most}: move what is no step of a pipeline into a room \
                 below it (docs/architecture.md)"
            )
        })
        .collect()
}

/// Rust files that are too long.
pub fn too_long(sources: &[TextFile]) -> Vec<String> {
    let long = |file: &&TextFile| !is_test(&file.path) && file.text.lines().count() > MOST_LINES;
    sources
        .iter()
        .filter(long)
        .map(|file| {
            format!(
                "{} has {} lines, and {MOST_LINES} are the most: give its second subject a file of its own",
                file.path.display(),
                file.text.lines().count()
            )
        })
        .collect()
}

/// Whether a file is a test: it lies below a directory `tests`, or is called so.
fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests")
        || path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("tests"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, lines: usize) -> Vec<String> {
        too_long(&[TextFile::new(path, "line\n".repeat(lines))])
    }

    #[test]
    fn one_line_too_many_is_found() {
        assert_eq!(found("crates/api/src/a.rs", MOST_LINES), Vec::<String>::new());
        let findings = found("crates/api/src/a.rs", MOST_LINES + 1);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with("crates/api/src/a.rs has 501 lines"), "{findings:?}");
        assert_eq!(found("testing/cuda-sim/src/latest.rs", 501).len(), 1, "only its name ends like a test's");
        assert_eq!(found("bench/src/contests/a.rs", 501).len(), 1);
    }

    #[test]
    fn a_crate_in_the_middle_stays_small_with_all_its_files() {
        let files = |lines: usize| {
            let rest = TextFile::new("crates/lifecycle/src/trial/mod.rs", "line\n".repeat(lines));
            let other = TextFile::new("crates/lifecycle-of-bees/src/lib.rs", "line\n".repeat(9_000));
            vec![TextFile::new("crates/lifecycle/src/lib.rs", "line\n".repeat(4_000)), rest, other]
        };
        assert_eq!(too_large(&files(3_999)), Vec::<String>::new());
        let findings = too_large(&files(4_000));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with("crates/lifecycle has 8000 lines"), "{findings:?}");
    }

    #[test]
    fn tests_may_be_longer() {
        for path in [
            "tests/torture/tests/kill.rs",
            "crates/cas-core/src/tests/gc.rs",
            "crates/cas-core/src/catalogue/tests.rs",
            "crates/cas-core/src/catalogue/tests_random.rs",
            "crates/cli/tests/online.rs",
        ] {
            assert_eq!(found(path, 900), Vec::<String>::new(), "{path}");
        }
    }
}
