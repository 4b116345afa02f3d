//! Files of a container, from a tar file within an archive: its writable layer, a volume, its `/dev/shm`.
//!
//! Nothing is unpacked. What the tar file says is put together in memory, directory by directory, and content goes where the caller puts
//! it. So a link is a link and never a way: an entry below a link, or below a file, is refused, and so is one that takes the place of
//! another. A hard link is a second name of a file that came before it. Devices are refused, but for the one that overlayfs marks a
//! removed file with. Of extended attributes only those of users are taken; what would give a file rights (`security.capability`) or tell
//! overlayfs something (`trusted.overlay.…`) is named, and left out.

use std::collections::BTreeMap;
use std::io::Read;

use crate::error::{ArchiveError, Result, shown};
use crate::limits::Limits;
use crate::stream::{self, Budget, Remembering};
use crate::tar::{Entry, Kind, TarReader, parts};

/// Files that were read, with what the caller made of the content of each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Files<T> {
    /// What they are in.
    pub root: Directory<T>,
    /// Paths that were marked as removed, in the way of image layers.
    pub deleted: Vec<Vec<u8>>,
    /// What was not taken, for people.
    pub left_out: Vec<String>,
    /// Bytes of all files.
    pub bytes: u64,
}

/// One directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Directory<T> {
    /// Its owner, mode and times; `None` if it is only there because something is in it.
    pub entry: Option<Entry>,
    /// What is in it.
    pub children: BTreeMap<Vec<u8>, Child<T>>,
}

/// Something in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Child<T> {
    /// A directory.
    Directory(Directory<T>),
    /// A file.
    File(Entry, T),
    /// A symbolic link, a named pipe, or overlayfs's mark of a removed file.
    Other(Entry),
}

impl<T> Default for Directory<T> {
    fn default() -> Self {
        Self { entry: None, children: BTreeMap::new() }
    }
}

/// In image layers, `.wh.NAME` says that `NAME` was removed.
const REMOVED: &[u8] = b".wh.";
/// And this that everything in the directory was.
const EMPTIED: &[u8] = b".wh..wh..opq";
/// More of what was left out is not worth reading.
const MOST_TOLD: usize = 50;

/// Reads the tar file in `content`. `store` is given each regular file with its content.
pub fn read_files<T: Clone>(
    content: &mut dyn Read,
    limits: &Limits,
    store: &mut dyn FnMut(&Entry, &mut dyn Read) -> Result<T>,
) -> Result<Files<T>> {
    // How overlayfs marks a file that was removed.
    read(content, limits, |major, minor| (major, minor) == (0, 0), store)
}

/// Looks at what was in a file system in memory that a container had, such as its `/dev`: one of CRIU's images that is a tar file. CRIU
/// unpacks it as root, so it is held to the same rules; devices are those that every container has.
pub fn check_memory_files(input: impl Read, limits: &Limits) -> Result<()> {
    let mut content = stream::outer(input, &Budget::new(*limits))?;
    let harmless = |major: u32, minor: u32| {
        matches!((major, minor), (1, 3 | 5 | 7 | 8 | 9) | (5, 0..=2) | (136..=143, _))
    };
    read(&mut content, limits, harmless, &mut |_, _| Ok(())).map(drop)
}

fn read<T: Clone>(
    content: &mut dyn Read,
    limits: &Limits,
    is_harmless: impl Fn(u32, u32) -> bool,
    store: &mut dyn FnMut(&Entry, &mut dyn Read) -> Result<T>,
) -> Result<Files<T>> {
    let mut tar = TarReader::new(content, limits);
    let mut files = Files { root: Directory::default(), deleted: Vec::new(), left_out: Vec::new(), bytes: 0 };
    let mut count = 0;
    while let Some(mut entry) = tar.next_entry()? {
        count += 1;
        if count > limits.entries {
            return Err(ArchiveError::TooMuch { what: "files", most: limits.entries });
        }
        keep_user_attributes(&mut entry, &mut files.left_out);
        let path = entry.path.clone();
        let parts = parts(&path, entry.kind == Kind::Directory, limits)?;
        let Some((name, above)) = parts.split_last() else {
            if files.root.entry.replace(entry).is_some() {
                return Err(ArchiveError::Twice { name: "./".to_owned() });
            }
            continue;
        };
        if let Some(removed) = name.strip_prefix(REMOVED) {
            let path =
                if *name == EMPTIED { above.join(&b'/') } else { [above, &[removed]].concat().join(&b'/') };
            if removed.is_empty() || entry.kind != Kind::File || entry.size != 0 {
                return Err(ArchiveError::Kind {
                    name: shown(&entry.path),
                    what: "no mark of a removed file",
                });
            }
            files.deleted.push(path);
            continue;
        }
        let child = match &entry.kind {
            Kind::Directory => {
                directory(&mut files.root, above, &path)?.make(name, entry)?;
                continue;
            }
            Kind::File => {
                files.bytes = files.bytes.saturating_add(entry.size);
                let mut content = Remembering::new(&mut tar);
                let stored = store(&entry, &mut content);
                Child::File(entry, content.result(stored)?)
            }
            Kind::HardLink(target) => {
                let (child, size) = second_name(&files.root, &entry, target, limits)?;
                files.bytes = files.bytes.saturating_add(size);
                child
            }
            Kind::Symlink(target) if target.is_empty() || target.contains(&0) => {
                return Err(ArchiveError::Kind { name: shown(&path), what: "a link to nowhere" });
            }
            Kind::Symlink(_) | Kind::Fifo => Child::Other(entry),
            Kind::Char(major, minor) if is_harmless(*major, *minor) => Child::Other(entry),
            Kind::Char(..) | Kind::Block(..) => {
                return Err(ArchiveError::Kind { name: shown(&path), what: "a device" });
            }
        };
        let directory = directory(&mut files.root, above, &path)?;
        if directory.children.insert(name.to_vec(), child).is_some() {
            return Err(ArchiveError::Twice { name: shown(&path) });
        }
    }
    Ok(files)
}

