//! Where `unsafe` may stand.
//!
//! The lint `unsafe_code` is denied in the whole workspace, but a lint can be switched off beside the code that it was to hold
//! back. So the word itself is looked for. It may stand where C is spoken: below [`ALLOWED`], and nowhere else.

use std::path::Path;

use crate::files::TextFile;

/// The directories that hold all of our FFI.
pub const ALLOWED: &[&str] = &["crates/checkpoint-cuda/src/sys", "testing/cuda-sim/src/abi"];

/// Rust files outside [`ALLOWED`] with the keyword `unsafe` in them.
pub fn outside_the_fence(sources: &[TextFile]) -> Vec<String> {
    let mut findings = Vec::new();
    for source in sources {
        if ALLOWED.iter().any(|directory| source.path.starts_with(Path::new(directory))) {
            continue;
        }
        for number in lines_with_unsafe(&source.text) {
            findings.push(format!(
                "{}:{number}: `unsafe` may stand only below {}",
                source.path.display(),
                ALLOWED.join(" and ")
            ));
        }
    }
    findings
}

/// The numbers of the lines that hold the keyword, in code: not in a comment, a string or a longer word.
fn lines_with_unsafe(text: &str) -> Vec<usize> {
    let code = without_comments_and_strings(text);
    let words =
        |line: &str| line.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == "unsafe");
    code.lines().enumerate().filter(|(_, line)| words(line)).map(|(number, _)| number + 1).collect()
}

/// The text with everything that is no code blanked out, line by line as before.
fn without_comments_and_strings(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if let Some(length) = raw_string(rest).filter(|_| !ends_in_word(&code)) {
            length
        } else if first == '"' {
            quoted(rest, '"')
        } else if first == '\'' {
            character(rest)
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        let (skipped, after) = rest.split_at(length);
        code.push(' ');
        code.extend(skipped.chars().filter(|c| *c == '\n'));
        rest = after;
    }
    code
}

/// `r"…"` at the end of a word, as in `br"…"`, is a raw string too; as in `for"…"` it cannot be.
fn ends_in_word(code: &str) -> bool {
    let last = code.chars().next_back();
    let before = code.chars().rev().nth(1);
    let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    word(last) && (word(before) || !matches!(last, Some('b' | 'c')))
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth = depth.saturating_sub(1);
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The length of `r#"…"#` at the start of the text.
fn raw_string(text: &str) -> Option<usize> {
    let after = text.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].strip_prefix('"')?;
    let start = 1 + hashes + 1;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(text[start..].find(&end).map_or(text.len(), |at| start + at + end.len()))
}

/// The length of a literal in `quote`s at the start of the text.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a character literal, or 1 for a lifetime.
fn character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), _) => quoted(text, '\''),
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<usize> {
        lines_with_unsafe(text)
    }

    #[test]
    fn the_keyword_is_found() {
        assert_eq!(found("unsafe { x() }"), [1]);
        assert_eq!(found("fn a() {}\n\nunsafe fn b() {}\n"), [3]);
        assert_eq!(found("#[unsafe(no_mangle)]\nlet x = (unsafe{y});"), [1, 2]);
        assert_eq!(found("/* a\n b */ unsafe impl Send for X {}"), [2]);
        assert_eq!(found("let s = \"a\\\"b\"; unsafe {}"), [1]);
        assert_eq!(found("let c = '\"'; unsafe {} // \""), [1]);
        assert_eq!(found("fn f<'a>(x: &'a str) { unsafe {} }"), [1]);
        assert_eq!(found("let x = br#\"\"#; unsafe {}"), [1]);
        assert_eq!(found("let s = r\"\\\"; unsafe {}"), [1]);
    }

    #[test]
    fn what_only_looks_like_it_is_not() {
        for text in [
            "#![forbid(unsafe_code)]",
            "// an unsafe thing",
            "/// `unsafe`",
            "/* unsafe /* nested */ unsafe */",
            "let s = \"unsafe\";",
            "let s = \"two\n unsafe lines\";",
            "let s = r#\"an \"unsafe\" one\"#;",
            "let s = b\"unsafe\"; let t = br\"unsafe\"; let u = c\"unsafe\";",
            "not_unsafe(); unsafe_too();",
            "let c = '\\''; // unsafe",
        ] {
            assert_eq!(found(text), Vec::<usize>::new(), "{text}");
        }
    }

    #[test]
    fn it_may_stand_where_c_is_spoken() {
        let code = "unsafe {}";
        let within = TextFile::new("crates/checkpoint-cuda/src/sys/library.rs", code);
        let beside = TextFile::new("crates/checkpoint-cuda/src/system.rs", code);
        let above = TextFile::new("testing/cuda-sim/src/lib.rs", code);
        assert_eq!(
            outside_the_fence(&[within, beside, above]),
            [
                "crates/checkpoint-cuda/src/system.rs:1: `unsafe` may stand only below \
                 crates/checkpoint-cuda/src/sys and testing/cuda-sim/src/abi",
                "testing/cuda-sim/src/lib.rs:1: `unsafe` may stand only below \
                 crates/checkpoint-cuda/src/sys and testing/cuda-sim/src/abi",
            ]
        );
    }
}
