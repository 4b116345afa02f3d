//! Exported functions: events.
use super::{Out, export};
use crate::client::enter;
use crate::code::{Code, Result};
use crate::wire::Core;

export! {
    fn cuEventCreate(event: Out<u64>, flags: u32) {
        let call = enter()?;
        if event.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        event.put(call.create_event(flags)?)
    }

    fn cuEventDestroy(event: u64) {
        enter()?.destroy_event(event)
    }

    fn cuEventDestroy_v2(event: u64) {
        enter()?.destroy_event(event)
    }

    fn cuEventRecord(event: u64, stream: u64) {
        record(event, stream, false)
    }

    fn cuEventRecord_ptsz(event: u64, stream: u64) {
        record(event, stream, true)
    }

    fn cuEventRecordWithFlags(event: u64, stream: u64, _flags: u32) {
        record(event, stream, false)
    }

    fn cuEventRecordWithFlags_ptsz(event: u64, stream: u64, _flags: u32) {
        record(event, stream, true)
    }

    fn cuEventQuery(event: u64) {
        enter()?.core(Core::EventQuery { event })
    }

    fn cuEventSynchronize(event: u64) {
        enter()?.core(Core::EventSync { event })
    }

    fn cuEventElapsedTime(milliseconds: Out<f32>, start: u64, end: u64) {
        milliseconds.put(enter()?.core(Core::EventElapsed { start, end })?)
    }

    fn cuEventElapsedTime_v2(milliseconds: Out<f32>, start: u64, end: u64) {
        milliseconds.put(enter()?.core(Core::EventElapsed { start, end })?)
    }
}

fn record(event: u64, stream: u64, own: bool) -> Result<()> {
    let call = enter()?;
    let stream = call.stream(stream, own)?;
    call.core(Core::EventRecord { event, stream })
}
