//! A server of this process's own: small objects in memory, others in files. What counts requests does not need a network.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use remote::{Condition, Listed, Objects, Put, RemoteError, Result, Version};

/// Longer ones go to files.
const IN_MEMORY: usize = 64 << 10;

#[derive(Debug)]
enum Content {
    Memory(Vec<u8>),
    File(PathBuf, u64),
}

#[derive(Debug, Default)]
struct State {
    objects: HashMap<String, (u64, Content)>,
    puts: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Files {
    dir: PathBuf,
    state: Mutex<State>,
}

impl Files {
    pub(super) fn new(dir: PathBuf) -> std::io::Result<Self> {
        fs::create_dir_all(&dir)?;
        Ok(Self { dir, state: Mutex::default() })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(key: &str) -> impl FnOnce(std::io::Error) -> RemoteError {
    let key = key.to_owned();
    move |error| RemoteError::Request { action: "reach", key, transient: false, source: error.into() }
}

impl Objects for Files {
    fn get(&self, key: &str, _limit: u64) -> Result<Option<(Vec<u8>, Version)>> {
        let state = self.state();
        let Some((version, content)) = state.objects.get(key) else { return Ok(None) };
        let bytes = match content {
            Content::Memory(bytes) => bytes.clone(),
            Content::File(path, _) => fs::read(path).map_err(failed(key))?,
        };
        Ok(Some((bytes, Version(version.to_string()))))
    }

    fn get_range(&self, key: &str, offset: u64, len: u64) -> Result<Option<Vec<u8>>> {
        let state = self.state();
        let Some((_, content)) = state.objects.get(key) else { return Ok(None) };
        let ends = || failed(key)(std::io::ErrorKind::UnexpectedEof.into());
        let length = usize::try_from(len).map_err(|_| ends())?;
        let start = usize::try_from(offset).map_err(|_| ends())?;
        match content {
            Content::Memory(bytes) => {
                let part = start.checked_add(length).and_then(|end| bytes.get(start..end));
                Ok(Some(part.ok_or_else(ends)?.to_vec()))
            }
            Content::File(path, _) => {
                let mut part = vec![0; length];
                let read = fs::File::open(path).and_then(|file| file.read_exact_at(&mut part, offset));
                read.map_err(failed(key))?;
                Ok(Some(part))
            }
        }
    }

    fn get_up_to(&self, key: &str, offset: u64, len: u64) -> Result<Option<Vec<u8>>> {
        let length = match self.state().objects.get(key) {
            None => return Ok(None),
            Some((_, Content::Memory(bytes))) => bytes.len() as u64,
            Some((_, Content::File(_, length))) => *length,
        };
        self.get_range(key, offset.min(length), len.min(length.saturating_sub(offset)))
    }

    fn put(&self, key: &str, bytes: Vec<u8>, condition: &Condition) -> Result<Put> {
        let mut state = self.state();
        let there = state.objects.get(key).map(|(version, _)| Version(version.to_string()));
        let holds = match condition {
            Condition::Absent => there.is_none(),
            Condition::Is(version) => there.as_ref() == Some(version),
        };
        if !holds {
            return Ok(Put::Refused);
        }
        state.puts += 1;
        let version = state.puts;
        let content = if bytes.len() <= IN_MEMORY {
            Content::Memory(bytes)
        } else {
            let path = self.dir.join(version.to_string());
            fs::write(&path, &bytes).map_err(failed(key))?;
            Content::File(path, bytes.len() as u64)
        };
        let old = state.objects.insert(key.to_owned(), (version, content));
        if let Some((_, Content::File(path, _))) = old {
            fs::remove_file(path).map_err(failed(key))?;
        }
        Ok(Put::Done(Version(version.to_string())))
    }

    fn delete(&self, key: &str) -> Result<()> {
        let old = self.state().objects.remove(key);
        if let Some((_, Content::File(path, _))) = old {
            fs::remove_file(path).map_err(failed(key))?;
        }
        Ok(())
    }

    fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        let state = self.state();
        let size = |content: &Content| match content {
            Content::Memory(bytes) => bytes.len() as u64,
            Content::File(_, length) => *length,
        };
        let listed = |(key, (_, content)): (&String, &(u64, Content))| Listed {
            key: key.clone(),
            size: size(content),
        };
        Ok(state.objects.iter().filter(|(key, _)| key.starts_with(prefix)).map(listed).collect())
    }
}
