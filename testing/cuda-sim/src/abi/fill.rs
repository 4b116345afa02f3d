//! Exported functions: fills. The `_ptds` and `_ptsz` forms take the thread's own default stream for NULL.
use super::export;
use crate::client::enter;
use crate::code::{Code, Result};
use crate::wire::{Core, Span};

export! {
    fn cuMemsetD8_v2(to: u64, value: u8, count: u64) {
        fill(to, Row(count), 1, value.into(), None, false)
    }

    fn cuMemsetD8_v2_ptds(to: u64, value: u8, count: u64) {
        fill(to, Row(count), 1, value.into(), None, true)
    }

    fn cuMemsetD8Async(to: u64, value: u8, count: u64, stream: u64) {
        fill(to, Row(count), 1, value.into(), Some(stream), false)
    }

    fn cuMemsetD8Async_ptsz(to: u64, value: u8, count: u64, stream: u64) {
        fill(to, Row(count), 1, value.into(), Some(stream), true)
    }

    fn cuMemsetD2D8_v2(to: u64, pitch: u64, value: u8, width: u64, height: u64) {
        fill(to, Rows(pitch, width, height), 1, value.into(), None, false)
    }

    fn cuMemsetD2D8_v2_ptds(to: u64, pitch: u64, value: u8, width: u64, height: u64) {
        fill(to, Rows(pitch, width, height), 1, value.into(), None, true)
    }

    fn cuMemsetD2D8Async(to: u64, pitch: u64, value: u8, width: u64, height: u64, stream: u64) {
        fill(to, Rows(pitch, width, height), 1, value.into(), Some(stream), false)
    }

    fn cuMemsetD2D8Async_ptsz(to: u64, pitch: u64, value: u8, width: u64, height: u64, stream: u64) {
        fill(to, Rows(pitch, width, height), 1, value.into(), Some(stream), true)
    }

    fn cuMemsetD16_v2(to: u64, value: u16, count: u64) {
        fill(to, Row(count), 2, value.into(), None, false)
    }

    fn cuMemsetD16_v2_ptds(to: u64, value: u16, count: u64) {
        fill(to, Row(count), 2, value.into(), None, true)
    }

    fn cuMemsetD16Async(to: u64, value: u16, count: u64, stream: u64) {
        fill(to, Row(count), 2, value.into(), Some(stream), false)
    }

    fn cuMemsetD16Async_ptsz(to: u64, value: u16, count: u64, stream: u64) {
        fill(to, Row(count), 2, value.into(), Some(stream), true)
    }

    fn cuMemsetD2D16_v2(to: u64, pitch: u64, value: u16, width: u64, height: u64) {
        fill(to, Rows(pitch, width, height), 2, value.into(), None, false)
    }

    fn cuMemsetD2D16_v2_ptds(to: u64, pitch: u64, value: u16, width: u64, height: u64) {
        fill(to, Rows(pitch, width, height), 2, value.into(), None, true)
    }

    fn cuMemsetD2D16Async(to: u64, pitch: u64, value: u16, width: u64, height: u64, stream: u64) {
        fill(to, Rows(pitch, width, height), 2, value.into(), Some(stream), false)
    }

    fn cuMemsetD2D16Async_ptsz(to: u64, pitch: u64, value: u16, width: u64, height: u64, stream: u64) {
        fill(to, Rows(pitch, width, height), 2, value.into(), Some(stream), true)
    }

    fn cuMemsetD32_v2(to: u64, value: u32, count: u64) {
        fill(to, Row(count), 4, value, None, false)
    }

    fn cuMemsetD32_v2_ptds(to: u64, value: u32, count: u64) {
        fill(to, Row(count), 4, value, None, true)
    }

    fn cuMemsetD32Async(to: u64, value: u32, count: u64, stream: u64) {
        fill(to, Row(count), 4, value, Some(stream), false)
    }

    fn cuMemsetD32Async_ptsz(to: u64, value: u32, count: u64, stream: u64) {
        fill(to, Row(count), 4, value, Some(stream), true)
    }

    fn cuMemsetD2D32_v2(to: u64, pitch: u64, value: u32, width: u64, height: u64) {
        fill(to, Rows(pitch, width, height), 4, value, None, false)
    }

    fn cuMemsetD2D32_v2_ptds(to: u64, pitch: u64, value: u32, width: u64, height: u64) {
        fill(to, Rows(pitch, width, height), 4, value, None, true)
    }

    fn cuMemsetD2D32Async(to: u64, pitch: u64, value: u32, width: u64, height: u64, stream: u64) {
        fill(to, Rows(pitch, width, height), 4, value, Some(stream), false)
    }

    fn cuMemsetD2D32Async_ptsz(to: u64, pitch: u64, value: u32, width: u64, height: u64, stream: u64) {
        fill(to, Rows(pitch, width, height), 4, value, Some(stream), true)
    }
}

/// What to fill, in elements: one row, or rows that start `pitch` bytes apart.
enum Shape {
    Row(u64),
    Rows(u64, u64, u64),
}
use Shape::{Row, Rows};

fn fill(address: u64, shape: Shape, size: u8, pattern: u32, stream: Option<u64>, own: bool) -> Result<()> {
    let call = enter()?;
    let number = call.stream(stream.unwrap_or(0), own)?;
    let (pitch, width, height) = match shape {
        Row(count) => (0, count, 1),
        Rows(pitch, width, height) => (pitch, width, height),
    };
    let width = width.checked_mul(size.into()).ok_or(Code::INVALID_VALUE)?;
    let span = Span { width, height };
    call.core(Core::Fill { stream: number, address, pitch, span, pattern, size, wait: stream.is_none() })
}
