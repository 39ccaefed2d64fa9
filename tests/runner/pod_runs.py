#!/usr/bin/env python3
"""usage: pod_runs.py BUILD-FOLDER [TEST]...   `sijil-runner serve --kubernetes` against a registry's routes and a cluster that may lie (pod_world.py): a run in a
pod with its result; one end with its reason for each lie; nothing left. Needs root, because the containers are different users."""
import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time

from pod_world import NODE, REAL, SPACE, Cluster
from runner_world import BUILD, IS_ROOT, MARK, RUNNER, Registry, World, run_tests
from ports import free_port

IMAGE = "registry.example/sijil-pod@sha256:" + "0" * 64
NODES = ["11111111-2222-4333-8444-555555555555", NODE]
SEED = "a-seed-that-nobody-else-sees"
TRAIN = """set -e
echo training on $(cat /in/digits/a/one.txt) with $SEED in $PWD
if (echo x > /in/digits/a/one.txt) 2> /dev/null; then exit 9; fi
echo 'epoch 3/10' > $SIJIL_HEARTBEAT
umask 077
mkdir -p /out/model/deep
echo weights > /out/model/w.bin
echo more > /out/model/deep/m.json
echo '{"loss": 1}' > /out/metrics.jsonl
sleep 2.5
"""
WRITES = "mkdir /out/model; echo 1 > /out/model/1\n"
WAITS = "echo begun; sleep 1000; : MARK\n"


class PodWorld(World):
    patience = 60  # a pod of a busy machine begins late

    def __init__(self, folder, nodes=NODES):
        super().__init__(folder, Registry("cgroup-v2", own={"devices": 4, **({"nodes": nodes} if nodes else {})}))
        os.makedirs(os.path.join(folder, "api"))
        self.api, self.port = Cluster(os.path.join(folder, "api")), free_port()
        self.key = os.path.join(folder, "kubernetes.token")
        with open(self.key, "w", encoding="ascii") as file:
            file.write("the.runner.token")
        os.chmod(self.key, 0o600)

    def words(self):
        return [f"--kubernetes={self.api.url}", f"--ca-file={self.folder}/api/tls.pem", f"--kubernetes-token={self.key}", f"--kubernetes-image={IMAGE}",
                f"--kubernetes-payload={IMAGE}", f"--kubernetes-listen=127.0.0.1:{self.port}", "--cpus=4", f"--memory={4 << 30}", "--least=cgroup-v2", f"--kubernetes-patience={self.patience}",
                f"--kubernetes-device=nvidia.com/gpu=2:{141 << 30}:NVIDIA H200", f"--kubernetes-device=nvidia.com/mig-1g.18gb=2:{18 << 30}:NVIDIA H200 MIG 1g.18gb"]

    def start(self, *options):
        return super().start(*self.words(), *options)

    def nothing_is_left(self):
        super().nothing_is_left()
        assert not self.api.jobs and not self.api.pods_of, self.api.jobs

    def times(self, what):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return sum(what in line for line in file)

    def begun(self, text=WAITS, **more):
        """A run whose program has begun."""
        run, _ = self.give(self.script(text, **more))
        self.peer.wait(lambda: b"begun" in run.log or run.refusal or run.result, "it does not begin")
        assert run.refusal is None and run.result is None, run.refusal and self.registry.opened(run.refusal)
        return run

    def end_of(self, run):
        """Its one end. The job is removed first."""
        self.peer.wait(lambda: run.result or run.refusal, "no end")
        assert not self.api.jobs and not self.api.pods_of, self.api.jobs
        if run.refusal:
            value = self.registry.opened(run.refusal)
            return "refused", f"{value['check']}: {value['reason']}"
        outcome = self.ended(run)[0]
        return outcome["status"], outcome["reason"]


