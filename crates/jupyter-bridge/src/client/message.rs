//! Messages of the Jupyter protocol, as frames: signed when they go out, and checked when they come in.
//!
//! The form is <https://jupyter-client.readthedocs.io/en/stable/messaging.html#the-wire-protocol>: routing frames or a topic,
//! `<IDS|MSG>`, an HMAC, and four JSON texts that it signs. What the contents mean is `jupyter-protocol`'s business.
//!
//! A kernel prints more than we want to know, so the type is looked at first, and a message that nobody here waits for is
//! neither checked nor parsed.

use hmac::{Hmac, KeyInit, Mac};
use jupyter_protocol::{JupyterMessage, JupyterMessageContent};
use serde::Deserialize;
use serde_json::Value;
use sha2::Sha256;

const DELIMITER: &[u8] = b"<IDS|MSG>";

/// A header longer than this is none.
const HEADER_BYTES: usize = 64 << 10;

/// What we need of a header. Kernels leave things out, so everything else may be missing.
#[derive(Clone, PartialEq, Eq, Default, Debug, Deserialize)]
#[serde(default)]
pub(crate) struct Head {
    pub(crate) msg_id: String,
    pub(crate) msg_type: String,
    pub(crate) session: String,
}

/// A message that came in and was signed as it should be.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) parent: Head,
    pub(crate) content: JupyterMessageContent,
}

/// Signs and checks.
#[derive(Clone)]
pub(crate) struct Signer {
    key: Option<Hmac<Sha256>>,
}

impl Signer {
    /// With the key of a connection file; an empty one means that nothing is signed.
    pub(crate) fn new(key: &str) -> Self {
        let mac = || Hmac::<Sha256>::new_from_slice(key.as_bytes()).ok();
        Self { key: if key.is_empty() { None } else { mac() } }
    }

    fn sign(&self, parts: [&[u8]; 4]) -> String {
        let Some(mut mac) = self.key.clone() else { return String::new() };
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn is_right(&self, signature: &[u8], parts: [&[u8]; 4]) -> bool {
        let Some(mut mac) = self.key.clone() else { return true };
        let Some(signature) = from_hex(signature) else { return false };
        parts.iter().for_each(|part| mac.update(part));
        mac.verify_slice(&signature).is_ok()
    }

    /// The frames of a message of ours; its id is told too.
    pub(crate) fn encode(&self, session: &str, content: JupyterMessageContent) -> (String, Vec<Vec<u8>>) {
        let mut message = JupyterMessage::new(content, None);
        message.header.session = session.to_owned();
        message.header.username = "infinijup".to_owned();
        let text = |value: Result<Vec<u8>, serde_json::Error>| value.unwrap_or_else(|_| b"{}".to_vec());
        let header = text(serde_json::to_vec(&message.header));
        let content = text(serde_json::to_vec(&message.content));
        let (parent, metadata) = (b"{}".to_vec(), b"{}".to_vec());
        let signature = self.sign([&header, &parent, &metadata, &content]).into_bytes();
        (message.header.msg_id, vec![DELIMITER.to_vec(), signature, header, parent, metadata, content])
    }

    /// What the frames say, if it is of a type that `wanted` names and signed with our key.
    pub(crate) fn decode(&self, frames: &[Vec<u8>], wanted: &[&str]) -> Option<Message> {
        let start = frames.iter().position(|frame| frame == DELIMITER)?;
        let [signature, header, parent, metadata, content] = frames.get(start + 1..start + 6)? else {
            return None;
        };
        if header.len() > HEADER_BYTES || parent.len() > HEADER_BYTES {
            return None;
        }
        let head: Head = serde_json::from_slice(header).ok()?;
        if !wanted.contains(&head.msg_type.as_str()) {
            return None;
        }
        if !self.is_right(signature, [header, parent, metadata, content]) {
            return None;
        }
        let parent: Head = serde_json::from_slice(parent).unwrap_or_default();
        let content: Value = serde_json::from_slice(content).ok()?;
        let content = JupyterMessageContent::from_type_and_content(&head.msg_type, content).ok()?;
        Some(Message { parent, content })
    }
}

fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    };
    // An HMAC of SHA-256 is 32 bytes; nothing else is worth a look.
    if text.len() == 64 { text.chunks(2).map(pair).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use jupyter_protocol::{ExecutionState, Status, UnknownMessage};
    use proptest::prelude::*;

    use super::*;

    fn busy() -> JupyterMessageContent {
        Status { execution_state: ExecutionState::Busy }.into()
    }

    #[test]
    fn what_is_signed_with_the_key_is_understood_and_nothing_else() {
        let signer = Signer::new("secret");
        let (id, frames) = signer.encode("s", busy());
        assert!(!id.is_empty());
        let with_topic = [vec![b"kernel.1.status".to_vec()], frames.clone()].concat();
        let message = signer.decode(&with_topic, &["status"]).unwrap();
        assert!(matches!(
            message.content,
            JupyterMessageContent::Status(Status { execution_state: ExecutionState::Busy })
        ));
        assert!(signer.decode(&frames, &["stream"]).is_none());
        assert!(Signer::new("other").decode(&frames, &["status"]).is_none());
        assert!(Signer::new("").decode(&frames, &["status"]).is_some());
        for at in 1..frames.len() {
            let mut changed = frames.clone();
            changed[at].push(b' ');
            assert!(signer.decode(&changed, &["status"]).is_none(), "frame {at}");
        }
        assert!(signer.decode(&frames[..5], &["status"]).is_none());
        // As kernels without a key send it.
        let (_, unsigned) = Signer::new("").encode("s", busy());
        assert!(unsigned[1].is_empty() && signer.decode(&unsigned, &["status"]).is_none());
    }

    #[test]
    fn types_of_our_own_travel() {
        let signer = Signer::new("k");
        let content = serde_json::json!({ "id": "1", "do": "status" });
        let ask = UnknownMessage { msg_type: "infinijup_request".to_owned(), content: content.clone() };
        let (_, frames) = signer.encode("s", ask.into());
        assert!(String::from_utf8_lossy(&frames[2]).contains("infinijup_request"));
        match signer.decode(&frames, &["infinijup_request"]).unwrap().content {
            JupyterMessageContent::UnknownMessage(message) => assert_eq!(message.content, content),
            other => panic!("{other:?}"),
        }
    }

    proptest! {
        #[test]
        fn no_frames_make_it_panic(
            noise in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..9),
            at in 0_usize..9,
        ) {
            let mut frames = noise;
            frames.insert(at.min(frames.len()), DELIMITER.to_vec());
            let _ = Signer::new("").decode(&frames, &["status"]);
        }

        #[test]
        fn no_content_makes_it_panic(content in ".{0,200}", kind in "(status|execute_input|execute_reply|infinijup_request)") {
            let header = format!("{{\"msg_type\": \"{kind}\"}}").into_bytes();
            let rest = [b"{}".to_vec(), b"{}".to_vec(), content.into_bytes()];
            let frames = [vec![DELIMITER.to_vec(), Vec::new(), header], rest.to_vec()].concat();
            let _ = Signer::new("").decode(&frames, &[&kind]);
        }
    }
}
