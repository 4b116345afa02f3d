//! What CRIU's log says about a failure.
//!
//! CRIU logs thousands of lines, and its `cr_errmsg` is the *first* error, which is often harmless noise. What tells is a
//! handful of `Error` lines. They are picked out here, and compared with the table of [`crate::explain()`].

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::explain::{Explanation, explain};

/// CRIU's log, its telling lines and, for a well-known failure, what they mean.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Evidence {
    /// The whole log.
    pub log_path: PathBuf,
    /// The lines that tell, in CRIU's order.
    pub lines: Vec<String>,
    /// What they mean, if this failure is a well-known one.
    pub explanation: Option<&'static Explanation>,
}

/// Errors that CRIU reports on many machines and that stop nothing.
const NOISE: &[&str] = &[
    "Can't setup RLIMIT_NOFILE",
    "Can't raise RLIMIT_NOFILE",
    "iptables",
    "ip6tables",
    "Compatible 32-bit",
    "Unable to open directory",
];

/// How much of the end of a log is read, and how many lines of it are shown.
const TAIL: u64 = 1 << 20;
const MAX_LINES: usize = 12;
const MAX_LINE: usize = 400;

impl Evidence {
    /// Reads the log, then `complaints` (what CRIU said before it had one). `first_error` is CRIU's own word, from its answer.
    pub(crate) fn gather(log_path: &Path, complaints: &Path, first_error: Option<&str>) -> Self {
        let mut lines = telling_lines(&tail(log_path));
        if lines.is_empty() {
            lines.extend(tail(complaints).lines().map(cut).filter(|line| !line.is_empty()));
            lines.truncate(MAX_LINES);
        }
        if let Some(first) = first_error.map(cut).filter(|first| !is_noise(first))
            && !lines.iter().any(|line| line.contains(&first))
        {
            lines.insert(0, first);
        }
        let explanation = explain(&lines);
        Self { log_path: log_path.to_path_buf(), lines, explanation }
    }

    /// The meaning, or the first telling line, as the tail of a sentence.
    pub(crate) fn summary(&self) -> String {
        match (self.explanation, self.lines.first()) {
            (Some(explanation), _) => format!(": {}", explanation.meaning),
            (None, Some(line)) => format!(": {line}"),
            (None, None) => String::new(),
        }
    }

    /// A way out.
    pub(crate) fn hint(&self) -> String {
        match self.explanation {
            Some(explanation) => explanation.way_out.to_owned(),
            None => format!("CRIU's log is at `{}`", self.log_path.display()),
        }
    }
}

fn is_noise(line: &str) -> bool {
    NOISE.iter().any(|noise| line.contains(noise))
}

/// Lines like `(00.031337)   1234: Error (criu/files-reg.c:2175): File x has bad size 5 (expect 4)`, from the word `Error` on.
/// The last ones are kept: what comes first is the cause only among them, for a log starts with harmless probes.
fn telling_lines(log: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in log.lines() {
        let Some(at) = line.find("Error (").or_else(|| line.find("BUG at ")) else { continue };
        let line = cut(line.get(at..).unwrap_or(line));
        if !is_noise(&line) && lines.last() != Some(&line) {
            lines.push(line);
        }
    }
    lines.drain(..lines.len().saturating_sub(MAX_LINES));
    lines
}

fn cut(line: &str) -> String {
    line.trim().chars().filter(|letter| !letter.is_control()).take(MAX_LINE).collect()
}

fn tail(path: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    // A log that cannot be read is no evidence; the failure itself is reported all the same.
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
(00.000101) Error (criu/util.c:1475): Can't setup RLIMIT_NOFILE for self: Operation not permitted
(00.012000) Dumping path for 3 fd via self 12 [/tmp/x]
(00.013000)   4711: Error (criu/files-reg.c:2175): File tmp/x has bad size 5 (expect 4)
(00.013000)   4711: Error (criu/files-reg.c:2175): File tmp/x has bad size 5 (expect 4)
(00.013500) Error (criu/cr-restore.c:2342): Restoring FAILED.
";

    #[test]
    fn the_lines_that_tell_are_found_and_explained() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("restore.log");
        std::fs::write(&log, LOG).unwrap();
        let noise = "Can't setup RLIMIT_NOFILE for self: Operation not permitted";
        let evidence = Evidence::gather(&log, &dir.path().join("none"), Some(noise));
        assert_eq!(
            evidence.lines,
            [
                "Error (criu/files-reg.c:2175): File tmp/x has bad size 5 (expect 4)",
                "Error (criu/cr-restore.c:2342): Restoring FAILED."
            ]
        );
        assert!(evidence.summary().contains("size"), "{}", evidence.summary());
        assert!(!evidence.hint().contains("log"), "{}", evidence.hint());
    }

    #[test]
    fn a_criu_that_dies_early_is_heard_too() {
        let dir = tempfile::tempdir().unwrap();
        let complaints = dir.path().join("stderr");
        std::fs::write(&complaints, "criu: error while loading shared libraries: libnet.so.9\n").unwrap();
        let evidence = Evidence::gather(&dir.path().join("none"), &complaints, None);
        assert!(evidence.summary().contains("libnet.so.9"));
        assert!(evidence.hint().contains("log"));
    }

    #[test]
    fn a_long_log_gives_few_lines() {
        let log = "(00.1) Error (a.c:1): x\n(00.1) Error (a.c:2): y\n".repeat(1000);
        assert_eq!(telling_lines(&log).len(), MAX_LINES);
    }
}
