#!/usr/bin/env python3
"""Signed training runs in pods of a real Kubernetes cluster, from the request to the admitted artifact: a registry with its database and keys, `sijil-runner serve
--kubernetes` with the rights of packaging/kubernetes/sijil.yaml, and the digits model of examples/digits. Environment: SIJIL_BUILD, SIJIL_ENROL_TOOL, INTEROP_PROGRAMS."""
import json
import os
import subprocess
import sys
import time
import uuid

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
sys.path.insert(0, os.path.join(ROOT, "tests/scenario"))
from kubernetes_cluster import HOST, Cluster, wait_for, why_not  # noqa: E402

BUILD, PROGRAMS = os.environ["SIJIL_BUILD"], os.path.join(os.environ["INTEROP_PROGRAMS"], "kubernetes")
if why_not(PROGRAMS):
    print(f"left out: {why_not(PROGRAMS)}")
    sys.exit(0)

import sijil_test  # noqa: E402
from real_runner import RealRunner  # noqa: E402
from run_fleet import RunFleet  # noqa: E402
from run_world import FOLDER, PROJECT, Person, Runner, World, opened, spec  # noqa: E402
from sijil_test import make_robot, program, sha256  # noqa: E402

SPACE, SYSTEM, ACCOUNT, REGION = "sijil-runs", "sijil-system", "sijil-runner", "local/main"
PREFIX = "sijil.node-restriction.kubernetes.io/"
JOBS, NODE_OF = f"/apis/batch/v1/namespaces/{SPACE}/jobs", "/api/v1/nodes/"
DIGITS = os.path.join(ROOT, "examples/digits")
ENDS = ("succeeded", "failed", "cancelled", "expired", "refused", "quarantined")
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
# The files that a process of Python has used: modules, and libraries.
USED = """
import atexit, sys
def show():
    used = {getattr(one, '__file__', None) for one in list(sys.modules.values())} | {getattr(one, '__cached__', None) for one in list(sys.modules.values())}
    with open('/proc/self/maps') as file: used |= {line.split()[-1] for line in file if line.split()[-1].startswith('/')}
    with open(sys.argv[1], 'w') as file: file.write('\\n'.join(sorted(one for one in used if one)))
atexit.register(show)
import runpy; runpy.run_path(sys.argv[2], run_name='__main__')
"""
state = {}
server = RunFleet(1).start()
sql = server.sql


# ---- the image of runs: Python, as this machine has it ----

