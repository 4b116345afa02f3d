//! ZMTP 3.0, as far as a client of a kernel needs it: the greeting, the handshake without a password, and frames.
//!
//! The protocol is <https://rfc.zeromq.org/spec/23/>. A kernel binds ROUTER and PUB sockets; we are the DEALER or the SUB at
//! the other end, so there is one peer, no routing and no queue that could not be a channel. We say that we speak 3.0, where
//! a subscription is an ordinary message and nobody sends heartbeats.
//!
//! A peer says how long a frame will be before it sends it, and a kernel is a program of somebody else's: nothing here
//! makes room by what a peer announces. A message that grows beyond [`MESSAGE_BYTES`] is read to its end and forgotten, so
//! that a plot of a hundred megabytes costs us its reading and no memory, and the next message is understood again.

/// The longest message that is kept. What we want to hear is much shorter: the longest is the list of variables.
pub(crate) const MESSAGE_BYTES: usize = 4 << 20;

/// The most frames of one message that are kept. Jupyter has seven, and some for buffers.
const MESSAGE_FRAMES: usize = 64;

/// What both sides send first.
const GREETING: usize = 64;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// What a socket is, in the words of the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Socket {
    /// Asks and is answered.
    Dealer,
    /// Listens.
    Sub,
}

impl Socket {
    const fn name(self) -> &'static [u8] {
        match self {
            Self::Dealer => b"DEALER",
            Self::Sub => b"SUB",
        }
    }

    /// What we say first: nothing in it depends on what the peer says.
    ///
    /// We give no name. A ROUTER makes one up for each connection then, while one of ours would be there twice when we connect again
    /// before it has noticed the end of the last connection, and it can lose the requests of a name that it has twice.
    pub(crate) fn opening(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(160);
        // The signature, and version 3.0.
        out.extend_from_slice(&[0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0]);
        out.extend_from_slice(b"NULL");
        out.resize(GREETING, 0);
        let mut ready = b"\x05READY".to_vec();
        property(&mut ready, b"Socket-Type", self.name());
        frame(&mut out, COMMAND, &ready);
        out
    }

    /// What we say when the peer is ready, and not before: a subscription, to everything.
    pub(crate) fn then(self) -> Vec<u8> {
        let mut out = Vec::new();
        if self == Self::Sub {
            frame(&mut out, 0, &[1]);
        }
        out
    }
}

fn property(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    // Both are ours and short.
    out.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
    out.extend_from_slice(name);
    out.extend_from_slice(&u32::try_from(value.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(value);
}

fn frame(out: &mut Vec<u8>, flags: u8, body: &[u8]) {
    match u8::try_from(body.len()) {
        Ok(short) => out.extend_from_slice(&[flags, short]),
        Err(_) => {
            out.push(flags | LONG);
            out.extend_from_slice(&u64::try_from(body.len()).unwrap_or(u64::MAX).to_be_bytes());
        }
    }
    out.extend_from_slice(body);
}

/// A message as it goes out.
pub(crate) fn encode(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(frames.iter().map(|body| body.len() + 9).sum());
    for (at, body) in frames.iter().enumerate() {
        frame(&mut out, if at + 1 < frames.len() { MORE } else { 0 }, body);
    }
    out
}

/// What a peer sends makes no sense; the connection is of no use any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Nonsense {
    /// It does not speak ZMTP 3 without a password.
    Greeting,
    /// It refuses us: a command `ERROR`.
    Refused,
}

/// Something that a peer has sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Heard {
    /// It is ready.
    Ready,
    /// A message.
    Message(Vec<Vec<u8>>),
    /// A message that was too long to keep.
    TooLong,
}

/// Where in the stream we are.
enum At {
    Greeting,
    Flags,
    Length { flags: u8 },
    Body { flags: u8, left: u64 },
}

