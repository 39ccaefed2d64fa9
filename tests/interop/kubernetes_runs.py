#!/usr/bin/env python3
"""Signed training runs in pods of a real Kubernetes cluster, from the request to the admitted artifact: a registry with its database and keys, `sijil-runner serve
--kubernetes` with the rights of packaging/kubernetes/sijil.yaml, and the digits model of examples/digits. Environment: SIJIL_BUILD, SIJIL_ENROL_TOOL, INTEROP_PROGRAMS."""
import contextlib
import importlib.util
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
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
from sijil_test import login_of, make_robot, program, sha256  # noqa: E402

SPACE, SYSTEM, ACCOUNT, REGION = "sijil-runs", "sijil-system", "sijil-runner", "local/main"
PREFIX = "sijil.node-restriction.kubernetes.io/"
JOBS, NODE_OF = f"/apis/batch/v1/namespaces/{SPACE}/jobs", "/api/v1/nodes/"
DIGITS = os.path.join(ROOT, "examples/digits")
LOGIN_S = 120  # of its ten minutes; a case takes the rest
ENDS = ("succeeded", "failed", "cancelled", "expired", "refused", "quarantined")
LIBRARIES = ("/usr/lib", "/usr/lib/x86_64-linux-gnu")
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
# The files that a process of Python has used: what it opened, modules, and libraries, also by the names by which it loaded them.
USED = """
import atexit, importlib.util, socket, sys  # socket: for tasks
opened = set()
sys.addaudithook(lambda event, words: opened.add(words[0]) if event in ('open', 'ctypes.dlopen') and isinstance(words[0], str) else None)
def show():
    used = opened | {importlib.util.source_from_cache(one) for one in opened if one.endswith('.pyc')}
    used |= {getattr(one, '__file__', None) for one in list(sys.modules.values())} | {getattr(one, '__cached__', None) for one in list(sys.modules.values())}
    with open('/proc/self/maps') as file: used |= {line.split()[-1] for line in file if line.split()[-1].startswith('/')}
    with open(sys.argv[1], 'w') as file: file.write('\\n'.join(sorted(one for one in used if one)))
atexit.register(show)
import runpy; runpy.run_path(sys.argv[2], run_name='__main__')
"""
state = {}
server = RunFleet(1).start()
sql = server.sql


# ---- the image of runs: Python, as this machine has it ----

def used_files(script, **environment):
    """What a training script needs, found by training."""
    folder = tempfile.mkdtemp(dir=FOLDER.name)
    out = os.path.join(folder, "used")
    subprocess.run(["/usr/bin/python3", "-c", USED, out, script], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   env={**ENVIRONMENT, "SIJIL_OUTPUTS": folder, "SIJIL_HEARTBEAT": folder + "/beat", "PATH": "/usr/bin:/bin", **environment})
    with open(out, encoding="utf-8") as file:
        return [line for line in file.read().split("\n") if os.path.isfile(line) and line.startswith(("/usr/", "/lib"))]


def python_image(name, used, more=()):
    names = {}
    for entry in (each for folder in LIBRARIES for each in os.scandir(folder)):
        names.setdefault(os.path.realpath(entry.path), []).append(entry.path)
    files = {"bin": "->usr/bin", "lib": "->usr/lib", "lib64": "->usr/lib64", "usr/bin/sh": os.path.realpath("/bin/sh"), "usr/bin/sleep": "/usr/bin/sleep", "usr/bin/mkdir": "/bin/busybox",
             "usr/bin/python3": os.path.realpath("/usr/bin/python3"), "usr/lib64/ld-linux-x86-64.so.2": os.path.realpath("/lib64/ld-linux-x86-64.so.2")}
    files.update(more)
    for path in used:
        real = os.path.realpath(path)
        for link in {path, *(names.get(real, []) if ".so" in path else ())}:
            files[link.removeprefix("/").replace("lib/x86_64", "usr/lib/x86_64", 1) if link.startswith("/lib/") else link.removeprefix("/")] = real
    return state["cluster"].add_image(f"localhost/{name}@", files)


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
    state["alice"], state["login_ends"] = Person(world, "alice"), time.monotonic() + LOGIN_S
    state["pusher"] = server.client(make_robot(server, "pusher", "publisher", PROJECT))
    data = os.path.join(FOLDER.name, "data")
    subprocess.run(["/usr/bin/python3", os.path.join(DIGITS, "data.py"), data], check=True)
    state["data"] = {"name": "digits", **push("digits", {"digits.csv": read(data + "/digits.csv")})}
    state["code"] = push("digits-code", {"train.py": read(DIGITS + "/train.py")})
    cluster = state["cluster"]
    cluster.apply(os.path.join(ROOT, "packaging/kubernetes/sijil.yaml"))
    os.makedirs(os.path.join(FOLDER.name, "in"))
    os.symlink(data, os.path.join(FOLDER.name, "in/digits"))
    state["agent"] = cluster.add_image("localhost/sijil-pod@", {name: program(name) for name in ("sijil-pod", "sijil-pod-devices")})
    state["used"] = used_files(DIGITS + "/train.py", SIJIL_INPUTS=os.path.join(FOLDER.name, "in"))
    state["python"] = python_image("python", state["used"])
    node = NODE_OF + cluster.node
    cluster.api("PATCH", node, {"metadata": {"labels": {PREFIX + "region": REGION.replace("/", "."), PREFIX + "jurisdiction.AE": "true"}}})
    state["uid"] = cluster.api("GET", node)["metadata"]["uid"]
    wait_for("accounts", lambda: has_accounts(cluster))
    state["key"] = cluster.write("token", cluster.token(SYSTEM, ACCOUNT))


