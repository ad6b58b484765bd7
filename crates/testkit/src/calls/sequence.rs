//! A sequence of random calls on two sides: the same answers, the same times changed by each, the same trees afterwards.

use super::call::{At, Call, Make};
use super::person::Person;
use super::side::{Side, Stat, Time, Value};
use crate::env_number;
use crate::external::*;
use std::fmt::Write;
use std::sync::Mutex;

/// Calls of a sequence, and those before them that make something to call about.
const CALLS: usize = 100;
const MAKING: usize = 15;
/// `fs.protected_hardlinks`, which is not of the file system, off while any test here runs.
pub struct Unprotected;

static USERS: Mutex<(usize, String)> = Mutex::new((0, String::new()));
const SYSCTL: &str = "/proc/sys/fs/protected_hardlinks";

impl Unprotected {
    /// Disabled until this is dropped.
    ///
    /// # Panics
    /// Not as root.
    pub fn turn_off() -> Unprotected {
        let mut users = USERS.lock().expect("whole");
        if users.0 == 0 {
            users.1 = std::fs::read_to_string(SYSCTL).expect("reads");
            std::fs::write(SYSCTL, "0").expect("as root");
        }
        users.0 += 1;
        Unprotected
    }
}

impl Drop for Unprotected {
    fn drop(&mut self) {
        let mut users = USERS.lock().expect("whole");
        users.0 -= 1;
        if users.0 == 0 {
            let _ = std::fs::write(SYSCTL, &users.1);
        }
    }
}

/// The callers of a sequence, and what is compared.
pub struct Rules<'a> {
    /// A random caller.
    pub who: &'a dyn Fn(&mut Rng) -> Person,
    /// Which calls are not made.
    pub leaves_out: &'a dyn Fn(&Call) -> bool,
    /// Whether the times that calls change are compared.
    pub ages: bool,
    /// Whether access times are.
    pub access_times: bool,
}

impl Rules<'_> {
    /// What is compared of attributes.
    fn compared(&self, mut stat: Stat) -> Stat {
        if !self.access_times {
            stat.times[0] = Time::Recent;
        }
        stat
    }
}

/// How often each kind of call gave what: an errno, or 0.
pub type Counts = BTreeMap<(String, i32), u64>;

/// The name of a call.
fn name_of(call: &Call) -> String {
    let all = format!("{call:?}");
    all.split(['(', ' ']).next().unwrap_or("").to_owned()
}

/// A call on both sides; what is different about it.
fn step(
    sides: &mut [&mut dyn Side; 2],
    who: &Person,
    call: &Call,
    age: Option<i64>,
    rules: &Rules<'_>,
    counts: &mut Counts,
) -> Option<String> {
    if let Some(sec) = age {
        sides.iter_mut().for_each(|side| side.age(call, sec));
    }
    let [kernel, ours] = sides.each_mut().map(|side| {
        let answer = side.call(who, call);
        match answer {
            Ok(Value::Stat(stat)) => Ok(Value::Stat(rules.compared(stat))),
            answer => answer,
        }
    });
    if kernel != ours {
        return Some(format!("kernel {kernel:?}, uext4 {ours:?}"));
    }
    let errno = kernel.as_ref().err().copied().unwrap_or(0);
    *counts.entry((name_of(call), errno)).or_default() += 1;
    let sec = age?;
    if !rules.ages || kernel.is_err() && leaves_times(call) {
        sides.iter_mut().for_each(|side| side.age(call, sec));
        return None;
    }
    let [theirs, ours] = sides.each_mut().map(|side| side.changed());
    (theirs != ours).then(|| {
        format!("times changed (access, data, attributes): kernel {theirs:?}, uext4 {ours:?}; {kernel:?}")
    })
}

/// Calls of which Linux, where it refuses them, has changed times already: a whiteout is made and taken back; the
/// flags are set before it is seen that there are no projects (docs/SEMANTICS.md).
fn leaves_times(call: &Call) -> bool {
    matches!(call, Call::Rename(_, _, 4..) | Call::SetProject(_, _, 1..))
}

/// What is different of the trees.
fn compare_trees(sides: &mut [&mut dyn Side; 2], rules: &Rules<'_>) -> Option<String> {
    let [kernel, ours] = sides.each_mut().map(|side| {
        let mut tree = side.tree();
        for entry in tree.values_mut() {
            entry.stat = rules.compared(entry.stat.clone());
        }
        tree
    });
    let names: BTreeSet<_> = kernel.keys().chain(ours.keys()).collect();
    for name in names {
        let (a, b) = (kernel.get(name), ours.get(name));
        if a != b {
            let name = String::from_utf8_lossy(name);
            return Some(format!("at the end {name} is\nkernel {a:?}\nuext4  {b:?}"));
        }
    }
    None
}

