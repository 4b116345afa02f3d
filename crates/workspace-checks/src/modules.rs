//! The modules of a crate, and which names each of them takes from the others.
//!
//! This reads Rust by its tokens and no further, which is enough: a path to another file of the same crate starts with `crate`,
//! `self`, `super` or the name of a child. What is compiled for tests only is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::code::without_comments_and_strings;
use crate::files::TextFile;

/// A path of names from the crate's root: a module, or something in one.
pub(crate) type Names = Vec<String>;

/// One file.
#[derive(Debug)]
pub(crate) struct Module {
    /// As seen from the crate's `src`.
    pub(crate) file: PathBuf,
    /// What it uses, from the crate's root. What it only re-exports from its children is not here.
    pub(crate) uses: Vec<Names>,
    /// Names that others can take from here and that are somewhere else.
    exports: BTreeMap<String, Names>,
}

/// All modules of a crate, without those that are tests.
#[derive(Debug)]
pub(crate) struct Modules(pub(crate) BTreeMap<Names, Module>);

impl Modules {
    /// Reads files, with their paths seen from the crate's `src`.
    pub(crate) fn read<'a>(files: impl Iterator<Item = (&'a Path, &'a TextFile)>) -> Self {
        let sources: BTreeMap<Names, (&Path, Vec<String>)> =
            files.filter_map(|(path, file)| Some((module_of(path)?, (path, tokens(&file.text))))).collect();
        let known: BTreeSet<Names> = sources.keys().cloned().collect();
        let mut tests = Vec::new();
        let mut modules = BTreeMap::new();
        for (names, (path, tokens)) in sources {
            let mut reader = Reader {
                known: &known,
                here: &names,
                tests: Vec::new(),
                words: BTreeSet::new(),
                module: Module::new(path),
            };
            reader.read(&tokens);
            tests.extend(reader.tests.iter().map(|test| [&names[..], std::slice::from_ref(test)].concat()));
            let module = reader.module;
            modules.insert(names, module);
        }
        modules.retain(|names, _| !tests.iter().any(|test| names.starts_with(test)));
        Self(modules)
    }

    /// The module that holds what `names` leads to, through any re-exports.
    pub(crate) fn holder(&self, names: &[String]) -> Option<&Names> {
        self.follow(names, 0)
    }

    fn follow(&self, names: &[String], depth: usize) -> Option<&Names> {
        let mut at = self.0.get_key_value(&Vec::new() as &Names)?;
        for (n, name) in names.iter().enumerate() {
            if let Some(child) = self.0.get_key_value(&names_below(at.0, name)) {
                at = child;
            } else if let Some(elsewhere) = at.1.exports.get(name).filter(|_| depth < 8) {
                let rest = names.get(n + 1..).unwrap_or_default();
                return self.follow(&[elsewhere, rest].concat(), depth + 1);
            } else {
                break;
            }
        }
        Some(at.0)
    }
}

impl Module {
    fn new(path: &Path) -> Self {
        Self { file: path.to_path_buf(), uses: Vec::new(), exports: BTreeMap::new() }
    }
}

fn names_below(names: &[String], name: &str) -> Names {
    names.iter().cloned().chain([name.to_owned()]).collect()
}

/// The module in a file of the library; programs are crates of their own.
fn module_of(path: &Path) -> Option<Names> {
    let mut names: Names = path.with_extension("").iter().map(|part| part.to_string_lossy().into()).collect();
    match (names.len(), names.last()?.as_str()) {
        (1, "lib") => names.clear(),
        (1, "main") => return None,
        (_, "mod") => _ = names.pop(),
        _ => {}
    }
    (names.first().map(String::as_str) != Some("bin")).then_some(names)
}

/// Words, `::`, and every other sign by itself.
fn tokens(text: &str) -> Vec<String> {
    let code = without_comments_and_strings(text);
    let mut tokens = Vec::new();
    let mut rest = code.as_str();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let length = match first {
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        if !first.is_whitespace() {
            tokens.push(token.to_owned());
        }
        rest = after;
    }
    tokens
}

struct Reader<'a> {
    known: &'a BTreeSet<Names>,
    here: &'a Names,
    /// Children that are tests.
    tests: Names,
    /// The first words of all paths in the code, those of one word among them.
    words: BTreeSet<String>,
    module: Module,
}

