//! Where the requests of one kernel are taken: one at a time, a few that wait, not too many in a second.
//!
//! A kernel asks by a message that it publishes, and nobody tells it that it was heard before it is answered. So it asks
//! again with the same id when it has waited for a while; a request is done once, and its answer kept for that.
//!
//! A kernel that was restored while it waited says its request again, too, until it has heard that it was. What it says in its first moment
//! is therefore not taken: done for a branch, it would be done twice. Whoever means it says it again.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

/// How many may wait.
const QUEUE: usize = 8;
/// How many answers are kept.
const KEPT: usize = 8;
/// How many may come at once, and in each second after that.
const BURST: f64 = 30.0;
const PER_SECOND: f64 = 10.0;
/// For how long a kernel that was restored is not heard.
const DEAF: Duration = Duration::from_secs(1);
/// The longest id, in bytes.
const ID: usize = 64;

/// Something that a kernel asks.
#[derive(Clone, PartialEq, Debug)]
pub struct Asked<K> {
    /// Whose kernel it is.
    pub session: K,
    /// The kernel's own name for the request.
    pub id: String,
    /// What is to be done.
    pub what: String,
    /// What else the request says.
    pub arguments: Map<String, Value>,
}

/// What becomes of a message.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Verdict<K> {
    /// It is to be done now.
    Do(Asked<K>),
    /// It is answered at once.
    Answer(Value),
    /// Nothing now: it waits its turn, or makes no sense.
    Nothing,
}

/// One kernel's requests.
pub(super) struct Desk<K> {
    /// The id of the one that is being done.
    under_way: Option<String>,
    queue: VecDeque<Asked<K>>,
    answers: VecDeque<(String, Option<Value>)>,
    /// Since when the rate is kept, and how much of it is used up.
    used: Option<(Instant, f64)>,
    deaf_until: Option<Instant>,
}

impl<K> Default for Desk<K> {
    fn default() -> Self {
        Self {
            under_way: None,
            queue: VecDeque::new(),
            answers: VecDeque::new(),
            used: None,
            deaf_until: None,
        }
    }
}

impl<K: Clone> Desk<K> {
    pub(super) fn take(&mut self, session: &K, content: Value, now: Instant) -> Verdict<K> {
        if self.deaf_until.is_some_and(|until| now < until) || !self.within_rate(now) {
            return Verdict::Nothing;
        }
        let Value::Object(mut arguments) = content else { return Verdict::Nothing };
        let Some(Value::String(id)) = arguments.remove("id") else { return Verdict::Nothing };
        if id.is_empty() || id.len() > ID || id == "*" {
            return Verdict::Nothing;
        }
        if let Some((_, answer)) = self.answers.iter().find(|(known, _)| *known == id) {
            return answer.clone().map_or(Verdict::Nothing, Verdict::Answer);
        }
        if self.under_way.as_ref() == Some(&id) || self.queue.iter().any(|asked| asked.id == id) {
            return Verdict::Nothing;
        }
        let Some(Value::String(what)) = arguments.remove("do") else {
            return Verdict::Answer(refusal(&id, "it does not say what to do"));
        };
        let asked = Asked { session: session.clone(), id, what, arguments };
        if self.under_way.is_none() {
            self.under_way = Some(asked.id.clone());
            return Verdict::Do(asked);
        }
        if self.queue.len() == QUEUE {
            return Verdict::Answer(refusal(&asked.id, "too many requests of this kernel are waiting"));
        }
        self.queue.push_back(asked);
        Verdict::Nothing
    }

    /// One is done; the next, if there is one.
    pub(super) fn done(&mut self, id: &str, answer: Option<Value>) -> Option<Asked<K>> {
        if self.under_way.as_deref() != Some(id) {
            return None;
        }
        if self.answers.len() == KEPT {
            self.answers.pop_front();
        }
        self.answers.push_back((id.to_owned(), answer));
        let next = self.queue.pop_front();
        self.under_way = next.as_ref().map(|asked| asked.id.clone());
        next
    }

    /// The kernel has another past now, in which what waits was never asked.
    pub(super) fn other_past(&mut self, now: Instant) {
        self.queue.clear();
        self.deaf_until = Some(now + DEAF);
    }

    fn within_rate(&mut self, now: Instant) -> bool {
        let (since, used) = self.used.unwrap_or((now, 0.0));
        let left = (used - now.duration_since(since).as_secs_f64() * PER_SECOND).max(0.0);
        let within = left + 1.0 <= BURST;
        self.used = Some((now, if within { left + 1.0 } else { left }));
        within
    }
}

/// An answer that says no, for what does not come as far as the daemon's own errors.
pub(super) fn refusal(id: &str, why: &str) -> Value {
    let error =
        json!({ "code": "IJ-L015", "message": format!("this request is not done: {why}"), "hint": null });
    json!({ "id": id, "ok": false, "error": error })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Scene(Desk<u8>, Instant);

    impl Scene {
        fn new() -> Self {
            Self(Desk::default(), Instant::now())
        }

        fn ask(&mut self, id: &str) -> Verdict<u8> {
            self.0.take(&7, json!({ "id": id, "do": "status", "x": 1 }), self.1)
        }
    }

    #[test]
    fn one_at_a_time_and_each_once() {
        let mut scene = Scene::new();
        let Verdict::Do(first) = scene.ask("a") else { panic!() };
        assert_eq!((first.what.as_str(), first.arguments.get("x")), ("status", Some(&json!(1))));
        assert_eq!(
            (scene.ask("a"), scene.ask("b"), scene.ask("b")),
            (Verdict::Nothing, Verdict::Nothing, Verdict::Nothing)
        );
        let answer = json!({ "id": "a", "ok": true });
        assert_eq!(scene.0.done("a", Some(answer.clone())).unwrap().id, "b");
        assert_eq!(scene.ask("a"), Verdict::Answer(answer));
        assert_eq!(scene.0.done("b", None), None);
        assert_eq!(scene.ask("b"), Verdict::Nothing, "done, and not to be answered");
        assert!(matches!(scene.ask("c"), Verdict::Do(_)));
        assert_eq!(scene.0.done("zzz", None), None);
    }

    #[test]
    fn a_flood_is_answered_up_to_a_point_and_then_not_heard() {
        let mut scene = Scene::new();
        let verdicts: Vec<_> = (0..200).map(|number| scene.ask(&number.to_string())).collect();
        let count =
            |wanted: fn(&Verdict<u8>) -> bool| verdicts.iter().filter(|verdict| wanted(verdict)).count();
        assert_eq!(count(|verdict| matches!(verdict, Verdict::Do(_))), 1);
        assert_eq!(count(|verdict| matches!(verdict, Verdict::Answer(_))), 30 - 1 - QUEUE);
        scene.1 += Duration::from_secs(1);
        assert!(matches!(scene.ask("later"), Verdict::Answer(_)));
        // After a restore, what waited was never asked.
        scene.0.other_past(scene.1);
        assert_eq!(scene.ask("said again"), Verdict::Nothing, "it has not heard yet that it was restored");
        scene.1 += DEAF;
        assert_eq!(scene.0.done("0", None), None);
    }

    proptest! {
        #[test]
        fn whatever_a_kernel_says_is_no_trouble(id in ".{0,80}", what in ".{0,20}", extra in any::<i64>()) {
            let mut scene = Scene::new();
            for content in [
                json!({ "id": id, "do": what, "n": extra }),
                json!({ "id": extra, "do": what }),
                json!([id, what]),
                json!({ "id": id }),
                Value::Null,
            ] {
                let _ = scene.0.take(&7, content, scene.1);
            }
        }
    }
}