/// The directory at this path, made if nothing is there.
fn directory<'a, T>(
    root: &'a mut Directory<T>,
    parts: &[&[u8]],
    path: &[u8],
) -> Result<&'a mut Directory<T>> {
    let mut at = root;
    for part in parts {
        let child =
            at.children.entry(part.to_vec()).or_insert_with(|| Child::Directory(Directory::default()));
        at = match child {
            Child::Directory(directory) => directory,
            Child::File(..) | Child::Other(_) => {
                return Err(ArchiveError::Name {
                    name: shown(path),
                    why: "it leads through something that is no directory",
                });
            }
        };
    }
    Ok(at)
}

impl<T> Directory<T> {
    /// A directory in this one, which may be there because of what is in it, but not because it was named.
    fn make(&mut self, name: &[u8], entry: Entry) -> Result<()> {
        let twice = || ArchiveError::Twice { name: shown(&entry.path) };
        match self.children.get_mut(name) {
            None => {
                let made = Self { entry: Some(entry), children: BTreeMap::new() };
                self.children.insert(name.to_vec(), Child::Directory(made));
            }
            Some(Child::Directory(there)) if there.entry.is_none() => there.entry = Some(entry),
            Some(_) => return Err(twice()),
        }
        Ok(())
    }
}

/// The same file under another name, and its size.
fn second_name<T: Clone>(
    root: &Directory<T>,
    entry: &Entry,
    target: &[u8],
    limits: &Limits,
) -> Result<(Child<T>, u64)> {
    let refused =
        || ArchiveError::Kind { name: shown(&entry.path), what: "a hard link to a file that is not here" };
    let parts = parts(target, false, limits)?;
    let (name, above) = parts.split_last().ok_or_else(refused)?;
    let mut at = root;
    for part in above {
        at = match at.children.get(*part) {
            Some(Child::Directory(directory)) => directory,
            _ => return Err(refused()),
        };
    }
    match at.children.get(*name) {
        Some(Child::File(first, content)) => {
            let second = Entry { path: entry.path.clone(), ..first.clone() };
            Ok((Child::File(second, content.clone()), first.size))
        }
        _ => Err(refused()),
    }
}

