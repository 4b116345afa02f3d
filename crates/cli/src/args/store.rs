//! `infinijup store …`

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    Init(InitArgs),
    /// Encrypt the store of your daemon
    #[command(
        long_about = "Encrypt the store of your daemon, with everything that is in it.

The daemon is ended, everything is copied into an encrypted store beside the old one and checked there, the two change places, \
the old one is removed, and the daemon is started again if it ran. Sessions go on meanwhile, but nothing can be done to them. There \
must be room for a second copy. Whatever interrupts it, the store is as it was, or encrypted: the daemon finishes or undoes it at \
its next start. Snapshots get other ids.

The key is a file, by default store.key beside the settings, or the one of --key-file; it is made if it is not there, and the \
settings name it as key_file. Keep a copy elsewhere: nothing opens the store without it. From now on plain images of processes are \
in memory only. A store of your own is encrypted when it is made: `infinijup store init --encrypt`.

Exits with 0 if it is encrypted, also if it was before; with 11 if the daemon is busy, 12 if the key cannot be used, 13 if the \
store is damaged, 14 if an operation was cut short that the daemon must finish first. The store is as it was then.",
        after_help = "Example:
  infinijup store encrypt
  infinijup store encrypt --key-file /media/stick/infinijup.key"
    )]
    Encrypt,
    /// Show how large the store is and what is in it
    #[command(after_help = "Example:
  infinijup store stat
  infinijup store stat --json | jq .stored_bytes")]
    Stat,
    Verify(VerifyArgs),
    Gc(GcArgs),
    /// Make the catalogue anew from the packs
    #[command(
        long_about = "Make the catalogue anew from the packs.

The catalogue says which object is in which pack. If it is lost or damaged, everything in it can be read back from the \
packs. Nobody may be writing to the store. No key is needed.",
        after_help = "Example:
  infinijup store rebuild"
    )]
    Rebuild,
    RotateKeys(RotateKeysArgs),
}

/// Create a store.
#[derive(Debug, Args)]
#[command(
    long_about = "Create a store.

It goes to `.infinijup` in this directory, or to --store. With --passphrase-file or --key-file everything in it is encrypted; \
--encrypt alone asks for a passphrase on the terminal. With both files, each of them alone opens the store.",
    after_help = "Example:
  infinijup store init
  infinijup store init --encrypt --passphrase-file ~/secret --store /data/.infinijup"
)]
pub(crate) struct InitArgs {
    /// Encrypt everything in the store
    #[arg(long)]
    pub(crate) encrypt: bool,
}

/// Check the store.
#[derive(Debug, Args)]
#[command(
    long_about = "Check the store.

This reads what describes other things: the catalogue, the packs' lists, threads and tags, and everything that they lead to, \
except for the bulk of the data. With --bytes it reads that too, and compares all of it with the ids. Exit code 3 means that \
something is wrong.",
    after_help = "Example:
  infinijup store verify --bytes"
)]
pub(crate) struct VerifyArgs {
    /// Read every byte
    #[arg(long)]
    pub(crate) bytes: bool,
}

/// Delete what no thread or tag leads to.
#[derive(Debug, Args)]
#[command(
    long_about = "Delete what no thread or tag leads to.

Others may read and write meanwhile. Nothing is deleted while something that is needed cannot be read.",
    after_help = "Example:
  infinijup store gc --dry-run
  infinijup store gc --erase"
)]
pub(crate) struct GcArgs {
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Leave nothing of what is deleted: rewrite every pack that has some of it, and destroy the old keys
    #[arg(long)]
    pub(crate) erase: bool,
    /// Rewrite a pack when less than this part of it is needed
    #[arg(long, value_name = "PERCENT", default_value_t = 60, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) repack_below: u8,
    /// How long to wait for programs that are writing
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) wait: u32,
}

/// Replace the passphrase or key file of an encrypted store.
#[derive(Debug, Args)]
#[command(
    long_about = "Replace the passphrase or key file of an encrypted store.

The global options --passphrase-file and --key-file open the store; the options below say what shall open it from now on. Each \
of them alone will, and what opened it before will not. Without any, a new passphrase is asked for on the terminal. The data \
is not rewritten. Whoever could open the store before may have kept its keys: see SECURITY.md.",
    after_help = "Example:
  infinijup store rotate-keys --passphrase-file old --new-passphrase-file new"
)]
pub(crate) struct RotateKeysArgs {
    /// File with a new passphrase; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) new_passphrase_file: Vec<PathBuf>,
    /// A new key file of at least 32 bytes; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) new_key_file: Vec<PathBuf>,
}
