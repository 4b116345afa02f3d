//! The decoded form: what the interpreter runs.
//!
//! A thread's registers are one flat array of 64-bit slots. Constants, special registers and the carry flag are slots as well, so
//! that every operand is a slot number and an instruction is a few words. Arithmetic is a function pointer picked at decode time.
//! The rule for values: an operation looks only at the low bits that its type has, and may leave anything above them.

/// A slot in the register file of a frame.
pub(super) type Slot = u32;
/// In the place of a slot: the instruction has no such operand.
pub(super) const NONE: Slot = u32::MAX;

pub(super) type Unary = fn(u64) -> u64;
pub(super) type Binary = fn(u64, u64) -> u64;
pub(super) type Ternary = fn(u64, u64, u64) -> u64;
pub(super) type Quaternary = fn(u64, u64, u64, u64) -> u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Ty {
    Pred,
    B8,
    B16,
    B32,
    B64,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    Bf16,
    F32,
    F64,
}

impl Ty {
    pub(super) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "pred" => Self::Pred,
            "b8" => Self::B8,
            "b16" => Self::B16,
            "b32" => Self::B32,
            "b64" => Self::B64,
            "u8" => Self::U8,
            "u16" => Self::U16,
            "u32" => Self::U32,
            "u64" => Self::U64,
            "s8" => Self::S8,
            "s16" => Self::S16,
            "s32" => Self::S32,
            "s64" => Self::S64,
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            "f32" => Self::F32,
            "f64" => Self::F64,
            _ => return None,
        })
    }

    pub(super) fn size(self) -> u8 {
        match self {
            Self::Pred | Self::B8 | Self::U8 | Self::S8 => 1,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::Bf16 => 2,
            Self::B32 | Self::U32 | Self::S32 | Self::F32 => 4,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 8,
        }
    }

    pub(super) fn signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    pub(super) fn float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }
}

/// Where an address points. The stack holds a thread's locals and the parameters of calls; `Frame` counts from the frame's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Space {
    Generic,
    Global,
    Shared,
    Stack,
    Frame,
}

/// Generic addresses of shared and stack bytes: far outside of what a process can have as a device pointer.
pub(super) const SHARED_WINDOW: u64 = 0xffff_1000_0000_0000;
pub(super) const STACK_WINDOW: u64 = 0xffff_2000_0000_0000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    Lane,
    Warp,
    Warps,
    LaneMask(LaneMask),
    DynamicShared,
    Const(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaneMask {
    Eq,
    Lt,
    Le,
    Gt,
    Ge,
}

/// A value that a slot has before the first instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Const {
    Value(u64),
    /// A module variable plus an offset: known once the module has its memory.
    Global(u32, i64),
    /// The start of dynamic shared memory plus an offset.
    Dynamic(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Round {
    Nearest,
    Zero,
    Down,
    Up,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Convert {
    pub(super) to: Ty,
    pub(super) from: Ty,
    pub(super) round: Round,
    /// Round to an integral value (`.rni` and its kin), also from float to float.
    pub(super) integral: bool,
    pub(super) saturate: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) space: Space,
    pub(super) size: u8,
    /// 0: the access before has checked it (the rest of a vector).
    pub(super) align: u8,
    pub(super) base: Slot,
    pub(super) offset: i64,
}

/// Addition with the carry flag; a subtraction adds the complement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Carry {
    pub(super) kind: CarryKind,
    pub(super) wide: bool,
    pub(super) take: bool,
    pub(super) leave: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CarryKind {
    Add,
    Sub,
    MadLo,
    MadHi,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Op {
    Nop,
    Move {
        d: Slot,
        a: Slot,
    },
    Unary {
        f: Unary,
        d: Slot,
        a: Slot,
    },
    Binary {
        f: Binary,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Ternary {
        f: Ternary,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Quaternary {
        f: Quaternary,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
        e: Slot,
    },
    Convert {
        how: Convert,
        d: Slot,
        a: Slot,
    },
    Carry {
        how: Carry,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
        flag: Slot,
    },
    /// The address of something in this frame.
    FrameAddress {
        d: Slot,
        offset: i64,
    },
    Load {
        place: Place,
        signed: bool,
        d: Slot,
    },
    Store {
        place: Place,
        a: Slot,
    },
    Atomic {
        place: Place,
        f: Ternary,
        d: Slot,
        b: Slot,
        c: Slot,
    },
    Branch {
        to: u32,
    },
    /// Through a table of the function.
    BranchIndexed {
        table: u32,
        index: Slot,
    },
    Call {
        site: u32,
    },
    Clock {
        d: Slot,
    },
    ActiveMask {
        d: Slot,
    },
    Barrier {
        site: u32,
    },
    Warp {
        site: u32,
    },
    Return,
    Exit,
    Trap,
    Assert,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Instr {
    /// Runs only if this slot is not zero (or zero, with `negate`).
    pub(super) guard: Slot,
    pub(super) negate: bool,
    pub(super) op: Op,
}

/// A parameter or a return value of a function in its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Var {
    pub(super) offset: u32,
    pub(super) size: u32,
}

#[derive(Debug, Clone)]
pub(super) struct CallSite {
    pub(super) callee: u32,
    /// (offset in the caller's frame, in the callee's, bytes).
    pub(super) arguments: Vec<(u32, u32, u32)>,
    pub(super) results: Vec<(u32, u32, u32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reduce {
    None,
    Popc,
    And,
    Or,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct BarrierSite {
    pub(super) id: Slot,
    pub(super) count: Slot,
    pub(super) reduce: Reduce,
    pub(super) d: Slot,
    pub(super) a: Slot,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum WarpKind {
    Sync,
    Up,
    Down,
    Butterfly,
    Index,
    Ballot,
    All,
    Any,
    Uniform,
    Reduce(Binary),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct WarpSite {
    pub(super) kind: WarpKind,
    pub(super) d: Slot,
    /// Second result: whether the source lane was in range.
    pub(super) p: Slot,
    pub(super) a: Slot,
    pub(super) b: Slot,
    pub(super) c: Slot,
    pub(super) mask: Slot,
}

#[derive(Debug, Default)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) entry: bool,
    pub(super) code: Vec<Instr>,
    pub(super) slots: u32,
    pub(super) constants: Vec<(Slot, Const)>,
    pub(super) specials: Vec<(Slot, Special)>,
    pub(super) frame: u32,
    pub(super) parameters: Vec<Var>,
    pub(super) results: Vec<Var>,
    pub(super) tables: Vec<Vec<u32>>,
    pub(super) calls: Vec<CallSite>,
    pub(super) barriers: Vec<BarrierSite>,
    pub(super) warps: Vec<WarpSite>,
    /// Static shared bytes up to the end of this function's own.
    pub(super) shared: u32,
    pub(super) registers: u32,
    pub(super) local: u32,
    /// `.maxntid` or `.reqntid`, as a number of threads.
    pub(super) most_threads: Option<u32>,
}

/// A variable of the module in device memory (`.global` and `.const`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Global {
    /// Its name in the module.
    pub name: String,
    /// How many bytes it takes.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u64,
    /// What it starts with; shorter than `size` means zeros behind.
    pub init: Vec<u8>,
    /// Eight-byte places that hold the address of another variable (its index, an offset).
    pub addresses: Vec<(u64, u32, i64)>,
}
