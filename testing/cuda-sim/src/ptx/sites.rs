//! Statements that concern more than their own thread or frame: calls, barriers, warps.

use super::build::{Home, Operand};
use super::decode::{Context, Outcome};
use super::op::{BarrierSite, CallSite, NONE, Op, Place, Reduce, Slot, Space, Ty, Var, WarpKind, WarpSite};
use super::select::{self, Parts};

fn index(length: usize) -> Outcome<u32> {
    u32::try_from(length).map_err(|_| "the function is too long".into())
}

fn variables(context: &Context<'_, '_, '_>, list: &[Operand<'_>]) -> Outcome<Vec<Var>> {
    list.iter()
        .map(|one| match one {
            Operand::Name(name) => match context.home(name) {
                Some(Home::Frame(var)) => Ok(var),
                _ => Err(format!("{name} is not a .param variable")),
            },
            _ => Err("arguments are .param variables".into()),
        })
        .collect()
}

/// Pairs what the caller gives with what the callee has.
fn pair(mine: &[Var], theirs: &[Var]) -> Outcome<Vec<(u32, u32, u32)>> {
    if mine.len() != theirs.len() || mine.iter().zip(theirs).any(|(a, b)| a.size != b.size) {
        return Err("the arguments do not fit the function".into());
    }
    Ok(mine.iter().zip(theirs).map(|(a, b)| (a.offset, b.offset, a.size)).collect())
}

pub(super) fn call(context: &mut Context<'_, '_, '_>) -> Outcome {
    let empty = Vec::new();
    let (results, name, arguments) = match context.operands {
        [Operand::List(results), Operand::Name(name), Operand::List(arguments)] => {
            (results, *name, arguments)
        }
        [Operand::List(results), Operand::Name(name)] => (results, *name, &empty),
        [Operand::Name(name), Operand::List(arguments)] => (&empty, *name, arguments),
        [Operand::Name(name)] => (&empty, *name, &empty),
        _ => return Err("only direct calls are known".into()),
    };
    let results = variables(context, results)?;
    let arguments = variables(context, arguments)?;
    match name {
        "__assertfail" => context.builder.emit(Op::Assert),
        // nothing is printed and nothing is allocated: the kernel sees 0
        "vprintf" | "malloc" | "free" => {
            let zero = context.constant(0)?;
            for var in results {
                let size = if var.size == 8 { 8 } else { 4 };
                let place =
                    Place { space: Space::Frame, size, align: 0, base: zero, offset: i64::from(var.offset) };
                context.builder.emit(Op::Store { place, a: zero });
            }
        }
        _ => {
            let callee = context
                .parser
                .function_index(name)
                .ok_or_else(|| format!("the function {name} is not declared"))?;
            let (theirs, back) = context.parser.signature(callee).ok_or("only direct calls are known")?;
            let site =
                CallSite { callee, arguments: pair(&arguments, theirs)?, results: pair(&results, back)? };
            let calls = &mut context.builder.function.calls;
            let at = index(calls.len())?;
            calls.push(site);
            context.builder.emit(Op::Call { site: at });
        }
    }
    Ok(())
}

pub(super) fn barrier(context: &mut Context<'_, '_, '_>, parts: &Parts<'_>) -> Outcome {
    if parts.has("warp") {
        let mask = context.source_at(0, Ty::B32)?;
        return warp(
            context,
            WarpSite { kind: WarpKind::Sync, d: NONE, p: NONE, a: NONE, b: NONE, c: NONE, mask },
        );
    }
    let reduce = match (parts.has("red"), parts.has("popc"), parts.has("and"), parts.has("or")) {
        (false, ..) if parts.has("sync") => Reduce::None,
        (true, true, _, _) => Reduce::Popc,
        (true, _, true, _) => Reduce::And,
        (true, _, _, true) => Reduce::Or,
        _ => return Err("this form is not known".into()),
    };
    if parts.has("cluster") {
        return Err("clusters are not known".into());
    }
    let red = usize::from(reduce != Reduce::None);
    let d = if red == 1 { context.target(0)? } else { NONE };
    let id = context.source_at(red, Ty::U32)?;
    let a =
        if red == 1 { context.source_at(context.operands.len().saturating_sub(1), Ty::Pred)? } else { NONE };
    let count =
        if context.operands.len() > 1 + 2 * red { context.source_at(red + 1, Ty::U32)? } else { NONE };
    let barriers = &mut context.builder.function.barriers;
    let at = index(barriers.len())?;
    barriers.push(BarrierSite { id, count, reduce, d, a });
    context.builder.emit(Op::Barrier { site: at });
    Ok(())
}

fn warp(context: &mut Context<'_, '_, '_>, site: WarpSite) -> Outcome {
    let warps = &mut context.builder.function.warps;
    let at = index(warps.len())?;
    warps.push(site);
    context.builder.emit(Op::Warp { site: at });
    Ok(())
}

pub(super) fn shuffle(context: &mut Context<'_, '_, '_>, parts: &Parts<'_>) -> Outcome {
    let kind = parts.flags.iter().find_map(|flag| match *flag {
        "up" => Some(WarpKind::Up),
        "down" => Some(WarpKind::Down),
        "bfly" => Some(WarpKind::Butterfly),
        "idx" => Some(WarpKind::Index),
        _ => None,
    });
    let (d, p): (Slot, Slot) = match context.operand(0)? {
        Operand::Pair(d, p) => (context.target_of(d)?, context.target_of(p)?),
        Operand::Name(d) => (context.target_of(d)?, NONE),
        _ => return Err("a register is needed for the result".into()),
    };
    let (a, b, c) =
        (context.source_at(1, Ty::B32)?, context.source_at(2, Ty::B32)?, context.source_at(3, Ty::B32)?);
    let mask = context.source_at(4, Ty::B32)?;
    warp(context, WarpSite { kind: kind.ok_or("this mode is not known")?, d, p, a, b, c, mask })
}

pub(super) fn vote(context: &mut Context<'_, '_, '_>, parts: &Parts<'_>) -> Outcome {
    let kind = parts.flags.iter().find_map(|flag| match *flag {
        "ballot" => Some(WarpKind::Ballot),
        "all" => Some(WarpKind::All),
        "any" => Some(WarpKind::Any),
        "uni" => Some(WarpKind::Uniform),
        _ => None,
    });
    let (d, a, mask) = (context.target(0)?, context.source_at(1, Ty::Pred)?, context.source_at(2, Ty::B32)?);
    warp(
        context,
        WarpSite { kind: kind.ok_or("this mode is not known")?, d, p: NONE, a, b: NONE, c: NONE, mask },
    )
}

pub(super) fn redux(context: &mut Context<'_, '_, '_>, parts: &Parts<'_>) -> Outcome {
    let f = select::reduction(parts).ok_or("this mode is not known")?;
    let (d, a, mask) = (context.target(0)?, context.source_at(1, Ty::B32)?, context.source_at(2, Ty::B32)?);
    warp(context, WarpSite { kind: WarpKind::Reduce(f), d, p: NONE, a, b: NONE, c: NONE, mask })
}
