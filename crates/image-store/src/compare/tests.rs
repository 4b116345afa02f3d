use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cas_core::progress::Silent;
use cas_core::{ObjectId, Store};
use checkpoint_criu::images::{Core, Mm, PstreeEntry, TaskCore, Vma};
use manifest::snapshot::{WorkspacePolicy, WorkspaceSection};
use manifest::stored;
use manifest::{Entry, FileName, Node, Tree, TypedSection};
use prost::Message;

use super::*;
use crate::tests::{Pages, fresh, ingest, store, write_image, write_inventory, write_pages};

const HEAP: u32 = 1 << 5 | 1 << 9;
const STACK: u32 = 1 << 1 | 1 << 9;
const FILE: u32 = 1 << 6;
const ANON: u32 = 1 << 9;
/// The library that is mapped, as a number of `files.img`.
const LIBRARY: u64 = 3;

/// A mapping of pages `first..end`.
fn vma(first: u64, end: u64, status: u32) -> Vma {
    let shmid = if status == FILE { LIBRARY } else { 0 };
    Vma { start: first << 12, end: end << 12, shmid, status, ..Vma::default() }
}

/// `files.img` with one entry: sort 1 (regular), its number, and the file itself.
fn write_files(dir: &Path) {
    let id = u8::try_from(LIBRARY).unwrap();
    let path = b"/lib/libx.so";
    let mut file = vec![0x08, id, 0x10, 0, 0x18, 0, 0x22, 0, 0x32, 12];
    file.extend(path);
    let mut frame = vec![0x08, 1, 0x10, id, 0x1a, u8::try_from(file.len()).unwrap()];
    frame.extend(file);
    write_image(dir, "files.img", 0x5630_3138, &[frame]);
}

/// Images of processes: pid, name, mappings and pages.
fn write(dir: &Path, processes: &[(u32, &str, &[Vma], &Pages)]) {
    write_inventory(dir);
    write_files(dir);
    let mut tree = Vec::new();
    for (pid, name, vmas, pages) in processes {
        tree.push(PstreeEntry { pid: *pid, ppid: 0, ..PstreeEntry::default() }.encode_to_vec());
        let task = TaskCore { state: 1, comm: name.as_bytes().to_vec(), ..TaskCore::default() };
        let core = Core { mtype: 1, task: Some(task), ..Core::default() };
        write_image(dir, &format!("core-{pid}.img"), 0x5505_3847, &[core.encode_to_vec()]);
        let mm = Mm { vmas: vmas.to_vec(), ..Mm::default() };
        write_image(dir, &format!("mm-{pid}.img"), 0x5749_2820, &[mm.encode_to_vec()]);
        write_pages(dir, &format!("pagemap-{pid}.img"), *pid, pages, 50);
    }
    write_image(dir, "pstree.img", 0x5027_3030, &tree);
}

fn pages(ranges: &[(u64, u64)]) -> Pages {
    ranges.iter().flat_map(|(first, end)| (*first..*end).map(|page| (page, (page % 199) as u8 + 1))).collect()
}

#[test]
fn memory_is_told_by_mapping_and_processes_by_name() {
    let base = tempfile::tempdir().unwrap();
    let (store, a, b) = (store(base.path()), fresh(base.path(), "a"), fresh(base.path(), "b"));
    let before = pages(&[(0x100, 0x200), (0x1000, 0x1010), (0x5000, 0x5040), (0x9000, 0x9008)]);
    let old = [
        vma(0x100, 0x200, HEAP),
        vma(0x1000, 0x1010, FILE),
        vma(0x5000, 0x5040, ANON),
        vma(0x9000, 0x9008, STACK),
    ];
    let idle = pages(&[(0x100, 0x110)]);
    write(&a, &[(1, "python3", &old, &before), (7, "sleep", &old[..1], &idle)]);
    let mut after = before;
    after.retain(|page, _| !(0x5000..0x5040).contains(page));
    after.extend(pages(&[(0x200, 0x204), (0x6000, 0x6003)]));
    for page in [0x101, 0x1ff, 0x1003] {
        after.insert(page, 250);
    }
    // The heap has grown, the anonymous mapping is gone and another one has come, the stack is as it was.
    let new = [
        vma(0x100, 0x204, HEAP),
        vma(0x1000, 0x1010, FILE),
        vma(0x6000, 0x6003, ANON),
        vma(0x8ff0, 0x9008, STACK),
    ];
    write(&b, &[(1, "python3", &new, &after), (9, "sh", &old[..1], &idle)]);
    let (first, _) = ingest(&store, &a, None);
    let (second, _) = ingest(&store, &b, Some(&first));

    let found = compare(&store, ("aa", &first), ("bb", &second)).unwrap();
    let process = |pid, name: &str, change| ProcessChange { pid, name: name.into(), change };
    assert_eq!(found.processes, [process(7, "sleep", Change::Removed), process(9, "sh", Change::Added)]);
    let change = |pid, vma: Vma, name: &str, change, pages: u64| MemoryChange {
        pid,
        start: vma.start,
        end: vma.end,
        name: name.into(),
        change,
        changed_bytes: pages << 12,
    };
    assert_eq!(
        found.memory,
        [
            change(1, old[2], "[anon]", Change::Removed, 0x40),
            change(7, old[0], "[heap]", Change::Removed, 0x10),
            change(9, old[0], "[heap]", Change::Added, 0x10),
            change(1, new[0], "[heap]", Change::Changed, 6),
            change(1, new[2], "[anon]", Change::Added, 3),
            change(1, new[1], "/lib/libx.so", Change::Changed, 1),
        ]
    );
    let same = compare(&store, ("bb", &second), ("bb", &second)).unwrap();
    assert!(same.processes.is_empty() && same.memory.is_empty() && same.files.is_empty());
}

