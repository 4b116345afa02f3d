//! What can be changed about a session without touching its processes.
//!
//! `PATCH /v1/sessions/{id}` takes a merge patch (RFC 7396): what is left out stays as it is, and `null` takes away.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::Text;

/// What happens to a session by itself. Everything is off unless it is said.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SessionPolicy {
    /// A snapshot every so many seconds, if anything ran since the last.
    pub snapshot_every_s: Option<u64>,
    /// A snapshot when its kernel has been idle for so many seconds.
    pub snapshot_after_idle_s: Option<u64>,
    /// It is suspended when its kernel has been idle for so many seconds.
    pub suspend_after_idle_s: Option<u64>,
    /// Only what holds GPU memory is suspended so.
    #[schema(default = true)]
    pub suspend_only_gpu: bool,
    /// Which automatic snapshots are kept; all if not given.
    pub keep: Option<Keep>,
}

/// Which automatic snapshots are kept. Tagged and labelled ones, and those that somebody asked for, always are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Keep {
    /// The newest so many.
    pub last: u32,
    /// The newest of each of the last so many hours that have one.
    pub hourly: u32,
    /// The newest of each of the last so many days that have one.
    pub daily: u32,
}

/// `PATCH /v1/sessions/{id}`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SessionPatch {
    /// Another name, unique among the caller's sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Labels to set; a `null` takes that label away, and the others stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, Option<String>>>,
    /// The document that goes with each snapshot, as an absolute path.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "said")]
    #[schema(value_type = Option<Text>)]
    pub notebook: Option<Option<Text>>,
    /// A file with that document as a page shows it. It goes with snapshots in its place while it is the newer of both.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "said")]
    #[schema(value_type = Option<Text>)]
    pub shown: Option<Option<Text>>,
    /// What happens to it by itself, all of it anew.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "said")]
    #[schema(value_type = Option<SessionPolicy>)]
    pub policy: Option<Option<SessionPolicy>>,
    /// What its next snapshot will be labelled.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "said")]
    #[schema(value_type = Option<String>)]
    pub mark: Option<Option<String>>,
}

impl Default for SessionPolicy {
    fn default() -> Self {
        Self {
            snapshot_every_s: None,
            snapshot_after_idle_s: None,
            suspend_after_idle_s: None,
            suspend_only_gpu: true,
            keep: None,
        }
    }
}

/// Tells a field that is `null` from one that is not there.
fn said<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(json: &str) -> SessionPatch {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn null_takes_away_and_silence_leaves() {
        assert_eq!(patch("{}"), SessionPatch::default());
        assert_eq!(patch(r#"{"mark": null}"#).mark, Some(None));
        assert_eq!(patch(r#"{"mark": "a"}"#).mark, Some(Some("a".to_owned())));
        let labels = patch(r#"{"labels": {"a": null, "b": "c"}}"#).labels.unwrap();
        assert_eq!(labels["a"], None);
        assert_eq!(labels["b"].as_deref(), Some("c"));
        assert_eq!(serde_json::to_string(&SessionPatch::default()).unwrap(), "{}");
    }

    #[test]
    fn nothing_happens_by_itself_unless_it_is_said() {
        let policy: SessionPolicy = serde_json::from_str("{}").unwrap();
        assert_eq!(policy, SessionPolicy::default());
        assert!(policy.suspend_only_gpu);
        serde_json::from_str::<SessionPolicy>(r#"{"snapshot_evry_s": 1}"#).unwrap_err();
    }
}
