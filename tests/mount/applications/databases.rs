//! SQLite: databases that several processes change at once, in each journal mode, and what is in them after the
//! server was killed.
//!
//! A client says the number of a transaction once its COMMIT has succeeded. Whatever becomes of the server, a
//! database is whole afterwards, and has all that was said.
//!
//! `UEXT4_SQLITE_KILLS` is how often the server is killed, `UEXT4_SEED` changes when.

use super::transports::{SHAPE, can_run, on_each_transport};
use crate::*;
use std::io::{self, BufRead, BufReader};
use std::thread::JoinHandle;

const PROGRAMS: &[&str] = &["sqlite3", "stdbuf"];
/// Processes that change a database at a time.
const CLIENTS: u64 = 2;
/// Additions of each client when nothing goes wrong.
const ADDITIONS: u64 = 40;
/// More transactions than a client gets done before the server is killed.
const TRANSACTIONS_MAX: u64 = 1_000_000;

/// Journal modes, and how much is synced: a journal's removal is durable when COMMIT returns only with `extra`.
const DURABLE: [(&str, &str); 4] = [
    ("delete", "extra"),
    ("truncate", "full"),
    ("persist", "full"),
    ("wal", "full"),
];
/// Modes that keep nothing for the case of a crash.
const FLEETING: [(&str, &str); 2] = [("memory", "full"), ("off", "full")];

/// A database in the mount.
#[derive(Clone, Debug)]
struct Database {
    path: PathBuf,
    mode: &'static str,
    synchronous: &'static str,
}

impl Database {
    fn make(dir: &Path, (mode, synchronous): (&'static str, &'static str)) -> Result<Database> {
        let path = dir.join(format!("{mode}.db"));
        let database = Database {
            path,
            mode,
            synchronous,
        };
        let said = database.ask(
            "CREATE TABLE done (number INTEGER PRIMARY KEY, filling BLOB);
             CREATE TABLE noted (number INTEGER);
             CREATE INDEX by_number ON noted (number);
             CREATE TABLE sum (value INTEGER);
             INSERT INTO sum VALUES (0);
             PRAGMA journal_mode;",
        )?;
        ensure!(said.trim_end().ends_with(mode), "{mode}: {said}");
        Ok(database)
    }

    /// What each client says first.
    fn preamble(&self) -> String {
        let (mode, synchronous) = (self.mode, self.synchronous);
        // The mode first can be locked, too.
        format!(
            ".timeout 60000\n.output /dev/null\nPRAGMA journal_mode={mode};\n.output stdout\n\
             PRAGMA synchronous={synchronous};\nPRAGMA cache_size=20;\n"
        )
    }

    /// A process that waits for statements.
    fn client(&self) -> Result<Child> {
        // What it said is there even if it is killed, as by a mapped page that can't be read.
        let mut client = Command::new("stdbuf");
        client.args(["-oL", "sqlite3", "-batch", "-bail"]);
        client.arg(&self.path).stdin(Stdio::piped());
        client.stdout(Stdio::piped()).stderr(Stdio::piped());
        client.spawn().context("running sqlite3")
    }

    /// What it answers to a script, which succeeds.
    fn ask(&self, script: &str) -> Result<String> {
        let mut client = self.client()?;
        let mut stdin = client.stdin.take().context("a pipe")?;
        stdin.write_all((self.preamble() + script).as_bytes())?;
        drop(stdin);
        let output = client.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success() && complaint.is_empty(),
            "{}: {}: {said}{complaint}",
            self.path.display(),
            output.status
        );
        Ok(said)
    }

    /// It is whole, and each transaction is there as a whole or not at all.
    fn verify(&self) -> Result<BTreeSet<u64>> {
        let said = self.ask("PRAGMA integrity_check;\n")?;
        ensure!(said.trim() == "ok", "{}: {said}", self.mode);
        let halves = self.ask(
            "SELECT count(*) FROM done LEFT JOIN noted USING (number) WHERE noted.number IS NULL;
             SELECT count(*) FROM noted LEFT JOIN done USING (number) WHERE done.number IS NULL;\n",
        )?;
        ensure!(halves == "0\n0\n", "{}: halves: {halves}", self.mode);
        let numbers = self.ask("SELECT number FROM done;\n")?;
        Ok(numbers.lines().map(str::parse).collect::<Result<_, _>>()?)
    }
}

/// A process that commits transactions until it can't any more, and the results it got.
struct Committing {
    database: Database,
    client: Child,
    feeding: JoinHandle<()>,
    listening: JoinHandle<io::Result<Vec<u64>>>,
}

