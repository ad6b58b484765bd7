//! The variants that a run compares: the product of the lists that the command line gives.

use clap::Args;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;
use uext4_ext4::{BallocVariant, DirLockVariant, GenerationVariant, IallocVariant, MountOptions};
use uext4_vfs::icache::IcacheVariant;
use uext4_vfs::ilock::DioLock;

/// A comma list of variants, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariantList<A>(pub Vec<A>);

/// `a,b` or `all`.
pub fn parse_list<A>(text: &str, all: &[A]) -> Result<VariantList<A>, String>
where
    A: Copy + FromStr<Err: Display>,
{
    if text == "all" {
        return Ok(VariantList(all.to_vec()));
    }
    text.split(',')
        .map(|name| name.parse().map_err(|e: A::Err| e.to_string()))
        .collect::<Result<_, _>>()
        .map(VariantList)
}

/// A few values, each with its name in options and results.
pub trait Named: Copy + PartialEq + 'static {
    const NAMES: &'static [(Self, &'static str)];

    fn name(self) -> &'static str {
        let mut all = Self::NAMES.iter();
        all.find(|(value, _)| *value == self)
            .map_or("", |(_, name)| name)
    }

    /// The one of that name.
    fn named(text: &str) -> Result<Self, String> {
        let mut all = Self::NAMES.iter();
        let found = all.find(|(_, name)| *name == text);
        let names = || {
            Self::NAMES
                .iter()
                .map(|(_, name)| *name)
                .collect::<Vec<_>>()
        };
        let why = || format!("`{text}` is none of {}", names().join(", "));
        found.map(|(value, _)| *value).ok_or_else(why)
    }
}

/// `a,b` or `all`, or `none`.
pub fn parse_names<A: Named>(text: &str) -> Result<VariantList<A>, String> {
    match text {
        "all" => Ok(VariantList(
            A::NAMES.iter().map(|(value, _)| *value).collect(),
        )),
        "none" => Ok(VariantList(Vec::new())),
        _ => text
            .split(',')
            .map(A::named)
            .collect::<Result<_, _>>()
            .map(VariantList),
    }
}

/// [`parse_names`] without `none`.
pub fn parse_some_names<A: Named>(text: &str) -> Result<VariantList<A>, String> {
    let list = parse_names(text)?;
    match list.0.is_empty() {
        true => Err(format!("`{text}` leaves nothing")),
        false => Ok(list),
    }
}

fn on_off_list(text: &str) -> Result<VariantList<bool>, String> {
    let words = if text == "all" { "off,on" } else { text };
    words
        .split(',')
        .map(parse_on_off)
        .collect::<Result<_, _>>()
        .map(VariantList)
}

/// `on` or `off`.
pub fn parse_on_off(word: &str) -> Result<bool, String> {
    match word {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("`{word}` is neither on nor off")),
    }
}

/// A time with its unit: `100us`, `1.5ms`, `2s`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..).unwrap_or("") {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ if digits == "0" => 1.0,
        other => return Err(format!("unit `{other}` of `{text}`: use ns, us, ms or s")),
    };
    let number: f64 = digits
        .parse()
        .map_err(|_| format!("`{text}` is not a time"))?;
    Duration::try_from_secs_f64(number * unit).map_err(|e| format!("`{text}`: {e}"))
}

/// Seconds, as `1` or `0.2`.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text
        .parse()
        .map_err(|_| format!("`{text}` is not a number"))?;
    Duration::try_from_secs_f64(number).map_err(|e| format!("`{text}`: {e}"))
}

/// Seconds that a run takes: as [`parse_seconds`], and not none.
pub fn parse_run_time(text: &str) -> Result<Duration, String> {
    match parse_seconds(text)? {
        Duration::ZERO => Err("no time at all measures nothing".to_owned()),
        time => Ok(time),
    }
}

