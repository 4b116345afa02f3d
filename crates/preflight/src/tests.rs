//! On a made-up `/proc`, where everything can happen, and on real processes, which show that the real one looks like that.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::*;

/// A `/proc` with one process, 7, called `kernel`.
struct Fake {
    directory: tempfile::TempDir,
}

impl Fake {
    fn new() -> Self {
        let fake = Self { directory: tempfile::tempdir().unwrap() };
        fake.process(7, "kernel", "");
        fake
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn process(&self, pid: i32, comm: &str, more: &str) {
        let status = format!(
            "Name:\t{comm}\nState:\tS (sleeping)\nTracerPid:\t0\nUid:\t1000\t1000\t1000\t1000\nRssAnon:\t    2048 kB\n\
             RssShmem:\t    1024 kB\nVmSwap:\t       0 kB\n{more}"
        );
        for directory in ["fd", "ns", &format!("task/{pid}")] {
            fs::create_dir_all(self.path(&format!("{pid}/{directory}"))).unwrap();
        }
        fs::write(self.path(&format!("{pid}/comm")), format!("{comm}\n")).unwrap();
        fs::write(self.path(&format!("{pid}/status")), &status).unwrap();
        fs::write(self.path(&format!("{pid}/task/{pid}/status")), &status).unwrap();
    }

    fn fd(&self, number: u32, link: &str) {
        symlink(link, self.path(&format!("7/fd/{number}"))).unwrap();
    }

    fn look(&self) -> Preflight {
        let needs = Needs {
            staging: Some("/".into()),
            store: "/".into(),
            uid: Some(1000),
            boxed: None,
            on_gpu: BTreeSet::new(),
            vram_bytes: 0,
        };
        examine(self.directory.path(), 7, &[7, 8], &needs)
    }

    #[track_caller]
    fn refused(&self, what: &str, evidence: &str) {
        let found = self.look();
        let problem = found.refusals.iter().find(|problem| problem.what == what);
        let problem = problem.unwrap_or_else(|| panic!("no `{what}` in {found:?}"));
        assert!(problem.evidence.contains(evidence), "{problem}");
        assert!(
            (problem.pid, problem.comm.as_str()) == (7, "kernel") && !problem.way_out.is_empty(),
            "{problem}"
        );
    }
}

#[test]
fn a_plain_process_passes_and_its_memory_is_counted() {
    let fake = Fake::new();
    for (number, link) in
        ["/dev/null", "pipe:[77]", "socket:[5]", "anon_inode:[eventpoll]", "anon_inode:[pidfd]"]
            .iter()
            .enumerate()
    {
        fake.fd(u32::try_from(number).unwrap(), link);
    }
    let found = fake.look();
    assert_eq!(found, Preflight { memory_bytes: 3 << 20, ..Preflight::default() });
    assert_eq!(found.verdict().unwrap(), Vec::<String>::new());
}

#[test]
fn descriptors_that_cannot_be_dumped_are_named() {
    let cases = [
        ("anon_inode:[io_uring]", "io_uring"),
        ("anon_inode:[userfaultfd]", "userfaultfd"),
        ("anon_inode:[perf_event]", "a performance counter"),
        ("anon_inode:bpf-map", "a BPF map"),
        ("anon_inode:bpf-prog", "a BPF program"),
        ("net:[4026531840]", "a handle of a namespace"),
    ];
    for (link, what) in cases {
        let fake = Fake::new();
        fake.fd(9, link);
        fake.refused(what, &format!("descriptor 9 is {link}"));
        let error = fake.look().verdict().unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
    // a file that only has such a name
    let fake = Fake::new();
    fs::write(fake.path("[io_uring]"), b"").unwrap();
    fake.fd(9, fake.path("[io_uring]").to_str().unwrap());
    assert_eq!(fake.look().refusals, []);
}

#[test]
fn a_gpu_is_named_once() {
    let fake = Fake::new();
    fs::write(
        fake.path("7/maps"),
        "7f00-7f10 rw-s 00000000 00:06 5    /dev/nvidia0\n7f20-7f30 rw-s 0 00:06 5    /dev/nvidiactl\n",
    )
    .unwrap();
    fake.refused("a GPU in use", "/dev/nvidia0");
    assert_eq!(fake.look().refusals.len(), 1);
    // Where the driver closes them before the dump, they are in nobody's way; and their bytes need room.
    let needs = Needs {
        staging: Some("/".into()),
        store: "/".into(),
        uid: Some(1000),
        boxed: None,
        on_gpu: [7].into(),
        vram_bytes: 5 << 20,
    };
    let found = examine(fake.directory.path(), 7, &[7], &needs);
    assert_eq!((found.refusals, found.memory_bytes), (Vec::new(), 8 << 20));
}

#[test]
fn a_large_deleted_file_is_refused_and_a_sparse_one_is_not() {
    let fake = Fake::new();
    let sparse = fake.path("sparse (deleted)");
    fs::File::create(&sparse).unwrap().set_len(5 << 30).unwrap();
    fake.fd(3, sparse.to_str().unwrap());
    assert_eq!(fake.look().refusals, []);
    let process = Process { directory: fake.path("7"), pid: 7, comm: "kernel".to_owned() };
    let mut found = Preflight::default();
    descriptors::deleted(&process, "/tmp/big (deleted)", (1 << 21) + 8, "descriptor 3", &mut found);
    descriptors::deleted(&process, "/memfd:big (deleted)", (1 << 21) + 8, "descriptor 4", &mut found);
    assert_eq!(found.refusals.len(), 1);
    assert!(found.refusals[0].evidence.contains("1024 MiB"), "{}", found.refusals[0]);
}

#[test]
fn whoever_traces_for_a_moment_is_no_debugger() {
    let fake = Fake::new();
    let (path, free) = (fake.path("7/status"), fs::read_to_string(fake.path("7/status")).unwrap());
    fs::write(&path, free.replace("TracerPid:\t0", "TracerPid:\t8")).unwrap();
    fake.process(8, "standing", "");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            fs::rename(fake.path("8/comm"), fake.path("gone")).unwrap();
            let fresh = fake.path("fresh");
            fs::write(&fresh, &free).unwrap();
            fs::rename(fresh, &path).unwrap();
        });
        assert_eq!(fake.look().refusals, []);
        assert!(fake.path("gone").exists(), "it was not waited for");
    });
}

