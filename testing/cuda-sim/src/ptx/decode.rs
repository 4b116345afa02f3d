//! From a statement to operations. Those that move data are in `moves.rs`.
//!
//! What is not known here is refused when the module is loaded, by name: a kernel that silently computed something else would be
//! worse than none.

use super::build::{Builder, Home, Operand};
use super::op::{
    Binary, Carry, CarryKind, Const, Convert, NONE, Op, SHARED_WINDOW, STACK_WINDOW, Slot, Ty, Unary,
};
use super::parse::Parser;
use super::select::{self, Parts};
use super::{float, int, sites};

pub(super) type Outcome<T = ()> = Result<T, String>;

/// One statement in the making.
pub(super) struct Context<'b, 'p, 'a> {
    pub(super) parser: &'p Parser<'a>,
    pub(super) builder: &'b mut Builder,
    pub(super) operands: &'b [Operand<'a>],
}

const FLAGS: [&str; 29] = [
    "rn",
    "rz",
    "rm",
    "rp",
    "rni",
    "rzi",
    "rmi",
    "rpi",
    "ftz",
    "approx",
    "full",
    "sat",
    "lo",
    "hi",
    "wide",
    "NaN",
    "shiftamt",
    "l",
    "r",
    "wrap",
    "clamp",
    "b4",
    "finite",
    "infinite",
    "number",
    "notanumber",
    "normal",
    "subnormal",
    "to",
];

pub(super) fn decode<'a>(
    parser: &Parser<'a>,
    builder: &mut Builder,
    opcode: &'a str,
    operands: &[Operand<'a>],
) -> Outcome {
    let (name, parts) = Parts::of(opcode);
    let mut context = Context { parser, builder, operands };
    match name {
        "ld" | "ldu" | "st" => context.access(name, &parts),
        "atom" | "red" => context.atomic(name, &parts),
        "mov" => context.mov(&parts),
        "cvt" => context.convert(&parts),
        "cvta" => context.cvta(&parts),
        "isspacep" => context.is_space(&parts),
        "setp" => context.setp(&parts),
        "set" => context.set(&parts),
        "bra" => {
            let Some(Operand::Name(label)) = operands.first() else {
                return Err("a label is missing".into());
            };
            context.builder.branch(label);
            Ok(())
        }
        "brx" => {
            let [index, Operand::Name(table)] = operands else {
                return Err("an index and a table are needed".into());
            };
            let index = context.source(index, Ty::U32)?;
            context.builder.branch_indexed(table, index);
            Ok(())
        }
        "ret" => context.plain(Op::Return),
        "exit" => context.plain(Op::Exit),
        "trap" => context.plain(Op::Trap),
        "membar" | "fence" | "prefetch" | "prefetchu" | "nanosleep" | "discard" | "applypriority"
        | "pmevent" | "griddepcontrol" | "brkpt" => context.plain(Op::Nop),
        "call" => sites::call(&mut context),
        "bar" | "barrier" => sites::barrier(&mut context, &parts),
        "shfl" => sites::shuffle(&mut context, &parts),
        "vote" => sites::vote(&mut context, &parts),
        "redux" => sites::redux(&mut context, &parts),
        "activemask" => {
            let d = context.target(0)?;
            context.plain(Op::ActiveMask { d })
        }
        "addc" | "subc" | "madc" => context.carry(name, &parts),
        "add" | "sub" | "mad" if parts.has("cc") => context.carry(name, &parts),
        _ => context.arithmetic(name, &parts),
    }
}

pub(super) fn few(what: &str) -> String {
    format!("{what} is missing")
}

impl<'a> Context<'_, '_, 'a> {
    pub(super) fn plain(&mut self, op: Op) -> Outcome {
        self.builder.emit(op);
        Ok(())
    }

    pub(super) fn scratch(&mut self) -> Outcome<Slot> {
        self.builder.scratch().ok_or_else(|| "too many registers".into())
    }

    pub(super) fn constant(&mut self, value: u64) -> Outcome<Slot> {
        self.builder.constant(Const::Value(value)).ok_or_else(|| "too many constants".into())
    }

