//! `cvt`: between integers and floats of all sizes.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "conversions are what this file is about; each one says how it rounds or wraps"
)]

use super::float::direct;
use super::op::{Convert, Round, Ty};

pub(super) fn convert(how: Convert, slot: u64) -> u64 {
    if how.from.float() {
        let value = to_double(how.from, slot);
        if how.to.float() { float_to_float(how, value) } else { float_to_int(how, value) }
    } else {
        let value = to_wide(how.from, slot);
        if how.to.float() {
            from_double(how.to, int_to_double(how, value), how.round)
        } else if how.saturate {
            let (low, high) = range(how.to);
            value.clamp(low, high) as u64
        } else {
            narrow(how.to, value as u64)
        }
    }
}

/// The value of `ty` in a slot, extended to 64 bits as `ty` is.
pub(super) fn narrow(ty: Ty, slot: u64) -> u64 {
    match ty {
        Ty::Pred => u64::from(slot != 0),
        Ty::B8 | Ty::U8 => u64::from(slot as u8),
        Ty::S8 => slot as i8 as u64,
        Ty::B16 | Ty::U16 | Ty::F16 | Ty::Bf16 => u64::from(slot as u16),
        Ty::S16 => slot as i16 as u64,
        Ty::B32 | Ty::U32 | Ty::F32 => u64::from(slot as u32),
        Ty::S32 => slot as i32 as u64,
        Ty::B64 | Ty::U64 | Ty::S64 | Ty::F64 => slot,
    }
}

fn to_wide(ty: Ty, slot: u64) -> i128 {
    let value = narrow(ty, slot);
    if ty.signed() { i128::from(value as i64) } else { i128::from(value) }
}

fn range(ty: Ty) -> (i128, i128) {
    let bits = u32::from(ty.size()) * 8;
    if ty.signed() {
        (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)
    } else {
        (0, (1_i128 << bits) - 1)
    }
}

fn float_to_int(how: Convert, value: f64) -> u64 {
    if value.is_nan() {
        return if how.to.size() == 8 { 1 << 63 } else { 0 };
    }
    let (low, high) = range(how.to);
    // `as` saturates, so that infinities become the ends of the range
    (integral(value, how.round) as i128).clamp(low, high) as u64
}

fn integral(value: f64, round: Round) -> f64 {
    match round {
        Round::Nearest => value.round_ties_even(),
        Round::Zero => value.trunc(),
        Round::Down => value.floor(),
        Round::Up => value.ceil(),
    }
}

fn float_to_float(how: Convert, value: f64) -> u64 {
    let value = if how.integral { integral(value, how.round) } else { value };
    let value =
        if how.saturate { f64::from_bits(super::float::saturate::<f64>(value.to_bits())) } else { value };
    from_double(how.to, value, how.round)
}

/// 64-bit integers do not fit a double: rounding goes straight to the target's precision, or it would happen twice.
fn int_to_double(how: Convert, value: i128) -> f64 {
    if how.to == Ty::F64 {
        let nearest = value as f64;
        return direct(nearest, (value - nearest as i128) as f64, how.round);
    }
    let nearest = value as f32;
    f64::from(direct(nearest, (value - nearest as i128) as f32, how.round))
}

fn to_double(ty: Ty, slot: u64) -> f64 {
    match ty {
        Ty::F64 => f64::from_bits(slot),
        Ty::F32 => f64::from(f32::from_bits(slot as u32)),
        Ty::Bf16 => f64::from(f32::from_bits((slot as u32) << 16)),
        _ => half_to_double(slot as u16),
    }
}

fn from_double(ty: Ty, value: f64, round: Round) -> u64 {
    match ty {
        Ty::F64 => value.to_bits(),
        Ty::F32 => {
            let nearest = value as f32;
            u64::from(direct(nearest, (value - f64::from(nearest)) as f32, round).to_bits())
        }
        Ty::Bf16 => small_from_double(value, round, 8, 7),
        _ => small_from_double(value, round, 5, 10),
    }
}

fn half_to_double(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let size = match exponent {
        0 => fraction * 2.0_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2.0_f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// Rounds to a 16-bit format with the given widths of exponent and fraction.
fn small_from_double(value: f64, round: Round, exponent_bits: u32, fraction_bits: u32) -> u64 {
    let sign = u64::from(value.is_sign_negative()) << 15;
    let top = (1_u64 << exponent_bits) - 1;
    if value.is_nan() {
        return (top << fraction_bits) | (1 << (fraction_bits - 1));
    }
    let size = value.abs();
    let bias = (1_i32 << (exponent_bits - 1)) - 1;
    let fraction = i32::try_from(fraction_bits).unwrap_or(0);
    // the exponent of the double, held at the smallest normal one of the target
    let exponent = ((size.to_bits() >> 52) as i32 - 1023).clamp(1 - bias, bias + 1);
    let steps = size * 2.0_f64.powi(fraction - exponent);
    let round = match (round, sign != 0) {
        (Round::Up, true) => Round::Down,
        (Round::Down, true) => Round::Up,
        (round, _) => round,
    };
    let steps = integral(steps, round) as u64;
    // a carry out of the fraction runs into the exponent, which is right
    let bits = (((exponent + bias - 1) as u64) << fraction_bits).saturating_add(steps);
    sign | bits.min(top << fraction_bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cvt(to: Ty, from: Ty, round: Round, slot: u64) -> u64 {
        convert(Convert { to, from, round, integral: false, saturate: false }, slot)
    }

    #[test]
    fn floats_to_integers_saturate() {
        let double = |value: f64| value.to_bits();
        assert_eq!(cvt(Ty::S32, Ty::F64, Round::Zero, double(-2.9)) as i32, -2);
        assert_eq!(cvt(Ty::S32, Ty::F64, Round::Nearest, double(2.5)), 2);
        assert_eq!(cvt(Ty::S32, Ty::F64, Round::Zero, double(1e30)) as i32, i32::MAX);
        assert_eq!(cvt(Ty::U32, Ty::F64, Round::Zero, double(-5.0)), 0);
        assert_eq!(cvt(Ty::S32, Ty::F64, Round::Zero, double(f64::NAN)), 0);
        assert_eq!(cvt(Ty::U64, Ty::F64, Round::Zero, double(f64::INFINITY)), u64::MAX);
    }

    #[test]
    fn integers_are_cut_extended_or_rounded() {
        assert_eq!(cvt(Ty::S64, Ty::S32, Round::Nearest, 0xffff_fffe), u64::MAX - 1);
        assert_eq!(cvt(Ty::U64, Ty::U32, Round::Nearest, u64::MAX), 0xffff_ffff);
        assert_eq!(cvt(Ty::U8, Ty::S32, Round::Nearest, 0x1ff), 0xff);
        let big = (1_u64 << 63) + 1;
        assert_eq!(cvt(Ty::F32, Ty::U64, Round::Nearest, big), u64::from(2_f32.powi(63).to_bits()));
        assert_eq!(cvt(Ty::F64, Ty::U64, Round::Up, big), 2_f64.powi(63).next_up().to_bits());
    }

    #[test]
    fn half_precision_goes_there_and_back() {
        for bits in 0..=u16::MAX {
            let value = half_to_double(bits);
            let back = small_from_double(value, Round::Nearest, 5, 10);
            assert!(value.is_nan() || back == u64::from(bits), "{bits:#x} {value} {back:#x}");
        }
        assert_eq!(small_from_double(65520.0, Round::Nearest, 5, 10), 0x7c00);
        assert_eq!(small_from_double(1.0 + 2.0_f64.powi(-9), Round::Up, 8, 7), 0x3f81);
    }
}