def a_run_in_a_pod(world):
    data = world.peer.push("digits", {"a/one.txt": b"digits\n", "empty": b""})
    run, lease = world.run(TRAIN, inputs=[("digits", data)], environment={"SEED": SEED})
    assert run.refusal is None and run.has_started, run.refusal and world.registry.opened(run.refusal)
    outcome, manifests = world.ended(run)
    assert outcome == {"status": "succeeded", "exit": 0, "signal": 0, "reason": ""}, outcome
    assert world.files(manifests["model"]) == {"w.bin": b"weights\n", "deep/m.json": b"more\n"}, manifests["model"]
    assert world.files(manifests["metrics"]) == {"metrics.jsonl": b'{"loss": 1}\n'}
    assert run.log == f"training on digits with {SEED} in /code\n".encode() and world.files(manifests["log"]) == {"log.txt": run.log}, run.log
    assert any(beat.get("progress") == 30 for beat in run.heartbeats), run.heartbeats
    assert "cgroup-v2" in json.dumps(world.statement(run)), world.statement(run)
    done = world.registry.verify(os.path.join(BUILD, "cmd/sijil-verify"), world.folder, {**lease.bundle, **{name: run.result[name] for name in ("certificate", "result")}})
    assert done.returncode == 0 and "succeeded" in done.stdout, (done.stdout, done.stderr)
    world.peer.wait(lambda: not os.listdir(os.path.join(world.state, "leases")), "its files are left")


def kubernetes_learns_nothing(world):
    """An opaque name, sizes, digests of images."""
    asked = b"".join(body for method, path, _, body in world.api.asked if method == "POST" and path.endswith("/jobs"))
    assert asked and all(word not in asked for word in (SEED.encode(), b"train.sh", b"/bin/sh", b"digits", b"acme", b"weights"))
    reviews = [path for _, path, _, body in world.api.asked if b"the.pod.token" in body]
    assert reviews and all(path.endswith("/tokenreviews") for path in reviews), reviews
    assert all(key == "Bearer the.runner.token" for _, path, key, _ in world.api.asked)


def ends_are_told(world):
    for text, wanted, says in (("exit 7", "failed", "status 7"), ("kill -9 $$", "failed", "signal 9"), (WRITES + "ln -s /etc /out/model/x", "failed", "symbolic link"),
                               (WRITES + "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('/out/model/s')\"", "failed", "no pipe"), (WRITES + "head -c 20000000 /dev/zero > /out/model/big", "failed", "larger than the limit"),
                               (WRITES + "ln /out/model/1 /out/model/2", "failed", "hard link"), ("echo 1 > /out/other", "failed", "belongs to no output"),
                               ("trap '' TERM; while :; do sleep 1; done", "timeout", "time_s"), ("true", "failed", "output model is missing")):
        run, _ = world.run(text, time_s=2 if "while" in text else 60)
        assert world.end_of(run)[0] == wanted and says in world.end_of(run)[1], (text, world.end_of(run))
    run, _ = world.run("head -c 300000 /dev/zero | tr '\\0' x; setsid sleep 1000 & " + WRITES, log_bytes=100000)
    assert world.end_of(run) == ("succeeded", "") and run.log == b"x" * 100000, len(run.log)


RING = """cat > /tmp/ring.py <<'PYTHON'
import os, socket, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(place) as server:
        peers = [server.accept()[0] for _ in range(world - 1)]
        total = sum(int(peer.recv(16)) for peer in peers)
        for peer in peers: peer.sendall(b"%d" % total)
else:
    for attempt in range(400):
        try: peer = socket.create_connection(place); break
        except ConnectionRefusedError: time.sleep(0.05)
    peer.sendall(b"%d" % rank)
    total = int(peer.recv(16))
print("total", total, os.environ["LOCAL_RANK"], os.environ["LOCAL_WORLD_SIZE"], os.environ["GROUP_RANK"], flush=True)
PYTHON
"""


