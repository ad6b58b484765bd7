//! Names in colours, as `LS_COLORS` has them.

use clap::ValueEnum;
use lscolors::{Indicator, LsColors};
use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use uext4::FileKind;
use uext4::unstable::Attr;

/// When names have colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    #[value(aliases = ["yes", "force"])]
    Always,
    /// On a terminal, unless NO_COLOR is set
    #[value(aliases = ["tty", "if-tty"])]
    Auto,
    #[value(aliases = ["no", "none"])]
    Never,
}

/// The colours of names.
pub struct Colors(Option<LsColors>);

impl Colors {
    /// Those of the environment, or of ls(1) where it says nothing; none where names have none.
    pub fn new(when: When) -> Colors {
        let has = match when {
            When::Always => true,
            When::Never => false,
            When::Auto => is_wanted() && std::io::stdout().is_terminal(),
        };
        Colors(has.then(|| LsColors::from_env().unwrap_or_default()))
    }

    /// A name, as [`crate::show::name`] has it, in the colour of its file; `leads_to` is the file that a symbolic link leads to.
    pub fn paint<'a>(
        &self,
        name: Cow<'a, [u8]>,
        attr: Option<&Attr>,
        leads_to: Option<&Attr>,
    ) -> Cow<'a, [u8]> {
        let style = self.0.as_ref().zip(attr).and_then(|(colors, attr)| {
            let indicator = indicator(attr, leads_to);
            let by_name = || colors.style_for_str(&String::from_utf8_lossy(&name));
            let by_name = (indicator == Indicator::RegularFile).then(by_name);
            by_name
                .flatten()
                .or_else(|| colors.style_for_indicator(indicator))
        });
        let style = style.map(|style| style.to_nu_ansi_term_style());
        let Some(style) = style.filter(|style| !style.is_plain()) else {
            return name;
        };
        let mut text = Vec::new();
        // Into memory.
        let _ = write!(text, "{}", style.prefix());
        text.extend_from_slice(&name);
        let _ = write!(text, "{}", style.suffix());
        Cow::Owned(text)
    }
}

/// Whether the environment allows colours.
fn is_wanted() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// What ls(1) colours a file as.
fn indicator(attr: &Attr, leads_to: Option<&Attr>) -> Indicator {
    let has = |bits| attr.mode & bits == bits;
    match attr.kind {
        FileKind::Directory if has(0o1002) => Indicator::StickyAndOtherWritable,
        FileKind::Directory if has(0o0002) => Indicator::OtherWritable,
        FileKind::Directory if has(0o1000) => Indicator::Sticky,
        FileKind::Directory => Indicator::Directory,
        FileKind::Symlink if leads_to.is_none() => Indicator::OrphanedSymbolicLink,
        FileKind::Symlink => Indicator::SymbolicLink,
        FileKind::Fifo => Indicator::FIFO,
        FileKind::Socket => Indicator::Socket,
        FileKind::BlockDevice => Indicator::BlockDevice,
        FileKind::CharDevice => Indicator::CharacterDevice,
        FileKind::Regular if has(0o4000) => Indicator::Setuid,
        FileKind::Regular if has(0o2000) => Indicator::Setgid,
        FileKind::Regular if attr.mode & 0o111 != 0 => Indicator::ExecutableFile,
        FileKind::Regular => Indicator::RegularFile,
    }
}
