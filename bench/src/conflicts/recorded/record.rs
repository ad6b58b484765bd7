//! What memory one call touches: a copy of the process runs it instruction by instruction.
//!
//! # Data model
//! The thread of a virtual CPU forks. The child has the same memory at the same addresses and runs the call; the thread
//! steps it with ptrace(2), decodes each instruction, and computes the addresses of its operands from the registers. So code
//! of the standard library and of libc is seen too, and every call starts from the same state. What the child changes is
//! gone with it.

use super::unsafe_fork::fork;
use anyhow::{Context as _, Result, bail, ensure};
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register,
};
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// Bytes of a cache line.
pub const LINE_BYTES: u64 = 64;
/// The longest instruction.
const INSTRUCTION_BYTES: usize = 15;
/// A call that executes more is caught in a loop.
const STEPS_MAX: u64 = 20_000_000;

/// Where the code was: the address of the instruction and the return addresses, innermost first.
#[derive(Clone, Debug)]
pub struct Site {
    pub stack: Arc<[u64]>,
    /// Done by malloc(3), free(3) or their like, or to memory that the call got from them.
    pub by_allocator: bool,
}

/// The first read and the first write of a line by a call.
#[derive(Clone, Debug, Default)]
pub struct Touch {
    pub read: Option<Site>,
    pub write: Option<Site>,
}

/// What a call touched.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// By the number of the cache line.
    pub lines: BTreeMap<u64, Touch>,
    /// Instructions executed.
    pub steps: u64,
}

/// Runs `call` in a copy of this process, as this thread.
///
/// # Errors
/// The call failed, ended the process, or waits for another thread; ptrace(2) is not allowed here.
pub fn record(call: impl FnOnce() -> Result<()>) -> Result<Recording> {
    let Some(child) = fork()? else { run(call) };
    let outcome = step_through(child);
    let _ = nix::sys::signal::kill(child, Signal::SIGKILL);
    let _ = waitpid(child, None);
    outcome
}

/// What the child does; it stops before and after the call.
fn run(call: impl FnOnce() -> Result<()>) -> ! {
    let ready = ptrace::traceme().and_then(|()| raise(Signal::SIGSTOP));
    if ready.is_ok() {
        match call() {
            Ok(()) => drop(raise(Signal::SIGSTOP)),
            Err(why) => eprintln!("uext4: {why:#}"),
        }
    }
    // No destructor runs, nothing is flushed: all that is the parent's.
    std::process::abort()
}

fn step_through(child: Pid) -> Result<Recording> {
    let stopped = waitpid(child, None)?;
    ensure!(
        matches!(stopped, WaitStatus::Stopped(_, Signal::SIGSTOP)),
        "the copy of the process did not stop: {stopped:?}"
    );
    let mut tracer = Tracer::new()?;
    loop {
        let registers = ptrace::getregs(child).context("ptrace")?;
        tracer.note(child, &registers)?;
        ptrace::step(child, None).context("ptrace")?;
        match waitpid(child, None)? {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
            WaitStatus::Stopped(_, Signal::SIGSTOP) => return Ok(tracer.recording),
            ended => bail!("the call failed: {ended:?}"),
        }
        ensure!(
            tracer.recording.steps < STEPS_MAX,
            "the call does not end; it may wait for another thread"
        );
    }
}

/// What is known of the code that the child is in.
struct Tracer {
    memory: File,
    decoded: HashMap<u64, Instruction>,
    info: InstructionInfoFactory,
    /// Return addresses, outermost first.
    calls: Vec<u64>,
    /// The depth in `calls` at which the allocator was entered.
    allocator: Option<usize>,
    allocator_entries: [u64; 6],
    /// Bytes that the allocator was asked for, by its arguments.
    asked: u64,
    /// Where posix_memalign(3) stores what it gives; 0 for the others, which return it.
    stored_at: u64,
    /// What it gave, first and end.
    given: Vec<(u64, u64)>,
    recording: Recording,
}

impl Tracer {
    fn new() -> Result<Tracer> {
        Ok(Tracer {
            // The code is the same there.
            memory: File::open("/proc/self/mem")?,
            decoded: HashMap::new(),
            info: InstructionInfoFactory::new(),
            calls: Vec::new(),
            allocator: None,
            allocator_entries: [
                libc::malloc as *const () as u64,
                libc::free as *const () as u64,
                libc::calloc as *const () as u64,
                libc::realloc as *const () as u64,
                libc::posix_memalign as *const () as u64,
                libc::aligned_alloc as *const () as u64,
            ],
            asked: 0,
            stored_at: 0,
            given: Vec::new(),
            recording: Recording::default(),
        })
    }

