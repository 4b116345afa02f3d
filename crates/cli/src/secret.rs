//! Passphrases and key files.
//!
//! A passphrase comes from a file or, on a terminal, from the keyboard. While it is typed, the terminal neither echoes nor
//! acts on Ctrl-C: we see the key press ourselves, so that the terminal is as it was before the program ends. A program that
//! is not at a terminal is never kept waiting for one.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;

use anyhow::Result;
use cas_core::StoreError;
use cas_core::crypto::{SlotInfo, Unlock};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

use crate::args::Global;
use crate::error::CliError;

/// A longer file is not what was meant.
const LIMIT: usize = 1 << 20;

/// What the global options give to open a store with; any of them may be right.
pub(crate) fn given(global: &Global) -> Result<Vec<Unlock>> {
    let mut unlocks = Vec::new();
    if let Some(path) = &global.key_file {
        unlocks.push(key_file(path)?);
    }
    if let Some(path) = &global.passphrase_file {
        unlocks.push(passphrase_file(path)?);
    }
    Ok(unlocks)
}

/// A key file.
pub(crate) fn key_file(path: &Path) -> Result<Unlock> {
    Ok(Unlock::KeyFile(read(path)?))
}

/// A file with a passphrase. One line end after it does not count, because editors and `echo` add one.
pub(crate) fn passphrase_file(path: &Path) -> Result<Unlock> {
    let content = read(path)?;
    let text = std::str::from_utf8(&content).map_err(|_| StoreError::Invalid {
        what: format!("the passphrase in `{}` is not UTF-8", path.display()),
    })?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    Ok(Unlock::Passphrase(Zeroizing::new(text.to_owned())))
}

/// A passphrase from the keyboard.
pub(crate) fn asked(root: &Path, prompt: &str) -> Result<Unlock> {
    if !io::stdin().is_terminal() {
        return Err(StoreError::KeyNeeded { path: root.to_path_buf() }.into());
    }
    Ok(Unlock::Passphrase(typed(prompt)?))
}

/// A new passphrase from the keyboard, typed twice.
pub(crate) fn asked_twice(root: &Path) -> Result<Unlock> {
    if !io::stdin().is_terminal() {
        return Err(StoreError::KeyNeeded { path: root.to_path_buf() }.into());
    }
    let first = typed("new passphrase: ")?;
    if *typed("once more: ")? != *first {
        return Err(CliError::Usage { what: "the two passphrases differ".into() }.into());
    }
    Ok(Unlock::Passphrase(first))
}

/// What people call a way to open a store.
pub(crate) fn sort_of(unlock: &Unlock) -> &'static str {
    match unlock {
        Unlock::Passphrase(_) => "passphrase",
        Unlock::KeyFile(_) => "key_file",
    }
}

/// The same for a slot of the keyring.
pub(crate) const fn sort_of_slot(slot: &SlotInfo) -> &'static str {
    match slot {
        SlotInfo::Passphrase(_) => "passphrase",
        SlotInfo::KeyFile => "key_file",
    }
}

fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>> {
    let file = File::open(path).map_err(StoreError::io("open", path))?;
    // All room is there from the start: growing would leave copies of the secret behind.
    let mut content = Zeroizing::new(Vec::with_capacity(LIMIT + 1));
    file.take(LIMIT as u64 + 1).read_to_end(&mut content).map_err(StoreError::io("read", path))?;
    if content.len() > LIMIT {
        let what = format!("`{}` is longer than 1 MiB: is it the right file?", path.display());
        return Err(StoreError::Invalid { what }.into());
    }
    Ok(content)
}

/// Puts the terminal back as it was.
struct Restore(Termios);

impl Drop for Restore {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
        let _ = writeln!(io::stderr());
    }
}

fn typed(prompt: &str) -> Result<Zeroizing<String>> {
    let failed = |error: rustix::io::Errno| StoreError::io("read from", "the terminal")(error.into());
    let _ = write!(io::stderr(), "{prompt}");
    let before = tcgetattr(io::stdin()).map_err(failed)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
    silent.special_codes[SpecialCodeIndex::VMIN] = 1;
    silent.special_codes[SpecialCodeIndex::VTIME] = 0;
    let restore = Restore(before);
    tcsetattr(io::stdin(), OptionalActions::Flush, &silent).map_err(failed)?;
    let mut keys = Keys::default();
    let done = loop {
        let mut byte = Zeroizing::new([0]);
        match rustix::io::read(io::stdin(), &mut *byte) {
            Ok(0) => break Done::Entered,
            Ok(_) => {
                if let Some(done) = keys.press(byte[0]) {
                    break done;
                }
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed(error).into()),
        }
    };
    drop(restore);
    match done {
        Done::Interrupted => Err(CliError::Interrupted.into()),
        Done::Entered => keys.text(),
    }
}

/// A line being typed.
#[derive(Default)]
struct Keys(Zeroizing<Vec<u8>>);

#[derive(Debug, PartialEq, Eq)]
enum Done {
    Entered,
    Interrupted,
}

impl Keys {
    fn press(&mut self, key: u8) -> Option<Done> {
        const CTRL_C: u8 = 3;
        const CTRL_D: u8 = 4;
        const BACKSPACE: u8 = 8;
        const CTRL_U: u8 = 21;
        const DELETE: u8 = 127;
        match key {
            CTRL_C => return Some(Done::Interrupted),
            b'\n' | b'\r' | CTRL_D => return Some(Done::Entered),
            // A character may have several bytes; all but its first begin with the bits 10.
            BACKSPACE | DELETE => while self.0.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {},
            CTRL_U => self.0.clear(),
            other => self.0.push(other),
        }
        None
    }

    fn text(&self) -> Result<Zeroizing<String>> {
        let text = std::str::from_utf8(&self.0)
            .map_err(|_| StoreError::Invalid { what: "the passphrase is not UTF-8".into() })?;
        Ok(Zeroizing::new(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn type_in(keys: &[u8]) -> (Option<Done>, String) {
        let mut line = Keys::default();
        let done = keys.iter().find_map(|key| line.press(*key));
        (done, line.text().unwrap().to_string())
    }

    #[test]
    fn keys_do_what_they_do_in_a_shell() {
        assert_eq!(type_in(b"abc\n"), (Some(Done::Entered), "abc".into()));
        assert_eq!(type_in("aé\x7f\x7fb\r".as_bytes()), (Some(Done::Entered), "b".into()));
        assert_eq!(type_in(b"wrong\x15right\n"), (Some(Done::Entered), "right".into()));
        assert_eq!(type_in(b"ab\x03c").0, Some(Done::Interrupted));
        assert_eq!(type_in(b"\x7f"), (None, String::new()));
    }

    #[test]
    fn one_line_end_after_a_passphrase_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p");
        for (content, expected) in
            [("a b\n", "a b"), ("a b\r\n", "a b"), ("a b", "a b"), ("a\n\n", "a\n"), (" a ", " a ")]
        {
            std::fs::write(&path, content).unwrap();
            let Unlock::Passphrase(text) = passphrase_file(&path).unwrap() else { panic!() };
            assert_eq!(text.as_str(), expected);
        }
    }
}
