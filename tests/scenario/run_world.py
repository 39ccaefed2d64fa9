"""Signed training runs as their people and machines see them: keys, requests and approvals made with openssl, runners over mutual TLS.
Everything is made from docs/formats/run.md and docs/formats/documents.md alone."""
import base64
import functools
import hashlib
import http.client
import json
import os
import secrets
import socket
import ssl
import struct
import subprocess
import tempfile
import time
import uuid

import sijil_test
from sijil_test import Client, make_person

KEY_TYPE = "application/vnd.sijil.signing-key.v1+json"
RUNNER_TYPE = "application/vnd.sijil.runner.v1+json"
REQUEST = "application/vnd.sijil.run-request.v1+json"
APPROVAL = "application/vnd.sijil.run-approval.v1+json"
LEASE = "application/vnd.sijil.run-lease.v1+json"
CERTIFICATE = "application/vnd.sijil.run-certificate.v1+json"
REFUSAL = "application/vnd.sijil.run-refusal.v1+json"
STATEMENT = "application/vnd.in-toto+json"
PROJECT = "main/models"
REGION = "local/main"
HOUR = 3600
FOLDER = tempfile.TemporaryDirectory()


def utc(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds * 1000) % 1000:03d}Z"


def pae(kind, payload):
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def url64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


INFO_HEAD = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")  # SubjectPublicKeyInfo of P-256, before the point


class Key:
    """A P-256 key in a file."""

    def __init__(self, path=None):
        if path is None:
            with tempfile.NamedTemporaryFile(dir=FOLDER.name, suffix=".pem", delete=False) as file:
                path = file.name
            subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path], check=True)
        self.path = path
        self.point = subprocess.run(["openssl", "ec", "-in", self.path, "-pubout", "-outform", "DER"], check=True, capture_output=True).stdout[-65:]
        jwk = {"crv": "P-256", "kty": "EC", "x": url64(self.point[1:33]), "y": url64(self.point[33:])}
        self.name = url64(hashlib.sha256(canonical(jwk)).digest())
        self.info = base64.b64encode(INFO_HEAD + self.point).decode()  # as a certificate names it


def seal(kind, value, key):
    payload = canonical(value)
    made = subprocess.run(["openssl", "dgst", "-sha256", "-sign", key.path], input=pae(kind, payload), capture_output=True, check=True)
    return {"payload": base64.b64encode(payload).decode(), "payloadType": kind,
            "signatures": [{"keyid": key.name, "sig": base64.b64encode(made.stdout).decode()}]}


def opened(envelope):
    """The payload of an envelope in a bundle, and its digest."""
    envelope = json.loads(envelope)
    payload = base64.b64decode(envelope["payload"])
    return json.loads(payload), "sha256:" + hashlib.sha256(pae(envelope["payloadType"], payload)).hexdigest()


def digest_of(kind, value):
    return "sha256:" + hashlib.sha256(pae(kind, canonical(value))).hexdigest()


def stated(**more):
    """The annotations of a manifest that states a label: at least that of the policy "all" of run_fleet.py."""
    return {"sijil.label": canonical({"attached": [], "class": "confidential", "lineage": "attested", "pins": ["all"], "subjects": [], **more}).decode()}


def artifact(name):
    return {"repository": name, "digest": "sha256:" + hashlib.sha256(name.encode()).hexdigest()}


def spec(**more):
    return {"code": artifact(PROJECT + "/code"), "inputs": [{"name": "digits", **artifact(PROJECT + "/digits")}],
            "outputs": [{"name": "model", "repository": PROJECT + "/trained", "type": "application/vnd.example+json"}],
            "argv": ["/usr/bin/python3", "train.py"], "environment": {},
            "limits": {"time_s": 600, "grace_s": 5, "cpus": 1, "memory_bytes": 1 << 28, "output_bytes": 1 << 24, "output_files": 10,
                       "log_bytes": 1 << 20, "processes": 64},
            "nodes": 1, "tasks": 1, "network": "none", "pool": "default", "jurisdictions": ["AE"], "isolation": "rlimits",
            "assurance": 1, **more}


