//! What things may be called.
//!
//! A session's name is also the name of the thread that its snapshots are put on, and so part of a file's path, of command lines
//! and of URLs. Therefore there is one rule, in two steps:
//!
//! * **Threads and tags** keep to the rules of `git check-ref-format`, with spaces allowed inside, because people type these names
//!   into a text field. Characters that turn the direction of text around are refused: with them a name looks like another.
//! * **Sessions** keep to the same, and are one word: letters and digits of any script, `.`, `_` and `-`. So every name of a session is a
//!   good name for a thread.
//!
//! Each check says which rule is broken, as the end of a sentence that the caller begins. The same rules stand in Python
//! (`infinijup/names.py`) and in TypeScript (`labextension/src/names.ts`); `tests/fixtures/names/table.json` holds all three together.

/// The longest name of a session, in bytes.
pub const LONGEST_SESSION: usize = 64;

/// The longest name of a thread or a tag, in bytes.
pub const LONGEST_REF: usize = 200;

/// The longest path of a ref, and the longest part of one, in bytes. A part is the name of a file.
const LONGEST_PATH: usize = 512;
const LONGEST_PART: usize = 200;

/// The longest name of a kernelspec, in bytes: it is the name of a directory.
const LONGEST_KERNELSPEC: usize = 255;

/// Characters that a way of naming ancestors and ranges of commits needs for itself (`main~2`, `a^`, `a:path`).
const RESERVED: &[char] = &['~', '^', ':', '?', '*', '[', '\\'];

/// Which rule a name was checked against and broke, as the end of a sentence: "it ends with `.`".
pub type Broken = &'static str;

/// Checks the name of a session.
pub fn check_session(name: &str) -> Result<(), Broken> {
    if name.is_empty() || name.len() > LONGEST_SESSION {
        return Err("it must have 1 to 64 bytes");
    }
    if !name.starts_with(char::is_alphanumeric) {
        return Err("it must begin with a letter or digit");
    }
    if !name.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-')) {
        return Err("it may hold letters, digits, `.`, `_` and `-` only");
    }
    check_ref(name)
}

/// What so many branches of a session are called: as somebody wants, with numbers if there are several; or the only one as the session itself,
/// if no session is called so.
pub fn for_branches(
    wanted: Option<&str>,
    of: &str,
    count: u32,
    is_taken: impl Fn(&str) -> bool,
) -> Vec<String> {
    match wanted {
        Some(name) if count == 1 => vec![name.to_owned()],
        Some(name) => (1..=count).map(|number| format!("{name}-{number}")).collect(),
        None if count == 1 && !is_taken(of) => vec![of.to_owned()],
        None => branches_of(of, count, is_taken),
    }
}

/// Names for so many branches of a session, none of them taken: `NAME-branch`, `NAME-branch-2` … A branch of a branch is no `NAME-branch-branch`.
fn branches_of(name: &str, count: u32, is_taken: impl Fn(&str) -> bool) -> Vec<String> {
    let (stem, rest) = name.rsplit_once("-branch").unwrap_or((name, ""));
    let is_branch =
        rest.is_empty() || rest.strip_prefix('-').is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    let stem = if is_branch { stem } else { name };
    // Room for the number.
    let longest = LONGEST_SESSION - "-branch-12345".len();
    let end = (0..=stem.len().min(longest)).rev().find(|&end| stem.is_char_boundary(end)).unwrap_or(0);
    let stem = stem.get(..end).unwrap_or(stem);
    let named = |number: usize| match number {
        1 => format!("{stem}-branch"),
        number => format!("{stem}-branch-{number}"),
    };
    (1..).map(named).filter(|name| !is_taken(name)).take(count as usize).collect()
}

