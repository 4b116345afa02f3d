//! The grammar of a module: functions, and the statements in them. Variables are in `variables.rs`.
//!
//! One pass. Registers, labels and parameters are resolved as the text goes by; calls and branches forward are filled in at the
//! end. Sections of debugging information are skipped.

use std::collections::HashMap;

use super::build::{Builder, Home};
use super::lex::{Literal, Spot, Token, lex};
use super::op::{Const, Function, Global, Var};
use super::{Module, PtxError};

pub(super) struct Parser<'a> {
    spots: Vec<Spot<'a>>,
    pub(super) at: usize,
    pub(super) globals: Vec<Global>,
    pub(super) names: HashMap<String, Home>,
    functions: Vec<Function>,
    /// Functions by name, with their bodies or without.
    known: HashMap<String, u32>,
    defined: Vec<bool>,
    /// Static shared bytes that belong to no entry.
    pub(super) shared: u32,
    /// What all variables take together.
    pub(super) bytes: u64,
}

pub(super) fn parse(text: &str) -> Result<Module, PtxError> {
    let mut parser = Parser {
        spots: lex(text)?,
        at: 0,
        globals: Vec::new(),
        names: HashMap::new(),
        functions: Vec::new(),
        known: HashMap::new(),
        defined: Vec::new(),
        shared: 0,
        bytes: 0,
    };
    let mut versioned = false;
    while let Some(token) = parser.peek() {
        match token {
            Token::Word(".version") => {
                parser.skip_line();
                versioned = true;
            }
            Token::Word(".target" | ".address_size") => parser.skip_line(),
            Token::Word(".section") => parser.skip_section()?,
            _ if !versioned => return Err(parser.error("the text does not start with .version")),
            _ => parser.top()?,
        }
    }
    if !versioned {
        return Err(PtxError::new(1, "there is no .version"));
    }
    parser.link()
}

