//! The examples that share a list for `uext4 batch` out to many machines, as far as one machine shows.

use crate::*;

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/batch");
/// What is run of the manifest, and how many pods there are, by Python's parser of YAML.
const MANIFEST: &str = "import json, sys, yaml
spec = yaml.safe_load(open(sys.argv[1]))['spec']
(container,) = spec['template']['spec']['containers']
volumes = {v['name'] for v in spec['template']['spec']['volumes']}
assert volumes == {m['name'] for m in container['volumeMounts']}
env = {e['name']: e['value'] for e in container['env']}
print(json.dumps([spec['completionMode'], spec['completions'], env['PARTS'], container['command']]))";

fn has_module(module: &str) -> bool {
    let imports = Command::new("python3")
        .args(["-c", &format!("import {module}")])
        .output();
    let there = imports.is_ok_and(|output| output.status.success());
    if !there {
        eprintln!("skipped: needs Python with {module}");
    }
    there
}

/// A list, and the images that it makes.
fn list(workdir: &Workdir) -> Vec<String> {
    let mut list = "# images\n\n".to_owned();
    let images: Vec<String> = (0..7).map(|number| format!("image {number}")).collect();
    for image in &images {
        list += &format!("mkfs '{image}' --size 16M\n  # one of them\n");
    }
    fs::write(workdir.path("jobs"), list).unwrap();
    images
}

/// The directory of a command of that name, for PATH.
fn path_with_uext4(workdir: &Workdir) -> String {
    let bin = workdir.path("bin");
    let _ = fs::create_dir(&bin);
    let _ = symlink(uext4(), bin.join("uext4"));
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

fn jobs_in(log: &str) -> Vec<String> {
    let jobs = log.lines().map(|line| {
        let result: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(result["status"], 0, "{line}");
        result["job"].as_str().unwrap().to_owned()
    });
    jobs.collect()
}

#[test]
fn pods_of_a_job_do_each_their_share() {
    require!(has_module("yaml"));
    let manifest = format!("{FILES}/batch-job.yaml");
    let printed = oracle::run("python3", &["-c", MANIFEST, &manifest], 0).unwrap();
    let (mode, pods, parts, command): (String, u32, String, Vec<String>) =
        serde_json::from_str(&printed).unwrap();
    assert_eq!((&mode[..], pods.to_string()), ("Indexed", parts));
    let workdir = Workdir::new();
    let images = list(&workdir);
    let pod = |index: u32, parts: u32| {
        let mut pod = Command::new(&command[0]);
        pod.args(&command[1..]).current_dir(workdir.path("."));
        pod.env("PATH", path_with_uext4(&workdir));
        pod.env("JOBS", "jobs").env("PARTS", parts.to_string());
        pod.env("JOB_COMPLETION_INDEX", index.to_string());
        let output = pod.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    // More pods than jobs: some have none.
    for parts in [3, 9] {
        let mut done = Vec::new();
        for index in 0..parts {
            let jobs = jobs_in(&pod(index, parts));
            assert!(
                jobs.len() <= images.len().div_ceil(parts as usize),
                "{jobs:?}"
            );
            done.extend(jobs);
            // One that is started again has nothing left.
            assert_eq!(pod(index, parts), "");
            fs::remove_file(workdir.path(&format!("done-{index}.jsonl"))).unwrap();
        }
        done.sort();
        let all = images
            .iter()
            .map(|image| format!("mkfs '{image}' --size 16M"));
        assert_eq!(done, all.collect::<Vec<_>>());
        for image in &images {
            workdir.assert_clean(image);
            fs::remove_file(workdir.path(image)).unwrap();
        }
    }
}

#[test]
fn workers_of_dask_do_a_list() {
    require!(has_module("distributed"));
    let workdir = Workdir::new();
    let images = list(&workdir);
    let run = || {
        let mut dask = Command::new("python3");
        dask.arg(format!("{FILES}/dask_batch.py"))
            .args(["--log", "log", "jobs"]);
        dask.env("UEXT4", uext4()).current_dir(workdir.path("."));
        dask.output().unwrap()
    };
    let first = run();
    assert!(first.status.success(), "{first:?}");
    let printed = String::from_utf8(first.stdout).unwrap();
    assert_eq!(jobs_in(&printed).len(), images.len());
    assert_eq!(fs::read_to_string(workdir.path("log")).unwrap(), printed);
    for image in &images {
        workdir.assert_clean(image);
    }
    // What is done is left alone; what fails is reported.
    let more = format!(
        "{}check none.img\n",
        fs::read_to_string(workdir.path("jobs")).unwrap()
    );
    fs::write(workdir.path("jobs"), more).unwrap();
    let second = run();
    assert_eq!(second.status.code(), Some(1), "{second:?}");
    let result: serde_json::Value = serde_json::from_slice(&second.stdout).unwrap();
    assert_eq!(
        (&result["line"], &result["status"]),
        (&17.into(), &8.into())
    );
    assert!(
        result["errors"].to_string().contains("none.img"),
        "{result}"
    );
}