/// Checks the name of a thread or a tag.
pub fn check_ref(name: &str) -> Result<(), Broken> {
    if name.is_empty() || name.len() > LONGEST_REF {
        return Err("it must have 1 to 200 bytes");
    }
    if name.chars().any(char::is_control) {
        return Err("it has a control character");
    }
    if name.chars().any(changes_direction) {
        return Err("it has a character that changes the direction of text, or ends a line");
    }
    if name.trim() != name {
        return Err("it starts or ends with white space");
    }
    if name.contains("..") {
        return Err("it contains `..`");
    }
    if name.contains(RESERVED) {
        return Err(r"it contains one of ~ ^ : ? * [ \");
    }
    if name.starts_with('/') || name.ends_with('/') {
        return Err("it starts or ends with `/`");
    }
    if name.ends_with('.') {
        return Err("it ends with `.`");
    }
    if name.starts_with('-') {
        return Err("it starts with `-`");
    }
    for part in name.split('/') {
        if part.is_empty() {
            return Err("it has two `/` in a row");
        }
        if part.starts_with('.') {
            return Err("a part of it starts with `.`");
        }
        if part.ends_with(".lock") {
            return Err("a part of it ends with `.lock`");
        }
    }
    Ok(())
}

/// Checks the full path of a ref, such as `threads/main`: it must not leave its directory, nor collide with temporary files there. This is
/// what a store needs; what a thread or a tag may be called is stricter ([`check_ref`]).
pub fn check_ref_path(path: &str) -> Result<(), Broken> {
    if path.is_empty() || path.len() > LONGEST_PATH {
        return Err("it must have 1 to 512 bytes");
    }
    if path.chars().any(char::is_control) {
        return Err("it has a control character");
    }
    if path.split('/').any(|part| part.is_empty() || part.starts_with('.') || part.len() > LONGEST_PART) {
        return Err("each part between slashes must have 1 to 200 bytes and not start with a dot");
    }
    Ok(())
}

/// Checks the name of a kernelspec. Jupyter's rule, not ours: it is the name of a directory, in ASCII.
pub fn check_kernelspec(name: &str) -> Result<(), Broken> {
    if name.is_empty() || name.len() > LONGEST_KERNELSPEC {
        return Err("it must have 1 to 255 bytes");
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')) {
        return Err("it may hold the letters a to z, digits, `.`, `_` and `-` only");
    }
    if matches!(name, "." | "..") { Err("it is no name of a directory") } else { Ok(()) }
}

/// Marks, embeddings, overrides and isolates of bidirectional text, and the two separators that end a line without being control characters.
fn changes_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn branches_have_the_name_of_what_they_were_branched_off() {
        let some = |wanted, count| for_branches(wanted, "study", count, |name| name == "study");
        assert_eq!(some(Some("idea"), 1), ["idea"]);
        assert_eq!(some(Some("try"), 2), ["try-1", "try-2"]);
        assert_eq!(some(None, 1), ["study-branch"]);
        assert_eq!(for_branches(None, "study", 1, |_| false), ["study"]);
        let free = |name: &str, count| branches_of(name, count, |name| name == "study-branch-2");
        assert_eq!(free("study", 3), ["study-branch", "study-branch-3", "study-branch-4"]);
        assert_eq!(free("study-branch-7", 1), ["study-branch"]);
        assert_eq!(free("study-branch", 1), ["study-branch"]);
        assert_eq!(free("a-branch-office", 1), ["a-branch-office-branch"]);
        for name in branches_of(&"ä".repeat(32), 20_000, |_| false) {
            assert_eq!(check_session(&name), Ok(()), "{name}");
        }
    }

    #[test]
    fn each_rule_of_a_ref_is_named() {
        let long = "x".repeat(201);
        for (name, rule) in [
            ("", "1 to 200"),
            (&long, "1 to 200"),
            ("a\nb", "control"),
            ("a\u{85}b", "control"),
            ("a\u{202e}b", "direction"),
            (" a", "white space"),
            ("a ", "white space"),
            ("a..b", "`..`"),
            ("../a", "`..`"),
            ("a~1", "one of"),
            ("a:b", "one of"),
            ("a\\b", "one of"),
            ("/a", "starts or ends with `/`"),
            ("a/", "starts or ends with `/`"),
            ("a.", "ends with `.`"),
            ("-a", "starts with `-`"),
            ("a//b", "in a row"),
            (".a", "part of it starts"),
            ("a/.b", "part of it starts"),
            ("a.lock", "`.lock`"),
            ("a.lock/b", "`.lock`"),
        ] {
            let broken = check_ref(name).unwrap_err();
            assert!(broken.contains(rule), "{name:?}: {broken}");
        }
    }

    #[test]
    fn each_rule_of_a_session_is_named() {
        for (name, rule) in
            [("", "1 to 64"), ("-a", "begin with"), ("a b", "only"), ("a/b", "only"), ("a.lock", "`.lock`")]
        {
            let broken = check_session(name).unwrap_err();
            assert!(broken.contains(rule), "{name:?}: {broken}");
        }
        for good in ["a", "train-2", "x_1.y", "9", "Größe.2"] {
            check_session(good).unwrap();
        }
        for bad in ["../x", ".a", "a\0", "a\u{202e}b", "a.", &"a".repeat(65)] {
            check_session(bad).unwrap_err();
        }
    }

    #[test]
    fn a_kernelspec_is_a_directory_in_ascii() {
        for good in ["python3", "Python-3.12_x", ".hidden", "a"] {
            check_kernelspec(good).unwrap();
        }
        for bad in ["", ".", "..", "../python3", "größe", "a b", &"x".repeat(256)] {
            check_kernelspec(bad).unwrap_err();
        }
    }

    #[test]
    fn a_path_stays_below_its_directory() {
        check_ref_path("threads/a b/c").unwrap();
        for bad in ["", "..", "threads/../../x", "/etc/passwd", "threads/.tmp-1", "a//b", "tags/a\nb"] {
            check_ref_path(bad).unwrap_err();
        }
    }

    proptest! {
        #[test]
        fn a_session_can_name_a_thread_and_a_thread_can_be_a_path(name in "\\PC{0,70}") {
            if check_session(&name).is_ok() {
                prop_assert_eq!(check_ref(&name), Ok(()));
            }
            if check_ref(&name).is_ok() {
                prop_assert_eq!(check_ref_path(&format!("threads/{name}")), Ok(()));
            }
        }
    }
}
