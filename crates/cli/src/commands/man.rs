//! `uext4 man`.

use super::help::TOPICS;
use anyhow::{Context as _, Result, bail};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

/// Write the manual pages into a directory, one for each command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 man ~/.local/share/man/man1")]
pub struct Args {
    /// The directory, made if it is not there
    directory: PathBuf,
}

pub fn run(args: &Args) -> Result<()> {
    let pages = super::help::command();
    if let Some(name) = args.directory.to_str()
        && pages.find_subcommand(name).is_some()
        && !args.directory.exists()
    {
        bail!("{name}: names a command, not a directory; `uext4 help {name}` prints its help");
    }
    std::fs::create_dir_all(&args.directory)
        .with_context(|| args.directory.display().to_string())?;
    let failed = || args.directory.display().to_string();
    clap_mangen::generate_to(pages, &args.directory).with_context(failed)?;
    let page = OpenOptions::new()
        .append(true)
        .open(args.directory.join("uext4.1"));
    let mut page = page.with_context(failed)?;
    page.write_all(last_sections().as_bytes())
        .with_context(failed)
}

/// Sections at the end of the page of the command itself.
fn last_sections() -> String {
    let mut text =
        ".SH \"HELP TOPICS\"\n\\fBuext4 help\\fR \\fITOPIC\\fR prints a guide:\n".to_owned();
    for topic in TOPICS {
        text += &format!(".TP\n\\fB{}\\fR\n{}\n", topic.name, topic.about);
    }
    text + ".SH \"SEE ALSO\"\n\
        Each command has a page, such as \\fBuext4\\-mkfs\\fR(1), and the same as its help, \\fBuext4 help mkfs\\fR.\n\
        .PP\n\
        \\fBext4\\fR(5), \\fBmke2fs\\fR(8), \\fBe2fsck\\fR(8), \\fBmount\\fR(8), \\fBfuse\\fR(4)\n"
}