impl<'a> Parser<'a> {
    pub(super) fn peek(&self) -> Option<Token<'a>> {
        self.spots.get(self.at).map(|spot| spot.token)
    }

    fn peek_at(&self, ahead: usize) -> Option<Token<'a>> {
        self.spots.get(self.at + ahead).map(|spot| spot.token)
    }

    pub(super) fn next(&mut self) -> Result<Token<'a>, PtxError> {
        let token = self.peek().ok_or_else(|| self.error("the text ends too early"))?;
        self.at += 1;
        Ok(token)
    }

    pub(super) fn error(&self, what: impl Into<String>) -> PtxError {
        let line = self.spots.get(self.at).or(self.spots.last()).map_or(1, |spot| spot.line);
        PtxError::new(line, what)
    }

    pub(super) fn eat(&mut self, mark: char) -> bool {
        let there = self.peek() == Some(Token::Mark(mark));
        if there {
            self.at += 1;
        }
        there
    }

    pub(super) fn expect(&mut self, mark: char) -> Result<(), PtxError> {
        if self.eat(mark) { Ok(()) } else { Err(self.error(format!("a {mark:?} is missing"))) }
    }

    pub(super) fn word(&mut self) -> Result<&'a str, PtxError> {
        match self.next()? {
            Token::Word(word) => Ok(word),
            other => Err(self.error(format!("{other:?} where a name should be"))),
        }
    }

    pub(super) fn int(&mut self) -> Result<u64, PtxError> {
        match self.next()? {
            Token::Number(Literal::Int(value)) => Ok(value),
            other => Err(self.error(format!("{other:?} where a number should be"))),
        }
    }

    /// To the end of the line that the next token stands on.
    fn skip_line(&mut self) {
        let line = self.spots.get(self.at).map(|spot| spot.line);
        while self.spots.get(self.at).map(|spot| spot.line) == line && self.at < self.spots.len() {
            self.at += 1;
        }
    }

    pub(super) fn skip_to(&mut self, mark: char) -> Result<(), PtxError> {
        while self.next()? != Token::Mark(mark) {}
        Ok(())
    }

    fn skip_section(&mut self) -> Result<(), PtxError> {
        self.skip_to('{')?;
        let mut depth = 1_u32;
        while depth > 0 {
            match self.next()? {
                Token::Mark('{') => depth += 1,
                Token::Mark('}') => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }

    fn top(&mut self) -> Result<(), PtxError> {
        let mut external = false;
        loop {
            match self.next()? {
                Token::Word(".visible" | ".weak" | ".common") => {}
                Token::Word(".extern") => external = true,
                Token::Word(".entry") => return self.function(true),
                Token::Word(".func") => return self.function(false),
                Token::Word(".global" | ".const") => return self.global(external),
                Token::Word(".shared") => return self.module_shared(external),
                Token::Word(".pragma" | ".alias") => return self.skip_to(';'),
                Token::Mark(';') => return Ok(()),
                other => {
                    self.at -= 1;
                    return Err(self.error(format!("{other:?} does not start a declaration")));
                }
            }
        }
    }

    fn parameters(&mut self, builder: &mut Builder) -> Result<Vec<Var>, PtxError> {
        let mut list = Vec::new();
        while !self.eat(')') {
            let word = self.word()?;
            if word != ".param" {
                return Err(self.error(format!("{word} where a .param should be")));
            }
            let (name, size, align, _, _) = self.variable()?;
            list.push(
                builder.frame_variable(name, size, align).ok_or_else(|| self.error("too many parameters"))?,
            );
            if !self.eat(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(list)
    }

    fn function(&mut self, entry: bool) -> Result<(), PtxError> {
        let mut builder = Builder::new(entry, self.shared);
        // an entry's parameters start its frame, because arguments are copied there as one piece
        let results = if self.eat('(') { self.parameters(&mut builder)? } else { Vec::new() };
        let name = self.word()?;
        let parameters = if self.eat('(') { self.parameters(&mut builder)? } else { Vec::new() };
        builder.function.name = name.into();
        builder.function.results = results;
        builder.function.parameters = parameters;
        loop {
            match self.next()? {
                Token::Mark(';') => return self.declare(builder, false),
                Token::Mark('{') => break,
                Token::Word(".maxntid" | ".reqntid") => {
                    let mut threads = self.int()?;
                    while self.eat(',') {
                        threads = threads.saturating_mul(self.int()?);
                    }
                    builder.function.most_threads = u32::try_from(threads).ok();
                }
                Token::Word(".pragma") => self.skip_to(';')?,
                Token::Word(_) | Token::Number(_) | Token::Mark(',') => {}
                other => return Err(self.error(format!("{other:?} between a function's head and body"))),
            }
        }
        self.body(&mut builder)?;
        if !entry {
            self.shared = builder.function.shared;
        }
        builder.finish().map_err(|what| self.error(what))?;
        self.declare(builder, true)
    }

    fn declare(&mut self, builder: Builder, defined: bool) -> Result<(), PtxError> {
        let function = builder.function;
        match self.known.get(&function.name) {
            Some(index) => {
                let index = *index as usize;
                if defined && self.defined[index] {
                    return Err(self.error(format!("{} is defined twice", function.name)));
                }
                if defined {
                    self.functions[index] = function;
                    self.defined[index] = true;
                }
            }
            None => {
                let index =
                    u32::try_from(self.functions.len()).map_err(|_| self.error("too many functions"))?;
                self.known.insert(function.name.clone(), index);
                self.functions.push(function);
                self.defined.push(defined);
            }
        }
        Ok(())
    }

    /// The index of a function, which may come later: a stranger becomes a declaration.
    pub(super) fn function_index(&self, name: &str) -> Option<u32> {
        self.known.get(name).copied()
    }

    pub(super) fn signature(&self, index: u32) -> Option<(&[Var], &[Var])> {
        let function = self.functions.get(index as usize)?;
        Some((&function.parameters, &function.results))
    }

    fn body(&mut self, builder: &mut Builder) -> Result<(), PtxError> {
        let mut depth = 1_u32;
        while depth > 0 {
            match self.next()? {
                Token::Mark('{') => {
                    depth += 1;
                    builder.open();
                }
                Token::Mark('}') => {
                    depth -= 1;
                    builder.close();
                }
                Token::Mark(';') => {}
                Token::Mark('@') => {
                    let negate = self.eat('!');
                    let name = self.word()?;
                    let guard = builder
                        .register(name)
                        .ok_or_else(|| self.error(format!("{name} is not declared")))?;
                    let opcode = self.word()?;
                    self.instruction(builder, opcode, guard, negate)?;
                }
                Token::Word(".reg") => self.registers(builder)?,
                Token::Word(space @ (".local" | ".param" | ".shared")) => {
                    let (name, size, align, _, open) = self.variable()?;
                    self.expect(';')?;
                    let room = match space {
                        ".shared" if open => builder.name(name, Home::Constant(Const::Dynamic(0))),
                        ".shared" => builder.shared_variable(name, size, align),
                        _ => builder.frame_variable(name, size, align).map(drop),
                    };
                    room.ok_or_else(|| self.error(format!("there is no room for {name}")))?;
                    if space == ".local" {
                        builder.function.local =
                            builder.function.local.saturating_add(u32::try_from(size).unwrap_or(u32::MAX));
                    }
                }
                Token::Word(".pragma") => self.skip_to(';')?,
                Token::Word(".extern") => {}
                Token::Word(word)
                    if self.peek() == Some(Token::Mark(':')) && self.peek_at(1) != Some(Token::Mark(':')) =>
                {
                    self.at += 1;
                    if self.peek() == Some(Token::Word(".branchtargets")) {
                        self.at += 1;
                        let mut labels = vec![self.word()?];
                        while self.eat(',') {
                            labels.push(self.word()?);
                        }
                        builder.table(word, &labels);
                    } else {
                        builder.label(word).map_err(|what| self.error(what))?;
                    }
                }
                Token::Word(opcode) if !opcode.starts_with('.') => {
                    self.instruction(builder, opcode, super::op::NONE, false)?
                }
                other => {
                    self.at -= 1;
                    return Err(self.error(format!("{other:?} does not start a statement")));
                }
            }
        }
        Ok(())
    }

    fn registers(&mut self, builder: &mut Builder) -> Result<(), PtxError> {
        let (ty, _, _) = self.variable_type()?;
        loop {
            let name = self.word()?;
            let count = if self.eat('<') {
                let count = self.int()?;
                self.expect('>')?;
                Some(count)
            } else {
                None
            };
            builder.declare(name, count, ty).ok_or_else(|| self.error("too many registers"))?;
            if !self.eat(',') {
                return self.expect(';');
            }
        }
    }

    fn instruction(
        &mut self,
        builder: &mut Builder,
        opcode: &'a str,
        guard: u32,
        negate: bool,
    ) -> Result<(), PtxError> {
        let line = self.spots.get(self.at.saturating_sub(1)).map_or(1, |spot| spot.line);
        let mut operands = Vec::new();
        while !self.eat(';') {
            operands.push(self.operand(0)?);
            if !self.eat(',') {
                self.expect(';')?;
                break;
            }
        }
        let from = builder.function.code.len();
        super::decode::decode(self, builder, opcode, &operands)
            .map_err(|what| PtxError::new(line, format!("{opcode}: {what}")))?;
        builder.guard(from, guard, negate);
        Ok(())
    }

    fn link(self) -> Result<Module, PtxError> {
        for function in &self.functions {
            for site in &function.calls {
                let callee = &self.functions[site.callee as usize];
                if !self.defined[site.callee as usize] {
                    return Err(PtxError::new(
                        0,
                        format!("{} calls {}, which is nowhere", function.name, callee.name),
                    ));
                }
            }
        }
        let functions: Vec<Function> = self.functions;
        let dynamic = functions
            .iter()
            .map(|function| function.shared)
            .max()
            .unwrap_or(0)
            .max(self.shared)
            .next_multiple_of(16);
        let entries = functions
            .iter()
            .enumerate()
            .filter(|(index, function)| function.entry && self.defined[*index])
            .filter_map(|(index, function)| Some((function.name.clone(), u32::try_from(index).ok()?)))
            .collect();
        Ok(Module { functions, globals: self.globals, entries, dynamic })
    }
}
