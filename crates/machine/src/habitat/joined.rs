//! The servers of a box, and the services of the machine that it reaches ([`sandbox::Loopback`]).
//!
//! A session that may go outside is joined with the machine's loopback as soon as its processes are there. Any other one is joined, outward
//! only, when somebody asks for its servers and it has some. Which port led to which server is written down, so that it does again
//! after a rollback or a sleep.

use std::collections::BTreeMap;
use std::path::PathBuf;

use api::{Network, Server};
use lifecycle::Result;
use lifecycle::ports::{Record, make_private};
use sandbox::{Loopback, Servers, bounded};

use super::OwnBox;

/// A file with some dozens of ports; nobody writes more.
const LARGEST: u64 = 64 << 10;

impl OwnBox {
    /// Joins the box with the machine's loopback if it may reach that. Best effort: a session lives without.
    pub(super) fn join(&self, record: &Record) {
        if !record.outside {
            return;
        }
        let _one_at_a_time = self.joining();
        if let Some(loopback) = self.loopback(record) {
            let _without = self.start_joining(record, &loopback);
        }
    }

    /// The same, unless it is.
    pub(super) fn join_again(&self, record: &Record) {
        if !Loopback::is_joined(&self.join_socket(record)) {
            self.join(record);
        }
    }

    /// The servers that the processes of a session run.
    pub(super) fn servers_of(&self, record: &Record) -> Result<Vec<Server>> {
        let _one_at_a_time = self.joining();
        let Some(loopback) = self.loopback(record) else { return Ok(Vec::new()) };
        let socket = self.join_socket(record);
        let servers = match Loopback::servers(&socket) {
            Ok(servers) => servers,
            Err(_) if !loopback.has_servers() => return Ok(Vec::new()),
            // Nobody has asked before, or what answered has ended.
            Err(_) => {
                self.start_joining(record, &loopback)?;
                Loopback::servers(&socket)?
            }
        };
        self.remember(record, loopback.before, &servers);
        Ok(servers.into_iter().map(|(port, outside_port)| Server { port, outside_port }).collect())
    }

    /// What there is to join; nothing if the session does not live in a network of its own now.
    fn loopback(&self, record: &Record) -> Option<Loopback> {
        let holder =
            record.holder.filter(|holder| record.network == Network::Private && holder.is_alive())?;
        let own = record.kernel.iter().flat_map(|kernel| kernel.ports.iter().map(|(_, inside)| *inside));
        let before = bounded::read_small(&self.remembered(record), LARGEST).unwrap_or_default();
        Some(Loopback {
            holder,
            inward: record.outside,
            own: own.collect(),
            before: serde_json::from_slice(&before).unwrap_or_default(),
        })
    }

    fn start_joining(&self, record: &Record, loopback: &Loopback) -> Result<()> {
        make_private(&self.place.gate(&record.id))?;
        Ok(loopback.join(&self.program, &self.join_socket(record))?)
    }

    fn join_socket(&self, record: &Record) -> PathBuf {
        self.place.gate(&record.id).join("join")
    }

    fn remembered(&self, record: &Record) -> PathBuf {
        self.place.session(&record.id).join("servers.json")
    }

    /// Ports that have changed are written down. Whoever cannot read them gets others next time.
    fn remember(&self, record: &Record, before: Servers, servers: &Servers) {
        let mut all = before.clone();
        all.extend(servers);
        // One that starts servers on ever new ports must not fill the file: what is there now is what counts.
        let all: BTreeMap<_, _> = if all.len() > 256 { servers.clone() } else { all };
        if all != before
            && let Ok(text) = serde_json::to_vec(&all)
        {
            let _forgotten = std::fs::write(self.remembered(record), text);
        }
    }
}
