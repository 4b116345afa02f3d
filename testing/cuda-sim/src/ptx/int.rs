//! Integer arithmetic on slots.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_lossless,
    reason = "an operation looks at the low bits of a slot and reinterprets them: that is what PTX says"
)]

pub(super) trait Int: Copy + Ord + 'static {
    const BITS: u32;
    fn get(slot: u64) -> Self;
    fn put(self) -> u64;
    fn wide(self) -> i128;
    fn cut(value: i128) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Option<Self>;
    fn rem(self, other: Self) -> Option<Self>;
    fn shr(self, by: u32) -> Option<Self>;
}

macro_rules! int {
    ($($ty:ty),*) => {$(
        impl Int for $ty {
            const BITS: u32 = <$ty>::BITS;
            fn get(slot: u64) -> Self { slot as $ty }
            fn put(self) -> u64 { self as u64 }
            fn wide(self) -> i128 { self as i128 }
            fn cut(value: i128) -> Self { value as $ty }
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            fn sub(self, other: Self) -> Self { self.wrapping_sub(other) }
            fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
            fn div(self, other: Self) -> Option<Self> { (other != 0).then(|| self.wrapping_div(other)) }
            fn rem(self, other: Self) -> Option<Self> { (other != 0).then(|| self.wrapping_rem(other)) }
            fn shr(self, by: u32) -> Option<Self> { self.checked_shr(by) }
        }
    )*};
}
int!(u8, u16, u32, u64, i8, i16, i32, i64);

pub(super) fn add<T: Int>(a: u64, b: u64) -> u64 {
    T::get(a).add(T::get(b)).put()
}
pub(super) fn add_saturating(a: u64, b: u64) -> u64 {
    (a as i32).saturating_add(b as i32) as u64
}
pub(super) fn sub_saturating(a: u64, b: u64) -> u64 {
    (a as i32).saturating_sub(b as i32) as u64
}
pub(super) fn sub<T: Int>(a: u64, b: u64) -> u64 {
    T::get(a).sub(T::get(b)).put()
}
pub(super) fn mul_lo<T: Int>(a: u64, b: u64) -> u64 {
    T::get(a).mul(T::get(b)).put()
}
pub(super) fn mul_hi<T: Int>(a: u64, b: u64) -> u64 {
    T::cut(high::<T>(a, b)).put()
}
/// The upper half; the product of two unsigned 64-bit values needs all 128 bits without a sign.
fn high<T: Int>(a: u64, b: u64) -> i128 {
    let (a, b) = (T::get(a).wide(), T::get(b).wide());
    (if a >= 0 && b >= 0 { (a as u128 * b as u128) as i128 } else { a * b }) >> T::BITS
}
pub(super) fn mul_wide<T: Int>(a: u64, b: u64) -> u64 {
    T::get(a).wide().wrapping_mul(T::get(b).wide()) as u64
}
pub(super) fn mad_lo<T: Int>(a: u64, b: u64, c: u64) -> u64 {
    T::get(a).mul(T::get(b)).add(T::get(c)).put()
}
pub(super) fn mad_hi<T: Int>(a: u64, b: u64, c: u64) -> u64 {
    T::cut(high::<T>(a, b)).add(T::get(c)).put()
}
pub(super) fn mad_wide<T: Int>(a: u64, b: u64, c: u64) -> u64 {
    mul_wide::<T>(a, b).wrapping_add(c)
}
fn low24<T: Int>(a: u64) -> i128 {
    // T is a 32-bit type: shift the 24 bits up and back down, so that the sign comes along
    T::get(T::get(a << 8).put()).shr(8).map_or(0, Int::wide)
}
pub(super) fn mul24_lo<T: Int>(a: u64, b: u64) -> u64 {
    T::cut(low24::<T>(a) * low24::<T>(b)).put()
}
pub(super) fn mad24_lo<T: Int>(a: u64, b: u64, c: u64) -> u64 {
    T::cut(low24::<T>(a) * low24::<T>(b)).add(T::get(c)).put()
}
/// A division by zero gives all ones, as the hardware does.
pub(super) fn div<T: Int>(a: u64, b: u64) -> u64 {
    T::get(a).div(T::get(b)).unwrap_or(T::cut(-1)).put()
}
pub(super) fn rem<T: Int>(a: u64, b: u64) -> u64 {
    T::get(a).rem(T::get(b)).unwrap_or(T::get(a)).put()
}
pub(super) fn min<T: Int>(a: u64, b: u64) -> u64 {
    T::get(a).min(T::get(b)).put()
}
pub(super) fn max<T: Int>(a: u64, b: u64) -> u64 {
    T::get(a).max(T::get(b)).put()
}
pub(super) fn neg<T: Int>(a: u64) -> u64 {
    T::cut(-T::get(a).wide()).put()
}
pub(super) fn abs<T: Int>(a: u64) -> u64 {
    T::cut(T::get(a).wide().abs()).put()
}
pub(super) fn sad<T: Int>(a: u64, b: u64, c: u64) -> u64 {
    T::cut((T::get(a).wide() - T::get(b).wide()).abs()).add(T::get(c)).put()
}
pub(super) fn shl<T: Int>(a: u64, b: u64) -> u64 {
    let by = b as u32;
    if by < T::BITS { T::get(a << by).put() } else { 0 }
}
/// Shifts of the width or more leave the sign.
pub(super) fn shr<T: Int>(a: u64, b: u64) -> u64 {
    let a = T::get(a);
    a.shr(b as u32).unwrap_or(if a.wide() < 0 { T::cut(-1) } else { T::cut(0) }).put()
}

