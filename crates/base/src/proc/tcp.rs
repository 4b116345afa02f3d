//! `/proc/PID/net/tcp`: who listens in the network of a process.

/// How the kernel writes that a socket listens.
const LISTEN: &str = "0A";

/// Ports that something in the network of this process listens on, over IPv4. None if it is gone.
///
/// The kernel makes this table by looking at every place where the machine could have a connection: a millisecond and more. Whoever waits for a
/// listener asks often and mostly in vain, so it is asked first whether there are any sockets, which costs nothing.
pub fn listening(pid: i32) -> Vec<u16> {
    let counts = super::read_text(pid, "net/sockstat").ok().flatten();
    if counts.is_some_and(|counts| has_none(&counts)) {
        return Vec::new();
    }
    listening_in(&super::read_text(pid, "net/tcp").ok().flatten().unwrap_or_default())
}

/// Whether `net/sockstat` says that there is no TCP socket. What makes no sense says nothing.
fn has_none(counts: &str) -> bool {
    counts.lines().any(|line| line.starts_with("TCP: inuse 0 "))
}

fn listening_in(table: &str) -> Vec<u16> {
    let port = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, _, state) = (fields.next()?, fields.next()?, fields.next()?);
        let port = local.rsplit(':').next().filter(|_| state == LISTEN)?;
        u16::from_str_radix(port, 16).ok()
    };
    table.lines().skip(1).filter_map(port).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn only_what_listens_counts() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2329 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 100 0 0 10 0
   1: 0100007F:232A 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 2 1 0 100 0 0 10 0
   2: 0100007F
   3: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 3 1 0 100 0 0 10 0\n";
        assert_eq!(listening_in(table), [9001, 8080]);
        assert_eq!(listening_in(""), Vec::<u16>::new());
    }

    #[test]
    fn a_network_without_sockets_is_known_by_its_counts() {
        assert!(has_none("sockets: used 3\nTCP: inuse 0 orphan 0 tw 2 alloc 9 mem 1\nUDP: inuse 1 mem 0\n"));
        assert!(!has_none("sockets: used 3\nTCP: inuse 5 orphan 0 tw 2 alloc 9 mem 1\nUDP: inuse 0 mem 0\n"));
        assert!(!has_none(""));
    }

    #[test]
    fn our_own_listener_is_found() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(listening(pid).contains(&port));
        assert_eq!(listening(i32::MAX), Vec::<u16>::new());
    }
}
