"""Shared by the scenarios: a real embedded server, real TLS, and a client that shows all of HTTP.

Standard library only. The environment names the programs: SIJIL_BUILD is the build folder."""
import atexit
import base64
import glob
import hashlib
import http.client
import json
import os
import pwd
import select
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.parse
import uuid

import contract

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from issuer import Issuer, IssuerProcess
from ports import free_port

BUILD = os.environ.get("SIJIL_BUILD", "build/asan")
CLUSTER = os.path.join(os.path.abspath(BUILD), "cluster")  # begins the name of a folder: tests/support/postgres.sh
RING_TOOL = os.path.join(BUILD, "tests/integration/ring_tool")
START_SECONDS = 90  # with sanitizers, on a busy machine, PostgreSQL's initdb included
MEMORY_ROOM = 2 << 30  # several tests run at a time, and a server's files take up to 300 MB
FINDINGS = (": Assertion `", "Sanitizer", "runtime error: ")  # output of an assertion or a sanitizer


def program(name):
    path = os.path.join(BUILD, "cmd", name)
    if not os.access(path, os.X_OK):
        sys.exit(f"{path} is not there: build first, or set SIJIL_BUILD")
    return path


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def children_of(process):
    """Ids of the children of a process."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                    if int(file.read().rsplit(")", 1)[1].split()[1]) == process:
                        found.append(int(entry))
            except OSError:
                pass
    return found


def working_in(folder):
    """Ids of the processes that work in the folder, as all of a PostgreSQL do in that of its data. A number in a file, such as postmaster.pid, may be that of
    any other process by now."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{entry}/cwd") == folder:
                found.append(int(entry))
        except OSError:
            pass
    return found


class Answer:
    def __init__(self, response, body):
        self.status, self.body = response.status, body
        self.headers = response.headers

    def __getitem__(self, name):
        return self.headers.get(name)

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def codes(self):
        return [error["code"] for error in self.json["errors"]]


def bytes_kept(answer):
    """The number of bytes that an upload has, by its Range. "0-0" means none here, because no scenario leaves a single byte."""
    first, last = answer["Range"].split("-")
    assert first == "0", answer["Range"]
    return 0 if last == "0" else int(last) + 1


def work_folder():
    """Where servers keep their files: on the disk, or in memory if ctest allows it (SIJIL_TEST_MEMORY) and there is room.
    A kill of processes loses as little in memory as on the disk. The tests of disks and of long files stay on the disk."""
    if os.environ.get("SIJIL_TEST_MEMORY") != "1":
        return "/var/tmp"
    with open("/proc/meminfo", encoding="ascii") as file:
        free = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable:"))
    return "/dev/shm" if os.path.isdir("/dev/shm") and min(free / 2, shutil.disk_usage("/dev/shm").free) > MEMORY_ROOM else "/var/tmp"


def kept_cluster():
    """Where tests/support/postgres.sh keeps one with these migrations, for the version of PostgreSQL that sijild takes."""
    digest = hashlib.sha256()
    for name in sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../migrations/*.sql"))):
        with open(name, "rb") as file:
            digest.update(file.read())
    return f"{CLUSTER}{sorted(glob.glob('/usr/lib/postgresql/*/bin'))[-1].replace('/', '-')}-{digest.hexdigest()[:16]}"


