"""A cluster for tests of `sijil-runner serve --kubernetes`: a stand-in for the API (kubernetes_api.py), and for each job a pod of the real sijil-pod, whose
containers are processes in namespaces of their own. script/interop kubernetes has a real cluster."""
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid

from kubernetes_api import SPACE, Api, Handler

BUILD = os.path.abspath(sys.argv[1])
REAL, PROGRAM = os.path.join(BUILD, "cmd/sijil-pod"), os.path.join(BUILD, "tests/runner/pod_of_files")
LIBRARY = "/usr/local/nvidia/lib64/libnvidia-ml.so.1"
AGENT, GROUP, NODE = 64001, 64000, "0f8fad5b-d9cb-469f-a165-70867728950e"
ACCOUNT = f"system:serviceaccount:{SPACE}:sijil-run"
ROOT = ("--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64",
        "/lib64", "--dev", "/dev", "--proc", "/proc", "--ro-bind", "/sys", "/sys")
BWRAP = ("/usr/bin/bwrap", "--unshare-user", "--unshare-ipc", "--die-with-parent", "--cap-drop", "ALL", *ROOT)
API = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
# In the network namespace of a pod, whose only way out is to one address: the runner's. As a NetworkPolicy leaves it.
INSIDE = """
import os, socket, subprocess, sys, threading
from_, path, words = ('127.0.0.1', int(sys.argv[1])), sys.argv[2], sys.argv[3:]
subprocess.run(['/usr/sbin/ip', 'link', 'set', 'lo', 'up'], check=True)
def pump(a, b):
    try:
        while data := a.recv(65536): b.sendall(data)
    except OSError: pass
    for one in (a, b):
        try: one.shutdown(socket.SHUT_RDWR)
        except OSError: pass
def serve(door):
    while True:
        one, other = door.accept()[0], socket.socket(socket.AF_UNIX)
        other.connect(path)
        for pair in ((one, other), (other, one)): threading.Thread(target=pump, args=pair, daemon=True).start()
threading.Thread(target=serve, args=(socket.create_server(from_),), daemon=True).start()
sys.exit(subprocess.run(words, check=False).returncode)
"""


def pump(one, other):
    with contextlib.suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
    for each in (one, other):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def code_of(process):
    """What it has ended with, if it has. Its number stays its own, and that of its group, because only remove() waits for it."""
    if process.returncode is not None:
        return process.returncode
    ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