impl Committing {
    fn start(database: &Database, first: u64) -> Result<Committing> {
        let mut client = database.client()?;
        let mut stdin = client.stdin.take().context("a pipe")?;
        let stdout = client.stdout.take().context("a pipe")?;
        let preamble = database.preamble();
        let feeding = thread::spawn(move || {
            let mut fed = stdin.write_all(preamble.as_bytes());
            for number in first..first + TRANSACTIONS_MAX {
                if fed.is_err() {
                    // It is gone, as it should be when the server is.
                    return;
                }
                fed = stdin.write_all(transaction(number).as_bytes());
            }
        });
        let listening = thread::spawn(move || {
            let numbers = BufReader::new(stdout).lines();
            let numbers = numbers.map(|line| line?.parse().map_err(io::Error::other));
            numbers.collect()
        });
        Ok(Committing {
            database: database.clone(),
            client,
            feeding,
            listening,
        })
    }

    /// The numbers that were said, once it has ended because nothing answers.
    fn end(self) -> Result<(Database, Vec<u64>)> {
        let output = self.client.wait_with_output()?;
        ensure!(!output.status.success(), "it continues without a server");
        let _ = self.feeding.join();
        let said = self.listening.join().expect("no panic");
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        let mut said = said.with_context(|| format!("{}: {complaint}", self.database.mode))?;
        if self.database.mode == "delete" {
            // SQLite takes a directory that it can't open for synced, so its last word is none.
            said.pop();
        }
        Ok((self.database, said))
    }
}

/// One that changes two tables, and rows here and there; its number is said when it is durable.
fn transaction(number: u64) -> String {
    format!(
        "BEGIN IMMEDIATE;
INSERT INTO done VALUES ({number}, randomblob(2500));
UPDATE done SET filling = randomblob(1500) WHERE number IN
    (SELECT number FROM noted WHERE rowid = abs(random()) % 200);
INSERT INTO noted VALUES ({number});
COMMIT;
.print {number}
"
    )
}

#[test]
fn processes_take_turns() -> Result<()> {
    if !can_run(PROGRAMS) {
        return Ok(());
    }
    on_each_transport("", |mount| {
        for mode in DURABLE.into_iter().chain(FLEETING) {
            let database = Database::make(mount.dir(), mode)?;
            let addition = "BEGIN IMMEDIATE;\nUPDATE sum SET value = value + 1;\nCOMMIT;\n";
            let script = addition.repeat(ADDITIONS as usize);
            let added: Vec<Result<String>> = thread::scope(|scope| {
                let ask = || database.ask(&script);
                let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(ask)).collect();
                let ended = clients.into_iter().map(|client| client.join());
                ended.map(|asked| asked.expect("no panic")).collect()
            });
            added.into_iter().collect::<Result<Vec<_>>>()?;
            let sum = database.ask("SELECT value FROM sum;\n")?;
            let expected = CLIENTS * ADDITIONS;
            ensure!(
                sum.trim() == expected.to_string(),
                "{}: {} of {expected} additions",
                database.mode,
                sum.trim()
            );
            database.verify()?;
        }
        Ok(())
    })
}

#[test]
fn a_killed_server_keeps_what_was_committed() -> Result<()> {
    if !can_run(PROGRAMS) {
        return Ok(());
    }
    let kills = env_number("UEXT4_SQLITE_KILLS", 3);
    let mut rng = fastrand::Rng::with_seed(env_number("UEXT4_SEED", 1));
    let kinds = transports();
    let mut mount = MountedDir::new(Driver::Ours("transport=dev".into()), &SHAPE)?;
    let databases = DURABLE.map(|mode| Database::make(mount.dir(), mode));
    let databases = databases.into_iter().collect::<Result<Vec<_>>>()?;
    let mut said = vec![BTreeSet::new(); databases.len()];
    for kill in 0..kills {
        let mut clients = Vec::new();
        for (database, client) in databases
            .iter()
            .flat_map(|d| (0..CLIENTS).map(move |c| (d, c)))
        {
            let first = (kill * CLIENTS + client) * TRANSACTIONS_MAX;
            clients.push(Committing::start(database, first)?);
        }
        thread::sleep(Duration::from_millis(rng.u64(300..2500)));
        kill_process(pid_of(mount.dir(), "pid")?, Signal::KILL)?;
        for client in clients {
            let (database, numbers) = client.end()?;
            let of_mode = databases.iter().position(|d| d.path == database.path);
            said[of_mode.context("one of them")?].extend(numbers);
        }
        mount.abandon()?;
        mount.mount_with(&format!("transport={}", kinds[kill as usize % kinds.len()]))?;
        for (database, said) in databases.iter().zip(&said) {
            let kept = database.verify().with_context(|| format!("kill {kill}"))?;
            let lost: Vec<_> = said.difference(&kept).collect();
            ensure!(
                lost.is_empty(),
                "kill {kill}, {}: {} transactions lost: {lost:?}",
                database.mode,
                lost.len()
            );
        }
        mount.remount()?;
    }
    for (database, said) in databases.iter().zip(&said) {
        eprintln!("{}: {} transactions kept", database.mode, said.len());
    }
    mount.finish()
}
