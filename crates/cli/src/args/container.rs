//! A container in the place of a session.

use api::ContainerName;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::detect::ContainerPlace;

/// Which session, or which container.
#[derive(Debug, Args)]
pub(crate) struct WhichOrContainer {
    /// The session: its name, its id or the first digits of it
    // Where a container is, is said of no session. That these want a container is not enough: clap forgets it where a container cannot be.
    #[arg(
        value_name = "SESSION",
        value_parser = NonEmptyStringValueParser::new(),
        required_unless_present = "container",
        conflicts_with_all = ["container", "runtime", "address", "namespace", "runtime_root"]
    )]
    session: Option<String>,
    /// A container in the place of the session: its id or the beginning of it, its name, its pod, or a process in it. It becomes a session. For root only
    #[arg(long, value_name = "CONTAINER", value_parser = NonEmptyStringValueParser::new())]
    container: Option<String>,
    #[command(flatten)]
    place: ContainerPlace,
}

/// What was named.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Session(String),
    Container(ContainerName),
}

impl WhichOrContainer {
    /// What was named.
    pub(crate) fn named(self) -> Named {
        let containers::Narrowed { kind, address, namespace, runtime_root } = self.place.narrowed();
        match self.container {
            Some(which) => Named::Container(ContainerName {
                which,
                runtime: kind.map(|kind| kind.word().to_owned()),
                address: address.map(Into::into),
                namespace,
                runtime_root: runtime_root.map(Into::into),
            }),
            // Whoever parses sees to it that one of them is there.
            None => Named::Session(self.session.unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    #[command(allow_missing_positional = true)]
    struct Command {
        #[command(flatten)]
        which: WhichOrContainer,
        #[arg(value_name = "SNAPSHOT")]
        to: String,
    }

    fn parse(words: &[&str]) -> Option<(Named, String)> {
        let command = Command::try_parse_from(words.iter().copied()).ok()?;
        Some((command.which.named(), command.to))
    }

    #[test]
    fn a_container_takes_the_place_of_a_session() {
        let (named, to) = parse(&["x", "analysis", "good"]).unwrap();
        assert_eq!((named, to.as_str()), (Named::Session("analysis".to_owned()), "good"));
        let (named, to) = parse(&["x", "--container", "c1", "--runtime-root", "/run/runc", "good"]).unwrap();
        let Named::Container(name) = named else { panic!("{named:?}") };
        assert_eq!(
            (name.which.as_str(), name.runtime_root, to.as_str()),
            ("c1", Some("/run/runc".into()), "good")
        );
        for wrong in [
            &["x", "good"][..],
            &["x", "--runtime", "runc", "analysis", "good"],
            &["x", "--container", "c1", "a", "b"],
        ] {
            assert!(parse(wrong).is_none(), "{wrong:?}");
        }
    }
}
