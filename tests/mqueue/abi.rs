//! The library as a program in C meets it, without a mount: `c/abi.c` is compiled, and run with it preloaded.

use uext4_testkit::built::preloaded_library;
use uext4_testkit::prelude::*;

/// A C program of `c`, compiled.
struct Program {
    dir: TempDir,
}

fn here(name: &str) -> PathBuf {
    Path::new(WORKSPACE).join(name)
}

fn compile(compiler: &str, flags: &[&str], source: &Path, program: &Path) {
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-pthread"]);
    command.args(flags).arg("-I").arg(here("include"));
    let done = command.arg(source).arg("-o").arg(program).output();
    let done = done.expect("a C compiler is there");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{compiler} {flags:?}: {said}");
}

impl Program {
    fn new(flags: &[&str]) -> Program {
        let dir = TempDir::new().unwrap();
        let program = dir.path().join("program");
        compile("cc", flags, &here("tests/mqueue/c/abi.c"), &program);
        Program { dir }
    }

    /// Runs a case of the program with the library; `queues` is the value of the variable.
    fn run(&self, case: &str, queues: Option<&Path>) -> Output {
        let mut command = Command::new(self.dir.path().join("program"));
        command
            .arg(case)
            .env("LD_PRELOAD", preloaded_library().unwrap());
        match queues {
            Some(queues) => command.env("UEXT4_MQ_DIR", queues),
            None => command.env_remove("UEXT4_MQ_DIR"),
        };
        command.output().unwrap()
    }

    fn passes(&self, case: &str, queues: Option<&Path>) {
        let done = self.run(case, queues);
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{case}: {:?}: {said}", done.status);
    }
}

#[test]
fn without_a_directory_there_are_no_queues() {
    let program = Program::new(&[]);
    program.passes("nowhere", None);
    program.passes("nowhere", Some(Path::new("")));
    program.passes("nowhere", Some(Path::new("/nonexistent/queues")));
    program.passes("nowhere", Some(Path::new("/dev/null")));
}

#[test]
fn in_a_plain_directory_there_are_no_queues_and_nothing_changes() {
    let program = Program::new(&[]);
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("file"), "kept").unwrap();
    fs::create_dir(dir.path().join("dir")).unwrap();
    std::os::unix::fs::symlink("elsewhere", dir.path().join("link")).unwrap();
    program.passes("nowhere", Some(dir.path()));
    assert_eq!(fs::read(dir.path().join("file")).unwrap(), b"kept");
    let mut names: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
    names.sort_by_key(|e| e.as_ref().unwrap().file_name());
    let names = names.into_iter().map(|e| e.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["dir", "file", "link"]);
}

#[test]
fn names_and_flags_are_looked_at_first() {
    let dir = TempDir::new().unwrap();
    Program::new(&[]).passes("names", Some(dir.path()));
}

#[test]
fn what_is_no_queue_is_a_bad_descriptor() {
    Program::new(&[]).passes("descriptors", None);
}

#[test]
fn arguments_are_looked_at_before_descriptors() {
    Program::new(&[]).passes("arguments", None);
}

#[test]
fn fortified_programs_call_two_arguments_by_another_name() {
    let program = Program::new(&["-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]);
    program.passes("fortified", None);
}

#[test]
fn all_calls_are_there_and_nothing_else() {
    let mut symbols = Command::new("nm");
    symbols.args(["-D", "--defined-only", "--format=just-symbols"]);
    let listed = symbols.arg(preloaded_library().unwrap()).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let mut symbols: Vec<_> = listed.lines().collect();
    symbols.sort_unstable();
    let calls = "__mq_open_2 mq_close mq_getattr mq_notify mq_open mq_receive mq_send mq_setattr mq_timedreceive \
                 mq_timedsend mq_unlink";
    assert_eq!(symbols, calls.split(' ').collect::<Vec<_>>());
}

#[test]
fn the_header_is_c_and_cxx() {
    let dir = TempDir::new().unwrap();
    let source = dir.path().join("header.c");
    let program = "#include <uext4_mq.h>\n\
        int main(void) { struct mq_attr attr = {}; mqd_t q = mq_open(\"/q\", O_RDONLY | O_CREAT, 0600, &attr); \
        return q == (mqd_t)-1 ? 0 : mq_close(q); }\n";
    fs::write(&source, program.replace("{}", "{0}")).unwrap();
    compile(
        "cc",
        &["-std=c11", "-pedantic", "-c"],
        &source,
        &dir.path().join("c.o"),
    );
    let source = dir.path().join("header.cc");
    fs::write(&source, program).unwrap();
    compile(
        "c++",
        &["-std=c++17", "-pedantic", "-c"],
        &source,
        &dir.path().join("cxx.o"),
    );
}
