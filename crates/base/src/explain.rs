//! An error as one line of text, for where nothing but text gets through.

use std::error::Error;

/// The error with its causes. A cause that the text ends with already is not said twice.
pub fn explain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Told {
        text: &'static str,
        source: io::Error,
    }

    #[test]
    fn every_cause_is_said_once() {
        let told = |text| Told { text, source: io::Error::other("the disk is gone") };
        assert_eq!(explain(&told("cannot read")), "cannot read: the disk is gone");
        assert_eq!(explain(&told("cannot read: the disk is gone")), "cannot read: the disk is gone");
        let twice = io::Error::other(told("cannot read"));
        assert_eq!(explain(&twice), "cannot read: the disk is gone");
    }
}
