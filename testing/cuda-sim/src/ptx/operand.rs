//! Operands: registers, symbols, numbers, addresses, vectors.

use super::PtxError;
use super::build::Operand;
use super::lex::{Literal, Token};
use super::op::Ty;
use super::parse::Parser;

impl<'a> Parser<'a> {
    /// A number with its sign.
    pub(super) fn literal(&mut self) -> Result<Literal, PtxError> {
        let negative = self.eat('-');
        let Token::Number(value) = self.next()? else { return Err(self.error("a number is missing")) };
        Ok(match value {
            Literal::Int(value) if negative => Literal::Int(value.wrapping_neg()),
            Literal::Decimal(value) if negative => Literal::Decimal(-value),
            Literal::Float32(bits) if negative => Literal::Float32(bits ^ 1 << 31),
            Literal::Float64(bits) if negative => Literal::Float64(bits ^ 1 << 63),
            value => value,
        })
    }

    pub(super) fn operand(&mut self, depth: u32) -> Result<Operand<'a>, PtxError> {
        if depth > 2 {
            return Err(self.error("an operand is nested too deeply"));
        }
        let one = match self.peek() {
            Some(Token::Mark('[')) => {
                self.at += 1;
                let mut base = None;
                let mut offset = 0_i64;
                match self.peek() {
                    Some(Token::Word(name)) => {
                        self.at += 1;
                        base = Some(name);
                        if self.eat('+') || self.peek() == Some(Token::Mark('-')) {
                            offset = self.offset()?;
                        }
                    }
                    _ => offset = self.offset()?,
                }
                self.expect(']')?;
                Operand::Address { base, offset }
            }
            Some(Token::Mark(open @ ('{' | '('))) => {
                self.at += 1;
                let close = if open == '{' { '}' } else { ')' };
                let mut list = Vec::new();
                while !self.eat(close) {
                    list.push(self.operand(depth + 1)?);
                    if !self.eat(',') {
                        self.expect(close)?;
                        break;
                    }
                }
                Operand::List(list)
            }
            Some(Token::Mark('!')) => {
                self.at += 1;
                Operand::Not(self.word()?)
            }
            Some(Token::Mark('-') | Token::Number(_)) => Operand::Literal(self.literal()?),
            _ => Operand::Name(self.word()?),
        };
        if self.eat('|') {
            let Operand::Name(first) = one else {
                return Err(self.error("a pair of results needs two names"));
            };
            return Ok(Operand::Pair(first, self.word()?));
        }
        if let Operand::Name(name) = one
            && self.eat('+')
        {
            return Ok(Operand::Symbol(name, self.offset()?));
        }
        Ok(one)
    }

    fn offset(&mut self) -> Result<i64, PtxError> {
        match self.literal()? {
            Literal::Int(value) => Ok(value.cast_signed()),
            _ => Err(self.error("an offset is an integer")),
        }
    }
}

/// A literal as an operand of `ty`.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a decimal literal of a 32-bit instruction is rounded to 32 bits"
)]
pub(super) fn bits(value: Literal, ty: Ty) -> u64 {
    match (value, ty) {
        (Literal::Int(value), Ty::Pred) => u64::from(value != 0),
        (Literal::Int(value), _) => value,
        (Literal::Float32(bits), Ty::F64) => f64::from(f32::from_bits(bits)).to_bits(),
        (Literal::Float32(bits), _) => u64::from(bits),
        (Literal::Float64(bits), Ty::F32) => u64::from((f64::from_bits(bits) as f32).to_bits()),
        (Literal::Float64(bits), _) => bits,
        (Literal::Decimal(value), Ty::F32) => u64::from((value as f32).to_bits()),
        (Literal::Decimal(value), _) => value.to_bits(),
    }
}
