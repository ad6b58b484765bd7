//! `uext4 cp`: what is asked for, which files that are, and the copying.

mod arguments;
mod data;
mod file;
mod job;
mod options;
mod plan;
mod stdin;
mod total;
mod walk;
mod work;

pub use arguments::Args;
pub use job::Job;
pub use options::{Options, Report};
pub use plan::Operands;
pub use walk::Named;

use crate::bar::Bar;
use crate::images::Images;
use crate::{failures, interrupt};
use anyhow::Result;

pub fn run(args: Args) -> Result<()> {
    interrupt::catch()?;
    let mut images = Images::default();
    let copied = copy_all(args, &mut images);
    // What was copied is durable also where the rest was not.
    let closed = images.close();
    copied.and(closed)
}

fn copy_all(args: Args, images: &mut Images) -> Result<()> {
    let options = args.options();
    let plan = plan::plan(args.operands("cp")?, images)?;
    let bar = Bar::new();
    let _counting = plan.begin(&bar, &options);
    let mut job = Job::new(options, &*plan.target, &bar);
    for source in &plan.sources {
        let (to, named) = plan.destination(source)?;
        job.options.plain_mode = options.plain_mode || source.is_stdin;
        let copied = job.operand(&*source.endpoint, &source.path, &to, named);
        copied.or_else(failures::report)?;
    }
    Ok(())
}
