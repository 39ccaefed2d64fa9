#!/usr/bin/env python3
"""usage: slurm_served.py BUILD-FOLDER [TEST]...   Runs of a registry on a real Slurm cluster: one job for each attempt, the same result as here; jobs that
end, controllers and nodes that die, schedulers that lie."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

from node_runs import TRAIN
from runner_world import MARK, RUNNER, spec
from slurm_liar import Liar
from slurm_world import BUILD, CALLER, NODES, Cluster, SlurmWorld

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from slurm import why_not  # noqa: E402  (its folder is not a package)

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/digits")
OK = "mkdir /out/model; echo 1 > /out/model/1"
LONG = "trap '' TERM; echo ready; sh -c 'trap \"\" TERM; sleep 60; : MARK' & sleep 60"
EVERYWHERE = list(NODES.values())


def script(world, text, **more):
    return spec(world.peer.push("code", {"train.sh": text.replace("MARK", MARK).encode()}), **more)


def digits(world):
    folder = world.at("digits")
    subprocess.run(["/usr/bin/python3", os.path.join(EXAMPLE, "data.py"), folder], check=True)
    files = {}
    for name, path in (("code", os.path.join(EXAMPLE, "train.py")), ("data", os.path.join(folder, "digits.csv"))):
        with open(path, "rb") as file:
            files[name] = world.peer.push(name, {os.path.basename(path): file.read()})
    return {**spec(files["code"], inputs=[("digits", files["data"])], memory_bytes=1 << 31), "argv": ["/usr/bin/python3", "/code/train.py"],
            "environment": {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}}


def the_digits_model_is_the_same_as_here(world):
    wanted = digits(world)
    world.start_runner("runner")
    here = world.result(*world.peer.order(wanted, ["local/dxb"]))
    world.stop_runner("runner")
    run, queued = world.peer.order(wanted, ["ae/auh"])
    there = world.result(run, queued)
    assert here[0]["status"] == there[0]["status"] == "succeeded", (here, there)
    assert queued.leases == [(1, "node2")], queued.leases  # the region is a feature of the node
    assert here[1]["model"] == there[1]["model"], "the model is another one"
    assert run.result["manifests"]["model"] and world.peer.runs[queued.run].log
    asked = [one for one in world.peer.asked if one["by"] in NODES]
    assert asked and all(one["run"] == queued.run and one["attempt"] == 1 for one in asked), "a node asks for more than its job names"
    assert not [one for one in world.peer.asked if one["by"] == "head"], "the machine that schedules asks for a lease"
    world.no_job_is_left()
    shown = world.cluster.run("scontrol", "show", "job", world.jobs(queued)[0][0])
    assert "Features=region-ae-auh" in shown and f"UserId={CALLER}" in shown, shown
    for secret in ("run-token", wanted["code"]["digest"], wanted["code"]["repository"], "train.py", "BEGIN"):
        assert secret not in shown, secret


def the_administrator_ends_a_job(world):
    run, queued = world.peer.order(script(world, LONG), ["ae/dxb"])
    world.wait_for(lambda: run.log, "no log")
    world.cluster.run("scancel", "--name", world.jobs(queued)[0][1])
    outcome, manifests = world.result(run, queued)
    assert outcome["status"] == "cancelled" and "the scheduler ended the job" in outcome["reason"] and "model" not in manifests, outcome
    assert len(world.jobs(queued)) == 1 and queued.leases == [(1, "node1")]
    world.nothing_is_left()


def the_registry_ends_a_run(world):
    run, queued = world.peer.order(script(world, LONG), ["ae/dxb"])
    world.wait_for(lambda: run.log, "no log")
    run.stop = "a policy forbids it today"
    world.no_job_is_left()
    world.peer.end(queued)
    assert run.result is None
    world.cluster.run("scontrol", "update", "partition=train", "state=down")
    run, queued = world.peer.order(script(world, OK), EVERYWHERE)
    world.wait_for(lambda: world.jobs(queued, "pending"), "no job waits")
    world.peer.end(queued)
    world.wait_for(lambda: not world.open_jobs(queued), "a job waits for a run that has ended")
    world.cluster.run("scontrol", "update", "partition=train", "state=up")
    world.nothing_is_left()


def restarts_start_no_second_job(world):
    run, queued = world.peer.order(script(world, "echo ready; sleep 6; " + OK), EVERYWHERE)
    world.wait_for(lambda: run.log, "no log")
    world.cluster.wait_until_saved(queued.run)
    world.stop_runner("head", signal.SIGKILL)
    world.cluster.kill_controller()
    world.start_head()
    time.sleep(1)
    world.cluster.start_controller()
    assert world.result(run, queued)[0]["status"] == "succeeded"
    world.no_job_is_left()
    assert len(world.jobs(queued)) == 1 and len(queued.leases) == 1, (world.jobs(queued), queued.leases)
    world.nothing_is_left()


def kill_all_of(world, node):
    """As if the node lost its power: its runner, slurmd, and the jobs on it."""
    world.stop_runner(node, signal.SIGKILL)
    daemon = world.cluster.daemons[node]
    os.killpg(daemon.pid, signal.SIGKILL)
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                line = file.read()
            if b"slurmstepd" in line and os.readlink(f"/proc/{name}/ns/uts") == world.spaces[node]:
                os.kill(int(name), signal.SIGKILL)
        except OSError:
            pass


def a_node_that_dies_loses_an_attempt(world):
    run, queued = world.peer.order(script(world, "echo ready; sleep 7; : MARK; " + OK), EVERYWHERE)
    world.wait_for(lambda: run.log, "no log")
    node = queued.leases[0][1]
    kill_all_of(world, node)
    world.nothing_runs()
    world.cluster.run("scontrol", "update", f"node={node}", "state=down", "reason=crash")
    run.log = b""
    outcome = world.result(run, queued)[0]
    assert outcome["status"] == "succeeded" and [one[0] for one in queued.leases] == [1, 2] and queued.leases[1][1] != node, (outcome, queued.leases)
    world.cluster.daemons[node] = world.cluster.start_node(node)
    world.spaces = spaces(world)
    world.start_runner(node, *GPUS(world))
    world.cluster.run("scontrol", "update", f"node={node}", "state=resume", check=False)  # it may have come back by itself
    world.wait_for(lambda: set(world.cluster.run("sinfo", "-h", "-o", "%T").split()) == {"idle"}, "the node does not come back")
    world.nothing_is_left()


def a_run_gets_the_devices_of_its_job(world):
    wanted = {"devices": {"count": 1, "type": "H200", "memory_bytes": 0}}
    run, queued = world.peer.order(script(world, "echo ready; sleep 3; " + OK, **wanted), ["ae/dxb"])
    world.wait_for(lambda: run.log, "no log")
    other, second = world.peer.order(script(world, OK, **wanted), ["ae/dxb"])  # Slurm has another device left, which is no H200
    value = world.refusal(other, second)
    assert value["check"] == "devices", value
    assert world.result(run, queued)[0]["status"] == "succeeded"
    assert [one["uuid"][-1] for one in world.details(run, queued)["sijil_devices"]] == ["0"]
    world.nothing_is_left()


def a_job_of_nobody_gets_nothing(world):
    place = world.at("node1", "here", "jobs")
    before = len(world.peer.asked)
    job = [RUNNER, "job", f"--jobs={place}", "3d0c2f1a-9b1e-4a57-8a43-0d6f5f0c7a11", "1"]
    done = subprocess.run(["setpriv", "--reuid=games", "--clear-groups", *job], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "the runner of this node" in done.stderr and len(world.peer.asked) == before, done
    done = subprocess.run(job, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "did not get the run" in done.stderr and world.peer.asked[-1]["run"] == job[3], done
    for words, says in ((["x", "1"], "UUID"), ([job[3], "0"], "attempt"), ([job[3]], "takes RUN and ATTEMPT"), ([job[3], "1 x"], "devices")):
        done = subprocess.run([*job[:3], *words], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode in (1, 2) and says in done.stderr, (words, done)
    done = subprocess.run([*job[:2], "--jobs=/nowhere/jobs", *job[3:]], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "no runner takes jobs at /nowhere/jobs" in done.stderr, done


def keys_that_others_could_read_are_not_used(world):
    folder = world.at("readable")
    shutil.copytree(world.at("node1", "state"), folder)
    for path, _, files in os.walk(folder):
        for name in (path, *(os.path.join(path, one) for one in files)):
            shutil.chown(name, CALLER)
    done = subprocess.run(["setpriv", f"--reuid={CALLER}", "--clear-groups", RUNNER, "serve", "--state=" + folder, "--work=/tmp/" + MARK, f"--jobs={folder}/jobs"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "its runs could read its key" in done.stderr, done
    shutil.rmtree("/tmp/" + MARK, ignore_errors=True)
    done = subprocess.run([RUNNER, "serve", "--state=" + world.at("runner", "state"), "--slurm=" + world.cluster.url, "--slurm-region=ae/dxb"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "this machine only schedules" in done.stderr, done


def a_run_of_two_nodes_has_one_job(world):
    """Slurm starts the job on both nodes at once, and their runners join the nodes."""
    if not os.path.exists("/dev/net/tun"):
        print("left out: a run of two nodes, because there is no /dev/net/tun")
        return
    code = world.peer.push("code", {"train.py": TRAIN.encode()})
    wanted = {**spec(code), "nodes": 2, "network": "tasks", "argv": ["/usr/bin/python3", "/code/train.py"]}
    run, queued = world.peer.order(wanted, EVERYWHERE)
    other = world.peer.runs[queued.run + " 1"]
    world.wait_for(lambda: (run.result and other.result) or run.refusal or other.refusal, "no result")
    assert run.refusal is None and other.refusal is None and sorted(name for _, name in queued.leases) == list(NODES), queued.leases
    outcomes = [world.registry.statement(one.result, queued.leases[node][1])["predicate"]["runDetails"]["sijil_outcome"]["status"]
                for node, one in enumerate((run, other))]
    assert outcomes == ["succeeded", "succeeded"], outcomes
    assert b"rank 0 of 2 at 198.18.0.1: 3.000 1.000" in run.log and b"rank 1 of 2" in other.log, (run.log, other.log)
    world.no_job_is_left()
    (job,) = world.jobs(queued)
    assert "NumNodes=2 " in world.cluster.run("scontrol", "show", "job", job[0])
    world.nothing_is_left()


def the_commands_are_another_way(world):
    world.stop_runner("head")
    world.start_head(url="commands:")
    run, queued = world.peer.order(script(world, OK), ["ae/dxb"])
    assert world.result(run, queued)[0]["status"] == "succeeded" and queued.leases == [(1, "node1")]
    world.no_job_is_left()
    assert len(world.jobs(queued)) == 1
    world.stop_runner("head")
    world.start_head()


def a_held_job_does_not_block_its_run(world):
    """Slurm holds a job that it could not launch; here the administrator does."""
    world.stop_runner("head")
    world.start_head(patience=3)
    world.cluster.run("scontrol", "update", "partition=train", "state=down")
    run, queued = world.peer.order(script(world, OK), EVERYWHERE)
    world.wait_for(lambda: world.jobs(queued, "pending"), "no job waits")
    first = world.jobs(queued)[0][0]
    world.cluster.run("scontrol", "hold", first)
    world.cluster.run("scontrol", "update", "partition=train", "state=up")
    assert world.result(run, queued)[0]["status"] == "succeeded" and len(queued.leases) == 1, queued.leases
    world.no_job_is_left()
    assert [one[0] for one in world.jobs(queued)].count(first) == 1 and len(world.jobs(queued)) == 2, world.jobs(queued)
    world.stop_runner("head")
    world.start_head()


def a_scheduler_that_lies_starts_and_ends_nothing(world):
    world.stop_runner("head")
    with Liar(world.at("liar")) as liar:
        world.start_head(url=liar.url, patience=2)
        run, queued = world.peer.order(script(world, OK), EVERYWHERE)
        world.wait_for(lambda: liar.cancelled, "a job that says that it runs is not ended")
        assert len(liar.submitted) == 1 and queued.leases == [] and run.result is None
        liar.state = "COMPLETED"
        ended = time.monotonic()
        world.wait_for(lambda: len(liar.submitted) == 2, "a run that nobody has is given up")
        assert queued.leases == [] and queued.state == "ordered"
        assert liar.submitted[1]["at"] - ended > 1, "it does not wait between jobs"
        for one in liar.submitted:
            assert one["name"] == queued.name(world.registry.ids["head"]) and one["constraints"] == "region-ae-dxb|region-ae-auh", one
        liar.broken = True
        world.wait_for(lambda: world.has_said("head", "can't be started or ended now"), "it does not say that the cluster is broken")
        liar.broken = False
        world.peer.end(queued)  # its order has expired: the one end that it has
        listed, count = world.peer.listed, len(liar.submitted)
        world.wait_for(lambda: world.peer.listed > listed + 1, "it asks for no more")
        assert len(liar.submitted) == count, "a run that has ended gets a job"
        world.stop_runner("head")
    world.start_head()


TESTS = (the_digits_model_is_the_same_as_here, the_administrator_ends_a_job, the_registry_ends_a_run, restarts_start_no_second_job,
         a_node_that_dies_loses_an_attempt, a_run_gets_the_devices_of_its_job, a_job_of_nobody_gets_nothing, keys_that_others_could_read_are_not_used,
         a_run_of_two_nodes_has_one_job, the_commands_are_another_way, a_held_job_does_not_block_its_run,
         a_scheduler_that_lies_starts_and_ends_nothing)


def spaces(world):
    """The name space of each node's host name."""
    return {node: os.readlink(f"/proc/{daemon.pid}/ns/uts") for node, daemon in world.cluster.daemons.items()}


