#!/usr/bin/env python3
"""People who log in at an issuer: Debian's glewlwyd over TLS, by a device's code and with a browser; renewal, logout, and issuers that lie."""
import base64
import concurrent.futures
import http.server
import json
import os
import re
import ssl
import stat
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

import sijil_test
from sijil_test import Server, run, wait_until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from glewlwyd import Glewlwyd  # noqa: E402
from ports import free_port  # noqa: E402

server = Server().start()
folder = tempfile.TemporaryDirectory()
at = f"127.0.0.1:{server.port}"
audience = f"https://{at}"
admin = server.client(server.admin)
CALLBACK = free_port()
issuer = Glewlwyd(audience)
issuer.add_client("sijil", [f"http://127.0.0.1:{CALLBACK}/callback"])
browsers = {name: issuer.add_person(name, "password of " + name, "sijil") for name in ("ann", "ben")}
admin.api("POST", "/issuers", {"url": issuer.url, "algorithms": ["ES256"], "jwks": issuer.jwks(), "audience": audience})
SCOPES = "registry openid"


def home_of(who):
    home = os.path.join(folder.name, "home-" + who)
    os.makedirs(home, exist_ok=True)
    return home


def environment_of(who, **more):
    home = home_of(who)
    kept = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")}
    return {**kept, "HOME": home, "XDG_CONFIG_HOME": home, "SIJIL_CA_FILE": server.ca_file, **more}


def sijil(who, *words, code=0):
    done = subprocess.run([sijil_test.program("sijil"), *words], input="", text=True, capture_output=True, env=environment_of(who), timeout=120)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout) if "--json" in words and done.stdout else done.stdout + done.stderr


class Login:
    """`sijil login` while it waits for the person; its messages come as JSON, one a line."""

    def __init__(self, who, url, certificate, *words, **environment):
        self.process = subprocess.Popen([sijil_test.program("sijil"), "login", at, "--issuer", url, "--issuer-ca-file", certificate, "--scope", SCOPES, "--json",
                                         "--ca-file", server.ca_file, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=environment_of(who, **environment))

    def message(self):
        return json.loads(self.process.stderr.readline())

    def end(self, code=0):
        out, errors = self.process.communicate(timeout=120)
        assert self.process.returncode == code, (self.process.returncode, out, errors)
        return json.loads(out) if code == 0 else errors


def stored(who):
    path = home_of(who) + "/sijil/hosts.json"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def change_stored(who, **members):
    """As if time had passed."""
    hosts = stored(who)
    hosts[at]["issuer"].update(members)
    with open(home_of(who) + "/sijil/hosts.json", "w", encoding="utf-8") as file:
        json.dump(hosts, file)


def claims(token):
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def log_in_by_code(who):
    login = Login(who, issuer.url, issuer.certificate, "--device")
    shown = login.message()
    assert shown["page"] == issuer.url + "/device" and shown["code"] in shown["page_with_code"], shown
    issuer.approve(browsers[who], shown["code"])
    return login.end()


def a_person_logs_in_by_a_code():
    said = log_in_by_code("ann")
    kept = stored("ann")[at]
    subject = claims(kept["password"])["sub"]
    assert said["issuer"] == issuer.url and said["name"] == subject and kept["issuer"]["refresh"], said
    assert claims(kept["password"])["aud"] == audience
    assert "no role" in sijil("ann", "whoami", at)
    admin.api("POST", "/bindings", {"issuer": issuer.url, "subject": subject, "role": "consumer", "scope": "main/models"})
    me = sijil("ann", "whoami", at, "--json")
    assert me["kind"] == "external" and me["issuer"] == issuer.url and [role["role"] for role in me["roles"]] == ["consumer"], me
    assert re.search(r"consumer +on main/models, by binding [0-9a-f-]{36} of robot:[0-9a-f-]{36}\n", sijil("ann", "whoami", at)), sijil("ann", "whoami", at)


def a_person_logs_in_with_a_browser():
    """The program that shows the page is the one of $BROWSER; the person's browser goes there, and comes back to the port."""
    opened = os.path.join(folder.name, "opened")
    program = os.path.join(folder.name, "browser")
    with open(program, "w", encoding="ascii") as file:
        file.write(f'#!/bin/sh\nprintf %s "$1" > {opened}.new && mv {opened}.new {opened}\n')
    os.chmod(program, 0o755)
    login = Login("ben", issuer.url, issuer.certificate, "--callback-port", str(CALLBACK), BROWSER=program)
    page = login.message()["page"]
    wait_until(lambda: os.path.exists(opened), 20, "no browser was opened")
    with open(opened, encoding="ascii") as file:
        assert file.read() == page
    asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(page).query))
    assert asked["code_challenge_method"] == "S256" and len(asked["state"]) == len(asked["code_challenge"]) == 43 and asked["resource"] == audience, asked
    back = issuer.authorize(browsers["ben"], page)
    assert back.startswith(f"http://127.0.0.1:{CALLBACK}/callback?"), back
    # Others of this machine find the port, too: without the state they get nothing, and end nothing.
    for target in ("/", "/callback", "/callback?code=x&state=" + "A" * 43, back.split("/", 3)[3].replace("state=", "state=x")):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{CALLBACK}/{target.lstrip('/')}", timeout=20)
            raise AssertionError("a stranger is welcome: " + target)
        except urllib.error.HTTPError as answer:
            assert answer.code == 404
            answer.close()
    with urllib.request.urlopen(back, timeout=20) as answer:
        assert answer.status == 200 and asked["state"] not in answer.read().decode() and answer.headers["Cache-Control"] == "no-store"
    assert login.end()["issuer"] == issuer.url
    assert sijil("ben", "whoami", at, "--json")["name"] == claims(stored("ben")[at]["password"])["sub"]


