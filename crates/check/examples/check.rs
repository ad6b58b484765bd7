//! `cargo run --release --example check IMAGE [THREADS]`: checks an image, says how long it took.

use std::process::ExitCode;
use std::time::Instant;
use uext4_block::{FileDevice, OpenOptions};
use uext4_check::{CheckOptions, NoProgress, check};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(image) = args.next() else {
        eprintln!("usage: check IMAGE [THREADS]");
        return ExitCode::from(2);
    };
    let threads = args.next().and_then(|t| t.parse().ok()).unwrap_or(0);
    let options = CheckOptions {
        threads,
        ..CheckOptions::default()
    };
    let start = Instant::now();
    let device = match FileDevice::open(&image, &OpenOptions::read_only()) {
        Ok(device) => device,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::from(8);
        }
    };
    match check(&device, &options, &NoProgress) {
        Ok(mut report) => {
            for fault in std::mem::take(&mut report.faults) {
                println!("{fault}");
            }
            println!("{report:?}");
            println!("{:?}", start.elapsed());
            ExitCode::from(if report.is_clean() { 0 } else { 4 })
        }
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(8)
        }
    }
}
