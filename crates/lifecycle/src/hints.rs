//! The way out of each error, in words for people.
//!
//! An engine knows its own ways out; here are those that only the whole can know.

use crate::error::LifecycleError;
use crate::ports::Means;

impl LifecycleError {
    /// The way out, where there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint().map(str::to_owned),
            Self::Manifest(error) => error.hint().map(str::to_owned),
            Self::Criu(error) => error.hint(),
            Self::Sandbox(error) => error.hint(),
            Self::Jupyter(error) => error.hint(),
            Self::Engine(error) => error.hint.clone(),
            Self::NoSuchSession { .. } => Some("`infinijup ps` lists your sessions".to_owned()),
            Self::AmbiguousSession { .. } => Some("give more of the id, or the whole name".to_owned()),
            Self::Busy { .. } => Some("wait for it to end, then try again".to_owned()),
            Self::NameTaken { .. } => Some("choose another name, or remove that session".to_owned()),
            Self::EndedAtOnce { log, .. } if !log.is_empty() => {
                Some(format!("its log ends with: {}", log.join(" / ")))
            }
            Self::PutBack { source, .. } => source.hint(),
            Self::LeftSuspended { session, .. } => {
                Some(format!("`infinijup resume {session}` tries again to bring it up"))
            }
            Self::NoPlaceOnGpus { .. } => Some(
                "free memory on the GPUs (`infinijup ps` shows who has it), or choose others with --gpus".to_owned(),
            ),
            Self::LeftOnGpu { .. } => Some(
                "a process that was forked after CUDA was used keeps its descriptors: end it, or start it by spawn"
                    .to_owned(),
            ),
            Self::SuspendedByGpu { session, source, .. } => Some(match source.hint() {
                Some(hint) => format!("{hint}; then `infinijup resume {session}`"),
                None => format!("`infinijup resume {session}` brings it up again, also on other GPUs (--gpus)"),
            }),
            Self::GpuStuck { source, .. }
                if matches!(&**source, Self::Engine(said) if said.means == Means::Lost) =>
            {
                Some(
                    "trying again cannot help: `infinijup rollback --force` goes back to a snapshot without keeping what is \
                     left of it"
                        .to_owned(),
                )
            }
            Self::GpuStuck { source, .. } => Some(match source.hint() {
                Some(hint) => format!("{hint}; `infinijup resume` tries again"),
                None => "`infinijup resume` tries again".to_owned(),
            }),
            Self::History(error) => error.hint().map(str::to_owned),
            Self::Unfinished { .. } => {
                Some("`infinijup daemon start` finishes them; then try again".to_owned())
            }
            Self::NoGpuProgram { .. } => Some("reinstall, or name it with --gpu-program".to_owned()),
            Self::FilesChanged { .. } => Some(
                "copy it to another place; then try again, when you remove a session with --discard-files".to_owned(),
            ),
            Self::Preflight { problems } => Some(preflight::ways_out(problems)),
            Self::OverBudget { .. } => Some(
                "forget snapshots (`infinijup forget`, then `infinijup gc`), or set a larger `store_budget`; suspending still works"
                    .to_owned(),
            ),
            Self::NoRoom { .. } => Some("free some space, or run `infinijup gc`".to_owned()),
            _ => None,
        }
    }
}
