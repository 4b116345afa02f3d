//! Into a box's network and out of it.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

use crate::common::{Scene, can_make_boxes, end, outside_of_boxes, skip, wait_until};
use sandbox::{Forwarder, Gate, Pasta, SandboxError, User, as_user, free_ports};

/// A server that answers everything it is told, once the client has finished, in capitals.
const SHOUT: &str = "
import socket, sys
s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); print('up', flush=True)
while True:
    c, _ = s.accept(); b = b''
    while d := c.recv(65536): b += d
    c.sendall(b.upper()); c.close()
";

/// Says `hello` to a socket or a port and prints the answer.
const SAY_HELLO: &str = "
import socket, sys
where = sys.argv[1]
s = socket.create_connection(('127.0.0.1', int(where)), 20) if where.isdigit() else socket.socket(socket.AF_UNIX)
if not where.isdigit(): s.connect(where)
try: s.sendall(b'hello'); s.shutdown(socket.SHUT_WR); print(s.recv(100).decode())
except OSError as error: print('closed')
";

/// What a client does with either end.
trait Stream: Read + Write {
    fn finish(&self) -> std::io::Result<()>;
}

impl Stream for TcpStream {
    fn finish(&self) -> std::io::Result<()> {
        self.set_read_timeout(Some(Duration::from_secs(30)))?;
        self.shutdown(Shutdown::Write)
    }
}

impl Stream for UnixStream {
    fn finish(&self) -> std::io::Result<()> {
        self.set_read_timeout(Some(Duration::from_secs(30)))?;
        self.shutdown(Shutdown::Write)
    }
}

fn ask(mut stream: impl Stream, question: &[u8]) -> std::io::Result<Vec<u8>> {
    stream.write_all(question)?;
    stream.finish()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

fn ask_port(port: u16, question: &[u8]) -> std::io::Result<Vec<u8>> {
    ask(TcpStream::connect((Ipv4Addr::LOCALHOST, port))?, question)
}

/// What somebody hears who says hello.
fn hello_of(user: &User, place: &str) -> String {
    let mut command = outside_of_boxes(user, "/usr/bin/python3");
    let output = command.args(["-c", SAY_HELLO, place]).output().expect("it runs");
    match output.status.success() {
        true => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        false => last_line(&output.stderr),
    }
}

fn last_line(text: &[u8]) -> String {
    String::from_utf8_lossy(text).lines().last().unwrap_or_default().to_owned()
}

/// Another ordinary user.
fn somebody_else(user: &User) -> User {
    let uid = user.uid + 5_000_000;
    User { uid, gid: uid, groups: vec![uid], ..user.clone() }
}

/// A box with a server behind the first of two sockets.
fn shouting(scene: &Scene) -> (sandbox::Launched, Gate) {
    let ports = free_ports(2).expect("there are some");
    let directory = scene.path("gate");
    if !directory.exists() {
        scene.make_dir("gate");
    }
    let gate = Gate { directory, ports };
    let port = gate.ports[0].to_string();
    let mut spec = scene.spec(&["python3", "-c", SHOUT, &port]);
    spec.gate = Some(gate.clone());
    let _ = std::fs::remove_file(scene.path("box/log"));
    let launched = scene.launch(&spec).expect("the box starts");
    wait_until("the server listens", || scene.log().contains("up"));
    (launched, gate)
}

#[test]
fn a_gate_leads_to_a_port_inside_and_nothing_else_does() {
    if !can_make_boxes("gates") {
        return;
    }
    let scene = Scene::new();
    let (launched, gate) = shouting(&scene);
    let connect = |index| UnixStream::connect(gate.socket(index)).expect("the gate is open");
    let long: Vec<u8> = b"some words ".repeat(100_000);
    assert_eq!(ask(connect(0), &long).expect("an answer"), long.to_ascii_uppercase());
    assert!(ask(connect(1), b"anybody?").unwrap_or_default().is_empty(), "nobody listens there");
    TcpStream::connect((Ipv4Addr::LOCALHOST, gate.ports[0])).expect_err("the box's loopback is its own");

    let socket = gate.socket(0);
    let place = socket.to_str().expect("text");
    assert_eq!(hello_of(&scene.user, place), "HELLO");
    let refused = hello_of(&somebody_else(&scene.user), place);
    assert!(refused.contains("Permission denied"), "{refused}");
    end(&launched);
    assert!(UnixStream::connect(&socket).is_err(), "the gate ends with its box");
}

#[test]
fn a_forwarder_serves_its_own_user_and_root_and_outlives_who_started_it() {
    if !can_make_boxes("forwarding") {
        return;
    }
    let scene = Scene::new();
    let (launched, gate) = shouting(&scene);
    let forwarder = Forwarder::start(&scene.program, &gate.directory, &[0, 0]).expect("it starts");
    let [port, dead_end] = forwarder.ports[..] else { panic!("{forwarder:?}") };
    let process = std::fs::metadata(format!("/proc/{}", forwarder.identity.pid)).expect("it runs");
    assert_eq!(process.uid(), scene.user.uid);

    let long: Vec<u8> = b"some words ".repeat(100_000);
    assert_eq!(ask_port(port, &long).expect("an answer"), long.to_ascii_uppercase());
    assert!(ask_port(dead_end, b"anybody?").unwrap_or_default().is_empty(), "nobody listens there");
    assert_eq!(hello_of(&scene.user, &port.to_string()), "HELLO");
    let refused = hello_of(&somebody_else(&scene.user), &port.to_string());
    assert!(matches!(refused.as_str(), "" | "closed"), "{refused}");

    // Its starter is gone already: it is in a session of its own and no child of the helper's.
    let info = sandbox::process::info(forwarder.identity.pid).expect("/proc").expect("it runs");
    assert_eq!(info.session, forwarder.identity.pid);
    assert_eq!(ask_port(port, b"again").expect("an answer"), b"AGAIN");

    let taken = Forwarder::start(&scene.program, &gate.directory, &[port]);
    assert!(matches!(taken, Err(SandboxError::Forward { .. })), "{taken:?}");

    // A box that was made anew is served, too.
    end(&launched);
    assert!(ask_port(port, b"nobody").unwrap_or_default().is_empty(), "the box is gone");
    let (launched, _) = shouting(&scene);
    assert_eq!(ask_port(port, b"new").expect("an answer"), b"NEW");

    assert!(forwarder.stop() && !forwarder.is_alive());
    ask_port(port, b"still there?").expect_err("it has gone");
    end(&launched);
}

#[test]
fn free_ports_are_free_and_differ() {
    let ports = free_ports(20).expect("there are some");
    let held: Vec<_> =
        ports.iter().map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).expect("free")).collect();
    assert_eq!(held.len(), 20);
}

