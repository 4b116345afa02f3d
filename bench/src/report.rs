//! What a benchmark prints: one JSON object, with its bars.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

/// Whether a bar depends on the machine's mood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A time or a ratio of times. In smoke runs sizes are small and machines busy, so there it is held to a bar that is [`SLACK`] times as loose.
    Speed,
    /// A number of bytes or the like: the same on every machine, judged always.
    Count,
}

/// How much looser the bars of speed are in smoke runs: what misses them has become slower by an order, not by a mood.
const SLACK: f64 = 40.0;

/// A figure and the bar it is held to.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    name: &'static str,
    value: f64,
    unit: &'static str,
    bar: f64,
    at_least: bool,
    kind: Kind,
}

impl Bar {
    /// The figure must not be below the bar.
    pub(crate) const fn at_least(
        kind: Kind,
        name: &'static str,
        value: f64,
        unit: &'static str,
        bar: f64,
    ) -> Self {
        Self { name, value, unit, bar, at_least: true, kind }
    }

    /// The figure must not be above the bar.
    pub(crate) const fn at_most(
        kind: Kind,
        name: &'static str,
        value: f64,
        unit: &'static str,
        bar: f64,
    ) -> Self {
        Self { name, value, unit, bar, at_least: false, kind }
    }

    /// The bar that counts in a run of this kind.
    fn bar(&self, smoke: bool) -> f64 {
        match (smoke && self.kind == Kind::Speed, self.at_least) {
            (false, _) => self.bar,
            (true, true) => self.bar / SLACK,
            (true, false) => self.bar * SLACK,
        }
    }

    /// A figure that could not be had (NaN) misses every bar.
    fn met(&self, smoke: bool) -> bool {
        let bar = self.bar(smoke);
        if self.at_least { self.value >= bar } else { self.value <= bar }
    }

    fn json(&self, smoke: bool) -> Value {
        json!({
            "name": self.name,
            "value": round(self.value),
            "unit": self.unit,
            "bar": round(self.bar(smoke)),
            "sense": if self.at_least { "at least" } else { "at most" },
            "ok": self.met(smoke),
        })
    }
}

/// What a benchmark found. The first bar is its headline.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// The benchmark.
    pub(crate) name: &'static str,
    /// At least one.
    pub(crate) bars: Vec<Bar>,
    /// Every figure that was measured beside ours.
    pub(crate) compared_with: Value,
    /// How much data it was.
    pub(crate) sizes: Value,
}

impl Report {
    /// Whether all bars are met.
    pub(crate) fn ok(&self, smoke: bool) -> bool {
        !self.bars.is_empty() && self.bars.iter().all(|bar| bar.met(smoke))
    }

    /// Fails if a figure could not be had: that is no result, good or bad.
    pub(crate) fn check_complete(&self) -> Result<()> {
        ensure!(!self.bars.is_empty(), "{} has measured nothing", self.name);
        for bar in &self.bars {
            ensure!(bar.value.is_finite(), "{} has no figure for \"{}\"", self.name, bar.name);
        }
        Ok(())
    }

    /// The line to print.
    pub(crate) fn json(&self, smoke: bool, machine: &Value) -> Value {
        let first = self.bars.first().map_or(Value::Null, |bar| bar.json(smoke));
        json!({
            "name": self.name,
            "value": first["value"],
            "unit": first["unit"],
            "bar": first["bar"],
            "ok": self.ok(smoke),
            "smoke": smoke,
            "bars": self.bars.iter().map(|bar| bar.json(smoke)).collect::<Vec<_>>(),
            "compared_with": self.compared_with,
            "sizes": self.sizes,
            "machine": machine,
        })
    }
}

/// Four digits are enough for a figure that moves by a few per cent from run to run.
pub(crate) fn round(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powf(3.0 - value.abs().log10().floor());
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(count: f64, speed: f64) -> Report {
        Report {
            name: "x",
            bars: vec![
                Bar::at_most(Kind::Count, "bytes", count, "ratio", 1.1),
                Bar::at_least(Kind::Speed, "speed", speed, "GB/s", 2.0),
            ],
            compared_with: Value::Null,
            sizes: Value::Null,
        }
    }

    #[test]
    fn smoke_runs_are_loose_about_speed_only() {
        assert!(report(1.0, 3.0).ok(false));
        assert!(!report(1.0, 1.0).ok(false));
        assert!(report(1.0, 1.0).ok(true));
        assert!(!report(1.0, 0.04).ok(true));
        assert!(!report(1.2, 3.0).ok(true));
        assert!(!report(f64::NAN, 3.0).ok(true));
    }

    #[test]
    fn a_figure_that_is_missing_is_an_error() {
        report(1.0, 3.0).check_complete().unwrap();
        let error = report(1.0, f64::NAN).check_complete().unwrap_err();
        assert_eq!(error.to_string(), "x has no figure for \"speed\"");
        assert!(report(f64::INFINITY, 3.0).check_complete().is_err());
    }

    #[test]
    fn the_first_bar_is_the_headline() {
        let json = report(1.05, 3.0).json(false, &Value::Null);
        assert_eq!(json["value"], 1.05);
        assert_eq!(json["bar"], 1.1);
        assert_eq!(json["bars"][1]["ok"], true);
    }

    #[test]
    fn figures_are_rounded_to_four_digits() {
        assert!((round(1234.56) - 1235.0).abs() < 1e-9);
        assert!((round(0.001_234_56) - 0.001_235).abs() < 1e-12);
    }
}
