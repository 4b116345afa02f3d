//! Files that use each other in a circle.
//!
//! Two files that need each other cannot be read, tested or moved one without the other: they are one file in two pieces. So
//! among the files of a crate, `use` goes one way, as it does between crates. A module that declares its children and
//! re-exports from them does not use them by that; whoever takes a re-exported name uses the file that has it.
//!
//! A circle is opened by moving what both need into a third file below them, or by letting the lower one declare what it needs
//! as a trait or an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::files::TextFile;
use crate::modules::{Modules, Names};

/// The crates that are held to this.
pub const CHECKED: &[&str] =
    &["cas-core", "checkpoint-cuda", "containers", "lifecycle", "memory-path", "session-record"];

/// The source files of a crate of ours, with their paths seen from its `src`.
pub fn files_of<'a>(sources: &'a [TextFile], name: &str) -> impl Iterator<Item = (&'a Path, &'a TextFile)> {
    let directory = Path::new("crates").join(name).join("src");
    sources.iter().filter_map(move |file| Some((file.path.strip_prefix(&directory).ok()?, file)))
}

/// The circles among the files of a crate, one finding for all files that are tied together.
pub fn circles(sources: &[TextFile], name: &str) -> Vec<String> {
    let modules = Modules::read(files_of(sources, name));
    let graph = graph(&modules);
    let reach: BTreeMap<&Names, BTreeSet<&Names>> =
        graph.keys().map(|from| (*from, reach(&graph, from))).collect();
    let tied = |one: &Names, other: &Names| {
        let sees = |from, to| reach.get(from).is_some_and(|seen| seen.contains(to));
        sees(one, other) && sees(other, one)
    };
    let mut findings = Vec::new();
    let mut told = BTreeSet::new();
    for one in graph.keys().filter(|one| tied(one, one)) {
        if told.contains(*one) {
            continue;
        }
        let group: Vec<&Names> = graph.keys().copied().filter(|other| tied(one, other)).collect();
        told.extend(group.iter().copied());
        let uses = group.iter().flat_map(|from| {
            let below = graph.get(from).into_iter().flatten().filter(|(to, _)| group.contains(to));
            below.map(|(to, by)| format!("{} uses {} ({by})", file(&modules, from), file(&modules, to)))
        });
        let uses: Vec<String> = uses.collect();
        findings.push(format!(
            "crates/{name}/src: {} files use each other in a circle: {}. Move what both sides need into a file below them",
            group.len(),
            uses.join(", ")
        ));
    }
    findings
}

/// Which module uses which, with one name that it takes from there.
fn graph(modules: &Modules) -> BTreeMap<&Names, BTreeMap<&Names, String>> {
    let uses = modules.0.iter().map(|(names, module)| {
        let used = module.uses.iter().filter_map(|path| Some((modules.holder(path)?, path.join("::"))));
        (names, used.filter(|(holder, _)| *holder != names).collect())
    });
    uses.collect()
}

/// All that is used from here, directly or through others.
fn reach<'a>(graph: &BTreeMap<&'a Names, BTreeMap<&'a Names, String>>, from: &Names) -> BTreeSet<&'a Names> {
    let mut seen = BTreeSet::new();
    let mut todo = vec![from];
    while let Some(next) = todo.pop() {
        for to in graph.get(next).into_iter().flat_map(BTreeMap::keys) {
            if seen.insert(*to) {
                todo.push(to);
            }
        }
    }
    seen
}