def has_accounts(cluster):
    return all(any(one["metadata"]["name"] == name for one in cluster.api("GET", f"/api/v1/namespaces/{space}/serviceaccounts")["items"])
               for space, name in ((SPACE, "sijil-run"), (SYSTEM, ACCOUNT)))


def pods_runner(pool, *more, nodes=None, devices=0, payload=None):
    """Each case has a runner of its own: the folder of one must not come back (docs/runner.md)."""
    runner = Runner(state["world"], pool=pool, assurance=2, isolation="cgroup-v1", nodes=nodes or [state["uid"]], devices=devices)
    cluster = state["cluster"]
    words = [f"--kubernetes={cluster.url}", f"--ca-file={cluster.ca}", f"--kubernetes-token={state['key']}", f"--kubernetes-image={state['agent']}",
             f"--kubernetes-payload={payload or state['python']}", f"--kubernetes-listen={HOST}:{sijil_test.free_port()}", "--least=cgroup-v1", "--cpus=4", f"--memory={8 << 30}",
             "--kubernetes-patience=120", *more]
    return RealRunner(server, runner, words=words)


def wanted(pool, code=None, script=None, **more):
    limits = {"time_s": 300, "grace_s": 2, "cpus": 1, "memory_bytes": 1 << 29, "output_bytes": 1 << 24, "output_files": 10, "log_bytes": 1 << 20, "processes": 64}
    environment = {**ENVIRONMENT, **more.pop("variables", {})}
    limits.update({name: more.pop(name) for name in list(more) if name in limits})
    return spec(code=code or state["code"], inputs=[state["data"]], pool=pool, environment=environment, limits=limits, isolation="rlimits", assurance=1,
                argv=["/bin/sh", "-c", script] if script else ["/usr/bin/python3", "/code/train.py"],
                outputs=[{"name": "model", "repository": PROJECT + "/trained", "type": "application/vnd.cncf.model.manifest.v1+json"}], **more)


def asked_for(**more):
    if time.monotonic() > state["login_ends"]:  # a login is valid for ten minutes
        state["alice"].login, state["login_ends"] = login_of(server, "alice"), time.monotonic() + LOGIN_S
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


TASKS = """
import os, socket, sys, threading, time
rank, world, host, port = int(os.environ['RANK']), int(os.environ['WORLD_SIZE']), sys.argv[1], int(sys.argv[2])
place = (os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))
def reaches(address):
    with socket.socket() as one:
        one.settimeout(2)
        try: one.connect(address); return True
        except OSError: return False
if rank == 0:
    server = socket.create_server(('0.0.0.0', place[1]))
    peers = [server.accept()[0] for _ in range(world - 1)]
    total = sum(int(peer.recv(16)) for peer in peers)
    for peer in peers: peer.sendall(b'%d' % total)
    print('listens', flush=True)
    server.settimeout(10)
    try: server.accept(); print('came')
    except OSError: print('nobody')
    os.mkdir('/out/model')
    with open('/out/model/total', 'w') as file: file.write(str(total))
else:
    for attempt in range(600):
        try: peer = socket.socket(); peer.connect(place); break
        except ConnectionRefusedError: time.sleep(0.05)
    peer.sendall(b'%d' % rank)
    total = int(peer.recv(16))
print('total', total, 'runner', reaches((host, port)), 'api', reaches(('10.96.0.1', 443)), flush=True)
"""


