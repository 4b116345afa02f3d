//! Well-known failures of CRIU, each as a sentence and a way out.

/// What a well-known failure means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// Text that CRIU's log has when it happens.
    pub pattern: &'static str,
    /// What it means, as the tail of a sentence.
    pub meaning: &'static str,
    /// What to do.
    pub way_out: &'static str,
}

/// The first entry of the table that one of `lines` fits.
pub fn explain(lines: &[String]) -> Option<&'static Explanation> {
    let _ = lines;
    None
}