fn file(modules: &Modules, names: &Names) -> String {
    modules.0.get(names).map_or_else(String::new, |module| module.file.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| TextFile::new(format!("crates/made-up/src/{path}"), *text);
        let mut sources: Vec<TextFile> = files.iter().map(file).collect();
        sources.push(TextFile::new("crates/other/src/lib.rs", "use crate::nothing::of_ours;"));
        circles(&sources, "made-up")
    }

    #[track_caller]
    fn circle(files: &[(&str, &str)], members: &[&str]) {
        let findings = found(files);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(
            findings[0].contains(&format!("src: {} files use each other", members.len())),
            "{findings:?}"
        );
        for member in members {
            assert!(findings[0].contains(&format!("{member} uses ")), "{member}: {findings:?}");
        }
    }

    #[track_caller]
    fn none(files: &[(&str, &str)]) {
        assert_eq!(found(files), Vec::<String>::new());
    }

    #[test]
    fn files_that_use_each_other_are_found() {
        let lib = ("lib.rs", "mod a; mod b; mod c;");
        circle(&[lib, ("a.rs", "use crate::b::B;"), ("b.rs", "use crate::a::A;")], &["a.rs", "b.rs"]);
        let longer = [
            lib,
            ("a.rs", "use crate::{b::B, c};"),
            ("b.rs", "fn b() { crate::c::c(); }"),
            ("c.rs", "pub fn c(a: super::a::A) {}"),
        ];
        circle(&longer, &["a.rs", "b.rs", "c.rs"]);
        none(&[
            lib,
            ("a.rs", "use crate::b::B; use crate::c::C;"),
            ("b.rs", "use crate::c::C;"),
            ("c.rs", ""),
        ]);
    }

    #[test]
    fn two_circles_are_two_findings() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::B; use crate::c::C;"),
            ("b.rs", "use crate::a::A;"),
            ("c.rs", "use crate::d::D;"),
            ("d.rs", "use crate::c::C;"),
        ];
        assert_eq!(found(&files).len(), 2, "{:?}", found(&files));
    }

    #[test]
    fn a_parent_that_only_declares_and_re_exports_uses_nothing() {
        let child = ("a/b.rs", "use super::c::C;");
        let c = ("a/c.rs", "pub struct C;");
        none(&[
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod b; mod c; pub use b::B; pub(crate) use c::{C, D};"),
            child,
            c,
        ]);
        // One that does something with its child does use it.
        let uses = ("a/mod.rs", "mod b; mod c; use b::B; struct Own;");
        circle(&[("lib.rs", "mod a;"), uses, ("a/b.rs", "use super::Own;"), c], &["a/mod.rs", "a/b.rs"]);
        let calls = ("a/mod.rs", "mod b; mod c; fn f() { b::g() } struct Own;");
        circle(&[("lib.rs", "mod a;"), calls, ("a/b.rs", "use super::Own;"), c], &["a/mod.rs", "a/b.rs"]);
        let both = ("a/mod.rs", "mod b; mod c; pub use b::B; struct Own(B);");
        circle(&[("lib.rs", "mod a;"), both, ("a/b.rs", "use super::Own;"), c], &["a/mod.rs", "a/b.rs"]);
    }

    #[test]
    fn a_name_that_is_re_exported_belongs_to_the_file_that_has_it() {
        let lib = ("lib.rs", "mod a; mod user; pub use a::B as Renamed; pub use a::B;");
        let parent = ("a/mod.rs", "mod b; mod c; pub use b::B; pub use c::C;");
        none(&[lib, parent, ("a/b.rs", "use super::C;"), ("a/c.rs", ""), ("user.rs", "use crate::B;")]);
        circle(
            &[
                lib,
                parent,
                ("a/b.rs", "use super::C;"),
                ("a/c.rs", "use crate::user::U;"),
                ("user.rs", "use crate::B;"),
            ],
            &["a/b.rs", "a/c.rs", "user.rs"],
        );
        circle(
            &[lib, parent, ("a/b.rs", "use crate::a::C;"), ("a/c.rs", "use crate::B;")],
            &["a/b.rs", "a/c.rs"],
        );
    }

    #[test]
    fn tests_comments_and_literals_do_not_count() {
        let lib = ("lib.rs", "mod a; mod b; #[cfg(test)] mod testing;");
        let b = ("b.rs", "use crate::a::A;");
        for a in [
            "// use crate::b::B;",
            "/// [`crate::b::B`]",
            "const A: &str = \"crate::b::B\";",
            "#[cfg(test)]\nmod tests {\n    use super::*;\n    use crate::b::B;\n    fn x() { if y {} }\n}\n",
            "#[cfg(test)]\nuse crate::b::B;",
            "#[cfg(test)]\nmod tests;",
        ] {
            let tests = ("a/tests.rs", "use crate::b::B;");
            none(&[lib, ("a.rs", a), tests, b, ("testing.rs", "use crate::a::A;")]);
        }
        circle(&[lib, ("a.rs", "#[cfg(test)]\nmod tests {}\nuse crate::b::B;"), b], &["a.rs", "b.rs"]);
    }

    #[test]
    fn programs_are_crates_of_their_own() {
        none(&[
            ("lib.rs", "pub mod a;"),
            ("a.rs", ""),
            ("bin/x/main.rs", "mod a;"),
            ("main.rs", "use made_up::a;"),
        ]);
    }
}
