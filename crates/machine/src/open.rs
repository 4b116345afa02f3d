//! The pipelines are opened on this machine.

use std::sync::Arc;

use lifecycle::ports::{Place, Ports};
use lifecycle::{Config, Engine, Recovery, Result};
use sandbox::Program;

use crate::ahead::look_after_resting;
use crate::criu_here::{CriuHere, MemoryWays};
use crate::doctor_here::DoctorHere;
use crate::habitat::{Containers, HostTree, OwnBox};
use crate::nvidia::Nvidia;
use crate::program::settle;
use crate::settings::Settings;

/// Opens an engine that works on this machine; see [`Engine::open`].
pub fn open(config: Config, settings: Settings) -> Result<(Engine, Recovery)> {
    Engine::open(config, |place| this_machine(settings, place))
}

/// CRIU, NVIDIA's GPUs, boxes of ours, containers, and the processes of the host.
fn this_machine(settings: Settings, place: &Place) -> Result<Ports> {
    let Settings { program, criu, criu_limit, copy_ahead, standby, following, way_back, gpu } = settings;
    sandbox::forget_notes_of_another_boot();
    let program = settle(&Program::find(program.as_deref())?, &place.programs())?;
    look_after_resting(&following);
    let criu = Arc::new(CriuHere::new(
        criu,
        criu_limit,
        place,
        &program,
        MemoryWays { copy_ahead, following, way_back },
    ));
    let gpu = Arc::new(Nvidia::new(gpu));
    Ok(Ports {
        own_box: Arc::new(OwnBox::new(place, &program, standby)),
        host_tree: Arc::new(HostTree::new(Arc::clone(&criu))),
        container: Arc::new(Containers::new(place)),
        doctor: Arc::new(DoctorHere {
            place: place.clone(),
            program,
            criu: Arc::clone(&criu),
            gpu: Arc::clone(&gpu),
        }),
        checkpointer: criu,
        gpu,
    })
}
