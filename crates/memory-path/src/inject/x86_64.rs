//! The injection in the registers of x86_64.

use std::io;

use base::proc::{self, Mapping};
use nix::errno::Errno;
use nix::libc::{self, user_regs_struct as Registers};
use nix::sys::ptrace;
use nix::unistd::Pid;

use super::Call;
use crate::error::{MemoryError, NotHere, Result};
use crate::memory::Memory;
use crate::standing::{Standing, StandsStill, Stop, Thread, wait_for_stop};
use crate::sys;

const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// The code segment of 64-bit programs.
const NATIVE: u64 = 0x33;
/// No call: what is interrupted is none, and nothing is begun again.
const NO_CALL: u64 = u64::MAX;
const ALL_BUT_TRAP: u64 = !(1 << (libc::SIGTRAP - 1));
/// A vDSO has two pages.
const LONGEST_VDSO: u64 = 1 << 20;
/// Stops that are not the end of the step, before we give up.
const STEPS: usize = 50;

/// A thread that makes calls for us. What it was doing is put back at the end.
#[derive(Debug)]
pub(crate) struct Injection<'a> {
    pid: i32,
    thread: &'a Thread,
    gate: u64,
    registers: Registers,
    mask: u64,
    filters: Filters,
    is_over: bool,
}

/// What a thread's filters of system calls have to say of the calls that we have it make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Filters {
    /// It has none.
    None,
    /// They are not asked for as long as it is in our hands: these are its options of before.
    Suspended(ptrace::Options),
}

impl<'a> Injection<'a> {
    /// Finds a thread that stands well, and keeps what it was doing.
    pub(crate) fn begin(standing: &'a Standing) -> Result<Self> {
        let pid = standing.pid();
        check(pid)?;
        let gate = call_gate(pid)?;
        let memory = Memory::open(pid)?;
        let mut why = "each is about to get a signal";
        let mut is_filtered = false;
        for thread in standing.without_signal() {
            let registers = ptrace::getregs(Pid::from_raw(thread.id))
                .map_err(MemoryError::number("read the registers", pid))?;
            if registers.cs != NATIVE {
                return Err(MemoryError::not_here(pid, NotHere::NotNative));
            }
            if registers.orig_rax == NO_CALL && in_critical_section(pid, thread.id, &memory)? {
                why = "each is in a restartable sequence";
                continue;
            }
            let mask =
                sys::signal_mask(thread.id).map_err(MemoryError::number("read the blocked signals", pid))?;
            let Some(filters) = Filters::out_of_the_way(pid, thread.id, standing.options())? else {
                is_filtered = true;
                continue;
            };
            let injection = Self { pid, thread, gate, registers, mask, filters, is_over: false };
            sys::set_signal_mask(thread.id, ALL_BUT_TRAP)
                .map_err(MemoryError::number("block the signals", pid))?;
            return Ok(injection);
        }
        match is_filtered {
            true => Err(MemoryError::not_here(pid, NotHere::Filtered)),
            false => Err(MemoryError::Busy { pid, detail: why }),
        }
    }

    /// Has the thread make one call; the inner result is the call's.
    ///
    /// However long it takes: a thread that was let go in the middle of a step would be killed by its end, and would find itself in another
    /// place than it was. The calls do not wait for anything, so all that it needs is a processor.
    pub(crate) fn call(&mut self, call: Call) -> Result<io::Result<u64>> {
        let (number, argument) = match call {
            Call::Userfaultfd { flags } => (libc::SYS_userfaultfd, flags),
            Call::Close { descriptor } => (libc::SYS_close, descriptor),
        };
        let id = Pid::from_raw(self.thread.id);
        let registers = Registers {
            rip: self.gate,
            rax: number.cast_unsigned(),
            rdi: argument,
            orig_rax: NO_CALL,
            ..self.registers
        };
        ptrace::setregs(id, registers).map_err(MemoryError::number("set the registers", self.pid))?;
        let after = self.gate + SYSCALL.len() as u64;
        for _ in 0..STEPS {
            ptrace::step(id, None).map_err(MemoryError::number("step a thread", self.pid))?;
            match wait_for_stop(self.pid, self.thread.id, None)? {
                Stop::Ended => return Err(MemoryError::Gone { pid: self.pid }),
                // The whole process is being stopped: noted in the kernel, it will be so later.
                Stop::Asked => {}
                Stop::Signal(libc::SIGTRAP) => {
                    let now =
                        ptrace::getregs(id).map_err(MemoryError::number("read the registers", self.pid))?;
                    if now.rip == after {
                        return Ok(outcome(now.rax));
                    }
                }
                Stop::Signal(signal) => self.thread.owe(signal),
            }
        }
        Err(MemoryError::Busy { pid: self.pid, detail: "a call that was injected does not end" })
    }

    /// Puts everything back.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.put_back().map_err(MemoryError::number("put the registers back", self.pid))
    }

    fn put_back(&mut self) -> std::result::Result<(), Errno> {
        self.is_over = true;
        let id = Pid::from_raw(self.thread.id);
        if let Filters::Suspended(options) = self.filters {
            ptrace::setoptions(id, options)?;
        }
        ptrace::setregs(id, self.registers)?;
        sys::set_signal_mask(self.thread.id, self.mask)
    }
}

