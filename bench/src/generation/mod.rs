//! generation: how fast stamps are drawn, and how often they repeat.
//!
//! A handle names an inode and its stamp; it is stale once the inode was used again, and wrongly
//! accepted if that use drew the same stamp. How often that is can't be waited for at 32 bits, so it is
//! measured at narrow stamps, where it is often, beside what `arithmetic` expects of the same
//! experiment; and the arithmetic is then given for 32 bits.

mod arithmetic;
mod repeats;
mod speed;

use crate::host;
use crate::report::{Document, Row, print_compared};
use crate::tables::{count, table};
use crate::variants::{VariantList, parse_list, parse_rounds, parse_run_time, parse_threads};
use arithmetic::Expected;
use clap::Args;
use comfy_table::Table;
use repeats::Measured;
use serde::Serialize;
use std::io::Write;
use std::time::Duration;
use uext4_ext4::GenerationVariant;

/// Inodes of the population, which all threads together reuse.
const INODES: usize = 16_384;
/// For so many reuses of its inode a handle is held, on average.
const HOLD: u64 = 16;

/// The variants, counts of threads and widths.
#[derive(Clone, Debug, Args)]
pub struct GenerationArgs {
    /// Variants: spinlock, atomic, percpu, percpu-range, percpu-stride, random, random-prng, increment, none,
    /// beyond, or all; none assigns no generation, so that handles are not protected
    #[arg(long, value_name = "LIST", default_value = "all", value_parser = |text: &str| parse_list(text, &GenerationVariant::ALL))]
    pub generation: VariantList<GenerationVariant>,
    /// Threads that draw; a comma list runs each count
    #[arg(long, default_value = "1,2,4,8,16", value_delimiter = ',', value_parser = parse_threads)]
    pub threads: Vec<usize>,
    /// Seconds for each variant, count and round of drawing
    #[arg(long, value_name = "SECONDS", default_value = "0.2", value_parser = parse_run_time)]
    pub time: Duration,
    /// Rounds of drawing
    #[arg(short = 'i', long, default_value_t = 3, value_parser = parse_rounds)]
    pub iterations: usize,
    /// Bits of the stamps whose repeats are counted, 8 to 20
    #[arg(long, value_name = "LIST", default_value = "8,10,12,14,16", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(8..=20))]
    pub widths: Vec<u32>,
    /// Reuses of inodes in each experiment, also as 2^30
    #[arg(long, value_name = "N", default_value = "2^22", value_parser = parse_count)]
    pub reuses: u64,
    /// One more round of drawing counts locks
    #[arg(long)]
    pub lock_stat: bool,
    /// Prints one JSON document
    #[arg(long)]
    pub json: bool,
}

/// A number, or a power of two as `2^30`.
fn parse_count(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a number");
    match text.strip_prefix("2^") {
        Some(power) => {
            let power: u32 = power.parse().map_err(|_| wrong())?;
            1u64.checked_shl(power).ok_or_else(wrong)
        }
        None => text.parse().map_err(|_| wrong()),
    }
}

/// The repeats of a variant at one width.
#[derive(Debug, Serialize)]
struct RepeatRow {
    #[serde(rename = "arm")]
    variant: &'static str,
    width_bits: u32,
    /// Nothing at 32 bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<Measured>,
    expected: Expected,
}

#[derive(Serialize)]
struct GenerationDocument {
    #[serde(flatten)]
    document: Document<Row>,
    repeats: Vec<RepeatRow>,
}

