//! NVLink: one link to each other GPU, where there are any.
use super::device::{characters, pci_prefix};
use super::types::{OlderPciInfo, PciInfo};
use super::{Handle, manage};
use crate::abi::Out;
use crate::nvml::{Result, Status, pci_text};

/// Links of an H100; those that lead nowhere are down.
const LINKS: u32 = 18;

manage! {
    fn nvmlDeviceGetNvLinkState(device: Handle, link: u32, state: Out<u32>) {
        Ok(state.put(u32::from(peer(device, link)?.is_some()))?)
    }
    fn nvmlDeviceGetNvLinkVersion(device: Handle, link: u32, version: Out<u32>) {
        peer(device, link)?.ok_or(Status::NOT_SUPPORTED)?;
        Ok(version.put(4)?)
    }
    fn nvmlDeviceGetNvLinkRemotePciInfo(device: Handle, link: u32, pci: Out<OlderPciInfo>) {
        let (address, chip) = peer(device, link)?.ok_or(Status::NOT_SUPPORTED)?;
        Ok(pci.put(pci_prefix(address, chip))?)
    }
    fn nvmlDeviceGetNvLinkRemotePciInfo_v2(device: Handle, link: u32, pci: Out<PciInfo>) {
        let (address, chip) = peer(device, link)?.ok_or(Status::NOT_SUPPORTED)?;
        Ok(pci.put(PciInfo { older: pci_prefix(address, chip), bus_id: characters(&pci_text(address, false)) })?)
    }
    fn nvmlDeviceGetP2PStatus(device: Handle, other: Handle, _kind: u32, status: Out<u32>) {
        let (card, other) = (device.card()?, other.card()?);
        // OK, or chipset not supported.
        Ok(status.put(u32::from(!card.links.contains(&other.info.pci)))?)
    }
    fn nvmlDeviceGetTopologyCommonAncestor(device: Handle, other: Handle, level: Out<u32>) {
        let (card, other) = (device.card()?, other.card()?);
        // The same host bridge; the same board.
        Ok(level.put(if card.info.index == other.info.index { 0 } else { 30 })?)
    }
}

/// What is at the other end of a link: its address and its chip. Not supported at all where nothing is linked.
fn peer(device: Handle, link: u32) -> Result<Option<([u32; 3], u32)>> {
    let card = device.card()?;
    if card.links.is_empty() {
        return Err(Status::NOT_SUPPORTED);
    }
    if link >= LINKS {
        return Err(Status::INVALID_ARGUMENT);
    }
    let address = usize::try_from(link).ok().and_then(|link| card.links.get(link).copied());
    Ok(address.map(|address| (address, card.info.pci_id)))
}