def used_files(data):
    """What training needs, found by training."""
    out = os.path.join(FOLDER.name, "used")
    folder = os.path.join(FOLDER.name, "tried")
    os.makedirs(folder + "/in")
    os.symlink(data, folder + "/in/digits")
    subprocess.run(["/usr/bin/python3", "-c", USED, out, DIGITS + "/train.py"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   env={**ENVIRONMENT, "SIJIL_INPUTS": folder + "/in", "SIJIL_OUTPUTS": folder, "SIJIL_HEARTBEAT": folder + "/beat", "PATH": "/usr/bin:/bin"})
    with open(out, encoding="utf-8") as file:
        return [line for line in file.read().split("\n") if os.path.isfile(line) and line.startswith(("/usr/", "/lib"))]


def python_image(cluster, data):
    names = {}
    for entry in os.scandir(LIBRARIES):
        names.setdefault(os.path.realpath(entry.path), []).append(entry.path)
    files = {"bin": "->usr/bin", "lib": "->usr/lib", "lib64": "->usr/lib64", "usr/bin/sh": os.path.realpath("/bin/sh"), "usr/bin/sleep": "/usr/bin/sleep",
             "usr/bin/python3": os.path.realpath("/usr/bin/python3"), "usr/lib64/ld-linux-x86-64.so.2": os.path.realpath("/lib64/ld-linux-x86-64.so.2")}
    for path in used_files(data):
        real = os.path.realpath(path)
        for name in {path, *(names.get(real, []) if ".so" in path else ())}:
            files[name.removeprefix("/").replace("lib/x86_64", "usr/lib/x86_64", 1) if name.startswith("/lib/") else name.removeprefix("/")] = real
    return cluster.add_image("localhost/python@", files)


# ---- the world ----

def push(name, files):
    where = f"{PROJECT}/{name}"
    there = state["pusher"].repository(where)
    layers = [{"mediaType": "application/octet-stream", "digest": there.push_blob(content), "size": len(content),
               "annotations": {"org.opencontainers.image.title": title}} for title, content in files.items()]
    text = there.manifest(layers=layers)
    assert there.put_manifest("latest", text).status == 201
    return {"repository": where, "digest": sha256(text)}


def read(path):
    with open(path, "rb") as file:
        return file.read()


def prepare():
    world = state["world"] = World(server, server.path("approver.pem"), f"host={server.database_at} dbname=sijil_template user=sijil_app", server.path("socket"))
    state["alice"] = Person(world, "alice")
    state["pusher"] = server.client(make_robot(server, "pusher", "publisher", PROJECT))
    data = os.path.join(FOLDER.name, "data")
    subprocess.run(["/usr/bin/python3", os.path.join(DIGITS, "data.py"), data], check=True)
    state["data"] = {"name": "digits", **push("digits", {"digits.csv": read(data + "/digits.csv")})}
    state["code"] = push("digits-code", {"train.py": read(DIGITS + "/train.py")})
    cluster = state["cluster"]
    cluster.apply(os.path.join(ROOT, "packaging/kubernetes/sijil.yaml"))
    state["agent"], state["python"] = cluster.add_image("localhost/sijil-pod@", {"sijil-pod": program("sijil-pod")}), python_image(cluster, data)
    node = NODE_OF + cluster.node
    cluster.api("PATCH", node, {"metadata": {"labels": {PREFIX + "region": REGION.replace("/", "."), PREFIX + "jurisdiction.AE": "true"}}})
    state["uid"] = cluster.api("GET", node)["metadata"]["uid"]
    wait_for("accounts", lambda: has_accounts(cluster))
    state["key"] = cluster.write("token", cluster.token(SYSTEM, ACCOUNT))


def has_accounts(cluster):
    return all(any(one["metadata"]["name"] == name for one in cluster.api("GET", f"/api/v1/namespaces/{space}/serviceaccounts")["items"])
               for space, name in ((SPACE, "sijil-run"), (SYSTEM, ACCOUNT)))


def pods_runner(pool, *more, nodes=None):
    """Each case has a runner of its own: the folder of one must not come back (docs/runner.md)."""
    runner = Runner(state["world"], pool=pool, assurance=2, isolation="cgroup-v1", nodes=nodes or [state["uid"]])
    cluster = state["cluster"]
    words = [f"--kubernetes={cluster.url}", f"--ca-file={cluster.ca}", f"--kubernetes-token={state['key']}", f"--kubernetes-image={state['agent']}",
             f"--kubernetes-payload={state['python']}", f"--kubernetes-listen={HOST}:{sijil_test.free_port()}", "--least=cgroup-v1", "--cpus=4", f"--memory={8 << 30}",
             "--kubernetes-patience=120", *more]
    return RealRunner(server, runner, words=words)


def wanted(pool, code=None, script=None, **more):
    limits = {"time_s": 300, "grace_s": 2, "cpus": 1, "memory_bytes": 1 << 29, "output_bytes": 1 << 24, "output_files": 10, "log_bytes": 1 << 20, "processes": 64}
    limits.update({name: more.pop(name) for name in list(more) if name in limits})
    return spec(code=code or state["code"], inputs=[state["data"]], pool=pool, environment=ENVIRONMENT, limits=limits, isolation="rlimits", assurance=1,
                argv=["/bin/sh", "-c", script] if script else ["/usr/bin/python3", "/code/train.py"],
                outputs=[{"name": "model", "repository": PROJECT + "/trained", "type": "application/vnd.cncf.model.manifest.v1+json"}], **more)


def asked_for(**more):
    return state["alice"].request(spec=wanted(**more))


def state_of(asked):
    return sql(f"SELECT state FROM run WHERE run_id = '{asked['run']}'").strip()


def wait(asked, wanted_state, seconds=120):
    """By the database, because a person gets few tokens a second."""
    wait_for(f"the run is {wanted_state}", lambda: state_of(asked) == wanted_state or state_of(asked) in set(ENDS) - {wanted_state}, seconds)
    assert state_of(asked) == wanted_state, (state_of(asked), state["alice"].run(asked).get("reason"), state["alice"].call("GET", f"/{asked['run']}/log").body)


def ended(asked, wanted_state, seconds=120):
    wait(asked, wanted_state, seconds)
    return state["alice"].run(asked)


def nothing_is_left():
    cluster = state["cluster"]
    wait_for("the end of all jobs", lambda: not cluster.api("GET", JOBS)["items"], 60)
    wait_for("the end of all pods", lambda: not cluster.api("GET", f"/api/v1/namespaces/{SPACE}/pods")["items"], 60)


def pod_of(asked):
    found = state["cluster"].api("GET", f"/api/v1/namespaces/{SPACE}/pods")["items"]
    return next((one for one in found if asked["run"] in one["metadata"]["name"]), None)


# ---- cases ----

def the_digits_are_trained_bit_for_bit_as_on_this_machine():
    made = {}
    with RealRunner(server, Runner(state["world"], pool="here")):
        made["here"] = ended(asked_for(pool="here"), "succeeded")["outputs"][0]["digest"]
    with pods_runner("digits") as real:
        asked = asked_for(pool="digits")
        seen = set()
        while state_of(asked) not in ENDS:
            for job in state["cluster"].api("GET", JOBS)["items"]:
                seen.add(job["metadata"]["name"])
                assert all(word not in json.dumps(job) for word in ("train.py", "python3\"", "OMP_NUM_THREADS", "digits.csv", PROJECT)), job
            time.sleep(0.1)
        shown = ended(asked, "succeeded", 5)
        made["pods"] = shown["outputs"][0]["digest"]
        assert seen == {f"sijil-{asked['run']}-1-0"}, (seen, real.said())
        nothing_is_left()
    assert made["here"] == made["pods"], made
    state["made"] = asked
    result = next(one["envelope"] for one in shown["envelopes"] if one["kind"] == "result")
    details = opened(result)[0]["predicate"]["runDetails"]
    assert details["sijil_isolation"] in ("cgroup-v1", "cgroup-v2") and details["sijil_usage"]["cpu_ms"] > 0 and details["sijil_usage"]["memory_bytes"] > 1 << 20, details
    assert [one["kind"] for one in shown["envelopes"]][-1] == "admission"
    print(f"   {made['pods']}: {details['sijil_isolation']}, {details['sijil_usage']}", flush=True)


def an_outsider_verifies_the_bundle():
    keys = server.client(server.admin).api("GET", "/audit/key")
    answer = state["alice"].call("GET", f"/{state['made']['run']}/bundle")
    path, signer = os.path.join(FOLDER.name, "bundle"), os.path.join(FOLDER.name, "signer.pem")
    with open(path, "wb") as file:
        file.write(answer.body)
    with open(signer, "w", encoding="ascii") as file:
        file.write(keys["documents"])
    done = subprocess.run([program("sijil-verify"), "run", "--key", keys["vkey"], "--signer", signer, "--root", server.path("approver.pub.pem"), path],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "succeeded" in done.stdout and state["uid"] in done.stdout, (done.stdout, done.stderr)


def a_cancelled_run_ends_its_pod():
    with pods_runner("cancelled"):
        asked = asked_for(pool="cancelled", script="trap '' TERM; echo begun; while :; do sleep 1; done")
        wait(asked, "running", 120)
        assert state["alice"].call("DELETE", "/" + asked["run"]).status == 204
        assert ended(asked, "cancelled")
        nothing_is_left()


def memory_has_its_limit():
    with pods_runner("memory"):
        asked = asked_for(pool="memory", script="/usr/bin/python3 -c 'x = bytearray(400 << 20)'; exit $?", memory_bytes=64 << 20)
        assert ended(asked, "failed")["reason"] == "it used more than memory_bytes", state["alice"].run(asked)
        nothing_is_left()


def a_killed_runner_is_followed_by_another_attempt():
    with pods_runner("killed") as real:
        asked = asked_for(pool="killed", script="sleep 8; exec /usr/bin/python3 /code/train.py")
        wait(asked, "running", 120)
        real.kill()
        sql(f"UPDATE run_attempt SET deadline = now() WHERE run_id = '{asked['run']}' AND ended_at IS NULL")  # it is silent from now on
        real.start()
        shown = ended(asked, "succeeded", 180)
        assert shown["attempt"] == 2, shown
        assert shown["outputs"][0]["digest"] == state["alice"].run(state["made"])["outputs"][0]["digest"], shown
        nothing_is_left()


def the_api_may_go_and_come():
    """The talk with the agent does not go through it."""
    with pods_runner("away"):
        asked = asked_for(pool="away", script="sleep 10; exec /usr/bin/python3 /code/train.py")
        wait(asked, "running", 120)
        state["cluster"].kill_api()
        time.sleep(4)
        state["cluster"].start_api()
        assert ended(asked, "succeeded", 120)["attempt"] == 1
        nothing_is_left()


def an_evicted_pod_ends_its_run():
    with pods_runner("evicted"):
        asked = asked_for(pool="evicted", script="sleep 1000")
        wait(asked, "running", 120)
        pod = pod_of(asked)["metadata"]["name"]
        state["cluster"].api("POST", f"/api/v1/namespaces/{SPACE}/pods/{pod}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}})
        reason = ended(asked, "cancelled")["reason"]
        assert "pod" in reason, reason
        nothing_is_left()


def a_node_that_nobody_enrolled_gets_nothing():
    with pods_runner("elsewhere", "--kubernetes-patience=15", nodes=[str(uuid.uuid4())]) as real:
        asked = asked_for(pool="elsewhere")
        wait(asked, "refused", 120)
        assert "not on the node that was enrolled" in real.said(), real.said()
        nothing_is_left()


if __name__ == "__main__":
    with Cluster(PROGRAMS) as up:
        state["cluster"] = up
        sijil_test.run(prepare, the_digits_are_trained_bit_for_bit_as_on_this_machine, an_outsider_verifies_the_bundle, a_cancelled_run_ends_its_pod,
                       memory_has_its_limit, a_killed_runner_is_followed_by_another_attempt, the_api_may_go_and_come, an_evicted_pod_ends_its_run,
                       a_node_that_nobody_enrolled_gets_nothing, server=server)
