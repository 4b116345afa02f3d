//! The server's side of the requests of `wire::Nvml`.
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{Gpu, Process, Server, Stream, body, lock};
use crate::code::{Code, Result};
use crate::nvml::Settings;
use crate::wire::{Card, Machine, Nvml, Use};

pub(super) fn handle(server: &Arc<Server>, process: &Arc<Process>, request: &Nvml) -> Result<Value> {
    match *request {
        Nvml::Machine => {
            // A question that the kernel does not answer, as with a GPU that is falling off the bus.
            while lock(&server.nvml).hang {
                std::thread::sleep(Duration::from_millis(20));
            }
            body(server.machine())
        }
        Nvml::SetPersistence { gpu, on } => {
            server.gpu(gpu)?;
            if !process.is_root() {
                return Err(Code::NOT_PERMITTED);
            }
            lock(&server.nvml).persistence.insert(gpu, on);
            Ok(Value::Null)
        }
    }
}

impl Server {
    /// Changes what NVML tells; what the command does not name stays.
    ///
    /// # Errors
    /// What is wrong with the command.
    pub fn set_nvml(&self, command: &Value) -> std::result::Result<(), String> {
        lock(&self.nvml).change(command)
    }

    /// The machine at this moment.
    #[must_use]
    pub fn machine(&self) -> Machine {
        let settings = lock(&self.nvml).clone();
        let processes: Vec<Arc<Process>> = self.processes();
        let level = self.level();
        Machine {
            driver: level.driver().to_owned(),
            cuda: level.cuda(),
            confidential: settings.confidential,
            cards: self.gpus.iter().map(|gpu| self.card(gpu, &processes, &settings)).collect(),
        }
    }

    fn card(&self, gpu: &Gpu, processes: &[Arc<Process>], settings: &Settings) -> Card {
        let index = gpu.info.index;
        let here: Vec<&Arc<Process>> =
            processes.iter().filter(|process| process.gpus().contains(&index)).collect();
        let mut uses: Vec<Use> = here
            .iter()
            .map(|process| Use {
                pid: process.pid.unsigned_abs(),
                bytes: (!settings.memory_unavailable).then(|| process.bytes(index)),
                mps: settings.mps,
            })
            .collect();
        uses.extend(settings.zero_byte_pids.iter().map(|&pid| Use { pid, bytes: Some(0), mps: false }));
        uses.sort_by_key(|process| process.pid);
        let busy = here.iter().any(|process| {
            let contexts = lock(&process.tables).contexts.clone();
            process.streams(None).iter().any(|stream| {
                contexts.get(&stream.context).is_some_and(|context| context.gpu.info.index == index)
                    && !Stream::newest(stream).done()
            })
        });
        let others = self.gpus.iter().filter(|other| settings.nvlink && other.info.index != index);
        Card {
            used: gpu.used(),
            lost: gpu.is_lost(),
            busy,
            persistence: settings.persistence.get(&index).copied().unwrap_or(true),
            mig: settings.mig.get(&index).copied(),
            links: others.map(|other| other.info.pci).collect(),
            processes: uses,
            info: gpu.info.clone(),
        }
    }
}