def tasks_reach_each_other(world):
    """Through the pod's own loopback. Each has its variables, its number in the log, and one end for all."""
    ring = RING.replace("/tmp/ring.py", "/tmp/$RANK.py") + "python3 /tmp/$RANK.py\nif [ $RANK = 0 ]; then " + WRITES.strip() + "; fi\n"
    for network in ("tasks", "none"):
        run, _ = world.run(ring, tasks=4, network=network)
        assert world.end_of(run) == ("succeeded", ""), (world.end_of(run), run.log)
        assert sorted(run.log.splitlines()) == [b"[%d] total 6 %d 4 0" % (rank, rank) for rank in range(4)], run.log
    run, _ = world.run(ring, network="tasks")
    assert world.end_of(run) == ("succeeded", "") and run.log == b"total 0 0 1 0\n", run.log
    run, _ = world.run("if [ $RANK = 1 ]; then exit 7; fi; trap 'echo told; exit 0' TERM; sleep 60 & wait; : MARK", tasks=3)
    assert world.end_of(run)[0] == "failed" and "status 7" in world.end_of(run)[1], world.end_of(run)
    assert b"[sijil] task 1 ended with status 7: all tasks are stopped\n" in run.log, run.log
    world.nothing_runs()
    words = [json.loads(body)["spec"]["template"]["spec"]["containers"][1]["command"][3:] for method, path, _, body in world.api.asked
             if method == "POST" and path.endswith("/jobs")]
    assert words[-4:] == [["tasks"]] * 4 and [] in words, words
    run = world.begun("trap '' TERM; echo begun; while :; do sleep 1; done; : MARK", tasks=3)
    run.stop = "an approver has stopped it"
    world.peer.wait(lambda: not world.api.jobs, "its job is left")
    world.nothing_runs()


def gpu(count=1, kind="H200", **more):
    return {"count": count, "type": kind, "memory_bytes": 0, **more}


def devices_are_those_that_the_pod_has(world):
    """Its own driver tells, before the program begins. The job asks for the resource that the administrator has named."""
    for driver, devices, kind, uuid, busy, resource in (("gpu", gpu(), "NVIDIA H200", "GPU-00000000-1111-2222-3333-444444444440", 87, "nvidia.com/gpu"),
                                                        ("part", gpu(mig="1g.18gb"), "NVIDIA H200 MIG 1g.18gb", "MIG-00000000-1111-2222-3333-444444444410", 0, "nvidia.com/mig-1g.18gb")):
        world.api.driver = driver
        run, _ = world.run(WRITES + "echo ${CUDA_VISIBLE_DEVICES-own}; sleep 3.5", devices=devices, processes=4)
        assert world.end_of(run) == ("succeeded", ""), world.end_of(run)
        details = world.statement(run)["predicate"]["runDetails"]
        assert details["sijil_devices"] == [{"uuid": uuid, "type": kind, "driver": "570.86.15", "memory_bytes": (141 if busy else 18) << 30, "utilisation_percent": busy}], details
        assert details["sijil_usage"]["device_ms"] > 3000 and run.log == b"own\n", (details, run.log)
        job = [json.loads(body) for method, path, _, body in world.api.asked if method == "POST" and path.endswith("/jobs")][-1]
        payload = job["spec"]["template"]["spec"]["containers"][1]
        assert payload["resources"]["limits"][resource] == payload["resources"]["requests"][resource] == "1" and payload["command"][3:] == ["devices"], payload
    world.api.reset()


def devices_that_are_not_there_are_refused(world):
    for driver, devices, says in ((None, gpu(), "isolation: the pod can't tell which devices it has: no driver for devices"), ("gpu", gpu(2), "2 devices are ordered, and the pod has 1"),
                                  ("gpus", gpu(), "1 devices are ordered, and the pod has 2"), ("part", gpu(), "NVIDIA H200 MIG 1g.18gb"), ("gpu", gpu(mig="1g.18gb"), "NVIDIA H200 with"),
                                  ("gpu", gpu(3), "devices: 3 devices H200"), ("gpu", gpu(kind="A100"), "devices: 1 devices A100"), ("gpu", gpu(5), "proof: the runner has fewer devices")):
        world.api.driver = driver
        run, _ = world.give(world.script(WRITES, devices=devices))
        status, reason = world.end_of(run)
        assert status == "refused" and says in reason and not run.has_started, (driver, devices, reason)
    world.api.reset()


