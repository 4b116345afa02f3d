//! The thread that fills packs, and those that sync them.
//!
//! There is one open pack per class. A pack that has reached its size goes to a syncer, so that the next one fills
//! while the last one is made durable and gets its name. The first failure of either is told to whoever hands over the next
//! object: on a full disk a long write ends soon, not at its flush. Buffers travel in a circle: a worker takes one, the
//! packer writes it out and puts it back, so that a long write does not keep asking the kernel for fresh pages.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::failure::Failure;
use crate::catalogue::WriteNo;
use crate::error::{Result, StoreError};
use crate::pack::{Entry, PackClass, PackWriter, SealedPack};
use crate::store::Store;

/// A pack is closed when it has grown beyond this.
pub(crate) const PACK_TARGET: u64 = 64 << 20;

/// Objects that may wait for the packer.
const WAITING_OBJECTS: usize = 16;

/// Full packs that may wait for a syncer. They lie in the page cache, not in our memory.
const WAITING_PACKS: usize = 6;

/// Two, because much of a sync is waiting: for the pack, for the catalogue's log, for the directory.
const SYNCERS: usize = 2;

#[derive(Debug)]
pub(super) struct Packer {
    state: Mutex<State>,
    buffers: Arc<Mutex<Vec<Vec<u8>>>>,
    failure: Failure,
}

#[derive(Debug)]
enum State {
    Running {
        objects: Sender<Message>,
        answers: Receiver<Result<Vec<SealedPack>>>,
        threads: Vec<JoinHandle<()>>,
    },
    Stopped,
}

enum Message {
    Object { entry: Entry, stored: Vec<u8> },
    Seal,
}

impl Packer {
    /// Packs get the class of what they hold, and `epoch` and `salt` of the transaction.
    pub(super) fn start(
        store: Arc<Store>,
        transaction: WriteNo,
        token: String,
        epoch: Option<u32>,
        salt: [u8; 32],
    ) -> Self {
        let (objects, queue) = bounded(WAITING_OBJECTS);
        let (answer, answers) = bounded(1);
        let (full, to_sync) = bounded(WAITING_PACKS);
        let (synced, sealed) = crossbeam_channel::unbounded();
        let buffers = Arc::new(Mutex::new(Vec::new()));
        let failure = Failure::default();
        let syncing = store.clone();
        let filling = Filling {
            store,
            token,
            epoch,
            salt,
            next: 0,
            open: [None, None],
            full,
            buffers: buffers.clone(),
        };
        let failed = failure.clone();
        let packer = std::thread::spawn(move || fill(filling, &queue, &answer, &sealed, &failed));
        let sync = |_| {
            let (to_sync, synced) = (to_sync.clone(), synced.clone());
            let (store, failed) = (syncing.clone(), failure.clone());
            std::thread::spawn(move || {
                for pack in to_sync {
                    let placed = PackWriter::seal(pack).and_then(|pack| place(&store, transaction, pack));
                    let pack = placed.map_err(|error| failed.set(error)).ok();
                    if synced.send(pack).is_err() {
                        return;
                    }
                }
            })
        };
        let threads = std::iter::once(packer).chain((0..SYNCERS).map(sync)).collect();
        let state = State::Running { objects, answers, threads };
        Self { state: Mutex::new(state), buffers, failure }
    }

    /// An empty buffer, used before if possible.
    pub(super) fn buffer(&self) -> Vec<u8> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub(super) fn recycle(&self, buffer: Vec<u8>) {
        recycle(&self.buffers, buffer);
    }

    /// Hands a stored object over.
    pub(super) fn pack(&self, entry: Entry, stored: Vec<u8>) -> Result<()> {
        self.failure.check()?;
        self.sender()?.send(Message::Object { entry, stored }).map_err(|_| gone())
    }

    /// Seals the open packs and returns every pack sealed since the last call: durable, in its place, and not in the
    /// catalogue yet.
    pub(super) fn seal(&self) -> Result<Vec<SealedPack>> {
        let state = self.lock();
        let State::Running { objects, answers, .. } = &*state else { return Err(gone()) };
        objects.send(Message::Seal).map_err(|_| gone())?;
        answers.recv().map_err(|_| gone())?
    }