pub(super) fn eq<T: Int>(a: u64, b: u64) -> u64 {
    u64::from(T::get(a) == T::get(b))
}
pub(super) fn ne<T: Int>(a: u64, b: u64) -> u64 {
    u64::from(T::get(a) != T::get(b))
}
pub(super) fn lt<T: Int>(a: u64, b: u64) -> u64 {
    u64::from(T::get(a) < T::get(b))
}
pub(super) fn le<T: Int>(a: u64, b: u64) -> u64 {
    u64::from(T::get(a) <= T::get(b))
}
pub(super) fn gt<T: Int>(a: u64, b: u64) -> u64 {
    u64::from(T::get(a) > T::get(b))
}
pub(super) fn ge<T: Int>(a: u64, b: u64) -> u64 {
    u64::from(T::get(a) >= T::get(b))
}

pub(super) fn and(a: u64, b: u64) -> u64 {
    a & b
}
pub(super) fn or(a: u64, b: u64) -> u64 {
    a | b
}
pub(super) fn xor(a: u64, b: u64) -> u64 {
    a ^ b
}
pub(super) fn not(a: u64) -> u64 {
    !a
}
pub(super) fn not_pred(a: u64) -> u64 {
    u64::from(a == 0)
}
pub(super) fn cnot<T: Int>(a: u64) -> u64 {
    u64::from(T::get(a).wide() == 0)
}
pub(super) fn select(a: u64, b: u64, p: u64) -> u64 {
    if p != 0 { a } else { b }
}
pub(super) fn select_sign(a: u64, b: u64, c: u64) -> u64 {
    if (c as i32) >= 0 { a } else { b }
}