@functools.cache
def client_of(server, login, port):
    """One for all calls, with the token of earlier ones: tokens for the administration are few."""
    return Client(server, login, port)


class Person:
    """Somebody with a role, and an enrolled key."""
    PURPOSE = "sign"

    @staticmethod
    def scope():
        return PROJECT

    def __init__(self, world, name, role="trainer"):
        self.world, self.login = world, make_person(world.server, name, role, self.scope())
        me = world.server.client(self.login).api("GET", "/self")
        self.name = me["name"]
        self.principal = "ext:" + hashlib.sha256(f"{me['issuer']}\n{me['name']}".encode()).hexdigest()
        self.enroll(world.officer)

    def lose_role(self):
        admin = self.world.server.client(self.world.server.admin)
        for binding in admin.api("GET", f"/bindings?scope={PROJECT}")["bindings"]:
            if binding.get("subject") == self.name:
                admin.api("DELETE", "/bindings/" + binding["id"])

    def withdraw_key(self):
        document = {**self.document, "version": 2, "withdrawn": "stolen", "effective_from": utc(time.time() - 1)}
        self.world.server.client(self.login).api("POST", f"/keys/signing/{self.key.name}/withdrawal", seal(KEY_TYPE, document, self.key))

    def enroll(self, officer):
        """A key; the officer's approval, and the root's."""
        world, self.key = self.world, Key()
        now = time.time()
        document = self.document = {"schema": "sijil.document/v1", "kind": "signing-key", "scope": self.scope(), "name": self.key.name, "version": 1,
                    "effective_from": utc(now - 1), "expires": utc(now + 24 * HOUR),
                    "body": {"principal": self.principal, "public_key": url64(self.key.point), "purpose": self.PURPOSE}}
        drafted = seal(KEY_TYPE, document, self.key)
        world.server.client(self.login).api("POST", "/keys/signing", drafted)
        world.server.client(officer).api("POST", f"/keys/signing/{self.key.name}/approval", {"envelopes": [drafted, seal(KEY_TYPE, document, world.root)]})

    def call(self, method, path="", body=None, port=None):
        return client_of(self.world.server, self.login, port).call(method, f"/api/v1/projects/{PROJECT}/runs{path}", None if body is None else json.dumps(body),
                           {"Content-Type": "application/json"} if body else {}, scope="registry:admin:*")

    def request(self, **more):
        now = time.time()
        asked = {"schema": "sijil.run-request/v1", "run": str(uuid.uuid4()), "audience": self.world.origin, "project": PROJECT,
                 "requester": self.principal, "issued_at": utc(now), "expires": utc(now + HOUR), "nonce": secrets.token_hex(16),
                 "spec": spec(), **more}
        answer = self.call("POST", body=seal(REQUEST, asked, self.key))
        assert answer.status == 201, answer.body
        return asked

    def approval(self, asked):
        """An envelope, and its digest."""
        now = time.time()
        value = {"schema": "sijil.run-approval/v1", "run": asked["run"], "audience": self.world.origin, "request": digest_of(REQUEST, asked),
                 "approver": self.principal, "issued_at": utc(now), "expires": utc(now + HOUR), "nonce": secrets.token_hex(16)}
        return seal(APPROVAL, value, self.key), digest_of(APPROVAL, value)

    def approve(self, asked):
        answer = self.call("POST", f"/{asked['run']}/approvals", self.approval(asked)[0])
        assert answer.status == 201, answer.body

    def run(self, asked):
        answer = self.call("GET", "/" + asked["run"])
        assert answer.status == 200, answer.body
        return answer.json

    def wait(self, asked, state, seconds=30):
        sijil_test.wait_until(lambda: self.run(asked)["state"] == state, seconds, f"the run is not {state}: {self.run(asked)}")


class Approver(Person):
    """Somebody whose key approves documents."""
    PURPOSE = "approve"

    @staticmethod
    def scope():
        return ""

    def enroll(self, officer):
        super().enroll(make_person(self.world.server, "registrar", "registry-admin", ""))


