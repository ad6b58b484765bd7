//! Attributes of files of the host that only ioctls give: the generation and the project.
#![allow(unsafe_code, reason = "ioctls have no safe form")]

use rustix::io::Result;
use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};
use std::os::fd::BorrowedFd;

/// `struct fsxattr` of `linux/fs.h`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Attributes {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    copy_extent_size: u32,
    rest: [u8; 8],
}

const GET_ATTRIBUTES: Opcode = opcode::read::<Attributes>(b'X', 31);
const SET_ATTRIBUTES: Opcode = opcode::write::<Attributes>(b'X', 32);
// Their numbers name a long, and the kernel moves an int.
const GET_GENERATION: Opcode = opcode::read::<usize>(b'v', 1);
const SET_GENERATION: Opcode = opcode::write::<usize>(b'v', 2);

fn attributes(file: BorrowedFd<'_>) -> Result<Attributes> {
    // SAFETY: the number names this structure, which the kernel fills.
    unsafe { ioctl(file, Getter::<GET_ATTRIBUTES, Attributes>::new()) }
}

/// The project of a file; 0 where the file system has none.
///
/// # Errors
/// The file system has no such attributes.
pub fn project(file: BorrowedFd<'_>) -> Result<u32> {
    Ok(attributes(file)?.project)
}

/// Changes the project of a file.
///
/// # Errors
/// The file system has no projects; the caller may not change it.
pub fn set_project(file: BorrowedFd<'_>, project: u32) -> Result<()> {
    let changed = Attributes {
        project,
        ..attributes(file)?
    };
    // SAFETY: the number names this structure, which the kernel reads.
    unsafe { ioctl(file, Setter::<SET_ATTRIBUTES, Attributes>::new(changed)) }
}

/// The generation of a file.
///
/// # Errors
/// The file system has none.
pub fn generation(file: BorrowedFd<'_>) -> Result<u32> {
    // SAFETY: the kernel writes an int.
    unsafe { ioctl(file, Getter::<GET_GENERATION, u32>::new()) }
}

/// Changes the generation of a file.
///
/// # Errors
/// The file system has none; the caller may not change it.
pub fn set_generation(file: BorrowedFd<'_>, generation: u32) -> Result<()> {
    // SAFETY: the kernel reads an int, and a long is there.
    unsafe { ioctl(file, Setter::<SET_GENERATION, u64>::new(generation.into())) }
}
