//! What the machine can and cannot do.

use doctor::Finding;

/// Looks at the machine, for people.
pub trait Examine: Send + Sync {
    /// Item by item. `trial` takes a real snapshot of a small session and brings it back; it says how that went, and it comes last.
    fn examine(&self, trial: &mut dyn FnMut() -> Result<String, String>) -> Vec<Finding>;
}
