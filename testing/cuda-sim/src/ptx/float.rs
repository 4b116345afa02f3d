//! Floating-point arithmetic on slots.
//!
//! Rounding to nearest is what the processor does. The other directions start from the nearest result and look at what rounding
//! took away, which error-free transformations give exactly (Knuth's two-sum, and a product's error by a fused multiply-add).
//! `.ftz` is ignored: subnormals stay. Approximations (`ex2.approx` and its kin) are computed in double precision, so they are
//! closer to the truth than a GPU's.

#![expect(
    clippy::cast_possible_truncation,
    reason = "an operation looks at the low bits of a slot: that is what PTX says"
)]

use super::op::Round;

pub(super) trait Float: Copy + PartialOrd + 'static {
    fn get(slot: u64) -> Self;
    fn put(self) -> u64;
    fn double(self) -> f64;
    fn single(value: f64) -> Self;
    fn nan(self) -> bool;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn fma(self, b: Self, c: Self) -> Self;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    fn sqrt(self) -> Self;
    fn least(self, other: Self) -> Self;
    fn most(self, other: Self) -> Self;
    fn up(self) -> Self;
    fn down(self) -> Self;
    fn zero() -> Self;
    fn copy_sign(self, sign: Self) -> Self;
    fn kind(self) -> std::num::FpCategory;
}

macro_rules! float {
    ($ty:ty, $bits:ty) => {
        impl Float for $ty {
            fn get(slot: u64) -> Self {
                <$ty>::from_bits(slot as $bits)
            }
            fn put(self) -> u64 {
                u64::from(self.to_bits())
            }
            fn double(self) -> f64 {
                f64::from(self)
            }
            fn single(value: f64) -> Self {
                value as $ty
            }
            fn nan(self) -> bool {
                self.is_nan()
            }
            fn add(self, other: Self) -> Self {
                self + other
            }
            fn sub(self, other: Self) -> Self {
                self - other
            }
            fn mul(self, other: Self) -> Self {
                self * other
            }
            fn div(self, other: Self) -> Self {
                self / other
            }
            fn fma(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
            }
            fn neg(self) -> Self {
                -self
            }
            fn abs(self) -> Self {
                self.abs()
            }
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            fn least(self, other: Self) -> Self {
                self.min(other)
            }
            fn most(self, other: Self) -> Self {
                self.max(other)
            }
            fn up(self) -> Self {
                self.next_up()
            }
            fn down(self) -> Self {
                self.next_down()
            }
            fn zero() -> Self {
                0.0
            }
            fn copy_sign(self, sign: Self) -> Self {
                self.copysign(sign)
            }
            fn kind(self) -> std::num::FpCategory {
                self.classify()
            }
        }
    };
}
float!(f32, u32);
float!(f64, u64);

/// `nearest` moved one step if what rounding took away (`rest`, with the right sign) lies in the direction of `round`.
pub(super) fn direct<F: Float>(nearest: F, rest: F, round: Round) -> F {
    let zero = F::zero();
    if nearest.nan() || rest.nan() || rest == zero {
        return nearest;
    }
    match round {
        Round::Nearest => nearest,
        Round::Up if rest > zero => nearest.up(),
        Round::Down if rest < zero => nearest.down(),
        Round::Zero if nearest > zero && rest < zero => nearest.down(),
        Round::Zero if nearest < zero && rest > zero => nearest.up(),
        _ => nearest,
    }
}

/// `a + b` and what its rounding took away.
fn two_sum<F: Float>(a: F, b: F) -> (F, F) {
    let sum = a.add(b);
    let back = sum.sub(a);
    (sum, a.sub(sum.sub(back)).add(b.sub(back)))
}

const fn round(code: u8) -> Round {
    match code {
        1 => Round::Zero,
        2 => Round::Down,
        3 => Round::Up,
        _ => Round::Nearest,
    }
}

