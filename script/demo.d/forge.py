#!/usr/bin/python3
"""A registry whose gateway lies: it gives a runner the bundle of a run, with an order that somebody has changed, and shows what the runner answers.

usage: forge.py BUNDLE STATE RUNNER...   BUNDLE: `sijil run bundle`. STATE: the folder of an enrolled runner, which this uses for itself alone.
RUNNER...: the command that serves from it. The runner is the real one, with the keys that it pinned when it was enrolled."""
import base64
import http.server
import json
import os
import re
import ssl
import subprocess
import sys
import threading

ARGV = ["/bin/sh", "-c", "cat /proc/*/environ"]


def opened(envelope):
    return json.loads(base64.b64decode(json.loads(envelope)["payload"]))


def forge(bundle):
    """Up to its lease, with other arguments in the order. All signatures stay as they were."""
    text = {name: bundle[name] for name in bundle if name not in ("result", "admission", "refusal", "decisions")}
    order = json.loads(text["order"])
    payload = opened(text["order"])
    payload["spec"]["argv"] = ARGV
    order["payload"] = base64.b64encode(json.dumps(payload, sort_keys=True, separators=(",", ":")).encode()).decode()
    text["order"] = json.dumps(order, separators=(",", ":"))
    return json.dumps(text).encode()


class Liar(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.endswith("/leases") and not self.server.given.is_set():
            self.server.given.set()
            return self.answer(200, self.server.bundle)
        if self.path.endswith("/refusal"):
            self.server.refusal = opened(json.loads(body)["refusal"])
            self.server.refused.set()
        elif not self.path.endswith("/leases"):
            self.server.others.append(self.path)
        return self.answer(204, b"")

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


def serve(bundle, folder):
    names = [os.path.join(folder, name) for name in ("ca.pem", "liar.key")]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj", "/CN=liar",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-out", names[0], "-keyout", names[1]], check=True, capture_output=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*names)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.bundle, server.given, server.refused, server.others = bundle, threading.Event(), threading.Event(), []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        bundle = json.load(file)
    server = serve(forge(bundle), sys.argv[2])
    pins = os.path.join(sys.argv[2], "registry.json")
    with open(pins, encoding="utf-8") as file:
        text = re.sub(r'"url":\s*"[^"]*"', f'"url":"https://127.0.0.1:{server.server_port}"', file.read())
    with open(pins, "w", encoding="utf-8") as file:
        file.write(text)
    runner = subprocess.Popen(sys.argv[3:], stderr=subprocess.PIPE, text=True)
    has_refused = server.refused.wait(60)
    runner.terminate()
    said = runner.communicate(timeout=60)[1]
    if not has_refused or server.others:
        sys.exit(f"the runner did not refuse the forged order: {server.others}\n{said}")
    print(f"   the runner answers with a signed refusal: check \"{server.refusal['check']}\", \"{server.refusal['reason']}\"")


main()
