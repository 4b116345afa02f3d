//! The addresses that podman has given to a container, which it keeps.
//!
//! podman makes the network of a container anew whenever that comes back, and takes any address that is free. A socket that listened on the
//! old one could not be restored then, and whoever had that address would find nobody there. podman's own checkpoint leaves a file beside
//! the specification, `network.status`, and its restore asks for the addresses in it and removes it (`libpod/container_internal_common.go`). So before
//! one is ended, the same file is written from what podman says then. A second container beside it has none, and gets addresses of its own.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use base::{io_error, proc};
use serde::{Deserialize, Serialize};

use super::error::Result;
use super::podman::Podman;

/// In the directory of the specification.
const KEPT: &str = "network.status";

/// What podman says of a container, as far as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    #[serde(default, rename = "OCIConfigPath")]
    config: PathBuf,
    #[serde(default)]
    network_settings: Settings,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Settings {
    networks: Option<BTreeMap<String, Network>>,
}

/// One that it is in.
#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Network {
    #[serde(rename = "IPAddress")]
    address: String,
    #[serde(rename = "IPPrefixLen")]
    prefix: u8,
    gateway: String,
    mac_address: String,
}

/// The file's, for each network.
#[derive(Serialize)]
struct Kept {
    interfaces: BTreeMap<String, Interface>,
}

#[derive(Serialize)]
struct Interface {
    subnets: Vec<Subnet>,
    mac_address: String,
}

#[derive(Serialize)]
struct Subnet {
    ipnet: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    gateway: String,
}

impl Podman<'_> {
    /// Has it come back with the addresses that it has now. `init` is its first process, which still runs.
    pub(super) fn keep_addresses(&self, init: i32) -> Result<()> {
        let said: Inspected = self.inspect(self.id.as_str(), "the look at its addresses")?;
        let networks = said.network_settings.networks.unwrap_or_default();
        let routes =
            proc::read_text(init, "net/route").map_err(io_error("read", proc::path(init, "net/route")))?;
        let routes = Routes(routes.unwrap_or_default());
        let kept: BTreeMap<&String, Kept> =
            networks.iter().filter_map(|(name, network)| Some((name, kept(network, &routes)?))).collect();
        if kept.is_empty() {
            return Ok(());
        }
        let path = said.config.with_file_name(KEPT);
        // Text and numbers cannot fail to be written.
        let text = serde_json::to_vec(&kept).unwrap_or_default();
        Ok(fs::write(&path, text).map_err(io_error("write", &path))?)
    }
}

/// What is to be the same; nothing of a network without an address of version 4.
fn kept(network: &Network, routes: &Routes) -> Option<Kept> {
    let address: Ipv4Addr = network.address.parse().ok()?;
    let name = routes.interface_of(address)?;
    let subnet = Subnet { ipnet: format!("{address}/{}", network.prefix), gateway: network.gateway.clone() };
    let interface = Interface { subnets: vec![subnet], mac_address: network.mac_address.clone() };
    Some(Kept { interfaces: BTreeMap::from([(name, interface)]) })
}

/// The kernel's `/proc/PID/net/route`, which numbers addresses as they lie in memory.
struct Routes(String);

impl Routes {
    /// The interface in whose own network an address lies.
    fn interface_of(&self, address: Ipv4Addr) -> Option<String> {
        let number = |text: &str| u32::from_str_radix(text, 16).ok().map(u32::from_be);
        self.0.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let [name, network, gateway, _, _, _, _, mask, ..] = fields.as_slice() else { return None };
            let (network, gateway, mask) = (number(network)?, number(gateway)?, number(mask)?);
            let is_own = gateway == 0 && mask != 0 && u32::from(address) & mask == network;
            is_own.then(|| (*name).to_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0100580A\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth0\t0000580A\t00000000\t0001\t0\t0\t100\t0000FFFF\t0\t0\t0
eth1\t0000590A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0
";

    #[test]
    fn an_address_is_at_the_interface_of_its_network() {
        let routes = Routes(ROUTES.to_owned());
        let at = |address: [u8; 4]| routes.interface_of(address.into());
        assert_eq!(at([10, 88, 0, 7]).as_deref(), Some("eth0"));
        assert_eq!(at([10, 89, 0, 7]).as_deref(), Some("eth1"));
        assert_eq!(at([10, 89, 1, 7]), None);
        assert_eq!(Routes("nonsense\n".to_owned()).interface_of([10, 88, 0, 7].into()), None);
    }

    #[test]
    fn what_is_kept_is_in_podmans_own_words() {
        let said = br#"{"OCIConfigPath": "/x/config.json", "NetworkSettings": {"Networks": {
            "podman": {"IPAddress": "10.88.0.7", "IPPrefixLen": 16, "Gateway": "10.88.0.1", "MacAddress": "aa:bb:cc:00:11:22"},
            "six": {"IPAddress": "", "GlobalIPv6Address": "fd00::2"}}}}"#;
        let said: Inspected = serde_json::from_slice(said).unwrap();
        let networks = said.network_settings.networks.unwrap();
        let routes = Routes(ROUTES.to_owned());
        assert_eq!(
            serde_json::to_value(kept(&networks["podman"], &routes)).unwrap(),
            serde_json::json!({"interfaces": {"eth0": {
                "subnets": [{"ipnet": "10.88.0.7/16", "gateway": "10.88.0.1"}], "mac_address": "aa:bb:cc:00:11:22"}}})
        );
        assert!(kept(&networks["six"], &routes).is_none());
    }
}
