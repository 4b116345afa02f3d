//! Into a box's network and out of it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::common::{Scene, can_make_boxes, end, skip, wait_until};
use sandbox::{Forwarder, NetworkNamespace, Pasta, SandboxError, free_ports};

/// A server that answers everything it is told, once the client has finished, in capitals.
const SHOUT: &str = "
import socket
s = socket.create_server(('127.0.0.1', 4711)); print('up', flush=True)
while True:
    c, _ = s.accept(); b = b''
    while d := c.recv(65536): b += d
    c.sendall(b.upper()); c.close()
";

fn ask(port: u16, question: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(question)?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

#[test]
fn a_forwarder_carries_both_ways_and_outlives_who_started_it() {
    if !can_make_boxes("forwarding") {
        return;
    }
    let scene = Scene::new();
    let launched = scene.launch(&scene.spec(&["python3", "-c", SHOUT])).expect("the box starts");
    wait_until("the server listens", || scene.log().contains("up"));
    let forwarder =
        Forwarder::start(&scene.program, &scene.path("net"), &[(0, 4711), (0, 4712)]).expect("it starts");
    assert_eq!(forwarder.ports.iter().map(|(_, inside)| *inside).collect::<Vec<_>>(), [4711, 4712]);
    let (port, dead_end) = (forwarder.ports[0].0, forwarder.ports[1].0);

    let long: Vec<u8> = b"some words ".repeat(100_000);
    assert_eq!(ask(port, &long).expect("an answer"), long.to_ascii_uppercase());
    assert!(ask(dead_end, b"anybody?").unwrap_or_default().is_empty(), "nobody listens there");

    // Its starter is gone already: it is in a session of its own and no child of the helper's.
    let info = sandbox::process::info(forwarder.identity.pid).expect("/proc").expect("it runs");
    assert_eq!(info.session, forwarder.identity.pid);
    assert_eq!(ask(port, b"again").expect("an answer"), b"AGAIN");

    let taken = Forwarder::start(&scene.program, &scene.path("net"), &[(port, 4711)]);
    assert!(matches!(taken, Err(SandboxError::Forward { .. })), "{taken:?}");
    assert!(forwarder.stop() && !forwarder.is_alive());
    ask(port, b"still there?").expect_err("it has gone");
    end(&launched);
}

#[test]
fn a_forwarder_serves_a_namespace_that_was_made_anew() {
    if !can_make_boxes("forwarding into a new namespace") {
        return;
    }
    let mut scene = Scene::new();
    let forwarder = Forwarder::start(&scene.program, &scene.path("net"), &[(0, 4711)]).expect("it starts");
    let old = scene.network.take().expect("it has one");
    let inode = old.inode().expect("an inode");
    let pin = old.fd().expect("a descriptor");
    old.remove().expect("it goes");
    let new = NetworkNamespace::create(&scene.path("net")).expect("another");
    // The old one is still held, so the inode cannot have been given out again.
    assert_ne!(new.inode().expect("an inode"), inode);
    drop(pin);
    scene.network = Some(new);
    let launched = scene.launch(&scene.spec(&["python3", "-c", SHOUT])).expect("the box starts");
    wait_until("the server listens", || scene.log().contains("up"));
    assert_eq!(ask(forwarder.ports[0].0, b"new").expect("an answer"), b"NEW");
    assert!(forwarder.stop());
    end(&launched);
}

#[test]
fn free_ports_are_free_and_differ() {
    let ports = free_ports(20).expect("there are some");
    let held: Vec<_> =
        ports.iter().map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).expect("free")).collect();
    assert_eq!(held.len(), 20);
}

#[test]
fn what_is_no_namespace_is_not_opened_as_one() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    assert!(matches!(NetworkNamespace::open(file.path()), Err(SandboxError::BadSpec { .. })));
    NetworkNamespace::open(Path::new("/no/such/file")).expect_err("there is nothing");
}

/// Makes the calling thread's namespace look like a machine on a network: an address, a default route, and 198.51.100.7 as a
/// place that is reached through it.
fn look_like_a_machine() {
    for words in [
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

#[test]
fn pasta_leads_out_and_nobody_gets_in() {
    if !can_make_boxes("the way out") {
        return;
    }
    if Pasta::find().is_none() {
        return skip("the way out", "pasta (package passt) is not installed");
    }
    let scene = Scene::new();
    let outside = NetworkNamespace::create(&scene.path("outside")).expect("a network");
    // Servers on the "internet" and on the machine's loopback, and pasta between.
    let (listener, private, pasta) = std::thread::scope(|scope| {
        let machine = scope.spawn(|| {
            let namespace = outside.fd().expect("a descriptor");
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).expect("we may");
            look_like_a_machine();
            let listener = TcpListener::bind("198.51.100.7:8080").expect("it listens");
            let private = TcpListener::bind("127.0.0.1:8081").expect("it listens");
            (
                listener,
                private,
                Pasta::start(&scene.path("net")).expect("pasta starts").expect("it is installed"),
            )
        });
        machine.join().expect("the machine is up")
    });
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
    let (status, log) = scene.run(&scene.spec(&["python3", "-c", script]));
    assert_eq!((status, log.as_str()), (Some(0), "no way to the loopback\n"));
    assert_eq!(server.join().expect("it was served"), "hello from inside");
    drop(private);
    assert!(pasta.identity.is_alive());
    assert!(pasta.stop() && !pasta.identity.is_alive());
    outside.remove().expect("it goes");
}
