//! What is counted, for Prometheus.
//!
//! No label holds a name, a path or an id, only what the program itself knows the full list of: whoever collects figures has no
//! business with those, and the number of series stays bounded.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use api::{JobKind, JobResult, SessionState, SessionView};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::backend::Outcome;
use crate::following::Following;

/// The content type of what [`Metrics::render`] makes.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfOperation {
    operation: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfStep {
    operation: &'static str,
    step: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfFailure {
    operation: &'static str,
    code: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfState {
    state: &'static str,
}

/// The daemon's counters.
pub struct Metrics {
    registry: Registry,
    steps: Family<OfStep, Histogram>,
    operations: Family<OfOperation, Histogram>,
    frozen: Histogram,
    failures: Family<OfFailure, Counter>,
    running: Family<OfOperation, Gauge>,
    sessions: Family<OfState, Gauge>,
    standby: Gauge,
    captured: Counter<u64, AtomicU64>,
    written: Counter<u64, AtomicU64>,
    deduplicated: Counter<u64, AtomicU64>,
    redis_published: Counter<u64, AtomicU64>,
    redis_lost: Counter<u64, AtomicU64>,
    following: Following,
}

/// From a millisecond to a bit over a minute.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 17))
}

impl Metrics {
    pub(crate) fn new() -> Arc<Self> {
        let mut registry = Registry::with_prefix("infinijup");
        let metrics = (
            Family::new_with_constructor(seconds as fn() -> Histogram),
            Family::new_with_constructor(seconds as fn() -> Histogram),
            seconds(),
            Family::default(),
            Family::default(),
            Family::default(),
            Counter::default(),
            Counter::default(),
            Counter::default(),
        );
        let (steps, operations, frozen, failures, running, sessions, captured, written, deduplicated) =
            metrics;
        registry.register("build", "The daemon", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        let r = &mut registry;
        r.register_with_unit("step_duration", "Time of each step", Unit::Seconds, Family::clone(&steps));
        r.register_with_unit(
            "operation_duration",
            "Time of each operation that succeeded",
            Unit::Seconds,
            Family::clone(&operations),
        );
        r.register_with_unit(
            "frozen",
            "Time that processes stood still for a snapshot",
            Unit::Seconds,
            Histogram::clone(&frozen),
        );
        r.register("failures", "Operations that failed, by error code", Family::clone(&failures));
        r.register("jobs_running", "Operations under way", Family::clone(&running));
        r.register("sessions", "Sessions, by state", Family::clone(&sessions));
        r.register_with_unit(
            "captured",
            "Memory that snapshots hold",
            Unit::Bytes,
            Counter::clone(&captured),
        );
        r.register_with_unit("written", "What stores grew by", Unit::Bytes, Counter::clone(&written));
        r.register_with_unit(
            "deduplicated",
            "Memory that snapshots hold and stores did not have to write: known already, or compressed away",
            Unit::Bytes,
            Counter::clone(&deduplicated),
        );
        let standby = Gauge::default();
        r.register_with_unit("standby", "Memory of what stands by", Unit::Bytes, Gauge::clone(&standby));
        let (redis_published, redis_lost) = (Counter::default(), Counter::default());
        registry.register("redis_events", "Events that Redis has", Counter::clone(&redis_published));
        registry.register(
            "redis_events_lost",
            "Events that left the ring before Redis took them",
            Counter::clone(&redis_lost),
        );
        let following = Following::default();
        registry.register_collector(Box::new(following.clone()));
        Arc::new(Self {
            registry,
            steps,
            operations,
            frozen,
            failures,
            running,
            sessions,
            standby,
            captured,
            written,
            deduplicated,
            redis_published,
            redis_lost,
            following,
        })
    }

    /// Counts what these follow from now on.
    pub(crate) fn follow(&self, courses: Arc<machine::Courses>) {
        // There is one machine, and it is named once.
        let _ = self.following.0.set(courses);
    }

    /// Redis has an event.
    pub(crate) fn redis_published(&self) {
        self.redis_published.inc();
    }

    /// It will never have so many.
    pub(crate) fn redis_lost(&self, count: u64) {
        self.redis_lost.inc_by(count);
    }

    pub(crate) fn job_began(&self, kind: JobKind) {
        self.running.get_or_create(&OfOperation { operation: kind.as_str() }).inc();
    }

    pub(crate) fn job_ended(&self, kind: JobKind, outcome: &Outcome<JobResult>, took: Duration) {
        let operation = kind.as_str();
        self.running.get_or_create(&OfOperation { operation }).dec();
        match outcome {
            Err(failure) => {
                let code = failure.body.code.clone();
                self.failures.get_or_create(&OfFailure { operation, code }).inc();
            }
            Ok(JobResult::Skipped(_)) => (),
            Ok(result) => {
                self.operations.get_or_create(&OfOperation { operation }).observe(took.as_secs_f64());
                if let JobResult::Snapshot(taken) = result {
                    self.frozen.observe(Duration::from_micros(taken.frozen_us).as_secs_f64());
                    self.captured.inc_by(taken.memory_bytes);
                    self.written.inc_by(taken.new_bytes);
                    self.deduplicated.inc_by(taken.memory_bytes.saturating_sub(taken.new_bytes));
                }
            }
        }
    }

    pub(crate) fn step(&self, kind: JobKind, step: &'static str, micros: u64) {
        let took = Duration::from_micros(micros).as_secs_f64();
        self.steps.get_or_create(&OfStep { operation: kind.as_str(), step }).observe(took);
    }

    /// All of it as text; the sessions are counted when asked.
    pub(crate) fn render(&self, sessions: &[SessionView]) -> Result<String, std::fmt::Error> {
        for state in SessionState::ALL {
            let count = sessions.iter().filter(|session| session.state == state).count();
            let gauge = self.sessions.get_or_create_owned(&OfState { state: state.as_str() });
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        let standby: u64 = sessions.iter().filter_map(|session| session.standby_bytes).sum();
        self.standby.set(i64::try_from(standby).unwrap_or(i64::MAX));
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