    /// Ends the threads.
    pub(super) fn stop(&self) {
        let state = std::mem::replace(&mut *self.lock(), State::Stopped);
        let State::Running { objects, threads, .. } = state else { return };
        // The packer ends when nobody can send any more, and the syncers after it.
        drop(objects);
        for thread in threads {
            let _ = thread.join();
        }
    }

    fn sender(&self) -> Result<Sender<Message>> {
        match &*self.lock() {
            State::Running { objects, .. } => Ok(objects.clone()),
            State::Stopped => Err(gone()),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn gone() -> StoreError {
    StoreError::TransactionFailed { detail: "its packer has stopped".into(), hint: None }
}

/// Gives a sealed pack its name. The catalogue hears of it first, so that a crash leaves no file that nobody knows.
fn place(store: &Store, transaction: WriteNo, pack: SealedPack) -> Result<SealedPack> {
    store.catalogue.announce(Some(transaction), &pack.id.to_string())?;
    store.packs.put_new(&pack.id, &pack.path)?;
    Ok(pack)
}

fn recycle(buffers: &Mutex<Vec<Vec<u8>>>, buffer: Vec<u8>) {
    buffers.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
}

/// The packer thread's own.
struct Filling {
    store: Arc<Store>,
    token: String,
    epoch: Option<u32>,
    salt: [u8; 32],
    next: u64,
    open: [Option<PackWriter>; 2],
    full: Sender<PackWriter>,
    buffers: Arc<Mutex<Vec<Vec<u8>>>>,
}

fn fill(
    mut filling: Filling,
    queue: &Receiver<Message>,
    answer: &Sender<Result<Vec<SealedPack>>>,
    sealed: &Receiver<Option<SealedPack>>,
    failure: &Failure,
) {
    let mut broken = false;
    let mut closed = 0u64;
    for message in queue {
        match message {
            // After a failure objects are still taken, so that nobody waits for ever, and dropped.
            Message::Object { .. } if broken => {}
            Message::Object { entry, stored } => match filling.append(entry, stored) {
                Ok(full) => closed += u64::from(full),
                Err(error) => {
                    broken = true;
                    failure.set(error);
                }
            },
            Message::Seal => {
                let mut packs = Vec::new();
                if !broken {
                    match filling.close_all() {
                        Ok(more) => closed += more,
                        Err(error) => failure.set(error),
                    }
                    // One that is not there has failed, and the syncer has said why.
                    packs.extend(
                        (0..std::mem::take(&mut closed)).filter_map(|_| sealed.recv().ok().flatten()),
                    );
                }
                let result = failure.check().map(|()| packs);
                broken |= result.is_err();
                if answer.send(result).is_err() {
                    return;
                }
            }
        }
    }
}

impl Filling {
    /// Appends one object; `true` if that filled its pack.
    fn append(&mut self, entry: Entry, stored: Vec<u8>) -> Result<bool> {
        let class = PackClass::of(entry.kind);
        let slot = class as usize;
        let mut pack = match self.open[slot].take() {
            Some(pack) => pack,
            None => self.create(class)?,
        };
        pack.append(entry, &stored)?;
        recycle(&self.buffers, stored);
        let full = pack.len() >= PACK_TARGET;
        self.open[slot] = Some(pack);
        if full {
            self.close(slot)?;
        }
        Ok(full)
    }

    fn create(&mut self, class: PackClass) -> Result<PackWriter> {
        let path = self.store.layout.temporary().join(format!("{}-{}.pack", self.token, self.next));
        self.next += 1;
        PackWriter::create(self.store.options.disk.as_ref(), &path, class, self.epoch, self.salt)
    }

    fn close(&mut self, slot: usize) -> Result<bool> {
        match self.open[slot].take() {
            None => Ok(false),
            Some(pack) => self.full.send(pack).map(|()| true).map_err(|_| gone()),
        }
    }

    fn close_all(&mut self) -> Result<u64> {
        Ok(u64::from(self.close(0)?) + u64::from(self.close(1)?))
    }
}
