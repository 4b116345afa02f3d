//! What any user sends to the one program that may run as root: requests to the GPU helper, and what it answers.

use checkpoint_cuda::helper::message::{ANSWER, Answer, LENGTH, Request};

pub(crate) fn run(bytes: &[u8]) {
    judge(bytes);
    // So that the search need not find the one length first.
    let mut whole = bytes.to_vec();
    whole.resize(LENGTH, 0);
    judge(&whole);
    whole.truncate(ANSWER);
    if let Some(answer) = Answer::parse(&whole) {
        assert_eq!(answer.bytes()[..], whole[..]);
    }
}

/// A request has exactly one form.
fn judge(bytes: &[u8]) {
    if let Some(request) = Request::parse(bytes) {
        assert_eq!(request.bytes().unwrap()[..], *bytes);
    }
}
