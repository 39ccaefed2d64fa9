"""Issuers on this machine that behave as a test says, each below a path of its own: https://localhost:PORT/NAME. TLS 1.3 only."""
import base64
import http.server
import json
import os
import tempfile
import threading
import time
import urllib.parse

import issuer
from issuer import Issuer

MIB = 1 << 20


class Endpoints(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    world = None

    def setup(self):
        super().setup()
        self.close_connection = True

    def do_GET(self):
        self.world.asked.append(self.path)
        try:
            self.answer_for(self.path)
        except OSError:
            pass  # the registry had enough
        self.close_connection = True

    def do_POST(self):
        """Introspection (RFC 7662): /NAME/introspect."""
        form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        name = self.path.split("/")[1]
        self.world.introspected.append((name, form["token"]))
        if name.endswith("hangs"):
            time.sleep(40)
        elif self.headers["Authorization"] != "Basic " + base64.b64encode(b"sijil:a%20secret%3A").decode():
            self.send(401, b"{}")
        else:
            self.send(200, json.dumps(self.world.opaque.get(form["token"], {"active": False})).encode())
        self.close_connection = True

    def answer_for(self, path):
        name = next((name for name in self.world.each if name in path.split("/")), None)
        behaviour = self.world.each.get(name)
        if behaviour is None:
            return self.send(404, b"{}")
        return behaviour(self, path)

    def send(self, status, body, *headers):
        self.send_response(status)
        for header in headers:
            self.send_header(*header)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Quiet(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # the registry ends calls that take too long


class World:
    """All issuers of a test, behind one certificate."""

    def __init__(self, audience):
        self.folder, self.audience, self.each, self.asked, self.keys = tempfile.TemporaryDirectory(), audience, {}, [], {}
        self.opaque, self.introspected = {}, []  # what is said of a token; who was asked about which
        self.server = Quiet(("127.0.0.1", 0), type("Mine", (Endpoints,), {"world": self}))
        self.port = self.server.server_port
        self.ca_file = os.path.join(self.folder.name, "tls.pem")
        self.server.socket = issuer.certify(self.folder.name).wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        os.chmod(self.folder.name, 0o755)  # sijild reads the certificate as another user
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, name):
        return f"https://localhost:{self.port}/{name}"

    def key(self, name, kid="one"):
        """The key of this kid: its tokens name it."""
        made = self.keys.setdefault((name, kid), Issuer(self.url(name), self.audience))
        made.jwks["keys"][0]["kid"] = kid
        return made

    def token(self, name, kid="one", **more):
        return self.key(name, kid).token(header={"kid": kid}, **more)

    def set_of(self, name, *kids):
        return {"keys": [self.key(name, kid).jwks["keys"][0] for kid in kids]}

    def metadata(self, name, **more):
        return {"issuer": self.url(name), "jwks_uri": self.url(name) + "/jwks", **more}

    def behave(self, name, keys=None, metadata=None, place="openid"):
        """A usual issuer. `keys` and `metadata`: documents, bytes, or functions of the handler; `place`: where the metadata is."""
        found = {"openid": f"/{name}/.well-known/openid-configuration", "oauth": f"/.well-known/oauth-authorization-server/{name}"}[place]
        documents = {found: metadata or self.metadata(name), f"/{name}/jwks": keys or self.set_of(name, "one")}

        def answer(handler, path):
            document = documents.get(path)
            if document is None:
                handler.send(404, b"{}")
            elif callable(document):
                document(handler)
            else:
                handler.send(200, document if isinstance(document, bytes) else json.dumps(document).encode())

        self.each[name] = answer
        return self.url(name)

    def count(self, part):
        return sum(part in path for path in self.asked)


def hangs(handler):
    time.sleep(40)
    handler.close_connection = True


def drips(handler):
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.2)


def floods(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", str(10 * MIB))
    handler.end_headers()
    for _ in range(160):
        handler.wfile.write(b" " * (64 << 10))


def loops(handler):
    handler.send(302, b"", ("Location", handler.path))
