//! Figures of a GPU that nobody measures here: plausible, and moved by whether it works.
use crate::wire::Card;

/// Degrees Celsius.
#[must_use]
pub fn temperature(card: &Card) -> u32 {
    if card.busy { 61 } else { 34 }
}

/// What it draws now, and what it may draw.
#[must_use]
pub fn milliwatts(card: &Card) -> (u32, u32) {
    let most = if card.info.capability == [8, 9] { 450_000 } else { 700_000 };
    (if card.busy { most / 2 } else { most / 10 }, most)
}

/// MHz now and at most, of an `nvmlClockType_t`: graphics, SM, memory, video.
#[must_use]
pub fn clocks(card: &Card, kind: u32) -> Option<(u32, u32)> {
    let (idle, most) = match kind {
        0 | 1 => (345, 1980),
        2 => (1593, 2619),
        3 => (765, 1545),
        _ => return None,
    };
    Some((if card.busy { most } else { idle }, most))
}

/// `00000000:17:00.0`; the older form has a domain of four digits.
#[must_use]
pub fn pci_text(pci: [u32; 3], older: bool) -> String {
    let [domain, bus, device] = pci;
    if older {
        format!("{domain:04X}:{bus:02X}:{device:02X}.0")
    } else {
        format!("{domain:08X}:{bus:02X}:{device:02X}.0")
    }
}
