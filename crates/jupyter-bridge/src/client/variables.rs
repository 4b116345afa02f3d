//! The variables of a Python kernel: what the snippet `variables.py` finds, checked.
//!
//! The snippet travels as one expression: it is run in a namespace of its own, and sees the user's as a dictionary that it
//! only reads. What comes back is the word of a program that belongs to somebody else, so it is cut to size here too.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Kernel;
use crate::error::Result;

const SNIPPET: &str = include_str!("variables.py");

/// The most variables that are told.
const MOST: usize = 500;

/// The longest text of one, in characters.
const WIDTH: usize = 200;

/// A variable of a kernel's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its type, with the module unless that is `builtins`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its own size in bytes, without what it refers to; of an array, that of its data.
    #[serde(default)]
    pub size: Option<u64>,
    /// A number or the beginning of a text, or how many or which shape.
    #[serde(default)]
    pub summary: String,
}

#[derive(Deserialize)]
struct Found {
    variables: Vec<Variable>,
}

impl Kernel {
    /// The variables of an idle Python kernel, by name. `None` if it has another idea of them.
    pub fn variables(&self, limit: Duration) -> Result<Option<Vec<Variable>>> {
        const NAME: &str = "infinijup";
        let mut answers = self.evaluate(BTreeMap::from([(NAME.to_owned(), expression())]), limit)?;
        let Some(Ok(answer)) = answers.remove(NAME) else { return Ok(None) };
        let Ok(found) = serde_json::from_value::<Found>(answer) else { return Ok(None) };
        Ok(Some(found.variables.into_iter().take(MOST).map(short).collect()))
    }
}

/// One expression that runs the snippet and hands it the user's namespace.
fn expression() -> String {
    // A JSON string with ASCII in it is a Python string, too.
    let source = serde_json::Value::from(SNIPPET).to_string();
    format!("(lambda own, names: (exec({source}, own), own['look'](names))[1])({{}}, globals())")
}

fn short(variable: Variable) -> Variable {
    let cut = |text: String| text.chars().filter(|c| !c.is_control()).take(WIDTH).collect::<String>();
    Variable {
        name: cut(variable.name),
        kind: cut(variable.kind),
        summary: cut(variable.summary),
        size: variable.size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_snippet_is_plain_text() {
        assert!(SNIPPET.is_ascii() && !SNIPPET.contains('\r'));
        assert!(expression().lines().count() == 1);
    }

    #[test]
    fn what_a_kernel_says_is_cut() {
        let long =
            Variable { name: "x\n".repeat(900), kind: "t".into(), size: None, summary: "s".repeat(900) };
        let cut = short(long);
        assert_eq!((cut.name.len(), cut.summary.len()), (WIDTH, WIDTH));
        assert!(!cut.name.contains('\n'));
    }
}