/// Makes the calling thread's surroundings look like a machine on a network: an address, a default route, 198.51.100.7 as a place
/// that is reached through it, and the node that pasta needs, open to everybody as distributions have it.
fn become_a_machine() {
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).expect("root may");
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).expect("root may");
    mount("none", "/dev/net", "tmpfs", MountFlags::empty(), None::<&CStr>).expect("root may");
    let (kind, mode) = (rustix::fs::FileType::CharacterDevice, rustix::fs::Mode::from_raw_mode(0o666));
    let tun = Path::new("/dev/net/tun");
    rustix::fs::mknodat(rustix::fs::CWD, tun, kind, mode, rustix::fs::makedev(10, 200)).expect("a node");
    rustix::fs::chmod(tun, mode).expect("its mode");
    for words in [
        "link set lo up",
        "link add d0 type veth peer name d1",
        "link set d0 up",
        "link set d1 up",
        "address add 192.0.2.2/24 dev d0",
        "route add default via 192.0.2.1",
        "address add 198.51.100.7/32 dev lo",
    ] {
        let done = Command::new("ip").args(words.split(' ')).output().expect("ip runs");
        assert!(done.status.success(), "ip {words}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

/// How many pages the pipes of a process may hold.
fn pages_in_pipes(pid: i32) -> usize {
    let descriptors = Path::new("/proc").join(pid.to_string()).join("fd");
    let entries = std::fs::read_dir(descriptors).expect("its descriptors");
    let pipes: BTreeMap<PathBuf, PathBuf> = entries
        .filter_map(|entry| entry.ok())
        .filter_map(|entry| Some((std::fs::read_link(entry.path()).ok()?, entry.path())))
        .filter(|(leads_to, _)| leads_to.to_string_lossy().starts_with("pipe:"))
        .collect();
    let size = |path: &PathBuf| {
        // Of a pipe through which nothing goes either end may be opened anew.
        let pipe =
            OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path).expect("a pipe");
        rustix::pipe::fcntl_getpipe_size(&pipe).expect("its size") / 4096
    };
    pipes.values().map(size).sum()
}

#[test]
fn pasta_leads_out_and_nobody_gets_in() {
    if !can_make_boxes("the way out") {
        return;
    }
    if Pasta::find().is_none() {
        return skip("the way out", "pasta (package passt) is not installed");
    }
    let scene = Scene::new();
    let launched = scene.launch(&scene.spec(&["sleep", "1000"])).expect("the box starts");
    // Servers on the "internet" and on the machine's loopback, and pasta between.
    let (listener, private, pasta) = std::thread::scope(|scope| {
        let machine = scope.spawn(|| {
            become_a_machine();
            let listener = TcpListener::bind("198.51.100.7:8080").expect("it listens");
            let private = TcpListener::bind("127.0.0.1:8081").expect("it listens");
            let start = || Pasta::start(&scene.program, launched.holder, &scene.path("box/pasta.pid"));
            let pasta = as_user(&scene.user, start).expect("we may").expect("pasta starts");
            (listener, private, pasta.expect("it is installed"))
        });
        machine.join().expect("the machine is up")
    });
    let process = std::fs::metadata(format!("/proc/{}", pasta.identity.pid)).expect("it runs");
    assert_ne!(process.uid(), 0, "it has its user's rights");
    let pages = pages_in_pipes(pasta.identity.pid);
    assert!((1..=1024).contains(&pages), "of 16,384 pages that a user's pipes may hold, pasta has {pages}");
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut words = String::new();
        stream.read_to_string(&mut words).expect("words");
        words
    });
    let script = "
import socket
with socket.create_connection(('198.51.100.7', 8080), 20) as s: s.sendall(b'hello from inside')
try: socket.create_connection(('192.0.2.1', 8081), 1); print('the loopback is open')
except OSError: print('no way to the loopback')
";
    let output = scene.exec(launched.holder, &["python3", "-c", script]).expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "no way to the loopback\n", "{output:?}");
    assert_eq!(server.join().expect("it was served"), "hello from inside");
    drop(private);
    assert!(pasta.identity.is_alive() && !scene.path("box/pasta.pid").exists());
    assert!(pasta.stop() && !pasta.identity.is_alive());
    end(&launched);
}