#[test]
fn debuggers_users_and_namespaces() {
    let fake = Fake::new();
    fake.process(7, "kernel", "");
    let traced = fs::read_to_string(fake.path("7/status")).unwrap();
    fs::write(
        fake.path("7/status"),
        traced.replace("TracerPid:\t0", "TracerPid:\t8").replace("1000\t1000\n", "1000\t0\n"),
    )
    .unwrap();
    fake.process(8, "strace", "");
    fake.refused("a debugger", "strace (8)");
    fake.refused("a process of another user", "1000 1000 1000 0");

    let fake = Fake::new();
    symlink("user:[1]", fake.path("7/ns/user")).unwrap();
    fake.process(8, "bwrap", "");
    symlink("user:[2]", fake.path("8/ns/user")).unwrap();
    let found = fake.look();
    assert_eq!(found.refusals.len(), 1, "{found:?}");
    assert!(found.refusals[0].to_string().contains("bwrap (8)"), "{}", found.refusals[0]);
}

/// What only CRIU in a box stumbles over.
#[track_caller]
fn refused_in_a_box(fake: &Fake, expected: &[(&str, &str)]) {
    let process = Process { directory: fake.path("7"), pid: 7, comm: "kernel".to_owned() };
    let mut found = Preflight::default();
    boxed::examine(&process, &fs::read_to_string(fake.path("7/status")).unwrap(), &mut found);
    let told: Vec<_> = found.refusals.iter().map(|one| (one.what, one.evidence.as_str())).collect();
    assert_eq!(told.len(), expected.len(), "{told:?}");
    for ((what, evidence), (expected, words)) in told.iter().zip(expected) {
        assert!(what == expected && evidence.contains(words), "{told:?}");
    }
}

#[test]
fn what_criu_cannot_save_from_inside_a_box() {
    let fake = Fake::new();
    refused_in_a_box(&fake, &[]);
    fake.process(7, "kernel", "Seccomp:\t0\n");
    refused_in_a_box(&fake, &[]);
    fake.process(7, "kernel", "Seccomp:\t2\n");
    refused_in_a_box(&fake, &[("a system call filter", "seccomp")]);

    let fake = Fake::new();
    fs::remove_dir(fake.path("7/fd")).unwrap();
    refused_in_a_box(&fake, &[("a process that hides itself", "cannot be listed")]);
    // One that has ended, or is about to, hides nothing.
    for (state, flags) in [("Z", 0), ("R", 4)] {
        let stat = format!("7 (kernel) {state} 1 7 7 0 -1 {flags} 1 0 0 0 1 2 3 4 20 0 1 0 987654 0 0\n");
        fs::write(fake.path("7/stat"), stat).unwrap();
        refused_in_a_box(&fake, &[]);
    }

    // A library that was replaced has several mappings and is told once. Shared memory without a name is in nobody's way.
    let fake = Fake::new();
    let maps = "7f00-7f10 r--p 00000000 fe:00 12     /lib/libm.so (deleted)\n\
                7f10-7f20 r-xp 00010000 fe:00 12     /lib/libm.so (deleted)\n\
                7f20-7f30 rw-s 00000000 00:01 13     /dev/zero (deleted)\n\
                7f30-7f40 rw-s 00000000 00:01 14     /SYSV00000000 (deleted)\n\
                7f40-7f50 rw-s 00000000 00:01 15     /memfd:mapped only (deleted)\n\
                7f50-7f60 r--p 00000000 fe:00 16     /lib/libc.so\n";
    fs::write(fake.path("7/maps"), maps).unwrap();
    refused_in_a_box(
        &fake,
        &[
            ("a mapped file that was deleted or replaced", "7f00-7f10 maps /lib/libm.so"),
            ("System V shared memory", "/SYSV00000000"),
        ],
    );
}

