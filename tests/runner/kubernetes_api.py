#!/usr/bin/env python3
"""usage: kubernetes_api.py BUILD-FOLDER   The calls of the Kubernetes API when it answers badly: lost answers, conflicts, limits, redirects. A stand-in
for the API, which a real cluster can't be made to fail as; script/interop kubernetes has the real one."""
import http.server
import json
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.parse
import uuid

BUILD = os.path.abspath(sys.argv[1])
JOBS, RUNNER = (os.path.join(BUILD, name) for name in ("tests/runner/kubernetes_jobs", "cmd/sijil-runner"))
SPACE, TOKEN = "sijil-runs", "the.secret.token"
IMAGE = "registry.example/sijil-pod@sha256:" + "0" * 64
BASE = f"/apis/batch/v1/namespaces/{SPACE}/jobs"


class Api(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder, handler=None):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=api",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder + "/tls.key", "-out", folder + "/tls.pem"], check=True,
                       capture_output=True)
        super().__init__(("127.0.0.1", 0), handler or Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder + "/tls.pem", folder + "/tls.key")
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.jobs, self.asked, self.faults = {}, [], []
        self.refuses = False  # the token is over
        self.pods = lambda jobs: []
        self.place = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
                      "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}}  # of the namespace and of its policy
        self.url = f"https://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a client that has enough closes


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, value):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if status == 302:
            self.send_header("Location", self.server.url + "/elsewhere")
        self.end_headers()
        self.wfile.write(body)

    def act(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        self.server.asked.append((self.command, self.path, self.headers.get("Authorization"), body))
        if self.server.refuses:
            return self.answer(401, {"message": "Unauthorized"})
        if self.path == "/version":
            return self.answer(200, {"gitVersion": "v1.35.4"})
        fault = self.server.faults.pop(0) if self.server.faults else None
        if callable(fault):
            return fault(self, body)
        if fault is not None:
            return self.answer(*fault)
        return self.serve(body)

    def serve(self, body):
        jobs, name = self.server.jobs, self.path.removeprefix(BASE + "/")
        if self.command == "POST" and self.path == BASE:
            job = json.loads(body)
            if job["metadata"]["name"] in jobs:
                return self.answer(409, {"message": "it exists"})
            job["metadata"]["uid"] = str(uuid.uuid4())
            jobs[job["metadata"]["name"]] = job
            return self.answer(201, job)
        if self.command == "GET" and self.path.startswith(BASE + "?"):
            runner = urllib.parse.parse_qs(self.path.split("?", 1)[1])["labelSelector"][0].removeprefix("sijil/runner=")
            return self.answer(200, {"items": [job for job in jobs.values() if job["metadata"]["labels"].get("sijil/runner") == runner]})
        if self.path.startswith(f"/api/v1/namespaces/{SPACE}/pods"):
            return self.answer(200, {"items": self.server.pods(jobs)})
        if self.path.startswith(("/api/v1/", "/apis/networking")):
            return self.answer(200, self.server.place)
        if name not in jobs:
            return self.answer(404, {"message": "no job"})
        if self.command == "DELETE":
            if json.loads(body)["preconditions"]["uid"] != jobs[name]["metadata"]["uid"]:
                return self.answer(409, {"message": "another uid"})
            del jobs[name]
            return self.answer(200, {"kind": "Status"})
        return self.answer(200, jobs[name])

    do_GET = do_POST = do_DELETE = act

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass


class World:
    def __init__(self, folder):
        self.folder, self.api = folder, Api(folder)
        self.token = folder + "/token"
        self.write("token", TOKEN + "\n")

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(file.name, 0o600)
        return os.path.join(self.folder, name)

    def ask(self, *words, faults=(), url=None, token=None):
        self.api.faults, self.api.asked = list(faults), []
        done = subprocess.run([JOBS, url or self.api.url, self.folder + "/tls.pem", token or self.token, SPACE, *words], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False, timeout=120)
        assert not done.stderr, done.stderr
        return done.returncode, done.stdout.decode()

    def start(self, run, *settings, **more):
        return self.ask("start", run, "1", "agent=" + IMAGE, "payload=" + IMAGE, *settings, "--", "/sijil-pod", "trial", "/gate", **more)


def said(answer, kind, text=""):
    assert answer[0] == 1 and answer[1].startswith(kind + ": ") and text in answer[1], answer


def taken(answer):
    assert answer[0] == 0, answer
    return json.loads(answer[1])


def cut(handler, _):
    handler.close_connection = True
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{")


def make_and_cut(handler, body):
    job = json.loads(body)
    job["metadata"]["uid"] = "first"
    handler.server.jobs[job["metadata"]["name"]] = job
    cut(handler, body)


def a_lost_answer_makes_no_second_job(world):
    run = str(uuid.uuid4())
    said(world.start(run, faults=[make_and_cut]), "uncertain")
    assert taken(world.start(run))["uid"] == "first"
    assert len(world.api.jobs) == 1
    assert [method for method, path, *_ in world.api.asked if path != "/version"] == ["POST", "GET", "GET"]


def a_job_of_something_else_is_not_taken_over(world):
    run = str(uuid.uuid4())
    taken(world.start(run))
    said(world.start(run, "cpus=2"), "conflict", "something else")
    taken(world.start(run))


def a_deletion_is_of_one_job(world):
    run = str(uuid.uuid4())
    assert taken(world.ask("cancel", run, "1"))["state"] == "none"
    taken(world.start(run))
    said(world.ask("cancel", run, "1", faults=[(200, {"kind": "Job", "metadata": {"uid": "older"}})]), "conflict")
    assert taken(world.ask("cancel", run, "1"))["state"] == "none"
    assert taken(world.ask("find", run, "1"))["state"] == "none"


def a_runner_sweeps_its_own_jobs(world):
    """Not those of another runner, nor those of nobody."""
    mine, other = str(uuid.uuid4()), str(uuid.uuid4())
    world.api.jobs = {}
    runs = [str(uuid.uuid4()) for _ in range(4)]
    for run, runner in zip(runs, (mine, mine, other, None)):
        taken(world.start(run, *([f"runner={runner}"] if runner else [])))
    taken(world.ask("sweep", mine))
    assert sorted(name.split("-", 1)[1][:36] for name in world.api.jobs) == sorted(runs[2:]), world.api.jobs
    taken(world.ask("sweep", mine))
    for answer in ({"items": {}}, {}, {"items": [{"metadata": {"name": "../x", "uid": "u"}}]}, {"items": [{"metadata": {"name": "x"}}]}, {"items": [7]}):
        said(world.ask("sweep", mine, faults=[(200, answer)]), "unavailable")
    said(world.ask("sweep", "x,sijil/runner!=y"), "invalid")
    assert len(world.api.jobs) == 2


def errors_have_their_kind(world):
    run = str(uuid.uuid4())
    for status, kind in ((401, "denied"), (403, "denied"), (409, "uncertain"), (422, "invalid"), (429, "unavailable"), (302, "unavailable"),
                         (500, "uncertain"), (503, "uncertain")):
        said(world.start(run, faults=[(status, {"message": "the API's words\x1b"})]), kind, "" if status == 409 else "the API's words?")
    for status, kind in ((401, "denied"), (500, "unavailable"), (302, "unavailable"), (400, "invalid")):
        said(world.ask("find", run, "1", faults=[(status, b"<html>")]), kind)
    assert not world.api.jobs or run not in str(world.api.jobs)


def an_answer_has_limits(world):
    run = str(uuid.uuid4())
    for answer in (b"{" + b" " * (2 << 20) + b"}", b"[" * 100000, b"{\"items\":[" + b"0," * 400000 + b"0]}"):
        status, text = world.ask("find", run, "1", faults=[(200, answer)])
        assert status == 1 and text.startswith(("limit: ", "unavailable: ")), text
    for answer in (b"", b"[]", b"{}", b"{\"kind\":\"Job\"}", b"NaN", b"{\"kind\":\"Job\",\"metadata\":{\"uid\":NaN}}"):
        status, text = world.ask("find", run, "1", faults=[(200, answer)])
        assert status == 1 and text.startswith(("uncertain: ", "unavailable: ")), (answer, text)


def the_token_goes_to_the_api_alone(world):
    run = str(uuid.uuid4())
    taken(world.ask("find", run, "1"))
    assert all(header == "Bearer " + TOKEN for _, _, header, _ in world.api.asked)
    said(world.ask("find", run, "1", token=world.folder + "/none"), "denied", "/none")
    said(world.ask("find", run, "1", token=world.write("bad", "a\nb: c")), "denied", "no token")
    said(world.ask("find", run, "1", token=world.write("empty", "\n")), "denied", "no token")
    os.chmod(world.write("open", TOKEN), 0o640)
    said(world.ask("find", run, "1", token=world.folder + "/open"), "denied", "others may read it: chmod 600")
    said(world.ask("find", run, "1", faults=[(401, {"message": "Unauthorized"})]), "denied", "renew " + world.token)
    said(world.ask("find", run, "1", url=world.api.url.replace("https", "http")), "invalid", "https")
    status, text = world.ask("find", run, "1", faults=[(401, {"message": TOKEN})])
    assert status == 1 and not [path for _, path, *_ in world.api.asked if "elsewhere" in path], text


def a_review_is_one_call(world):
    token = world.write("pod-token", "aaa.bbb.ccc")
    good = {"status": {"authenticated": True, "audiences": ["sijil"], "user": {
        "username": "system:serviceaccount:sijil-runs:sijil-run",
        "extra": {"authentication.kubernetes.io/pod-uid": ["p"], "authentication.kubernetes.io/node-uid": ["n"]}}}}
    taken(world.ask("review", token, "p", "n", faults=[(201, good)]))
    method, path, _, body = world.api.asked[-1]
    assert (method, path) == ("POST", "/apis/authentication.k8s.io/v1/tokenreviews")
    assert json.loads(body)["spec"] == {"audiences": ["sijil"], "token": "aaa.bbb.ccc"}
    said(world.ask("review", token, "q", "n", faults=[(201, good)]), "denied", "pod")
    said(world.ask("review", token, "p", "n", faults=[cut]), "unavailable")
    said(world.ask("review", token, "p", "n", faults=[(201, {})]), "denied")
    for bad in ("aaa\"bbb", "", "a" * 8193):
        said(world.ask("review", world.write("pod-token", bad), "p", "n"), "denied", "no token")
        assert len(world.api.asked) == 1, "only the version was asked for"


def check(world, *words):
    done = subprocess.run([RUNNER, "check", "--kubernetes=" + world.api.url, "--ca-file=" + world.folder + "/tls.pem", *words], capture_output=True, text=True,
                          check=False, timeout=120)
    return done.returncode, done.stdout, done.stderr


def pod_that_says(message, code):
    """Of each job: it has ended, and so has the job."""
    def pods(jobs):
        ended = "Complete" if code == 0 else "Failed"
        for job in jobs.values():
            job["status"] = {"conditions": [{"type": ended, "status": "True", "reason": "x"}]}
        states = [{"name": name, "state": {"terminated": {"exitCode": code, "reason": "Error", "message": message}}} for name in ("agent", "payload")]
        return [{"metadata": {"uid": "p", "ownerReferences": [{"kind": "Job", "uid": job["metadata"]["uid"]}]}, "spec": {"nodeName": "node-7"},
                 "status": {"containerStatuses": states}} for job in jobs.values()]
    return pods


def a_cluster_is_checked(world):
    token, image = "--kubernetes-token=" + world.token, "--kubernetes-image=" + IMAGE
    world.api.faults, world.api.jobs = [], {}
    status, text, _ = check(world, token)
    assert status == 0 and "v1.35.4" in text and "none was started" in text, text
    world.api.pods = pod_that_says("closed: 5 addresses", 0)
    status, text, _ = check(world, token, image, "--kubernetes-region=local/dxb")
    assert status == 0 and "closed: 5 addresses, on node node-7" in text and not world.api.jobs, text
    assert json.loads(check(world, token, image, "--json")[1])["pod"] == {"node": "node-7", "shown": "closed: 5 addresses"}
    for message, code in (("open: 10.96.0.1 answers", 125), ("", 0), ("open", 0)):
        world.api.pods = pod_that_says(message, code)
        status, text, said = check(world, token, image)
        assert status == 1 and not text and (message or "it says nothing") in said and not world.api.jobs, (said, world.api.jobs)
    world.api.place["metadata"]["labels"] = {}
    status, _, said = check(world, token, image)
    assert status == 1 and "restricted" in said, said
    for words in ([], [token, "--slurm=unix:/x"]):
        assert check(world, *words)[0] == 2
    assert subprocess.run([RUNNER, "check", image], capture_output=True, check=False, timeout=60).returncode == 2, "without --kubernetes"


def main():
    with tempfile.TemporaryDirectory() as folder:
        world = World(folder)
        for case in (a_lost_answer_makes_no_second_job, a_job_of_something_else_is_not_taken_over, a_deletion_is_of_one_job, a_runner_sweeps_its_own_jobs, errors_have_their_kind,
                     an_answer_has_limits, the_token_goes_to_the_api_alone, a_review_is_one_call, a_cluster_is_checked):
            case(world)
            print("ok", case.__name__, flush=True)
        world.api.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
