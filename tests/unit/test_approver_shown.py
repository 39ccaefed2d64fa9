"""usage: test_approver_shown.py SIJIL   `sijil admin break-glass approve` against a stand-in of a registry that lies about a draft: what the approver is shown as signed is what the
first person has signed, and the subject that has its hash."""
import base64
import hashlib
import http.server
import json
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import time

SIJIL = os.path.abspath(sys.argv[1])
TYPE = "application/vnd.sijil.break-glass.v1+json"


def openssl(*words, given=None):
    return subprocess.run(["openssl", *words], input=given, capture_output=True, check=True).stdout


def stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(seconds))


def draft(folder):
    """As the holder has signed it. The registry adds members to what it says of the holder."""
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", folder + "/key.pem")
    point = openssl("ec", "-in", folder + "/key.pem", "-pubout", "-outform", "DER")[-65:]
    holder = {"issuer": "https://id.example", "subject": "alice"}
    body = {"principal": "ext:" + hashlib.sha256(b"https://id.example\nalice").hexdigest(), "public_key": base64.urlsafe_b64encode(point).rstrip(b"=").decode(),
            "on": "bank/secrets", "reason": "case 7"}
    document = {"schema": "sijil.document/v1", "kind": "break-glass", "scope": "", "name": "bg-1", "version": 1, "effective_from": stamp(time.time() - 1),
                "expires": stamp(time.time() + 600), "body": body}
    payload = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    signature = openssl("dgst", "-sha256", "-sign", folder + "/key.pem", given=b"DSSEv1 %d %s %d %s" % (len(TYPE), TYPE.encode(), len(payload), payload))
    envelope = {"payloadType": TYPE, "payload": base64.b64encode(payload).decode(), "signatures": [{"sig": base64.b64encode(signature).decode()}]}
    return {"name": "bg-1", "state": "draft", "envelope": envelope, "envelopes": [envelope], "missing": 1, "document": document,
            "holder": {**holder, "on": "public/data", "reason": "a drill of the fire brigade"}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked, row = [], {}

    def log_message(self, *words):
        pass

    def handle_all(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        self.asked.append(f"{self.command} {path}")
        answer = {"token": "token", "expires_in": 300} if path == "/token" else {"glasses": [], "drafts": [self.row]} if path == "/api/v1/break-glass" else {}
        body = json.dumps(answer).encode()
        self.send_response(403 if self.command == "POST" else 404 if not answer else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = handle_all


with tempfile.TemporaryDirectory() as home:
    certificate = home + "/tls.pem"
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
            "-keyout", home + "/tls.key", "-out", certificate)
    Handler.row = draft(home)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, home + "/tls.key")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as peer:
        peer.socket = context.wrap_socket(peer.socket, server_side=True)
        threading.Thread(target=peer.serve_forever, daemon=True).start()
        done = subprocess.run([SIJIL, "admin", "break-glass", "approve", f"127.0.0.1:{peer.server_port}", "bg-1", "--key", home + "/key.pem"], capture_output=True, text=True,
                              timeout=60, check=False, env={**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home, "SIJIL_USERNAME": "robot$main+ci",
                                                            "SIJIL_PASSWORD": "secret", "SIJIL_CA_FILE": certificate})
        peer.shutdown()
    assert "POST /api/v1/break-glass/bg-1/approval" in Handler.asked and done.returncode != 0, (Handler.asked, done)
    for line in ("on          bank/secrets", "reason      case 7", "subject     alice", "issuer      https://id.example"):
        assert "  " + line + "\n" in done.stderr, (line, done.stderr)
    assert "drill" not in done.stderr and "public/data" not in done.stderr, done.stderr
