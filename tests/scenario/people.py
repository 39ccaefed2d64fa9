#!/usr/bin/env python3
"""People who log in at an issuer: Debian's glewlwyd over TLS, by a device's code and with a browser; renewal, logout, and issuers that lie."""
import base64
import concurrent.futures
import fcntl
import hashlib
import http.server
import json
import os
import re
import shutil
import ssl
import stat
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

import signing_keys
import sijil_test
from signing_keys import Key
from sijil_test import Server, make_person, run, wait_until

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
SCOPES = "registry openid"


def trust():
    admin.api("POST", "/issuers", {"url": issuer.url, "algorithms": ["ES256"], "jwks": issuer.jwks(), "audience": audience})


trust()


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
    assert re.search(r"consumer +on main/models until [0-9TZ:.-]+, by binding [0-9a-f-]{36} of robot:[0-9a-f-]{36}\n", sijil("ann", "whoami", at)), sijil("ann", "whoami", at)


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


def a_fresh_login_asks_the_issuer_to_ask():
    """RFC 9470. A code that is typed elsewhere is refused for it."""
    login = Login("cat", issuer.url, issuer.certificate, "--fresh", "--acr-values", "phr mfa")
    asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(login.message()["page"]).query))
    login.process.kill()
    login.process.wait()
    assert asked["max_age"] == "0" and "login" in asked["prompt"].split() and asked["acr_values"] == "phr mfa", asked
    refused = Login("cat", issuer.url, issuer.certificate, "--fresh", "--device")
    assert refused.process.wait(30) == 2


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


