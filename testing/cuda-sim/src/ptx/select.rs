//! Which function an arithmetic opcode stands for.

use super::op::{Binary, Quaternary, Round, Ternary, Ty, Unary};
use super::{float, int};

/// The dotted parts of an opcode behind its name.
#[derive(Debug, Default, Clone)]
pub(super) struct Parts<'a> {
    pub(super) types: Vec<Ty>,
    pub(super) flags: Vec<&'a str>,
}

impl<'a> Parts<'a> {
    /// Splits an opcode into its name and the parts.
    pub(super) fn of(opcode: &'a str) -> (&'a str, Self) {
        let mut words = opcode.split('.');
        let name = words.next().unwrap_or_default();
        let mut parts = Self::default();
        for word in words {
            match Ty::parse(word) {
                Some(ty) => parts.types.push(ty),
                None => parts.flags.push(word),
            }
        }
        (name, parts)
    }

    pub(super) fn has(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }

    /// The type of the operation: the last one named, which is that of the operands.
    pub(super) fn ty(&self) -> Option<Ty> {
        self.types.last().copied()
    }

    pub(super) fn round(&self) -> Round {
        let any = |flags: [&str; 2]| flags.iter().any(|flag| self.has(flag));
        if any(["rz", "rzi"]) {
            Round::Zero
        } else if any(["rm", "rmi"]) {
            Round::Down
        } else if any(["rp", "rpi"]) {
            Round::Up
        } else {
            Round::Nearest
        }
    }
}

macro_rules! for_int {
    ($ty:expr, $f:path) => {{
        use $f as f;
        match $ty {
            Ty::U16 | Ty::B16 => Some(f::<u16> as _),
            Ty::S16 => Some(f::<i16> as _),
            Ty::U32 | Ty::B32 => Some(f::<u32> as _),
            Ty::S32 => Some(f::<i32> as _),
            Ty::U64 | Ty::B64 => Some(f::<u64> as _),
            Ty::S64 => Some(f::<i64> as _),
            _ => None,
        }
    }};
}

macro_rules! for_float {
    ($ty:expr, $f:path) => {{
        use $f as f;
        match $ty {
            Ty::F32 => Some(f::<f32> as _),
            Ty::F64 => Some(f::<f64> as _),
            _ => None,
        }
    }};
}

macro_rules! rounded {
    ($parts:expr, $ty:expr, $f:path) => {{
        use $f as f;
        match ($ty, $parts.round()) {
            (Ty::F32, Round::Nearest) => Some(f::<f32, 0> as _),
            (Ty::F32, Round::Zero) => Some(f::<f32, 1> as _),
            (Ty::F32, Round::Down) => Some(f::<f32, 2> as _),
            (Ty::F32, Round::Up) => Some(f::<f32, 3> as _),
            (Ty::F64, Round::Nearest) => Some(f::<f64, 0> as _),
            (Ty::F64, Round::Zero) => Some(f::<f64, 1> as _),
            (Ty::F64, Round::Down) => Some(f::<f64, 2> as _),
            (Ty::F64, Round::Up) => Some(f::<f64, 3> as _),
            _ => None,
        }
    }};
}

fn only(wanted: Ty, ty: Ty, f: Unary) -> Option<Unary> {
    (ty == wanted).then_some(f)
}

pub(super) fn unary(name: &str, parts: &Parts<'_>) -> Option<Unary> {
    let ty = parts.ty()?;
    match name {
        "neg" if ty.float() => for_float!(ty, float::neg),
        "neg" => for_int!(ty, int::neg),
        "abs" if ty.float() => for_float!(ty, float::abs),
        "abs" => for_int!(ty, int::abs),
        "not" if ty == Ty::Pred => Some(int::not_pred),
        "not" => Some(int::not),
        "cnot" => for_int!(ty, int::cnot),
        "popc" if ty == Ty::B64 => Some(int::popc64),
        "popc" => only(Ty::B32, ty, int::popc32),
        "clz" if ty == Ty::B64 => Some(int::clz64),
        "clz" => only(Ty::B32, ty, int::clz32),
        "brev" if ty == Ty::B64 => Some(int::brev64),
        "brev" => only(Ty::B32, ty, int::brev32),
        "bfind" if parts.has("shiftamt") => for_int!(ty, int::bfind_shift),
        "bfind" => for_int!(ty, int::bfind),
        "rcp" => rounded!(parts, ty, float::rcp),
        "sqrt" => rounded!(parts, ty, float::sqrt),
        "rsqrt" => for_float!(ty, float::rsqrt),
        "sin" => only(Ty::F32, ty, float::sin),
        "cos" => only(Ty::F32, ty, float::cos),
        "lg2" => only(Ty::F32, ty, float::lg2),
        "ex2" => only(Ty::F32, ty, float::ex2),
        "tanh" => only(Ty::F32, ty, float::tanh),
        "testp" if parts.has("finite") => for_float!(ty, float::is_finite),
        "testp" if parts.has("infinite") => for_float!(ty, float::is_infinite),
        "testp" if parts.has("number") => for_float!(ty, float::is_number),
        "testp" if parts.has("notanumber") => for_float!(ty, float::is_nan),
        "testp" if parts.has("normal") => for_float!(ty, float::is_normal),
        "testp" if parts.has("subnormal") => for_float!(ty, float::is_subnormal),
        _ => None,
    }
}