fn keep_user_attributes(entry: &mut Entry, left_out: &mut Vec<String>) {
    let path = &entry.path;
    entry.xattrs.retain(|(name, _)| {
        let keep = name.starts_with(b"user.");
        if !keep && left_out.len() < MOST_TOLD {
            left_out.push(format!("attribute {} of {}", shown(name), shown(path)));
        }
        keep
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tar::TarWriter;

    fn tar(entries: &[(Entry, &[u8])]) -> Vec<u8> {
        let mut out = TarWriter::new(Vec::new());
        for (entry, content) in entries {
            out.put(entry, &mut &content[..]).unwrap();
        }
        out.finish().unwrap()
    }

    fn files(bytes: &[u8]) -> Result<Files<Vec<u8>>> {
        read_files(&mut &bytes[..], &Limits::default(), &mut |_, content| {
            let mut bytes = Vec::new();
            content.read_to_end(&mut bytes).map_err(crate::stream::read_failed)?;
            Ok(bytes)
        })
    }

    fn link(path: &str, target: &str) -> (Entry, &'static [u8]) {
        (Entry::new(path, Kind::Symlink(target.into()), 0o777), b"")
    }

    fn file(path: &str, content: &'static [u8]) -> (Entry, &'static [u8]) {
        (Entry::file(path, content.len() as u64), content)
    }

    #[test]
    fn files_are_put_together_and_directories_are_implied() {
        let mut capable = Entry::file("usr/bin/x", 1);
        capable.xattrs = vec![(b"security.capability".to_vec(), vec![1]), (b"user.note".to_vec(), vec![2])];
        let bytes = tar(&[
            (Entry::directory("./"), b""),
            file("tmp/deep/a", b"abc"),
            (Entry::directory("tmp"), b""),
            link("tmp/l", "/etc/shadow"),
            (Entry::new("tmp/second", Kind::HardLink(b"tmp/deep/a".to_vec()), 0o600), b""),
            (Entry::new("gone", Kind::Char(0, 0), 0), b""),
            file("var/.wh.old", b""),
            file("opt/.wh..wh..opq", b""),
            (capable, b"x"),
        ]);
        let found = files(&bytes).unwrap();
        let Some(Child::Directory(tmp)) = found.root.children.get(&b"tmp"[..]) else { panic!("{found:?}") };
        assert!(found.root.entry.is_some() && tmp.entry.is_some());
        let Some(Child::Directory(deep)) = tmp.children.get(&b"deep"[..]) else { panic!("{tmp:?}") };
        assert!(
            deep.entry.is_none()
                && matches!(deep.children.get(&b"a"[..]), Some(Child::File(_, content)) if content == b"abc")
        );
        assert!(
            matches!(tmp.children.get(&b"second"[..]), Some(Child::File(_, content)) if content == b"abc")
        );
        assert_eq!(found.deleted, [b"var/old".to_vec(), b"opt".to_vec()]);
        assert_eq!((found.bytes, found.left_out.len()), (7, 1), "{:?}", found.left_out);
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        // CVE-2026-53489: a link in the archive, and then a name that leads through it.
        for entries in [
            [link("etc", "/etc"), file("etc/passwd", b"x")],
            [file("a", b"x"), file("a/b", b"y")],
            [link("a", "b"), (Entry::directory("a/c"), b"")],
        ] {
            let error = files(&tar(&entries)).unwrap_err();
            assert_eq!(error.code(), "IJ-A021", "{error}");
        }
    }

    #[test]
    fn devices_and_strange_links_are_refused() {
        for kind in [
            Kind::Char(1, 1),
            Kind::Block(8, 0),
            Kind::HardLink(b"/etc/shadow".to_vec()),
            Kind::HardLink(b"../x".to_vec()),
            Kind::HardLink(b"not-there".to_vec()),
            Kind::Symlink(Vec::new()),
        ] {
            let error = files(&tar(&[(Entry::new("x", kind.clone(), 0o600), b"")])).unwrap_err();
            assert!(["IJ-A021", "IJ-A022"].contains(&error.code()), "{kind:?}: {error}");
        }
        let through = [link("a", "b"), (Entry::new("c", Kind::HardLink(b"a".to_vec()), 0), &b""[..])];
        assert_eq!(files(&tar(&through)).unwrap_err().code(), "IJ-A022");
    }

    #[test]
    fn one_name_is_one_thing() {
        for entries in [
            [file("a", b"x"), file("a", b"y")],
            [file("a", b"x"), file("./a", b"y")],
            [file("a", b"x"), link("a", "b")],
            [(Entry::directory("a"), &b""[..]), (Entry::directory("a/"), b"")],
            [(Entry::directory("a"), &b""[..]), file("a", b"x")],
            [file("a/b", b"x"), file("a", b"x")],
        ] {
            let error = files(&tar(&entries)).unwrap_err();
            assert_eq!(error.code(), "IJ-A023", "{error}");
        }
    }

    #[test]
    fn file_systems_in_memory_have_only_devices_that_every_container_has() {
        let with = |kind| tar(&[(Entry::directory("./"), &b""[..]), (Entry::new("./x", kind, 0o666), b"")]);
        check_memory_files(&with(Kind::Char(1, 3))[..], &Limits::default()).unwrap();
        check_memory_files(&with(Kind::Symlink(b"/proc/self/fd".to_vec()))[..], &Limits::default()).unwrap();
        for kind in [Kind::Char(1, 1), Kind::Char(195, 0), Kind::Block(8, 0), Kind::Char(0, 0)] {
            let error = check_memory_files(&with(kind.clone())[..], &Limits::default()).unwrap_err();
            assert_eq!(error.code(), "IJ-A022", "{kind:?}");
        }
        check_memory_files(&b"no tar file"[..], &Limits::default()).unwrap_err();
    }

    #[test]
    fn there_are_only_so_many_files() {
        let limits = Limits { entries: 2, ..Limits::default() };
        let bytes = tar(&[file("a", b""), file("b", b""), file("c", b"")]);
        let error = read_files(&mut &bytes[..], &limits, &mut |_, _| Ok(())).unwrap_err();
        assert_eq!(error.code(), "IJ-A020");
    }
}
