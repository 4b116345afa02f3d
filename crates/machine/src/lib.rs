//! This machine, as the pipelines ask for it.
//!
//! `lifecycle` knows the order of things and declares what it needs of a machine ([`lifecycle::ports`]). Here is who does it:
//!
//! | port | here |
//! |---|---|
//! | `Checkpointer` | `criu_here`: CRIU, in a box or beside a tree of the host; `containers_here`: beside a container, and its runtime; `ahead/`: memory that is copied before CRIU freezes the tree; `filling`: memory that CRIU does not bring back |
//! | `Habitat` | `habitat/own_box`: a box of ours; `habitat/host_tree`: processes that were adopted while they ran; `habitat/container`: containers |
//! | `Gpu` | `nvidia/`: NVIDIA's driver |
//! | `Examine` | `doctor_here`: what `infinijup doctor` says |
//!
//! All of it is made and plugged in by [`open()`], and nowhere else is it known which of them there are.
#![forbid(unsafe_code)]

mod ahead;
mod asked;
mod containers_here;
mod credentials;
mod criu_here;
mod criu_notes;
mod doctor_here;
mod filling;
mod habitat;
mod nvidia;
mod open;
mod program;
mod settings;

pub use ahead::{Counted, Courses, Plainly, When};
pub use gpu_plan::GpuConfig;
pub use memory_path::{Injector, lead};
pub use open::open;
pub use settings::{CopyAhead, Settings};