def a_token_is_renewed_once():
    """Of many programs at once one renews; glewlwyd ends the whole login if a refresh token comes twice."""
    before = stored("ann")[at]
    change_stored("ann", expires=0)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for me in pool.map(lambda _: sijil("ann", "whoami", at, "--json"), range(8)):
            assert me["issuer"] == issuer.url
    after = stored("ann")[at]
    assert after["password"] != before["password"] and after["issuer"]["refresh"] != before["issuer"]["refresh"]
    assert after["issuer"]["expires"] > time.time() * 1000 + 200000
    sijil("ann", "ls", at)
    assert stored("ann")[at] == after  # a token that is good is not renewed
    change_stored("ann", expires=0)
    sijil("ann", "whoami", at)
    assert stored("ann")[at]["issuer"]["refresh"] != after["issuer"]["refresh"]


def a_refused_token_is_renewed():
    """The registry refuses a token that this machine's clock thinks good."""
    before = stored("ann")[at]
    hosts = stored("ann")
    hosts[at]["password"] = before["password"][:-8] + "AAAAAAAA"
    with open(home_of("ann") + "/sijil/hosts.json", "w", encoding="utf-8") as file:
        json.dump(hosts, file)
    sijil("ann", "whoami", at)
    assert stored("ann")[at]["issuer"]["refresh"] != before["issuer"]["refresh"]


def what_the_environment_names_is_not_renewed():
    change_stored("ann", expires=0)
    before = stored("ann")
    user, password = server.admin
    done = subprocess.run([sijil_test.program("sijil"), "whoami", at], capture_output=True, text=True, timeout=60,
                          env=environment_of("ann", SIJIL_USERNAME=user, SIJIL_PASSWORD=password))
    assert done.returncode == 0 and user in done.stdout and stored("ann") == before, done
    sijil("ann", "whoami", at)


def post(path, **fields):
    request = urllib.request.Request(issuer.url + path, data=urllib.parse.urlencode(fields).encode())
    try:
        with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=issuer.certificate), timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.code


def logout_ends_the_login_at_the_issuer():
    refresh = stored("ben")[at]["issuer"]["refresh"]
    change_stored("ben", expires=0)  # the access token has ended, and glewlwyd wants one with the revocation
    sijil("ben", "logout", at)
    assert at not in stored("ben")
    assert post("/token", grant_type="refresh_token", client_id="sijil", refresh_token=refresh) == 400
    assert "not logged in" in sijil("ben", "whoami", at, code=4)
    assert "not logged in" in sijil("ben", "logout", at, code=3)


