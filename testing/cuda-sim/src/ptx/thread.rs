//! One thread of a kernel: runs until it ends or has to wait for others.

use super::convert::convert;
use super::launch::Grid;
use super::memory::{Fault, Memory, read_le, write_le};
use super::op::{
    Carry, CarryKind, Function, Instr, LaneMask, NONE, Op, Place, SHARED_WINDOW, STACK_WINDOW, Slot, Space,
    Special,
};

const MOST_STACK: usize = 512 << 10;
const MOST_FRAMES: usize = 1024;
/// Instructions between two looks at the budget and at the request to stop.
pub(super) const QUANTUM: u64 = 1 << 20;

/// Why a thread does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    Done,
    Barrier(u32),
    Warp(u32),
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    function: u32,
    pc: usize,
    base: usize,
    stack: usize,
    site: u32,
}

#[derive(Debug, Default)]
pub(super) struct Thread {
    registers: Vec<u64>,
    stack: Vec<u8>,
    frames: Vec<Frame>,
    function: u32,
    pc: usize,
    base: usize,
    bottom: usize,
    /// Its place in the block, as a number and by axes.
    pub(super) index: u32,
    tid: [u32; 3],
}

/// What is the same for all threads of a launch.
pub(super) struct World<'l, M> {
    pub(super) grid: &'l Grid<'l>,
    pub(super) memory: &'l mut M,
    pub(super) shared: Vec<u8>,
    pub(super) block: [u32; 3],
    pub(super) left: u64,
    pub(super) spent: u64,
}

impl Thread {
    /// Back to the first instruction of the entry, as thread `index` of a block.
    pub(super) fn start<M>(&mut self, world: &World<'_, M>, index: u32) {
        let [x, y, _] = world.grid.threads;
        self.index = index;
        self.tid = [index % x, index / x % y, index / x / y];
        self.frames.clear();
        self.function = world.grid.entry;
        (self.pc, self.base, self.bottom) = (0, 0, 0);
        let function = &world.grid.module.functions[self.function as usize];
        let arguments = world.grid.arguments;
        let frame = (function.frame as usize).max(arguments.len());
        if self.stack.len() < frame {
            self.stack.resize(frame, 0);
        }
        self.stack[..arguments.len()].copy_from_slice(arguments);
        self.enter(world, function);
    }

    /// Gives a frame's registers their first values.
    fn enter<M>(&mut self, world: &World<'_, M>, function: &Function) {
        let end = self.base + function.slots as usize;
        if self.registers.len() < end {
            self.registers.resize(end, 0);
        }
        let registers = &mut self.registers[self.base..end];
        registers.copy_from_slice(&world.grid.templates[self.function as usize]);
        let lane = self.index % 32;
        for (slot, special) in &function.specials {
            registers[*slot as usize] = u64::from(match *special {
                Special::Tid(axis) => self.tid[usize::from(axis)],
                Special::Ntid(axis) => world.grid.threads[usize::from(axis)],
                Special::Ctaid(axis) => world.block[usize::from(axis)],
                Special::Nctaid(axis) => world.grid.blocks[usize::from(axis)],
                Special::Lane => lane,
                Special::Warp => self.index / 32,
                Special::Warps => world.grid.threads_per_block().div_ceil(32),
                Special::LaneMask(LaneMask::Eq) => 1 << lane,
                Special::LaneMask(LaneMask::Lt) => (1 << lane) - 1,
                Special::LaneMask(LaneMask::Le) => u32::MAX >> (31 - lane),
                Special::LaneMask(LaneMask::Gt) => !(u32::MAX >> (31 - lane)),
                Special::LaneMask(LaneMask::Ge) => !((1 << lane) - 1),
                Special::DynamicShared => world.grid.dynamic_shared,
                Special::Const(value) => {
                    registers[*slot as usize] = value;
                    continue;
                }
            });
        }
    }

    pub(super) fn get(&self, slot: Slot) -> u64 {
        if slot == NONE { 0 } else { self.registers[self.base + slot as usize] }
    }

    pub(super) fn set(&mut self, slot: Slot, value: u64) {
        if slot != NONE {
            self.registers[self.base + slot as usize] = value;
        }
    }

    pub(super) fn function(&self) -> usize {
        self.function as usize
    }

    pub(super) fn run<M: Memory>(&mut self, world: &mut World<'_, M>) -> Result<Stop, Fault> {
        loop {
            let function = &world.grid.module.functions[self.function as usize];
            let registers = &mut self.registers[self.base..self.base + function.slots as usize];
            let mut lane = Lane { registers, stack: &mut self.stack, bottom: self.bottom, pc: self.pc };
            let turn = lane.run(world, &function.code, &function.tables)?;
            self.pc = lane.pc;
            match turn {
                Turn::Stop(stop) => return Ok(stop),
                Turn::Call(site) => self.call(world, site)?,
                Turn::Return => {
                    if !self.give_back(world)? {
                        return Ok(Stop::Done);
                    }
                }
            }
        }
    }

