#!/usr/bin/env python3
"""usage: slurm_runs.py BUILD-FOLDER   Jobs of a real Slurm cluster, through slurmrestd and through sbatch: started once, found again, ended."""
import json
import os
import subprocess
import sys
import time

BUILD = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from slurm import Cluster, why_not  # noqa: E402  (its folder is not a package)

JOBS, RUNNER = (os.path.join(BUILD, name) for name in ("tests/runner/slurm_jobs", "cmd/sijil-runner"))
SECONDS = 60


class Way:
    """One way to use the cluster: its URL, and the calls."""

    def __init__(self, cluster, name, url):
        self.cluster, self.name, self.url = cluster, name, url

    def ask(self, *words):
        done = subprocess.run([JOBS, self.url, self.cluster.token_file, self.cluster.config, *map(str, words)], stdout=subprocess.PIPE,
                              check=False, timeout=SECONDS)
        return done.returncode, done.stdout.decode().strip()

    def job(self, *words):
        status, text = self.ask(*words)
        assert status == 0, text
        number, state, code, ended_by, nodes, reason = text.split(" ", 5)
        return {"id": int(number), "state": state, "exit": int(code), "signal": int(ended_by), "nodes": nodes, "reason": reason}

    def start(self, name, *words, feature="", gres="", seconds=60):
        return self.job("start", f"{self.name}-{name}", feature, gres, seconds, *words)

    def find(self, name, known=0):
        return self.job("find", f"{self.name}-{name}", known)

    def cancel(self, name, known=0):
        return self.job("cancel", f"{self.name}-{name}", known)

    def until(self, name, *states, known=0):
        end = time.monotonic() + SECONDS
        while (seen := self.find(name, known))["state"] not in states:
            assert time.monotonic() < end, seen
            time.sleep(0.1)
        return seen


def an_end_is_told_as_it_was(way):
    begun = way.start("good", "/bin/true", feature="region-ae-auh")
    done = way.until("good", "completed", "failed", known=begun["id"])
    assert (done["state"], done["exit"], done["nodes"]) == ("completed", 0, "node2"), done
    way.start("bad", "/usr/bin/env", "-S", "false")
    assert way.until("bad", "completed", "failed")["exit"] == 1


def a_job_is_started_once(way):
    first = way.start("once", "/bin/sleep", "60")
    assert way.start("once", "/bin/sleep", "60")["id"] == first["id"], "a second start found the first"
    assert way.find("once", known=first["id"])["id"] == first["id"]
    way.until("once", "running")
    way.cancel("once")
    ended = way.until("once", "cancelled")
    assert ended["id"] == first["id"]
    assert way.cancel("once")["state"] == "cancelled", "ending it again changes nothing"
    assert way.find("never")["state"] == "none" and way.cancel("never")["state"] == "none"
    assert way.find("never", known=999999)["state"] == "none"


def a_held_job_is_shown_as_held(way):
    way.cluster.run("scontrol", "update", "partition=train", "state=down")
    begun = way.start("held", "/bin/sleep", "60")
    assert way.until("held", "waiting", "held")["state"] == "waiting"
    way.cluster.run("scontrol", "hold", str(begun["id"]))
    way.cluster.run("scontrol", "update", "partition=train", "state=up")
    seen = way.find("held")
    assert seen["state"] == "held" and "held" in seen["reason"].lower() and way.start("held", "/bin/sleep", "60")["id"] == begun["id"], seen
    way.cancel("held")
    way.until("held", "cancelled")


def devices_and_features_are_asked_for(way):
    begun = way.start("gpu", "/bin/sleep", "60", gres="gpu:fake:2", feature="region-ae-dxb")
    seen = way.until("gpu", "running", known=begun["id"])
    assert seen["nodes"] == "node1", seen
    assert "gres:gpu:fake:2" in way.cluster.run("scontrol", "show", "job", str(begun["id"])).replace("gres/", "gres:")
    way.cancel("gpu", known=begun["id"])


