//! What is pushed to a remote by itself, and when.
//!
//! It follows from what is there, not from what happened: a thread or tag that is not in the remote as it is here is *unsent*, and stays so until a
//! push of it has ended well. So nothing is missed while no daemon runs, and a push that failed is tried again.

use std::time::Duration;

/// Everything is sent this often.
const HOUR: Duration = Duration::from_secs(3600);
/// After a push that failed nothing is tried for so long.
const AFTER_A_FAILURE: Duration = Duration::from_secs(600);

/// When something is pushed. Several may hold.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PushWhen {
    /// The thread of a session that was suspended.
    pub after_suspend: bool,
    /// All threads and tags, each hour.
    pub hourly: bool,
    /// Tags.
    pub tagged: bool,
}

impl PushWhen {
    /// Whether it never is.
    pub fn is_never(self) -> bool {
        self == Self::default()
    }

    /// Reads `after-suspend`, `hourly`, `tagged`, with commas between, or `never`. An error is the word that is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut when = Self::default();
        for word in text.split(',').map(str::trim) {
            match word {
                "after-suspend" => when.after_suspend = true,
                "hourly" => when.hourly = true,
                "tagged" => when.tagged = true,
                "never" if text.trim() == "never" => (),
                word => return Err(word.to_owned()),
            }
        }
        Ok(when)
    }
}

/// What a thread or tag is that is not in the remote as it is here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unsent {
    /// A tag.
    Tag,
    /// The thread of a session that sleeps.
    OfSuspended,
    /// Any other thread.
    Thread,
}

/// How long ago pushes ended.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Since {
    /// The last, if it failed.
    pub failed: Option<Duration>,
    /// The last of everything that ended well.
    pub all: Option<Duration>,
}

/// What is to be pushed now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DuePush<T> {
    /// Everything.
    All,
    /// These.
    Some(Vec<T>),
}

/// What is due of what was not sent.
pub fn due<T>(
    when: PushWhen,
    unsent: impl IntoIterator<Item = (T, Unsent)>,
    since: Since,
) -> Option<DuePush<T>> {
    if since.failed.is_some_and(|ago| ago < AFTER_A_FAILURE) {
        return None;
    }
    let mut some = Vec::new();
    let mut any = false;
    for (name, what) in unsent {
        any = true;
        let wanted = match what {
            Unsent::Tag => when.tagged,
            Unsent::OfSuspended => when.after_suspend,
            Unsent::Thread => false,
        };
        if wanted {
            some.push(name);
        }
    }
    if any && when.hourly && since.all.is_none_or(|ago| ago >= HOUR) {
        return Some(DuePush::All);
    }
    (!some.is_empty()).then_some(DuePush::Some(some))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [(&str, Unsent); 3] =
        [("main", Unsent::Thread), ("asleep", Unsent::OfSuspended), ("good", Unsent::Tag)];

    fn when(text: &str) -> PushWhen {
        PushWhen::parse(text).unwrap()
    }

    #[test]
    fn words_are_read_and_others_refused() {
        assert_eq!(when("hourly"), PushWhen { hourly: true, ..PushWhen::default() });
        assert_eq!(
            when("tagged, after-suspend"),
            PushWhen { tagged: true, after_suspend: true, ..PushWhen::default() }
        );
        assert!(when("never").is_never() && !when("tagged").is_never());
        for (text, word) in [("daily", "daily"), ("hourly,", ""), ("never, hourly", "never"), ("", "")] {
            assert_eq!(PushWhen::parse(text), Err(word.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_wanted_is_due_until_it_was_sent() {
        let now = Since::default();
        let some = |names: &[&'static str]| Some(DuePush::Some(names.to_vec()));
        assert_eq!(due(when("tagged"), ALL, now), some(&["good"]));
        assert_eq!(due(when("after-suspend, tagged"), ALL, now), some(&["asleep", "good"]));
        assert_eq!(due(when("never"), ALL, now), None);
        assert_eq!(due(when("tagged"), [ALL[0]], now), None);
        assert_eq!(due::<&str>(when("after-suspend, hourly, tagged"), [], now), None);
    }

    #[test]
    fn everything_is_sent_each_hour_and_what_cannot_wait_in_between() {
        let minutes = |minutes: u64| Some(Duration::from_secs(minutes * 60));
        let since = |all| Since { all, failed: None };
        assert_eq!(due(when("hourly"), ALL, since(None)), Some(DuePush::All));
        assert_eq!(due(when("hourly"), ALL, since(minutes(59))), None);
        assert_eq!(due(when("hourly"), ALL, since(minutes(60))), Some(DuePush::All));
        let in_between = due(when("hourly, tagged"), ALL, since(minutes(5)));
        assert_eq!(in_between, Some(DuePush::Some(vec!["good"])));
    }

    #[test]
    fn a_remote_that_failed_is_left_alone_for_a_while() {
        let failed = |seconds| Since { failed: Some(Duration::from_secs(seconds)), all: None };
        assert_eq!(due(when("hourly, tagged"), ALL, failed(599)), None);
        assert_eq!(due(when("hourly, tagged"), ALL, failed(600)), Some(DuePush::All));
    }
}
