//! The names in `tests/fixtures/names/table.json`, which the rules in Python and TypeScript are held against as well.
#![forbid(unsafe_code)]

use serde::Deserialize;

#[derive(Deserialize)]
struct Row {
    name: String,
    /// How often the name is repeated, for long ones.
    #[serde(default = "once")]
    times: usize,
    session: bool,
    tag: bool,
}

const fn once() -> usize {
    1
}

#[test]
fn every_name_of_the_table_is_judged_as_it_says() {
    let rows: Vec<Row> =
        serde_json::from_str(include_str!("../../../tests/fixtures/names/table.json")).expect("the table");
    assert!(rows.len() > 40, "the table has {} rows", rows.len());
    for row in rows {
        let name = row.name.repeat(row.times);
        let judged = (base::names::check_session(&name), base::names::check_ref(&name));
        assert_eq!((judged.0.is_ok(), judged.1.is_ok()), (row.session, row.tag), "{name:?}: {judged:?}");
    }
}