NO_IPV6 = "/usr/bin/python3 -c 'import socket; socket.socket(socket.AF_INET6)' 2> /dev/null"


def tasks_of_a_pod_reach_each_other_and_nobody_else():
    """This cluster enforces no NetworkPolicy: what answers at the runner's own address, and what calls the pod, is kept out by the sockets of tasks alone."""
    code = push("tasks-code", {"tasks.py": TASKS.encode()})
    with socket.create_server((HOST, 0)) as door, pods_runner("tasks"):
        asked = asked_for(pool="tasks", code=code, tasks=4, network="tasks", script=f"exec /usr/bin/python3 /code/tasks.py {HOST} {door.getsockname()[1]}")
        wait(asked, "running", 120)
        address = pod_of(asked)["status"]["podIP"]
        while state_of(asked) == "running":  # and it is called all the time
            with contextlib.suppress(OSError), socket.create_connection((address, 29500), 0.3):
                raise AssertionError("a task is reached from outside of its pod")
        ended(asked, "succeeded", 60)
        door.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            door.accept()
            raise AssertionError("a task has left its pod")
        log = state["alice"].call("GET", f"/{asked['run']}/log").body.decode()
        assert log.count("total 6 runner False api False") == 4 and "[0] nobody" in log, log
        nothing_is_left()


def pytorch_trains_in_tasks_of_a_pod():
    """Gloo finds its peers over IPv4 alone, and the weights are the ones of this machine."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:  # without an origin it is the folder beside this file
        print("   left out: there is no PyTorch (Debian's python3-torch)")
        return
    script = os.path.join(ROOT, "tests/interop/torch/data_parallel.py")
    used = used_files(script, STEPS="2", HOME="/tmp", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(sijil_test.free_port()))
    helper = os.path.join(os.path.dirname(found.origin), "bin/torch_shm_manager")  # PyTorch only looks whether it is there
    image = python_image("torch", used, {helper.removeprefix("/"): os.path.realpath(helper)})
    more = {"code": push("torch-code", {"train.py": read(script)}), "tasks": 3, "network": "tasks", "variables": {"HOME": "/tmp", "STEPS": "100"}, "processes": 512,
            "memory_bytes": 2 << 30}
    with RealRunner(server, Runner(state["world"], pool="torch-here")):
        here = ended(asked_for(pool="torch-here", script="exec /usr/bin/python3 /code/train.py", **more), "succeeded", 180)
    with pods_runner("torch", "--kubernetes-patience=300", payload=image):
        asked = asked_for(pool="torch", script=f"{NO_IPV6} && exit 9; exec /usr/bin/python3 /code/train.py", **more)
        shown = ended(asked, "succeeded", 400)
        log = state["alice"].call("GET", f"/{asked['run']}/log").body.decode()
        assert all(f"rank {rank} of 3 on cpu: {word}" in log for rank in range(3) for word in ("begin", "end")), log
        nothing_is_left()
    assert shown["outputs"][0]["digest"] == here["outputs"][0]["digest"], (shown, here, log)


def devices_come_from_the_plugin_of_the_node():
    """A real kubelet gives what a plugin has; the pod's driver says what that is; and it stands in the signed result."""
    plugin = os.path.join(os.environ["INTEROP_PROGRAMS"], "device-plugin")
    if not os.access(plugin, os.X_OK):
        print("   left out: there is no plugin of devices")
        return
    library, place = os.path.join(BUILD, "tests/runner/libfake_pod_gpu.so"), "/usr/local/nvidia/lib64/libnvidia-ml.so.1"
    cluster, fake = state["cluster"], "sijil.test/gpu"
    node = NODE_OF + cluster.node
    os.chmod(library, 0o755)
    words = [plugin, "/var/lib/kubelet/device-plugins", fake, "1", library, place]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        try:
            wait_for("the device", lambda: cluster.api("GET", node)["status"]["allocatable"].get(fake) == "1")
            wanted = {"count": 1, "type": "H200", "memory_bytes": 1 << 30}
            with pods_runner("gpu", f"--kubernetes-device={fake}=1:{141 << 30}:NVIDIA H200", devices=1):
                asked = asked_for(pool="gpu", devices=wanted, script="mkdir /out/model; echo 1 > /out/model/1; sleep 4")
                shown = ended(asked, "succeeded", 120)
                details = opened(next(one["envelope"] for one in shown["envelopes"] if one["kind"] == "result"))[0]["predicate"]["runDetails"]
                assert details["sijil_devices"] == [{"uuid": "GPU-00000000-1111-2222-3333-444444444440", "type": "NVIDIA H200", "driver": "570.86.15",
                                                     "memory_bytes": 141 << 30, "utilisation_percent": 87}], details
                nothing_is_left()
            cluster.api("PATCH", node + "/status", {"status": {"capacity": {"sijil.test/none": "1"}}})  # a node that says so, and no plugin
            with pods_runner("lies", f"--kubernetes-device=sijil.test/none=1:{141 << 30}:NVIDIA H200", devices=1):
                asked = asked_for(pool="lies", devices=wanted, script="exit 0")
                wait(asked, "refused", 120)
                assert "can't tell which devices it has" in state["alice"].run(asked)["reason"], state["alice"].run(asked)
                nothing_is_left()
        finally:
            process.kill()


