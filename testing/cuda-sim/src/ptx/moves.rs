//! Statements that move data: loads, stores, atomics, and moves between registers.

use super::build::{Home, Operand};
use super::decode::{Context, Outcome, few};
use super::int;
use super::op::{Const, Op, Place, Slot, Space, Ty};
use super::select::{self, Parts};

impl<'a> Context<'_, '_, 'a> {
    /// Base, offset and the space that they count in.
    fn address(&mut self, operand: &Operand<'a>, parts: &Parts<'_>) -> Outcome<(Space, Slot, i64)> {
        let Operand::Address { base, offset } = operand else { return Err(few("an address")) };
        let named = parts.flags.iter().find_map(|flag| match flag.split("::").next()? {
            "global" | "const" => Some(Space::Global),
            "shared" => Some(Space::Shared),
            "local" | "param" => Some(Space::Stack),
            _ => None,
        });
        let Some(name) = base else {
            return Ok((named.unwrap_or(Space::Generic), self.constant(0)?, *offset));
        };
        if let Some(slot) = self.builder.register(name) {
            return Ok((named.unwrap_or(Space::Generic), slot, *offset));
        }
        match self.home(name).ok_or_else(|| format!("{name} is not declared"))? {
            Home::Frame(var) => {
                Ok((Space::Frame, self.constant(0)?, i64::from(var.offset).wrapping_add(*offset)))
            }
            Home::Constant(value) => {
                let space = if matches!(value, Const::Global(..)) { Space::Global } else { Space::Shared };
                Ok((named.unwrap_or(space), self.address_of(name, 0)?, *offset))
            }
        }
    }

    pub(super) fn access(&mut self, name: &str, parts: &Parts<'_>) -> Outcome {
        let ty = parts.ty().ok_or_else(|| few("a type this interpreter knows"))?;
        if parts.types.len() != 1 || ty == Ty::Pred || parts.has("async") {
            return Err("this form is not known".into());
        }
        let (address, value) = if name == "st" { (0, 1) } else { (1, 0) };
        let operand = self.operand(address)?;
        let (space, base, offset) = self.address(&operand, parts)?;
        let list = match self.operand(value)? {
            Operand::List(list) => list,
            one => vec![one],
        };
        let lanes = ["v2", "v4", "v8"].iter().position(|flag| parts.has(flag)).map_or(1, |at| 2_usize << at);
        if list.len() != lanes || lanes * usize::from(ty.size()) > 32 {
            return Err("the vector has another length".into());
        }
        // a vector may overwrite the register that holds its address
        let base = if lanes > 1 && name != "st" {
            let copy = self.scratch()?;
            self.builder.emit(Op::Move { d: copy, a: base });
            copy
        } else {
            base
        };
        let mut align = ty.size().saturating_mul(u8::try_from(lanes).unwrap_or(1));
        let mut offset = offset;
        for one in &list {
            let place = Place { space, size: ty.size(), align, base, offset };
            if name == "st" {
                let a = self.source(one, ty)?;
                self.builder.emit(Op::Store { place, a });
            } else {
                let Operand::Name(name) = one else {
                    return Err("a register is needed for the result".into());
                };
                let d = self.target_of(name)?;
                self.builder.emit(Op::Load { place, signed: ty.signed(), d });
            }
            offset = offset.wrapping_add(i64::from(ty.size()));
            align = 0;
        }
        Ok(())
    }

    pub(super) fn atomic(&mut self, name: &str, parts: &Parts<'_>) -> Outcome {
        let ty = parts.ty().ok_or_else(|| few("a type this interpreter knows"))?;
        let f = select::atomic(parts).ok_or("this form is not known")?;
        if parts.has("v2") || parts.has("v4") || parts.has("async") {
            return Err("this form is not known".into());
        }
        let first = usize::from(name == "atom");
        let d = if first == 1 { self.target(0)? } else { self.scratch()? };
        let operand = self.operand(first)?;
        let (space, base, offset) = self.address(&operand, parts)?;
        let b = self.source_at(first + 1, ty)?;
        let c = if parts.has("cas") { self.source_at(first + 2, ty)? } else { b };
        let place = Place { space, size: ty.size(), align: ty.size(), base, offset };
        self.plain(Op::Atomic { place, f, d, b, c })
    }

    pub(super) fn mov(&mut self, parts: &Parts<'_>) -> Outcome {
        let ty = parts.ty().ok_or_else(|| few("a type this interpreter knows"))?;
        match (self.operand(0)?, self.operand(1)?) {
            (Operand::List(targets), source) => {
                let a = self.source(&source, ty)?;
                let width = u64::from(ty.size()) * 8 / u64::try_from(targets.len().max(1)).unwrap_or(1);
                for (at, target) in (0_u64..).zip(&targets) {
                    let Operand::Name(name) = target else {
                        return Err("a register is needed for the result".into());
                    };
                    if *name != "_" {
                        let (d, b) = (self.target_of(name)?, self.constant(at * width)?);
                        self.builder.emit(Op::Binary { f: int::part, d, a, b });
                    }
                }
                Ok(())
            }
            (Operand::Name(name), Operand::List(sources)) => {
                let d = self.target_of(name)?;
                let slots =
                    sources.iter().map(|one| self.source(one, Ty::B32)).collect::<Outcome<Vec<_>>>()?;
                match (ty.size(), &slots[..]) {
                    (4, &[a, b]) => self.plain(Op::Binary { f: int::pack16, d, a, b }),
                    (8, &[a, b]) => self.plain(Op::Binary { f: int::pack32, d, a, b }),
                    (4, &[a, b, c, e]) => self.plain(Op::Quaternary { f: int::pack8x4, d, a, b, c, e }),
                    (8, &[a, b, c, e]) => self.plain(Op::Quaternary { f: int::pack16x4, d, a, b, c, e }),
                    _ => Err("this form is not known".into()),
                }
            }
            (
                Operand::Name(name),
                Operand::Name("%clock" | "%clock64" | "%clock_hi" | "%globaltimer" | "%globaltimer_lo"),
            ) => {
                let d = self.target_of(name)?;
                self.plain(Op::Clock { d })
            }
            (Operand::Name(name), source) => {
                let d = self.target_of(name)?;
                let a = self.source(&source, ty)?;
                self.plain(Op::Move { d, a })
            }
            _ => Err("this form is not known".into()),
        }
    }
}