/// The mechanisms' variants, as comma lists, and how every variant is mounted.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Variants (comma lists or `all`; their product is run, interleaved)")]
pub struct VariantArgs {
    /// How inode numbers are claimed: retry-unlocked, retry-locked, lock-free
    #[arg(long, value_name = "LIST", value_parser = |text: &str| parse_list(text, &IallocVariant::ALL))]
    pub ialloc: Option<VariantList<IallocVariant>>,
    /// How blocks are allocated and freed: group-lock, trylock, percpu
    #[arg(long, value_name = "LIST", value_parser = |text: &str| parse_list(text, &BallocVariant::ALL))]
    pub balloc: Option<VariantList<BallocVariant>>,
    /// How generations are drawn: spinlock, atomic, percpu, percpu-range, percpu-stride, random, random-prng,
    /// increment, none, beyond; with none, handles are not protected against reuse of their inode
    #[arg(long, value_name = "LIST", value_parser = |text: &str| parse_list(text, &GenerationVariant::ALL))]
    pub generation: Option<VariantList<GenerationVariant>>,
    /// How the inode cache is locked: global, global-nowait, per-bucket, global-hint, per-bucket-nohint
    #[arg(long, value_name = "LIST", value_parser = |text: &str| parse_list(text, &IcacheVariant::ALL))]
    pub icache: Option<VariantList<IcacheVariant>>,
    /// Timestamps stay in memory until the inode is written anyhow: on, off
    #[arg(long, value_name = "LIST", value_parser = on_off_list)]
    pub lazytime: Option<VariantList<bool>>,
    /// How direct I/O locks a file: exclusive-first, shared-first, shared-always, range
    #[arg(long, value_name = "LIST", value_parser = |text: &str| parse_list(text, &DioLock::ALL))]
    pub dio_lock: Option<VariantList<DioLock>>,
    /// How changes of a directory's entries exclude each other: exclusive, leaf
    #[arg(long, value_name = "LIST", value_parser = |text: &str| parse_list(text, &DirLockVariant::ALL))]
    pub dir_lock: Option<VariantList<DirLockVariant>>,
    /// Direct writes into holes allocate unwritten extents: on, off
    #[arg(long, value_name = "LIST", value_parser = on_off_list)]
    pub dioread_nolock: Option<VariantList<bool>>,
    /// Idle inodes to keep in memory
    #[arg(long, value_name = "N")]
    pub inodes_max: Option<usize>,
    /// How old a transaction gets before it is committed (5s)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub commit_interval: Option<Duration>,
}

/// One way to mount, and its name in results.
#[derive(Clone, Debug)]
pub struct Variant {
    /// What varies in this run, or `default`.
    pub name: String,
    /// What the lists give.
    pub choice: Choice,
    pub options: MountOptions,
}

/// One of every list; `None` where there is no list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// How inode numbers are claimed.
    pub ialloc: Option<IallocVariant>,
    /// How blocks are allocated and freed.
    pub balloc: Option<BallocVariant>,
    /// How generations are drawn.
    pub generation: Option<GenerationVariant>,
    /// How the inode cache is locked.
    pub icache: Option<IcacheVariant>,
    /// Whether timestamps stay in memory.
    pub lazytime: Option<bool>,
    /// How direct I/O locks a file.
    pub dio_lock: Option<DioLock>,
    /// How changes of a directory's entries exclude each other.
    pub dir_lock: Option<DirLockVariant>,
    /// Whether direct writes into holes allocate unwritten extents.
    pub dioread_nolock: Option<bool>,
}

impl VariantArgs {
    /// The variants of the run, the first of every list first. A variant that is listed twice is run twice,
    /// which shows the noise.
    pub fn variants(&self) -> Vec<Variant> {
        let choices = self.choices();
        let names = apart(choices.iter().map(|choice| self.name_of(choice)));
        let variant = |(choice, name): (Choice, String)| Variant {
            name,
            choice,
            options: self.mount_options(&choice),
        };
        choices.into_iter().zip(names).map(variant).collect()
    }

    /// How every variant is mounted, before a list is applied.
    fn mount_options(&self, choice: &Choice) -> MountOptions {
        let default = MountOptions::default();
        MountOptions {
            ialloc: choice.ialloc.unwrap_or(default.ialloc),
            balloc: choice.balloc.unwrap_or(default.balloc),
            generation: choice.generation.unwrap_or(default.generation),
            icache: choice.icache.unwrap_or(default.icache),
            lazytime: choice.lazytime.unwrap_or(default.lazytime),
            dio_lock: choice.dio_lock.unwrap_or(default.dio_lock),
            dir_lock: choice.dir_lock.unwrap_or(default.dir_lock),
            dioread_nolock: choice.dioread_nolock.unwrap_or(default.dioread_nolock),
            inodes_max: self.inodes_max.unwrap_or(default.inodes_max),
            commit_interval: self.commit_interval.unwrap_or(default.commit_interval),
            ..default
        }
    }

    /// The product of the lists; the last list varies fastest.
    fn choices(&self) -> Vec<Choice> {
        let mut all = vec![Choice::default()];
        vary(&mut all, &self.ialloc, |c| &mut c.ialloc);
        vary(&mut all, &self.balloc, |c| &mut c.balloc);
        vary(&mut all, &self.generation, |c| &mut c.generation);
        vary(&mut all, &self.icache, |c| &mut c.icache);
        vary(&mut all, &self.lazytime, |c| &mut c.lazytime);
        vary(&mut all, &self.dio_lock, |c| &mut c.dio_lock);
        vary(&mut all, &self.dir_lock, |c| &mut c.dir_lock);
        vary(&mut all, &self.dioread_nolock, |c| &mut c.dioread_nolock);
        all
    }

