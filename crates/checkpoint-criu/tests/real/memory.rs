//! Memory that takes another way than through CRIU's images.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use checkpoint_criu::images::{Images, PagemapEntry, Vma};
use checkpoint_criu::{
    ComingBack, DumpOptions, DumpStats, Event, Leave, Leaving, LeftOut, MemoryPath, NoHooks, RestoreOptions,
    TreeState, WayBack, WayOut,
};
use prost::Message;

use crate::common::{At, Scratch, Tree, assert_goes_on, criu, plain, python, wait_for};

const PAGE: usize = 4096;

/// Whether all threads of a process stand still.
fn stands(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    matches!(stat.rsplit_once(") ").unwrap().1.as_bytes()[0], b'T' | b't')
}

/// Notes when it is asked for what, and refuses at one moment.
#[derive(Clone, Debug, Default)]
struct Noting {
    heard: Arc<Mutex<Vec<&'static str>>>,
    refuses: &'static str,
    /// Whether the dump leaves the tree stopped.
    stopped: bool,
    tree: i32,
}

impl Noting {
    fn hear(&self, moment: &'static str, still: bool) -> Result<(), String> {
        self.heard.lock().unwrap().push(moment);
        if self.tree != 0 {
            assert_eq!(stands(self.tree), still, "{moment}");
        }
        if self.refuses == moment { Err("not today".to_owned()) } else { Ok(()) }
    }
}

impl MemoryPath for Noting {
    fn leave(&self, dump: &Leaving<'_>) -> Result<Box<dyn WayOut>, String> {
        let noting = Self { tree: dump.tree, ..self.clone() };
        noting.hear("leave", false)?;
        Ok(Box::new(noting))
    }

    fn come_back(&self, _: &ComingBack<'_>) -> Result<Box<dyn WayBack>, String> {
        Err("not asked for here".to_owned())
    }
}

impl WayOut for Noting {
    fn parent(&self) -> Option<PathBuf> {
        None
    }

    fn frozen(&mut self) -> Result<(), String> {
        self.hear("frozen", true)
    }

    fn thawed(
        self: Box<Self>,
        images: &Path,
        stats: Option<&DumpStats>,
    ) -> Result<Option<Arc<dyn LeftOut>>, String> {
        assert!(stats.is_some_and(|stats| stats.pages_written > 0));
        assert!(images.join("inventory.img").exists());
        if self.stopped {
            wait_for("the tree stands still", || stands(self.tree));
        }
        self.hear("thawed", self.stopped).map(|()| None)
    }
}

#[test]
fn a_path_has_its_say_while_the_tree_runs_stands_and_runs_again() {
    let Some(criu) = criu() else { return };
    let scratch = Scratch::new();
    let log = scratch.dir.path().join("log");
    let tree = plain(&log);
    for (refuses, heard) in [
        ("leave", &["leave"][..]),
        ("frozen", &["leave", "frozen"]),
        ("thawed", &["leave", "frozen", "thawed"]),
        ("never", &["leave", "frozen", "thawed"]),
    ] {
        let (images, logs) = (scratch.sub(refuses), scratch.sub(&format!("{refuses}-logs")));
        let path = Noting { refuses, ..Noting::default() };
        let mut options = DumpOptions::new(tree.pid, &images, &logs);
        options.memory = Arc::new(path.clone());
        let mut hooks = At::new(Event::PostDump, |_| {
            // The memory's moment is the same one.
            let heard = path.heard.lock().unwrap();
            assert!(["leave", "frozen"].starts_with(&heard) && !heard.is_empty(), "{heard:?}");
            Ok(())
        });
        let dumped = criu.dump(&options, &mut hooks);
        assert_eq!(*path.heard.lock().unwrap(), heard);
        if refuses == "never" {
            assert!(dumped.unwrap().left_out.is_none());
        } else {
            let error = dumped.unwrap_err();
            assert!(error.to_string().contains("not today"), "{error}");
            assert_eq!(error.code(), "IJ-K016");
            let untouched = refuses == "leave";
            let state = if untouched { TreeState::Untouched } else { TreeState::Running };
            assert_eq!(error.tree(), Some(state), "{error}");
        }
        assert_goes_on(&log);
    }
    // A tree that is to stay stopped goes on if its memory cannot be answered for.
    let (images, logs) = (scratch.sub("stopped"), scratch.sub("stopped-logs"));
    let mut options = DumpOptions::new(tree.pid, &images, &logs);
    options.leave = Leave::Stopped;
    options.memory = Arc::new(Noting { refuses: "thawed", stopped: true, ..Noting::default() });
    let error = criu.dump(&options, &mut NoHooks).unwrap_err();
    assert_eq!(error.tree(), Some(TreeState::Running), "{error}");
    assert_goes_on(&log);
}

