#!/usr/bin/env python3
"""Does a list of jobs for `uext4 batch` on a Dask cluster, and prints a line of JSON for each as `uext4 batch` does.

usage: dask_batch.py [--scheduler ADDRESS] [--log FILE] JOBS

Without --scheduler it begins workers on this host. The workers have the command `uext4` and see the images by the same names: the list is
done in the directory in which this program is started. With --log the lines are kept, and what that file has as done is not done again.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys

from distributed import Client, as_completed


def run(line, job, directory):
    """One job, on a worker."""
    batch = [os.environ.get("UEXT4", "uext4"), "batch", "--quiet", "--jobs", "1", "-"]
    done = subprocess.run(batch, input=job + "\n", cwd=directory, capture_output=True, text=True)
    if not done.stdout:
        return {"line": line, "job": job, "status": done.returncode, "errors": done.stderr}
    return json.loads(done.stdout) | {"line": line}


def jobs_of(path):
    """The jobs of a list by the numbers of their lines; comments and empty lines are none."""
    with open(path, encoding="utf-8") as lines:
        stripped = ((number, line.strip()) for number, line in enumerate(lines, 1))
        return [(number, line) for number, line in stripped if line and not line.startswith("#")]


def done_before(path):
    """The words of each job that the log has as done. A line that a crash cut off is none."""
    done = set()
    if path and os.path.exists(path):
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                if line.endswith("\n") and (result := json.loads(line))["status"] == 0:
                    done.add(tuple(shlex.split(result["job"], comments=True)))
    return done


def main():
    parser = argparse.ArgumentParser(description="Does a list of jobs for `uext4 batch` on a Dask cluster.")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="tcp://HOST:PORT; without it this host does all")
    parser.add_argument("--log", metavar="FILE", help="add the lines to FILE, and leave out what it has as done")
    parser.add_argument("jobs", metavar="JOBS")
    args = parser.parse_args()
    before = done_before(args.log)
    jobs = [(n, job) for n, job in jobs_of(args.jobs) if tuple(shlex.split(job, comments=True)) not in before]
    failed = 0
    with Client(args.scheduler) as client:
        # A job of the same text on another line is done as well.
        futures = [client.submit(run, line, job, os.getcwd(), pure=False) for line, job in jobs]
        for _, result in as_completed(futures, with_results=True):
            text = json.dumps(result)
            print(text, flush=True)
            if args.log:
                with open(args.log, "a", encoding="utf-8") as log:
                    log.write(text + "\n")
            failed += result["status"] != 0
    print(f"{len(jobs)} jobs: {len(jobs) - failed} done, {failed} failed", file=sys.stderr)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
