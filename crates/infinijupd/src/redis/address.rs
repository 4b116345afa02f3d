//! Where a Redis is: `redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]` or `unix://[[USER]:PASSWORD@]/PATH[?db=DB]`.

use std::fmt;
use std::path::PathBuf;

/// A Redis, and how to log in there.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// Where it listens.
    pub(crate) place: Place,
    /// The user, if it is not the default one.
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    /// Which of its databases.
    pub(crate) database: u32,
}

/// Where a Redis listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Tcp(String, u16),
    Unix(PathBuf),
}

/// The password is a secret.
impl fmt::Debug for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Address")
            .field("place", &self.place)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) => write!(out, "{host}:{port}"),
            Self::Unix(path) => write!(out, "{}", path.display()),
        }
    }
}

impl Address {
    /// Understands an address; the error says what is wrong with it and never what is in it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = text.split_once("://").ok_or("it has no `redis://` or `unix://`")?;
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (Some(login), rest),
            None => (None, rest),
        };
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            Some((user, password)) => (plain(user)?, plain(password)?),
            None => (None, None),
        };
        let (place, database) = match scheme {
            "redis" => tcp(rest)?,
            "unix" | "redis+unix" => unix(rest)?,
            "rediss" => return Err("Redis is spoken to without TLS here; use a local one, or a tunnel"),
            _ => return Err("it must begin with `redis://` or `unix://`"),
        };
        Ok(Self { place, user, password, database })
    }
}

fn tcp(rest: &str) -> Result<(Place, u32), &'static str> {
    let (host, database) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = match host.rsplit_once(':') {
        // Not the colons of an address in brackets.
        Some((host, port)) if !port.ends_with(']') => {
            (host, port.parse().map_err(|_| "its port is not a number")?)
        }
        _ => (host, 6379),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if host.is_empty() {
        return Err("it names no host");
    }
    Ok((Place::Tcp(host.to_owned(), port), number(database)?))
}

fn unix(rest: &str) -> Result<(Place, u32), &'static str> {
    let (path, database) = rest.split_once("?db=").unwrap_or((rest, ""));
    let path = plain(path)?.map(PathBuf::from).filter(|path| path.is_absolute());
    Ok((Place::Unix(path.ok_or("it needs an absolute path")?), number(database)?))
}

fn number(database: &str) -> Result<u32, &'static str> {
    if database.is_empty() { Ok(0) } else { database.parse().map_err(|_| "its database is not a number") }
}

/// Undoes `%41`; `None` for nothing at all.
fn plain(text: &str) -> Result<Option<String>, &'static str> {
    const WRONG: &str = "something after a `%` in it makes no sense";
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let (Some(high), Some(low)) = (digit(), digit()) else { return Err(WRONG) };
        out.push(high << 4 | low);
    }
    let text = String::from_utf8(out).map_err(|_| WRONG)?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Place {
        Place::Tcp(host.to_owned(), port)
    }

    #[test]
    fn addresses_are_understood() {
        let parse = |text| Address::parse(text).unwrap();
        assert_eq!(parse("redis://localhost").place, tcp("localhost", 6379));
        assert_eq!(parse("redis://[::1]").place, tcp("::1", 6379));
        assert_eq!(parse("redis://[::1]:7").place, tcp("::1", 7));
        let whole = parse("redis://ada:p%40ss@h:6380/3");
        assert_eq!((whole.place, whole.database), (tcp("h", 6380), 3));
        assert_eq!((whole.user.as_deref(), whole.password.as_deref()), (Some("ada"), Some("p@ss")));
        let socket = parse("unix://:secret@/run/redis.sock?db=2");
        assert_eq!((socket.place.clone(), socket.database), (Place::Unix("/run/redis.sock".into()), 2));
        assert_eq!((socket.user.as_deref(), socket.password.as_deref()), (None, Some("secret")));
        assert!(!format!("{socket:?}").contains("secret"));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for wrong in [
            "",
            "localhost",
            "redis://",
            "redis://h:x",
            "redis://h/x",
            "unix://run",
            "http://h",
            "redis://%zz@h",
            "rediss://h",
        ] {
            Address::parse(wrong).unwrap_err();
        }
    }
}
