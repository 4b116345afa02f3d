//! A launch: all blocks of a grid, one after the other.
//!
//! In a kernel without barriers a thread runs to its end, then the next one, on the same registers. Otherwise a block's threads
//! keep their state and run in phases: each goes as far as it can; when none can go on, what they wait for is settled (a warp's
//! exchange once all lanes that it names are there, a barrier once all threads are), and the next phase begins. That is one of the
//! orders that a GPU may choose, and always the same one.

use super::Module;
use super::memory::{Fault, Memory};
use super::op::{Const, NONE, Op, Reduce, WarpKind, WarpSite};
use super::thread::{QUANTUM, Stop, Thread, World};

/// What to run.
#[derive(Clone, Copy, Default)]
pub struct Launch<'l> {
    /// Blocks along x, y, z.
    pub blocks: [u32; 3],
    /// Threads of a block along x, y, z.
    pub threads: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// The parameters' bytes, laid out as [`Module::parameters`] says.
    pub arguments: &'l [u8],
    /// Where the module's variables are, in the order of [`Module::globals`].
    pub globals: &'l [u64],
    /// Instructions of all threads together, after which the launch counts as endless.
    pub budget: u64,
    /// Asked from time to time: does nobody wait for the result any more?
    pub stop: Option<&'l dyn Fn() -> bool>,
}

pub(super) struct Grid<'l> {
    pub(super) module: &'l Module,
    pub(super) entry: u32,
    pub(super) blocks: [u32; 3],
    pub(super) threads: [u32; 3],
    pub(super) dynamic_shared: u32,
    pub(super) arguments: &'l [u8],
    /// The registers that each function starts with.
    pub(super) templates: Vec<Vec<u64>>,
    budget: u64,
    stop: Option<&'l dyn Fn() -> bool>,
}

impl Grid<'_> {
    pub(super) fn name(&self) -> String {
        self.module.functions[self.entry as usize].name.clone()
    }

    pub(super) fn threads_per_block(&self) -> u32 {
        self.threads.iter().product()
    }

    pub(super) fn full_warp(&self) -> u32 {
        u32::MAX >> (32 - self.threads_per_block().clamp(1, 32))
    }
}

impl<M> World<'_, M> {
    /// Takes the next portion of the budget.
    pub(super) fn refill(&mut self) -> Result<(), Fault> {
        if self.grid.stop.is_some_and(|stop| stop()) {
            return Err(Fault::Stopped { kernel: self.grid.name() });
        }
        self.left = QUANTUM.min(self.grid.budget - self.spent);
        self.spent += self.left;
        if self.left == 0 { Err(Fault::Timeout { kernel: self.grid.name() }) } else { Ok(()) }
    }

    pub(super) fn illegal(&self, address: u64) -> Fault {
        Fault::IllegalAddress { kernel: self.grid.name(), address }
    }
}

impl Module {
    /// Can this entry be launched so?
    ///
    /// # Errors
    /// [`Fault::Invalid`].
    pub fn check(&self, entry: u32, launch: &Launch<'_>) -> Result<(), Fault> {
        let Some(function) = self.functions.get(entry as usize).filter(|function| function.entry) else {
            return Err(Fault::Invalid { kernel: entry.to_string(), why: "there is no such entry" });
        };
        let invalid = |why| Err(Fault::Invalid { kernel: function.name.clone(), why });
        let threads =
            launch.threads.iter().try_fold(1_u32, |all, axis| all.checked_mul(*axis)).unwrap_or(u32::MAX);
        if !(1..=1024).contains(&threads) || launch.blocks.contains(&0) {
            return invalid("dimensions out of range");
        }
        if function.most_threads.is_some_and(|most| threads > most) {
            return invalid("more threads than the kernel was compiled for");
        }
        if launch.arguments.len() != self.parameter_bytes(entry) || launch.globals.len() != self.globals.len()
        {
            return invalid("arguments of another size");
        }
        if launch.dynamic_shared > 1 << 20 {
            return invalid("too much shared memory");
        }
        Ok(())
    }

