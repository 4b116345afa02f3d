//! Which threads are connected with each other.
//!
//! A *family* is a whole graph of commits: a session's thread, the one that it was branched off, and all branches of those. Threads
//! that have an ancestor in common are of one family. A common ancestor may have been forgotten; whoever still knows that two threads
//! belong together says so with [`Families::join`].

use std::collections::HashMap;

use cas_core::ObjectId;
use manifest::ObjectSource;

use crate::error::Result;
use crate::own_store::UserStore;
use crate::source::Source;

/// All threads, and which of them are connected.
#[derive(Default, Debug)]
pub struct Families {
    threads: Vec<Member>,
    groups: Groups,
}

#[derive(Debug)]
struct Member {
    thread: String,
    head: ObjectId,
    group: usize,
}

impl UserStore {
    /// All threads, by what the store knows of them.
    pub fn families(&self) -> Result<Families> {
        let mut families = Families::default();
        let source = self.source()?;
        for (thread, head) in self.threads()? {
            let group = families.groups.connect(&source, head);
            families.threads.push(Member { thread, head, group });
        }
        Ok(families)
    }
}

impl Families {
    /// Makes two threads one family. One that is not there is in none.
    pub fn join(&mut self, one: &str, other: &str) {
        if let (Some(one), Some(other)) = (self.group(one), self.group(other)) {
            self.groups.join(one, other);
        }
    }

    /// The threads that one is connected with, itself among them, with their heads.
    pub fn of_thread(&mut self, thread: &str) -> Vec<(String, ObjectId)> {
        self.group(thread).map(|group| self.members(group)).unwrap_or_default()
    }

    /// The threads that a commit is connected with.
    pub fn of_commit(&mut self, commit: &ObjectId) -> Vec<(String, ObjectId)> {
        let group = self.groups.of.get(commit).copied();
        group.map(|group| self.members(group)).unwrap_or_default()
    }

    fn group(&self, thread: &str) -> Option<usize> {
        self.threads.iter().find(|member| member.thread == thread).map(|member| member.group)
    }

    fn members(&mut self, group: usize) -> Vec<(String, ObjectId)> {
        let Self { threads, groups } = self;
        let wanted = groups.find(group);
        threads
            .iter()
            .filter(|member| groups.find(member.group) == wanted)
            .map(|member| (member.thread.clone(), member.head))
            .collect()
    }
}

/// Which commits are connected: each belongs to a group, and groups are joined where they meet.
#[derive(Default, Debug)]
struct Groups {
    joined: Vec<usize>,
    of: HashMap<ObjectId, usize>,
}

impl Groups {
    fn find(&mut self, group: usize) -> usize {
        let mut root = group;
        while self.joined[root] != root {
            // Halving the way keeps later ones short.
            self.joined[root] = self.joined[self.joined[root]];
            root = self.joined[root];
        }
        root
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.find(one), self.find(other));
        self.joined[one] = other;
    }

    /// Puts a commit and all that it came from into a group, down to those that are in one already.
    fn connect(&mut self, source: &Source<'_>, head: ObjectId) -> usize {
        let group = self.joined.len();
        self.joined.push(group);
        let mut rest = vec![head];
        while let Some(id) = rest.pop() {
            if let Some(other) = self.of.get(&id) {
                self.join(group, *other);
                continue;
            }
            self.of.insert(id, group);
            // One that was never in this store ends its line; that it is damaged, the list says.
            if let Ok(commit) = source.commit(&id) {
                rest.extend(commit.parents);
            }
        }
        group
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{commit, commit_at, own_store};

    #[test]
    fn threads_with_a_common_ancestor_are_one_family_and_others_can_be_joined() {
        let (_dir, own) = own_store();
        let store = own.open().unwrap();
        let base = commit(&store, "main");
        store.start_thread("side", &base).unwrap();
        let (main, side, alone) = (commit(&store, "main"), commit(&store, "side"), commit(&store, "alone"));
        let family = |thread: &str, head| (thread.to_owned(), head);
        let mut families = store.families().unwrap();
        let both = [family("main", main), family("side", side)];
        for thread in ["main", "side"] {
            assert_eq!(families.of_thread(thread), both, "{thread}");
        }
        assert_eq!(families.of_commit(&base), both);
        assert_eq!(families.of_thread("alone"), [family("alone", alone)]);
        assert_eq!(
            (families.of_thread("nobody"), families.of_commit(&cas_core::ObjectId::from_bytes([7; 32]))),
            (vec![], vec![])
        );
        families.join("nobody", "alone");
        families.join("alone", "side");
        assert_eq!(families.of_commit(&main).len(), 3);
    }

    #[test]
    fn what_was_forgotten_connects_nobody_any_more() {
        let (_dir, own) = own_store();
        let store = own.open().unwrap();
        let base = commit(&store, "main");
        let side = commit_at(&store, "side", None, None).unwrap();
        store.delete_thread("side").unwrap();
        store.start_thread("side", &base).unwrap();
        let (main, branch) = (commit(&store, "main"), commit(&store, "side"));
        store.forget(&[base], &|_| None, false).unwrap();
        let mut families = store.families().unwrap();
        assert_eq!(families.of_thread("main"), [("main".to_owned(), main)]);
        assert_eq!(families.of_commit(&branch), [("side".to_owned(), branch)]);
        assert!(families.of_commit(&side).is_empty());
    }
}