pub(super) fn popc32(a: u64) -> u64 {
    u64::from((a as u32).count_ones())
}
pub(super) fn popc64(a: u64) -> u64 {
    u64::from(a.count_ones())
}
pub(super) fn clz32(a: u64) -> u64 {
    u64::from((a as u32).leading_zeros())
}
pub(super) fn clz64(a: u64) -> u64 {
    u64::from(a.leading_zeros())
}
pub(super) fn brev32(a: u64) -> u64 {
    u64::from((a as u32).reverse_bits())
}
pub(super) fn brev64(a: u64) -> u64 {
    a.reverse_bits()
}
/// The highest bit that differs from the sign; all ones if there is none.
fn find<T: Int>(a: u64) -> Option<u32> {
    let value = T::get(a).wide();
    let value = if value < 0 { !value } else { value };
    127_u32.checked_sub(value.leading_zeros())
}
pub(super) fn bfind<T: Int>(a: u64) -> u64 {
    find::<T>(a).map_or(0xffff_ffff, u64::from)
}
pub(super) fn bfind_shift<T: Int>(a: u64) -> u64 {
    find::<T>(a).map_or(0xffff_ffff, |at| u64::from(T::BITS - 1 - at))
}
pub(super) fn bfe<T: Int>(a: u64, b: u64, c: u64) -> u64 {
    let (at, length) = ((b & 0xff) as u32, (c & 0xff) as u32);
    if length == 0 {
        return 0;
    }
    let value = T::get(a).wide();
    let negative = value < 0;
    let length = length.min(T::BITS);
    // for a signed type the field is extended with its own top bit, which is the sign of `a` when it reaches beyond it
    let field = if at >= T::BITS { if negative { -1 } else { 0 } } else { value >> at };
    let field = field & ((1_i128 << length) - 1);
    let signed = T::cut(-1).wide() < 0;
    let field = if signed && field >> (length - 1) & 1 == 1 { field | (-1_i128 << length) } else { field };
    T::cut(field).put()
}
pub(super) fn bfi<T: Int>(a: u64, b: u64, c: u64, d: u64) -> u64 {
    let (at, length) = ((c & 0xff) as u32, (d & 0xff) as u32);
    if at >= T::BITS || length == 0 {
        return b;
    }
    let length = length.min(T::BITS - at);
    let mask = if length >= 64 { u64::MAX } else { (1_u64 << length) - 1 } << at;
    (b & !mask) | ((a << at) & mask)
}
/// Any function of three inputs, by its table of truth.
pub(super) fn lop3(a: u64, b: u64, c: u64, table: u64) -> u64 {
    (0..8_u64).filter(|row| table >> row & 1 == 1).fold(0, |all, row| {
        let pick = |value: u64, bit: u64| if row & bit != 0 { value } else { !value };
        all | (pick(a, 4) & pick(b, 2) & pick(c, 1))
    })
}
/// Four bytes out of eight; bit 3 of a selector repeats the sign of its byte.
pub(super) fn prmt(a: u64, b: u64, c: u64) -> u64 {
    let bytes = (a & 0xffff_ffff) | (b << 32);
    (0..4).fold(0, |all, at| {
        let selector = c >> (4 * at);
        let byte = bytes >> (8 * (selector & 7)) & 0xff;
        let byte = if selector & 8 != 0 { if byte & 0x80 != 0 { 0xff } else { 0 } } else { byte };
        all | byte << (8 * at)
    })
}
pub(super) fn funnel_left_wrap(a: u64, b: u64, c: u64) -> u64 {
    (pack32(a, b) << (c & 31)) >> 32
}
pub(super) fn funnel_left_clamp(a: u64, b: u64, c: u64) -> u64 {
    (pack32(a, b) << (c & 0xffff_ffff).min(32)) >> 32
}
pub(super) fn funnel_right_wrap(a: u64, b: u64, c: u64) -> u64 {
    (pack32(a, b) >> (c & 31)) & 0xffff_ffff
}
pub(super) fn funnel_right_clamp(a: u64, b: u64, c: u64) -> u64 {
    (pack32(a, b) >> (c & 0xffff_ffff).min(32)) & 0xffff_ffff
}
pub(super) fn dp4a_unsigned(a: u64, b: u64, c: u64) -> u64 {
    (0..4).fold(c as u32, |sum, at| {
        sum.wrapping_add(((a >> (8 * at)) as u8 as u32) * ((b >> (8 * at)) as u8 as u32))
    }) as u64
}
pub(super) fn dp4a_signed(a: u64, b: u64, c: u64) -> u64 {
    (0..4).fold(c as i32, |sum, at| {
        sum.wrapping_add(((a >> (8 * at)) as i8 as i32) * ((b >> (8 * at)) as i8 as i32))
    }) as u64
}

pub(super) fn pack16(a: u64, b: u64) -> u64 {
    (a & 0xffff) | (b & 0xffff) << 16
}
pub(super) fn pack32(a: u64, b: u64) -> u64 {
    (a & 0xffff_ffff) | b << 32
}
pub(super) fn pack16x4(a: u64, b: u64, c: u64, d: u64) -> u64 {
    pack32(pack16(a, b), pack16(c, d))
}
pub(super) fn pack8x4(a: u64, b: u64, c: u64, d: u64) -> u64 {
    (a & 0xff) | (b & 0xff) << 8 | (c & 0xff) << 16 | (d & 0xff) << 24
}
/// Bits `b` and up of `a`, for unpacking.
pub(super) fn part(a: u64, b: u64) -> u64 {
    a >> (b & 63)
}