#[test]
fn shared_memory_and_pages_far_apart_are_found() {
    let base = tempfile::tempdir().unwrap();
    let (store, a, b) = (store(base.path()), fresh(base.path(), "a"), fresh(base.path(), "b"));
    let mut far = pages(&[(0, 3), (0x7_ffff_0000, 0x7_ffff_0100)]);
    for (dir, seed) in [(&a, 1), (&b, 2)] {
        far.insert(0x7_ffff_00ff, seed);
        write_inventory(dir);
        write_pages(dir, "pagemap-shmem-5.img", 1, &far, 9);
    }
    let ((first, _), (second, _)) = (ingest(&store, &a, None), ingest(&store, &b, None));
    let found = compare(&store, ("a", &first), ("b", &second)).unwrap().memory;
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].pid, found[0].name.to_str().unwrap(), found[0].change),
        (0, "[shm:5]", Change::Changed)
    );
    // Without a parent the changed page is stored with its neighbours: all that lie in the new object count.
    assert!(found[0].changed_bytes >= 4096 && found[0].changed_bytes <= 0x100 << 12, "{found:?}");
    assert_eq!(found[0].end, 0x7_ffff_0100 << 12);
}

/// A directory of files with these contents; a name that ends with a slash is a directory with a file `f` in it.
fn tree(store: &Arc<Store>, files: &[(&str, &str)]) -> ObjectId {
    let session = store.write(&[]).unwrap();
    let file = |name: &str, content: &str| {
        let blob = session.put_blob(&mut content.as_bytes(), &Silent).unwrap();
        let node = Node::File { size: blob.len, content: Some(blob.into()) };
        Entry::new(FileName::new(name).unwrap(), node)
    };
    let entry = |(name, content): &(&str, &str)| match name.strip_suffix('/') {
        None => file(name, content),
        Some(name) => {
            let inner = Tree::new(vec![file("f", content)]).unwrap();
            let node = Node::Dir { tree: stored::save(&inner, &session).unwrap() };
            Entry::new(FileName::new(name).unwrap(), node)
        }
    };
    let tree = Tree::new(files.iter().map(entry).collect()).unwrap();
    let id = stored::save(&tree, &session).unwrap();
    session.flush().unwrap();
    id
}

#[test]
fn files_are_told_by_path() {
    let base = tempfile::tempdir().unwrap();
    let store = store(base.path());
    let snapshot = |root: &str, files: &[(&str, &str)]| {
        let section = WorkspaceSection {
            policy: WorkspacePolicy::Tree,
            root: root.into(),
            tree: Some((tree(&store, files), 0)),
            open: None,
            not_captured: Vec::new(),
        };
        Snapshot::new(vec![section.to_section().unwrap()]).unwrap()
    };
    let a = snapshot("/w", &[("same", "1"), ("grown", "1"), ("gone", "12"), ("d/", "x"), ("turned/", "y")]);
    let b = snapshot("/v", &[("same", "1"), ("grown", "123"), ("new", ""), ("d/", "z"), ("turned", "yy")]);
    let found = compare(&store, ("a", &a), ("b", &b)).unwrap().files;
    let change = |path: &str, change, before, after| (PathBuf::from(path), change, before, after);
    let seen: Vec<_> =
        found.into_iter().map(|file| (file.path, file.change, file.before, file.after)).collect();
    assert_eq!(
        seen,
        [
            change("/v/d/f", Change::Changed, Some(1), Some(1)),
            change("/v/gone", Change::Removed, Some(2), None),
            change("/v/grown", Change::Changed, Some(1), Some(3)),
            change("/v/new", Change::Added, None, Some(0)),
            change("/v/turned", Change::Added, None, Some(2)),
            change("/v/turned/f", Change::Removed, Some(1), None),
        ]
    );
    let nothing = compare(&store, ("a", &Snapshot::default()), ("b", &b)).unwrap().files;
    assert_eq!(nothing.len(), 5);
    assert!(nothing.iter().all(|file| file.change == Change::Added));
    assert!(fs::metadata("/v").is_err(), "nothing is laid out");
}
