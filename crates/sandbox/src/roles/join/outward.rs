//! A server in the box gets a port on the machine's loopback.
//!
//! That happens when somebody asks which servers there are: nothing is opened that nobody wants to know of. The port stays for as long as
//! the server listens, and is the one of before where it is free. Everybody on the machine can connect to it, so of each connection
//! the kernel is asked whose it is ([`whose`](super::super::whose)).
//!
//! Not everything that listens is a server for people. A kernel's own ports are known, but kernels and libraries also open ports of the
//! system's choice for their own ends: for ZeroMQ, for a debugger. Those greet whoever connects, which no web server does. So a port
//! of the system's choice that speaks first is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use super::super::carry::plainly_both_ways;
use super::super::whose::is_ours;
use super::door::{Door, stop};
use super::inward::Inward;
use super::{Open, first_of_any};
use crate::listening;
use crate::loopback::{Loopback, Servers};

/// As many servers as are shown.
const MOST: usize = 32;
/// How long somebody has who would speak first.
const GREETING: Duration = Duration::from_millis(250);

pub(super) struct Outward {
    plan: Loopback,
    door: Arc<Door>,
    inward: Arc<Inward>,
    open: Open,
    listening: BTreeMap<u16, (SocketAddr, TcpListener)>,
    /// What listens and is no server for people.
    left_out: BTreeSet<u16>,
}

impl Outward {
    pub(super) fn new(plan: &Loopback, door: Arc<Door>, inward: Arc<Inward>, open: Open) -> Self {
        Self { plan: plan.clone(), door, inward, open, listening: BTreeMap::new(), left_out: BTreeSet::new() }
    }

    /// Which servers the box has now, with the ports that lead to them from here on.
    pub(super) fn look(&mut self) -> io::Result<Servers> {
        let found = listening::in_network_of(self.plan.holder.pid)?;
        let servers = servers(found, |port| !self.plan.own.contains(&port) && !self.inward.has(port));
        self.listening.retain(|port, (address, listener)| {
            let stays = servers.get(port) == Some(address);
            if !stays {
                stop(listener);
            }
            stays
        });
        self.left_out.retain(|port| servers.contains_key(port));
        let first_of_any = first_of_any();
        for (port, address) in servers {
            if self.listening.contains_key(&port) || self.left_out.contains(&port) {
                continue;
            }
            if port >= first_of_any && self.speaks_first(address) {
                self.left_out.insert(port);
            } else {
                let listener = self.lead_to(port, address)?;
                self.listening.insert(port, (address, listener));
            }
        }
        let mut told = Servers::new();
        for (port, (_, listener)) in &self.listening {
            told.insert(*port, listener.local_addr()?.port());
        }
        self.plan.before.extend(&told);
        Ok(told)
    }

    /// Whether this one greets whoever connects, or turns them away.
    fn speaks_first(&self, server: SocketAddr) -> bool {
        let heard = self.door.connect(server).and_then(|mut server| {
            server.set_read_timeout(Some(GREETING))?;
            server.read(&mut [0])
        });
        !matches!(heard, Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut))
    }

    /// A listener whose connections are led to this server.
    fn lead_to(&self, port: u16, server: SocketAddr) -> io::Result<TcpListener> {
        let before = self.plan.before.get(&port).copied().unwrap_or(0);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, before))
            .or_else(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let door = Arc::clone(&self.door);
        self.open.take(&listener, move |client| {
            if !is_ours(client)? {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            client.set_nodelay(true)?;
            plainly_both_ways(client, &door.connect(server)?)
        })?;
        Ok(listener)
    }
}

/// Where to connect to for each port that is listened on. One that listens on several addresses is reached at the first.
fn servers(found: Vec<SocketAddr>, is_wanted: impl Fn(u16) -> bool) -> BTreeMap<u16, SocketAddr> {
    let mut servers = BTreeMap::new();
    for address in found.into_iter().filter(|address| is_wanted(address.port())) {
        let ip = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        if servers.len() < MOST {
            servers.entry(address.port()).or_insert_with(|| SocketAddr::new(ip, address.port()));
        }
    }
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_reached_where_it_listens() {
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let found =
            ["0.0.0.0:8050", "127.0.0.1:9001", "[::]:8050", "[::]:5000", "[::1]:5001", "127.0.0.3:5002"];
        let servers = servers(found.map(address).to_vec(), |port| port != 9001);
        let expected =
            [(5000, "[::1]:5000"), (5001, "[::1]:5001"), (5002, "127.0.0.3:5002"), (8050, "127.0.0.1:8050")];
        assert_eq!(servers, expected.map(|(port, text)| (port, address(text))).into());
    }

    #[test]
    fn there_are_not_more_than_can_be_shown() {
        let found = (1..1000).map(|port| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)).collect();
        assert_eq!(servers(found, |_| true).len(), MOST);
    }
}
