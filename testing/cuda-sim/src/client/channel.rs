//! Channels to the server, made as they are needed and kept for the next call.
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Mutex;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde::de::DeserializeOwned;

use super::lock;
use crate::code::{Code, Result};
use crate::wire::{Answer, Request, receive, send};

/// Two pipe ends.
#[derive(Debug)]
struct Channel {
    requests: File,
    answers: File,
}

/// The channels that no call is using.
#[derive(Debug, Default)]
pub struct Pool(Mutex<Vec<Channel>>);

impl Pool {
    /// One request and its answer's body.
    ///
    /// # Errors
    /// The answer's code; UNKNOWN if the server cannot be reached.
    pub fn ask<T: DeserializeOwned>(&self, directory: &Path, request: &Request) -> Result<T> {
        let kept = lock(&self.0).pop();
        let mut channel = match kept {
            Some(channel) => channel,
            None => Channel::open(directory).map_err(|_| Code::UNKNOWN)?,
        };
        let answer = channel.ask(request).map_err(|_| Code::UNKNOWN)?;
        lock(&self.0).push(channel);
        if answer.code != 0 {
            return Err(Code(answer.code));
        }
        serde_json::from_value(answer.body).map_err(|_| Code::UNKNOWN)
    }

    /// Closes all channels: the process is checkpointed.
    pub fn close(&self) {
        lock(&self.0).clear();
    }
}

impl Channel {
    fn open(directory: &Path) -> io::Result<Self> {
        let socket = loop {
            match UnixStream::connect(directory.join("socket")) {
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                connected => break connected?,
            }
        };
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut word = [0];
        let flags = RecvFlags::CMSG_CLOEXEC;
        retry_on_intr(|| recvmsg(&socket, &mut [IoSliceMut::new(&mut word)], &mut ancillary, flags))?;
        let mut fds: Vec<OwnedFd> = ancillary
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(fds) => Some(fds),
                _ => None,
            })
            .flatten()
            .collect();
        match (fds.pop(), fds.pop(), fds.pop()) {
            (Some(answers), Some(requests), None) => {
                Ok(Self { requests: File::from(requests), answers: File::from(answers) })
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn ask(&mut self, request: &Request) -> io::Result<Answer> {
        // Writing to a server that is gone would end the program by SIGPIPE.
        let mut gone = [PollFd::from_borrowed_fd(self.requests.as_fd(), PollFlags::OUT)];
        // The program's signals arrive here as anywhere.
        retry_on_intr(|| poll(&mut gone, Some(&Timespec { tv_sec: 3600, tv_nsec: 0 })))?;
        if gone[0].revents().contains(PollFlags::ERR) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        send(&mut self.requests, request)?;
        receive(&mut self.answers)
    }
}