class Pod:
    """The pod of a job: place, agent and payload, with the volumes that they share."""

    def __init__(self, cluster, job):
        self.uid, self.name, self.cluster = str(uuid.uuid4()), job["metadata"]["name"], cluster
        spec = job["spec"]["template"]["spec"]
        containers = {one["name"]: one for one in spec["containers"]}
        self.user = containers["payload"]["securityContext"]["runAsUser"]
        self.words, self.payload_words = list(containers["agent"]["command"][1:]), containers["payload"]["command"]
        self.words[4] = cluster.pin or self.words[4]
        self.folder = tempfile.mkdtemp(prefix="sijil-pods-", dir="/dev/shm")
        os.chmod(self.folder, 0o755)
        for name in ("gate", "code", "in", "out"):
            self.make(name, 0o2777)
        self.make("token", 0o755)
        self.write("token/token", cluster.token)
        for name, text in cluster.limits(containers["payload"]["resources"]["limits"]).items():
            self.write("cgroup/" + name, text)
        self.processes = {}
        self.spawn("place", AGENT, cluster.program, "place", self.path("gate")).wait(60)
        self.relay = socket.socket(socket.AF_UNIX)
        self.relay.bind(self.path("relay"))
        self.relay.listen(8)
        threading.Thread(target=self.pass_on, daemon=True).start()
        self.start()

    def path(self, name):
        return os.path.join(self.folder, name)

    def make(self, name, mode):
        os.makedirs(self.path(name))
        os.chown(self.path(name), 0, GROUP)
        os.chmod(self.path(name), mode)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(self.path(name), 0o644)

    def spawn(self, name, user, *words, groups=(GROUP,)):
        with open(self.path(name + ".log"), "wb") as log:
            self.processes[name] = subprocess.Popen(words, user=user, group=user, extra_groups=groups, env=API if name == "agent" else {}, stdout=log, stderr=log,
                                                    cwd="/", start_new_session=True)
        return self.processes[name]

    def start(self):
        mounts = [word for name in ("gate", "code", "in") for word in ("--bind", self.path(name), "/" + name)]
        own = ["--ro-bind", self.path("out"), "/out", "--ro-bind", self.path("token"), "/run/sijil", "--remount-ro", "/"]
        become = ("/usr/bin/setpriv", f"--reuid={AGENT}", f"--regid={AGENT}", f"--groups={GROUP}")
        self.spawn("agent", 0, "/usr/bin/unshare", "--net", "/usr/bin/python3", "-I", "-c", INSIDE, self.words[3], self.path("relay"), *become, *BWRAP, *mounts,
                   *own, "/gate/sijil-pod", *self.words)
        if self.cluster.late:
            self.processes["agent"].wait(60)
        mounts = [word for name in ("gate", "code", "in") for word in ("--ro-bind", self.path(name), "/" + name)]
        own = ["--bind", self.path("out"), "/out", "--tmpfs", "/tmp", "--ro-bind", self.path("cgroup"), "/sys/fs/cgroup"]
        for number, place in enumerate(self.cluster.volumes):  # of the image: a container runtime mounts them over all others
            self.make(f"volume{number}", 0o777)
            own += ["--bind", self.path(f"volume{number}"), place]
        if self.cluster.driver:  # as a plugin of devices has it mounted
            own += ["--tmpfs", "/usr/local", "--ro-bind", os.path.join(BUILD, f"tests/runner/libfake_pod_{self.cluster.driver}.so"), LIBRARY, "--remount-ro", "/usr/local"]
        own += ["--remount-ro", "/"]
        self.spawn("payload", self.user, *BWRAP, "--unshare-pid", "--as-pid-1", *mounts, *own, *self.payload_words)

    def pass_on(self):
        with contextlib.suppress(OSError):
            while True:
                one, other = self.relay.accept()[0], socket.socket()
                with contextlib.suppress(OSError):
                    other.connect(("127.0.0.1", int(self.words[3])))
                for pair in ((one, other), (other, one)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()

    def has_ended(self):
        return all(code_of(process) is not None for process in self.processes.values())

    def log(self):
        text = ""
        for name in ("agent", "payload"):
            with open(self.path(name + ".log"), encoding="utf-8", errors="replace") as file:
                text += name + ": " + file.read()
        return text

    def end(self, number=signal.SIGKILL, *, names=("agent", "payload")):
        for name in names:
            if self.processes[name].returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.processes[name].pid, number)

    def remove(self):
        self.end()
        for process in self.processes.values():
            process.wait(60)
        self.relay.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def status(self):
        states = []
        for name in ("agent", "payload"):
            code = code_of(self.processes[name])
            ended = {"exitCode": 137 if code is not None and code < 0 else code, "reason": self.cluster.ended_reason, "message": ""}
            states.append({"name": name, "state": {"running": {}} if code is None else {"terminated": ended}})
        return {"phase": "Running", "containerStatuses": states, **self.cluster.pod_says}


class PodHandler(Handler):
    def serve(self, body):
        cluster, jobs = self.server, self.server.jobs
        if self.path.endswith("/tokenreviews"):
            return self.answer(201, cluster.review(json.loads(body)["spec"]))
        if self.command == "GET" and "/jobs/sijil-" in self.path:
            cluster.look(self.path.rsplit("/", 1)[1])
        if self.command not in ("POST", "DELETE"):
            return super().serve(body)
        with cluster.changes:  # a job is not deleted while its pod is being made
            if self.command == "DELETE":
                cluster.end_pod(self.path.rsplit("/", 1)[1], json.loads(body))
            before = set(jobs)
            super().serve(body)
            for name in set(jobs) - before:
                cluster.begin(jobs[name])
        return None


