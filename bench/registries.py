"""Who is measured: Sijil, its peers, and the programs that do one part of the work and nothing else.

Each is a context manager with url, ca_file, login and the processes that are its server."""
import json
import os
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import sijil_test

BUILD = os.environ["SIJIL_BUILD"]
LOAD = os.environ.get("SIJIL_LOAD", os.path.join(BUILD, "bench/sijil-load"))
REPOSITORY = "main/models/bench"
GIB, MIB = 1 << 30, 1 << 20


def load(target, **options):
    """One run of the load client against a registry: what it says of each phase."""
    words = [LOAD, "--url", target.url, "--repository", REPOSITORY, "--ca-file", target.ca_file]
    login = options.pop("login", target.login)
    if login:
        words += ["--login", ":".join(login)]
    for kind, pids in (("--pid", target.pids()), ("--database-pid", target.database_pids())):
        for pid in pids:
            words += [kind, str(pid)]
    for name, value in options.items():
        words += ["--" + name] if value is True else ["--" + name, str(value)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=1800)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr[-500:]}")
    return json.loads(done.stdout)


def wait_for(url, ca_file):
    context = ssl.create_default_context(cafile=ca_file)
    for _ in range(200):
        try:
            urllib.request.urlopen(url, context=context, timeout=5).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"{url} does not answer")


class Sijil:
    name = "sijil"

    def __init__(self, folder=None):
        self.root = folder

    def __enter__(self):
        self.server = sijil_test.Server(folder=self.root)
        self.server.start()
        self.login = sijil_test.make_robot(self.server, "bench", "publisher", "main/models")
        self.url, self.ca_file = f"https://127.0.0.1:{self.server.port}", self.server.ca_file
        return self

    def pids(self):
        return self.server.processes("sijil")[:4]

    def database_pids(self):
        """PostgreSQL's share of the server's CPU time. Its sessions don't name the folder: they are found by their parent."""
        found = self.server.processes("postgres")
        return found + [child for pid in found for child in sijil_test.children_of(pid) if child not in found]

    def tls(self):
        """Certificate and key, which the peers are given as well."""
        return self.server.folder + "/tls/server.pem", self.server.folder + "/tls/server.key"

    def __exit__(self, *trace):
        self.server.finish(False)


class Peer:
    """Another server, with the certificate of the first, its files on the same disk, no authentication."""
    login = None

    def __init__(self, sijil, folder):
        self.certificate, self.key = sijil.tls()
        self.ca_file, self.folder = sijil.ca_file, os.path.join(folder, self.name)

    def __enter__(self):
        os.makedirs(self.folder, exist_ok=True)
        self.port = sijil_test.free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(self.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(self.url + "/v2/", self.ca_file)
        return self

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def pids(self):
        return [self.process.pid]

    def database_pids(self):
        return []

    def __exit__(self, *trace):
        self.process.terminate()
        self.process.wait()


class DockerRegistry(Peer):
    """Debian's docker-registry."""
    name = "docker-registry"

    def command(self):
        return ["docker-registry", "serve", self.write("registry.yml", f"""version: 0.1
log:
  level: error
  accesslog:
    disabled: true
storage:
  filesystem:
    rootdirectory: {self.folder}/data
http:
  addr: 127.0.0.1:{self.port}
  tls:
    certificate: {self.certificate}
    key: {self.key}
""")]


class Zot(Peer):
    """zot at its best: no deduplication (the blobs here are all different, so it could only cost), no collection, no scrub,
    no extensions, no log. With `commit`, which is fsync: without it, what zot has answered may be lost with the machine, and the
    others promise more than that."""
    name = "zot"

    def __init__(self, sijil, folder, program):
        super().__init__(sijil, folder)
        self.program = program

    def command(self):
        configuration = {
            "distSpecVersion": "1.1.1",
            "storage": {"rootDirectory": self.folder + "/data", "dedupe": False, "gc": False, "commit": True},
            "http": {"address": "127.0.0.1", "port": str(self.port), "tls": {"cert": self.certificate, "key": self.key}},
            "log": {"level": "error", "output": "/dev/null"}}
        return [self.program, "serve", self.write("zot.json", json.dumps(configuration))]


class Sink(Peer):
    """Takes bodies in by TLS and throws them away: the part of a push that TLS needs, with the same client."""
    name = "tls-sink"

    def command(self):
        return [os.path.join(BUILD, "bench/tls_sink"), str(self.port), self.certificate, self.key]


class StraightLine(Sink):
    """All parts of a push in a straight line, and nothing else."""
    name = "straight-line"

    def command(self):
        os.makedirs(self.folder + "/data", exist_ok=True)
        return [*super().command(), self.folder + "/data"]

    def forget(self):
        """The blobs that it has: nobody pulls them, and they would need the disk's room."""
        for folder, _, names in os.walk(self.folder + "/data"):
            for path in (os.path.join(folder, name) for name in names):
                if os.path.getsize(path) >= MIB:
                    os.unlink(path)


class Nginx(Peer):
    """The plain file over TLS: what a pull is held against."""
    name = "nginx"

    def command(self):
        os.makedirs(self.folder + "/www", exist_ok=True)
        paths = "".join(f" {name}_temp_path {self.folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        return ["/usr/sbin/nginx", "-c", self.write("nginx.conf", f"""user root;
worker_processes 2;
daemon off;
pid {self.folder}/nginx.pid;
error_log {self.folder}/nginx.log;
events {{ worker_connections 256; }}
http {{ access_log off; sendfile on;
{paths} server {{ listen 127.0.0.1:{self.port} ssl; ssl_certificate {self.certificate}; ssl_certificate_key {self.key};
 ssl_protocols TLSv1.3; location / {{ root {self.folder}/www; }} }} }}
""")]
