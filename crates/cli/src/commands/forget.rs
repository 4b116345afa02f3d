//! `forget`

use anyhow::Result;
use api::{ForgetOutcome, ForgetRequest, JobResult, KeptCommit};
use history::UserStore;

use super::online::job::expect_result;
use super::online::{Message, Online, show};
use super::target::Target;
use crate::args::ForgetArgs;
use crate::context::Context;
use crate::{format, objects, revision};

/// What had to stay is said, and is no failure: the rest is forgotten.
pub(crate) fn run(context: &Context, args: ForgetArgs) -> Result<()> {
    let target = Target::of(context)?;
    let outcome = if target.is_daemons() {
        // Only the daemon knows which snapshots its sessions need.
        let request = ForgetRequest { commits: args.snapshots, force: args.force };
        let result = Online::new(context)?.post_job("/v1/forget".to_owned(), &request)?;
        expect_result!(result, JobResult::Forget(outcome) => outcome)
    } else {
        in_folder(context, &target, &args)?
    };
    for kept in &outcome.kept {
        let text = format!("{} stays: {}", show::short(&kept.commit), format::safe(&kept.reason));
        context.printer.warning(&text);
    }
    let lines: Vec<_> = outcome.forgotten.iter().map(|id| format!("forgot {}", show::short(id))).collect();
    Ok(context.printer.data(&Message { message_type: "forgotten", content: &outcome }, &lines)?)
}

/// No session goes on from a store in a folder, so nothing but a tag keeps a snapshot there.
fn in_folder(context: &Context, target: &Target, args: &ForgetArgs) -> Result<ForgetOutcome> {
    let store = target.open(context)?;
    let wanted = args.snapshots.iter().map(|which| revision::resolve(&store, Some(which)));
    let wanted = wanted.collect::<Result<Vec<_>>>()?;
    let done = UserStore::over(store).forget(&wanted, &|_| None, args.force).map_err(objects::of_history)?;
    Ok(ForgetOutcome {
        forgotten: done.forgotten.iter().map(ToString::to_string).collect(),
        kept: done
            .kept
            .into_iter()
            .map(|(commit, reason)| KeptCommit { commit: commit.to_string(), reason })
            .collect(),
    })
}
