//! A small deterministic generator (splitmix64), so that every machine makes the same images from the same seed.

/// The state is one word; streams are made by mixing numbers into the seed.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// The stream that belongs to these numbers.
    pub(crate) fn of(parts: &[u64]) -> Self {
        let mut rng = Self(0x1f1f_1d0c_5eed_0001);
        for part in parts {
            rng.0 ^= *part;
            rng.0 = rng.next();
        }
        rng
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `limit`, which must not be 0. The slight bias of the modulus does not matter here.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A number in [0, 1) with 53 random bits, as numpy makes them.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Puts a slice in random order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            let other = usize::try_from(self.below(at as u64 + 1)).unwrap_or(at);
            items.swap(at, other);
        }
    }
}