pub(super) fn binary(name: &str, parts: &Parts<'_>) -> Option<Binary> {
    let ty = parts.ty()?;
    match name {
        "add" if ty.float() => rounded!(parts, ty, float::add),
        "add" if parts.has("sat") => (ty == Ty::S32).then_some(int::add_saturating),
        "add" => for_int!(ty, int::add),
        "sub" if ty.float() => rounded!(parts, ty, float::sub),
        "sub" if parts.has("sat") => (ty == Ty::S32).then_some(int::sub_saturating),
        "sub" => for_int!(ty, int::sub),
        "mul" if ty.float() => rounded!(parts, ty, float::mul),
        "mul" if parts.has("hi") => for_int!(ty, int::mul_hi),
        "mul" if parts.has("wide") => for_int!(ty, int::mul_wide),
        "mul" => for_int!(ty, int::mul_lo),
        "mul24" if parts.has("lo") && ty.size() == 4 => for_int!(ty, int::mul24_lo),
        "div" if ty.float() => rounded!(parts, ty, float::div),
        "div" => for_int!(ty, int::div),
        "rem" => for_int!(ty, int::rem),
        "min" if ty.float() && parts.has("NaN") => for_float!(ty, float::min_nan),
        "min" if ty.float() => for_float!(ty, float::min),
        "min" => for_int!(ty, int::min),
        "max" if ty.float() && parts.has("NaN") => for_float!(ty, float::max_nan),
        "max" if ty.float() => for_float!(ty, float::max),
        "max" => for_int!(ty, int::max),
        "copysign" => for_float!(ty, float::copysign),
        "and" => Some(int::and),
        "or" => Some(int::or),
        "xor" => Some(int::xor),
        "shl" => for_int!(ty, int::shl),
        "shr" => for_int!(ty, int::shr),
        _ => None,
    }
}

pub(super) fn ternary(name: &str, parts: &Parts<'_>) -> Option<Ternary> {
    let ty = parts.ty()?;
    match name {
        "mad" | "fma" if ty.float() => rounded!(parts, ty, float::fma),
        "mad" if parts.has("hi") => for_int!(ty, int::mad_hi),
        "mad" if parts.has("wide") => for_int!(ty, int::mad_wide),
        "mad" => for_int!(ty, int::mad_lo),
        "mad24" if parts.has("lo") && ty.size() == 4 => for_int!(ty, int::mad24_lo),
        "sad" => for_int!(ty, int::sad),
        "selp" => Some(int::select),
        "slct" if ty == Ty::S32 => Some(int::select_sign),
        "bfe" => for_int!(ty, int::bfe),
        "prmt" if parts.flags.is_empty() => Some(int::prmt),
        "shf" if parts.has("l") && parts.has("wrap") => Some(int::funnel_left_wrap),
        "shf" if parts.has("l") => Some(int::funnel_left_clamp),
        "shf" if parts.has("wrap") => Some(int::funnel_right_wrap),
        "shf" => Some(int::funnel_right_clamp),
        "dp4a" => match parts.types[..] {
            [Ty::U32, Ty::U32] => Some(int::dp4a_unsigned),
            [Ty::S32, Ty::S32] => Some(int::dp4a_signed),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn quaternary(name: &str, parts: &Parts<'_>) -> Option<Quaternary> {
    match name {
        "bfi" => for_int!(parts.ty()?, int::bfi),
        "lop3" => Some(int::lop3),
        _ => None,
    }
}

/// The comparison among the flags of `setp` or `set`.
pub(super) fn compare(parts: &Parts<'_>) -> Option<Binary> {
    let ty = parts.ty()?;
    parts.flags.iter().find_map(|flag| match *flag {
        "eq" if ty.float() => for_float!(ty, float::eq),
        "ne" if ty.float() => for_float!(ty, float::ne),
        "lt" if ty.float() => for_float!(ty, float::lt),
        "le" if ty.float() => for_float!(ty, float::le),
        "gt" if ty.float() => for_float!(ty, float::gt),
        "ge" if ty.float() => for_float!(ty, float::ge),
        "equ" => for_float!(ty, float::equ),
        "neu" => for_float!(ty, float::neu),
        "ltu" => for_float!(ty, float::ltu),
        "leu" => for_float!(ty, float::leu),
        "gtu" => for_float!(ty, float::gtu),
        "geu" => for_float!(ty, float::geu),
        "num" => for_float!(ty, float::num),
        "nan" => for_float!(ty, float::nan),
        "eq" => for_int!(ty, int::eq),
        "ne" => for_int!(ty, int::ne),
        "lt" | "lo" => for_int!(ty, int::lt),
        "le" | "ls" => for_int!(ty, int::le),
        "gt" | "hi" => for_int!(ty, int::gt),
        "ge" | "hs" => for_int!(ty, int::ge),
        _ => None,
    })
}

/// What an atomic leaves behind.
pub(super) fn atomic(parts: &Parts<'_>) -> Option<Ternary> {
    let ty = parts.ty()?;
    parts.flags.iter().find_map(|flag| match *flag {
        "add" if ty.float() => for_float!(ty, float::atomic_add),
        "add" => for_int!(ty, int::atomic_add),
        "min" => for_int!(ty, int::atomic_min),
        "max" => for_int!(ty, int::atomic_max),
        "and" => Some(int::atomic_and as Ternary),
        "or" => Some(int::atomic_or),
        "xor" => Some(int::atomic_xor),
        "exch" => Some(int::exchange),
        "cas" => Some(match ty.size() {
            8 => int::compare_and_swap,
            4 => int::compare_and_swap32,
            _ => int::compare_and_swap16,
        }),
        "inc" => Some(int::increment),
        "dec" => Some(int::decrement),
        _ => None,
    })
}

/// The combination of `redux.sync`.
pub(super) fn reduction(parts: &Parts<'_>) -> Option<Binary> {
    ["add", "min", "max", "and", "or", "xor"]
        .iter()
        .find(|name| parts.has(name))
        .and_then(|name| binary(name, parts))
}
