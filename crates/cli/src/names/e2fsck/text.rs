//! What e2fsck prints.

use crate::commands::check::FAULTS;
use anyhow::Result;
use std::io::Write;
use std::path::Path;
use uext4::CheckReport;
use uext4::unstable::RepairPlan;
use uext4::unstable::ondisk::Superblock;

/// The passes.
pub const PASSES: &str = "\
Pass 1: Checking inodes, blocks, and sizes
Pass 2: Checking directory structure
Pass 3: Checking directory connectivity
Pass 4: Checking reference counts
Pass 5: Checking group summary information";

/// What to do about an image without a superblock.
pub const NO_SUPERBLOCK: &str = "
The superblock could not be read or does not describe a valid ext2/ext3/ext4
filesystem. -b names the block of a backup, if there is one; its usual places:
    e2fsck -b 8193 <device>
 or
    e2fsck -b 32768 <device>
";

/// How lines name the file system: by its label, or by its device.
pub fn name(sb: &Superblock, image: &Path) -> String {
    let label = sb.raw.label();
    match label.is_empty() {
        true => image.display().to_string(),
        false => String::from_utf8_lossy(label).into_owned(),
    }
}

/// The line about a file system that is not checked.
pub fn clean(name: &str, sb: &Superblock) -> String {
    let (raw, geometry) = (&sb.raw, &sb.geometry);
    let free = raw.free_blocks_count();
    let (inodes, blocks) = (geometry.inodes_count, geometry.blocks_count);
    let inodes_used = inodes.saturating_sub(raw.free_inodes_count.get());
    let blocks_used = blocks.saturating_sub(free);
    let max = raw.max_mnt_count.get().cast_signed();
    let left = i32::from(max) - i32::from(raw.mnt_count.get());
    let next = match left {
        _ if max <= 0 => String::new(),
        1 => " (check after next mount)".to_owned(),
        left => format!(" (check in {left} mounts)"),
    };
    format!("{name}: clean, {inodes_used}/{inodes} files, {blocks_used}/{blocks} blocks{next}")
}

/// The lines about a file system that was checked.
pub fn summary(name: &str, report: &CheckReport, verbose: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if verbose {
        return Ok(out.write_all(verbose_text(report).as_bytes())?);
    }
    let CheckReport {
        inodes_used,
        inodes_total,
        blocks_total,
        ..
    } = report;
    let blocks_used = blocks_used(report);
    let share = percent(report.fragmented, *inodes_used);
    writeln!(
        out,
        "{name}: {inodes_used}/{inodes_total} files ({share:.1}% non-contiguous), {blocks_used}/{blocks_total} blocks"
    )?;
    Ok(())
}

/// Blocks that are not free: with the one before the first, where there is one.
fn blocks_used(report: &CheckReport) -> u64 {
    report.blocks_used + report.first_block
}

fn percent(part: u64, all: u64) -> f64 {
    100.0 * part as f64 / all.max(1) as f64
}

fn verbose_text(report: &CheckReport) -> String {
    let used = percent(report.inodes_used, report.inodes_total);
    let fragmented = percent(report.fragmented, report.inodes_used);
    let blocks_used = blocks_used(report);
    let blocks = percent(blocks_used, report.blocks_total);
    let all = report.files + report.directories + report.symlinks + report.specials;
    let line = |count: u64, what: &str| format!("{count:12} {what}\n");
    [
        "\n".to_owned(),
        line(
            report.inodes_used,
            &format!("inodes used ({used:.2}%, out of {})", report.inodes_total),
        ),
        line(
            report.fragmented,
            &format!("non-contiguous files and directories ({fragmented:.1}%)"),
        ),
        line(
            blocks_used,
            &format!("blocks used ({blocks:.2}%, out of {})", report.blocks_total),
        ),
        "\n".to_owned(),
        line(report.files, "regular files"),
        line(report.directories, "directories"),
        line(report.symlinks, "symbolic links"),
        line(report.specials, "devices, fifos and sockets"),
        "------------\n".to_owned(),
        line(all, "files"),
    ]
    .concat()
}

/// What a check found that changes nothing; returns the exit code.
pub fn found(
    name: &str,
    report: &CheckReport,
    superblock_is_damaged: bool,
    verbose: bool,
) -> Result<u8> {
    let mut out = std::io::stdout().lock();
    for fault in &report.faults {
        writeln!(out, "{fault}.  Fix? no\n")?;
    }
    let more = report
        .faults_total
        .saturating_sub(report.faults.len() as u64);
    if more > 0 {
        writeln!(out, "{more} more faults\n")?;
    }
    let is_clean = report.is_clean() && !report.incomplete && !superblock_is_damaged;
    if !is_clean {
        still_has_errors(&mut out, name)?;
    }
    drop(out);
    summary(name, report, verbose)?;
    Ok(if is_clean { 0 } else { FAULTS })
}

fn still_has_errors(out: &mut dyn Write, name: &str) -> Result<()> {
    Ok(writeln!(
        out,
        "\n{name}: ********** WARNING: Filesystem still has errors **********\n"
    )?)
}

/// What was repaired, and what was not.
pub fn repaired(name: &str, plan: &RepairPlan, is_preen: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for decision in &plan.decisions {
        let fault = &decision.fault;
        let does = decision
            .remedy
            .filter(|_| decision.repaired)
            .map(|remedy| remedy.does);
        match (is_preen, does) {
            (true, Some(does)) => writeln!(out, "{name}: {fault}.  FIXED: {does}.")?,
            (true, None) => writeln!(out, "{name}: {fault}.")?,
            (false, Some(does)) => writeln!(out, "{fault}.  Fix ({does})? yes\n")?,
            (false, None) => writeln!(out, "{fault}.  Fix? no\n")?,
        }
    }
    Ok(())
}

/// What is said when faults are left; returns the exit code.
pub fn unrepaired(name: &str, report: &CheckReport, is_preen: bool) -> Result<u8> {
    let mut out = std::io::stdout().lock();
    match is_preen {
        true => writeln!(
            out,
            "\n{name}: UNEXPECTED INCONSISTENCY; RUN fsck MANUALLY.\n\t(i.e., without -a or -p options)"
        )?,
        false => {
            still_has_errors(&mut out, name)?;
            drop(out);
            summary(name, report, false)?;
        }
    }
    Ok(FAULTS)
}