    fn instruction(&mut self, at: u64) -> Result<Instruction> {
        if let Some(known) = self.decoded.get(&at) {
            return Ok(*known);
        }
        let mut bytes = [0; INSTRUCTION_BYTES];
        let read = self.memory.read_at(&mut bytes, at)?;
        let mut decoder = Decoder::with_ip(64, &bytes[..read], at, DecoderOptions::NONE);
        let decoded = decoder.decode();
        self.decoded.insert(at, decoded);
        Ok(decoded)
    }

    /// Notes what the instruction that is next will touch.
    fn note(&mut self, child: Pid, registers: &libc::user_regs_struct) -> Result<()> {
        self.recording.steps += 1;
        let at = registers.rip;
        let instruction = self.instruction(at)?;
        if self.allocator.is_none() && self.allocator_entries.contains(&at) {
            self.allocator = Some(self.calls.len());
            let [malloc, _, calloc, realloc, posix_memalign, aligned_alloc] =
                self.allocator_entries;
            self.stored_at = if at == posix_memalign {
                registers.rdi
            } else {
                0
            };
            self.asked = match at {
                _ if at == malloc => registers.rdi,
                _ if at == calloc => registers.rdi.saturating_mul(registers.rsi),
                _ if at == realloc || at == aligned_alloc => registers.rsi,
                _ if at == posix_memalign => registers.rdx,
                _ => 0,
            };
        }
        let value = |register: Register, _, _| value_of(registers, register);
        let mut touched = Vec::new();
        for memory in self.info.info(&instruction).used_memory() {
            let is_write = match memory.access() {
                OpAccess::Read | OpAccess::CondRead => false,
                OpAccess::None | OpAccess::NoMemAccess => continue,
                _ => true,
            };
            let address = memory
                .virtual_address(0, value)
                .with_context(|| format!("an operand that is not understood, at {at:#x}"))?;
            let bytes = memory.memory_size().size().max(1) as u64;
            touched.push((address, bytes, is_write));
        }
        for (address, bytes, is_write) in touched {
            for line in address / LINE_BYTES..=(address + bytes - 1) / LINE_BYTES {
                self.touch(line, address, at, is_write);
            }
        }
        match instruction.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall => self.calls.push(instruction.next_ip()),
            FlowControl::Return => {
                self.calls.pop();
                if self.allocator.is_some_and(|depth| self.calls.len() < depth) {
                    self.allocator = None;
                    let first = match self.stored_at {
                        0 => registers.rax,
                        at => ptrace::read(child, at as ptrace::AddressType)? as u64,
                    };
                    self.given.push((first, first.saturating_add(self.asked)));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn touch(&mut self, line: u64, address: u64, at: u64, is_write: bool) {
        let touch = self.recording.lines.entry(line).or_default();
        let place = match is_write {
            true => &mut touch.write,
            false => &mut touch.read,
        };
        if place.is_none() {
            let callers = self.calls.iter().rev().copied();
            let is_new = |(first, end): &(u64, u64)| (*first..*end).contains(&address);
            *place = Some(Site {
                stack: std::iter::once(at).chain(callers).collect(),
                by_allocator: self.allocator.is_some() || self.given.iter().any(is_new),
            });
        }
    }
}

fn value_of(registers: &libc::user_regs_struct, register: Register) -> Option<u64> {
    let wide = match register.full_register() {
        Register::RAX => registers.rax,
        Register::RBX => registers.rbx,
        Register::RCX => registers.rcx,
        Register::RDX => registers.rdx,
        Register::RSI => registers.rsi,
        Register::RDI => registers.rdi,
        Register::RBP => registers.rbp,
        Register::RSP => registers.rsp,
        Register::R8 => registers.r8,
        Register::R9 => registers.r9,
        Register::R10 => registers.r10,
        Register::R11 => registers.r11,
        Register::R12 => registers.r12,
        Register::R13 => registers.r13,
        Register::R14 => registers.r14,
        Register::R15 => registers.r15,
        Register::RIP => registers.rip,
        Register::FS => registers.fs_base,
        Register::GS => registers.gs_base,
        Register::ES | Register::CS | Register::SS | Register::DS => 0,
        _ => return None,
    };
    match register.size() {
        4 if register.is_gpr() => Some(wide & u64::from(u32::MAX)),
        _ => Some(wide),
    }
}
