//! Everything that is shown. Data goes to stdout, everything else to stderr, and with `--json` both are JSON, one object
//! per line.

use std::cell::RefCell;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use serde::Serialize;

use crate::args::{Colour, Global};
use crate::error::CliError;
use crate::exit::Facts;

/// Where output goes and how it looks.
#[derive(Debug)]
pub(crate) struct Printer {
    json: bool,
    quiet: bool,
    verbose: bool,
    style: Style,
    error_style: Style,
    out: RefCell<BufWriter<Stdout>>,
}

/// Colour or none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    colour: bool,
}

impl Style {
    fn chosen(colour: Colour, is_terminal: bool) -> Self {
        let wanted = || {
            let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
            is_terminal && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
        };
        let colour = match colour {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => wanted(),
        };
        Self { colour }
    }

    /// None, for tests.
    #[cfg(test)]
    pub(crate) const fn plain() -> Self {
        Self { colour: false }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn id(self, text: &str) -> String {
        self.paint("33", text)
    }

    pub(crate) fn name(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(crate) fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(crate) fn warn(self, text: &str) -> String {
        self.paint("33", text)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.paint("1;31", text)
    }
}

#[derive(Serialize)]
struct ExitError<'a> {
    message_type: &'static str,
    code: Option<&'a str>,
    exit: u8,
    message: String,
    causes: Vec<String>,
    hint: Option<&'a str>,
}

#[derive(Serialize)]
struct Warning<'a> {
    message_type: &'static str,
    message: &'a str,
}

impl Printer {
    pub(crate) fn new(global: &Global) -> Self {
        Self {
            json: global.json,
            quiet: global.quiet,
            verbose: global.verbose,
            style: Style::chosen(global.color, io::stdout().is_terminal()),
            error_style: Style::chosen(global.color, io::stderr().is_terminal()),
            out: RefCell::new(BufWriter::new(io::stdout())),
        }
    }

    /// For a command line that could not be understood, except that it asks for JSON.
    pub(crate) fn json_only() -> Self {
        let style = Style { colour: false };
        let out = RefCell::new(BufWriter::new(io::stdout()));
        Self { json: true, quiet: false, verbose: false, style, error_style: style, out }
    }

    /// Whether data is to be JSON.
    pub(crate) const fn is_json(&self) -> bool {
        self.json
    }

    /// How data looks.
    pub(crate) const fn style(&self) -> Style {
        self.style
    }

    /// How wide the terminal is; `None` if data does not go to one.
    pub(crate) fn width() -> Option<usize> {
        let stdout = io::stdout();
        if !stdout.is_terminal() {
            return None;
        }
        rustix::termios::tcgetwinsize(stdout)
            .ok()
            .map(|size| usize::from(size.ws_col))
            .filter(|width| *width > 0)
    }

    /// One line of data, for people.
    pub(crate) fn line(&self, text: &str) -> Result<(), CliError> {
        writeln!(self.out.borrow_mut(), "{text}").map_err(CliError::Output)
    }

    /// One object of data, for programs.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<(), CliError> {
        let mut out = self.out.borrow_mut();
        serde_json::to_writer(&mut *out, value).map_err(|error| CliError::Output(error.into()))?;
        out.write_all(b"\n").map_err(CliError::Output)
    }

    /// Data as an object for programs or as lines for people.
    pub(crate) fn data(&self, value: &impl Serialize, lines: &[String]) -> Result<(), CliError> {
        if self.json { self.json(value) } else { lines.iter().try_for_each(|line| self.line(line)) }
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), CliError> {
        self.out.borrow_mut().write_all(bytes).map_err(CliError::Output)
    }

    /// Must be called at the end: only now it is known whether all could be written.
    pub(crate) fn flush(&self) -> Result<(), CliError> {
        self.out.borrow_mut().flush().map_err(CliError::Output)
    }

    /// Bytes as they are, to stderr.
    pub(crate) fn error_bytes(&self, bytes: &[u8]) {
        let _ = io::stderr().write_all(bytes);
    }

    /// Something worth knowing that is not data. Programs get it from the data.
    pub(crate) fn note(&self, text: &str) {
        if !self.json && !self.quiet {
            self.complain(text);
        }
    }

    /// Something that only those want who asked for more.
    pub(crate) fn detail(&self, text: &str) {
        if self.verbose {
            self.note(text);
        }
    }

    /// Something that may be wrong.
    pub(crate) fn warning(&self, text: &str) {
        if self.json {
            self.complain_json(&Warning { message_type: "warning", message: text });
        } else {
            self.complain(&format!("{}: {text}", self.error_style.bold("warning")));
        }
    }

    /// Why it failed: the whole chain, once.
    pub(crate) fn exit_error(&self, error: &anyhow::Error) {
        let facts = Facts::of(error);
        let chain = error.chain().skip(1).map(ToString::to_string);
        let causes: Vec<String> =
            chain.chain(facts.more_causes).map(|cause| crate::format::safe(&cause)).collect();
        let message = crate::format::safe(&error.to_string());
        let (code, hint) = (facts.code.as_deref(), facts.hint.as_deref());
        if self.json {
            let message_type = "exit_error";
            self.complain_json(&ExitError { message_type, code, exit: facts.exit, message, causes, hint });
            return;
        }
        let code = code.map(|code| format!("[{}]", crate::format::safe(code))).unwrap_or_default();
        self.complain(&format!("{}: {message}", self.error_style.bad(&format!("error{code}"))));
        for cause in causes {
            self.complain(&format!("  caused by: {cause}"));
        }
        for hint in hint.iter().flat_map(|hint| hint.lines()) {
            self.complain(&format!("  {}: {}", self.error_style.bold("hint"), crate::format::safe(hint)));
        }
    }

    /// Nothing can be done about a stderr that cannot be written to.
    fn complain(&self, line: &str) {
        let _ = writeln!(io::stderr(), "{line}");
    }

    /// An object for programs that is not data.
    pub(crate) fn complain_json(&self, value: &impl Serialize) {
        if let Ok(line) = serde_json::to_string(value) {
            self.complain(&line);
        }
    }
}
