//! `forward` and `serve`: connections from the machine's loopback into a box.
//!
//! A kernel has a handful of connections and they last, so a connection gets two plain threads, one for each direction.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{Outcome, number, while_doing, with_causes};
use crate::forward::{Forwarder, Report};
use crate::network;
use crate::process::Identity;

/// Connections at a time; more are turned away.
const MOST: usize = 1024;
/// A thread here only copies.
const STACK: usize = 128 << 10;

/// Starts `serve` and ends, so that it is nobody's child but the subreaper's.
pub(super) fn forward(words: Vec<OsString>) -> Outcome {
    let program = std::env::current_exe().map_err(while_doing("find our own program"))?;
    Command::new(program)
        .arg("serve")
        .args(words)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(while_doing("start the forwarder"))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn serve(words: &[OsString]) -> Outcome {
    let started = start(words);
    let report = match &started {
        Ok((forwarder, _)) => Report::Up(forwarder.clone()),
        Err(failure) => Report::Failed(failure.clone()),
    };
    let mut line = serde_json::to_vec(&report).map_err(while_doing("report"))?;
    line.push(b'\n');
    rustix::io::write(rustix::stdio::stdout(), &line).map_err(while_doing("report"))?;
    // The daemon waits for the end of this pipe.
    let null = File::options().write(true).open("/dev/null").map_err(while_doing("open /dev/null"))?;
    rustix::stdio::dup2_stdout(&null).map_err(while_doing("use /dev/null"))?;

    let (_, listeners) = started?;
    let open = Arc::new(AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for (listener, netns, inside) in &listeners {
            let open = Arc::clone(&open);
            scope.spawn(move || accept(listener, netns, *inside, &open));
        }
    });
    Ok(ExitCode::SUCCESS)
}

type Listening = (TcpListener, Arc<PathBuf>, u16);

fn start(words: &[OsString]) -> Outcome<(Forwarder, Vec<Listening>)> {
    rustix::process::setsid().map_err(while_doing("start a session"))?;
    rustix::process::chdir("/").map_err(while_doing("leave the directory"))?;
    let (netns, pairs) = words.split_first().ok_or("the namespace is missing")?;
    let netns = Arc::new(PathBuf::from(netns));
    File::open(&*netns).map_err(while_doing(format!("open `{}`", netns.display())))?;
    let mut ports = Vec::new();
    let mut listeners = Vec::new();
    for pair in pairs {
        let (outside, inside) =
            pair.to_str().and_then(|pair| pair.split_once(':')).ok_or("a pair of ports is OUTSIDE:INSIDE")?;
        let (outside, inside): (u16, u16) =
            (number(outside.as_ref(), "a port")?, number(inside.as_ref(), "a port")?);
        let failed = || while_doing(format!("listen on 127.0.0.1:{outside}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, outside)).map_err(failed())?;
        ports.push((listener.local_addr().map_err(failed())?.port(), inside));
        listeners.push((listener, Arc::clone(&netns), inside));
    }
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let identity = Identity::of(own).map_err(with_causes)?.ok_or("/proc does not know us")?;
    Ok((Forwarder { identity, ports }, listeners))
}

fn accept(listener: &TcpListener, netns: &Arc<PathBuf>, inside: u16, open: &Arc<AtomicUsize>) {
    loop {
        let Ok((client, _)) = listener.accept() else {
            // Out of descriptors, mostly. They come back as connections end.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        if open.fetch_add(1, Ordering::Relaxed) >= MOST {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (netns, counter) = (Arc::clone(netns), Arc::clone(open));
        let started = std::thread::Builder::new().stack_size(STACK).spawn(move || {
            // A connection that cannot be made or breaks is closed; that is all the client can be told.
            let _ = carry(&client, &netns, inside);
            counter.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Connects inside and copies both ways until both sides have finished.
fn carry(client: &TcpStream, netns: &Path, inside: u16) -> io::Result<()> {
    network::enter(&File::open(netns)?.into()).map_err(io::Error::other)?;
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, inside))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    std::thread::scope(|scope| {
        std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || copy(client, &server))?;
        copy(&server, client);
        Ok(())
    })
}

/// Copies one way. The end of the stream is passed on; a broken one ends both directions.
fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    let copied = io::copy(&mut from, &mut to);
    // Either may be closed already.
    let _ = to.shutdown(Shutdown::Write);
    if copied.is_err() {
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}