/// Understands what a peer sends, however it is cut into pieces.
pub(crate) struct Decoder {
    at: At,
    /// Bytes of what is fixed in length and not there in full: a greeting or a length.
    partial: Vec<u8>,
    body: Vec<u8>,
    message: Vec<Vec<u8>>,
    /// Bytes in `body` and `message`.
    kept: usize,
    too_long: bool,
}

impl Decoder {
    pub(crate) fn new() -> Self {
        Self {
            at: At::Greeting,
            partial: Vec::new(),
            body: Vec::new(),
            message: Vec::new(),
            kept: 0,
            too_long: false,
        }
    }

    /// Takes what has come, and tells what it means.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<Heard>, Nonsense> {
        let mut heard = Vec::new();
        loop {
            match self.at {
                At::Greeting => {
                    if !self.collect(&mut bytes, GREETING) {
                        return Ok(heard);
                    }
                    if !is_greeting(&self.partial) {
                        return Err(Nonsense::Greeting);
                    }
                    self.at = At::Flags;
                }
                At::Flags => {
                    let Some((flags, rest)) = bytes.split_first() else { return Ok(heard) };
                    bytes = rest;
                    self.partial.clear();
                    self.at = At::Length { flags: *flags };
                }
                At::Length { flags } => {
                    if !self.collect(&mut bytes, if flags & LONG == 0 { 1 } else { 8 }) {
                        return Ok(heard);
                    }
                    let left = self.partial.iter().fold(0_u64, |all, byte| (all << 8) | u64::from(*byte));
                    self.at = At::Body { flags, left };
                }
                At::Body { flags, left } => {
                    let here = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    let (part, rest) = bytes.split_at(here);
                    bytes = rest;
                    self.keep(part);
                    let left = left.saturating_sub(u64::try_from(here).unwrap_or(u64::MAX));
                    if left > 0 {
                        self.at = At::Body { flags, left };
                        return Ok(heard);
                    }
                    self.at = At::Flags;
                    heard.extend(self.end_of_frame(flags)?);
                }
            }
        }
    }

    /// Fills `partial` up to `wanted` bytes; whether they are all there.
    fn collect(&mut self, bytes: &mut &[u8], wanted: usize) -> bool {
        let missing = wanted.saturating_sub(self.partial.len()).min(bytes.len());
        let (part, rest) = bytes.split_at(missing);
        self.partial.extend_from_slice(part);
        *bytes = rest;
        self.partial.len() == wanted
    }

    fn keep(&mut self, part: &[u8]) {
        self.kept = self.kept.saturating_add(part.len());
        if self.kept > MESSAGE_BYTES || self.too_long {
            self.too_long = true;
            self.body = Vec::new();
            self.message = Vec::new();
        } else {
            self.body.extend_from_slice(part);
        }
    }

    fn end_of_frame(&mut self, flags: u8) -> Result<Option<Heard>, Nonsense> {
        let body = std::mem::take(&mut self.body);
        if flags & COMMAND != 0 {
            // Between messages only, so nothing of one is lost.
            self.forget();
            return match body.as_slice() {
                command if command.starts_with(b"\x05READY") => Ok(Some(Heard::Ready)),
                command if command.starts_with(b"\x05ERROR") => Err(Nonsense::Refused),
                _ => Ok(None),
            };
        }
        if self.message.len() == MESSAGE_FRAMES {
            self.too_long = true;
            self.message = Vec::new();
        }
        if !self.too_long {
            self.message.push(body);
        }
        if flags & MORE != 0 {
            return Ok(None);
        }
        let message = std::mem::take(&mut self.message);
        let too_long = self.too_long;
        self.forget();
        Ok(Some(if too_long { Heard::TooLong } else { Heard::Message(message) }))
    }

    fn forget(&mut self) {
        self.message.clear();
        self.kept = 0;
        self.too_long = false;
    }
}