class Server:
    """`sijild --embedded` in a separate folder; stopped with all its processes when the scenario ends."""
    ends_with = 0  # the status that it must end with
    officers_by = ("--officers-by-bindings",)  # most scenarios are about other things; officers.py has the default
    psql_words = None  # psql, with what it needs for the database of this server

    def __init__(self, options=(), folder=None):
        self.root = tempfile.mkdtemp(prefix="sijil-", dir=folder or work_folder())
        os.chmod(self.root, 0o755)
        self.folder = os.path.join(self.root, "registry")
        self.port = free_port()
        self.options = list(options)
        self.process = None
        self.log = open(os.path.join(self.root, "log"), "ab")
        # The key ring's passphrase is outside the registry's folder; each scenario has its own.
        self.passphrase = os.path.join(self.root, "passphrase")
        self.secrets = os.path.join(self.root, "secrets")
        with open(self.passphrase, "w", encoding="ascii") as file:
            file.write(os.urandom(24).hex() + "\n")

    def command(self):
        return [program("sijild"), "--embedded", self.folder, "--listen-port", str(self.port),
                "--public-url", f"https://127.0.0.1:{self.port}", "--no-runner", *self.officers_by, *self.options]

    def begin(self):
        """Leaves what a first start leaves that was cut short after its migrations: PostgreSQL's files, which tests/support/postgres.sh
        has kept, and a key ring whose passphrase costs little. initdb and migrations cost a second of the processor, and the passphrase a fifth
        of a second at each start. integration/embedded.sh and faults/embedded.py have whole first starts."""
        made = kept_cluster()
        if os.path.exists(self.folder) or not os.path.isdir(made):
            return
        name = str(uuid.uuid4())
        os.mkdir(self.folder)
        with open(self.folder + "/instance", "w", encoding="ascii") as file:
            file.write(name)
        os.mkdir(self.folder + "/postgres", 0o700)
        subprocess.run(["cp", "-a", made, self.folder + "/postgres/data"], check=True)
        about = os.stat(made)
        os.chown(self.folder + "/postgres", about.st_uid, about.st_gid)
        if os.access(RING_TOOL, os.X_OK):
            self.make_ring(f"{name[:8]}.sijil.local/audit")

    def make_ring(self, origin):
        folder, is_root = self.folder + "/keyd", os.geteuid() == 0
        os.mkdir(folder, 0o700)
        subprocess.run([RING_TOOL, folder, origin, self.passphrase], check=True)
        owner = pwd.getpwnam("sijil-keyd") if is_root else None
        for path in (folder, *glob.glob(folder + "/*")) if is_root else ():
            os.chown(path, owner.pw_uid, owner.pw_gid)

    def start(self, wait=True):
        self.begin()
        with open(self.passphrase, "rb") as secret:
            self.process = subprocess.Popen([*self.command(), "--passphrase-fd", str(secret.fileno()), "--secrets-dir",
                                             self.secrets],
                                            stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL,
                                            pass_fds=[secret.fileno()])
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, seconds=START_SECONDS):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.process.poll() is not None:
                self.fail(f"sijild ended with {self.process.returncode}")
            try:
                if self.is_ready() and not self.strangers() and self.is_ready():  # the first answer may be a stranger's
                    return
            except (OSError, http.client.HTTPException, ssl.SSLError):
                pass
            time.sleep(0.1)
        self.fail(f"not ready after {seconds} s")

    def is_ready(self):
        return self.client().call("GET", "/readyz").status == 200

    def strangers(self):
        """Gateways of an earlier start: after their supervisor died, they finish their requests, and still answer that they are ready."""
        own = [self.process.pid, *children_of(self.process.pid)]
        return [process for process in self.processes("sijild") if process not in own]

    def fail(self, why):
        with open(os.path.join(self.root, "log"), encoding="utf-8", errors="replace") as log:
            sys.stderr.write("".join(log.readlines()[-40:]))
        self.stop()
        raise AssertionError(why)

    @property
    def ca_file(self):
        return os.path.join(self.folder, "ca.pem")

    @property
    def admin(self):
        with open(os.path.join(self.folder, "admin.json"), encoding="utf-8") as file:
            admin = json.load(file)
        return admin["username"], admin["password"]

    def client(self, login=None):
        return Client(self, login)

    def stop(self, sig=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(sig)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        return self.process.returncode if self.process else None

    @staticmethod
    def wait_gone(process, seconds=30):
        """Waits until the killed process has ended; a zombie counts as ended."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
                    if file.read().rsplit(")", 1)[1].split()[0] in "ZX":
                        return
            except OSError:
                return
            time.sleep(0.01)
        raise AssertionError(f"process {process} does not die")

    def processes(self, name):
        """Ids of processes called `name` that belong to this server's folder."""
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if words and os.path.basename(words[0].decode(errors="replace")).startswith(name) and \
                    any(self.root.encode() in word for word in words):
                found.append(int(entry))
        return found

    def objects(self):
        """Name and size of all files in its regions."""
        found = []
        for path in glob.glob(self.folder + "/regions/*/*/*"):
            try:
                found.append((os.path.basename(path), os.path.getsize(path)))
            except FileNotFoundError:  # removed in between
                pass
        return found

    def sql(self, text):
        """Runs SQL as the embedded database's administrator, and returns the first column of the first row."""
        if self.psql_words is None:  # to look through all processes of the machine costs more than the question
            with open(f"/proc/{min(self.processes('postgres'))}/cmdline", "rb") as file:
                words = [word.decode() for word in file.read().split(b"\0")]
            sockets = next(word.split("=", 1)[1] for word in words if word.startswith("--unix_socket_directories="))
            self.psql_words = [os.path.join(os.path.dirname(words[0]), "psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", sockets, "-U", "postgres", "-d", "sijil"]
        done = subprocess.run([*self.psql_words, "-c", text], check=True, capture_output=True, text=True, timeout=60)
        return done.stdout.split("\n", 1)[0]

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, value, trace):
        self.finish(kind is not None)

    def finish(self, failed):
        """Stops the server. After a failure, keeps its folder and shows the end of its log."""
        code = self.stop()
        self.log.close()
        crashes = self.crashes()
        failed = failed or bool(crashes)
        if failed or code != self.ends_with:
            with open(os.path.join(self.root, "log"), encoding="utf-8", errors="replace") as log:
                sys.stderr.write("".join(log.readlines()[-40:]))
            sys.stderr.write(f"the server's folder is {self.root}\n")
        else:
            shutil.rmtree(self.root, ignore_errors=True)
        assert not crashes, f"a process crashed by itself: {crashes[0]}"
        assert failed or code == self.ends_with, f"sijild ended with {code}"

    def crashes(self):
        """Lines of the log about an assertion, a sanitizer's finding, or a signal that no test sends."""
        marks = (*FINDINGS, '"with":"signal 6"', '"with":"signal 11"', '"with":"signal 31"')
        with open(os.path.join(self.root, "log"), encoding="utf-8", errors="replace") as log:
            return [line.strip() for line in log if any(mark in line for mark in marks)]


contexts = {}  # by what is trusted: to read a certificate costs as much as the rest of a request


def trust_in(ca_file):
    with open(ca_file, encoding="ascii") as file:
        text = file.read()
    if text not in contexts:
        context = ssl.create_default_context(cadata=text)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        contexts[text] = context
    return contexts[text]


class NoToken(AssertionError):
    """A call needed a token first; `answer` is the refusal of the token."""

    def __init__(self, answer):
        super().__init__((answer.status, answer.body))
        self.answer = answer


class Links(threading.local):
    """The kept connections of a thread: port -> what it trusts, and the connection."""

    def __init__(self):
        self.to = {}


links = Links()


class Client:
    """One login. A thread's calls to one gateway go over one TLS connection, because a handshake costs three times as much as most requests.
    Tests of kills and of faults set `keeps` to False: there each call connects anew."""
    keeps = True

    def __init__(self, server, login=None, port=None):
        self.server, self.login, self.tokens = server, login, {}
        self.port = port or server.port

    def link(self):
        """The kept connection, or a new one: if the server has ended it, there is something to read, the end."""
        place = os.getpid(), trust_in(self.server.ca_file)
        before, link = links.to.get(self.port, (None, None))
        if before != place:
            link = self.connection()
            links.to[self.port] = place, link
        elif link.sock is not None and select.select([link.sock], [], [], 0)[0]:
            link.close()  # it connects again by itself
        return link

    def connection(self, timeout=60, address=None):
        """`address`: the client's address, such as "127.0.0.2"."""
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=trust_in(self.server.ca_file), timeout=timeout,
                                           source_address=address and (address, 0))

    def call(self, method, path, body=None, headers=None, connection=None, scope=None, encode_chunked=False):
        headers = dict(headers or {})
        if scope is not None:
            headers["Authorization"] = "Bearer " + self.token(scope)
        link, is_whole = connection or (self.link() if self.keeps else self.connection()), False
        if path.startswith("https://"):
            parts = urllib.parse.urlsplit(path)
            path = parts.path + ("?" + parts.query if parts.query else "")
        try:
            link.request(method, path, body=body, headers=headers, encode_chunked=encode_chunked)
            response = link.getresponse()
            answer = Answer(response, response.read())
            is_whole = True
        finally:
            if connection is None and not (is_whole and self.keeps):
                link.close()
        contract.check(self, method, path, answer)
        return answer

    def ask_for_token(self, scope):
        user, password = self.login
        if isinstance(self.login, Person):
            return self.exchange(password, scope)
        basic = base64.b64encode(f"{user}:{password}".encode()).decode()
        return self.call("GET", "/token?" + urllib.parse.urlencode({"scope": scope}), headers={"Authorization": "Basic " + basic})

    def exchange(self, subject_token, scope):
        """A token of the registry for one of a trusted issuer (RFC 8693)."""
        body = urllib.parse.urlencode({"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": subject_token,
                                       "subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "scope": scope})
        return self.call("POST", "/token", body, {"Content-Type": "application/x-www-form-urlencoded"})

    def token(self, scope, fresh=False):
        known = self.tokens.get(scope)
        if known and not fresh and known[1] > time.time() + 5:
            return known[0]
        answer = self.ask_for_token(scope)
        if answer.status != 200:
            raise NoToken(answer)
        self.tokens[scope] = (answer.json["access_token"], time.time() + answer.json["expires_in"])
        return answer.json["access_token"]

    def api(self, method, path, document=None, expect=(200, 201, 204)):
        body = None if document is None else json.dumps(document)
        if method == "GET" and path.startswith("/audit/events") and "purpose=" not in path and not path.partition("?")[0].endswith(("/entry", "/proof")):
            path += ("&" if "?" in path else "?") + "purpose=a+test"  # else nothing that is sealed is shown
        headers = {"Content-Type": "application/json"} if body else {}
        answer = self.call(method, "/api/v1" + path, body, headers, scope="registry:admin:*")
        assert answer.status in expect, (method, path, answer.status, answer.body)
        return answer.json if answer.body else None

    def repository(self, name):
        return Repository(self, name)


class Repository:
    """The wire contract of OCI Distribution, one method a request."""

    def __init__(self, client, name):
        self.client, self.name = client, name
        self.scope = f"repository:{name}:pull,push,delete"

    def call(self, method, path, body=None, headers=None, **more):
        target = path if path.startswith(("https://", "/v2/")) else f"/v2/{self.name}/{path}"
        return self.client.call(method, target, body, headers, scope=more.pop("scope", self.scope), **more)

    def begin(self, query=""):
        answer = self.call("POST", "blobs/uploads/" + query)
        assert answer.status == 202, (answer.status, answer.body)
        return answer["Location"]

    def patch(self, location, data, start=None):
        headers = {"Content-Type": "application/octet-stream"}
        if start is not None:
            headers["Content-Range"] = f"{start}-{start + len(data) - 1}"
        return self.call("PATCH", location, data, headers)

    def close(self, location, digest, data=b""):
        mark = "&" if "?" in location else "?"
        headers = {"Content-Type": "application/octet-stream"} if data else {}
        return self.call("PUT", location + mark + "digest=" + urllib.parse.quote(digest), data, headers)

    def push_blob(self, data):
        location = self.begin()
        if data:
            answer = self.patch(location, data)
            assert answer.status == 202, (answer.status, answer.body)
            location = answer["Location"]
        answer = self.close(location, sha256(data))
        assert answer.status == 201, (answer.status, answer.body)
        return sha256(data)

    def manifest(self, *blobs, **members):
        config = self.push_blob(b"{}")
        return json.dumps({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "artifactType": "application/vnd.example+json",
            "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": config, "size": 2},
            "layers": [{"mediaType": "application/octet-stream", "digest": sha256(blob), "size": len(blob)}
                       for blob in blobs], **members}).encode()

    def put_manifest(self, reference, manifest, kind="application/vnd.oci.image.manifest.v1+json"):
        return self.call("PUT", f"manifests/{reference}", manifest, {"Content-Type": kind})


def token_status(error):
    """The status of a refused token, from the error that Client.token() raised; None for any other assertion."""
    return error.answer.status if isinstance(error, NoToken) else None


def wait_until(what, seconds, why):
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, why
        time.sleep(0.1)


def await_count(count, wanted, why):
    """A request may be counted a moment after its answer. Waits for the count, which must not be higher either."""
    wait_until(lambda: count() >= wanted, 20, f"{why}: fewer than {wanted}")
    assert count() == wanted, f"{why}: more than {wanted}"


def insist(call, seconds=60):
    """Repeats `call` while the answer is 503 with Retry-After, because a server may still be recovering from a fault. Returns the answer."""
    until = time.monotonic() + seconds
    while True:
        try:
            answer = call()
            if answer.status != 503 or not answer["Retry-After"] or time.monotonic() > until:
                return answer
        except AssertionError as refused:  # the token was refused
            if token_status(refused) != 503 or time.monotonic() > until:
                raise
        time.sleep(0.1)


def make_robot(server, name, role, scope, organisation="main", **more):
    """Makes a robot of an organisation with one role, and returns its login. `more` is for POST /robots."""
    admin = server.client(server.admin)
    where = {"organisation": organisation} if scope else {}  # a robot with a role on the whole registry belongs to the registry
    robot = admin.api("POST", "/robots", {**where, **more, "name": name})
    admin.api("POST", "/bindings", {"robot": robot["id"], "role": role, "scope": scope})
    return robot["name"], robot["secret"]


class Person(tuple):
    """The login of a subject of an issuer: the user name for programs, and the issuer's token. Client exchanges the token at /token."""


def make_person(server, name, role, scope):
    """A second person: a subject of a trusted issuer with one role. Returns a login that is valid for ten minutes. Robots of the
    administrator count as the administrator. The issuer is a process of its own; its keys and the token come over TLS."""
    if getattr(server, "people", None) is None:
        server.people = IssuerProcess(f"https://127.0.0.1:{server.port}")
        atexit.register(server.people.stop)
        keys = server.people.fetch(server.people.fetch("/.well-known/openid-configuration")["jwks_uri"])
        server.client(server.admin).api("POST", "/issuers", {"url": server.people.url, "algorithms": ["ES256"], "jwks": keys})
    server.client(server.admin).api("POST", "/bindings", {"issuer": server.people.url, "subject": name, "role": role, "scope": scope})
    server.people.add(name)
    return login_of(server, name)


def login_of(server, name):
    """A fresh login of a person that was made, for tests of more than ten minutes."""
    with open(os.path.join(server.people.folder, "people", name), encoding="ascii") as password:
        return Person(("oidc", server.people.fetch("/token", login=(name, password.read()))["id_token"]))


def send_slowly(place, location, size):
    """Sends only the beginning of a PATCH, and returns its socket."""
    link = place.client.connection(timeout=60)
    link.connect()
    link.sock.sendall("\r\n".join([f"PATCH {urllib.parse.urlsplit(location).path} HTTP/1.1", "Host: 127.0.0.1",
                                   f"Content-Length: {size}", "Content-Type: application/octet-stream",
                                   "Authorization: Bearer " + place.client.token(place.scope), "", ""]).encode())
    link.sock.sendall(bytes(4 << 20))
    return link.sock


def answer_while_sending(sock, begins, seconds=60):
    """Sends the rest of the body, a megabyte a second, until there is an answer."""
    answer, until = b"", time.monotonic() + seconds
    sock.settimeout(0.05)
    while b"}" not in answer and time.monotonic() < until:
        try:
            sock.sendall(bytes(64 << 10))
        except TimeoutError:
            pass
        try:
            more = sock.recv(65536)
        except TimeoutError:
            continue
        if not more:
            break
        answer += more
    sock.close()
    assert answer.startswith(begins), answer[:400]
    return answer


def follow(client, job, query="", seconds=120, state="completed"):
    """Waits for the end of a job, which must be `state`, and returns the job. `query`: "?project=..." for callers that may see only that project."""
    until = time.monotonic() + seconds
    while True:
        shown = client.api("GET", f"/jobs/{job}{query}")
        if "ended" in shown:
            assert shown["state"] == state, shown
            return shown
        assert time.monotonic() < until, shown
        time.sleep(0.1)


class LeftOut(Exception):
    """A case can't run on this machine, for this reason: it has neither passed nor failed."""


def run(*cases, server=None):
    """Runs each case and prints its name, stops the shared server, and exits non-zero if a case failed."""
    failed, left_out = 0, []
    for case in cases:
        name = case.__name__.replace("_", " ")
        try:
            case()
            print(f"ok   {name}", flush=True)
        except LeftOut as why:
            print(f"left out: {name}: {why}", flush=True)
            left_out.append(name)
        except Exception:  # a case that can't run has failed
            traceback.print_exc()
            print(f"FAIL {name}", flush=True)
            failed += 1
    if server is not None:
        server.finish(failed > 0)
    print(f"{len(cases) - failed - len(left_out)} passed, {failed} failed, {len(left_out)} left out")
    sys.exit(1 if failed else 0)