    fn call<M>(&mut self, world: &World<'_, M>, site: u32) -> Result<(), Fault> {
        let functions = &world.grid.module.functions;
        let caller = &functions[self.function as usize];
        let call = &caller.calls[site as usize];
        let callee = &functions[call.callee as usize];
        let bottom = self.bottom + (caller.frame as usize).next_multiple_of(16);
        let top = bottom + callee.frame as usize;
        if self.frames.len() >= MOST_FRAMES || top > MOST_STACK {
            return Err(Fault::Stack { kernel: world.grid.name() });
        }
        if self.stack.len() < top {
            self.stack.resize(top, 0);
        }
        self.copy(world, &call.arguments, self.bottom, bottom, false)?;
        self.frames.push(Frame {
            function: self.function,
            pc: self.pc,
            base: self.base,
            stack: self.bottom,
            site,
        });
        self.base += caller.slots as usize;
        self.bottom = bottom;
        self.function = call.callee;
        self.pc = 0;
        self.enter(world, callee);
        Ok(())
    }

    /// Ends the innermost frame; false if it was the entry's.
    fn give_back<M>(&mut self, world: &World<'_, M>) -> Result<bool, Fault> {
        let Some(frame) = self.frames.pop() else { return Ok(false) };
        let results =
            &world.grid.module.functions[frame.function as usize].calls[frame.site as usize].results;
        self.copy(world, results, frame.stack, self.bottom, true)?;
        (self.function, self.pc, self.base, self.bottom) =
            (frame.function, frame.pc, frame.base, frame.stack);
        Ok(true)
    }

    fn copy<M>(
        &mut self,
        world: &World<'_, M>,
        list: &[(u32, u32, u32)],
        caller: usize,
        callee: usize,
        back: bool,
    ) -> Result<(), Fault> {
        for (mine, theirs, size) in list {
            let (mine, theirs, size) = (caller + *mine as usize, callee + *theirs as usize, *size as usize);
            let (from, to) = if back { (theirs, mine) } else { (mine, theirs) };
            if from.max(to) + size > self.stack.len() {
                return Err(Fault::Stack { kernel: world.grid.name() });
            }
            self.stack.copy_within(from..from + size, to);
        }
        Ok(())
    }
}

enum Turn {
    Stop(Stop),
    Call(u32),
    Return,
}

/// The innermost frame of a running thread.
struct Lane<'t> {
    registers: &'t mut [u64],
    stack: &'t mut [u8],
    bottom: usize,
    pc: usize,
}

