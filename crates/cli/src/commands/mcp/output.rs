//! What comes of a cell, kept small: text with a beginning and an end, pictures by their sizes.
//!
//! A cell may print for hours, and a model pays for every word. So text is kept as a terminal would leave it, without colours and
//! without the lines that a progress bar wrote over; of what is longer than the limit, the middle is left out. Pictures are
//! told by type and size, and handed over only if somebody asked for them.

use jupyter_bridge::client::{Output, Part};
use rmcp::model::ContentBlock;
use schemars::JsonSchema;
use serde::Serialize;

use crate::format;

/// The longest line that is kept together while it may still be written over, in characters.
const LINE: usize = 4096;
/// The most pictures that are told, and that are handed over.
const PICTURES: (usize, usize) = (20, 4);
/// The most that is handed over of all pictures together, in bytes of base64.
const PICTURE_BYTES: usize = 4 << 20;

/// What a cell raised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Raised {
    /// The kind, `ValueError`.
    name: String,
    /// What it says.
    value: String,
}

/// A picture that a cell showed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Picture {
    /// `image/png` …
    #[serde(rename = "type")]
    mime: String,
    /// How large it is.
    bytes: usize,
    #[serde(skip)]
    data: Option<String>,
}

/// What came of a cell so far.
#[derive(Debug)]
pub(super) struct Collected {
    text: Text,
    pub(super) raised: Option<Raised>,
    pictures: Vec<Picture>,
    /// How many more can be handed over, and how many bytes of them.
    room: (usize, usize),
}

impl Collected {
    /// With at most so many characters of text; `pictures` says whether they are to be handed over.
    pub(super) fn new(limit: usize, pictures: bool) -> Self {
        let room = if pictures { (PICTURES.1, PICTURE_BYTES) } else { (0, 0) };
        Self { text: Text::new(limit), raised: None, pictures: Vec::new(), room }
    }

    pub(super) fn hear(&mut self, output: Output) {
        match output {
            Output::Begun => {}
            Output::Text(_, text) => self.text.push(&text),
            Output::Shown(parts) | Output::Value(parts) => self.show(parts),
            Output::Raised { name, value, traceback } => {
                let told =
                    if traceback.is_empty() { format!("{name}: {value}") } else { traceback.join("\n") };
                self.text.line(&told);
                self.raised = Some(Raised { name: format::safe(&name), value: plain(&value) });
            }
            Output::Cleared => {
                self.text = Text::new(self.text.limit);
                self.pictures.clear();
            }
            Output::TooLong => self.text.line("[an output of more than 4 MiB was left out]"),
        }
    }

    /// The one form that says most in the fewest words.
    fn show(&mut self, mut parts: Vec<Part>) {
        if let Some(at) = parts.iter().position(|part| part.mime.starts_with("image/")) {
            let part = parts.swap_remove(at);
            return self.picture(part);
        }
        let best = ["text/plain", "text/markdown", "text/latex", "text/html"];
        match best.iter().find_map(|mime| parts.iter().find(|part| part.mime == *mime)) {
            Some(part) => self.text.line(&part.content),
            None => {
                for part in parts {
                    let size = format::size(part.content.len().try_into().unwrap_or(u64::MAX));
                    self.text.line(&format!("[{}, {size}]", part.mime));
                }
            }
        }
    }

    fn picture(&mut self, part: Part) {
        // A vector graphic is text; all others come as base64, some with lines.
        let is_text = part.mime == "image/svg+xml";
        let data: String = match is_text {
            true => part.content,
            false => part.content.chars().filter(|character| !character.is_ascii_whitespace()).collect(),
        };
        let bytes = if is_text { data.len() } else { data.trim_end_matches('=').len() * 3 / 4 };
        let size = format::size(bytes.try_into().unwrap_or(u64::MAX));
        self.text.line(&format!("[{}, {size}]", part.mime));
        if self.pictures.len() == PICTURES.0 {
            return;
        }
        let fits = !is_text && self.room.0 > 0 && data.len() <= self.room.1;
        if fits {
            self.room = (self.room.0 - 1, self.room.1 - data.len());
        }
        let mime = format::safe(&part.mime);
        self.pictures.push(Picture { mime, bytes, data: fits.then_some(data) });
    }