def a_login_that_the_issuer_ended_says_so():
    log_in_by_code("ben")
    refresh = stored("ben")[at]["issuer"]["refresh"]
    assert post("/token", grant_type="refresh_token", client_id="sijil", refresh_token=refresh) == 200
    change_stored("ben", expires=0)
    said = sijil("ben", "whoami", at, code=4)  # a second use of the refresh token: stolen, so the issuer has ended the login
    assert "has ended" in said and "sijil login" in said and refresh not in said, said


def a_registry_that_does_not_know_the_issuer_keeps_nothing():
    known = next(each for each in admin.api("GET", "/issuers")["issuers"] if each["url"] == issuer.url)
    admin.api("DELETE", "/issuers/" + known["id"])
    login = Login("cyd", issuer.url, issuer.certificate, "--device")
    issuer.approve(browsers["ben"], login.message()["code"])
    assert "401" in login.end(code=4) and not os.path.exists(home_of("cyd") + "/sijil/hosts.json")


# ---- Issuers that lie ----

class Liar(http.server.BaseHTTPRequestHandler):
    """An issuer whose answers the test sets: by path, a document, or (status, headers, body)."""
    answers, url, seen = {}, None, []

    def reply(self):
        length = int(self.headers.get("Content-Length") or 0)
        Liar.seen.append((self.path, self.rfile.read(length).decode()))
        found = Liar.answers.get(self.path, (404, {}, b"{}"))
        found = found.pop(0) if isinstance(found, list) and len(found) > 1 else found[0] if isinstance(found, list) else found
        status, headers, body = found if isinstance(found, tuple) else (200, {}, json.dumps(found).encode())
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            pass  # it has read enough

    do_GET = do_POST = reply

    def log_message(self, *_):
        pass


def start_liar():
    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issuer.certificate, issuer.folder + "/tls.key")
    listener.socket = context.wrap_socket(listener.socket, server_side=True, do_handshake_on_connect=False)
    listener.daemon_threads = True
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    Liar.url = f"https://localhost:{listener.server_port}"


def about(**more):
    return {"issuer": Liar.url, "token_endpoint": Liar.url + "/token", "authorization_endpoint": Liar.url + "/auth",
            "device_authorization_endpoint": Liar.url + "/device", **more}


def offer(**more):
    return {"device_code": "d", "user_code": "ABCD", "verification_uri": Liar.url + "/page", "expires_in": 60, "interval": 1, **more}


OPENID = "/.well-known/openid-configuration"


def lies_are_refused():
    """(what it answers, the words of the refusal, the exit code)"""
    good = {"access_token": "a", "token_type": "Bearer", "expires_in": 60}
    cases = (
        ({OPENID: about(issuer="https://other.example")}, "another issuer", 4),
        ({OPENID: about(token_endpoint="http://localhost/token")}, "token_endpoint is no https URL", 1),
        ({OPENID: about(device_authorization_endpoint="https://ann@localhost/")}, "device_authorization_endpoint", 1),
        ({OPENID: (302, {"Location": Liar.url + "/elsewhere"}, b""), "/elsewhere": about()}, "is no issuer", 3),
        ({OPENID: (200, {}, b"[" * 5000)}, "", 1),
        ({OPENID: (200, {}, b" " * (10 << 20))}, "", 5),
        ({OPENID: (503, {}, b"")}, "503", 5),
        ({OPENID: about(), "/device": (400, {}, b'{"error":"invalid_client","error_description":"\\u001b[31mno"}')}, "invalid_client: ?[31mno", 4),
        ({OPENID: about(), "/device": offer(verification_uri="http://localhost/page")}, "verification_uri", 1),
        ({OPENID: about(), "/device": offer(user_code="\u001b[2J")}, "code that can be shown", 1),
        ({OPENID: about(), "/device": offer(expires_in=0)}, "how long", 1),
        ({OPENID: about(), "/device": offer(), "/token": (400, {}, b'{"error":"access_denied"}')}, "access_denied", 4),
        ({OPENID: about(), "/device": offer(), "/token": {**good, "token_type": "DPoP"}}, "no bearer token", 1),
        ({OPENID: about(), "/device": offer(), "/token": {**good, "access_token": "a b"}}, "without an access token", 1),
        ({OPENID: about(), "/device": offer(), "/token": {**good, "access_token": "a" * 13000}}, "without an access token", 1),
        ({OPENID: about(), "/device": offer(), "/token": {**good, "refresh_token": "r" * 5000}}, "refresh token", 1),
    )
    for answers, words, code in cases:
        Liar.answers = answers
        login = Login("dan", Liar.url, issuer.certificate, "--device")
        said = login.end(code=code)
        assert words in said.replace("\\u001b", "\x1b"), (words, said)
        assert "\x1b" not in said.replace("\\u001b", "\x1b"), said
    assert not os.path.exists(home_of("dan") + "/sijil/hosts.json")


