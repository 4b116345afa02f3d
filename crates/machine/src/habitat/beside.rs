//! A box beside the box of a session, whose tree stands by to take the other's place.
//!
//! It has the same directories, its own namespaces, and until it moves in its own gate and control group. What is the same for both is on disk: the
//! workspace, the log, the connection file. The tree that stands by has files of these open and does nothing with them.
//!
//! **How it ends.** Its tree is traced by a thread of this daemon, which kills it when the daemon ends, however that happens; the holder ends with
//! its tree and the kernel ends the rest with the holder. While the box is being made nobody traces anything yet. So the next daemon
//! looks for holders that no record names ([`OwnBox::end_all_strays`]).
//!
//! **Whom [`Habitat::end`](lifecycle::ports::Habitat) spares.** It ends every box on a session's directory, so that what was cut short leaves nothing. Those that this
//! daemon has made to stand by are noted here, and spared. The next daemon knows of none.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::Network;
use base::io_error;
use checkpoint_criu::images::{FileKind, Images};
use lifecycle::ports::{Record, make_private};
use lifecycle::{LifecycleError, Result, SessionId};
use sandbox::process::Identity;
use sandbox::{Cgroup, Limits, Pasta};

use super::ending::{end_boxes, remove_group_named};
use super::own_box::{OwnBox, Role, close_network};
use super::same_files;

/// Those that stand by.
pub(super) struct Beside {
    is_wanted: bool,
    /// By their holders, with the paths that their trees have open.
    all: Mutex<BTreeMap<Identity, BTreeSet<PathBuf>>>,
}

impl Beside {
    pub(super) fn new(is_wanted: bool) -> Self {
        Self { is_wanted, all: Mutex::default() }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Identity, BTreeSet<PathBuf>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one may stand by for this session. Two in the machine's network would listen on the same ports; a limit is one for both; and
    /// what a device holds is there once.
    pub(super) fn can(&self, record: &Record) -> bool {
        let has_limits = record.memory_limit.is_some() || record.pids_limit.is_some();
        self.is_wanted
            && record.kernel.is_some()
            && record.network == Network::Private
            && record.gpus.is_empty()
            && !has_limits
    }

    /// From here on it is spared.
    pub(super) fn note(&self, holder: Identity) {
        self.all().insert(holder, BTreeSet::new());
    }

    /// These, without those that stand by.
    pub(super) fn others(&self, mut holders: Vec<Identity>) -> Vec<Identity> {
        let all = self.all();
        holders.retain(|holder| !all.contains_key(holder));
        holders
    }
}

/// The name of the control group of what stands by.
pub(super) fn group_of(id: &SessionId) -> String {
    format!("{id}-standby")
}

impl OwnBox {
    pub(super) fn make_one_beside(&self, record: &mut Record, images: &Path, log_dir: &Path) -> Result<()> {
        make_private(log_dir)?;
        self.lengthen_log(record, images)?;
        let launched = self.make(record, None, Vec::new(), Some(images), Role::StandsBy)?;
        self.fill(launched.holder, images)?;
        let files = Images::open(images)?.files()?;
        let paths = files.iter().filter_map(|file| match &file.kind {
            FileKind::Reg(regular) => Some(regular.path().to_owned()),
            _ => None,
        });
        self.beside.all().insert(launched.holder, paths.collect());
        Ok(())
    }

    pub(super) fn move_one_in(&self, record: &mut Record, beside: &Record) -> Result<()> {
        let (Some(holder), Some(init)) = (beside.holder, beside.init) else {
            return Err(LifecycleError::Bug(format!("nothing stands by for session {}", record.id)));
        };
        let unfit = |detail: String| LifecycleError::BadRequest { detail };
        let paths = self.beside.all().get(&holder).cloned().unwrap_or_default();
        same_files::check(init.pid, &paths).map_err(unfit)?;
        // From here on it is ended with the session.
        self.beside.all().remove(&holder);
        record.holder = Some(holder);
        record.init = Some(init);
        self.move_gate(&record.id)?;
        close_network(record);
        record.pasta = beside.pasta;
        sandbox::forget_exit(&self.place.box_dir(&record.id))?;
        join_group(&record.id)
    }

    /// Its sockets get the names of those that clients are led to.
    fn move_gate(&self, id: &SessionId) -> Result<()> {
        let (from, to) = (self.place.standby_gate(id), self.place.gate(id));
        let names: Vec<OsString> = match fs::read_dir(&from) {
            Ok(items) => items.filter_map(|item| Some(item.ok()?.file_name())).collect(),
            Err(_) => Vec::new(),
        };
        make_private(&to)?;
        for name in names {
            let path = from.join(&name);
            fs::rename(&path, to.join(&name)).map_err(io_error("rename", &path))?;
        }
        let _litter = fs::remove_dir(&from);
        Ok(())
    }

    pub(super) fn end_one_beside(&self, beside: &Record) -> Result<()> {
        let ended = end_boxes(&beside.id, beside.holder.as_slice());
        if let Some(holder) = beside.holder {
            self.beside.all().remove(&holder);
        }
        if let Some(identity) = beside.pasta {
            Pasta { identity }.stop();
        }
        self.clear_beside(&beside.id);
        ended
    }

    pub(super) fn end_all_strays(&self, record: &Record) -> Result<()> {
        let mut strays = self.beside.others(sandbox::holders_of(&self.place.box_dir(&record.id))?);
        strays.retain(|holder| Some(*holder) != record.holder);
        end_boxes(&record.id, &strays)?;
        self.clear_beside(&record.id);
        Ok(())
    }

    /// What is left of one is litter, not loss.
    fn clear_beside(&self, id: &SessionId) {
        let _litter = fs::remove_dir_all(self.place.standby_gate(id));
        let _litter = remove_group_named(&group_of(id));
    }
}

/// Its processes are the session's from now on.
fn join_group(id: &SessionId) -> Result<()> {
    let Some(group) = Cgroup::open(&group_of(id))? else { return Ok(()) };
    let own = Cgroup::create(id.as_str(), Limits::default())?;
    for pid in group.processes() {
        own.add(pid)?;
    }
    let _litter = group.remove();
    Ok(())
}