    /// The text, how many characters were left out of it, the pictures, and those of them that are handed over.
    pub(super) fn finish(self) -> (String, usize, Vec<Picture>, Vec<ContentBlock>) {
        let (text, left_out) = self.text.finish();
        let mut pictures = self.pictures;
        let handed = pictures
            .iter_mut()
            .filter_map(|one| Some(ContentBlock::image(one.data.take()?, one.mime.clone())))
            .collect();
        (text, left_out, pictures, handed)
    }
}

/// Where in an escape sequence of a terminal we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    None,
    Begun,
    /// `ESC [ … letter`: colours and the cursor.
    Control,
    /// `ESC ] … BEL`: titles and links.
    Title,
}

/// Text as a terminal would leave it, without its middle if it is too long.
#[derive(Debug)]
struct Text {
    limit: usize,
    /// The first half, and how many characters it has.
    head: (String, usize),
    /// The second half.
    tail: std::collections::VecDeque<char>,
    left_out: usize,
    /// The line that may still be written over, and its length in characters.
    line: (String, usize),
    /// Whether what comes next is written over it.
    returned: bool,
    escape: Escape,
}

impl Text {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            head: (String::new(), 0),
            tail: std::collections::VecDeque::new(),
            left_out: 0,
            line: (String::new(), 0),
            returned: false,
            escape: Escape::None,
        }
    }

    /// Something on lines of its own.
    fn line(&mut self, text: &str) {
        if !self.line.0.is_empty() {
            self.push("\n");
        }
        self.push(text);
        if !text.ends_with('\n') {
            self.push("\n");
        }
    }

    fn push(&mut self, text: &str) {
        for character in text.chars() {
            self.put(character);
        }
    }

    fn put(&mut self, character: char) {
        self.escape = match (self.escape, character) {
            (Escape::None, '\u{1b}') => Escape::Begun,
            (Escape::None, _) => return self.write(character),
            (Escape::Begun, '[') => Escape::Control,
            (Escape::Begun, ']') => Escape::Title,
            (Escape::Begun, _) => Escape::None,
            (Escape::Control, '\u{40}'..='\u{7e}') => Escape::None,
            // A line does not end in the midst of a colour: whatever this is, it is none.
            (Escape::Control | Escape::Title, '\n') => {
                self.escape = Escape::None;
                return self.write('\n');
            }
            (Escape::Title, '\u{7}') => Escape::None,
            (Escape::Title, '\u{1b}') => Escape::Begun,
            (within, _) => within,
        };
    }

    fn write(&mut self, character: char) {
        match character {
            '\n' => {
                self.returned = false;
                self.line.0.push('\n');
                self.settle();
            }
            '\r' => self.returned = true,
            '\u{8}' => {
                if self.line.0.pop().is_some() {
                    self.line.1 -= 1;
                }
            }
            other if other.is_control() && other != '\t' => {}
            other => {
                if std::mem::take(&mut self.returned) {
                    self.line = (String::new(), 0);
                }
                self.line.0.push(other);
                self.line.1 += 1;
                if self.line.1 == LINE {
                    self.settle();
                }
            }
        }
    }

    /// Nothing of the line changes any more.
    fn settle(&mut self) {
        let (line, _) = std::mem::take(&mut self.line);
        for character in line.chars() {
            if self.head.1 < self.limit / 2 {
                self.head.0.push(character);
                self.head.1 += 1;
            } else {
                self.tail.push_back(character);
            }
        }
        let room = self.limit - self.limit / 2;
        let over = self.tail.len().saturating_sub(room);
        self.tail.drain(..over);
        self.left_out += over;
    }

    fn finish(mut self) -> (String, usize) {
        self.settle();
        let mut text = self.head.0;
        if self.left_out > 0 {
            text.push_str(&format!("\n[… {} characters left out …]\n", self.left_out));
        }
        text.extend(self.tail);
        (text, self.left_out)
    }
}

/// A short text without colours.
fn plain(said: &str) -> String {
    let mut text = Text::new(1000);
    text.push(said);
    text.finish().0
}