def logout_waits_for_a_renewal():
    """A renewal that another program has begun would put the login back."""
    sijil_folder = home_of("zoe") + "/sijil"
    os.makedirs(sijil_folder, mode=0o700, exist_ok=True)
    with open(sijil_folder + "/hosts.json", "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        json.dump({at: {"username": "oidc", "password": "a", "ca_file": ""}}, file)
    with open(sijil_folder + "/renewal.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = subprocess.Popen([sijil_test.program("sijil"), "logout", at], stdin=subprocess.DEVNULL, env=environment_of("zoe"))
        time.sleep(0.5)
        assert process.poll() is None and at in stored("zoe")
    assert process.wait(timeout=30) == 0 and at not in stored("zoe")


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


# ---- Groups ----

def approver(who):
    """An administrator with a key that approves. The administrator has enrolled it with the root."""
    login = make_person(server, who, "registry-admin", "")
    me = server.client(login).api("GET", "/self")
    key = Key("ext:" + hashlib.sha256(f"{me['issuer']}\n{me['name']}".encode()).hexdigest(), "approve")
    document = key.document()
    drafted = signing_keys.sign(document, key.path)
    server.client(login).api("POST", "/keys/signing", drafted)
    root = signing_keys.sign(document, os.path.join(server.folder, "officer", "approver.pem"))
    admin.api("POST", f"/keys/signing/{key.name}/approval", {"envelopes": [drafted, root]})
    done = subprocess.run([sijil_test.program("sijil"), "login", at, "--username", login[0], "--ca-file", server.ca_file], input=login[1] + "\n", text=True,
                          capture_output=True, env=environment_of(who), timeout=60)
    assert done.returncode == 0, done
    return key.path


def roles_of(who):
    """With a new token of the issuer."""
    change_stored(who, expires=0)
    return sorted((role["role"], role["scope"], role["origin"], role.get("document")) for role in sijil(who, "whoami", at, "--json")["roles"])


keys_of = {}


def groups_get_roles():
    """Two approvers sign which groups get which roles; a person has them from the next token on, until the group is left."""
    trust()
    keys = keys_of
    keys.update({who: approver(who) for who in ("eve", "fay")})
    path = os.path.join(folder.name, "groups.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"name": "bank", "issuer": issuer.url, "claim": "/groups", "separator": ",",
                   "grant": [{"group": "data-scientists", "role": "publisher", "on": "main/models"}, {"group": "everyone", "role": "consumer", "on": "main"}]}, file)
    issuer.set_groups("ben", "data-scientists", "others")
    log_in_by_code("ben")
    assert roles_of("ben") == []
    sijil("eve", "admin", "groups", "draft", at, path, "--key", keys["eve"])
    assert roles_of("ben") == []
    assert "another person signs, too" in sijil("eve", "admin", "groups", "approve", at, "bank", "--key", keys["eve"], code=1)
    assert roles_of("ben") == []
    sijil("fay", "admin", "groups", "approve", at, "bank", "--key", keys["fay"])
    assert roles_of("ben") == [("publisher", "main/models", "group", "bank")]
    assert "by a group (admin groups show bank)" in sijil("ben", "whoami", at)
    with open(os.path.join(folder.name, "model.bin"), "wb") as file:
        file.write(os.urandom(1000))
    sijil("ben", "push", os.path.join(folder.name, "model.bin"), at + "/main/models/of-ben:v1")
    listed = sijil("fay", "admin", "groups", "list", at)
    assert "data-scientists" in listed and "in force" in listed, listed
    minted = [event["entry"] for event in admin.api("GET", "/audit/events?limit=200&action=token.mint")["events"]]
    assert any(entry["res"].split("login=")[0].endswith("groups 1 ") for entry in minted if "login=" in entry.get("res", "")), minted
    # A row counts only as the event tells it: not with another subject or another group, nor longer than a day from the event on.
    # (A token of ben would write it anew, so an administrator looks.)
    by_groups = lambda: [row["role"] for row in admin.api("GET", "/access/review?limit=200")["roles"] if row["origin"] == "group"]
    row = "group_login WHERE subject = '" + server.sql("SELECT subject FROM group_login WHERE groups = '{data-scientists}'") + "'"
    for column, other in (("groups", "'{everyone}'"), ("until", "until + interval '2 hours'"), ("told", "told - 1")):
        server.sql(f"CREATE TABLE kept AS SELECT * FROM {row}; UPDATE group_login SET {column} = {other} WHERE subject = (SELECT subject FROM kept); SELECT raise_authorization_epoch()")
        wait_until(lambda: server.sql("SELECT count(*) FROM group_login_told") == "0" and by_groups() == [], 10, "a row that no event tells gives roles: " + column)
        server.sql(f"DELETE FROM group_login WHERE subject = (SELECT subject FROM kept); INSERT INTO group_login SELECT * FROM kept; DROP TABLE kept; SELECT raise_authorization_epoch()")
        wait_until(lambda: by_groups() == ["publisher"], 10, "the row that the event tells gives nothing")
    server.sql(f"INSERT INTO group_login SELECT issuer, 'thief', groups, issued_at, until, salt, told FROM {row}")
    assert server.sql("SELECT count(*) FROM group_login_told") == "1"
    server.sql("DELETE FROM group_login WHERE subject = 'thief'")
    issuer.set_groups("ben", "data-scientists", "everyone")
    assert roles_of("ben") == [("consumer", "main", "group", "bank"), ("publisher", "main/models", "group", "bank")]
    before = server.sql("SELECT epoch FROM authorization_epoch")
    assert len(roles_of("ben")) == 2 and server.sql("SELECT epoch FROM authorization_epoch") == before  # nothing new: nothing is written
    issuer.set_groups("ben", "everyone")
    assert roles_of("ben") == [("consumer", "main", "group", "bank")]
    sijil("ben", "push", os.path.join(folder.name, "model.bin"), at + "/main/models/of-ben:v2", code=4)


def other_programs_use_the_login():
    """skopeo asks the helper for each command, so it has a renewed token. ben may pull by a group."""
    bin_folder, trusted = (os.path.join(folder.name, name) for name in ("bin", "trusted"))
    for name in (bin_folder, trusted):
        os.mkdir(name)
    with open(bin_folder + "/docker-credential-sijil", "w", encoding="ascii") as file:
        file.write(f'#!/bin/sh\nexec {sijil_test.program("sijil")} credential "$@"\n')
    os.chmod(bin_folder + "/docker-credential-sijil", 0o755)
    with open(trusted + "/auth.json", "w", encoding="ascii") as file:
        json.dump({"credHelpers": {at: "sijil"}}, file)
    shutil.copy(server.ca_file, trusted + "/ca.crt")
    environment = environment_of("ben", PATH=bin_folder + ":" + os.environ["PATH"], REGISTRY_AUTH_FILE=trusted + "/auth.json")
    change_stored("ben", expires=0)
    before = stored("ben")[at]["password"]
    done = subprocess.run(["skopeo", "inspect", "--raw", "--cert-dir", trusted, f"docker://{at}/main/models/of-ben:v1"], capture_output=True, text=True,
                          env=environment, timeout=120)
    assert done.returncode == 0 and "model.bin" in done.stdout, done
    assert stored("ben")[at]["password"] != before

    def helper(given, action="get", who="ben"):
        return subprocess.run([sijil_test.program("sijil"), "credential", action], input=given + "\n", text=True, capture_output=True, env=environment_of(who), timeout=60)
    for given in (at, f"https://{at}", f"https://{at}/v1/"):
        assert json.loads(helper(given).stdout) == {"ServerURL": given, "Username": "oidc", "Secret": stored("ben")[at]["password"]}
    missing = helper("other.example")
    assert missing.returncode == 4 and missing.stdout == "credentials not found in native keychain\n", missing
    assert helper(at, "store").returncode == 2 and helper("me:secret@other.example").returncode != 0


def an_older_token_brings_no_group_back():
    """Nor is a token of such an issuer accepted elsewhere than at /token, where it could go on with the groups of an earlier one."""
    issuer.set_groups("ben", "data-scientists")
    roles_of("ben")
    old = stored("ben")[at]["password"]
    issuer.set_groups("ben", "others")
    time.sleep(1.1)  # `iat` has whole seconds
    assert roles_of("ben") == []
    answer = server.client().exchange(old, "registry:admin:*")
    assert answer.status == 200, answer.body
    assert sijil("ben", "whoami", at, "--json")["roles"] == []
    refused = server.client().call("GET", "/v2/", headers={"Authorization": "Bearer " + stored("ben")[at]["password"]})
    assert refused.status == 401 and "/token only" in refused["WWW-Authenticate"], refused["WWW-Authenticate"]


def roles_end_with_the_document():
    issuer.set_groups("ben", "everyone")
    assert [role[0] for role in roles_of("ben")] == ["consumer"]
    sijil("fay", "admin", "groups", "revoke", at, "bank", "--reason", "a test", "--key", keys_of["fay"])
    assert sijil("ben", "whoami", at, "--json")["roles"] == []  # with the token that it has: at once


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
        ({OPENID: about(), "/device": (400, {}, b'{"error":"invalid_target"}')}, "--resource must be known to the issuer", 4),
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


def a_person_is_told_what_to_do():
    """As text, which is safe to show whatever the issuer sends."""
    Liar.answers = {OPENID: about(), "/device": offer(verification_uri_complete=Liar.url + "/page?code=ABCD"),
                    "/token": (400, {}, json.dumps({"error": "access_denied", "error_description": "no\u202eway\u001b[2J"}).encode())}
    words = ["login", at, "--issuer", Liar.url, "--issuer-ca-file", issuer.certificate, "--client-id", "other"]
    said = sijil("dan", *words, code=4)  # no browser can be opened here, so it asks for a code
    assert f"    {Liar.url}/page\n" in said and "type the code ABCD\n" in said and f"or open {Liar.url}/page?code=ABCD\n" in said, said
    assert "the issuer refuses the login: 400 access_denied: no???way?[2J" in said and "client_id=other" in Liar.seen[-1][1], said
    process = subprocess.Popen([sijil_test.program("sijil"), *words, "--browser"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env=environment_of("dan"))
    lines = [process.stderr.readline() for _ in range(3)]
    assert lines[0].startswith("Log in with a browser") and lines[2].startswith(f"    {Liar.url}/auth?response_type=code&client_id=other&"), lines
    assert "prompt=consent" in lines[2]  # for offline_access, which is asked for unless --scope says otherwise
    process.terminate()
    process.communicate(timeout=60)
    assert "/ is a folder" in sijil("dan", *words[:4], "--issuer-ca-file", "/", code=2)
    for wrong, why in ((["--username", "x"], "give one of them"), (["--device", "--browser"], "not both"), (["--callback-port", "0"], "1 to 65535")):
        assert why in sijil("dan", *words, *wrong, code=2)


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
    run(a_person_logs_in_by_a_code, a_person_logs_in_with_a_browser, a_fresh_login_asks_the_issuer_to_ask, a_token_is_renewed_once, a_refused_token_is_renewed, logout_waits_for_a_renewal,
        what_the_environment_names_is_not_renewed, logout_ends_the_login_at_the_issuer, a_login_that_the_issuer_ended_says_so,
        a_registry_that_does_not_know_the_issuer_keeps_nothing, groups_get_roles,
        other_programs_use_the_login, an_older_token_brings_no_group_back, roles_end_with_the_document, lies_are_refused, a_person_is_told_what_to_do, a_device_waits_as_it_is_told,
        the_browser_must_come_back_from_the_issuer, an_id_token_of_another_login_is_refused, server=server)
finally:
    issuer.stop()