impl Lane<'_> {
    fn run<M: Memory>(
        &mut self,
        world: &mut World<'_, M>,
        code: &[Instr],
        tables: &[Vec<u32>],
    ) -> Result<Turn, Fault> {
        loop {
            if world.left == 0 {
                world.refill()?;
            }
            world.left -= 1;
            let instr = &code[self.pc];
            self.pc += 1;
            if instr.guard != NONE && (self.registers[instr.guard as usize] != 0) == instr.negate {
                continue;
            }
            match instr.op {
                Op::Nop => {}
                Op::Move { d, a } => self.put(d, self.get(a)),
                Op::Unary { f, d, a } => self.put(d, f(self.get(a))),
                Op::Binary { f, d, a, b } => self.put(d, f(self.get(a), self.get(b))),
                Op::Ternary { f, d, a, b, c } => self.put(d, f(self.get(a), self.get(b), self.get(c))),
                Op::Quaternary { f, d, a, b, c, e } => {
                    self.put(d, f(self.get(a), self.get(b), self.get(c), self.get(e)))
                }
                Op::Convert { how, d, a } => self.put(d, convert(how, self.get(a))),
                Op::Carry { how, d, a, b, c, flag } => {
                    let (value, out) = carry(how, self.get(a), self.get(b), self.get(c), self.get(flag));
                    self.put(d, value);
                    if how.leave {
                        self.put(flag, out);
                    }
                }
                Op::FrameAddress { d, offset } => {
                    self.put(d, (self.bottom as u64).wrapping_add_signed(offset))
                }
                Op::Load { place, signed, d } => {
                    let value = self.load(world, place)?;
                    self.put(d, if signed { extend(value, place.size) } else { value });
                }
                Op::Store { place, a } => self.store(world, place, self.get(a))?,
                Op::Atomic { place, f, d, b, c } => {
                    let (b, c) = (self.get(b), self.get(c));
                    let old = self.update(world, place, &|old| f(old, b, c))?;
                    self.put(d, old);
                }
                Op::Branch { to } => self.pc = to as usize,
                Op::BranchIndexed { table, index } => {
                    let table = &tables[table as usize];
                    // only the low 32 bits count; an index beyond the table is undefined: the last target
                    let index = usize::try_from(self.get(index) & 0xffff_ffff).unwrap_or(usize::MAX);
                    if let Some(to) = table.get(index).or(table.last()) {
                        self.pc = *to as usize;
                    }
                }
                Op::Call { site } => return Ok(Turn::Call(site)),
                Op::Clock { d } => self.put(d, world.spent + (QUANTUM - world.left.min(QUANTUM))),
                Op::ActiveMask { d } => self.put(d, u64::from(world.grid.full_warp())),
                Op::Barrier { site } => return Ok(Turn::Stop(Stop::Barrier(site))),
                Op::Warp { site } => return Ok(Turn::Stop(Stop::Warp(site))),
                Op::Return => return Ok(Turn::Return),
                Op::Exit => return Ok(Turn::Stop(Stop::Done)),
                Op::Trap => return Err(Fault::Trap { kernel: world.grid.name() }),
                Op::Assert => return Err(Fault::Assert { kernel: world.grid.name() }),
            }
        }
    }

    fn get(&self, slot: Slot) -> u64 {
        self.registers[slot as usize]
    }

    fn put(&mut self, slot: Slot, value: u64) {
        self.registers[slot as usize] = value;
    }

    /// The space that an address really is in, and where in it.
    fn resolve<M>(&self, world: &World<'_, M>, place: Place) -> Result<(Space, u64), Fault> {
        let mut address = self.get(place.base).wrapping_add_signed(place.offset);
        let mut space = place.space;
        match space {
            Space::Frame => {
                // frames start on multiples of 16, so that alignment was settled by the declaration
                address = address.wrapping_add(self.bottom as u64);
                return Ok((Space::Stack, address));
            }
            Space::Generic if address >= SHARED_WINDOW => {
                if address >> 32 == SHARED_WINDOW >> 32 {
                    (space, address) = (Space::Shared, address - SHARED_WINDOW);
                } else if address >> 32 == STACK_WINDOW >> 32 {
                    (space, address) = (Space::Stack, address - STACK_WINDOW);
                }
            }
            // 32-bit address arithmetic may leave anything in the upper half
            Space::Shared => address &= 0xffff_ffff,
            _ => {}
        }
        if place.align > 1 && address & (u64::from(place.align) - 1) != 0 {
            return Err(Fault::Misaligned { kernel: world.grid.name(), address });
        }
        Ok((space, address))
    }

    fn load<M: Memory>(&mut self, world: &mut World<'_, M>, place: Place) -> Result<u64, Fault> {
        let (space, address) = self.resolve(world, place)?;
        let size = usize::from(place.size);
        let value = match space {
            Space::Shared => read_le(&world.shared, at(address), size),
            Space::Stack => read_le(self.stack, at(address), size),
            _ => world.memory.load(address, size).ok(),
        };
        value.ok_or_else(|| world.illegal(address))
    }

    fn store<M: Memory>(&mut self, world: &mut World<'_, M>, place: Place, value: u64) -> Result<(), Fault> {
        let (space, address) = self.resolve(world, place)?;
        let size = usize::from(place.size);
        let done = match space {
            Space::Shared => write_le(&mut world.shared, at(address), size, value),
            Space::Stack => write_le(self.stack, at(address), size, value),
            _ => world.memory.store(address, size, value).ok(),
        };
        done.ok_or_else(|| world.illegal(address))
    }

    fn update<M: Memory>(
        &mut self,
        world: &mut World<'_, M>,
        place: Place,
        change: &dyn Fn(u64) -> u64,
    ) -> Result<u64, Fault> {
        let (space, address) = self.resolve(world, place)?;
        if matches!(space, Space::Shared | Space::Stack) {
            let old = self.load(world, place)?;
            self.store(world, place, change(old))?;
            return Ok(old);
        }
        world.memory.update(address, usize::from(place.size), change).map_err(|_| world.illegal(address))
    }
}

fn at(address: u64) -> usize {
    usize::try_from(address).unwrap_or(usize::MAX)
}

/// Sign-extends a loaded value.
fn extend(value: u64, size: u8) -> u64 {
    let unused = 64 - u32::from(size) * 8;
    ((value << unused).cast_signed() >> unused).cast_unsigned()
}

/// The result and the carry. A subtraction's flag is its borrow.
fn carry(how: Carry, a: u64, b: u64, c: u64, flag: u64) -> (u64, u64) {
    let bits = if how.wide { 64 } else { 32 };
    let mask = (1_u128 << bits) - 1;
    let (a, b, c) = (u128::from(a) & mask, u128::from(b) & mask, u128::from(c) & mask);
    let flag = if how.take { u128::from(flag & 1) } else { 0 };
    let total = match how.kind {
        CarryKind::Add => a + b + flag,
        CarryKind::Sub => a.wrapping_sub(b).wrapping_sub(flag),
        CarryKind::MadLo => ((a * b) & mask) + c + flag,
        CarryKind::MadHi => ((a * b) >> bits) + c + flag,
    };
    (u64::try_from(total & mask).unwrap_or(0), u64::from(total >> bits & 1 == 1))
}
