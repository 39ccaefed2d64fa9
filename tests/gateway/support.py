"""Shared by the tests of the server: starts it, sends requests over TLS, and reports failures."""
import atexit
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

PATIENCE = 30  # seconds; even a slow machine must have done the awaited work by then
failures = []


def check(what, good, detail=""):
    print(("ok    " if good else "FAILED") + " " + what + ("" if good else f": {detail}"), flush=True)
    if not good:
        failures.append(what)


def check_soon(what, good):
    """Until `good` answers true."""
    until = time.monotonic() + PATIENCE
    while not (found := good()) and time.monotonic() < until:
        time.sleep(0.05)
    check(what, found)


def finish():
    """Stops all servers first, because a sanitizer's report at their end counts, too."""
    for server in list(servers):
        server.stop()
    print(f"{len(failures)} failed")
    sys.exit(1 if failures else 0)


servers = []


def folder_of(prefix):
    """A folder that is removed when the test ends, with or without success."""
    folder = tempfile.mkdtemp(prefix=prefix)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


class Server:
    """The program under test, in a folder of its own, with parameters such as idle_timeout=2."""

    def __init__(self, **parameters):
        self.folder = folder_of("sijil-http-")
        self.log = open(os.path.join(self.folder, "log"), "w+b")
        arguments = [f"{name}={value}" for name, value in parameters.items()]
        self.process = subprocess.Popen([sys.argv[1], self.folder, *arguments], stdout=subprocess.PIPE, stderr=self.log)
        atexit.register(self.stop)
        servers.append(self)
        line = self.process.stdout.readline().decode()
        if not line.startswith("PORT "):
            raise SystemExit("the server does not start: " + self.log_text())
        self.port = int(line.split()[1])
        self.context = ssl.create_default_context(cafile=self.path("ca.pem"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def log_text(self):
        with open(self.path("log"), "rb") as file:
            return file.read().decode(errors="replace")

    def connect(self, timeout=20, **options):
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        for name, value in options.items():
            plain.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
        return self.context.wrap_socket(plain, server_hostname="localhost")

    def http(self, timeout=20):
        return http.client.HTTPSConnection("localhost", self.port, context=self.context, timeout=timeout)

    def get(self, path, method="GET", body=None, headers=None):
        connection = self.http()
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, answer.headers, data

    def state(self, query=""):
        return json.loads(self.get("/control" + query)[2])

    def wait_for(self, what, wanted, seconds=PATIENCE):
        end = time.monotonic() + seconds
        while True:
            state = self.state()
            if wanted(state) or time.monotonic() > end:
                check(what, wanted(state), state)
                return state
            time.sleep(0.05)

    def metric(self, name):
        for line in self.get("/metrics")[2].decode().splitlines():
            if line.startswith(name + " "):
                return int(line.split()[-1])
        return None

    def stop(self, seconds=60):
        """Stops it in the orderly way; a sanitizer's complaint or a leak is a failure."""
        if self.process.returncode is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            code = "none: it had to be killed"
        text = self.log_text()
        complaints = re.findall("SUMMARY: .*", text)
        check("the server ends cleanly", code == 0 and not complaints, f"{code} {complaints or text[-3000:]}")
        self.process.stdout.close()
        self.log.close()


def read_all(connection, seconds=3.0, enough=len):
    """All bytes until the end or a pause, and whether the server closed the connection. It waits longer until `enough` of the bytes is true
    (by default from the first byte on), because the machine may be slow."""
    data, until = b"", time.monotonic() + PATIENCE
    try:
        while True:
            connection.settimeout(seconds if enough(data) else max(seconds, until - time.monotonic()))
            part = connection.recv(65536)
            if not part:
                return data, True
            data += part
    except (socket.timeout, TimeoutError):
        return data, False
    except (ConnectionError, ssl.SSLError, OSError):
        return data, True


def statuses(data):
    return [int(code) for code in re.findall(rb"HTTP/1\.[01] (\d+)", data)]