    /// What varies, or if nothing does, what was given.
    fn name_of(&self, choice: &Choice) -> String {
        let word = |on, yes, no| if on { yes } else { no };
        let lazytime = |on| word(on, "lazytime", "no-lazytime");
        let nolock = |on| word(on, "dioread_nolock", "dioread_lock");
        let parts = [
            (length(&self.ialloc), choice.ialloc.map(|a| a.name())),
            (length(&self.balloc), choice.balloc.map(|a| a.name())),
            (
                length(&self.generation),
                choice.generation.map(|a| a.name()),
            ),
            (length(&self.icache), choice.icache.map(|a| a.name())),
            (length(&self.lazytime), choice.lazytime.map(lazytime)),
            (length(&self.dio_lock), choice.dio_lock.map(|a| a.name())),
            (length(&self.dir_lock), choice.dir_lock.map(|a| a.name())),
            (
                length(&self.dioread_nolock),
                choice.dioread_nolock.map(nolock),
            ),
        ];
        let any_varies = parts.iter().any(|(len, _)| *len > 1);
        let named = parts.iter().filter(|(len, _)| !any_varies || *len > 1);
        let named: Vec<&str> = named.filter_map(|(_, name)| *name).collect();
        match named.is_empty() {
            true => "default".to_owned(),
            false => named.join("/"),
        }
    }
}

/// Each choice so far with each variant of the list.
fn vary<A: Copy>(
    all: &mut Vec<Choice>,
    list: &Option<VariantList<A>>,
    part: fn(&mut Choice) -> &mut Option<A>,
) {
    let Some(list) = list else {
        return;
    };
    let with = |choice: &Choice, variant: A| {
        let mut choice = *choice;
        *part(&mut choice) = Some(variant);
        choice
    };
    let each = |choice: &Choice| list.0.iter().map(|&a| with(choice, a)).collect::<Vec<_>>();
    *all = all.iter().flat_map(each).collect();
}

/// The same names, numbered where one comes again.
pub fn apart(names: impl Iterator<Item = String>) -> Vec<String> {
    let names: Vec<String> = names.collect();
    let name = |(i, name): (usize, &String)| match names[..i].iter().filter(|n| *n == name).count()
    {
        0 => name.clone(),
        before => format!("{name}#{}", before + 1),
    };
    names.iter().enumerate().map(name).collect()
}

fn length<A>(list: &Option<VariantList<A>>) -> usize {
    list.as_ref().map_or(0, |list| list.0.len())
}

/// A count of threads.
pub fn parse_threads(text: &str) -> Result<usize, String> {
    bounded(text, 4096)
}

/// A count of rounds.
pub fn parse_rounds(text: &str) -> Result<usize, String> {
    bounded(text, 100_000)
}

/// A count of files.
pub fn parse_items(text: &str) -> Result<u64, String> {
    bounded(text, usize::try_from(u32::MAX).unwrap_or(usize::MAX)).map(|n| n as u64)
}

/// Each count of a list once, in the order given.
pub fn once<T: Copy + PartialEq>(list: &[T]) -> Vec<T> {
    let mut all = Vec::new();
    for item in list {
        if !all.contains(item) {
            all.push(*item);
        }
    }
    all
}

fn bounded(text: &str, max: usize) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (1..=max).contains(&n) => Ok(n),
        _ => Err(format!("a number from 1 to {max} is wanted")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(args: &VariantArgs) -> Vec<String> {
        args.variants()
            .into_iter()
            .map(|variant| variant.name)
            .collect()
    }

    #[test]
    fn product_is_named_by_what_varies() {
        assert_eq!(names(&VariantArgs::default()), ["default"]);
        let mut args = VariantArgs {
            icache: Some(parse_list("global", &IcacheVariant::ALL).unwrap()),
            ..VariantArgs::default()
        };
        assert_eq!(names(&args), ["global"]);
        args.ialloc = Some(parse_list("all", &IallocVariant::ALL).unwrap());
        assert_eq!(
            names(&args),
            ["retry-unlocked", "retry-locked", "lock-free"]
        );
        args.ialloc = Some(parse_list("lock-free,retry-locked", &IallocVariant::ALL).unwrap());
        args.lazytime = Some(on_off_list("on,off").unwrap());
        let want = [
            "lock-free/lazytime",
            "lock-free/no-lazytime",
            "retry-locked/lazytime",
            "retry-locked/no-lazytime",
        ];
        assert_eq!(names(&args), want);
        let variants = args.variants();
        assert!(
            variants
                .iter()
                .all(|a| a.options.icache == IcacheVariant::Global)
        );
        assert!(variants[0].options.lazytime && !variants[1].options.lazytime);
    }

    #[test]
    fn the_same_variant_twice_has_two_names() {
        let args = VariantArgs {
            ialloc: Some(
                parse_list("lock-free,lock-free,retry-locked", &IallocVariant::ALL).unwrap(),
            ),
            ..VariantArgs::default()
        };
        assert_eq!(names(&args), ["lock-free", "lock-free#2", "retry-locked"]);
    }

    #[test]
    fn unknown_variants_and_units_are_refused() {
        assert!(
            parse_list("lock-fre", &IallocVariant::ALL)
                .unwrap_err()
                .contains("retry-locked")
        );
        assert!(on_off_list("yes").is_err());
        assert!(parse_duration("3").is_err());
        assert!(parse_duration("-3s").is_err());
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("100us"), Ok(Duration::from_micros(100)));
        assert_eq!(parse_duration("1.5ms"), Ok(Duration::from_micros(1500)));
        assert_eq!(parse_duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
    }
}
