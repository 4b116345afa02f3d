//! What listens on the machine's loopback is found at the same address in the box.
//!
//! Once a second the machine's listeners are looked at, and each of their ports is listened on inside unless somebody there has it. Their
//! own servers come first for the processes of a box: nothing is listened on while they are being restored. A port that the machine
//! has is taken for them then, as it would be without a box.
//!
//! Left out are the ports that the system gives to whoever asks for any: most of those are connections of programs among themselves,
//! the ports of kernels and those that [`super::outward`] opens.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use super::super::carry::plainly_both_ways;
use super::door::{Door, stop};
use super::{Open, first_of_any};
use crate::listening;
use crate::loopback::Loopback;

/// As many ports as are carried.
const MOST: usize = 256;

pub(super) struct Inward {
    door: Arc<Door>,
    open: Open,
    own: BTreeSet<u16>,
    listening: Mutex<BTreeMap<u16, TcpListener>>,
}

impl Inward {
    pub(super) fn new(plan: &Loopback, door: Arc<Door>, open: Open) -> Self {
        Self { door, open, own: plan.own.iter().copied().collect(), listening: Mutex::default() }
    }

    /// Whether we listen on this port in the box.
    pub(super) fn has(&self, port: u16) -> bool {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&port)
    }

    /// Looks at the machine's loopback, and does inside what has changed there.
    pub(super) fn look(&self) {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        // What cannot be looked at now is looked at again soon.
        let Ok(found) = listening::in_network_of(own) else { return };
        let first_of_any = first_of_any();
        let wanted: BTreeSet<u16> = found
            .into_iter()
            .filter(|address| is_for_loopback(address.ip()))
            .map(|address| address.port())
            .filter(|port| *port < first_of_any && !self.own.contains(port))
            .take(MOST)
            .collect();
        let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        listening.retain(|port, listener| {
            let stays = wanted.contains(port);
            if !stays {
                stop(listener);
            }
            stays
        });
        for port in wanted {
            if !listening.contains_key(&port)
                && let Ok(listener) = self.door.listen(port)
                && self.carry(port, &listener).is_ok()
            {
                listening.insert(port, listener);
            }
        }
    }

    /// Leads whoever connects to it to the machine's.
    fn carry(&self, port: u16, listener: &TcpListener) -> std::io::Result<()> {
        self.open.take(listener, move |client| {
            let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
                .or_else(|_| TcpStream::connect((Ipv6Addr::LOCALHOST, port)))?;
            server.set_nodelay(true)?;
            client.set_nodelay(true)?;
            plainly_both_ways(client, &server)
        })
    }
}

fn is_for_loopback(address: IpAddr) -> bool {
    address.is_unspecified() || address == Ipv4Addr::LOCALHOST || address == Ipv6Addr::LOCALHOST
}
