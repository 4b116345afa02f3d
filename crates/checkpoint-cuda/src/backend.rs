//! How the worker reaches the driver: by its library, or by the program `cuda-checkpoint` where only that exists.

use std::path::Path;

use crate::driver::{self, Capabilities};
use crate::protocol::{Answer, Ask};
use crate::sys::{Library, LoadError, Moved};
use crate::tool::Tool;

/// The way to the driver, or why there is none.
pub(crate) enum Backend {
    Api(Library),
    Tool(Tool),
    None(LoadError),
}

impl Backend {
    /// The library if it has the calls, else the program, else neither.
    pub(crate) fn open(library: Option<&Path>, tool: Option<&Path>) -> Self {
        match Library::open(library) {
            Ok(library) => Self::Api(library),
            Err(error) => Tool::find(tool).map_or(Self::None(error), Self::Tool),
        }
    }

    /// Makes the call.
    pub(crate) fn answer(&self, ask: &Ask) -> Answer {
        match self {
            Self::Api(library) => by_library(library, ask),
            Self::Tool(tool) => tool.answer(ask),
            Self::None(LoadError::Missing(detail)) => Answer::NoDriver { detail: detail.clone() },
            Self::None(LoadError::TooOld { cuda_version, missing }) => {
                Answer::TooOld { cuda_version: *cuda_version, missing: (*missing).to_owned() }
            }
        }
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
            backend: driver::Backend::Api,
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
