//! How long a file may be.
//!
//! A file has one subject, and most need 100 to 250 lines for it. One that has grown beyond [`MOST_LINES`] has found a second
//! subject, and is divided between the two. Tests may be longer: they are lists.

use std::path::Path;

use crate::files::TextFile;

/// More lines than this are two files.
pub const MOST_LINES: usize = 500;

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
