//! This machine, as `doctor` looks at it.

use std::sync::Arc;
use std::time::Duration;

use doctor::gpu::Seen;
use doctor::{Finding, Machine};
use lifecycle::ports::{Examine, HabitatKind, Place, explain};
use preflight::free_bytes;
use sandbox::Program;

use crate::criu_here::CriuHere;
use crate::nvidia::Nvidia;

/// How long NVML may take to say what there is.
const NVML_LIMIT: Duration = Duration::from_secs(10);

/// What is looked at.
pub(crate) struct DoctorHere {
    pub(crate) place: Place,
    pub(crate) program: Program,
    pub(crate) criu: Arc<CriuHere>,
    pub(crate) gpu: Arc<Nvidia>,
}

impl Examine for DoctorHere {
    fn examine(&self, trial: &mut dyn FnMut() -> Result<String, String>) -> Vec<Finding> {
        let machine = Machine {
            state_dir: &self.place.state,
            run_dir: &self.place.run,
            criu: self.criu.criu(),
            program: Some(&self.program),
            copies_ahead: self.criu.notes_for_copying_ahead(HabitatKind::OwnBox).map(drop),
            not_followed: self.criu.not_followed(),
            gpu: Some(Seen::of_this_machine(gpu_detect::host(NVML_LIMIT), || {
                self.gpu.capabilities().map_err(|error| explain(&error))
            })),
            free_bytes: &|path| free_bytes(path).map_err(|error| explain(&error)),
        };
        doctor::doctor(&machine, trial)
    }
}