/// Whether the kernel would open a device or a pipe, follow a link, or say of `O_CREAT` and another's link in a sticky
/// directory what is not the file system's to say.
fn is_left_alone(kind: Option<FileKind>, call: &Call) -> bool {
    let opens_link = |make: &Make| !matches!(make, Make::Missing(_));
    match kind {
        None | Some(FileKind::Regular | FileKind::Directory) => false,
        Some(FileKind::Symlink) if matches!(call, Call::Open { make, .. } if opens_link(make)) => {
            false
        }
        Some(_) => call.opens(),
    }
}

/// A position in a directory stands for a name's hash, not for data.
fn seeks_in_directory(sides: &mut [&mut dyn Side; 2], call: &Call) -> bool {
    let Call::Seek(slot, ..) = call else {
        return false;
    };
    let stat = sides[1].call(&Person::root(), &Call::StatOpen(*slot));
    matches!(stat, Ok(Value::Stat(stat)) if stat.kind == FileKind::Directory)
}

/// A sequence of calls as `rules` say; what is different, and all that led there.
fn sequence(
    sides: &mut [&mut dyn Side; 2],
    seed: u64,
    rules: &Rules<'_>,
    counts: &mut Counts,
) -> Result<(), (String, String)> {
    let mut rng = Rng::with_seed(seed);
    let mut log = String::new();
    for i in 0..MAKING + CALLS {
        let kind = |at: &At| sides[1].kind(at);
        let (who, call) = match i < MAKING {
            true => (Person::root(), Call::random_making(&mut rng, &kind)),
            false => ((rules.who)(&mut rng), Call::random(&mut rng, &kind)),
        };
        let age = rng.u8(..3) == 0 && rules.ages || leaves_times(&call);
        let age = age.then(|| 1_000_000 + i as i64);
        let first = call.places().first().and_then(|at| kind(at));
        if (rules.leaves_out)(&call)
            || is_left_alone(first, &call)
            || seeks_in_directory(sides, &call)
        {
            continue;
        }
        writeln!(
            log,
            "{i:3} {who:?} {call:?}{}",
            if age.is_some() { " (aged)" } else { "" }
        )
        .expect("text");
        if let Some(what) = step(sides, &who, &call, age, rules, counts) {
            let kind = name_of(&call);
            let head = what.split_once("Stat").map_or(&what[..], |w| w.0);
            return Err((
                format!("{kind}: {}", &head[..head.len().min(120)]),
                format!("{log}{what}"),
            ));
        }
    }
    match compare_trees(sides, rules) {
        None => Ok(()),
        Some(what) => Err((what.clone(), format!("{log}{what}"))),
    }
}

/// Sequences from the seed that `UEXT4_CALL_SEED` names, each in a directory of its own, until `differences_max` kinds of
/// difference were found: what was different.
pub fn sequences(
    sides: &mut [&mut dyn Side; 2],
    count: u64,
    rules: &Rules<'_>,
    as_root: bool,
    differences_max: usize,
) -> Vec<String> {
    let first = env_number("UEXT4_CALL_SEED", 1);
    let (mut kinds, mut found) = (BTreeSet::new(), Vec::new());
    let mut counts = Counts::new();
    for seed in first..first + count {
        let name = format!("s{seed}");
        sides.iter_mut().for_each(|side| side.begin(&name));
        if let Err((kind, what)) = sequence(sides, seed, rules, &mut counts)
            && kinds.insert(kind)
        {
            found.push(format!("seed {seed}, as root: {as_root}\n{what}\n"));
        }
        sides.iter_mut().for_each(|side| side.end());
        if found.len() >= differences_max {
            break;
        }
    }
    report(&counts, as_root);
    found
}

/// Runs sequences in a thread of their own, as they change its credentials; none may find a difference.
pub fn assert_none(run: impl FnOnce() -> Vec<String> + Send + 'static) {
    let found = thread::spawn(run).join().expect("ends");
    let count = found.len();
    assert!(
        found.is_empty(),
        "{count} differences:\n{}",
        found.join("\n")
    );
}

/// What the calls gave, to check whether enough of them were refused, and enough not.
fn report(counts: &Counts, as_root: bool) {
    let mut lines: BTreeMap<&str, String> = BTreeMap::new();
    for ((name, errno), count) in counts {
        let line = lines.entry(name).or_default();
        let errno = match errno {
            0 => "done",
            errno => Errno(*errno).name(),
        };
        write!(line, " {errno} {count}").expect("text");
    }
    eprintln!("answers, as root: {as_root}");
    for (name, line) in lines {
        eprintln!("{name:>12}{line}");
    }
}
