"""A slurmrestd that lies: it takes every job, and says of all of them what `state` says."""
import http.server
import json
import os
import re
import socketserver
import threading
import time

JOB = re.compile(r"/slurm/v0\.0\.38/job/(\d+)")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def address_string(self):
        return "local"

    def answer(self, status, value):
        body = b"{" if self.server.liar.broken else json.dumps({"errors": [], **value}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if not self.path.startswith("/slurm/v0.0.38/"):
            self.answer(404, {})
        else:
            self.answer(200, {"jobs": self.server.liar.jobs()})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(200, {"job_id": self.server.liar.take({**body["job"], "script": body["script"]})})

    def do_DELETE(self):
        self.server.liar.cancelled.append(int(JOB.fullmatch(self.path).group(1)))
        self.answer(200, {})


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def get_request(self):
        return self.socket.accept()[0], ("local", 0)


class Liar:
    def __init__(self, path):
        self.path, self.url, self.state, self.broken = path, "unix:" + path, "RUNNING", False
        self.submitted, self.cancelled = [], []

    def jobs(self):
        return [{"job_id": number + 1, "name": job["name"], "job_state": self.state, "exit_code": 0, "nodes": "", "state_reason": "None"}
                for number, job in enumerate(self.submitted)]

    def take(self, job):
        self.submitted.append({**job, "at": time.monotonic()})
        return len(self.submitted)

    def __enter__(self):
        self.server = Server(self.path, Handler)
        self.server.liar = self
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        os.unlink(self.path)