    /// Runs entry `entry` on `memory`.
    ///
    /// # Errors
    /// What the kernel did.
    pub fn launch<M: Memory>(&self, entry: u32, launch: &Launch<'_>, memory: &mut M) -> Result<(), Fault> {
        self.check(entry, launch)?;
        let threads: u32 = launch.threads.iter().product();
        let grid = Grid {
            module: self,
            entry,
            blocks: launch.blocks,
            threads: launch.threads,
            dynamic_shared: launch.dynamic_shared,
            arguments: launch.arguments,
            templates: self.templates(entry, launch),
            budget: launch.budget,
            stop: launch.stop,
        };
        let shared = vec![0; self.dynamic as usize + launch.dynamic_shared as usize];
        let mut world = World { grid: &grid, memory, shared, block: [0; 3], left: 0, spent: 0 };
        let waits = self
            .functions
            .iter()
            .flat_map(|function| &function.code)
            .any(|instr| matches!(instr.op, Op::Barrier { .. } | Op::Warp { .. }));
        let mut crew: Vec<Thread> = (0..if waits { threads } else { 1 }).map(|_| Thread::default()).collect();
        for z in 0..launch.blocks[2] {
            for y in 0..launch.blocks[1] {
                for x in 0..launch.blocks[0] {
                    world.block = [x, y, z];
                    if waits {
                        together(&mut world, &mut crew)?;
                    } else {
                        for index in 0..threads {
                            crew[0].start(&world, index);
                            crew[0].run(&mut world)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Register files with constants in place, of the entry and of everything that can be called.
    fn templates(&self, entry: u32, launch: &Launch<'_>) -> Vec<Vec<u64>> {
        (0_u32..)
            .zip(&self.functions)
            .map(|(index, function)| {
                if function.entry && index != entry {
                    return Vec::new();
                }
                let mut registers = vec![0; function.slots as usize];
                for (slot, value) in &function.constants {
                    registers[*slot as usize] = match *value {
                        Const::Value(value) => value,
                        Const::Global(index, offset) => launch
                            .globals
                            .get(index as usize)
                            .copied()
                            .unwrap_or(0)
                            .wrapping_add_signed(offset),
                        Const::Dynamic(offset) => u64::from(self.dynamic).wrapping_add_signed(offset),
                    };
                }
                registers
            })
            .collect()
    }
}

/// A block whose threads wait for each other.
fn together<M: Memory>(world: &mut World<'_, M>, crew: &mut [Thread]) -> Result<(), Fault> {
    for (index, thread) in (0..).zip(crew.iter_mut()) {
        thread.start(world, index);
    }
    let mut stops: Vec<Option<Stop>> = vec![None; crew.len()];
    loop {
        for (thread, stop) in crew.iter_mut().zip(&mut stops).filter(|(_, stop)| stop.is_none()) {
            *stop = Some(thread.run(world)?);
        }
        if stops.iter().all(|stop| *stop == Some(Stop::Done)) {
            return Ok(());
        }
        let mut moved = false;
        for (threads, stops) in crew.chunks_mut(32).zip(stops.chunks_mut(32)) {
            moved |= exchange(world, threads, stops, false);
        }
        moved = moved || barriers(world, crew, &mut stops);
        if !moved {
            // lanes that left for another branch will not come: those that are there go on, as old hardware did
            for (threads, stops) in crew.chunks_mut(32).zip(stops.chunks_mut(32)) {
                moved |= exchange(world, threads, stops, true);
            }
        }
        if !moved {
            return Err(Fault::Timeout { kernel: world.grid.name() });
        }
    }
}

/// Releases barriers at which everybody has arrived.
fn barriers<M>(world: &World<'_, M>, crew: &mut [Thread], stops: &mut [Option<Stop>]) -> bool {
    let site = |thread: &Thread, stop: &Option<Stop>| match stop {
        Some(Stop::Barrier(at)) => {
            Some(world.grid.module.functions[thread.function()].barriers[*at as usize])
        }
        _ => None,
    };
    let living = stops.iter().filter(|stop| **stop != Some(Stop::Done)).count();
    let arrived: Vec<(usize, u64, u64)> = crew
        .iter()
        .zip(stops.iter())
        .enumerate()
        .filter_map(|(at, (thread, stop))| {
            site(thread, stop)
                .map(|site| (at, thread.get(site.id) & 0xffff_ffff, thread.get(site.count) & 0xffff_ffff))
        })
        .collect();
    let mut moved = false;
    for id in 0..16 {
        let here: Vec<usize> =
            arrived.iter().filter(|(_, other, _)| *other == id).map(|(at, _, _)| *at).collect();
        let Some(count) = arrived.iter().find(|(_, other, _)| *other == id).map(|(_, _, count)| *count)
        else {
            continue;
        };
        let wanted =
            if count == 0 { living } else { usize::try_from(count).unwrap_or(usize::MAX).min(living) };
        if here.len() < wanted {
            continue;
        }
        let votes = here
            .iter()
            .filter(|at| site(&crew[**at], &stops[**at]).is_some_and(|site| crew[**at].get(site.a) != 0))
            .count();
        for at in &here {
            if let Some(site) = site(&crew[*at], &stops[*at]) {
                crew[*at].set(
                    site.d,
                    match site.reduce {
                        Reduce::None => 0,
                        Reduce::Popc => votes as u64,
                        Reduce::And => u64::from(votes == here.len()),
                        Reduce::Or => u64::from(votes > 0),
                    },
                );
            }
            stops[*at] = None;
        }
        moved = true;
    }
    moved
}

/// Settles what lanes of one warp wait for. With `force`, lanes that are missing are given up.
fn exchange<M>(world: &World<'_, M>, lanes: &mut [Thread], stops: &mut [Option<Stop>], force: bool) -> bool {
    let site = |thread: &Thread, stop: &Option<Stop>| match stop {
        Some(Stop::Warp(at)) => Some(world.grid.module.functions[thread.function()].warps[*at as usize]),
        _ => None,
    };
    let mut moved = false;
    for first in 0..lanes.len() {
        let Some(leader) = site(&lanes[first], &stops[first]) else { continue };
        let mask = lanes[first].get(leader.mask) & 0xffff_ffff;
        let kind = std::mem::discriminant(&leader.kind);
        let group: Vec<(usize, WarpSite)> = (0..lanes.len())
            .filter(|at| mask >> at & 1 == 1)
            .filter_map(|at| site(&lanes[at], &stops[at]).map(|site| (at, site)))
            .filter(|(at, site)| {
                std::mem::discriminant(&site.kind) == kind && lanes[*at].get(site.mask) & 0xffff_ffff == mask
            })
            .collect();
        let expected =
            (0..lanes.len()).filter(|at| mask >> at & 1 == 1 && stops[*at] != Some(Stop::Done)).count();
        // a lane that does not name itself would wait for ever
        if group.is_empty() || (group.len() < expected && !force) {
            if force && group.is_empty() {
                stops[first] = None;
                moved = true;
            }
            continue;
        }
        settle(lanes, &group);
        for (at, _) in &group {
            stops[*at] = None;
        }
        moved = true;
    }
    moved
}

fn settle(lanes: &mut [Thread], group: &[(usize, WarpSite)]) {
    let values: Vec<(usize, u64)> = group.iter().map(|(at, site)| (*at, lanes[*at].get(site.a))).collect();
    let value_of = |lane: u64| values.iter().find(|(at, _)| *at as u64 == lane).map(|(_, value)| *value);
    let ballot = values.iter().filter(|(_, value)| *value != 0).fold(0_u64, |all, (at, _)| all | 1 << at);
    let yes = ballot.count_ones() as usize;
    for (at, site) in group {
        let lane = *at as u64;
        let (b, c) = (lanes[*at].get(site.b) & 31, lanes[*at].get(site.c));
        // c holds the clamp in its low bits and the mask of segments above
        let (clamp, segments) = (c & 31, c >> 8 & 31);
        let most = (lane & segments) | (clamp & !segments & 31);
        let least = lane & segments;
        let shuffled = |from: Option<u64>, good: bool| match from.filter(|_| good) {
            Some(from) => (value_of(from).unwrap_or(0), 1),
            None => (value_of(lane).unwrap_or(0), 0),
        };
        let (value, p) = match site.kind {
            WarpKind::Sync => continue,
            WarpKind::Up => {
                shuffled(lane.checked_sub(b), lane.checked_sub(b).is_some_and(|from| from >= most))
            }
            WarpKind::Down => shuffled(Some(lane + b), lane + b <= most),
            WarpKind::Butterfly => shuffled(Some(lane ^ b), lane ^ b <= most),
            WarpKind::Index => {
                let from = least | (b & !segments & 31);
                shuffled(Some(from), from <= most)
            }
            WarpKind::Ballot => (ballot, 0),
            WarpKind::All => (u64::from(yes == group.len()), 0),
            WarpKind::Any => (u64::from(yes > 0), 0),
            WarpKind::Uniform => (u64::from(yes == 0 || yes == group.len()), 0),
            WarpKind::Reduce(f) => {
                (values.iter().skip(1).fold(values[0].1, |all, (_, value)| f(all, *value)), 0)
            }
        };
        lanes[*at].set(site.d, value);
        if site.p != NONE {
            lanes[*at].set(site.p, p);
        }
    }
}
