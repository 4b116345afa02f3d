//! Server-sent events, as <https://html.spec.whatwg.org/multipage/server-sent-events.html> describes them: lines
//! `field: value`, an empty line after each event, lines that begin with a colon to keep the connection alive.

use anyhow::Result;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::error::CliError;

/// A longer event is not believed.
const LIMIT: usize = 64 << 20;

/// Cuts a stream of bytes into events.
#[derive(Debug, Default)]
pub(super) struct Parser {
    line: Vec<u8>,
    data: String,
    has_data: bool,
}

impl Parser {
    /// Takes bytes as they come, returns the `data` of each event that is now whole.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<String>, CliError> {
        let mut events = Vec::new();
        for byte in bytes {
            if *byte != b'\n' {
                self.line.push(*byte);
                if self.line.len() + self.data.len() > LIMIT {
                    return Err(nonsense("an event is too long"));
                }
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            if line.is_empty() {
                if std::mem::take(&mut self.has_data) {
                    events.push(std::mem::take(&mut self.data));
                }
                continue;
            }
            // What an event is called and its number stand in the data too.
            if let Some(value) = line.strip_prefix(b"data:") {
                let value = value.strip_prefix(b" ").unwrap_or(value);
                let value = std::str::from_utf8(value).map_err(|_| nonsense("an event is not UTF-8"))?;
                if self.has_data {
                    self.data.push('\n');
                }
                self.data.push_str(value);
                self.has_data = true;
            }
        }
        Ok(events)
    }
}

fn nonsense(detail: &str) -> CliError {
    CliError::Answer { request: "a stream of events".into(), detail: detail.into() }
}

/// A stream of events, as it arrives.
#[derive(Debug)]
pub(super) struct Events {
    body: Incoming,
    parser: Parser,
    ready: std::collections::VecDeque<String>,
}

impl Events {
    pub(super) fn new(body: Incoming) -> Self {
        Self { body, parser: Parser::default(), ready: std::collections::VecDeque::new() }
    }

    /// The next event; `None` if the stream ended or broke. May be dropped while it waits: nothing is lost.
    pub(super) async fn next(&mut self) -> Result<Option<api::Event>> {
        loop {
            if let Some(data) = self.ready.pop_front() {
                let event = serde_json::from_str(&data).map_err(|error| nonsense(&error.to_string()))?;
                return Ok(Some(event));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Some(bytes) = frame.data_ref() {
                        self.ready.extend(self.parser.feed(bytes)?);
                    }
                }
                Some(Err(_)) | None => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_whole_however_they_are_cut() {
        let stream = ": hello\n\nid: 7\nevent: x\ndata: {\"a\":\ndata: 1}\r\n\r\ndata:two\n\ndata\n\nid: 9\n\ndata: half";
        for size in 1..stream.len() {
            let mut parser = Parser::default();
            let mut events = Vec::new();
            for piece in stream.as_bytes().chunks(size) {
                events.extend(parser.feed(piece).unwrap());
            }
            assert_eq!(events, ["{\"a\":\n1}", "two"], "in pieces of {size}");
        }
    }

    #[test]
    fn what_is_not_text_is_refused() {
        Parser::default().feed(b"data: \xff\n").unwrap_err();
    }
}