def a_device_waits_as_it_is_told():
    pending, slower = (400, {}, b'{"error":"authorization_pending"}'), (400, {}, b'{"error":"slow_down"}')
    Liar.answers, Liar.seen = {OPENID: about(), "/device": offer(expires_in=9), "/token": [pending, slower, pending]}, []
    began = time.monotonic()
    assert "nobody has typed it" in Login("dan", Liar.url, issuer.certificate, "--device").end(code=4).replace("{", "", 1)
    asked = [body for path, body in Liar.seen if path == "/token"]
    assert len(asked) == 3 and 7 < time.monotonic() - began < 14, (len(asked), time.monotonic() - began)  # after 1, 2 and 8 seconds
    assert all("device_code=d&" in body and "client_id=sijil" in body and "resource=https%3A%2F%2F" in body for body in asked)


def fake_jwt(**said):
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({"alg": "none"}, said)) + ".AA"


def an_id_token_of_another_login_is_refused():
    """The code of another login was put into this one (OpenID Connect Core 1.0, 3.1.3.7)."""
    for id_token in (fake_jwt(nonce="x" * 43), fake_jwt(), "a.b", "a.!.b", 7):
        Liar.answers = {OPENID: about(), "/token": {"access_token": "a", "token_type": "Bearer", "id_token": id_token}}
        login = Login("dan", Liar.url, issuer.certificate, "--browser")
        asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(login.message()["page"]).query))
        urllib.request.urlopen(asked["redirect_uri"] + f"?state={asked['state']}&code=c", timeout=20).close()
        assert "another login" in login.end(code=4), id_token


def the_browser_must_come_back_from_the_issuer():
    for metadata, name, words in ((about(), "&iss=" + urllib.parse.quote("https://other.example"), "another issuer"),
                                  (about(authorization_response_iss_parameter_supported=True), "", "another issuer"),
                                  (about(), "&error=access_denied", "access_denied"), (about(code_challenge_methods_supported=["plain"]), None, "S256")):
        Liar.answers, Liar.seen = {OPENID: metadata, "/token": {}}, []
        login = Login("dan", Liar.url, issuer.certificate, "--browser")
        if name is not None:
            asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(login.message()["page"]).query))
            assert re.fullmatch(r"http://127\.0\.0\.1:[0-9]+/callback", asked["redirect_uri"]), asked
            code = "" if "error" in name else "&code=c"
            with urllib.request.urlopen(asked["redirect_uri"] + "?state=" + asked["state"] + code + name, timeout=20) as answer:
                assert answer.status == 200
        assert words in login.end(code=1 if name is None else 4)
        assert [path for path, _ in Liar.seen] == [OPENID]  # no code went to a token endpoint


start_liar()
try:
    run(a_person_logs_in_by_a_code, a_person_logs_in_with_a_browser, a_token_is_renewed_once, a_refused_token_is_renewed,
        what_the_environment_names_is_not_renewed, logout_ends_the_login_at_the_issuer, a_login_that_the_issuer_ended_says_so,
        a_registry_that_does_not_know_the_issuer_keeps_nothing, lies_are_refused, a_device_waits_as_it_is_told,
        the_browser_must_come_back_from_the_issuer, an_id_token_of_another_login_is_refused, server=server)
finally:
    issuer.stop()
