//! Reading the images of real dumps.

use std::fs;
use std::path::PathBuf;

use checkpoint_criu::images::{FileKind, Images};
use checkpoint_criu::{DumpOptions, Leave, NoHooks};

use crate::common::{ROOT, Scratch, boxed, criu, python};

#[test]
fn images_of_a_box_can_be_read() {
    let Some(criu) = criu() else { return };
    let scratch = Scratch::new();
    let original = boxed(&scratch);
    let images = scratch.sub("images");
    let options = original.dump_options(&images, &scratch.sub("logs"));
    let dumped = criu.dump(&options, &mut NoHooks).unwrap();
    let root = u32::try_from(ROOT).unwrap();

    let images = Images::open(&images).unwrap();
    assert!(images.inventory().unwrap().img_version >= 2);
    let tree = images.pstree().unwrap();
    assert_eq!((tree[0].pid, tree[0].ppid, tree[0].sid), (root, 0, root));
    assert_eq!(tree[0].threads, [root]);

    let core = images.core(root).unwrap();
    assert_eq!(core.comm().unwrap(), "sh");
    let credentials = core.credentials().unwrap();
    assert_eq!((credentials.uid, credentials.euid, credentials.fsuid), (0, 0, 0));
    assert!(credentials.cap_eff.iter().any(|word| *word != 0), "{credentials:?}");
    assert!(!core.task.as_ref().unwrap().rlimits.as_ref().unwrap().limits.is_empty());

    let ids = images.ids(root).unwrap();
    let host = images.inventory().unwrap().root_ids.unwrap();
    assert_eq!(
        (ids.pid_ns, ids.mnt_ns, ids.net_ns, ids.user_ns),
        (host.pid_ns, host.mnt_ns, host.net_ns, host.user_ns),
        "CRIU was in the same namespaces, so it took none of them along"
    );
    assert!(images.mountpoints().unwrap().is_empty());

    let files = images.files().unwrap();
    let path_of = |id: u32| {
        files.iter().find(|file| file.id == id).and_then(|file| match &file.kind {
            FileKind::Reg(reg) => Some(reg.path().to_path_buf()),
            _ => None,
        })
    };
    let place = images.fs(root).unwrap();
    assert_eq!(path_of(place.cwd_id).unwrap().as_os_str(), "/");
    let fds = images.fdinfo(ids.files).unwrap();
    let output = fds.iter().find(|fd| fd.fd == 1).unwrap();
    assert_eq!(path_of(output.id).unwrap(), original.inside.join("log"));

    let mm = images.mm(root).unwrap();
    let exe = path_of(mm.exe_file_id).unwrap();
    assert!(exe.is_absolute(), "{exe:?}");
    let mapped: Vec<_> = mm.vmas.iter().filter_map(|vma| vma.file_id()).collect();
    assert!(!mapped.is_empty() && mapped.iter().all(|id| path_of(*id).is_some()));
    assert!(mm.vmas.iter().all(|vma| vma.start < vma.end));

    let pagemap = images.pagemap(root).unwrap();
    let mut pages: u64 = 0;
    for entry in tree {
        if images.core(entry.pid).unwrap().is_over() {
            continue;
        }
        let map = images.pagemap(entry.pid).unwrap();
        pages += map.entries.iter().filter(|run| run.is_present()).map(|run| run.pages()).sum::<u64>();
    }
    assert_eq!(pages, dumped.stats.pages_written);
    assert!(fs::metadata(images.dir().join(format!("pages-{}.img", pagemap.pages_id))).unwrap().len() > 0);

    for name in images.names().unwrap() {
        let name = name.to_str().unwrap();
        let bytes = fs::read(images.dir().join(name)).unwrap();
        checkpoint_criu::images::check(name, &bytes).unwrap();
    }
}

const OPEN_EVERYTHING: &str = r#"
import mmap, os, pty, socket, sys, time
os.setsid()
memory = os.memfd_create("notes")
os.write(memory, b"m" * 5000)
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
left, right = socket.socketpair()
named = socket.socket(socket.AF_UNIX)
named.bind(sys.argv[1] + "/socket")
named.listen()
master, slave = pty.openpty()
gone = open(sys.argv[1] + "/gone", "w+")
gone.write("g" * 100)
gone.flush()
os.unlink(sys.argv[1] + "/gone")
shared = mmap.mmap(-1, 65536)
shared[:10] = b"0123456789"
mapped = open(sys.argv[1] + "/mapped", "wb+")
mapped.truncate(4096)
view = mmap.mmap(mapped.fileno(), 4096)
reader, writer = os.pipe()
print("ready", flush=True)
while True:
    time.sleep(60)
