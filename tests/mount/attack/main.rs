//! A server that an image has taken over: it tries to get out of the sandbox, by system calls and by operations of
//! rings.
//!
//! Each attack runs in a process of its own that has gone through [`Confined::enter`], as a server has before it reads the
//! image: as the superuser and as another user, on this kernel and on those that lack a wall. Every attack also runs
//! without the sandbox, where it has to succeed, or it would prove nothing.

mod calls;
mod rings;
mod target;
mod walls;

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};
use target::{Target, Victim};
use uext4_mountd::process::confined::Confined;
use walls::Walls;

/// An attack: it succeeds if the process got at something outside.
type Attack = fn(&Target) -> std::io::Result<()>;

/// Where an attack can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// For any process.
    Nothing,
    /// For the superuser.
    Root,
    /// For any, and a sandbox without an empty root directory does not refuse it: attributes are not secret.
    HostRoot,
}

/// Whose process is attacked from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum User {
    Root,
    Other,
}

/// What an attacking process exits with that was refused, and one that could not even try.
const REFUSED: u8 = 10;
const BROKEN: u8 = 11;

/// Set in an attacking process: user, walls and name of the attack.
const CHILD: &str = "UEXT4_TEST_ATTACK";

fn attacks() -> Vec<(&'static str, Needs, Attack)> {
    [calls::ATTACKS, rings::ATTACKS].concat()
}

fn main() -> ExitCode {
    if let Ok(what) = std::env::var(CHILD) {
        return child(&what);
    }
    if !rustix::process::geteuid().is_root() || !std::path::Path::new("/dev/fuse").exists() {
        eprintln!("SKIPPED: attacks need root and /dev/fuse");
        return ExitCode::SUCCESS;
    }
    let (mut attacks, mut wrong) = (0, 0);
    for user in [User::Root, User::Other] {
        let victim = Victim::new(user);
        for walls in Walls::ALL {
            run(user, walls, &victim, |name, outcome, is_right| {
                attacks += 1;
                if !is_right {
                    wrong += 1;
                    println!("WRONG: {user:?}, {walls:?}, {name}: {outcome}");
                }
            });
        }
    }
    println!("{attacks} attacks, {wrong} with an outcome that is wrong");
    ExitCode::from(u8::from(wrong > 0))
}

/// All attacks behind these walls; `check` gets the name, the outcome, and whether it is as it has to be.
fn run(user: User, walls: Walls, victim: &Victim, mut check: impl FnMut(&str, Outcome, bool)) {
    if walls != Walls::None {
        let outcome = attack(user, walls, "in_force", victim);
        let is_right = outcome == Outcome::Refused;
        check("in_force", outcome, is_right);
    }
    for (name, needs, _) in attacks() {
        let may_succeed = walls == Walls::None || needs == Needs::HostRoot && !walls.has_own_root();
        if may_succeed && needs == Needs::Root && user != User::Root {
            continue;
        }
        let outcome = attack(user, walls, name, victim);
        let is_right = match may_succeed {
            true => outcome == Outcome::Escaped,
            false => outcome == Outcome::Refused || outcome == Outcome::Killed,
        };
        check(name, outcome, is_right);
    }
}

/// How an attack ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    /// It got out.
    Escaped,
    /// A call failed.
    Refused,
    /// The kernel ended the process for a system call.
    Killed,
    /// The test is at fault.
    Broken(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

fn attack(user: User, walls: Walls, name: &str, victim: &Victim) -> Outcome {
    let mut command = Command::new(std::env::current_exe().unwrap());
    victim.describe(&mut command);
    let what = format!("{user:?} {walls:?} {name}");
    let out = command.env(CHILD, what).output().unwrap();
    match (out.status.code(), out.status.signal()) {
        (Some(0), _) => Outcome::Escaped,
        (Some(code), _) if code == i32::from(REFUSED) => Outcome::Refused,
        (_, Some(libc::SIGSYS)) => Outcome::Killed,
        _ => {
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            Outcome::Broken(format!("{}: {said}", out.status))
        }
    }
}

fn child(what: &str) -> ExitCode {
    let words: Vec<&str> = what.split(' ').collect();
    let [user, walls, name] = words[..] else {
        return ExitCode::from(BROKEN);
    };
    let user = if user == "Root" {
        User::Root
    } else {
        User::Other
    };
    let walls = Walls::ALL.into_iter().find(|w| format!("{w:?}") == walls);
    let walls = walls.unwrap();
    // The last thing that is read from a path.
    let mut target = Target::find();
    if user == User::Other {
        target::become_other_user();
    }
    target.look_into_the_victim();
    walls.remove();
    let confined = (walls != Walls::None).then(|| Confined::enter(&target.request()).unwrap());
    if name == "in_force" {
        walls.check(user, &confined.unwrap());
        return ExitCode::from(REFUSED);
    }
    let plain = (walls == Walls::None).then(rings::plain);
    let (_, _, attack) = attacks().into_iter().find(|a| a.0 == name).unwrap();
    let result = attack(&target);
    drop(plain);
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(REFUSED)
        }
    }
}
