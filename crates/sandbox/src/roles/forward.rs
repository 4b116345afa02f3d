//! `forward` and `serve`: a box's gate, for clients that know nothing but TCP.
//!
//! A port on loopback is open to everybody on the machine. So of each connection the kernel is asked whose socket the other
//! end is, and it is closed unless it is our own user's, or root's. The ports are those of a kernel, in the order of a connection
//! file: whoever asks it something waits until it can hear the answer ([`super::clients`]).

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use super::carry::{Open, take};
use super::clients::{Channel, Clients};
use super::whose::is_ours;
use super::{Outcome, number, while_doing, with_causes};
use crate::forward::{Forwarder, Report};
use crate::process::Identity;

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

/// Words: the gate's directory, and for each of its sockets the port outside; 0 for any that is free.
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
    let (open, clients) = (Open::default(), Clients::default());
    std::thread::scope(|scope| {
        for (index, (listener, socket)) in listeners.iter().enumerate() {
            let (open, clients, socket) = (open.clone(), clients.clone(), socket.clone());
            scope.spawn(move || {
                let accept = || listener.accept().map(|(client, _)| client);
                let admit = move |client: &TcpStream| admit(client, &socket);
                take(accept, admit, &open, (&clients, Channel::at(index)));
            });
        }
    });
    Ok(ExitCode::SUCCESS)
}

fn start(words: &[OsString]) -> Outcome<(Forwarder, Vec<(TcpListener, PathBuf)>)> {
    rustix::process::setsid().map_err(while_doing("start a session"))?;
    rustix::process::chdir("/").map_err(while_doing("leave the directory"))?;
    let (directory, wanted) = words.split_first().ok_or("the gate is missing")?;
    let directory = PathBuf::from(directory);
    let mut ports = Vec::new();
    let mut listeners = Vec::new();
    for (index, port) in wanted.iter().enumerate() {
        let port: u16 = number(port, "a port")?;
        let failed = || while_doing(format!("listen on 127.0.0.1:{port}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(failed())?;
        ports.push(listener.local_addr().map_err(failed())?.port());
        listeners.push((listener, directory.join((index + 1).to_string())));
    }
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let identity = Identity::of(own).map_err(with_causes)?.ok_or("/proc does not know us")?;
    Ok((Forwarder { identity, ports }, listeners))
}

/// Leads a connection of our own user to the gate.
fn admit(client: &TcpStream, socket: &Path) -> io::Result<UnixStream> {
    if !is_ours(client)? {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    client.set_nodelay(true)?;
    UnixStream::connect(socket)
}