pub(super) fn add<F: Float, const R: u8>(a: u64, b: u64) -> u64 {
    let (a, b) = (F::get(a), F::get(b));
    if R == 0 {
        return a.add(b).put();
    }
    let (sum, rest) = two_sum(a, b);
    direct(sum, rest, round(R)).put()
}
pub(super) fn sub<F: Float, const R: u8>(a: u64, b: u64) -> u64 {
    add::<F, R>(a, F::get(b).neg().put())
}
pub(super) fn mul<F: Float, const R: u8>(a: u64, b: u64) -> u64 {
    let (a, b) = (F::get(a), F::get(b));
    let product = a.mul(b);
    if R == 0 {
        return product.put();
    }
    direct(product, a.fma(b, product.neg()), round(R)).put()
}
pub(super) fn fma<F: Float, const R: u8>(a: u64, b: u64, c: u64) -> u64 {
    let (a, b, c) = (F::get(a), F::get(b), F::get(c));
    let nearest = a.fma(b, c);
    if R == 0 {
        return nearest.put();
    }
    let product = a.mul(b);
    let error = a.fma(b, product.neg());
    let (sum, rest) = two_sum(product, c);
    direct(nearest, sum.sub(nearest).add(rest).add(error), round(R)).put()
}
pub(super) fn div<F: Float, const R: u8>(a: u64, b: u64) -> u64 {
    let (a, b) = (F::get(a), F::get(b));
    let quotient = a.div(b);
    if R == 0 {
        return quotient.put();
    }
    let rest = quotient.neg().fma(b, a);
    direct(quotient, if b < F::zero() { rest.neg() } else { rest }, round(R)).put()
}
pub(super) fn rcp<F: Float, const R: u8>(a: u64) -> u64 {
    div::<F, R>(F::single(1.0).put(), a)
}
pub(super) fn sqrt<F: Float, const R: u8>(a: u64) -> u64 {
    let a = F::get(a);
    let root = a.sqrt();
    direct(root, root.neg().fma(root, a), round(R)).put()
}

pub(super) fn neg<F: Float>(a: u64) -> u64 {
    F::get(a).neg().put()
}
pub(super) fn abs<F: Float>(a: u64) -> u64 {
    F::get(a).abs().put()
}
/// A number wins over a NaN.
pub(super) fn min<F: Float>(a: u64, b: u64) -> u64 {
    F::get(a).least(F::get(b)).put()
}
pub(super) fn max<F: Float>(a: u64, b: u64) -> u64 {
    F::get(a).most(F::get(b)).put()
}
fn nan_of<F: Float>(a: F, b: F) -> Option<u64> {
    (a.nan() || b.nan()).then(|| F::single(f64::NAN).put())
}
pub(super) fn min_nan<F: Float>(a: u64, b: u64) -> u64 {
    nan_of(F::get(a), F::get(b)).unwrap_or_else(|| min::<F>(a, b))
}
pub(super) fn max_nan<F: Float>(a: u64, b: u64) -> u64 {
    nan_of(F::get(a), F::get(b)).unwrap_or_else(|| max::<F>(a, b))
}
/// The first operand gives the sign.
pub(super) fn copysign<F: Float>(a: u64, b: u64) -> u64 {
    F::get(b).copy_sign(F::get(a)).put()
}
pub(super) fn saturate<F: Float>(a: u64) -> u64 {
    // a NaN becomes 0
    F::get(a).most(F::zero()).least(F::single(1.0)).put()
}

pub(super) fn rsqrt<F: Float>(a: u64) -> u64 {
    F::single(1.0 / F::get(a).double().sqrt()).put()
}
pub(super) fn sin(a: u64) -> u64 {
    f32::single(f32::get(a).double().sin()).put()
}
pub(super) fn cos(a: u64) -> u64 {
    f32::single(f32::get(a).double().cos()).put()
}
pub(super) fn lg2(a: u64) -> u64 {
    f32::single(f32::get(a).double().log2()).put()
}
pub(super) fn ex2(a: u64) -> u64 {
    f32::single(f32::get(a).double().exp2()).put()
}
pub(super) fn tanh(a: u64) -> u64 {
    f32::single(f32::get(a).double().tanh()).put()
}

