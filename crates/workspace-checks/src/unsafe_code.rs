//! Where `unsafe` may stand.
//!
//! The lint `unsafe_code` is denied in the whole workspace, but a lint can be switched off beside the code that it was to hold
//! back. So the word itself is looked for. It may stand where C or the kernel is spoken to: below [`ALLOWED`], and nowhere else.

use std::path::Path;

use crate::code::without_comments_and_strings;
use crate::files::TextFile;

/// The directories that hold all of our FFI, and the system calls that no safe crate has.
pub const ALLOWED: &[&str] =
    &["crates/checkpoint-cuda/src/sys", "crates/memory-path/src/sys", "testing/cuda-sim/src/abi"];

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
                 crates/checkpoint-cuda/src/sys and crates/memory-path/src/sys and testing/cuda-sim/src/abi",
                "testing/cuda-sim/src/lib.rs:1: `unsafe` may stand only below \
                 crates/checkpoint-cuda/src/sys and crates/memory-path/src/sys and testing/cuda-sim/src/abi",
            ]
        );
    }
}