pub(super) fn extend_u8(a: u64) -> u64 {
    a & 0xff
}
pub(super) fn extend_u16(a: u64) -> u64 {
    a & 0xffff
}
pub(super) fn extend_u32(a: u64) -> u64 {
    a & 0xffff_ffff
}
pub(super) fn extend_s8(a: u64) -> u64 {
    a as i8 as u64
}
pub(super) fn extend_s16(a: u64) -> u64 {
    a as i16 as u64
}
pub(super) fn extend_s32(a: u64) -> u64 {
    a as i32 as u64
}

// what atomic operations leave: (old, operand, second operand)
pub(super) fn exchange(_: u64, b: u64, _: u64) -> u64 {
    b
}
pub(super) fn compare_and_swap(old: u64, b: u64, c: u64) -> u64 {
    if old == b { c } else { old }
}
pub(super) fn compare_and_swap32(old: u64, b: u64, c: u64) -> u64 {
    if old as u32 == b as u32 { c } else { old }
}
pub(super) fn compare_and_swap16(old: u64, b: u64, c: u64) -> u64 {
    if old as u16 == b as u16 { c } else { old }
}
pub(super) fn increment(old: u64, b: u64, _: u64) -> u64 {
    let old = old as u32;
    if old >= b as u32 { 0 } else { u64::from(old + 1) }
}
pub(super) fn decrement(old: u64, b: u64, _: u64) -> u64 {
    let (old, b) = (old as u32, b as u32);
    u64::from(if old == 0 || old > b { b } else { old - 1 })
}
pub(super) fn atomic_add<T: Int>(old: u64, b: u64, _: u64) -> u64 {
    add::<T>(old, b)
}
pub(super) fn atomic_min<T: Int>(old: u64, b: u64, _: u64) -> u64 {
    min::<T>(old, b)
}
pub(super) fn atomic_max<T: Int>(old: u64, b: u64, _: u64) -> u64 {
    max::<T>(old, b)
}
pub(super) fn atomic_and(old: u64, b: u64, _: u64) -> u64 {
    old & b
}
pub(super) fn atomic_or(old: u64, b: u64, _: u64) -> u64 {
    old | b
}
pub(super) fn atomic_xor(old: u64, b: u64, _: u64) -> u64 {
    old ^ b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_awkward_ones() {
        assert_eq!(mul_hi::<u64>(u64::MAX, u64::MAX), u64::MAX - 1);
        assert_eq!(mul_hi::<i64>(u64::MAX, 5) as i64, -1);
        assert_eq!(mul_hi::<i32>(0x8000_0000, 2) as i32, -1);
        assert_eq!(mul_wide::<i32>(0xffff_ffff, 7) as i64, -7);
        assert_eq!(div::<i32>(0x8000_0000, 0xffff_ffff) as u32, 0x8000_0000);
        assert_eq!(div::<u32>(7, 0) as u32, u32::MAX);
        assert_eq!(shl::<u32>(1, 32), 0);
        assert_eq!(shr::<i32>(0x8000_0000, 40) as i32, -1);
        assert_eq!(prmt(0x3322_1100, 0x7766_5544, 0x5140), 0x5511_4400);
        assert_eq!(lop3(0xf0, 0xcc, 0xaa, 0x96) & 0xff, 0xf0 ^ 0xcc ^ 0xaa);
        assert_eq!(bfe::<i32>(0b1100_0000, 4, 4) as i32, -4);
        assert_eq!(bfe::<u32>(0xffff_ffff, 4, 255), 0x0fff_ffff);
        assert_eq!(bfi::<u32>(0xf, 0, 8, 4), 0xf00);
        assert_eq!(bfind::<u32>(0), 0xffff_ffff);
        assert_eq!(bfind_shift::<u32>(1), 31);
        assert_eq!(funnel_left_wrap(0x8000_0000, 1, 1), 3);
        assert_eq!(mul24_lo::<i32>(0xff_ffff, 3) as i32, -3);
    }
}
