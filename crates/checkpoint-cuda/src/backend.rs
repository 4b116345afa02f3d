//! How the worker reaches the driver: by its library, or by the program `cuda-checkpoint` where only that exists; and by the
//! helper, where the driver does not let this user do it and an administrator does.

use std::path::Path;

use rustix::process::geteuid;

use crate::facts::{self, Capabilities};
use crate::helper::client::{Helper, Trouble};
use crate::helper::message::{self, Request};
use crate::protocol::{Answer, Ask};
use crate::sys::layout::{self, code};
use crate::sys::{Library, LoadError, Moved};
use crate::tool::Tool;

/// The ways to the driver.
pub(crate) struct Backend {
    own: Own,
    helper: Helper,
}

/// The way as this process, or why there is none.
enum Own {
    Api(Library),
    Tool(Tool),
    None(LoadError),
}

impl Backend {
    /// The library if it has the calls, else the program, else neither.
    pub(crate) fn open(library: Option<&Path>, tool: Option<&Path>, helper: &Path) -> Self {
        let own = match Library::open(library) {
            Ok(library) => Own::Api(library),
            Err(error) => Tool::find(tool).map_or(Own::None(error), Own::Tool),
        };
        Self { own, helper: Helper::new(helper) }
    }

    /// Makes the call: as this user, and if the driver does not permit that, by the helper.
    pub(crate) fn answer(&self, ask: &Ask) -> Answer {
        match self.as_this_user(ask) {
            // Taken to mean that nothing was done: the question is on the list of docs/hardware.md.
            Answer::Code { code: code::NOT_PERMITTED, name } if !geteuid().is_root() => {
                self.by_helper(ask, name)
            }
            answer => answer,
        }
    }

    /// Makes the call without the helper.
    pub(crate) fn as_this_user(&self, ask: &Ask) -> Answer {
        match &self.own {
            Own::Api(library) => by_library(library, ask),
            Own::Tool(tool) => tool.answer(ask),
            Own::None(LoadError::Missing(detail)) => Answer::NoDriver { detail: detail.clone() },
            Own::None(LoadError::TooOld { cuda_version, missing }) => {
                Answer::TooOld { cuda_version: *cuda_version, missing: (*missing).to_owned() }
            }
        }
    }

    fn by_helper(&self, ask: &Ask, name: String) -> Answer {
        let Some((pid, request)) = for_helper(ask) else {
            return Answer::Code { code: code::NOT_PERMITTED, name };
        };
        let failed = |detail: String| Answer::Helper { detail };
        match self.helper.ask(pid, &request) {
            Ok(message::Answer::Done(number)) => match request {
                Request::Thread | Request::State => Answer::Number(number),
                _ => Answer::Done,
            },
            Ok(message::Answer::Code(code)) => Answer::Code { code, name: self.name(code) },
            Ok(message::Answer::Refused(why)) => failed(why.sentence().to_owned()),
            Err(Trouble::Absent) => Answer::NotPermitted { name },
            Err(Trouble::Failed(error)) => failed(error.to_string()),
        }
    }

    fn name(&self, code: i32) -> String {
        match &self.own {
            Own::Api(library) => library.name(code),
            _ => layout::name(code).unwrap_or("an unknown error").to_owned(),
        }
    }
}

/// What the helper is asked; it copies no device memory, because it opens no file.
fn for_helper(ask: &Ask) -> Option<(i32, Request)> {
    match ask {
        Ask::Thread { pid } => Some((*pid, Request::Thread)),
        Ask::State { pid } => Some((*pid, Request::State)),
        Ask::Lock { pid, timeout_ms } => Some((*pid, Request::Lock { timeout_ms: *timeout_ms })),
        Ask::Checkpoint { pid, storage: None } => Some((*pid, Request::Checkpoint)),
        Ask::Restore { pid, pairs, storage: None } => Some((*pid, Request::Restore { pairs: pairs.clone() })),
        Ask::Unlock { pid } => Some((*pid, Request::Unlock)),
        Ask::Hello | Ask::Checkpoint { .. } | Ask::Restore { .. } => None,
    }
}

fn by_library(library: &Library, ask: &Ask) -> Answer {
    let code = |code: i32| Answer::Code { code, name: library.name(code) };
    let done = |result: Result<(), i32>| result.map_or_else(code, |()| Answer::Done);
    let moved = |moved: Moved| match moved {
        Moved::Done => Answer::Done,
        Moved::Code(number) => code(number),
        Moved::Failed(detail) => Answer::Failed { detail },
    };
    match ask {
        Ask::Hello => Answer::Hello(Capabilities {
            backend: facts::Backend::Api,
            cuda_version: library.cuda_version(),
            pairs: library.pairs(),
            custom_storage: library.custom_storage(),
        }),
        Ask::Thread { pid } => library.restore_thread(*pid).map_or_else(code, Answer::Number),
        Ask::State { pid } => library.state(*pid).map_or_else(code, |state| Answer::Number(state.into())),
        Ask::Lock { pid, timeout_ms } => done(library.lock(*pid, *timeout_ms)),
        Ask::Checkpoint { pid, storage: None } => done(library.checkpoint(*pid)),
        Ask::Checkpoint { pid, storage: Some(directory) } => moved(library.checkpoint_to(*pid, directory)),
        Ask::Restore { pid, pairs, storage: None } => done(library.restore(*pid, pairs)),
        Ask::Restore { pid, pairs, storage: Some(directory) } => {
            moved(library.restore_from(*pid, pairs, directory))
        }
        Ask::Unlock { pid } => done(library.unlock(*pid)),
    }
}