/// Draws, counts repeats, and prints.
pub fn run(args: &GenerationArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let rows = speed::run(args)?;
    if !args.json {
        print_speed(args, &rows, out)?;
    }
    let threads = host::cpus();
    let mut repeats = Vec::new();
    for &variant in &args.generation.0 {
        for &width_bits in &args.widths {
            let (measured, placement) =
                repeats::measure(variant, width_bits, args.reuses, threads)?;
            repeats.push(RepeatRow {
                variant: variant.name(),
                width_bits,
                measured: Some(measured),
                expected: arithmetic::expected(variant, width_bits, measured.reuses, placement),
            });
        }
        repeats.push(RepeatRow {
            variant: variant.name(),
            width_bits: 32,
            measured: None,
            expected: arithmetic::expected(variant, 32, u64::MAX, repeats::undisturbed(threads)),
        });
    }
    if args.json {
        let document = GenerationDocument {
            document: Document::new("generation", rows),
            repeats,
        };
        serde_json::to_writer_pretty(&mut *out, &document)?;
        return Ok(writeln!(out)?);
    }
    print_repeats(args, threads, &repeats, out)
}

fn print_speed(args: &GenerationArgs, rows: &[Row], out: &mut dyn Write) -> anyhow::Result<()> {
    let (time, rounds) = (args.time.as_secs_f64(), args.iterations);
    writeln!(out, "draws per second, {rounds} rounds of {time} s")?;
    let variants: Vec<String> = args.generation.0.iter().map(|a| a.to_string()).collect();
    print_compared("threads", &variants, rows, &args.threads, out)?;
    for row in rows {
        row.print_tables(out)?;
    }
    Ok(())
}

fn print_repeats(
    args: &GenerationArgs,
    threads: usize,
    rows: &[RepeatRow],
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let reuses = count(args.reuses as f64);
    writeln!(
        out,
        "repeats in {reuses} reuses, {threads} threads; in brackets what arithmetic expects\n\n\
         back to back    one inode: reuses that drew the stamp of the use just before\n\
         earlier handle  one inode: a handle of any earlier use is accepted, one in so many\n\
         stale handle    one of {} inodes that all threads reuse at random: a handle held for {} reuses\n\
         {:15} of its inode on average is accepted, one in so many\n\
         first repeat    draws until any two inodes have had the same stamp; no handle is wrong for that,\n\
         {:15} as it names its inode: this is what 2^(bits/2) says, the others 2^bits\n\
         At 32 bits no counter gets round while a handle is held in this experiment ({} draws on average);\n\
         one that is held until it did is an earlier handle.\n",
        count(INODES as f64),
        HOLD,
        "",
        "",
        count(INODES as f64 * HOLD as f64),
    )?;
    for some in rows.chunks(args.widths.len() + 1) {
        let Some(first) = some.first() else { continue };
        writeln!(out, "{}: {}", first.variant, first.expected.why)?;
        writeln!(out, "{}\n", repeat_table(some))?;
    }
    Ok(())
}

fn repeat_table(rows: &[RepeatRow]) -> Table {
    let line = |row: &RepeatRow| {
        let one_in = |rate: f64| match rate > 0.0 {
            true => count(1.0 / rate),
            false => "never".to_owned(),
        };
        let (m, e) = (row.measured.as_ref(), &row.expected);
        let shown = |f: &dyn Fn(&Measured) -> String| m.map_or_else(|| "-".to_owned(), f);
        let back_to_back = match m {
            Some(m) => short(e.back_to_back * m.reuses as f64),
            None => format!("one in {}", one_in(e.back_to_back)),
        };
        [
            row.width_bits.to_string(),
            shown(&|m| count(m.back_to_back as f64)),
            format!("({back_to_back})"),
            shown(&|m| one_in(m.earlier_handle)),
            format!("({})", one_in(e.earlier_handle)),
            shown(&|m| one_in(m.stale_handle)),
            format!("({})", one_in(e.stale_handle)),
            shown(&|m| count(m.first_repeat)),
            format!("({})", count(e.first_repeat)),
        ]
    };
    let header = "bits|back to back||earlier handle||stale handle||first repeat|";
    table(header, rows.iter().map(line))
}

/// A count that may be a fraction.
fn short(number: f64) -> String {
    match number {
        n if n == 0.0 || n >= 10.0 => count(n),
        n => format!("{n:.2}"),
    }
}