"#;

#[test]
fn every_sort_of_file_is_told_apart() {
    let Some(criu) = criu() else { return };
    let scratch = Scratch::new();
    let Some(mut tree) = python(&scratch, OPEN_EVERYTHING) else { return };
    let dir = scratch.sub("images");
    let mut options = DumpOptions::new(tree.pid, &dir, scratch.sub("logs"));
    options.leave = Leave::Ended;
    let pid = u32::try_from(tree.pid).unwrap();
    criu.dump(&options, &mut NoHooks).unwrap();
    tree.reap();

    let images = Images::open(&dir).unwrap();
    let files = images.files().unwrap();
    let at = |name: &str| scratch.dir.path().join(name);

    let memfds = images.memfds().unwrap();
    let notes = memfds.iter().find(|memfd| memfd.name.ends_with(b"notes")).unwrap();
    assert_eq!(notes.size, 5000);
    let shared = images.shmem_pagemaps().unwrap();
    assert!(shared.iter().any(|(id, map)| *id == u64::from(notes.shmid) && !map.entries.is_empty()));
    assert!(files.iter().any(|file| matches!(&file.kind,
        FileKind::Memfd(memfd) if u64::from(memfd.inode_id) == notes.inode_id)));

    let sockets: Vec<_> = files
        .iter()
        .filter_map(|file| match &file.kind {
            FileKind::Inet(socket) => Some(socket),
            _ => None,
        })
        .collect();
    let listener = sockets.iter().find(|socket| socket.is_listening()).unwrap();
    assert_eq!(listener.source().unwrap().to_string(), "127.0.0.1");
    let connected: Vec<_> = sockets.iter().filter(|socket| socket.is_established()).collect();
    assert_eq!(connected.len(), 2);
    assert!(connected.iter().any(|socket| socket.src_port == listener.src_port));

    let unix: Vec<_> = files
        .iter()
        .filter_map(|file| match &file.kind {
            FileKind::Unix(socket) => Some(socket),
            _ => None,
        })
        .collect();
    assert!(unix.iter().any(|socket| socket.path() == Some(&at("socket")) && socket.state == 10));
    let pair: Vec<_> = unix.iter().filter(|socket| socket.peer != 0).collect();
    assert_eq!(pair.len(), 2);
    assert_eq!(pair[0].peer, pair[1].inode);

    let ttys = images.ttys().unwrap();
    assert!(ttys.iter().any(|tty| tty.pty.is_some()), "{ttys:?}");
    assert!(files.iter().filter(|file| matches!(file.kind, FileKind::Tty(_))).count() >= 2);
    assert!(files.iter().filter(|file| matches!(file.kind, FileKind::Pipe(_))).count() >= 2);

    let remap = images.remaps().unwrap().into_iter().find(|remap| remap.is_ghost()).unwrap();
    let ghost = images.ghosts().unwrap().into_iter().find(|ghost| ghost.id == remap.remap_id).unwrap();
    assert_eq!(ghost.file.mode & 0o170_000, 0o100_000);
    let reg = |id: u32| {
        files.iter().find(|file| file.id == id).and_then(|file| match &file.kind {
            FileKind::Reg(reg) => Some(reg),
            _ => None,
        })
    };
    assert_eq!(reg(remap.original_id).unwrap().path(), at("gone"));

    let mm = images.mm(pid).unwrap();
    let view = mm.vmas.iter().find(|vma| {
        vma.is_shared() && vma.file_id().and_then(reg).is_some_and(|reg| reg.path() == at("mapped"))
    });
    assert_eq!(view.unwrap().len(), 4096);
    // CRIU saves shared memory without a name as a memfd.
    assert!(mm.vmas.iter().any(|vma| vma.is_shared() && vma.is_memfd() && vma.len() == 65536));
    let opened = files.iter().find_map(|file| match &file.kind {
        FileKind::Reg(reg) if reg.path() == at("mapped") && reg.size == Some(4096) && reg.flags & 3 == 2 => {
            Some(reg)
        }
        _ => None,
    });
    assert_eq!(opened.unwrap().mode.unwrap() & 0o170_000, 0o100_000);
    let output: PathBuf = at("output");
    assert!(files.iter().any(|file| matches!(&file.kind, FileKind::Reg(reg) if reg.path() == output)));
}
