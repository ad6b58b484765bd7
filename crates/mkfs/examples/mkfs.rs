//! `mkfs IMAGE [size=BYTES] [from=DIR] [bs=N] [O=features] [threads=N]`: for trying out and profiling.
use uext4_block::{FileDevice, OpenOptions};
use uext4_mkfs::{FeatureSet, MkfsOptions, NoProgress, Plan, Scan};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let image = args.next().ok_or("image is missing")?;
    let mut options = MkfsOptions::default();
    for arg in args {
        let (key, value) = arg.split_once('=').ok_or("key=value is wanted")?;
        match key {
            "size" => options.size = Some(value.parse()?),
            "from" => options.from = Some(value.into()),
            "bs" => options.block_size = value.parse()?,
            "isize" => options.inode_size = value.parse()?,
            "ratio" => options.inode_ratio = value.parse()?,
            "O" => options.features = FeatureSet::parse(value)?,
            "threads" => options.threads = value.parse()?,
            "uuid" => options.uuid = Some(value.parse()?),
            "time" => options.time = Some(value.parse()?),
            _ => return Err(format!("no option {key}").into()),
        }
    }
    let start = std::time::Instant::now();
    let scan = match &options.from {
        Some(from) => Some(Scan::read(from, options.threads, &NoProgress)?),
        None => None,
    };
    let scanned = start.elapsed();
    let plan = Plan::new(&options, scan)?;
    let planned = start.elapsed();
    let device = FileDevice::open(&image, &OpenOptions::create(plan.image_bytes()))?;
    let report = plan.write(&device, &NoProgress)?;
    eprintln!(
        "scan {scanned:?}, plan {:?}, write {:?}",
        planned - scanned,
        start.elapsed() - planned
    );
    eprintln!("{report:?}");
    Ok(())
}