def what_slurm_refuses_is_said(way):
    status, text = way.ask("start", f"{way.name}-x", "no-such-place", "", 60, "/bin/true")
    assert status == 1 and text.startswith("denied: ") and "feature" in text.lower(), text
    for word in ("a b", "$(id)", "a;b", "a\nb", "'", ""):
        status, text = way.ask("start", f"{way.name}-x", "", "", 60, "/bin/echo", word)
        assert status == 1 and text.startswith("invalid: "), (word, text)
    status, text = way.ask("find", "Bad_Name", 0)
    assert status == 1 and text.startswith("invalid: "), text


def a_job_outlives_the_controller(way):
    begun = way.start("kept", "/bin/sleep", "60")
    way.until("kept", "running")
    way.cluster.wait_until_saved(f"{way.name}-kept")
    way.cluster.kill_controller()
    status, text = way.ask("find", f"{way.name}-kept", 0)
    assert status == 1, text
    way.cluster.start_controller()
    end = time.monotonic() + SECONDS
    while way.ask("find", f"{way.name}-kept", 0)[0] != 0:
        assert time.monotonic() < end
        time.sleep(0.2)
    assert way.find("kept")["id"] == begun["id"], "it is found again by its name"
    way.cancel("kept")
    way.until("kept", "cancelled", "lost")


def the_cluster_is_shown(way):
    words = [RUNNER, "check", "--slurm=" + way.url, "--slurm-user=root", "--slurm-token=" + way.cluster.token_file,
             "--slurm-config=" + way.cluster.config]
    text = subprocess.run(words, check=True, stdout=subprocess.PIPE, timeout=SECONDS).stdout.decode()
    assert "2 nodes" in text and "region-ae-dxb" in text and "gpu:fake:2" in text, text
    shown = json.loads(subprocess.run([*words, "--json"], check=True, stdout=subprocess.PIPE, timeout=SECONDS).stdout)
    assert [(node["name"], node["cpus"], node["memory_bytes"], node["partitions"]) for node in shown["nodes"]] == \
        [("node1", 2, 4000 << 20, "train"), ("node2", 2, 4000 << 20, "train")], shown


def an_error_names_its_place(cluster):
    """A missing file of the token, and a server that is not slurmrestd, are not taken for a missing version."""
    start = [RUNNER, "check", "--slurm-user=root"]
    for words, wanted in ((["--slurm=" + cluster.url, "--slurm-token=/no/such/token"], "/no/such/token"),
                          (["--slurm=unix:/nowhere/socket"], "unix:/nowhere/socket")):
        done = subprocess.run([*start, *words], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1 and wanted in done.stderr and "versions" not in done.stderr, done.stderr


def a_wrong_token_is_refused(cluster):
    open_token = [RUNNER, "check", "--slurm=" + cluster.url, "--slurm-user=root", "--slurm-token=" + cluster.config]
    done = subprocess.run(open_token, check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS)
    assert done.returncode == 1 and b"others may read it: chmod 600" in done.stderr, done
    place = cluster.path("no-token")
    with open(os.open(place, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
        file.write("no.token.at-all")
    words = [RUNNER, "check", "--slurm=" + cluster.url, "--slurm-user=root", "--slurm-token=" + place]
    for more in ([], ["--slurm=unix:/nowhere/socket"], ["--slurm=http://127.0.0.1:1"], ["--slurm=https://127.0.0.1:1"]):
        done = subprocess.run([*words, *more], check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS)
        assert done.returncode == 1 and done.stderr.startswith(b"sijil-runner: ") and not done.stdout, (more, done)


def main():
    missing = why_not()
    if missing:
        print(f"left out: {missing}")
        return 77
    with Cluster() as cluster:
        for way in (Way(cluster, "rest", cluster.url), Way(cluster, "commands", "commands:")):
            for case in (the_cluster_is_shown, an_end_is_told_as_it_was, a_job_is_started_once, a_held_job_is_shown_as_held, devices_and_features_are_asked_for,
                         what_slurm_refuses_is_said, *([a_job_outlives_the_controller] if way.name == "rest" else [])):
                began = time.monotonic()
                case(way)
                print(f"ok {way.name}: {case.__name__} ({time.monotonic() - began:.1f} s)", flush=True)
        a_wrong_token_is_refused(cluster)
        an_error_names_its_place(cluster)
        print("ok a_wrong_token_is_refused, an_error_names_its_place")
    return 0


if __name__ == "__main__":
    sys.exit(main())
