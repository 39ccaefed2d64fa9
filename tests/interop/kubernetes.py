#!/usr/bin/env python3
"""Jobs of a real Kubernetes cluster, with the rights of packaging/kubernetes/sijil.yaml and no others: started once, found again, ended; what a pod shows of
its own confinement; whose a token is. Environment: SIJIL_BUILD, INTEROP_PROGRAMS (its folder `kubernetes` has the cluster's programs)."""
import contextlib
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
import uuid

from kubernetes_cluster import Cluster, Refused, claims_of, wait_for, why_not

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
BUILD, PROGRAMS = os.environ["SIJIL_BUILD"], os.path.join(os.environ["INTEROP_PROGRAMS"], "kubernetes")
JOBS, RUNNER, POD = (os.path.join(BUILD, name) for name in ("tests/runner/kubernetes_jobs", "cmd/sijil-runner", "cmd/sijil-pod"))
SPACE, SYSTEM, ACCOUNT = "sijil-runs", "sijil-system", "sijil-runner"
PREFIX = "sijil.node-restriction.kubernetes.io/"
SECONDS = 120
OPEN = ("waiting", "running")


class Refusal(Exception):
    pass


class World:
    """A cluster that was made ready as docs/kubernetes.md says, and our calls to it."""

    def __init__(self, cluster):
        self.cluster = cluster
        cluster.apply(os.path.join(ROOT, "packaging/kubernetes/sijil.yaml"))
        self.agent = cluster.add_image("localhost/sijil-pod@", {"sijil-pod": POD})
        tools = {f"bin/{name}": "->busybox" for name in ("sh", "sleep", "head", "tail", "cat", "ls", "nc", "id", "touch")}
        self.busybox = cluster.add_image("localhost/busybox@", {"bin": "", "bin/busybox": "/bin/busybox", **tools})
        cluster.api("PATCH", f"/api/v1/nodes/{cluster.node}", {"metadata": {"labels": {PREFIX + "region": "local.dxb", PREFIX + "jurisdiction.AE": "true"}}})
        for space, account in ((SPACE, "default"), (SPACE, "sijil-run"), (SYSTEM, ACCOUNT)):
            wait_for("accounts", lambda space=space, account=account: self.has(f"/api/v1/namespaces/{space}/serviceaccounts/{account}"))
        self.renew()

    def has(self, path):
        with contextlib.suppress(Refused):
            return self.cluster.api("GET", path)
        return None

    def renew(self):
        self.token = self.cluster.write("token", self.cluster.token(SYSTEM, ACCOUNT))

    def words(self, *words):
        return [JOBS, self.cluster.url, self.cluster.ca, self.token, SPACE, *map(str, words)]

    def ask(self, *words):
        done = subprocess.run(self.words(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=SECONDS)
        text = done.stdout.decode()
        if done.returncode != 0:
            raise Refusal(text.strip())
        return json.loads(text)

    def start_words(self, run, *command, attempt=1, **settings):
        wanted = {"agent": self.agent, "payload": self.busybox, "region": "local/dxb", "jurisdiction": "AE", **settings}
        return ("start", run, attempt, *(f"{key}={value}" for key, value in wanted.items()), "--", "/sijil-pod", "trial", "/gate", "--", *command)

    def start(self, *command, run=None, **settings):
        run = run or str(uuid.uuid4())
        return run, self.ask(*self.start_words(run, *command, **settings))

    def find(self, run, attempt=1):
        return self.ask("find", run, attempt)

    def until(self, run, *states, seconds=SECONDS):
        end = time.monotonic() + seconds
        while (seen := self.find(run))["state"] not in states:
            assert time.monotonic() < end, seen
            time.sleep(0.2)
        return seen

    def finish(self, *command, **settings):
        run, _ = self.start(*command, **settings)
        seen = self.until(run, "completed", "failed", "timeout", "memory", "lost")
        self.remove(run)
        return seen

    def remove(self, run, attempt=1):
        self.ask("cancel", run, attempt)
        wait_for("the end of a job", lambda: self.find(run, attempt)["state"] == "none")

    def pod_of(self, run):
        return self.cluster.api("GET", f"/api/v1/namespaces/{SPACE}/pods?labelSelector=sijil%2Fjob%3Dsijil-{run}-1-0")["items"]

    def log_of(self, run):
        """The agent's output, as the node keeps it: the payload's goes through the agent."""
        pod = self.pod_of(run)[0]["metadata"]
        folder = self.cluster.path("log/pods", f"{SPACE}_{pod['name']}_{pod['uid']}", "agent")
        with open(os.path.join(folder, "0.log"), encoding="utf-8") as file:
            return "\n".join(line.split(" ", 3)[3].rstrip("\n") for line in file)


def refused(call, *parts):
    try:
        call()
    except Refusal as refusal:
        assert all(part in str(refusal) for part in parts), refusal
        return str(refusal)
    raise AssertionError(f"it is not refused: {parts}")


def refusal_of(call):
    try:
        call()
    except Refusal as refusal:
        return str(refusal)
    return None


def shell(text):
    return ("/bin/sh", "-c", " ".join(text.split()))


def an_end_is_told_as_it_was(world):
    done = world.finish(*shell("exit 0"))
    assert (done["state"], done["exit"], done["node"]) == ("completed", 0, world.cluster.node), done
    done = world.finish(*shell("exit 7"))
    assert (done["state"], done["exit"]) == ("failed", 7), done
    done = world.finish(*shell("kill -9 $$"))
    assert (done["state"], done["exit"], done["signal"]) == ("failed", 137, 9), done


def memory_and_time_end(world):
    done = world.finish(*shell("head -c 300m /dev/zero | tail"), memory=64 << 20)
    assert done["state"] == "memory" and done["reason"] == "OOMKilled", done
    done = world.finish(*shell("sleep 1000"), deadline=8)
    assert done["state"] == "timeout" and done["reason"] == "DeadlineExceeded", done


def a_pod_shows_that_it_is_closed(world):
    """What the agent and the payload's first program show, and what a hostile payload gets."""
    run, _ = world.start(*shell("""
        id -u; ls /var/run/secrets /run/sijil 2>&1 | cat; touch /bin/x 2>&1; touch /gate/x 2>&1; touch /in/x 2>&1; touch /out/x /tmp/x && echo wrote;
        for a in '10.96.0.1 443' '10.96.0.10 53' '169.254.169.254 80'; do nc -w 2 $a </dev/null 2>&1 && echo reached; done;
        echo leak > /dev/termination-log 2>/dev/null || echo shut; echo leak > /gate/shut/word 2>/dev/null || echo shut; echo leak > /proc/1/fd/1 2>/dev/null || echo shut;
        kill -9 1; for p in /proc/[0-9]*; do echo process $(cat $p/comm); done; exit 3"""))
    done = world.until(run, "failed", "completed", "lost")
    assert (done["state"], done["exit"]) == ("failed", 3), done
    assert re.fullmatch(r"closed: no privilege, no token, \d+ addresses out of reach: .*", done["message"]), done
    for address in ("10.96.0.1:443", "10.96.0.10:53", "169.254.169.254:80", "[fd00:ec2::254]:80", "192.0.2.1:443"):
        assert address.replace("[", "").replace("]", "") in done["message"], (address, done)
    log = world.log_of(run)
    assert "64002" in log and "wrote" in log and "reached" not in log, log
    assert log.count("Read-only file system") == 3 and log.count("Operation not permitted") == 3 and log.count("No such file or directory") >= 2, log
    assert log.splitlines().count("shut") == 3 and "leak" not in json.dumps(world.pod_of(run)[0]["status"]), log
    assert log.count("process sijil-pod") == 1, f"the agent's process is seen: {log}"
    pod = world.pod_of(run)[0]
    assert "exit 3" not in json.dumps(pod["status"]) and all(not each.get("env") for each in pod["spec"]["containers"])
    world.remove(run)


def an_image_with_volumes_is_refused(world):
    """containerd mounts them from the node's disk, writable, and over its own mounts."""
    tools = {f"bin/{name}": "->busybox" for name in ("sh", "sleep", "echo")}
    for place in ("/data", "/gate/shut", "/sys/fs/cgroup", "/out/deep"):
        image = world.cluster.add_image("localhost/volumes@", {"bin": "", "bin/busybox": "/bin/busybox", **tools}, volumes=(place,))
        run, _ = world.start("/bin/sh", "-c", "echo it runs; sleep 1", payload=image)
        ended = world.until(run, "failed", "completed", "lost", "timeout", "memory")
        said = world.log_of(run)
        assert ended["state"] == "failed" and f"{place} is a volume" in said and "it runs" not in said, (place, ended, said)
        world.remove(run)


def a_job_is_started_once(world):
    """Also by a runner that is killed at any moment of it: the next one finds the job again."""
    run, first = world.start(*shell("sleep 1000"))
    assert world.start(*shell("sleep 1000"), run=run)[1]["uid"] == first["uid"]
    refused(lambda: world.start(*shell("sleep 1001"), run=run), "conflict: ", "something else")
    world.remove(run)
    for _ in range(12):
        run = str(uuid.uuid4())
        words = world.words(*world.start_words(run, *shell("sleep 1000")))
        with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
            time.sleep(random.random() * 0.06)
            process.kill()
        again = world.start(*shell("sleep 1000"), run=run)[1]
        assert world.find(run)["uid"] == again["uid"]
        jobs = world.cluster.api("GET", f"/apis/batch/v1/namespaces/{SPACE}/jobs")["items"]
        assert [job["metadata"]["uid"] for job in jobs] == [again["uid"]], jobs
        world.remove(run)


def a_cancelled_job_is_gone(world):
    run, first = world.start(*shell("trap '' TERM; echo begun; sleep 1000"), grace=1)
    world.until(run, "running")
    assert world.find(run)["uid"] == first["uid"]
    world.ask("cancel", run, 1)
    seen = world.until(run, "ending", "none")
    world.until(run, "none")
    assert not world.pod_of(run), seen
    assert world.ask("cancel", run, 1)["state"] == "none", "ending it again changes nothing"
    assert world.find(str(uuid.uuid4()))["state"] == "none"


def the_api_may_go_and_come(world):
    run, first = world.start(*shell("sleep 15; exit 4"))
    world.until(run, "running")
    world.cluster.kill_api()
    refused(lambda: world.find(run), "unavailable: ")
    refused(lambda: world.start(*shell("sleep 15; exit 4"), run=run), "un")
    world.cluster.start_api()
    assert world.start(*shell("sleep 15; exit 4"), run=run)[1]["uid"] == first["uid"]
    done = world.until(run, "completed", "failed", "lost", "timeout")
    assert (done["state"], done["exit"], done["uid"]) == ("failed", 4, first["uid"]), done
    world.remove(run)


def a_lost_pod_is_lost(world):
    run, _ = world.start(*shell("sleep 1000"))
    world.until(run, "running")
    pod = world.pod_of(run)[0]["metadata"]["name"]
    world.cluster.api("POST", f"/api/v1/namespaces/{SPACE}/pods/{pod}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}})
    done = world.until(run, "lost", "failed", "completed")
    assert done["state"] == "lost", done
    world.remove(run)


def nodes_devices_and_queues_are_waited_for(world):
    node = f"/api/v1/nodes/{world.cluster.node}"
    run, _ = world.start(*shell("exit 0"), jurisdiction="SA", region="local/ruh")
    wait_for("no node", lambda: world.find(run)["reason"] == "Unschedulable")
    world.cluster.api("PATCH", node, {"metadata": {"labels": {PREFIX + "region": "local.ruh", PREFIX + "jurisdiction.SA": "true"}}})
    world.until(run, "completed")
    world.remove(run)
    world.cluster.api("PATCH", node, {"metadata": {"labels": {PREFIX + "region": "local.dxb", PREFIX + "jurisdiction.SA": None}}})
    run, _ = world.start(*shell("exit 0"), device="nvidia.com/mig-1g.5gb", devices=2)
    wait_for("no device", lambda: world.find(run)["reason"] == "Unschedulable")
    world.cluster.api("PATCH", node + "/status", {"status": {"capacity": {"nvidia.com/mig-1g.5gb": "2"}}})
    world.until(run, "completed")
    world.remove(run)
    run, _ = world.start(*shell("exit 0"), queue="gpus")
    assert world.find(run)["reason"] == "Suspended" and not world.pod_of(run)
    world.cluster.api("PATCH", f"/apis/batch/v1/namespaces/{SPACE}/jobs/sijil-{run}-1-0", {"spec": {"suspend": False}})  # as Kueue does
    world.until(run, "completed")
    world.remove(run)
    run, _ = world.start(*shell("exit 0"), payload="localhost/nothing@sha256:" + "0" * 64)
    wait_for("no image", lambda: world.find(run)["reason"] in ("ErrImagePull", "ImagePullBackOff"))
    world.remove(run)


def a_place_must_confine(world):
    labels = f"/api/v1/namespaces/{SPACE}"
    policies = f"/apis/networking.k8s.io/v1/namespaces/{SPACE}/networkpolicies"
    world.ask("place")
    world.cluster.api("PATCH", labels, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}})
    refused(lambda: world.ask("place"), "denied: ", "restricted")
    world.cluster.api("PATCH", labels, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}})
    world.cluster.api("PATCH", policies + "/sijil-runs", {"spec": {"egress": [{}]}})
    refused(lambda: world.ask("place"), "denied: ", "NetworkPolicy")
    world.cluster.api("PATCH", policies + "/sijil-runs", {"spec": {"egress": None}})
    world.ask("place")
    policy = world.cluster.api("GET", policies + "/sijil-runs")
    world.cluster.api("DELETE", policies + "/sijil-runs")
    refused(lambda: world.ask("place"), "denied: ", "NetworkPolicy")
    world.cluster.api("POST", policies, {key: policy[key] if key != "metadata" else {"name": "sijil-runs"} for key in ("apiVersion", "kind", "metadata", "spec")})
    world.ask("place")