def one_attempt(asked):
    return sql(f"SELECT count(*) FROM run_attempt WHERE run_id = '{asked['run']}'").strip() == "1"


def a_killed_kubelet_ends_no_run():
    """Its pods go on without it, and so does the talk. The run has its one end; the job goes when the kubelet is back."""
    with pods_runner("kubelet"):
        asked = asked_for(pool="kubelet", script="sleep 8; exec /usr/bin/python3 /code/train.py")
        wait(asked, "running", 120)
        state["cluster"].kill("kubelet")
        shown = ended(asked, "succeeded", 180)
        state["cluster"].run_kubelet()
        assert one_attempt(asked) and shown["outputs"][0]["digest"] == state["alice"].run(state["made"])["outputs"][0]["digest"], shown
        nothing_is_left()


def a_kubelet_that_returns_finds_its_run():
    with pods_runner("returns"):
        asked = asked_for(pool="returns", script="sleep 20; exec /usr/bin/python3 /code/train.py")
        wait(asked, "running", 120)
        for _ in range(2):
            state["cluster"].kill("kubelet")
            time.sleep(2)
            state["cluster"].run_kubelet()
            time.sleep(2)
        assert ended(asked, "succeeded", 180)["attempt"] == 1 and one_attempt(asked)
        nothing_is_left()


def a_restarted_containerd_ends_no_run():
    with pods_runner("containerd"):
        asked = asked_for(pool="containerd", script="sleep 12; exec /usr/bin/python3 /code/train.py")
        wait(asked, "running", 120)
        state["cluster"].kill("containerd")
        time.sleep(2)
        state["cluster"].run_containerd()
        assert ended(asked, "succeeded", 180)["attempt"] == 1 and one_attempt(asked)
        nothing_is_left()


def a_crashed_node_ends_its_run_once():
    """Kubelet and containers are gone at once, and the API still says that the pod runs."""
    with pods_runner("crashed"):
        asked = asked_for(pool="crashed", script="sleep 1000")
        wait(asked, "running", 120)
        pod = pod_of(asked)["metadata"]["uid"]
        state["cluster"].kill("kubelet")
        state["cluster"].kill_tasks(pod)
        reason = ended(asked, "cancelled", 180)["reason"]
        assert "the pod has gone" in reason and one_attempt(asked), reason
        state["cluster"].run_kubelet()
        nothing_is_left()


def a_deleted_node_ends_its_run_and_is_another_one():
    """Whoever makes it anew makes another node: nobody has enrolled that one."""
    cluster, node = state["cluster"], NODE_OF + state["cluster"].node
    with pods_runner("deleted") as real:
        asked = asked_for(pool="deleted", script="sleep 1000")
        wait(asked, "running", 120)
        cluster.api("DELETE", node)
        assert "pod" in ended(asked, "cancelled", 240)["reason"] and one_attempt(asked)
        nothing_is_left()
        cluster.kill("kubelet")
        cluster.run_kubelet()
        wait_for("the node", cluster.has_node)
        cluster.api("PATCH", node, {"metadata": {"labels": {PREFIX + "region": REGION.replace("/", "."), PREFIX + "jurisdiction.AE": "true"}}})
        assert cluster.api("GET", node)["metadata"]["uid"] != state["uid"]
        asked = asked_for(pool="deleted", script="exit 0")
        wait(asked, "refused", 180)
        assert "not on the node that was enrolled" in real.said(), real.said()
        nothing_is_left()


