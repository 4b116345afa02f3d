//! Standbys: what a kernel was at its newest snapshot, made ahead, so that going back there is a switch.
//!
//! A standby is a restore that waits before its last step. A thread of its own lays the images out, makes a box beside the living one, and
//! has the checkpointer make the processes. When they are whole and stand still, the checkpointer asks ([`RestoreWanted::hold`](crate::ports::RestoreWanted)), and the
//! answer is kept back until a rollback to just that snapshot wants them, or until they are not wanted any more.
//!
//! **It is nobody's session.** No record names it and no line of the journal does. If the daemon ends, so does it; should anything be left, the
//! next daemon ends every box of a session that its record does not name ([`Habitat::end_strays`](crate::ports::Habitat)). From the moment at which it moves in, it is what any
//! restored tree is that the record does not name yet: the journal says *restoring*, and a crash ends it and restores again.
//!
//! **It can only save time.** Whatever is wrong with it when it is wanted, it is ended and the ordinary restore is taken.
//!
//! There is one at a time, of the kernel that was used last: it costs as much memory as that has. When it is made and when it goes,
//! `policy` says ([`policy::standby`]); whether there is room for it, the habitat.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use cas_core::ObjectId;
use jupyter_bridge::client::Doing;
use policy::standby::Seen;
use sandbox::process::memory_of;
use session_record::Record;

use crate::effects::happened;
use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::ports::Placed;
use crate::steps::{NoWatch, Steps};
use crate::waiting::{Ready, Standby};

impl Engine {
    /// What stands by takes the session's place, and runs when this returns. On an error some of it may be there.
    pub(crate) fn take_standby(&self, record: &mut Record, standby: &Standby) -> Result<()> {
        let gone = || LifecycleError::Bug("what stood by is gone".to_owned());
        let ready = standby.ready().ok_or_else(gone)?;
        self.habitat(record).move_in(record, &ready.record)?;
        happened("what stood by has moved in");
        if standby.go() { Ok(()) } else { Err(gone()) }
    }

    /// Begins to make a standby of a session, and does not wait for it.
    pub(crate) fn stand_by(&self, record: &Record, head: ObjectId) -> Result<()> {
        let parents = self.inner.store.open()?.commit_of(&head)?.parents;
        // A commit with two parents says that the session went back: its state is that of the second.
        let back_to = parents.get(1).copied();
        let standby = self.inner.standbys.begin(&record.id, [head].into_iter().chain(back_to).collect());
        let (engine, own) = (self.clone(), Arc::clone(&standby));
        let beside = Record { init: None, holder: None, pasta: None, ..record.clone() };
        let thread = thread::Builder::new().name("standby".to_owned());
        if thread.spawn(move || engine.be_standby(beside, head, &own)).is_err() {
            self.inner.standbys.over(&record.id, &standby, false);
        }
        Ok(())
    }

    /// Makes one, and stands by until it goes or ends.
    fn be_standby(&self, mut beside: Record, head: ObjectId, standby: &Arc<Standby>) {
        let runs = self.make_standby(&mut beside, head, standby).is_ok();
        if !runs {
            // What is left of it the next start ends.
            let _later = self.habitat(&beside).end_beside(&beside);
            happened("what stood by was ended");
        }
        self.inner.standbys.over(&beside.id, standby, runs);
    }

    fn make_standby(&self, beside: &mut Record, head: ObjectId, standby: &Arc<Standby>) -> Result<()> {
        let store = self.inner.store.open()?;
        let aim = self.aim(beside, &store, head, 1, false, &mut Steps::new(&NoWatch))?;
        let images = aim.images()?.path().to_owned();
        let of_gpu = aim.gpu.as_ref().map(|_| "it has something on GPUs");
        if let Some(why) = of_gpu.or(image_store::why_not_twice(&images)?) {
            return Err(LifecycleError::BadRequest { detail: why.to_owned() });
        }
        let closed = image_store::closed_connections(&images, |port| beside.has_port(port))?;
        let missing = aim.images()?.missing();
        // Nobody needs the images any more when it stands, and what it was made of may be forgotten then.
        let aim = Mutex::new(Some(aim));
        let standby = Arc::clone(standby);
        let stand = move |record: Record| {
            drop(aim.lock().unwrap_or_else(PoisonError::into_inner).take());
            let bytes = record.init.and_then(|init| memory_of(init.pid)).unwrap_or(0);
            standby.stand(Ready { record, closed: closed.clone(), bytes })
        };
        self.make_processes(beside, &images, missing, true, &Placed::default(), Some(Box::new(stand)))
            .map(drop)
    }

    /// Once a second: makes a standby where one is due, and ends those that are of no use any more or for which there is no room.
    pub(crate) fn look_after_standbys(&self, running: &[Record]) {
        let seen = |record: &Record| {
            let look = |seen: &jupyter_bridge::watch::Seen| (seen.since.elapsed(), seen.activity.doing);
            let kernel = self.inner.kernels.seen(&record.id, look);
            Seen {
                key: record.id.clone(),
                head: record.head_id().ok().flatten(),
                used: kernel.map(|(used, _)| used),
                is_idle: kernel.is_some_and(|(_, doing)| doing == Doing::Idle),
                is_held: self.inner.locks.doing(&record.id).is_some(),
            }
        };
        let seen: Vec<_> = running.iter().map(seen).collect();
        let (standbys, home) = (&self.inner.standbys, &self.inner.ports.own_box);
        let is_gone = |ready: &Ready| !ready.record.init.is_some_and(|init| init.is_alive());
        let to_do = standbys.look(Instant::now(), &seen, home.room_beside(None), is_gone);
        to_do.end.iter().for_each(|id| standbys.end(id, false));
        let Some((id, head)) = to_do.make else { return };
        let Some(record) = running.iter().find(|record| record.id == id) else { return };
        let bytes = record.init.and_then(|init| memory_of(init.pid)).unwrap_or(0);
        if self.habitat(record).can_stand_by(record) && home.room_beside(Some(bytes)) {
            standbys.end_all();
            // It is an offer: what fails here is not missed.
            let _not_now = self.stand_by(record, head);
        }
    }

    /// Ends all that stand by.
    pub fn end_standbys(&self) {
        self.inner.standbys.end_all();
    }
}
