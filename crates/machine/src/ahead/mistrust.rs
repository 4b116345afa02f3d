//! Sessions that are not followed any more.
//!
//! One page that was written without being noticed means that something is wrong with how that program is followed, and nobody knows what.
//! Its session is dumped plainly from then on, for as long as there is the session: through rollbacks, restarts, and other daemons. So it is
//! written down among what is kept of the session, and goes with it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use lifecycle::SessionId;
use lifecycle::ports::Place;

/// The file that says why.
const NOT_FOLLOWED: &str = "not-followed";

/// Which sessions are not followed any more, and why. All clones are one.
#[derive(Clone, Debug)]
pub(crate) struct Mistrust {
    place: Place,
    /// Those that could not be written down.
    unwritten: Arc<Mutex<BTreeMap<SessionId, String>>>,
}

impl Mistrust {
    pub(crate) fn new(place: &Place) -> Self {
        Self { place: place.clone(), unwritten: Arc::default() }
    }

    fn file(&self, session: &SessionId) -> PathBuf {
        self.place.session(session).join(NOT_FOLLOWED)
    }

    /// A session is not followed from here on.
    pub(crate) fn begin(&self, session: &SessionId, why: &str) {
        let write = || -> io::Result<()> {
            let mut file = File::create(self.file(session))?;
            file.write_all(why.as_bytes())?;
            file.sync_all()
        };
        if write().is_err() {
            let mut unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
            unwritten.insert(session.clone(), why.to_owned());
        }
    }

    /// Why a session is not followed any more, if that is so. Where it cannot be found out, it is not followed.
    pub(crate) fn of(&self, session: &SessionId) -> Option<String> {
        let unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = unwritten.get(session) {
            return Some(why.clone());
        }
        match fs::read(self.file(session)) {
            Ok(why) => Some(String::from_utf8_lossy(&why).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(error.to_string()),
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        let unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut all: BTreeMap<String, String> =
            unwritten.into_iter().map(|(session, why)| (session.to_string(), why)).collect();
        for entry in fs::read_dir(self.place.sessions()).into_iter().flatten().flatten() {
            if let Ok(why) = fs::read(entry.path().join(NOT_FOLLOWED)) {
                let session = entry.file_name().to_string_lossy().into_owned();
                all.insert(session, String::from_utf8_lossy(&why).into_owned());
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_kept_with_the_session_and_goes_with_it() {
        let home = tempfile::tempdir().unwrap();
        let place = Place::open(&home.path().join("state"), &home.path().join("run")).unwrap();
        let [odd, even] = [SessionId::random().unwrap(), SessionId::random().unwrap()];
        fs::create_dir(place.session(&odd)).unwrap();
        Mistrust::new(&place).begin(&odd, "page 1000");
        // Another daemon.
        let mistrust = Mistrust::new(&place);
        assert_eq!((mistrust.of(&odd).as_deref(), mistrust.of(&even)), (Some("page 1000"), None));
        assert_eq!(mistrust.all(), BTreeMap::from([(odd.to_string(), "page 1000".to_owned())]));
        fs::remove_dir_all(place.session(&odd)).unwrap();
        assert_eq!(mistrust.of(&odd), None);
    }

    #[test]
    fn what_cannot_be_written_down_is_remembered() {
        let home = tempfile::tempdir().unwrap();
        let place = Place::open(&home.path().join("state"), &home.path().join("run")).unwrap();
        let session = SessionId::random().unwrap();
        let mistrust = Mistrust::new(&place);
        // There is no directory for it.
        mistrust.begin(&session, "page 2000");
        assert_eq!(mistrust.of(&session).as_deref(), Some("page 2000"));
        assert_eq!(mistrust.all().len(), 1);
    }

    #[test]
    fn what_cannot_be_read_is_not_trusted() {
        let home = tempfile::tempdir().unwrap();
        let place = Place::open(&home.path().join("state"), &home.path().join("run")).unwrap();
        let session = SessionId::random().unwrap();
        fs::create_dir_all(place.session(&session).join(NOT_FOLLOWED)).unwrap();
        assert!(Mistrust::new(&place).of(&session).is_some());
    }
}