# ---- what a run costs ----

def plain_job(name):
    """What `kubectl create job` makes, within Pod Security, and with a place to write to. Code and data are in the image."""
    variables = {**ENVIRONMENT, "SIJIL_INPUTS": "/in", "SIJIL_OUTPUTS": "/out", "SIJIL_HEARTBEAT": "/out/heartbeat"}
    confined = {"allowPrivilegeEscalation": False, "runAsNonRoot": True, "runAsUser": 64002, "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}}
    pod = {"restartPolicy": "Never", "automountServiceAccountToken": False, "volumes": [{"name": "out", "emptyDir": {"medium": "Memory"}}], "securityContext": {"fsGroup": 64002},
           "containers": [{"name": "payload", "image": state["alone"], "command": ["/usr/bin/python3", "/code/train.py"], "securityContext": confined,
                           "env": [{"name": each, "value": value} for each, value in variables.items()], "volumeMounts": [{"name": "out", "mountPath": "/out"}]}]}
    state["cluster"].api("POST", JOBS, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"backoffLimit": 0, "template": {"spec": pod}}})


def seconds_of_job(name):
    began = time.monotonic()
    plain_job(name)
    wait_for("a job", lambda: any(each["type"] == "Complete" for each in state["cluster"].api("GET", f"{JOBS}/{name}")["status"].get("conditions", [])))
    took = time.monotonic() - began
    state["cluster"].api("DELETE", f"{JOBS}/{name}", {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"})
    nothing_is_left()
    return took


def seconds_of_run():
    began = time.monotonic()
    asked = asked_for(pool="costs")
    wait(asked, "succeeded", 120)
    took = time.monotonic() - began
    nothing_is_left()
    return took


def what_a_run_costs_beside_a_job():
    """The digits model, from the request to the admitted output, beside a job of one container that trains it; in turn, so that both see the same machine."""
    took = {"job": [], "run": []}
    state["alone"] = python_image("alone", state["used"], {"code/train.py": DIGITS + "/train.py", "in/digits/digits.csv": os.path.join(FOLDER.name, "data/digits.csv")})
    with pods_runner("costs"):
        for number in range(int(os.environ.get("KUBERNETES_COSTS", "3"))):
            took["job"].append(seconds_of_job(f"plain-{number}"))
            took["run"].append(seconds_of_run())
    job, run = (statistics.median(took[name]) for name in ("job", "run"))
    print(f"   median of {len(took['run'])}: a job {job:.2f} s, a run {run:.2f} s, {run - job:.2f} s more (runs {min(took['run']):.2f} to {max(took['run']):.2f} s)", flush=True)
    assert run < job + 20, took


def a_node_that_nobody_enrolled_gets_nothing():
    with pods_runner("elsewhere", "--kubernetes-patience=15", nodes=[str(uuid.uuid4())]) as real:
        asked = asked_for(pool="elsewhere")
        wait(asked, "refused", 120)
        assert "not on the node that was enrolled" in real.said(), real.said()
        nothing_is_left()


if __name__ == "__main__":
    with Cluster(PROGRAMS) as up:
        state["cluster"] = up
        cases = (the_digits_are_trained_bit_for_bit_as_on_this_machine, an_outsider_verifies_the_bundle, a_cancelled_run_ends_its_pod, memory_has_its_limit,
                 tasks_of_a_pod_reach_each_other_and_nobody_else, pytorch_trains_in_tasks_of_a_pod, devices_come_from_the_plugin_of_the_node,
                 a_killed_runner_is_followed_by_another_attempt, the_api_may_go_and_come, an_evicted_pod_ends_its_run, a_killed_kubelet_ends_no_run, a_kubelet_that_returns_finds_its_run,
                 a_restarted_containerd_ends_no_run, a_crashed_node_ends_its_run_once, a_node_that_nobody_enrolled_gets_nothing, what_a_run_costs_beside_a_job,
                 a_deleted_node_ends_its_run_and_is_another_one)
        sijil_test.run(prepare, *(case for case in cases if len(sys.argv) == 1 or case.__name__ in sys.argv[1:]), server=server)