#[cfg(test)]
mod tests {
    use jupyter_bridge::client::Stream;

    use super::*;

    fn left(pieces: &[&str], limit: usize) -> (String, usize) {
        let mut text = Text::new(limit);
        pieces.iter().for_each(|piece| text.push(piece));
        text.finish()
    }

    #[test]
    fn text_is_what_a_terminal_would_leave() {
        assert_eq!(left(&["a\u{1b}[0;31mred\u{1b}[0m\n"], 99).0, "ared\n");
        assert_eq!(left(&["10%\r", "20%", "\r100%\ndone\r\n"], 99).0, "100%\ndone\n");
        assert_eq!(left(&["abc\u{8}\u{8}x\u{0}\ty"], 99).0, "ax\ty");
        // However it is cut.
        assert_eq!(left(&["a\u{1b}", "[1", "mb\u{1b}]0;title\u{7}c"], 99).0, "abc");
        assert_eq!(left(&["\u{1b}]never ended\nnext"], 99).0, "\nnext");
    }

    #[test]
    fn the_middle_of_what_is_too_long_is_left_out() {
        let (text, left_out) = left(&["é".repeat(10).as_str(), "\n", &"z".repeat(20)], 10);
        assert_eq!(text, format!("ééééé\n[… 21 characters left out …]\n{}", "z".repeat(5)));
        assert_eq!(left_out, 21);
        assert_eq!(left(&["0123456789"], 10), ("0123456789".to_owned(), 0));
    }

    #[test]
    fn hours_of_printing_take_no_more_memory_than_a_minute() {
        let mut text = Text::new(1000);
        for number in 0..200_000 {
            text.push(&format!("{number}\r"));
            text.push("line\n");
        }
        // One line that never ends.
        for _ in 0..100 {
            text.push(&"x".repeat(LINE));
        }
        assert!(text.head.0.capacity() + text.tail.capacity() * 4 + text.line.0.capacity() < 64 << 10);
        assert_eq!(text.finish().1, 200_000 * 5 + 100 * LINE - 1000);
    }

    fn of(mime: &str, content: &str) -> Part {
        Part { mime: mime.into(), content: content.into() }
    }

    #[test]
    fn pictures_are_told_by_size_and_handed_over_if_asked_for() {
        let figure = || Output::Shown(vec![of("text/plain", "<Figure>"), of("image/png", "aGVs\nbG8=\n")]);
        let mut told = Collected::new(1000, false);
        told.hear(Output::Text(Stream::Out, "no newline".into()));
        told.hear(figure());
        let (text, _, pictures, handed) = told.finish();
        assert_eq!(text, "no newline\n[image/png, 5 B]\n");
        assert_eq!((pictures[0].bytes, handed.len()), (5, 0));

        let mut asked = Collected::new(1000, true);
        (0..30).for_each(|_| asked.hear(figure()));
        asked.hear(Output::Shown(vec![of("image/svg+xml", "<svg/>")]));
        let (_, _, pictures, handed) = asked.finish();
        assert_eq!((pictures.len(), handed.len()), PICTURES);
        assert_eq!(handed[0].as_image().unwrap().data, "aGVsbG8=");
    }

    #[test]
    fn of_several_forms_the_plainest_is_shown_and_a_clear_is_one() {
        let mut collected = Collected::new(1000, false);
        collected.hear(Output::Text(Stream::Out, "old".into()));
        collected.hear(Output::Cleared);
        collected.hear(Output::Value(vec![of("text/html", "<b>1</b>"), of("text/plain", "1")]));
        collected.hear(Output::Shown(vec![of("application/x", "abc")]));
        collected.hear(Output::Raised {
            name: "KeyError".into(),
            value: "\u{1b}[1m'a'".into(),
            traceback: vec!["\u{1b}[31mTraceback".into(), "KeyError: 'a'".into()],
        });
        let raised = collected.raised.clone().unwrap();
        assert_eq!(raised, Raised { name: "KeyError".into(), value: "'a'".into() });
        let (text, ..) = collected.finish();
        assert_eq!(text, "1\n[application/x, 3 B]\nTraceback\nKeyError: 'a'\n");
    }
}
