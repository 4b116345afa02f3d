//! Snapshots beyond this machine: `remote`, `push`, `fetch`, `pull`, `clone`.

use clap::{Args, Subcommand};

/// Remotes: places in object stores that snapshots are pushed to.
#[derive(Debug, Subcommand)]
pub(crate) enum RemoteCommand {
    /// Give an address a name, after trying whether the server keeps its word
    #[command(
        long_about = "Give an address a name, and make a remote there if there is none.

Before that it is tried whether the server keeps its word on conditional puts, on which everything rests; one that does not is refused.

An address is s3://BUCKET/PREFIX for Amazon's S3, or s3+https://HOST/BUCKET/PREFIX for another server. Credentials come from the environment \
(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY …) or from ~/.aws/credentials and are never stored.",
        after_help = "Example:
  infinijup remote add origin s3://my-bucket/notebooks
  infinijup remote add lab s3+https://s3.example.org/shared/ada"
    )]
    Add(RemoteAddArgs),
    /// Show the remotes of this store
    #[command(after_help = "Example:
  infinijup remote list")]
    List,
    /// Forget a remote; nothing in the bucket is touched
    #[command(after_help = "Example:
  infinijup remote remove origin")]
    Remove(RemoteNameArgs),
    /// Check that everything is there that threads and tags in a remote lead to
    #[command(after_help = "Example:
  infinijup remote verify origin
  infinijup remote verify origin --bytes")]
    Verify(RemoteVerifyArgs),
    /// Give room back in a remote
    #[command(
        long_about = "Give room back in a remote.

What no thread or tag leads to is condemned, and deleted by a later collection, after the grace time, when no push is left that began \
before. It can run on any machine beside any number of pushes.",
        after_help = "Example:
  infinijup remote gc origin --dry-run
  infinijup remote gc origin"
    )]
    Gc(RemoteGcArgs),
    /// Show how much is in a remote
    #[command(after_help = "Example:
  infinijup remote stat origin")]
    Stat(RemoteNameArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RemoteAddArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Where it is
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: String,
}

#[derive(Debug, Args)]
pub(crate) struct RemoteNameArgs {
    /// Its name
    #[arg(value_name = "NAME", default_value = "origin")]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct RemoteVerifyArgs {
    /// Its name
    #[arg(value_name = "NAME", default_value = "origin")]
    pub(crate) name: String,
    /// Read every byte and compare it with its id
    #[arg(long)]
    pub(crate) bytes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RemoteGcArgs {
    /// Its name
    #[arg(value_name = "NAME", default_value = "origin")]
    pub(crate) name: String,
    /// How long what was condemned stays, for those who read it, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 24 * 3600)]
    pub(crate) grace: u64,
    /// A push that does not move for so long is given up, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub(crate) lease: u64,
    /// Only show what would be done
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
}

/// What all that move snapshots have.
#[derive(Debug, Args)]
pub(crate) struct TransferArgs {
    /// No more bytes a second than these: 500k, 10M
    #[arg(long, value_name = "RATE", value_parser = amount)]
    pub(crate) limit_rate: Option<u64>,
    /// Only show what would be done
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Also where the other side went another way
    #[arg(long)]
    pub(crate) force: bool,
}

/// What those have that bring snapshots.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Only the history; data stays in the remote, and is read from there when it is needed
    #[arg(long)]
    pub(crate) history: bool,
}

/// Send what a remote lacks, then move its threads and tags.
#[derive(Debug, Args)]
#[command(
    long_about = "Send what a remote lacks, then move its threads and tags.

What the remote has is not sent again, also after an interruption. A thread that somebody else has moved another way is not overwritten.

If the store is not encrypted, whoever can read the bucket can read what is pushed; that is asked once.",
    after_help = "Example:
  infinijup push
  infinijup push origin analysis --dry-run
  infinijup push origin --limit-rate 10M"
)]
pub(crate) struct PushArgs {
    /// The remote
    #[arg(value_name = "REMOTE", default_value = "origin")]
    pub(crate) remote: String,
    /// Threads and tags; all if none is named
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Agree that what is pushed can be read by whoever can read the bucket
    #[arg(long)]
    pub(crate) unencrypted: bool,
    #[command(flatten)]
    pub(crate) transfer: TransferArgs,
}

/// Bring what this store lacks of a remote; threads stay where they are.
#[derive(Debug, Args)]
#[command(
    long_about = "Bring what this store lacks of a remote, and remember where its threads and tags are. Threads here stay where they are.

Everything is compared with its id on the way in. A thread that does not lead to where it was when it was last seen is reported and not \
followed.",
    after_help = "Example:
  infinijup fetch
  infinijup fetch origin analysis
  infinijup fetch --history"
)]
pub(crate) struct FetchArgs {
    /// The remote
    #[arg(value_name = "REMOTE", default_value = "origin")]
    pub(crate) remote: String,
    /// Threads and tags; all if none is named
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) history: HistoryArgs,
    #[command(flatten)]
    pub(crate) transfer: TransferArgs,
}

/// Fetch, and move threads forward to where the remote's are.
#[derive(Debug, Args)]
#[command(
    long_about = "Fetch, and move threads forward to where the remote's are. New threads and tags are made. A thread that went another way here \
stays where it is: threads are not merged.",
    after_help = "Example:
  infinijup pull
  infinijup pull origin analysis"
)]
pub(crate) struct PullArgs {
    #[command(flatten)]
    pub(crate) fetch: FetchArgs,
}

/// Add a remote and pull everything from it.
#[derive(Debug, Args)]
#[command(
    long_about = "Add a remote and pull everything from it. The store is made if there is none.

What an encrypted store has pushed is cloned with its --key-file or --passphrase-file; the clone is encrypted, too, and opens with the same.",
    after_help = "Example:
  infinijup clone s3://my-bucket/notebooks
  infinijup clone s3://my-bucket/notebooks --key-file store.key
  infinijup clone s3://my-bucket/notebooks --name lab
  infinijup clone s3://my-bucket/notebooks --history"
)]
pub(crate) struct CloneArgs {
    /// Where the remote is
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: String,
    /// What it shall be called here
    #[arg(long, value_name = "NAME", default_value = "origin")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) history: HistoryArgs,
    #[command(flatten)]
    pub(crate) transfer: TransferArgs,
}

/// A number of bytes.
pub(super) fn amount(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return Err("it ends with k, M or G".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "it is a number, and k, M or G")?;
    number
        .checked_mul(factor)
        .filter(|amount| *amount > 0)
        .ok_or_else(|| "it is nothing, or too much".to_owned())
}