def may(world, verb, group, resource, space=SPACE, name=""):
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
              "spec": {"resourceAttributes": {"verb": verb, "group": group, "resource": resource, "namespace": space, "name": name}}}
    with open(world.token, encoding="ascii") as file:
        return world.cluster.api("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review, token=file.read())["status"]["allowed"]


def rights_are_the_fewest(world):
    """Each rule is needed: without it one of our calls is denied. And nothing else is allowed that would matter."""
    for verb, group, resource, space in (("get", "", "secrets", SPACE), ("create", "", "pods", SPACE), ("create", "", "pods/exec", SPACE), ("get", "", "pods/log", SPACE),
                                         ("create", "batch", "jobs", SYSTEM), ("create", "batch", "jobs", "default"), ("patch", "batch", "jobs", SPACE),
                                         ("create", "", "serviceaccounts/token", SPACE), ("delete", "networking.k8s.io", "networkpolicies", SPACE),
                                         ("patch", "", "namespaces", SPACE), ("list", "", "nodes", ""), ("bind", "rbac.authorization.k8s.io", "roles", SPACE)):
        assert not may(world, verb, group, resource, space), (verb, resource, space)
    roles = "/apis/rbac.authorization.k8s.io/v1/"
    run = str(uuid.uuid4())

    def all_calls():
        world.ask("place")
        world.start(*shell("exit 0"), run=run)
        world.remove(run)
        refused(lambda: world.ask("review", world.token, "p", "n"), "denied: the cluster does not accept the token")
        world.ask("sweep", str(uuid.uuid4()))

    for path in (f"{roles}namespaces/{SPACE}/roles/{ACCOUNT}", f"{roles}clusterroles/{ACCOUNT}"):
        rules = world.cluster.api("GET", path)["rules"]
        for i, rule in enumerate(rules):
            for verb in rule["verbs"]:
                fewer = [{**rule, "verbs": [each for each in rule["verbs"] if each != verb]}] if len(rule["verbs"]) > 1 else []
                world.cluster.api("PATCH", path, {"rules": rules[:i] + fewer + rules[i + 1:] or None})
                said = denial_of(all_calls, verb, rule)
                world.cluster.api("PATCH", path, {"rules": rules})
                wait_for("the rights", lambda verb=verb, rule=rule, path=path: may(world, verb, rule["apiGroups"][0], rule["resources"][0],
                                                                                   "" if "cluster" in path else SPACE, rule.get("resourceNames", [""])[0]))
                print(f"   without {verb} {rule['resources'][0]}: {said[:90]}", flush=True)
                with contextlib.suppress(Refusal):
                    world.remove(run)
    all_calls()


def denial_of(calls, verb, rule):
    """The API takes a moment to learn of a change."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            calls()
        except (Refusal, AssertionError) as refusal:
            if "HTTP status 403" in str(refusal):
                return str(refusal)
            raise
    raise AssertionError(f"nothing needs {verb} of {rule}")


def a_token_is_of_one_pod_on_one_node(world):
    """The token that the kubelet gave to the agent, as it lies on the node."""
    run, _ = world.start(*shell("sleep 1000"))
    others = world.until(run, "running")
    world.remove(run)
    run, _ = world.start(*shell("sleep 1000"))
    seen = world.until(run, "running")
    place = world.cluster.path("kubelet/pods", seen["pod_uid"], "volumes/kubernetes.io~projected/token/token")
    node = world.cluster.api("GET", f"/api/v1/nodes/{world.cluster.node}")["metadata"]["uid"]
    with open(place, encoding="ascii") as file:
        token = file.read()
    assert claims_of(token)["aud"] == ["sijil"] and claims_of(token)["exp"] - time.time() < 1200
    kept = world.cluster.write("pod-token", token)
    world.ask("review", kept, seen["pod_uid"], node)
    refused(lambda: world.ask("review", kept, others["pod_uid"], node), "denied: ", "not of the pod")
    refused(lambda: world.ask("review", kept, seen["pod_uid"], str(uuid.uuid4())), "denied: ", "not on the node")
    pod = world.pod_of(run)[0]["metadata"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": pod["name"], "uid": pod["uid"]}
    for made, text in ((world.cluster.token(SPACE, "sijil-run", ["other"], bound), "does not accept"),
                       (world.cluster.token(SPACE, "sijil-run", ["sijil"]), "not of the pod"), (world.cluster.token(SPACE, "default", ["sijil"]), "account"),
                       (world.cluster.token(SYSTEM, ACCOUNT, ["sijil"]), "account"), (token[:-4] + "AAAA", "does not accept"), ("a.b.c", "does not accept")):
        refused(lambda made=made: world.ask("review", world.cluster.write("bad-token", made), seen["pod_uid"], node), "denied: ", text)
    try:
        world.cluster.api("GET", "/api/v1/namespaces", token=token)
        raise AssertionError("the pod's token opens the API")
    except Refused as refusal:
        assert refusal.status == 401, refusal
    world.remove(run)
    assert "does not accept" in wait_for("the end of a token", lambda: refusal_of(lambda: world.ask("review", kept, seen["pod_uid"], node)), 30)


def the_check_of_a_cluster(world):
    words = [RUNNER, "check", "--kubernetes=" + world.cluster.url, "--kubernetes-token=" + world.token, "--ca-file=" + world.cluster.ca]
    text = subprocess.run(words, check=True, stdout=subprocess.PIPE, timeout=SECONDS).stdout.decode()
    assert "v1.35.4" in text and "none was started" in text, text
    words += ["--kubernetes-image=" + world.agent, "--kubernetes-region=local/dxb"]
    text = subprocess.run(words, check=True, stdout=subprocess.PIPE, timeout=SECONDS).stdout.decode()
    assert "closed: no privilege, no token" in text and "10.96.0.10:53" in text and "node localhost" in text, text
    shown = json.loads(subprocess.run([*words, "--json"], check=True, stdout=subprocess.PIPE, timeout=SECONDS).stdout)
    assert shown["kubernetes"] == "v1.35.4" and shown["pod"]["shown"].startswith("closed: "), shown
    assert not world.cluster.api("GET", f"/apis/batch/v1/namespaces/{SPACE}/jobs")["items"], "the trial is removed"
    done = subprocess.run([*words[:-2], "--kubernetes-image=localhost/sijil-pod:latest"], capture_output=True, check=False, timeout=SECONDS)
    assert done.returncode == 1 and b"sha256" in done.stderr, done


def plain_job(world, name):
    """The same command in one container, as `kubectl create job` makes it, within Pod Security."""
    confined = {"allowPrivilegeEscalation": False, "runAsNonRoot": True, "runAsUser": 64002, "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}}
    pod = {"restartPolicy": "Never", "automountServiceAccountToken": False,
           "containers": [{"name": "payload", "image": world.busybox, "command": ["/bin/sh", "-c", "exit 0"], "securityContext": confined}]}
    world.cluster.api("POST", f"/apis/batch/v1/namespaces/{SPACE}/jobs", {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
                                                                         "spec": {"backoffLimit": 0, "template": {"spec": pod}}})


def seconds_of(world, name, begin):
    path = f"/apis/batch/v1/namespaces/{SPACE}/jobs/{name}"
    began = time.monotonic()
    begin()
    wait_for("a job", lambda: any(each["type"] == "Complete" for each in world.cluster.api("GET", path)["status"].get("conditions", [])))
    took = time.monotonic() - began
    world.cluster.api("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"})
    wait_for("its end", lambda: not world.has(path))
    return took


def what_a_job_costs(world):
    """Beside a plain job: two containers more, and the proof from inside."""
    took = {"plain": [], "ours": []}
    for i in range(5):
        took["plain"].append(seconds_of(world, f"plain-{i}", lambda i=i: plain_job(world, f"plain-{i}")))
        run = str(uuid.uuid4())
        took["ours"].append(seconds_of(world, f"sijil-{run}-1-0", lambda run=run: world.start(*shell("exit 0"), run=run)))
    plain, ours = (statistics.median(took[name]) for name in ("plain", "ours"))
    print(f"   from the request to Complete, median of 5: plain {plain:.2f} s, ours {ours:.2f} s", flush=True)
    assert ours < plain + 10, took


CASES = (an_end_is_told_as_it_was, a_pod_shows_that_it_is_closed, an_image_with_volumes_is_refused, memory_and_time_end, a_job_is_started_once, a_cancelled_job_is_gone, the_api_may_go_and_come,
         a_lost_pod_is_lost, nodes_devices_and_queues_are_waited_for, a_place_must_confine, a_token_is_of_one_pod_on_one_node, rights_are_the_fewest,
         the_check_of_a_cluster, what_a_job_costs)


def main():
    missing = why_not(PROGRAMS)
    if missing:
        print(f"left out: {missing}")
        return 0
    began = time.monotonic()
    with Cluster(PROGRAMS) as cluster:
        world = World(cluster)
        print(f"a cluster is up ({time.monotonic() - began:.1f} s)", flush=True)
        for case in CASES:
            if len(sys.argv) > 1 and case.__name__ not in sys.argv[1:]:
                continue
            began = time.monotonic()
            case(world)
            print(f"ok {case.__name__} ({time.monotonic() - began:.1f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
