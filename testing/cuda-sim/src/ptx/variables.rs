//! The grammar of variables: their types, bounds and first values, and where they lie.

use super::PtxError;
use super::build::Home;
use super::lex::Token;
use super::op::{Const, Global, Ty};
use super::operand::bits;
use super::parse::Parser;

/// Bounds that keep hostile text from taking the machine.
const MOST_BYTES: u64 = 1 << 30;
const MOST_DEPTH: u32 = 16;

impl<'a> Parser<'a> {
    /// `.align N`, `.ptr …`, `.attribute(…)` and the type, in front of a variable's name.
    pub(super) fn variable_type(&mut self) -> Result<(Ty, u64, u64), PtxError> {
        let mut align = 1;
        let mut lanes = 1;
        loop {
            let word = self.word()?;
            match word {
                ".align" => align = self.int()?.max(1),
                ".attribute" => self.skip_to(')')?,
                ".v2" => lanes = 2,
                ".v4" => lanes = 4,
                _ => {
                    let ty = word.strip_prefix('.').and_then(Ty::parse);
                    let ty = ty.ok_or_else(|| self.error(format!("{word} is not a type")))?;
                    let size = u64::from(ty.size());
                    if !align.is_power_of_two() || align > 4096 {
                        return Err(self.error("this alignment cannot be had"));
                    }
                    return Ok((ty, lanes, align.max(size * lanes)));
                }
            }
        }
    }

    /// `[2][3]` behind a name: the number of elements, and whether the first bound is open.
    fn bounds(&mut self) -> Result<(u64, bool), PtxError> {
        let mut count = 1_u64;
        let mut open = false;
        while self.eat('[') {
            if self.eat(']') {
                open = true;
                continue;
            }
            count = count
                .checked_mul(self.int()?)
                .filter(|count| *count <= MOST_BYTES)
                .ok_or_else(|| self.error("an array is too large"))?;
            self.expect(']')?;
        }
        Ok((count, open))
    }

    /// Name, type and place of a variable: (name, size, alignment, element, open bound).
    pub(super) fn variable(&mut self) -> Result<(&'a str, u64, u64, Ty, bool), PtxError> {
        let (ty, lanes, align) = self.variable_type()?;
        // `.ptr .global .align 4` stands between type and name of an entry's parameter
        while let Some(Token::Word(".ptr" | ".global" | ".const" | ".shared" | ".local" | ".align")) =
            self.peek()
        {
            if self.word()? == ".align" {
                self.int()?;
            }
        }
        let name = self.word()?;
        let (count, open) = self.bounds()?;
        let size = count * u64::from(ty.size()) * lanes;
        self.bytes = self.bytes.saturating_add(size);
        if size > MOST_BYTES || self.bytes > MOST_BYTES {
            return Err(self.error("variables are too large"));
        }
        Ok((name, size, align, ty, open))
    }

    pub(super) fn global(&mut self, external: bool) -> Result<(), PtxError> {
        let (name, mut size, align, ty, open) = self.variable()?;
        let mut init = Vec::new();
        let mut addresses = Vec::new();
        if self.eat('=') {
            self.initialiser(ty, &mut init, &mut addresses, 0)?;
            if open {
                size = init.len() as u64;
            }
        }
        self.expect(';')?;
        if external {
            return Err(self.error(format!("{name} is defined in another module")));
        }
        if init.len() as u64 > size {
            return Err(self.error(format!("{name} has more values than room")));
        }
        let index = u32::try_from(self.globals.len()).map_err(|_| self.error("too many variables"))?;
        self.globals.push(Global { name: name.into(), size, align, init, addresses });
        self.names.insert(name.into(), Home::Constant(Const::Global(index, 0)));
        Ok(())
    }

    fn initialiser(
        &mut self,
        ty: Ty,
        init: &mut Vec<u8>,
        addresses: &mut Vec<(u64, u32, i64)>,
        depth: u32,
    ) -> Result<(), PtxError> {
        if depth > MOST_DEPTH {
            return Err(self.error("an initialiser is nested too deeply"));
        }
        if self.eat('{') {
            while !self.eat('}') {
                self.initialiser(ty, init, addresses, depth + 1)?;
                if !self.eat(',') {
                    self.expect('}')?;
                    break;
                }
            }
            return Ok(());
        }
        let size = usize::from(ty.size());
        if let Some(Token::Word(_)) = self.peek() {
            let mut word = self.word()?;
            if word == "generic" {
                self.expect('(')?;
                word = self.word()?;
                self.expect(')')?;
            }
            let offset = if self.eat('+') { i64::try_from(self.int()?).unwrap_or(0) } else { 0 };
            let Some(Home::Constant(Const::Global(index, _))) = self.names.get(word).copied() else {
                return Err(self.error(format!("{word} is no variable whose address is known")));
            };
            if size != 8 {
                return Err(self.error("an address needs 8 bytes"));
            }
            addresses.push((init.len() as u64, index, offset));
            init.extend([0; 8]);
            return Ok(());
        }
        let value = self.literal()?;
        init.extend(&bits(value, ty).to_le_bytes()[..size]);
        Ok(())
    }

    pub(super) fn module_shared(&mut self, external: bool) -> Result<(), PtxError> {
        let (name, size, align, _, open) = self.variable()?;
        self.expect(';')?;
        let home = if external || open {
            Home::Constant(Const::Dynamic(0))
        } else {
            Home::Constant(Const::Value(u64::from(self.place_shared(size, align)?)))
        };
        self.names.insert(name.into(), home);
        Ok(())
    }

    fn place_shared(&mut self, size: u64, align: u64) -> Result<u32, PtxError> {
        let place =
            place(&mut self.shared, size, align).ok_or_else(|| self.error("too much shared memory"))?;
        Ok(place)
    }
}

/// Takes `size` bytes at the next multiple of `align`; nothing beyond 16 MiB.
pub(super) fn place(end: &mut u32, size: u64, align: u64) -> Option<u32> {
    let start = u64::from(*end).checked_next_multiple_of(align)?;
    let stop = start.checked_add(size).filter(|stop| *stop <= 1 << 24)?;
    *end = u32::try_from(stop).ok()?;
    u32::try_from(start).ok()
}