fn is_greeting(bytes: &[u8]) -> bool {
    let version = bytes.get(10).is_some_and(|major| *major >= 3);
    let mechanism = bytes.get(12..32).is_some_and(|name| name.starts_with(b"NULL\0"));
    bytes.first() == Some(&0xff) && bytes.get(9) == Some(&0x7f) && version && mechanism
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn greeted() -> Decoder {
        let mut decoder = Decoder::new();
        let heard = decoder.push(&Socket::Dealer.opening()).unwrap();
        assert_eq!(heard, [Heard::Ready]);
        decoder
    }

    #[test]
    fn a_long_message_costs_nothing_and_the_next_is_understood() {
        let mut decoder = greeted();
        let mut bytes = encode(&[b"topic".to_vec(), vec![7; MESSAGE_BYTES + 1], b"end".to_vec()]);
        bytes.extend(encode(&[b"small".to_vec()]));
        let mut heard = Vec::new();
        for piece in bytes.chunks(60_000) {
            heard.extend(decoder.push(piece).unwrap());
            assert!(decoder.body.capacity() <= 2 * MESSAGE_BYTES);
        }
        assert_eq!(heard, [Heard::TooLong, Heard::Message(vec![b"small".to_vec()])]);
    }

    #[test]
    fn many_frames_and_huge_announcements_make_no_room() {
        let mut decoder = greeted();
        let many = vec![Vec::new(); MESSAGE_FRAMES + 1];
        assert_eq!(decoder.push(&encode(&many)).unwrap(), [Heard::TooLong]);
        // A frame of eight exabytes is announced.
        let announced = [LONG, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3];
        assert_eq!(decoder.push(&announced).unwrap(), []);
        assert!(decoder.body.capacity() < 64);
    }

    #[test]
    fn another_protocol_is_refused() {
        let http = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n123456";
        assert_eq!(Decoder::new().push(http), Err(Nonsense::Greeting));
        let mut curve = Socket::Dealer.opening();
        curve.get_mut(12..17).unwrap().copy_from_slice(b"CURVE");
        assert_eq!(Decoder::new().push(&curve), Err(Nonsense::Greeting));
        let mut refusal = Vec::new();
        frame(&mut refusal, COMMAND, b"\x05ERROR\x02no");
        assert_eq!(greeted().push(&refusal), Err(Nonsense::Refused));
    }

    #[test]
    fn what_a_fuzzer_begins_with_is_understood() {
        let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/kernel_messages");
        let read = |name: &str| {
            let greeting = Socket::Dealer.opening().get(..GREETING).unwrap().to_vec();
            [greeting, std::fs::read(format!("{seeds}/{name}")).unwrap()].concat()
        };
        for (name, messages) in [("status", 3), ("reply", 1), ("request", 1), ("announced", 0)] {
            assert_eq!(super::super::understand(&read(name)), messages, "{name}");
        }
    }

    proptest! {
        #[test]
        fn messages_survive_any_cut(
            messages in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..400), 1..8), 0..6),
            cuts in prop::collection::vec(1_usize..97, 1..40),
        ) {
            let mut bytes = Socket::Dealer.opening();
            for message in &messages {
                bytes.extend(encode(message));
            }
            let mut decoder = Decoder::new();
            let (mut heard, mut rest, mut cut) = (Vec::new(), bytes.as_slice(), cuts.iter().cycle());
            while !rest.is_empty() {
                let (piece, after) = rest.split_at((*cut.next().unwrap()).min(rest.len()));
                heard.extend(decoder.push(piece).unwrap());
                rest = after;
            }
            let mut expected = vec![Heard::Ready];
            expected.extend(messages.into_iter().map(Heard::Message));
            prop_assert_eq!(heard, expected);
        }

        #[test]
        fn nothing_that_is_sent_makes_it_panic_or_grow(noise in prop::collection::vec(any::<u8>(), 0..4000)) {
            let mut decoder = greeted();
            let _ = decoder.push(&noise);
            prop_assert!(decoder.kept <= noise.len());
        }
    }
}