/// Takes large runs of anonymous pages out of the images, and puts them into the processes again.
#[derive(Debug)]
struct Skeleton;

struct Missing {
    runs: Vec<(u64, Vec<u8>)>,
}

impl MemoryPath for Skeleton {
    fn leave(&self, _: &Leaving<'_>) -> Result<Box<dyn WayOut>, String> {
        Err("not asked for here".to_owned())
    }

    fn come_back(&self, restore: &ComingBack<'_>) -> Result<Box<dyn WayBack>, String> {
        let images = Images::open(restore.images).unwrap();
        let [root] = images.pstree().unwrap().try_into().unwrap();
        let large = |vma: &Vma| vma.is_anonymous_private() && !vma.is_file() && vma.len() >= 16 << 20;
        let large: Vec<Vma> = images.mm(root.pid).unwrap().vmas.into_iter().filter(large).collect();
        let pagemap = images.pagemap(root.pid).unwrap();
        let pages = restore.images.join(format!("pages-{}.img", pagemap.pages_id));
        let (mut rest, mut kept, mut runs) = (fs::read(&pages).unwrap(), Vec::new(), Vec::new());
        let mut entries: Vec<PagemapEntry> = Vec::new();
        for entry in pagemap.entries {
            let later = rest.split_off(usize::try_from(entry.pages()).unwrap() * PAGE);
            let bytes = std::mem::replace(&mut rest, later);
            if large.iter().any(|vma| (vma.start..vma.end).contains(&entry.vaddr)) {
                runs.push((entry.vaddr, bytes));
            } else {
                entries.push(entry);
                kept.extend(bytes);
            }
        }
        fs::write(&pages, kept).unwrap();
        let path = restore.images.join(format!("pagemap-{}.img", root.pid));
        let mut image = fs::read(&path).unwrap();
        // Two magic numbers, then the head with its length: this stays.
        let head = usize::try_from(u32::from_le_bytes(image[8..12].try_into().unwrap())).unwrap();
        image.truncate(12 + head);
        for entry in entries {
            let message = entry.encode_to_vec();
            image.extend(u32::try_from(message.len()).unwrap().to_le_bytes());
            image.extend(message);
        }
        fs::write(&path, image).unwrap();
        Ok(Box::new(Missing { runs }))
    }
}

impl WayBack for Missing {
    fn has_more(&self) -> bool {
        true
    }

    fn fill(self: Box<Self>, root: i32) -> Result<(), String> {
        assert!(stands(root));
        let filled: usize = self.runs.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(filled >= 32 << 20, "{filled} bytes were left out");
        let memory = File::options().write(true).open(format!("/proc/{root}/mem")).unwrap();
        for (address, bytes) in &self.runs {
            memory.write_all_at(bytes, *address).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// Looks at its 32 MiB again and again, and says whether they are what they were.
const REMEMBERS: &str = "
import os, sys, time, zlib
os.setsid()
data = os.urandom(32 << 20)
mark = zlib.crc32(data)
print('ready', flush=True)
while True:
    right = zlib.crc32(data) == mark
    with open(sys.argv[1] + '/said', 'a') as said:
        said.write('right\\n' if right else 'wrong\\n')
    time.sleep(0.2)
";

#[test]
fn a_skeleton_is_filled_before_it_runs() {
    let Some(criu) = criu() else { return };
    let scratch = Scratch::new();
    let Some(mut tree) = python(&scratch, REMEMBERS) else { return };
    let said = scratch.dir.path().join("said");
    wait_for("it looks at its memory", || said.exists());
    let (images, logs) = (scratch.sub("images"), scratch.sub("logs"));
    let mut options = DumpOptions::new(tree.pid, &images, &logs);
    options.leave = Leave::Ended;
    criu.dump(&options, &mut NoHooks).unwrap();
    tree.reap();
    let before = fs::read_to_string(&said).unwrap().lines().count();

    let mut options = RestoreOptions::new(&images, &logs);
    options.memory = Arc::new(Skeleton);
    let restored = criu.restore(&options, &mut NoHooks).unwrap();
    let _tree = Tree::restored(restored.pid);
    restored.unfilled.unwrap().fill(restored.pid).unwrap();
    wait_for("it goes on", || fs::read_to_string(&said).unwrap().lines().count() > before + 3);
    let said = fs::read_to_string(&said).unwrap();
    assert!(!said.contains("wrong"), "{said}");
}
