//! A function while it is read: names in scope, slots given out, branches still open.

use std::collections::HashMap;

use super::lex::Literal;
use super::op::{Const, Function, Instr, LaneMask, NONE, Op, Slot, Special, Ty, Var};
use super::operand::bits;
use super::variables::place;

const MOST_SLOTS: u32 = 1 << 16;

#[derive(Debug, Clone)]
pub(super) enum Operand<'a> {
    Name(&'a str),
    Symbol(&'a str, i64),
    Not(&'a str),
    Literal(Literal),
    Address { base: Option<&'a str>, offset: i64 },
    List(Vec<Operand<'a>>),
    Pair(&'a str, &'a str),
}

/// Where a named variable lives.
#[derive(Debug, Clone, Copy)]
pub(super) enum Home {
    /// In the frame: locals, parameters.
    Frame(Var),
    /// At an address that is the same for all threads.
    Constant(Const),
}

#[derive(Debug, Default)]
struct Scope {
    registers: HashMap<String, (Slot, Ty)>,
    /// `%r<5>`: five registers from a slot on.
    ranges: HashMap<String, (Slot, u64, Ty)>,
    names: HashMap<String, Home>,
}

pub(super) struct Builder {
    pub(super) function: Function,
    scopes: Vec<Scope>,
    constants: HashMap<Const, Slot>,
    labels: HashMap<String, u32>,
    /// Branches by instruction, to be filled in when all labels are known.
    branches: Vec<(usize, String)>,
    tables: HashMap<String, u32>,
    table_labels: Vec<Vec<String>>,
    table_uses: Vec<(usize, String)>,
    carry: Slot,
}

impl Builder {
    pub(super) fn new(entry: bool, shared: u32) -> Self {
        Self {
            function: Function { entry, shared, ..Function::default() },
            scopes: vec![Scope::default()],
            constants: HashMap::new(),
            labels: HashMap::new(),
            branches: Vec::new(),
            tables: HashMap::new(),
            table_labels: Vec::new(),
            table_uses: Vec::new(),
            carry: NONE,
        }
    }

    pub(super) fn open(&mut self) {
        self.scopes.push(Scope::default());
    }

    pub(super) fn close(&mut self) {
        self.scopes.pop();
    }

    fn slots(&mut self, count: u64) -> Option<Slot> {
        let first = self.function.slots;
        let end = u64::from(first).checked_add(count).filter(|end| *end <= u64::from(MOST_SLOTS))?;
        self.function.slots = u32::try_from(end).ok()?;
        Some(first)
    }

    /// A slot that no name stands for.
    pub(super) fn scratch(&mut self) -> Option<Slot> {
        self.slots(1)
    }

    pub(super) fn carry(&mut self) -> Option<Slot> {
        if self.carry == NONE {
            self.carry = self.slots(1)?;
        }
        Some(self.carry)
    }

    pub(super) fn declare(&mut self, name: &str, count: Option<u64>, ty: Ty) -> Option<()> {
        let slot = self.slots(count.unwrap_or(1))?;
        if ty != Ty::Pred {
            self.function.registers =
                self.function.registers.saturating_add(u32::try_from(count.unwrap_or(1)).ok()?);
        }
        let scope = self.scopes.last_mut()?;
        match count {
            Some(count) => {
                scope.ranges.insert(name.into(), (slot, count, ty));
            }
            None => {
                scope.registers.insert(name.into(), (slot, ty));
            }
        }
        Some(())
    }

    pub(super) fn register(&mut self, name: &str) -> Option<Slot> {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (stem, number) = name.split_at(name.len() - digits);
        for scope in self.scopes.iter().rev() {
            if let Some((slot, _)) = scope.registers.get(name) {
                return Some(*slot);
            }
            if digits > 0
                && let Some((slot, count, _)) = scope.ranges.get(stem)
                && let Ok(number) = number.parse::<u64>()
                && number < *count
            {
                return Some(slot + u32::try_from(number).ok()?);
            }
        }
        self.special(name)
    }

    fn special(&mut self, name: &str) -> Option<Slot> {
        let axis = |name: &str| match name {
            "x" => Some(0),
            "y" => Some(1),
            "z" => Some(2),
            _ => None,
        };
        let special = match name.strip_prefix('%')? {
            "laneid" => Special::Lane,
            "warpid" => Special::Warp,
            "nwarpid" => Special::Warps,
            "smid" | "gridid" => Special::Const(0),
            "nsmid" => Special::Const(1),
            "dynamic_smem_size" | "total_smem_size" => Special::DynamicShared,
            "lanemask_eq" => Special::LaneMask(LaneMask::Eq),
            "lanemask_lt" => Special::LaneMask(LaneMask::Lt),
            "lanemask_le" => Special::LaneMask(LaneMask::Le),
            "lanemask_gt" => Special::LaneMask(LaneMask::Gt),
            "lanemask_ge" => Special::LaneMask(LaneMask::Ge),
            other => match other.split_once('.')? {
                ("tid", at) => Special::Tid(axis(at)?),
                ("ntid", at) => Special::Ntid(axis(at)?),
                ("ctaid", at) => Special::Ctaid(axis(at)?),
                ("nctaid", at) => Special::Nctaid(axis(at)?),
                _ => return None,
            },
        };
        if let Some((slot, _)) = self.function.specials.iter().find(|(_, known)| *known == special) {
            return Some(*slot);
        }
        let slot = self.slots(1)?;
        self.function.specials.push((slot, special));
        Some(slot)
    }

    pub(super) fn constant(&mut self, value: Const) -> Option<Slot> {
        if let Some(slot) = self.constants.get(&value) {
            return Some(*slot);
        }
        let slot = self.slots(1)?;
        self.constants.insert(value, slot);
        self.function.constants.push((slot, value));
        Some(slot)
    }

    pub(super) fn literal(&mut self, value: Literal, ty: Ty) -> Option<Slot> {
        self.constant(Const::Value(bits(value, ty)))
    }

    pub(super) fn name(&mut self, name: &str, home: Home) -> Option<()> {
        self.scopes.last_mut()?.names.insert(name.into(), home);
        Some(())
    }

    pub(super) fn home(&self, name: &str) -> Option<Home> {
        self.scopes.iter().rev().find_map(|scope| scope.names.get(name)).copied()
    }

    pub(super) fn frame_variable(&mut self, name: &str, size: u64, align: u64) -> Option<Var> {
        let offset = place(&mut self.function.frame, size, align)?;
        let var = Var { offset, size: u32::try_from(size).ok()? };
        self.name(name, Home::Frame(var))?;
        Some(var)
    }

    pub(super) fn shared_variable(&mut self, name: &str, size: u64, align: u64) -> Option<()> {
        let offset = place(&mut self.function.shared, size, align)?;
        self.name(name, Home::Constant(Const::Value(u64::from(offset))))
    }

    pub(super) fn emit(&mut self, op: Op) {
        self.function.code.push(Instr { guard: NONE, negate: false, op });
    }

    /// Puts a guard on everything that one statement became. Its parts write nothing that the guard reads before the last of
    /// them, but for `setp` onto its own guard, which gets a copy.
    pub(super) fn guard(&mut self, from: usize, guard: Slot, negate: bool) {
        if guard == NONE {
            return;
        }
        let guard = if self.function.code.len() - from > 1 {
            let Some(copy) = self.scratch() else { return };
            self.function
                .code
                .insert(from, Instr { guard: NONE, negate: false, op: Op::Move { d: copy, a: guard } });
            for (at, _) in self.branches.iter_mut().chain(&mut self.table_uses).filter(|(at, _)| *at >= from)
            {
                *at += 1;
            }
            copy
        } else {
            guard
        };
        for instr in self
            .function
            .code
            .iter_mut()
            .skip(from)
            .filter(|instr| !matches!(instr.op, Op::Move { d, .. } if d == guard))
        {
            instr.guard = guard;
            instr.negate = negate;
        }
    }

    pub(super) fn label(&mut self, name: &str) -> Result<(), String> {
        let at =
            u32::try_from(self.function.code.len()).map_err(|_| "the function is too long".to_owned())?;
        match self.labels.insert(name.into(), at) {
            None => Ok(()),
            Some(_) => Err(format!("the label {name} stands twice")),
        }
    }

    pub(super) fn branch(&mut self, label: &str) {
        self.branches.push((self.function.code.len(), label.into()));
        self.emit(Op::Branch { to: 0 });
    }

    pub(super) fn branch_indexed(&mut self, table: &str, index: Slot) {
        self.table_uses.push((self.function.code.len(), table.into()));
        self.emit(Op::BranchIndexed { table: 0, index });
    }

    pub(super) fn table(&mut self, name: &str, labels: &[&str]) {
        let index = u32::try_from(self.table_labels.len()).unwrap_or(u32::MAX);
        self.tables.insert(name.into(), index);
        self.table_labels.push(labels.iter().map(|label| (*label).to_owned()).collect());
    }

    /// Fills in the branches. The last instruction is always one that ends the function.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        self.emit(Op::Return);
        let find = |label: &str| {
            self.labels.get(label).copied().ok_or_else(|| format!("the label {label} is nowhere"))
        };
        for (at, label) in &self.branches {
            self.function.code[*at].op = Op::Branch { to: find(label)? };
        }
        for labels in &self.table_labels {
            let table = labels.iter().map(|label| find(label)).collect::<Result<_, _>>()?;
            self.function.tables.push(table);
        }
        for (at, name) in &self.table_uses {
            let table = *self.tables.get(name).ok_or_else(|| format!("the table {name} is nowhere"))?;
            if let Op::BranchIndexed { table: place, .. } = &mut self.function.code[*at].op {
                *place = table;
            }
        }
        Ok(())
    }
}
