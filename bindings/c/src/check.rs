//! Images that are checked and repaired, and what was found.

use crate::argument::{give, host_path, put, there};
use crate::failure::{Failure, Result, done};
use rust_uext4::unstable::{RepairPolicy, UndoPlace, repair_image};
use rust_uext4::{CheckOptions, Fault, NoCheckProgress};
use std::ffi::{CString, c_char, c_int};
use std::mem::MaybeUninit;

/// What a check or a repair found.
pub struct uext4_report {
    counts: uext4_counts,
    faults: Vec<Found>,
}

/// What an image has.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct uext4_counts {
    /// Faults of the image; after a repair, those that were found.
    pub faults: u64,
    /// Faults that were repaired.
    pub repaired: u64,
    /// Faults that uext4_report_fault returns, at most 10,000 of a check.
    pub listed: u64,
    /// 1 if no fault is left and the check reached the end.
    pub clean: u32,
    /// 1 if a fault ended the check.
    pub incomplete: u32,
    /// 1 if the journal holds changes; the image is checked as recovery leaves it.
    pub needs_recovery: u32,
    /// 0.
    pub reserved: u32,
    /// After a check: inodes in use, regular files, directories, blocks in use.
    pub inodes_used: u64,
    pub files: u64,
    pub directories: u64,
    pub blocks_used: u64,
}

/// A fault of an image.
#[repr(C)]
pub struct uext4_fault {
    /// What is wrong; valid until uext4_report_free.
    pub text: *const c_char,
    /// The inode concerned, or 0.
    pub inode: u64,
    /// The block concerned, or UINT64_MAX.
    pub block: u64,
    /// The group concerned, or UINT64_MAX.
    pub group: u64,
    /// 1 if it was repaired.
    pub repaired: u32,
    /// 0.
    pub reserved: u32,
}

/// A fault that a report lists.
struct Found {
    text: CString,
    inode: u64,
    block: u64,
    group: u64,
    repaired: bool,
}

fn number(of: Option<impl ToString>) -> Option<u64> {
    of.and_then(|number| number.to_string().parse().ok())
}

fn found(of: &Fault, repaired: bool) -> Found {
    Found {
        text: CString::new(of.to_string().replace('\0', " ")).unwrap_or_default(),
        inode: number(of.ino).unwrap_or(0),
        block: number(of.pblk).unwrap_or(u64::MAX),
        group: number(of.group).unwrap_or(u64::MAX),
        repaired,
    }
}

/// Checks everything of the image `path` of the host, which is not written, on `threads` threads, or with 0 one for each CPU. Returns 0
/// if it could be checked, faults or not, and puts a report in its place; or a negative errno: -EBUSY: open for writing, -EINVAL: no
/// ext4, -EIO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_check(
    path: *const c_char,
    threads: u32,
    report: Option<&mut MaybeUninit<Option<Box<uext4_report>>>>,
) -> c_int {
    done(|| {
        give(report, || {
            // SAFETY: a string, as the header asks.
            let path = unsafe { host_path(path) }?;
            let options = CheckOptions::new().threads(threads as usize);
            let checked = rust_uext4::check(path, &options, &NoCheckProgress)?;
            let faults: Vec<_> = checked.faults.iter().map(|f| found(f, false)).collect();
            Ok(uext4_report {
                counts: uext4_counts {
                    faults: checked.faults_total,
                    repaired: 0,
                    listed: faults.len() as u64,
                    clean: (checked.is_clean() && !checked.incomplete).into(),
                    incomplete: checked.incomplete.into(),
                    needs_recovery: checked.needs_recovery.into(),
                    reserved: 0,
                    inodes_used: checked.inodes_used,
                    files: checked.files,
                    directories: checked.directories,
                    blocks_used: checked.blocks_used,
                },
                faults,
            })
        })
    })
}

/// Repairs the image `path` of the host, which must not be open. `safe` is 1 to repair only faults whose repair loses nothing, and 0 for
/// all; `undo` is NULL or a file of the host that gets what was there before. Returns 0, faults left or not, and puts a report in its
/// place; or a negative errno: -EBUSY, -EINVAL, -EIO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_repair(
    path: *const c_char,
    safe: c_int,
    undo: *const c_char,
    report: Option<&mut MaybeUninit<Option<Box<uext4_report>>>>,
) -> c_int {
    done(|| {
        give(report, || {
            // SAFETY: a string, as the header asks.
            let path = unsafe { host_path(path) }?;
            let undo = match undo.is_null() {
                true => None,
                // SAFETY: a string, as the header asks.
                false => Some(UndoPlace::new(unsafe { host_path(undo) }?)),
            };
            let mut policy = match safe {
                0 => RepairPolicy::All,
                _ => RepairPolicy::Safe,
            };
            let options = CheckOptions::new();
            let undo = undo.as_ref();
            let plan = repair_image(path, &mut policy, undo, &options, &NoCheckProgress, || true)
                .map_err(|e| Failure::of(&*e))?;
            let decided = plan.decisions.iter();
            let faults: Vec<_> = decided.map(|d| found(&d.fault, d.repaired)).collect();
            let repaired = plan.decisions.iter().filter(|d| d.repaired).count();
            Ok(uext4_report {
                counts: uext4_counts {
                    faults: faults.len() as u64,
                    repaired: repaired as u64,
                    listed: faults.len() as u64,
                    clean: plan.mends_all().into(),
                    ..uext4_counts::default()
                },
                faults,
            })
        })
    })
}

/// The counts of a report. Returns 0 or -EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn uext4_report_counts(
    report: Option<&uext4_report>,
    counts: Option<&mut MaybeUninit<uext4_counts>>,
) -> c_int {
    done(|| put(counts, || Ok(there(report)?.counts)))
}

/// Fault `index` of a report, from 0. Returns 0 or -EINVAL: no such fault.
#[unsafe(no_mangle)]
pub extern "C" fn uext4_report_fault(
    report: Option<&uext4_report>,
    index: u64,
    fault: Option<&mut MaybeUninit<uext4_fault>>,
) -> c_int {
    done(|| put(fault, || nth(there(report)?, index)))
}

fn nth(report: &uext4_report, index: u64) -> Result<uext4_fault> {
    let index = usize::try_from(index).ok();
    let fault = index.and_then(|index| report.faults.get(index));
    let fault = fault.ok_or_else(|| Failure::argument("the report has no such fault"))?;
    Ok(uext4_fault {
        text: fault.text.as_ptr(),
        inode: fault.inode,
        block: fault.block,
        group: fault.group,
        repaired: fault.repaired.into(),
        reserved: 0,
    })
}

/// Frees a report and the texts of its faults. Returns 0 or -EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn uext4_report_free(report: Option<Box<uext4_report>>) -> c_int {
    done(|| there(report).map(drop))
}