def GPUS(world):
    return f"--nvml={os.path.join(BUILD, 'tests/runner/libfake_nvml.so')}", f"--devices={world.at('nodes')}"


def make_devices(folder):
    os.makedirs(folder)
    for name in ("nvidia0", "nvidia1", "nvidia2", "nvidiactl"):
        os.symlink("/dev/null", os.path.join(folder, name))


def run_all(world):
    make_devices(world.at("nodes"))
    world.token, world.spaces = world.cluster.token(CALLER), spaces(world)
    for node in NODES:
        world.start_runner(node, *GPUS(world))
    world.start_head("--slurm-gres=H200=gpu:fake")
    for test in TESTS:
        if not sys.argv[2:] or test.__name__ in sys.argv[2:]:
            began = time.monotonic()
            test(world)
            print(f"ok {test.__name__} {time.monotonic() - began:.1f} s", flush=True)
    for name in list(world.runners):
        world.stop_runner(name)
    world.nothing_is_left()


def main():
    missing = why_not()
    done = subprocess.run([RUNNER, "check", "--work=/var/tmp/" + MARK], capture_output=True, text=True, check=False)
    if missing is None and "does not work: the sandbox can't be made" in done.stdout:
        missing = done.stdout
    if missing:
        print(f"left out: {missing}")
        return 77
    folder = tempfile.mkdtemp(prefix="sijil-cluster-", dir="/var/tmp")
    os.chmod(folder, 0o755)
    for node in NODES:
        os.makedirs(os.path.join(folder, node, "here"))
    world = None
    try:
        with Cluster({node: os.path.join(folder, node, "here") for node in NODES}) as cluster:
            world = SlurmWorld(folder, cluster)
            run_all(world)
    except BaseException:
        traceback.print_exc()
        if world is not None:
            world.show_logs()
        raise
    finally:
        if world is not None:
            world.close()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
