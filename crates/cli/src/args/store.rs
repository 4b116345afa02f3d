//! `infinijup store …`: what is done to a store as a whole.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::prune::GcArgs;

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
    // Another name of `gc`, which stays for scripts.
    #[command(hide = true)]
    Gc(GcArgs),
    /// Make the catalogue anew from the packs
    #[command(
        long_about = "Make the catalogue anew from the packs.

The catalogue says which object is in which pack. If it is lost or damaged, everything in it can be read back from the \
packs. Nobody may be writing to the store, and your daemon must not run if it is about the daemon's. No key is needed.",
        after_help = "Example:
  infinijup daemon stop && infinijup store rebuild
  infinijup store rebuild --store /data/.infinijup"
    )]
    Rebuild,
    RotateKeys(RotateKeysArgs),
}

/// Create a store in a folder.
#[derive(Debug, Args)]
#[command(
    long_about = "Create a store in a folder; that of your daemon is made by the daemon.

It goes to `.infinijup` in this directory, or to --store, which names it for other commands, too. With --passphrase-file or --key-file everything in it is encrypted; \
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

/// Replace the passphrase or key file of an encrypted store.
#[derive(Debug, Args)]
#[command(
    long_about = "Replace the passphrase or key file of an encrypted store.

The global options --passphrase-file and --key-file open the store; the options below say what shall open it from now on. Each \
of them alone will, and what opened it before will not. Without any, a new passphrase is asked for on the terminal. The data \
is not rewritten. Whoever could open the store before may have kept its keys: see SECURITY.md.

Your daemon opens its store with a key file, and must not run while that is replaced.",
    after_help = "Example:
  infinijup store rotate-keys --store /data/.infinijup --passphrase-file old --new-passphrase-file new
  infinijup daemon stop && infinijup store rotate-keys --new-key-file new.key"
)]
pub(crate) struct RotateKeysArgs {
    /// File with a new passphrase; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) new_passphrase_file: Vec<PathBuf>,
    /// A new key file of at least 32 bytes; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) new_key_file: Vec<PathBuf>,
}
