//! What is counted of sessions whose writes are followed, for Prometheus.
//!
//! It is counted by whoever follows them, and asked for when somebody looks.

use std::fmt;
use std::sync::{Arc, OnceLock};

use machine::{Counted, Courses};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// When rounds are made, in the order of [`Counted`].
const WHEN: [&str; 2] = ["dump", "rest"];
/// Why a dump copied everything while its session stood still, in the order of [`machine::Plainly`].
const WHY: [&str; 5] = ["device", "not_here", "mistrusted", "no_process", "doubt"];

/// Whoever follows sessions, once that is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Following(pub(crate) Arc<OnceLock<Arc<Courses>>>);

impl Collector for Following {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        match self.0.get() {
            Some(courses) => encode(&courses.counted(), encoder),
            None => Ok(()),
        }
    }
}

fn encode(counted: &Counted, encoder: DescriptorEncoder<'_>) -> fmt::Result {
    let mut out = Out(encoder);
    out.gauge("followed", "Sessions whose writes are followed", None, counted.trees)?;
    out.gauge(
        "fingerprints",
        "Memory that it takes to know their pages",
        Some(Unit::Bytes),
        counted.print_bytes,
    )?;
    let help = "What was copied while sessions rested and waits for a snapshot";
    out.gauge("waiting", help, Some(Unit::Bytes), counted.waiting_bytes)?;
    out.counters("rounds", "Rounds of copying", None, "when", WHEN.iter().zip(counted.rounds))?;
    let help = "Memory that was copied while sessions ran";
    out.counters("copied", help, Some(Unit::Bytes), "when", WHEN.iter().zip(counted.copied_bytes))?;
    let help = "Time that processes stood still for such rounds";
    out.counter("rounds_standing", help, Some(Unit::Seconds), counted.standing.as_secs_f64())?;
    let help = "Memory that was copied while sessions stood still for a snapshot";
    out.counter("copied_frozen", help, Some(Unit::Bytes), counted.frozen_bytes)?;
    let help = "Sessions that were followed from their first instruction after a restore";
    out.counter("followed_from_restore", help, None, counted.begun_at_restore)?;
    let help = "Snapshots that copied all memory while their session stood still";
    out.counters("plain_dumps", help, None, "why", WHY.iter().zip(counted.plain))?;
    let help = "Sessions that are not followed any more because a write was not noticed";
    out.counter("stale", help, None, counted.stale)
}

struct Out<'a>(DescriptorEncoder<'a>);

impl Out<'_> {
    fn gauge(&mut self, name: &str, help: &str, unit: Option<Unit>, value: u64) -> fmt::Result {
        let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
        gauge.encode(self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?)
    }

    fn counter<N>(&mut self, name: &str, help: &str, unit: Option<Unit>, value: N) -> fmt::Result
    where
        ConstCounter<N>: EncodeMetric,
    {
        let counter = ConstCounter::new(value);
        counter.encode(self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?)
    }

    fn counters<'n>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        label: &str,
        values: impl Iterator<Item = (&'n &'n str, u64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
        for (of, value) in values {
            ConstCounter::new(value).encode(family.encode_family(&[(label, *of)])?)?;
        }
        Ok(())
    }
}
