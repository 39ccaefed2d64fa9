"""The live gateway: `sijild --embedded` with its own PostgreSQL and sijil-keyd, and the clients of the cases."""
import base64
import os
import re
import ssl
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scenario"))
from sijil_test import Client, Server, make_robot, program, sha256  # noqa: E402

import coverage  # noqa: E402

TOKEN_SECONDS = 400  # of the 900 that a token lives
SANITIZERS = re.compile(rb"ERROR: \w+Sanitizer|runtime error:|Assertion `|SUMMARY: \w+Sanitizer|LeakSanitizer")


class World:
    def __init__(self):
        os.environ.setdefault("ASAN_OPTIONS", "detect_leaks=1:quarantine_size_mb=16:allocator_may_return_null=1")
        self.server = Server().start()
        self.context = ssl.create_default_context(cafile=self.server.ca_file)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        self.log_read, self.unique, self.publisher, self.is_full = 0, 0, None, False
        self.logins, self.clients = {}, {}
        self.begun, self.tokens, self.location = set(), {}, "/v2/main/models/fuzz/blobs/uploads/none"
        self.prepare()
        self.gateway = self.find_gateway()
        self.counters = coverage.Counters.find(self.gateway, program("sijild"))

    def prepare(self):
        admin = self.server.client(self.server.admin)
        admin.api("POST", "/organisations", {"name": "other"})
        admin.api("POST", "/projects", {"organisation": "other", "name": "models"})
        admin.api("POST", "/organisations", {"name": "kept"})  # no case changes it, because its content must stay
        admin.api("POST", "/projects", {"organisation": "kept", "name": "kept"})
        self.logins = {
            "pull": make_robot(self.server, "pull", "consumer", "main/models"),
            "foreign": make_robot(self.server, "foreign", "publisher", "other/models", organisation="other"),
            "keeper": make_robot(self.server, "keeper", "publisher", "kept/kept", organisation="kept"),
            "auditor": make_robot(self.server, "auditor", "auditor", ""),
            "admin": self.server.admin}
        self.clients = {name: self.server.client(login) for name, login in self.logins.items()}
        self.new_publisher()
        place = self.clients["push"].repository("main/models/fuzz")
        self.digest, self.empty = place.push_blob(b"hello"), place.push_blob(b"{}")
        manifest = place.manifest(b"hello")
        assert place.put_manifest("v1", manifest).status == 201
        self.manifest = sha256(manifest)
        self.clients["foreign"].repository("other/models/fuzz").push_blob(b"theirs")
        self.kept = self.clients["keeper"].repository("kept/kept/golden")
        self.kept_digest = self.kept.push_blob(b"golden")
        robots = admin.api("GET", "/robots?organisation=main")["robots"]
        victim = admin.api("POST", "/robots", {"organisation": "main", "name": "victim"})
        self.robot = victim["id"]
        self.binding = admin.api("POST", "/bindings", {"robot": self.robot, "role": "consumer", "scope": "main/models"})["id"]
        assert robots
        gone = admin.api("POST", "/robots", {"organisation": "main", "name": "gone"})
        admin.api("POST", "/bindings", {"robot": gone["id"], "role": "publisher", "scope": "main/models"})
        self.revoked = Client(self.server, (gone["name"], gone["secret"])).token("repository:main/models/fuzz:pull,push")
        admin.api("DELETE", f"/robots/{gone['id']}")

    def find_gateway(self):
        """The process that serves. Root also has a supervisor, which has a single thread."""
        def threads(process):
            return len(os.listdir(f"/proc/{process}/task"))
        return max(self.server.processes("sijild"), key=threads)

    # --- what stands for what -----------------------------------------------------------------------------------
    def token(self, who):
        scope = {"admin": "registry:admin:*", "auditor": "registry:admin:*",
                 "foreign": "repository:other/models/fuzz:pull,push,delete"}.get(
                     who, "repository:main/models/fuzz:pull,push,delete repository:main/models/fuzz2:pull,push,delete registry:catalog:*")
        known = self.tokens.get(who)
        if known is None or known[1] < time.monotonic():
            known = (self.clients[who].token(scope, fresh=True), time.monotonic() + TOKEN_SECONDS)
            self.tokens[who] = known
        return known[0]

    def credential(self, who):
        if who == "none":
            return ""
        if who == "garbage":
            return "Bearer " + "e" * 40 + ".e30." + "A" * 86
        if who == "forged":
            head, payload, signature = self.token("push").split(".")
            return f"Bearer {head}.{payload}.{('A' if signature[5] != 'A' else 'B') + signature[1:]}" if signature[0] != "A" else \
                f"Bearer {head}.{payload}.B{signature[1:]}"
        if who == "revoked":
            return "Bearer " + self.revoked
        if who.startswith("basic"):
            name, secret = self.logins["push"]
            pair = f"{name}:{secret if who == 'basic_push' else 'wrong'}"
            return "Basic " + base64.b64encode(pair.encode()).decode()
        return "Bearer " + self.token(who)

    def resolve(self, text):
        if "${" not in text:
            return text
        names = {"digest": self.digest, "empty": self.empty, "manifest": self.manifest, "robot": self.robot,
                 "binding": self.binding, "event": "1", "location": self.location,
                 "and": "&" if "?" in self.location else "?", "unique": str(self.unique),
                 "location_id": self.location.split("?")[0].rsplit("/", 1)[1]}

        def one(match):
            name = match[1]
            return self.credential(name[11:]) if name.startswith("credential:") else names.get(name, "")
        return re.sub(r"\$\{([a-z_:]+)\}", one, text)

    def learn(self, answer):
        self.is_full = self.is_full or answer.status == 429
        location = answer["location"]
        if location and "/blobs/uploads/" in location:
            self.location = re.sub(r"^https://[^/]+", "", location)
            self.begun.add(self.location)

    def new_publisher(self):
        """Replaces the publisher by another robot. A robot has a limited number of uploads, and nobody knows the names of those that cases
        left open: they end with the robot."""
        admin = self.server.client(self.server.admin)
        if self.publisher is not None:
            admin.api("DELETE", f"/robots/{self.publisher}")
        robot = admin.api("POST", "/robots", {"organisation": "main", "name": f"push{self.unique}"})
        admin.api("POST", "/bindings", {"robot": robot["id"], "role": "publisher", "scope": "main/models"})
        self.publisher, self.is_full = robot["id"], False
        self.logins["push"] = robot["name"], robot["secret"]
        self.clients["push"] = self.server.client(self.logins["push"])
        self.tokens.pop("push", None)
        self.begun.clear()

    def end_uploads(self):
        """Ends the uploads whose names are known."""
        if self.is_full:
            self.new_publisher()
        for location in self.begun:
            who = "push" if location.startswith("/v2/main/") else "foreign"
            Client(self.server).call("DELETE", location, headers={"Authorization": self.credential(who)})
        self.begun.clear()

    # --- how it is ------------------------------------------------------------------------------------------------
    def complaint(self):
        """New reports of a sanitizer or an assertion; None if there are none, and all processes run."""
        with open(self.server.log.name, "rb") as log:
            log.seek(self.log_read)
            said = log.read()
        match = SANITIZERS.search(said)
        if match is not None:
            return said[max(0, match.start() - 200):match.start() + 3000].decode(errors="replace")
        self.log_read += max(0, len(said) - 200)  # a report may be split over two reads
        if self.server.process.poll() is not None:
            return f"sijild ended with {self.server.process.returncode}"
        if not os.path.exists(f"/proc/{self.gateway}"):
            return "the gateway's process is gone: " + said[-2000:].decode(errors="replace")
        return None

    def metrics(self):
        text = Client(self.server).call("GET", "/metrics").body.decode()
        values = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                key = name.split("{")[0]
                values[key] = values.get(key, 0) + float(value)
        return values

    def events(self):
        """The number of events in the log."""
        listed = self.clients["auditor"].api("GET", "/audit/events?order=descending&limit=1")["events"]
        return listed[0]["seq"] + 1

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.gateway}/fd"))

    def memory_kib(self):
        with open(f"/proc/{self.gateway}/status", encoding="ascii") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1])
