//! Who listens in a network: the kernel's tables `/proc/PID/net/tcp` and `tcp6`.
//!
//! A table has its listeners first, then every connection, of which a machine can have very many. So it is read up to the first row that
//! is no listener, and no further than a bound.

use std::io::{self, BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// As much of a table as is read; a row has 150 bytes.
const MOST_BYTES: u64 = 1 << 20;
/// As many listeners as are told.
const MOST: usize = 1024;
/// How the kernel writes the state of a listener.
const LISTENS: &str = "0A";

/// Where somebody listens for TCP in the network of this process.
pub(crate) fn in_network_of(pid: i32) -> io::Result<Vec<SocketAddr>> {
    let of = |table: &str| in_table(Path::new(&format!("/proc/{pid}/net/{table}")));
    let mut found = of("tcp")?;
    match of("tcp6") {
        // A machine without IPv6 has no such table.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        more => found.extend(more?),
    }
    found.truncate(MOST);
    Ok(found)
}

fn in_table(path: &Path) -> io::Result<Vec<SocketAddr>> {
    listeners(BufReader::new(std::fs::File::open(path)?.take(MOST_BYTES)))
}

/// The listeners at the beginning of a table. A row that makes no sense, such as one that is cut off, ends it.
fn listeners(table: impl BufRead) -> io::Result<Vec<SocketAddr>> {
    let mut found = Vec::new();
    for line in table.split(b'\n').skip(1).take(MOST) {
        match std::str::from_utf8(&line?).ok().and_then(listener) {
            Some(address) => found.push(address),
            None => break,
        }
    }
    Ok(found)
}

/// Where the listener of this row listens: the columns are a number, the own address, the other one and the state.
fn listener(row: &str) -> Option<SocketAddr> {
    let mut fields = row.split_ascii_whitespace().skip(1);
    let (address, port) = fields.next()?.split_once(':')?;
    if fields.nth(1)? != LISTENS || port.len() != 4 {
        return None;
    }
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(SocketAddr::new(address_of(address)?, port))
}

/// Addresses are written four bytes at a time, each as the number that the machine sees in them.
fn address_of(text: &str) -> Option<IpAddr> {
    if !text.is_ascii() {
        return None;
    }
    let mut bytes = Vec::with_capacity(16);
    for part in text.as_bytes().chunks(8) {
        let part = std::str::from_utf8(part).ok().filter(|part| part.len() == 8)?;
        bytes.extend(u32::from_str_radix(part, 16).ok()?.to_ne_bytes());
    }
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes.as_slice()) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    let address = Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?);
    Some(address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::net::TcpListener;

    use proptest::prelude::*;

    use super::*;

    const HEAD: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

    fn in_text(text: &str) -> Vec<SocketAddr> {
        listeners(text.as_bytes()).expect("it can be read")
    }

    fn written(address: SocketAddr) -> String {
        let octets = match address.ip() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let mut text = String::new();
        for part in octets.chunks(4) {
            let number = u32::from_ne_bytes(part.try_into().expect("four"));
            write!(text, "{number:08X}").expect("text");
        }
        format!("{text}:{:04X}", address.port())
    }

    #[test]
    fn a_listener_of_ours_is_found_until_it_is_closed() {
        let own = i32::try_from(std::process::id()).expect("a pid");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        assert!(in_network_of(own).expect("the tables").contains(&address));
        drop(listener);
        assert!(!in_network_of(own).expect("the tables").contains(&address));
    }

    #[test]
    fn what_is_no_listener_ends_the_table() {
        let row = |state: &str| {
            format!(
                "   0: 0100007F:1F90 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1005\n"
            )
        };
        let one = vec!["127.0.0.1:8080".parse::<SocketAddr>().expect("an address")];
        assert_eq!(in_text(&format!("{HEAD}{}{}{}", row("0A"), row("01"), row("0A"))), one);
        assert_eq!(in_text(&format!("{HEAD}{}{}", row("0A"), &row("0A")[..20])), one);
        assert_eq!(in_text(HEAD), []);
        assert_eq!(in_text(""), []);
    }

    #[test]
    fn no_more_than_so_many_are_told() {
        let mut table = HEAD.to_owned();
        table.push_str(&"   0: 0100007F:1F90 00000000:0000 0A\n".repeat(MOST + 100));
        assert_eq!(in_text(&table).len(), MOST);
    }

    proptest! {
        #[test]
        fn every_address_is_understood(address: SocketAddr) {
            let row = format!("   7: {} 00000000:0000 0A 00000000:00000000\n", written(address));
            let plain = SocketAddr::new(address.ip().to_canonical(), address.port());
            prop_assert_eq!(in_text(&format!("{HEAD}{row}")), vec![plain]);
        }

        #[test]
        fn nothing_is_too_strange(bytes: Vec<u8>, text in "( *[0-9A-Fa-f:é]{1,40}){0,6}\n") {
            let _ = listeners(bytes.as_slice()).expect("it can be read");
            let _ = in_text(&format!("{HEAD}{text}"));
        }
    }
}