def processes_are_counted(world):
    """Its user has no other processes on the node."""
    run, _ = world.run("for i in 1 2 3 4 5 6 7 8 9; do sleep 30 & done; echo all; : MARK", processes=6)
    assert world.end_of(run)[0] == "failed" and b"all" not in run.log, (world.end_of(run), run.log)


def a_cancelled_run_is_gone(world):
    run = world.begun("trap '' TERM; echo begun; while :; do sleep 1; done; : MARK")
    run.stop = "an approver has stopped it"
    world.peer.wait(lambda: not world.api.jobs and not os.listdir(os.path.join(world.state, "leases")), "its job is left")
    assert run.result is None and not world.api.pods_of, "it has ended at the registry: nothing is to be told any more"
    world.nothing_runs()


def a_lost_pod_ends_its_run(world):
    """Each is one end, with the cluster's word as its reason."""
    for said, ended, wanted, says in (({"reason": "Evicted"}, "Error", "cancelled", "lost, Evicted"), ({}, "OOMKilled", "failed", "memory_bytes"),
                                      ({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}, "Error", "cancelled", "Preemption")):
        run = world.begun()
        world.api.pod_says, world.api.ended_reason = said, ended
        world.api.one_pod().end()
        assert world.end_of(run)[0] == wanted and says in world.end_of(run)[1], world.end_of(run)
        world.api.reset()
    data = world.peer.push("digits", {f"f{i}.bin": os.urandom(1 << 20) * 24 for i in range(3)})
    run, _ = world.give(world.script(WRITES, inputs=[("digits", data)]))
    pod = world.api.one_pod()
    world.peer.wait(lambda: any(files for _, _, files in os.walk(pod.path("in"))), "no input comes")
    pod.end()  # an eviction while its inputs come: another runner gets the run at once
    status, reason = world.end_of(run)
    assert status == "refused" and reason.startswith("machine: ") and not world.said("a worker failed"), (status, reason)
    world.api.reset()
    run = world.begun()
    world.api.conditions = [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]
    world.api.one_pod().end(names=("agent",))
    assert world.end_of(run)[0] == "cancelled" and "DeadlineExceeded" in world.end_of(run)[1], world.end_of(run)
    world.api.reset()


def a_cluster_that_says_complete(world):
    """While the program runs, its word is nothing; the agent's end is what counts."""
    run = world.begun(WRITES + "echo begun; sleep 3")
    world.api.conditions = [{"type": "Complete", "status": "True"}]
    assert world.end_of(run) == ("succeeded", ""), world.end_of(run)
    world.api.starts = False
    run, _ = world.give(world.script(WRITES))
    status, reason = world.end_of(run)
    assert status == "refused" and reason.startswith("isolation: ") and "completed" in reason and not run.has_started, reason
    world.api.reset()


def who_is_not_the_pod_gets_nothing(world):
    for lie, says in (({"pod": "another"}, "not of the pod"), ({"node": "99999999-2222-4333-8444-555555555555"}, "not on the node"),
                      ({"audience": "api"}, "audience"), ({"user": "system:serviceaccount:other:sijil-run"}, "account"), ({"authenticated": False}, "does not accept")):
        world.api.said = lie
        run, _ = world.give(world.script(WRITES))
        status, reason = world.end_of(run)
        assert status == "refused" and reason.startswith("isolation: ") and world.said(says) and not run.has_started, (lie, reason)
        world.api.reset()
    for late in (False, True):  # a payload that begins later than its agent ends waits for it in vain
        world.api.pin, world.api.late, began = "0" * 64, late, time.monotonic()
        run, _ = world.give(world.script(WRITES))
        status, reason = world.end_of(run)
        assert status == "refused" and reason.startswith("isolation: ") and "failed" in reason and not run.has_started, reason
        assert time.monotonic() - began < world.patience / 2, "nobody notices that the agent has failed"
        world.api.reset()