class Robot(Person):
    """A program that an officer has made. Nobody is behind it."""

    def __init__(self, world, name, officer):
        """`officer`: another one, who approves its key."""
        made = world.server.client(world.officer).api("POST", "/robots", {"organisation": "main", "name": name})
        world.server.client(world.officer).api("POST", "/bindings", {"robot": made["id"], "role": "trainer", "scope": PROJECT})
        self.world, self.login, self.principal = world, (made["name"], made["secret"]), "robot:" + made["id"]
        self.enroll(officer)


class Runner:
    """A runner with an enrolled key and its certificate. `place`: members of its document; `approver`: a key that signs it beside the root's."""

    def __init__(self, world, approver=None, **place):
        self.world, self.key, self.id = world, Key(), str(uuid.uuid4())
        self.session, self.generation = secrets.token_hex(16), 1
        self.leases, self.certified = {}, {}  # bundles by run, attempt and node; key and certificate by lease
        self.place = {"pool": "default", "region": REGION, "jurisdictions": ["AE"], "devices": 0, "isolation": "rlimits", "assurance": 1, **place}
        self.document = self.make_document(1)
        self.certificate = self.key.path + ".crt"
        with open(self.certificate, "w", encoding="ascii") as file:
            file.write(self.record(self.document, self.key, world.root, *([approver] if approver else [])))

    def make_document(self, version, **more):
        now = time.time()
        return {"schema": "sijil.document/v1", "kind": "runner", "scope": "", "name": self.key.name, "version": version,
                "effective_from": utc(now - 1), "expires": utc(now + 24 * HOUR),
                "body": {"runner": self.id, "public_key": url64(self.key.point), **self.place}, **more}

    def record(self, document, *signers):
        """As the enrolment does: the event, and sijil-keyd's pin. Returns the certificate."""
        names = []
        for number, signer in enumerate(signers):
            names.append(f"{self.key.path}.{document['version']}.{number}")
            with open(names[-1], "wb") as file:
                file.write(canonical(seal(RUNNER_TYPE, document, signer)))
        done = subprocess.run([os.environ["SIJIL_ENROL_TOOL"], *self.world.enrolment_words(), *names], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def folder(self):
        """The state folder of this runner, as `sijil-runner enroll` leaves it."""
        path = os.path.join(FOLDER.name, self.id)
        keys = self.world.server.client(self.world.server.admin).api("GET", "/audit/key")
        signer = subprocess.run(["openssl", "ec", "-pubin", "-outform", "DER"], input=keys["documents"].encode(), check=True, capture_output=True).stdout[-65:]
        pins = {"schema": "sijil.runner-registry/v1", "url": f"https://127.0.0.1:{self.world.server.port}", "audience": keys["origin"],
                "log_key": keys["vkey"], "signer": url64(signer), "root": url64(self.world.root.point), "ca_file": "ca.pem"}
        key = subprocess.run(["openssl", "pkcs8", "-topk8", "-nocrypt", "-in", self.key.path], check=True, capture_output=True).stdout
        files = {"registry.json": canonical(pins), "key.pem": key, "document.json": canonical(seal(RUNNER_TYPE, self.document, self.key))}
        for name, source in (("ca.pem", self.world.server.ca_file), ("certificate.pem", self.certificate)):
            with open(source, "rb") as file:
                files[name] = file.read()
        os.makedirs(path, mode=0o700)
        for name, content in files.items():
            with open(os.path.join(path, name), "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(content)
        return path

    def withdraw(self):
        document = self.make_document(2, withdrawn="lost")
        document["body"]["since"] = utc(time.time() - HOUR)[:19] + "Z"
        self.record(document, self.world.root)

    def connection(self, port=None, timeout=90):
        context = ssl.create_default_context(cafile=self.world.server.ca_file)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(self.certificate, self.key.path)
        return http.client.HTTPSConnection("127.0.0.1", port or self.world.server.port, context=context, timeout=timeout)

    def named(self):
        """The header with the session; a copy of the disk has none."""
        return {"Sijil-Runner-Session": self.session} if self.session else {}

    def restart(self):
        """Another process with the same journal."""
        self.session, self.generation = secrets.token_hex(16), self.generation + 1

    def call(self, path, body, port=None, link=None):
        """`link`: a connection that is kept."""
        client = Client(self.world.server, None, port)
        own = link or self.connection(port)
        try:
            return client.call("POST", "/api/v1/runner/" + path, json.dumps(body), {"Content-Type": "application/json", **self.named()}, connection=own)
        finally:
            if link is None:
                own.close()

    def ask(self, wait_s=0, port=None, link=None, **more):
        answer = self.call("leases", {"session": self.session, "generation": self.generation, "wait_s": wait_s, "isolation": "rlimits", "cpus": 4,
                                    "memory_bytes": 1 << 32, "devices": [], **more}, port, link)
        if answer.status == 200:
            lease, _ = opened(answer.json["lease"])
            self.leases[(lease["run"], lease["attempt"], lease["node"])] = answer.json
        return answer

    def queue(self, *regions, port=None):
        """What a scheduler sees."""
        return self.call("queue", {"session": self.session, "generation": self.generation, "regions": list(regions or [REGION])}, port)

    def lease(self, wait_s=20, **more):
        """The bundle of a run, with its lease."""
        answer = self.ask(wait_s, **more)
        assert answer.status == 200, (answer.status, answer.body)
        return answer.json

    def make_certificate(self, bundle, attempt_key, signer=None, **more):
        """The envelope that certifies a key for the lease of a bundle."""
        (lease, lease_digest), (_, order_digest) = opened(bundle["lease"]), opened(bundle["order"])
        value = {"schema": "sijil.run-certificate/v1", "run": lease["run"], "audience": lease["audience"], "order": order_digest, "lease": lease_digest,
                 "attempt": lease["attempt"], "node": lease["node"], "runner_key": self.key.info, "attempt_key": attempt_key.info,
                 "not_before": lease["not_before"], "expires": lease["expires"], **more}
        return json.dumps(seal(CERTIFICATE, value, signer or self.key))

    def certify(self, bundle):
        """The key of the attempt, and its certificate: one for a lease, as an honest runner has it."""
        if bundle["lease"] not in self.certified:
            key = Key()
            self.certified[bundle["lease"]] = key, self.make_certificate(bundle, key)
        return self.certified[bundle["lease"]]

    def start(self, run, attempt=1, port=None, node=0, **more):
        bundle = self.leases.get((run, attempt, node))
        certificate = self.certify(bundle)[1] if bundle else "{}"
        return self.call(f"runs/{run}/start", {"attempt": attempt, "node": node, "certificate": certificate, **more}, port)

    def beat(self, run, attempt=1, phase="running", port=None, **more):
        return self.call(f"runs/{run}/heartbeat", {"attempt": attempt, "node": 0, "phase": phase, "cpu_ms": 5, "device_ms": 0,
                                                   "memory_bytes": 1 << 20, **more}, port)

    def token(self, bundle, port=None):
        """The answer to a question for a token."""
        lease, _ = opened(bundle["lease"])
        return self.call(f"runs/{lease['run']}/token", {"attempt": lease["attempt"], "node": lease["node"]}, port)

    def send(self, token, repository, content, digest=None, port=None):
        """Uploads a blob under a token of a run. `digest`: that it is said to have."""
        own = self.connection(port)
        path = f"/v2/{repository}/blobs/uploads/?digest={digest or sijil_test.sha256(content)}"
        try:
            return Client(self.world.server, None, port).call("POST", path, content, {
                "Authorization": "Bearer " + token, "Content-Type": "application/octet-stream"}, connection=own)
        finally:
            own.close()

    def refusal(self, bundle, key=None, **more):
        lease, digest = opened(bundle["lease"])
        value = {"schema": "sijil.run-refusal/v1", "run": lease["run"], "audience": lease["audience"], "lease": digest, "check": "devices",
                 "reason": "no such device", "at": utc(time.time()), **more}
        return json.dumps(seal(REFUSAL, value, key or self.key))

    def refuse(self, bundle, text):
        lease, _ = opened(bundle["lease"])
        return self.call(f"runs/{lease['run']}/refusal", {"attempt": lease["attempt"], "node": lease["node"], "refusal": text})

    def result(self, bundle, made, metrics=None, key=None, status="succeeded", exit_status=0, reason="", certificate=None, **more):
        """An envelope. `made`: the digests of the manifests of outputs and log, by name; `more` replaces members of runDetails."""
        (lease, lease_digest), (order, order_digest) = opened(bundle["lease"]), opened(bundle["order"])
        attempt_key, own = self.certify(bundle)
        artifacts = [(name, order["spec"][name]) for name in ("code", "image", "resume") if name in order["spec"]]
        artifacts += [("input/" + one["name"], one) for one in order["spec"]["inputs"]]
        now = time.time()
        details = {"builder": {"id": "urn:sijil:runner:" + self.id},
                   "metadata": {"invocationId": "urn:uuid:" + lease["run"], "startedOn": utc(now), "finishedOn": utc(now)},
                   "sijil_outcome": {"status": status, "exit": exit_status, "signal": 0, "reason": reason},
                   "sijil_usage": {"wall_ms": 5, "cpu_ms": 5, "memory_bytes": 1, "output_bytes": 1, "log_bytes": 1, "device_ms": 0},
                   "sijil_isolation": "rlimits", "sijil_devices": [], **more}
        if metrics:
            details["byproducts"] = [{"name": "metrics", "digest": {"sha256": metrics[7:]}}]
        names = sorted(name for name in made if name != "log") + ["log"]
        value = {"_type": "https://in-toto.io/Statement/v1", "predicateType": "https://slsa.dev/provenance/v1",
                 "subject": [{"name": name, "digest": {"sha256": made[name][7:]}} for name in names],
                 "predicate": {"buildDefinition": {
                     "buildType": "urn:sijil:run:v1",
                     "externalParameters": {"run": lease["run"], "audience": lease["audience"], "order": order_digest, "lease": lease_digest,
                                            "certificate": opened(certificate or own)[1]},
                     "internalParameters": {"attempt": lease["attempt"], "node": lease["node"]},
                     "resolvedDependencies": [{"name": name, "uri": "urn:sijil:" + one["repository"], "digest": {"sha256": one["digest"][7:]}}
                                              for name, one in artifacts]}, "runDetails": details}}
        return json.dumps(seal(STATEMENT, value, key or attempt_key))

    def finish(self, bundle, text, manifests, port=None):
        lease, _ = opened(bundle["lease"])
        return self.call(f"runs/{lease['run']}/result",
                         {"attempt": lease["attempt"], "node": lease["node"], "certificate": self.certify(bundle)[1], "result": text, "manifests": manifests}, port)


def prefixed(value):
    """A text or bytes in a message to sijil-keyd."""
    return struct.pack(">I", len(value)) + value


class World:
    """A server with people and runners. `conninfo` and `keyd`: for the tool that enrols runners."""

    def __init__(self, server, root, conninfo, keyd):
        self.server, self.root, self.conninfo, self.keyd = server, Key(root), conninfo, keyd
        self.origin = server.client(server.admin).api("GET", "/audit/key")["origin"]
        self.officer = make_person(server, "officer", "org-admin", PROJECT.split("/", maxsplit=1)[0])

    def enrolment_words(self):
        return [self.conninfo, self.keyd]

    def ask_keyd(self, kind, fields):
        """A compromised gateway's message to sijil-keyd: whether it was answered, and the text of the answer."""
        with socket.socket(socket.AF_UNIX) as keyd:
            keyd.connect(self.keyd)
            keyd.sendall(struct.pack(">IBBQ", 10 + len(fields), 6, kind, 1) + fields)
            length = struct.unpack(">I", keyd.recv(4, socket.MSG_WAITALL))[0]
            answer = keyd.recv(length, socket.MSG_WAITALL)
        return answer[1] == kind, (answer[14:] if answer[1] == kind else answer[10:]).decode("utf-8", "replace")

    def events(self, action):
        """All of the log, the newest first."""
        client, found, path = self.server.client(self.server.admin), [], "/audit/events?limit=1000"
        while path:
            answer = client.api("GET", path)
            found += answer["events"]
            path = "next" in answer and f"/audit/events?limit=1000&after={answer['next']}"
        return [one["entry"] for one in found if one["entry"]["act"] == action]
