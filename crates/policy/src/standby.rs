//! What stands by: for which sessions, for which of their snapshots, since when; and when one is made and when it goes.
//!
//! A standby is a copy of what a session was at its newest snapshot, whole and standing still, made ahead. Who makes it does so on a thread
//! of its own, which waits in [`Standby::stand`] until somebody wants the copy ([`Standby::go`]) or nobody does any more
//! ([`Standbys::end`]). It costs what the session costs, so there is one at a time, of the session that was used last.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// So long a session has rested when a copy is made of it.
const REST: Duration = Duration::from_secs(1);
/// So old a copy of a resting session is made anew: its clocks went on while it stood.
const OLD: Duration = Duration::from_secs(30 * 60);
/// So long after one was begun that is not there any more, or went because there was no room, it may be made again.
const AGAIN: Duration = Duration::from_secs(20);
/// So often it may fail to be made of the same snapshot. What stands in the way may be the moment; more often it is what the session has.
const FAILURES: u32 = 2;
/// How long one may take to be gone, or to go.
const PATIENCE: Duration = Duration::from_secs(60);

/// All that there are, by session. `C` names a snapshot, and `R` is what is known of a copy that stands.
pub struct Standbys<K, C, R> {
    all: Mutex<BTreeMap<K, Arc<Standby<C, R>>>>,
    tried: Mutex<BTreeMap<K, Tried<C>>>,
}

/// For which snapshot one was begun last, when, and how often it could not be made.
struct Tried<C> {
    commit: C,
    last: Instant,
    failures: u32,
}

/// One of them.
pub struct Standby<C, R> {
    /// The snapshots whose state it is.
    commits: Vec<C>,
    made: Instant,
    state: Mutex<State<R>>,
    changed: Condvar,
}

/// How far it is.
enum State<R> {
    /// It is being made.
    Making,
    /// It is whole and stands still.
    Ready(R),
    /// It is told to go.
    Go,
    /// It is told to end.
    End,
    /// It runs, or it is gone.
    Over { runs: bool },
}

