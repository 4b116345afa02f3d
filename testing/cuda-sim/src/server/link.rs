//! The way between a GPU and the host, with as many bytes a second as the server was told.
//!
//! Memory of this machine stands for memory of a GPU, so a copy takes no longer than any copy. With a limit it takes at least as long
//! as it would over such a link: each direction is busy until what was sent before has passed, and who copies waits for that.
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::lock;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the host to the GPU.
    In,
    /// From the GPU to the host.
    Out,
}

/// The link of one GPU.
#[derive(Debug, Default)]
pub struct Link {
    /// Bytes a second; `None`: no limit.
    speed: Option<u64>,
    /// Until when each direction is busy.
    busy: [Mutex<Option<Instant>>; 2],
}

impl Link {
    /// One of this speed.
    #[must_use]
    pub fn new(speed: Option<u64>) -> Self {
        Self { speed: speed.filter(|speed| *speed > 0), busy: Default::default() }
    }

    /// Does a copy of so many bytes, and waits until they would have passed.
    ///
    /// # Errors
    /// Those of the copy, which take no time.
    pub fn pass<E>(
        &self,
        way: Way,
        bytes: u64,
        copy: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let begun = Instant::now();
        copy()?;
        let Some(speed) = self.speed else { return Ok(()) };
        #[expect(clippy::cast_precision_loss, reason = "bytes of a copy; a nanosecond more or less")]
        let takes = Duration::from_secs_f64(bytes as f64 / speed as f64);
        let [inward, outward] = &self.busy;
        let mut busy = lock(if way == Way::In { inward } else { outward });
        let until = busy.map_or(begun, |until| until.max(begun)) + takes;
        *busy = Some(until);
        drop(busy);
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_take_as_long_as_the_link_and_share_it() {
        let link = Link::new(Some(100 << 20));
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for way in [Way::Out, Way::Out, Way::In] {
                let link = &link;
                scope.spawn(move || link.pass(way, 5 << 20, || Ok::<_, ()>(())).unwrap());
            }
        });
        let took = begun.elapsed();
        assert!(took >= Duration::from_millis(100), "{took:?}: two of three went the same way");
        assert!(took < Duration::from_secs(5), "{took:?}");
        assert_eq!(link.pass(Way::In, u64::MAX, || Err(7)), Err(7), "what fails takes no time");
    }

    #[test]
    fn without_a_speed_nothing_waits() {
        let begun = Instant::now();
        Link::new(None).pass(Way::In, u64::MAX, || Ok::<_, ()>(())).unwrap();
        Link::new(Some(0)).pass(Way::In, u64::MAX, || Ok::<_, ()>(())).unwrap();
        // At any speed, so many bytes would take years.
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}
