//! Lists of processes.
//!
//! A caller asks twice: with too little room for the number of entries (INSUFFICIENT_SIZE), then with enough.
use std::time::{SystemTime, UNIX_EPOCH};

use super::types::{ProcessInfo, ProcessInfoV1, ProcessUtilizationSample};
use super::{Handle, manage};
use crate::abi::Out;
use crate::nvml::{Result, Status};
use crate::wire::Use;

/// Of 64 and of 32 bits: no such value here.
const NOT_AVAILABLE: u64 = u64::MAX;
const NO_INSTANCE: u32 = u32::MAX;

manage! {
    fn nvmlDeviceGetComputeRunningProcesses(device: Handle, count: Out<u32>, list: Out<ProcessInfoV1>) {
        put_list(count, list, plain(device)?.iter().map(first_form))
    }
    fn nvmlDeviceGetComputeRunningProcesses_v2(device: Handle, count: Out<u32>, list: Out<ProcessInfo>) {
        put_list(count, list, plain(device)?.iter().map(form))
    }
    fn nvmlDeviceGetComputeRunningProcesses_v3(device: Handle, count: Out<u32>, list: Out<ProcessInfo>) {
        put_list(count, list, plain(device)?.iter().map(form))
    }
    fn nvmlDeviceGetGraphicsRunningProcesses(device: Handle, count: Out<u32>, list: Out<ProcessInfoV1>) {
        device.card()?;
        put_list(count, list, std::iter::empty())
    }
    fn nvmlDeviceGetGraphicsRunningProcesses_v2(device: Handle, count: Out<u32>, list: Out<ProcessInfo>) {
        device.card()?;
        put_list(count, list, std::iter::empty())
    }
    fn nvmlDeviceGetGraphicsRunningProcesses_v3(device: Handle, count: Out<u32>, list: Out<ProcessInfo>) {
        device.card()?;
        put_list(count, list, std::iter::empty())
    }
    fn nvmlDeviceGetMPSComputeRunningProcesses(device: Handle, count: Out<u32>, list: Out<ProcessInfoV1>) {
        put_list(count, list, of_mps(device)?.iter().map(first_form))
    }
    fn nvmlDeviceGetMPSComputeRunningProcesses_v2(device: Handle, count: Out<u32>, list: Out<ProcessInfo>) {
        put_list(count, list, of_mps(device)?.iter().map(form))
    }
    fn nvmlDeviceGetMPSComputeRunningProcesses_v3(device: Handle, count: Out<u32>, list: Out<ProcessInfo>) {
        put_list(count, list, of_mps(device)?.iter().map(form))
    }
    fn nvmlDeviceGetProcessUtilization(
        device: Handle,
        list: Out<ProcessUtilizationSample>,
        count: Out<u32>,
        _last_seen: u64,
    ) {
        let card = device.card()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let time_stamp = u64::try_from(now).unwrap_or_default();
        let working: Vec<&Use> = card.processes.iter().filter(|_| card.busy).collect();
        if working.is_empty() {
            return Err(Status::NOT_FOUND);
        }
        put_list(count, list, working.iter().map(|process| ProcessUtilizationSample {
            pid: process.pid,
            time_stamp,
            sm_util: 100 / u32::try_from(working.len()).unwrap_or(100),
            mem_util: 10,
            enc_util: 0,
            dec_util: 0,
        }))
    }
}

fn plain(device: Handle) -> Result<Vec<Use>> {
    Ok(device.card()?.processes.into_iter().filter(|process| !process.mps).collect())
}

fn of_mps(device: Handle) -> Result<Vec<Use>> {
    Ok(device.card()?.processes.into_iter().filter(|process| process.mps).collect())
}

fn first_form(process: &Use) -> ProcessInfoV1 {
    ProcessInfoV1 { pid: process.pid, used_gpu_memory: process.bytes.unwrap_or(NOT_AVAILABLE) }
}

fn form(process: &Use) -> ProcessInfo {
    let ProcessInfoV1 { pid, used_gpu_memory } = first_form(process);
    ProcessInfo { pid, used_gpu_memory, gpu_instance_id: NO_INSTANCE, compute_instance_id: NO_INSTANCE }
}

fn put_list<T>(count: Out<u32>, list: Out<T>, entries: impl ExactSizeIterator<Item = T>) -> Result<()> {
    let room = count.given()?;
    let there = u32::try_from(entries.len()).map_err(|_| Status::UNKNOWN)?;
    count.put(there)?;
    if there > room {
        return Err(Status::INSUFFICIENT_SIZE);
    }
    Ok(list.put_all(entries)?)
}