impl Filters {
    /// Sees that the calls of a thread that stands are not shown to its filters, which might end the process for them; `None` if that cannot be
    /// done. The kernel lets those do it who administer the machine, and forgets it when the thread is let go, however that comes about.
    fn out_of_the_way(pid: i32, thread: i32, options: ptrace::Options) -> Result<Option<Self>> {
        let status = proc::read_text(pid, &format!("task/{thread}/status"))
            .map_err(MemoryError::system("read the status", pid))?
            .ok_or(MemoryError::Gone { pid })?;
        if proc::number_of::<u32>(&status, "Seccomp").is_none_or(|mode| mode == 0) {
            return Ok(Some(Self::None));
        }
        let without = options | ptrace::Options::from_bits_retain(libc::PTRACE_O_SUSPEND_SECCOMP);
        match ptrace::setoptions(Pid::from_raw(thread), without) {
            Ok(()) => Ok(Some(Self::Suspended(options))),
            Err(Errno::EPERM | Errno::EINVAL) => Ok(None),
            Err(error) => Err(MemoryError::number("suspend the filters", pid)(error)),
        }
    }
}

impl Drop for Injection<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            // It fails only if the thread was killed.
            let _ = self.put_back();
        }
    }
}

/// A result of the kernel's: small negative numbers are errors.
fn outcome(rax: u64) -> io::Result<u64> {
    match i32::try_from(rax.cast_signed()) {
        Ok(number @ -4095..=-1) => Err(io::Error::from_raw_os_error(-number)),
        _ => Ok(rax),
    }
}

/// What would end the process, or show.
fn check(pid: i32) -> Result<()> {
    let status = proc::read_text(pid, "status")
        .map_err(MemoryError::system("read the status", pid))?
        .ok_or(MemoryError::Gone { pid })?;
    let ignored = proc::field(&status, "SigIgn").and_then(|text| u64::from_str_radix(text, 16).ok());
    match ignored {
        Some(ignored) if ignored & !ALL_BUT_TRAP == 0 => Ok(()),
        _ => Err(MemoryError::not_here(pid, NotHere::TrapIgnored)),
    }
}

/// A `syscall` instruction in its vDSO.
fn call_gate(pid: i32) -> Result<u64> {
    let none = || MemoryError::not_here(pid, NotHere::NoCallGate);
    let maps = proc::read(pid, "maps")
        .map_err(MemoryError::system("read the mappings", pid))?
        .ok_or(MemoryError::Gone { pid })?;
    let mut mappings = maps.split(|byte| *byte == b'\n').filter_map(Mapping::parse);
    let vdso = mappings.find(|mapping| mapping.path == b"[vdso]").ok_or_else(none)?;
    if vdso.len() > LONGEST_VDSO {
        return Err(none());
    }
    let mut code = vec![0; usize::try_from(vdso.len()).map_err(|_| none())?];
    if !Memory::open(pid)?.read_exactly(vdso.start, &mut code) {
        return Err(none());
    }
    let place = code.windows(SYSCALL.len()).position(|window| window == SYSCALL).ok_or_else(none)?;
    Ok(vdso.start + place as u64)
}

fn in_critical_section(pid: i32, thread: i32, memory: &Memory) -> Result<bool> {
    let pointer = sys::critical_section_pointer(thread)
        .map_err(MemoryError::number("ask for restartable sequences", pid))?;
    let mut section = [0; 8];
    // One that cannot be read is not in use: the kernel could not read it either.
    Ok(pointer.is_some_and(|pointer| memory.read_exactly(pointer, &mut section)) && section != [0; 8])
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    use super::*;

    /// A cgroup whose processes get no processor.
    struct Freezer {
        directory: PathBuf,
        file: &'static str,
        words: [&'static str; 2],
    }

    impl Freezer {
        /// One with this process in it; `None` where that cannot be had.
        fn of(pid: u32) -> Option<Self> {
            let name = format!("infinijup-test-{pid}");
            let old = Self {
                directory: "/sys/fs/cgroup/freezer".into(),
                file: "freezer.state",
                words: ["THAWED", "FROZEN"],
            };
            let new = Self { directory: "/sys/fs/cgroup".into(), file: "cgroup.freeze", words: ["0", "1"] };
            [old, new].into_iter().find_map(|mut freezer| {
                freezer.directory.push(&name);
                fs::create_dir(&freezer.directory).ok()?;
                fs::write(freezer.directory.join("cgroup.procs"), pid.to_string()).ok()?;
                Some(freezer)
            })
        }

        fn set(&self, is_frozen: bool) {
            fs::write(self.directory.join(self.file), self.words[usize::from(is_frozen)]).unwrap();
        }
    }

    #[test]
    fn a_thread_that_gets_no_processor_for_long_is_waited_for() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        if let Some(freezer) = Freezer::of(child.id()) {
            let long = Duration::from_millis(2500);
            std::thread::scope(|scope| {
                let freezer = &freezer;
                Standing::with(pid, |standing| {
                    let mut injection = Injection::begin(standing)?;
                    freezer.set(true);
                    let begun = Instant::now();
                    scope.spawn(move || {
                        std::thread::sleep(long);
                        freezer.set(false);
                    });
                    let made = injection.call(Call::Close { descriptor: 1 << 20 })?;
                    assert_eq!(made.unwrap_err().raw_os_error(), Some(libc::EBADF));
                    assert!(begun.elapsed() >= long, "it was not kept from running");
                    injection.finish()
                })
                .unwrap();
            });
            assert_eq!(child.try_wait().unwrap(), None, "it lives");
            child.kill().unwrap();
            child.wait().unwrap();
            fs::remove_dir(&freezer.directory).unwrap();
        } else {
            println!("skipped: there is no freezer that we may use");
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