impl Reader<'_> {
    fn read(&mut self, tokens: &[String]) {
        let token = |at: usize| tokens.get(at).map_or("", String::as_str);
        let mut at = 0;
        let mut public = false;
        while at < tokens.len() {
            if (0..6).map(|n| token(at + n)).eq(["#", "[", "cfg", "(", "test", ")"]) {
                at = self.skip_test(tokens, at + 7);
            } else if token(at) == "pub" {
                public = true;
                at += 1;
                if token(at) == "(" {
                    at += tokens.iter().skip(at).position(|token| token == ")").map_or(1, |end| end + 1);
                }
                continue;
            } else if token(at) == "use" {
                let end =
                    tokens.iter().skip(at).position(|token| token == ";").map_or(tokens.len(), |n| at + n);
                for path in paths(tokens.get(at + 1..end).unwrap_or_default()) {
                    self.take(path, public);
                }
                at = end;
            } else {
                at = self.inline_path(tokens, at);
            }
            public = false;
        }
        // A name that is re-exported and used here as well is used.
        let used = self.module.exports.iter().filter(|(name, _)| self.words.contains(*name));
        self.module.uses.extend(used.map(|(_, names)| names.clone()));
    }

    /// Steps over what follows `#[cfg(test)]`, and notes which module that was.
    fn skip_test(&mut self, tokens: &[String], from: usize) -> usize {
        let mut depth = 0_usize;
        for (at, token) in tokens.iter().enumerate().skip(from) {
            match token.as_str() {
                "{" => depth += 1,
                "}" if depth <= 1 => return at + 1,
                "}" => depth -= 1,
                ";" if depth == 0 => {
                    let name = at.checked_sub(1).and_then(|at| tokens.get(at));
                    let is_module =
                        at.checked_sub(2).and_then(|at| tokens.get(at)).is_some_and(|token| token == "mod");
                    self.tests.extend(name.filter(|_| is_module).cloned());
                    return at + 1;
                }
                _ => {}
            }
        }
        tokens.len()
    }

    /// A path in the middle of code, such as `crate::lock::shared()`.
    fn inline_path(&mut self, tokens: &[String], at: usize) -> usize {
        let joined = |at: usize| tokens.get(at).is_some_and(|token| token == "::");
        let continues = at > 0 && tokens.get(at - 1).is_some_and(|token| token == "::" || token == ".");
        let mut names = Vec::new();
        let mut end = at;
        while let Some(name) = tokens.get(end).filter(|name| is_name(name)) {
            names.push(name.clone());
            end += 1;
            if !joined(end) {
                break;
            }
            end += 1;
        }
        if let Some(first) = names.first().filter(|_| !continues) {
            self.words.insert(first.clone());
            if names.len() > 1 {
                self.take(names, false);
            }
        }
        end.max(at + 1)
    }

    /// Notes a path, if it leads to this crate.
    fn take(&mut self, path: Names, public: bool) {
        let Some(names) = self.seen_from_root(path) else { return };
        if let Some(name) = names.last().filter(|_| public) {
            self.module.exports.insert(name.clone(), names.clone());
        }
        if !(public && names.starts_with(self.here)) {
            self.module.uses.push(names);
        }
    }

    fn seen_from_root(&self, path: Names) -> Option<Names> {
        let mut base = self.here.clone();
        let mut path = path.into_iter().peekable();
        match path.peek()?.as_str() {
            "crate" => {
                path.next();
                base.clear();
            }
            "self" => _ = path.next(),
            "super" => {
                while path.next_if(|name| name == "super").is_some() {
                    base.pop();
                }
            }
            child if self.known.contains(&names_below(self.here, child)) => {}
            _ => return None,
        }
        base.extend(path);
        Some(base)
    }
}

fn is_name(token: &str) -> bool {
    token.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Every path in the tree of a `use`: `a::{b, c::{self, d}}` are `a::b`, `a::c` and `a::c::d`.
fn paths(tree: &[String]) -> Vec<Names> {
    let Some(open) = tree.iter().position(|token| token == "{") else {
        let end = tree.iter().position(|token| token == "as").unwrap_or(tree.len());
        let names = tree.iter().take(end).filter(|token| is_name(token)).cloned();
        return vec![names.collect()];
    };
    let before: Names = tree.iter().take(open).filter(|token| is_name(token)).cloned().collect();
    let mut found = Vec::new();
    let mut depth = 0_usize;
    let mut start = open + 1;
    for (at, token) in tree.iter().enumerate().skip(open) {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 || (depth == 1 && token == ",") {
            for path in paths(tree.get(start..at).unwrap_or_default()) {
                let path = path.into_iter().filter(|name| name != "self");
                found.push(before.iter().cloned().chain(path).collect());
            }
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Vec<String> {
        paths(&tokens(text)).iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn the_tree_of_a_use_is_all_its_paths() {
        assert_eq!(tree("a::b"), ["a::b"]);
        assert_eq!(tree("a::b as c"), ["a::b"]);
        assert_eq!(tree("a::{b, c::{self, d}, e}"), ["a::b", "a::c", "a::c::d", "a::e"]);
        assert_eq!(tree("a::{\n    b,\n}")[0], "a::b");
    }

    #[test]
    fn a_file_is_a_module() {
        let module = |path: &str| module_of(Path::new(path)).map(|names| names.join("::"));
        assert_eq!(module("lib.rs").unwrap(), "");
        assert_eq!(module("a.rs").unwrap(), "a");
        assert_eq!(module("a/mod.rs").unwrap(), "a");
        assert_eq!(module("a/b.rs").unwrap(), "a::b");
        assert_eq!((module("main.rs"), module("bin/x/main.rs")), (None, None));
    }
}
