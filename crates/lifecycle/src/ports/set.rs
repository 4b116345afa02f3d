//! Everything that is done to the machine, in one place.

use std::sync::Arc;

use session_record::HabitatKind;

use crate::ports::{Checkpointer, Examine, Gpu, Habitat};

/// Whoever does things to the machine, given to an engine.
pub struct Ports {
    /// Saves and makes processes.
    pub checkpointer: Arc<dyn Checkpointer>,
    /// What they have on GPUs.
    pub gpu: Arc<dyn Gpu>,
    /// Where they live: [`HabitatKind::OwnBox`].
    pub own_box: Arc<dyn Habitat>,
    /// [`HabitatKind::HostTree`].
    pub host_tree: Arc<dyn Habitat>,
    /// [`HabitatKind::Container`].
    pub container: Arc<dyn Habitat>,
    /// Says what the machine can and cannot do.
    pub doctor: Arc<dyn Examine>,
}

impl Ports {
    /// Where the processes of such a session live.
    pub(crate) fn habitat(&self, kind: HabitatKind) -> &dyn Habitat {
        match kind {
            HabitatKind::OwnBox => self.own_box.as_ref(),
            HabitatKind::HostTree => self.host_tree.as_ref(),
            HabitatKind::Container => self.container.as_ref(),
        }
    }
}