pub(super) fn eq<F: Float>(a: u64, b: u64) -> u64 {
    u64::from(F::get(a) == F::get(b))
}
pub(super) fn ne<F: Float>(a: u64, b: u64) -> u64 {
    let (a, b) = (F::get(a), F::get(b));
    u64::from(!a.nan() && !b.nan() && a != b)
}
pub(super) fn lt<F: Float>(a: u64, b: u64) -> u64 {
    u64::from(F::get(a) < F::get(b))
}
pub(super) fn le<F: Float>(a: u64, b: u64) -> u64 {
    u64::from(F::get(a) <= F::get(b))
}
pub(super) fn gt<F: Float>(a: u64, b: u64) -> u64 {
    u64::from(F::get(a) > F::get(b))
}
pub(super) fn ge<F: Float>(a: u64, b: u64) -> u64 {
    u64::from(F::get(a) >= F::get(b))
}
// unordered forms: true as well if either is a NaN, so each is the complement of an ordered one
pub(super) fn equ<F: Float>(a: u64, b: u64) -> u64 {
    ne::<F>(a, b) ^ 1
}
pub(super) fn neu<F: Float>(a: u64, b: u64) -> u64 {
    eq::<F>(a, b) ^ 1
}
pub(super) fn ltu<F: Float>(a: u64, b: u64) -> u64 {
    ge::<F>(a, b) ^ 1
}
pub(super) fn leu<F: Float>(a: u64, b: u64) -> u64 {
    gt::<F>(a, b) ^ 1
}
pub(super) fn gtu<F: Float>(a: u64, b: u64) -> u64 {
    le::<F>(a, b) ^ 1
}
pub(super) fn geu<F: Float>(a: u64, b: u64) -> u64 {
    lt::<F>(a, b) ^ 1
}
pub(super) fn num<F: Float>(a: u64, b: u64) -> u64 {
    nan::<F>(a, b) ^ 1
}
pub(super) fn nan<F: Float>(a: u64, b: u64) -> u64 {
    u64::from(F::get(a).nan() || F::get(b).nan())
}

pub(super) fn is_finite<F: Float>(a: u64) -> u64 {
    u64::from(!matches!(F::get(a).kind(), std::num::FpCategory::Nan | std::num::FpCategory::Infinite))
}
pub(super) fn is_infinite<F: Float>(a: u64) -> u64 {
    u64::from(F::get(a).kind() == std::num::FpCategory::Infinite)
}
pub(super) fn is_number<F: Float>(a: u64) -> u64 {
    u64::from(!F::get(a).nan())
}
pub(super) fn is_nan<F: Float>(a: u64) -> u64 {
    u64::from(F::get(a).nan())
}
pub(super) fn is_normal<F: Float>(a: u64) -> u64 {
    u64::from(F::get(a).kind() == std::num::FpCategory::Normal)
}
pub(super) fn is_subnormal<F: Float>(a: u64) -> u64 {
    u64::from(F::get(a).kind() == std::num::FpCategory::Subnormal)
}

pub(super) fn atomic_add<F: Float>(old: u64, b: u64, _: u64) -> u64 {
    add::<F, 0>(old, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(value: f32) -> u64 {
        u64::from(value.to_bits())
    }

    #[test]
    fn directed_rounding_brackets_the_truth() {
        let (a, b) = (bits(1.0), bits(1e-10));
        assert_eq!(add::<f32, 1>(a, b), bits(1.0));
        assert_eq!(add::<f32, 3>(a, b), bits(1.0_f32.next_up()));
        assert_eq!(add::<f32, 2>(a, bits(-1e-10)), bits(1.0_f32.next_down()));
        assert_eq!(add::<f32, 1>(a, bits(-1e-10)), bits(1.0_f32.next_down()));
        let third_down = f32::get(div::<f32, 2>(bits(1.0), bits(3.0)));
        let third_up = f32::get(div::<f32, 3>(bits(1.0), bits(3.0)));
        assert_eq!(third_down.next_up(), third_up);
        assert!(f64::from(third_down) < 1.0 / 3.0 && f64::from(third_up) > 1.0 / 3.0);
        let down = f32::get(fma::<f32, 2>(bits(1.1), bits(1.3), bits(0.7)));
        let up = f32::get(fma::<f32, 3>(bits(1.1), bits(1.3), bits(0.7)));
        assert_eq!(down.next_up(), up);
    }

    #[test]
    fn nans_lose_against_numbers_and_compare_unordered() {
        let nan = bits(f32::NAN);
        assert_eq!(max::<f32>(nan, bits(0.0)), bits(0.0));
        assert!(f32::get(max_nan::<f32>(nan, bits(0.0))).is_nan());
        assert_eq!(
            (lt::<f32>(nan, nan), ltu::<f32>(nan, nan), neu::<f32>(nan, nan), ne::<f32>(nan, nan)),
            (0, 1, 1, 0)
        );
        assert_eq!(saturate::<f32>(nan), 0);
        assert_eq!(saturate::<f32>(bits(7.0)), bits(1.0));
    }
}