/// A session that runs, for [`Standbys::look`].
#[derive(Clone, Debug)]
pub struct Seen<K, C> {
    /// The session.
    pub key: K,
    /// Its newest snapshot.
    pub head: Option<C>,
    /// How long ago it was last seen to begin or end something; `None` for what is no kernel.
    pub used: Option<Duration>,
    /// Whether it is idle since then.
    pub is_idle: bool,
    /// An operation has hold of it.
    pub is_held: bool,
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToDo<K, C> {
    /// These are of no use any more.
    pub end: Vec<K>,
    /// One could be made of this session, for this snapshot, once the others are gone.
    pub make: Option<(K, C)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K, C, R> Default for Standbys<K, C, R> {
    fn default() -> Self {
        Self { all: Mutex::default(), tried: Mutex::default() }
    }
}

impl<K: Ord + Clone, C: Clone + PartialEq, R: Clone> Standbys<K, C, R> {
    /// One is being made of this session: of the first of these snapshots, which have the same state.
    pub fn begin(&self, key: &K, commits: Vec<C>) -> Arc<Standby<C, R>> {
        self.end(key, true);
        if let Some(first) = commits.first() {
            let mut tried = lock(&self.tried);
            let before = tried.get(key).filter(|tried| tried.commit == *first);
            let failures = before.map_or(0, |tried| tried.failures);
            tried.insert(key.clone(), Tried { commit: first.clone(), last: Instant::now(), failures });
        }
        let (state, changed) = (Mutex::new(State::Making), Condvar::new());
        let standby = Arc::new(Standby { commits, made: Instant::now(), state, changed });
        lock(&self.all).insert(key.clone(), Arc::clone(&standby));
        standby
    }

    /// The one of this session that stands by with the state of this snapshot.
    pub fn of(&self, key: &K, commit: &C) -> Option<(Arc<Standby<C, R>>, R)> {
        let standby = lock(&self.all).get(key).filter(|one| one.commits.contains(commit)).cloned()?;
        let ready = standby.ready()?;
        Some((standby, ready))
    }

    /// What is known of the one that stands by for this session.
    pub fn ready(&self, key: &K) -> Option<R> {
        lock(&self.all).get(key)?.ready()
    }

    /// It has gone, or is gone: it is none of these any more.
    pub fn over(&self, key: &K, standby: &Arc<Standby<C, R>>, runs: bool) {
        let mut was_made = true;
        standby.change(|state| {
            was_made = !matches!(state, State::Making);
            *state = State::Over { runs };
        });
        if !was_made && let Some(tried) = lock(&self.tried).get_mut(key) {
            tried.failures += 1;
        }
        let mut all = lock(&self.all);
        if all.get(key).is_some_and(|known| Arc::ptr_eq(known, standby)) {
            all.remove(key);
        }
    }

    /// Ends the one of this session, if there is one, and perhaps waits until it is gone.
    pub fn end(&self, key: &K, wait: bool) {
        let standby = lock(&self.all).remove(key);
        if let Some(standby) = standby {
            standby.tell(State::End);
            if wait {
                standby.wait_over();
            }
        }
    }

    /// Ends all of them, and waits until they are gone.
    pub fn end_all(&self) {
        let all: Vec<K> = lock(&self.all).keys().cloned().collect();
        all.iter().for_each(|key| self.end(key, true));
    }

    /// What is to be done at this moment, with these sessions running. `has_room` says whether there is memory for what stands by, `is_dead`
    /// whether one is gone by itself.
    pub fn look(
        &self,
        now: Instant,
        sessions: &[Seen<K, C>],
        has_room: bool,
        is_dead: impl Fn(&R) -> bool,
    ) -> ToDo<K, C> {
        let last = sessions.iter().filter(|seen| seen.used.is_some()).min_by_key(|seen| seen.used);
        let last = last.filter(|seen| seen.is_idle && seen.used >= Some(REST) && !seen.is_held);
        let mut end = Vec::new();
        let mut tried = lock(&self.tried);
        let all = lock(&self.all);
        for (key, standby) in all.iter() {
            let seen = sessions.iter().find(|seen| seen.key == *key);
            let is_old = now.saturating_duration_since(standby.made) > OLD
                && last.is_some_and(|last| last.key == *key);
            if is_old {
                tried.remove(key);
            }
            let is_newest = seen.is_some_and(|seen| {
                seen.is_held || seen.head.as_ref().is_some_and(|head| standby.commits.contains(head))
            });
            let is_dead = standby.ready().is_some_and(|ready| is_dead(&ready));
            if !has_room || !is_newest || is_old || is_dead {
                end.push(key.clone());
            }
            if let Some(tried) = tried.get_mut(key).filter(|_| !has_room || is_dead) {
                tried.last = now;
            }
        }
        let make = last.filter(|_| has_room).and_then(|seen| {
            let head = seen.head.clone()?;
            let is_there = all.contains_key(&seen.key) && !end.contains(&seen.key);
            let is_due = match tried.get(&seen.key).filter(|tried| tried.commit == head) {
                Some(tried) => {
                    let since = now.saturating_duration_since(tried.last);
                    !is_there && tried.failures < FAILURES && since >= AGAIN
                }
                None => true,
            };
            is_due.then(|| (seen.key.clone(), head))
        });
        ToDo { end, make }
    }
}

impl<C, R: Clone> Standby<C, R> {
    /// What is known of it, if it stands by.
    pub fn ready(&self) -> Option<R> {
        match &*lock(&self.state) {
            State::Ready(ready) => Some(ready.clone()),
            _ => None,
        }
    }

    /// Stands by. Says whether it is to go.
    pub fn stand(&self, ready: R) -> bool {
        self.change(|state| {
            if matches!(state, State::Making) {
                *state = State::Ready(ready);
            }
        });
        let mut state = lock(&self.state);
        while matches!(*state, State::Ready(_)) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        matches!(*state, State::Go)
    }

    /// Tells it to go, and waits until it does. Says whether it runs.
    pub fn go(&self) -> bool {
        self.tell(State::Go);
        self.wait_over()
    }

    fn change(&self, change: impl FnOnce(&mut State<R>)) {
        change(&mut lock(&self.state));
        self.changed.notify_all();
    }

    /// Tells it what to do, unless it was told already.
    fn tell(&self, word: State<R>) {
        self.change(|state| {
            if matches!(state, State::Making | State::Ready(_)) {
                *state = word;
            }
        });
    }

    /// Waits until it runs, or is gone. Says whether it runs.
    fn wait_over(&self) -> bool {
        let waits = |state: &mut State<R>| !matches!(state, State::Over { .. });
        let waited = self.changed.wait_timeout_while(lock(&self.state), PATIENCE, waits);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        matches!(*state, State::Over { runs: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type All = Standbys<&'static str, u8, bool>;

    fn seen(key: &'static str, head: u8, used_s: u64) -> Seen<&'static str, u8> {
        let used = Some(Duration::from_secs(used_s));
        Seen { key, head: Some(head), used, is_idle: true, is_held: false }
    }

    /// One that stands by, as its maker has it.
    fn standing(all: &Arc<All>, key: &'static str, commits: &[u8]) -> std::thread::JoinHandle<bool> {
        let standby = all.begin(&key, commits.to_vec());
        let (all, own) = (Arc::clone(all), Arc::clone(&standby));
        let maker = std::thread::spawn(move || {
            let runs = own.stand(true);
            all.over(&key, &own, runs);
            runs
        });
        while standby.ready().is_none() {
            std::thread::yield_now();
        }
        maker
    }

    fn alive(alive: &bool) -> bool {
        !alive
    }

    #[test]
    fn one_that_is_wanted_goes_once() {
        let all = Arc::new(All::default());
        let maker = standing(&all, "a", &[7, 3]);
        assert!(all.of(&"a", &1).is_none() && all.of(&"b", &7).is_none());
        let (standby, _) = all.of(&"a", &3).unwrap();
        assert!(standby.go());
        assert!(maker.join().unwrap());
        assert!(all.of(&"a", &7).is_none(), "it runs, and stands by no more");
    }

    #[test]
    fn one_that_is_ended_never_goes() {
        let all = Arc::new(All::default());
        let maker = standing(&all, "a", &[7]);
        let (standby, _) = all.of(&"a", &7).unwrap();
        all.end(&"a", true);
        assert!(!standby.go(), "it was told to end");
        assert!(!maker.join().unwrap());
    }

    #[test]
    fn one_that_is_ended_before_it_stands_does_not_wait() {
        let all = All::default();
        let standby = all.begin(&"a", vec![7]);
        all.end(&"a", false);
        assert!(!standby.stand(true));
    }

    #[test]
    fn it_is_made_of_the_one_that_was_used_last_when_that_rests() {
        let all = All::default();
        let make = |sessions: &[_]| all.look(Instant::now(), sessions, true, alive).make;
        assert_eq!(make(&[seen("a", 1, 9), seen("b", 2, 5)]), Some(("b", 2)));
        assert_eq!(make(&[seen("a", 1, 9), seen("b", 2, 0)]), None, "it was at work a moment ago");
        assert_eq!(make(&[Seen { is_idle: false, ..seen("a", 1, 9) }]), None);
        assert_eq!(make(&[Seen { is_held: true, ..seen("a", 1, 9) }]), None);
        assert_eq!(make(&[Seen { head: None, ..seen("a", 1, 9) }]), None);
        assert_eq!(make(&[Seen { used: None, ..seen("a", 1, 9) }]), None);
        assert_eq!(all.look(Instant::now(), &[seen("a", 1, 9)], false, alive).make, None, "there is no room");
        all.begin(&"a", vec![1]);
        assert_eq!(make(&[seen("a", 1, 9)]), None, "it was tried");
        assert_eq!(make(&[seen("a", 2, 9)]), Some(("a", 2)), "of the snapshot before");
    }

    #[test]
    fn it_goes_when_it_is_of_no_use() {
        let all = Arc::new(All::default());
        let maker = standing(&all, "a", &[1]);
        let end = |sessions: &[_], has_room| all.look(Instant::now(), sessions, has_room, alive).end;
        assert!(end(&[seen("a", 1, 9)], true).is_empty());
        assert!(
            end(&[Seen { is_idle: false, ..seen("a", 1, 9) }], true).is_empty(),
            "its cell may be undone"
        );
        assert_eq!(end(&[seen("a", 2, 9)], true), ["a"], "there is a newer snapshot");
        assert!(end(&[Seen { is_held: true, ..seen("a", 2, 9) }], true).is_empty(), "nobody knows yet");
        assert_eq!(end(&[], true), ["a"], "the session does not run");
        assert_eq!(end(&[seen("a", 1, 9)], false), ["a"], "there is no room");
        assert_eq!(all.look(Instant::now(), &[seen("a", 1, 9)], true, |_| true).end, ["a"], "it is dead");
        all.end_all();
        assert!(!maker.join().unwrap());
    }

    #[test]
    fn one_that_went_for_lack_of_room_is_made_again_and_one_that_cannot_be_made_is_not() {
        let all = Arc::new(All::default());
        let maker = standing(&all, "a", &[1]);
        let (now, rests) = (Instant::now(), [seen("a", 1, 9)]);
        let make =
            |seconds, has_room| all.look(now + Duration::from_secs(seconds), &rests, has_room, alive).make;
        assert_eq!(make(100, true), None, "it stands by");
        assert_eq!(all.look(now + Duration::from_secs(100), &rests, false, alive).end, ["a"]);
        all.end_all();
        assert!(!maker.join().unwrap());
        assert_eq!(make(110, true), None, "not at once");
        assert_eq!(make(130, false), None, "there is no room");
        assert_eq!(make(130, true), Some(("a", 1)));
        for _ in 0..FAILURES {
            let failed = all.begin(&"a", vec![1]);
            all.over(&"a", &failed, false);
        }
        assert_eq!(make(1000, true), None, "it has been tried");
        assert_eq!(all.look(now, &[seen("a", 2, 9)], true, alive).make, Some(("a", 2)), "another may do");
    }

    #[test]
    fn one_that_has_aged_is_made_anew_while_its_session_rests() {
        let all = Arc::new(All::default());
        let maker = standing(&all, "a", &[1]);
        let (now, minute) = (Instant::now(), Duration::from_secs(60));
        let rests = [seen("a", 1, 9)];
        let works = [Seen { is_idle: false, ..seen("a", 1, 9) }];
        assert!(all.look(now + 29 * minute, &rests, true, alive).end.is_empty());
        assert!(all.look(now + 60 * minute, &works, true, alive).end.is_empty(), "its cell may be undone");
        let to_do = all.look(now + 60 * minute, &rests, true, alive);
        assert_eq!(to_do, ToDo { end: vec!["a"], make: Some(("a", 1)) }, "it is made of the same snapshot");
        all.end_all();
        assert!(!maker.join().unwrap());
    }
}