def client_hello():
    """The first message of a TLS client."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    sent = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent).do_handshake()
    return sent.read()


def strangers_at_the_door(world):
    """Whoever calls while a pod is awaited: not TLS, a talk without a token, or a caller that has gone before it is answered. The pod itself is still heard."""
    world.api.starts = False
    run, _ = world.give(world.script(WRITES))
    world.peer.wait(lambda: world.api.jobs, "no job")
    for _ in range(8):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", world.port), 5) as one:
            one.sendall(client_hello())
    assert not world.said("a worker failed"), "a caller that had gone has ended the worker"
    for data in (b"", b"GET / HTTP/1.1\r\n\r\n", bytes(70000)):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", world.port), 5) as one:
            one.sendall(data)
            one.settimeout(1)
            while one.recv(4096):
                pass
    world.api.starts = True
    world.api.begin(next(iter(world.api.jobs.values())))
    assert world.end_of(run) == ("succeeded", ""), world.end_of(run)


def what_is_not_limited_is_refused(world):
    for change, says in (({"memory.max": "max\n"}, "memory"), ({"cpu.max": "max 100000\n"}, "processors"), (None, "no control group")):
        honest = world.api.limits
        world.api.limits = (lambda limits, honest=honest, change=change: {**honest(limits), **change}) if change else lambda limits: {"other": "1"}
        run, _ = world.give(world.script(WRITES))
        status, reason = world.end_of(run)
        assert status == "refused" and reason.startswith("isolation: ") and says in reason and not run.has_started, reason
        world.api.reset()
    world.api.limits = lambda limits: {"memory/memory.limit_in_bytes": limits["memory"], "cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"}
    run, _ = world.give(world.script(WRITES))  # below the floor of the runner's document
    assert world.end_of(run)[0] == "refused" and "the pod gives cgroup-v1" in world.end_of(run)[1], world.end_of(run)
    world.api.reset()
    for more in ({"nodes": 2},):
        run, _ = world.give(world.script(WRITES, **more))
        assert world.end_of(run)[0] == "refused" and not world.api.jobs, more


def an_image_with_volumes_is_refused(world):
    """A container runtime mounts them from the node's disk, writable, and over its own mounts. Nor do files of an image pass for a control group."""
    for place in ("/data", "/gate/shut", "/out/deep", "/sys/fs/cgroup"):  # the last one: in memory, as that of version 1 is
        says = "no control group" if "cgroup" in place else f"{place} is a volume"
        world.api.volumes = (place,)
        run, _ = world.give(world.script(WRITES))
        status, reason = world.end_of(run)
        assert status == "refused" and reason.startswith("isolation: ") and says in reason and not run.has_started, (place, reason)
        world.api.reset()
    world.api.program = REAL
    run, _ = world.give(world.script(WRITES))
    status, reason = world.end_of(run)
    assert status == "refused" and "no control group" in reason and not run.has_started, reason
    world.api.reset()


def a_pod_that_does_not_begin(world):
    """No image: refused. Suspended, no room, or deleted: the lease is given back, so that another runner gets the run at once."""
    world.stop()
    world.patience = 4
    world.start()

    def given_back(run):
        world.peer.wait(lambda: run.refusal, "the lease is not given back")
        assert world.registry.opened(run.refusal)["check"] == "machine" and run.result is None, run.refusal
    world.api.starts, world.api.waiting = False, "ErrImagePull"
    run, _ = world.give(world.script(WRITES))
    status, reason = world.end_of(run)
    assert status == "refused" and "ErrImagePull" in reason, reason
    for number, waiting in enumerate(("Unschedulable", None), 1):
        world.api.waiting = waiting
        run, _ = world.give(world.script(WRITES))
        world.peer.wait(lambda number=number: world.times("the cluster started no pod") == number, "it is not given up")
        given_back(run)
        assert not world.api.jobs
    run, _ = world.give(world.script(WRITES))
    world.peer.wait(lambda: world.api.jobs, "no job")
    world.api.jobs.clear()
    world.peer.wait(lambda: world.said("gone before it began"), "it is not noticed")
    given_back(run)
    world.api.reset()