class Cluster(Api):
    """What it lies about is in its members; reset() makes it honest."""

    def __init__(self, folder):
        self.changes = threading.Lock()
        self.pods_of, self.image = {}, os.path.join(folder, "sijil-pod")
        shutil.copy(PROGRAM, self.image)
        shutil.copy(os.path.join(BUILD, "cmd/sijil-pod-devices"), folder)
        self.reset()
        super().__init__(folder, PodHandler)
        self.pods = self.list_pods

    def reset(self):
        self.token, self.pin, self.starts = "the.pod.token", None, True
        self.said = {}                         # of a review: what is not as it should be
        self.waiting, self.conditions = None, []  # a reason; of each job
        self.pod_says, self.ended_reason = {}, "Error"
        self.late = False                      # the payload begins when the agent has ended
        self.program, self.volumes = self.image, ()  # of the pods; of the payload's image
        self.driver = None                         # gpu, gpus, part: what the payload's container has
        self.limits = lambda limits: {"memory.max": limits["memory"] + "\n", "cpu.max": f"{int(limits['cpu']) * 100000} 100000\n",
                                      "cpu.stat": "usage_usec 70000\n", "memory.peak": "1234567\n", "memory.events": "oom_kill 0\n"}

    def begin(self, job):
        if self.starts:
            self.pods_of[job["metadata"]["name"]] = Pod(self, job)

    def end_pod(self, name, options):
        """A deletion in the foreground: the job is there as long as its pod. Else the next run would meet this pod."""
        if name in self.pods_of and options["preconditions"]["uid"] == self.jobs[name]["metadata"]["uid"]:
            self.pods_of.pop(name).remove()

    def look(self, name):
        """What the controller of jobs would write."""
        job, pod = self.jobs.get(name), self.pods_of.get(name)
        if job is None:
            return
        conditions = list(self.conditions)
        if not conditions and pod is not None and pod.has_ended():
            good = all(process.returncode == 0 for process in pod.processes.values())
            conditions = [{"type": "Complete" if good else "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]
        job["status"] = {"conditions": conditions}

    def list_pods(self, jobs):
        found = []
        for name, job in list(jobs.items()):
            owner, pod = {"ownerReferences": [{"kind": "Job", "uid": job["metadata"]["uid"]}]}, self.pods_of.get(name)
            if pod is not None:
                found.append({"metadata": {"uid": pod.uid, **owner}, "spec": {"nodeName": "node-7"}, "status": pod.status()})
            elif self.waiting:
                states = [{"name": "agent", "state": {"waiting": {"reason": self.waiting}}}]
                found.append({"metadata": {"uid": "waits", **owner}, "spec": {}, "status": {"phase": "Pending", "containerStatuses": states}})
        return found

    def review(self, spec):
        pod = next(iter(self.pods_of.values()), None)
        extra = {"pod-uid": [self.said.get("pod", pod.uid if pod else "")], "node-uid": [self.said.get("node", NODE)]}
        good = spec["token"] == "the.pod.token" and self.said.get("authenticated", True)
        return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec,
                "status": {"authenticated": good, "audiences": [self.said.get("audience", spec["audiences"][0])],
                           "user": {"username": self.said.get("user", ACCOUNT), "extra": {"authentication.kubernetes.io/" + key: value for key, value in extra.items()}}}}

    def one_pod(self):
        until = time.monotonic() + 60
        while not self.pods_of:
            assert time.monotonic() < until, "no pod"
            time.sleep(0.02)
        return next(iter(self.pods_of.values()))
