//! One connection to a kernel that is made again and again.
//!
//! A kernel goes and comes back at the same port: it is swapped for an earlier self, sleeps and wakes, or is not there yet.
//! So a channel that is lost is tried again for ever, soon at first and then four times a second, until its owner drops it: what a
//! kernel does in its first moments counts, too.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::frames::{Decoder, Heard, Socket};
use crate::connection::ConnectionFile;

/// How soon a lost connection is tried again, at first and at most.
const SOON: Duration = Duration::from_millis(20);
const LATER: Duration = Duration::from_millis(250);

/// How long a peer may take for the handshake, and for taking what we send. A kernel that stands still for a snapshot takes
/// neither; its connection is not given up before the snapshot could be over.
const PATIENCE: Duration = Duration::from_secs(30);

/// How much is read at once.
const CHUNK: usize = 64 << 10;

/// Which of a kernel's channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Which {
    /// What it tells everyone.
    Iopub,
    /// Requests that wait their turn.
    Shell,
    /// Requests that do not wait for a cell.
    Control,
}

impl Which {
    pub(crate) const ALL: [Self; 3] = [Self::Iopub, Self::Shell, Self::Control];

    const fn socket(self) -> Socket {
        match self {
            Self::Iopub => Socket::Sub,
            Self::Shell | Self::Control => Socket::Dealer,
        }
    }
}

/// What becomes of a channel.
#[derive(Debug)]
pub(crate) enum News {
    /// It is there, made after so many calls to renew it.
    Up(u64),
    /// It is not there any more.
    Down,
    /// Something came.
    Message(Vec<Vec<u8>>),
    /// Something came that was too long to keep.
    TooLong,
}

/// The channels of one kernel, which are made and made again until this is dropped.
pub(crate) struct Channels {
    /// What is to be sent, in the order of [`Which::ALL`].
    pub(crate) outgoing: [mpsc::Sender<Vec<u8>>; 3],
    pub(crate) news: mpsc::Receiver<(Which, News)>,
    /// Changes when all are to be made anew.
    pub(crate) renew: watch::Sender<u64>,
}

impl Channels {
    /// Begins to connect.
    pub(crate) fn open(file: &ConnectionFile) -> Self {
        let (told, news) = mpsc::channel(64);
        let (renew, renewed) = watch::channel(0);
        let outgoing = Which::ALL.map(|which| {
            let (send, outgoing) = mpsc::channel(16);
            let port = match which {
                Which::Iopub => file.ports.iopub,
                Which::Shell => file.ports.shell,
                Which::Control => file.ports.control,
            };
            let channel = Channel {
                which,
                address: SocketAddr::new(file.ip, port),
                outgoing,
                news: told.clone(),
                renew: renewed.clone(),
            };
            tokio::spawn(channel.run());
            send
        });
        Self { outgoing, news, renew }
    }
}

/// One channel of one kernel.
struct Channel {
    which: Which,
    address: SocketAddr,
    /// What is to be sent.
    outgoing: mpsc::Receiver<Vec<u8>>,
    news: mpsc::Sender<(Which, News)>,
    /// Changes when the connection is to be made anew, whatever it looks like.
    renew: watch::Receiver<u64>,
}

impl Channel {
    /// Goes on until its owner is gone.
    async fn run(mut self) {
        let mut wait = SOON;
        loop {
            let age = *self.renew.borrow_and_update();
            // What was meant for the kernel before is not for this one.
            while self.outgoing.try_recv().is_ok() {}
            let was_up = match self.talk(age).await {
                End::NoOwner => return,
                End::Lost { was_up } => was_up,
            };
            if was_up {
                wait = SOON;
                if self.tell(News::Down).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                () = sleep(wait) => wait = (wait * 2).min(LATER),
                renewed = self.renew.changed() => match renewed {
                    Ok(()) => { self.renew.mark_changed(); wait = SOON }
                    Err(_) => return,
                },
                () = self.news.closed() => return,
            }
        }
    }

    async fn tell(&self, news: News) -> Result<(), NoOwner> {
        self.news.send((self.which, news)).await.map_err(|_| NoOwner)
    }

    async fn talk(&mut self, age: u64) -> End {
        let lost = End::Lost { was_up: false };
        let Ok(Ok(mut stream)) = timeout(PATIENCE, TcpStream::connect(self.address)).await else {
            return lost;
        };
        // What we send is short and waited for.
        let _slower = stream.set_nodelay(true);
        let opening = self.which.socket().opening();
        if !matches!(timeout(PATIENCE, stream.write_all(&opening)).await, Ok(Ok(()))) {
            return lost;
        }
        let mut was_up = false;
        let mut decoder = Decoder::new();
        let mut chunk = vec![0; CHUNK];
        let greeted = sleep(PATIENCE);
        tokio::pin!(greeted);
        let (mut reader, mut writer) = stream.split();
        loop {
            tokio::select! {
                read = reader.read(&mut chunk) => {
                    let Ok(count @ 1..) = read else { return End::Lost { was_up } };
                    let Ok(heard) = decoder.push(chunk.get(..count).unwrap_or_default()) else {
                        return End::Lost { was_up };
                    };
                    for one in heard {
                        let news = match one {
                            Heard::Ready if !was_up => {
                                was_up = true;
                                let then = self.which.socket().then();
                                if !matches!(timeout(PATIENCE, writer.write_all(&then)).await, Ok(Ok(()))) {
                                    return End::Lost { was_up: false };
                                }
                                News::Up(age)
                            }
                            Heard::Message(message) if was_up => News::Message(message),
                            Heard::TooLong if was_up => News::TooLong,
                            Heard::Ready | Heard::Message(_) | Heard::TooLong => continue,
                        };
                        if self.tell(news).await.is_err() {
                            return End::NoOwner;
                        }
                    }
                }
                bytes = self.outgoing.recv(), if was_up => {
                    let Some(bytes) = bytes else { return End::NoOwner };
                    if !matches!(timeout(PATIENCE, writer.write_all(&bytes)).await, Ok(Ok(()))) {
                        return End::Lost { was_up };
                    }
                }
                () = &mut greeted, if !was_up => return End::Lost { was_up },
                renewed = self.renew.changed() => match renewed {
                    Ok(()) => { self.renew.mark_changed(); return End::Lost { was_up } }
                    Err(_) => return End::NoOwner,
                },
                () = self.news.closed() => return End::NoOwner,
            }
        }
    }
}

struct NoOwner;

/// Why a connection is over.
enum End {
    NoOwner,
    Lost { was_up: bool },
}