def a_killed_runner_leaves_nothing(world):
    """kill -9: the program ends with it. The next start removes the job, and takes the next attempt."""
    begun = world.begun()
    pod = world.api.one_pod()
    world.kill()
    for process in pod.processes.values():
        process.wait(60)
    world.nothing_runs()
    assert len(world.api.jobs) == 1 and begun.result is None
    other = {"metadata": {"uid": "u", "name": "other", "labels": {"sijil/runner": "another"}}}
    world.api.jobs["other"] = other
    world.start()
    assert world.api.jobs == {"other": other} and not world.api.pods_of and world.said("jobs of an earlier process are removed")
    del world.api.jobs["other"]
    run, _ = world.run(WRITES)
    assert world.end_of(run) == ("succeeded", "")


def a_stopped_runner_cancels(world):
    run = world.begun()
    world.stop()
    assert world.ended(run)[0]["status"] == "cancelled"
    world.start()


def without_a_token_no_run_is_asked_for(world):
    """A token ends after hours. Until somebody renews it, no run loses an attempt here."""
    world.peer.wait(lambda: any(asked["cpus"] > 0 for asked in world.peer.asked), "it asks for nothing")
    world.api.refuses = True
    world.peer.wait(lambda: world.said("no run is asked for"), "it does not say that its token is over")
    assert world.said("renew " + world.key)
    run, _ = world.give(world.script(WRITES))
    time.sleep(2)
    assert run.refusal is None and run.result is None
    world.api.refuses = False
    world.peer.wait(lambda: run.result, "it does not go on with a token that is taken")
    assert world.end_of(run)[0] == "succeeded"


def wrong_words_are_refused(world):
    """And a runner that was enrolled for more than a declared place, without nodes."""
    words = world.words()
    for drop, says in (("--cpus", "--cpus and --memory"), ("--kubernetes-listen", "--kubernetes-listen"), ("--kubernetes-payload", "--kubernetes-payload"),
                       ("--kubernetes-token", "--kubernetes-token")):
        done = subprocess.run([RUNNER, "serve", *(word for word in words if not word.startswith(drop + "="))], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 2 and says in done.stderr, done
    for more in ("--slurm=commands:", "--jobs=/x", "--kubernetes-listen=7443", "--kubernetes-region=local/dxb"):
        assert subprocess.run([RUNNER, "serve", *words, more], capture_output=True, check=False, timeout=60).returncode == 2, more
    for more in ("--kubernetes-listen=localhost:7443", "--kubernetes-address=runner.example"):
        done = subprocess.run([RUNNER, "serve", f"--state={world.state}", f"--work={world.work}", *words, more], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 1 and "IP address" in done.stderr, done
    os.makedirs(os.path.join(world.folder, "declared"))
    other = PodWorld(os.path.join(world.folder, "declared"), nodes=None)
    done = subprocess.run([RUNNER, "serve", f"--state={other.state}", f"--work={other.work}", *other.words()], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1 and "only declared" in done.stderr, done


TESTS = (a_run_in_a_pod, kubernetes_learns_nothing, ends_are_told, tasks_reach_each_other, devices_are_those_that_the_pod_has, devices_that_are_not_there_are_refused, processes_are_counted, a_cancelled_run_is_gone, a_lost_pod_ends_its_run,
         a_cluster_that_says_complete, who_is_not_the_pod_gets_nothing, strangers_at_the_door, what_is_not_limited_is_refused, an_image_with_volumes_is_refused,
         a_killed_runner_leaves_nothing, a_stopped_runner_cancels, wrong_words_are_refused, without_a_token_no_run_is_asked_for, a_pod_that_does_not_begin)

if __name__ == "__main__":
    if not IS_ROOT or subprocess.run(["/usr/bin/bwrap", "--unshare-all", "--ro-bind", "/", "/", "/bin/true"], capture_output=True, check=False).returncode:
        print("left out: root starts the containers of a pod as different users, in namespaces")
        sys.exit(77)
    run_tests(TESTS, True, world=PodWorld)
