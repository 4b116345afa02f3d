//! One file for each runtime: how it is asked, and its words in ours.

mod containerd;
pub(crate) mod grpc;
pub(crate) mod messages;
mod oci;
mod podman;
mod shared;

pub(crate) use containerd::layered;

use crate::container::{Container, Runtime};
use crate::error::Result;
use crate::member::Member;
use crate::places::Places;
use crate::query::Query;

use shared::Wanted;

/// The containers of one runtime that fit, by their name or as the one that `member` is in.
pub(crate) fn find(
    runtime: &Runtime,
    places: &Places,
    query: &Query,
    member: Option<&Member>,
) -> Result<Vec<Container>> {
    let wanted = Wanted { query, member };
    match runtime {
        Runtime::Containerd { socket } => containerd::find(socket, places, wanted),
        Runtime::Runc { program, root } | Runtime::Crun { program, root } => {
            oci::find(runtime, program, root, places.patience, wanted)
        }
        Runtime::Podman { program, options } => podman::find(program, options, places.patience, wanted),
    }
}