    pub(super) fn operand(&self, at: usize) -> Outcome<Operand<'a>> {
        self.operands.get(at).cloned().ok_or_else(|| few("an operand"))
    }

    pub(super) fn target_of(&mut self, name: &str) -> Outcome<Slot> {
        if name == "_" {
            return self.scratch();
        }
        self.builder.register(name).ok_or_else(|| format!("{name} is not declared"))
    }

    pub(super) fn target(&mut self, at: usize) -> Outcome<Slot> {
        match self.operand(at)? {
            Operand::Name(name) => self.target_of(name),
            _ => Err("a register is needed for the result".into()),
        }
    }

    pub(super) fn home(&self, name: &str) -> Option<Home> {
        self.builder.home(name).or_else(|| self.parser.names.get(name).copied())
    }

    pub(super) fn source_at(&mut self, at: usize, ty: Ty) -> Outcome<Slot> {
        let operand = self.operand(at)?;
        self.source(&operand, ty)
    }

    pub(super) fn source(&mut self, operand: &Operand<'a>, ty: Ty) -> Outcome<Slot> {
        match operand {
            Operand::Literal(value) => {
                self.builder.literal(*value, ty).ok_or_else(|| "too many constants".into())
            }
            Operand::Name("WARP_SZ") => self.constant(32),
            Operand::Name(name) => match self.builder.register(name) {
                Some(slot) => Ok(slot),
                None => self.address_of(name, 0),
            },
            Operand::Symbol(name, offset) => self.address_of(name, *offset),
            Operand::Not(name) => {
                let a = self.target_of(name)?;
                let d = self.scratch()?;
                self.builder.emit(Op::Unary { f: int::not_pred, d, a });
                Ok(d)
            }
            _ => Err("this operand has another form".into()),
        }
    }

    pub(super) fn address_of(&mut self, name: &str, offset: i64) -> Outcome<Slot> {
        match self.home(name).ok_or_else(|| format!("{name} is not declared"))? {
            Home::Frame(var) => {
                let d = self.scratch()?;
                self.builder.emit(Op::FrameAddress { d, offset: i64::from(var.offset).wrapping_add(offset) });
                Ok(d)
            }
            Home::Constant(value) => {
                let value = match value {
                    Const::Value(start) => Const::Value(start.wrapping_add_signed(offset)),
                    Const::Global(index, start) => Const::Global(index, start.wrapping_add(offset)),
                    Const::Dynamic(start) => Const::Dynamic(start.wrapping_add(offset)),
                };
                self.builder.constant(value).ok_or_else(|| "too many constants".into())
            }
        }
    }

    fn convert(&mut self, parts: &Parts<'_>) -> Outcome {
        let &[to, from] = &parts.types[..] else { return Err("two types are needed".into()) };
        self.check_flags(parts)?;
        let (d, a) = (self.target(0)?, self.source_at(1, from)?);
        let saturate = parts.has("sat");
        if !to.float() && !from.float() && !saturate {
            let f: Unary = match if to.size() <= from.size() { to } else { from } {
                Ty::B8 | Ty::U8 => int::extend_u8,
                Ty::S8 => int::extend_s8,
                Ty::B16 | Ty::U16 => int::extend_u16,
                Ty::S16 => int::extend_s16,
                Ty::B32 | Ty::U32 => int::extend_u32,
                Ty::S32 => int::extend_s32,
                _ => return self.plain(Op::Move { d, a }),
            };
            return self.plain(Op::Unary { f, d, a });
        }
        let integral = ["rni", "rzi", "rmi", "rpi"].iter().any(|flag| parts.has(flag));
        let how = Convert { to, from, round: parts.round(), integral, saturate };
        self.plain(Op::Convert { how, d, a })
    }

    fn cvta(&mut self, parts: &Parts<'_>) -> Outcome {
        let (d, a) = (self.target(0)?, self.source_at(1, Ty::U64)?);
        let window = parts.flags.iter().find_map(|flag| match flag.split("::").next()? {
            "global" | "const" => Some(0),
            "shared" => Some(SHARED_WINDOW),
            "local" | "param" => Some(STACK_WINDOW),
            _ => None,
        });
        match window.ok_or("this space is not known")? {
            0 => self.plain(Op::Move { d, a }),
            window => {
                let b = self.constant(window)?;
                self.plain(Op::Binary {
                    f: if parts.has("to") { int::sub::<u64> } else { int::add::<u64> },
                    d,
                    a,
                    b,
                })
            }
        }
    }

    fn is_space(&mut self, parts: &Parts<'_>) -> Outcome {
        let f: Unary = match parts.flags.first().and_then(|flag| flag.split("::").next()) {
            Some("shared") => |a| u64::from(a >> 32 == SHARED_WINDOW >> 32),
            Some("local") => |a| u64::from(a >> 32 == STACK_WINDOW >> 32),
            Some("global") => |a| u64::from(a < SHARED_WINDOW),
            Some("const" | "param") => |_| 0,
            _ => return Err("this space is not known".into()),
        };
        let (d, a) = (self.target(0)?, self.source_at(1, Ty::U64)?);
        self.plain(Op::Unary { f, d, a })
    }

    fn setp(&mut self, parts: &Parts<'_>) -> Outcome {
        let f = select::compare(parts).ok_or("this comparison is not known")?;
        let ty = parts.ty().unwrap_or(Ty::B32);
        let (a, b) = (self.source_at(1, ty)?, self.source_at(2, ty)?);
        let (p, q) = match self.operand(0)? {
            Operand::Pair(p, q) => (self.target_of(p)?, self.target_of(q)?),
            Operand::Name(p) => (self.target_of(p)?, NONE),
            _ => return Err("a predicate is needed for the result".into()),
        };
        let combine: Option<Binary> = parts.flags.iter().find_map(|flag| match *flag {
            "and" => Some(int::and as Binary),
            "or" => Some(int::or),
            "xor" => Some(int::xor),
            _ => None,
        });
        if q == NONE && combine.is_none() {
            return self.plain(Op::Binary { f, d: p, a, b });
        }
        let c = match combine {
            Some(_) => self.source_at(3, Ty::Pred)?,
            None => NONE,
        };
        let (yes, no) = (self.scratch()?, self.scratch()?);
        self.builder.emit(Op::Binary { f, d: yes, a, b });
        self.builder.emit(Op::Unary { f: int::not_pred, d: no, a: yes });
        let results = [(q, no), (p, yes)];
        if let Some(f) = combine {
            for (_, value) in results {
                self.builder.emit(Op::Binary { f, d: value, a: value, b: c });
            }
        }
        for (d, a) in results.into_iter().filter(|(d, _)| *d != NONE) {
            self.builder.emit(Op::Move { d, a });
        }
        Ok(())
    }

    fn set(&mut self, parts: &Parts<'_>) -> Outcome {
        let &[to, from] = &parts.types[..] else { return Err("two types are needed".into()) };
        let f = select::compare(parts).ok_or("this comparison is not known")?;
        if ["and", "or", "xor"].iter().any(|flag| parts.has(flag)) {
            return Err("this form is not known".into());
        }
        let (d, a, b) = (self.target(0)?, self.source_at(1, from)?, self.source_at(2, from)?);
        let yes = self.constant(if to == Ty::F32 { u64::from(1.0_f32.to_bits()) } else { u64::MAX })?;
        let no = self.constant(0)?;
        let found = self.scratch()?;
        self.builder.emit(Op::Binary { f, d: found, a, b });
        self.plain(Op::Ternary { f: int::select, d, a: yes, b: no, c: found })
    }

    fn carry(&mut self, name: &str, parts: &Parts<'_>) -> Outcome {
        let ty = parts.ty().ok_or_else(|| few("a type"))?;
        let kind = match name {
            "add" | "addc" => CarryKind::Add,
            "sub" | "subc" => CarryKind::Sub,
            _ if parts.has("hi") => CarryKind::MadHi,
            _ => CarryKind::MadLo,
        };
        if !matches!(ty, Ty::U32 | Ty::U64 | Ty::S32 | Ty::S64) || (kind == CarryKind::MadHi && ty.signed()) {
            return Err("this form is not known".into());
        }
        let (d, a, b) = (self.target(0)?, self.source_at(1, ty)?, self.source_at(2, ty)?);
        let c = if name.starts_with("mad") { self.source_at(3, ty)? } else { self.constant(0)? };
        let flag = self.builder.carry().ok_or("too many registers")?;
        let how = Carry { kind, wide: ty.size() == 8, take: name.ends_with('c'), leave: parts.has("cc") };
        self.plain(Op::Carry { how, d, a, b, c, flag })
    }

    pub(super) fn check_flags(&self, parts: &Parts<'_>) -> Outcome {
        match parts.flags.iter().find(|flag| !FLAGS.contains(flag)) {
            Some(flag) => Err(format!(".{flag} is not known here")),
            None => Ok(()),
        }
    }

    fn arithmetic(&mut self, name: &str, parts: &Parts<'_>) -> Outcome {
        let ty = parts.ty().unwrap_or(Ty::B32);
        self.check_flags(parts)?;
        if matches!(ty, Ty::F16 | Ty::Bf16) {
            return self.half(name, parts, ty);
        }
        let count = self.operands.len().saturating_sub(1);
        let d = self.target(0)?;
        let types = [
            ty,
            if matches!(name, "shl" | "shr") { Ty::U32 } else { ty },
            if name == "selp" { Ty::Pred } else { ty },
            Ty::U32,
        ];
        let mut slots = [NONE; 4];
        if count > 4 {
            return Err("too many operands".into());
        }
        for (at, slot) in slots.iter_mut().enumerate().take(count) {
            *slot = self.source_at(at + 1, types[at])?;
        }
        self.apply(name, parts, count, d, slots)?;
        if parts.has("sat") && ty.float() {
            let f = if ty == Ty::F32 { float::saturate::<f32> } else { float::saturate::<f64> };
            self.builder.emit(Op::Unary { f, d, a: d });
        }
        Ok(())
    }

    fn apply(
        &mut self,
        name: &str,
        parts: &Parts<'_>,
        count: usize,
        d: Slot,
        [a, b, c, e]: [Slot; 4],
    ) -> Outcome {
        let unknown = "this opcode is not known";
        match count {
            1 => self.plain(Op::Unary { f: select::unary(name, parts).ok_or(unknown)?, d, a }),
            2 => self.plain(Op::Binary { f: select::binary(name, parts).ok_or(unknown)?, d, a, b }),
            3 => self.plain(Op::Ternary { f: select::ternary(name, parts).ok_or(unknown)?, d, a, b, c }),
            4 => self.plain(Op::Quaternary {
                f: select::quaternary(name, parts).ok_or(unknown)?,
                d,
                a,
                b,
                c,
                e,
            }),
            _ => Err(unknown.into()),
        }
    }

    /// 16-bit floats are computed in 32 bits and rounded once more.
    fn half(&mut self, name: &str, parts: &Parts<'_>, ty: Ty) -> Outcome {
        let count = self.operands.len().saturating_sub(1);
        let d = self.target(0)?;
        let mut slots = [NONE; 4];
        if count > 3 || name == "selp" {
            return Err("this form is not known".into());
        }
        let how = |to, from| Convert {
            to,
            from,
            round: super::op::Round::Nearest,
            integral: false,
            saturate: false,
        };
        for (at, slot) in slots.iter_mut().enumerate().take(count) {
            let a = self.source_at(at + 1, ty)?;
            *slot = self.scratch()?;
            self.builder.emit(Op::Convert { how: how(Ty::F32, ty), d: *slot, a });
        }
        let wide = self.scratch()?;
        let single = Parts { types: vec![Ty::F32], flags: parts.flags.clone() };
        self.apply(name, &single, count, wide, slots)?;
        self.plain(Op::Convert { how: how(ty, Ty::F32), d, a: wide })
    }
}