#[test]
fn a_memory_file_that_is_mapped_and_open_is_refused_in_a_box() {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;
    let file = rustix::fs::memfd_create("notes", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let inode = fs::metadata(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap().ino();
    let fake = Fake::new();
    // The kernel's own links, which a made-up one cannot be.
    fs::remove_dir(fake.path("7/fd")).unwrap();
    symlink(format!("/proc/{}/fd", std::process::id()), fake.path("7/fd")).unwrap();
    let maps = format!("7f00-7f10 rw-s 00000000 00:01 {inode}     /memfd:notes (deleted)\n");
    fs::write(fake.path("7/maps"), maps).unwrap();
    refused_in_a_box(&fake, &[("a memory file that is mapped and open", "/memfd:notes")]);
}

#[test]
fn threads_that_are_held_up() {
    let fake = Fake::new();
    fs::write(fake.path("7/task/7/wchan"), "wait_for_vfork_done").unwrap();
    fake.refused("a half-started child", "thread 7");
    fs::write(fake.path("7/task/7/wchan"), "do_freezer_trap").unwrap();
    fake.refused("a frozen process", "1 of 1 threads");
    let status = fs::read_to_string(fake.path("7/status")).unwrap();
    fs::write(fake.path("7/task/7/wchan"), "0").unwrap();
    for (state, what) in
        [("T (stopped)", "a stopped process"), ("D (disk sleep)", "a process that waits for the disk")]
    {
        fs::write(fake.path("7/task/7/status"), status.replace("S (sleeping)", state)).unwrap();
        let found = fake.look();
        assert_eq!(found.refusals, []);
        assert_eq!(found.warnings[0].what, what);
        assert_eq!(found.verdict().unwrap().len(), 1);
    }
}

#[test]
fn locks_of_others_are_warned_of() {
    use std::os::unix::fs::MetadataExt;
    let fake = Fake::new();
    let file = fake.path("db.sqlite");
    fs::write(&file, b"").unwrap();
    fake.fd(3, file.to_str().unwrap());
    let metadata = fs::metadata(&file).unwrap();
    let (major, minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
    let lock = |pid: i32| {
        format!("1: POSIX  ADVISORY  WRITE {pid} {major:02x}:{minor:02x}:{} 0 EOF\n", metadata.ino())
    };
    fs::write(fake.path("locks"), lock(8)).unwrap();
    assert_eq!(fake.look().warnings, [], "8 is of the session");
    fs::write(fake.path("locks"), lock(99)).unwrap();
    let found = fake.look();
    assert!(found.warnings[0].evidence.contains("process 99 has locked"), "{found:?}");
}

#[test]
fn a_real_process_passes() {
    let mut child =
        Command::new("sleep").arg("60").stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    // spawn returns once exec is under way, but the kernel may still be at it
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while comm(Path::new("/proc"), pid) != "sleep" && std::time::Instant::now() < deadline {
        std::thread::yield_now();
    }
    let needs = Needs {
        staging: Some(std::env::temp_dir()),
        store: std::env::temp_dir(),
        uid: Some(rustix::process::getuid().as_raw()),
        boxed: None,
        on_gpu: BTreeSet::new(),
        vram_bytes: 0,
    };
    let found = look(pid, &needs);
    let other = look(pid, &Needs { uid: Some(4_000_000), ..needs });
    child.kill().unwrap();
    child.wait().unwrap();
    let found = found.unwrap();
    assert!(found.memory_bytes > 0, "{found:?}");
    assert_eq!(
        other.unwrap().refusals.iter().filter(|one| one.what == "a process of another user").count(),
        1
    );
    assert!(!found.refusals.iter().any(|one| one.pid == pid && !one.what.contains("namespace")), "{found:?}");
}

#[test]
fn a_real_descriptor_is_seen_as_what_it_is() {
    // ourselves: perf and io_uring may be closed here, but userfaultfd-like links look alike; eventfd must not be taken for one
    let fd = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    let link = fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd))).unwrap();
    assert_eq!(link.to_str(), Some("anon_inode:[eventfd]"));
}
