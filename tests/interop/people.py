#!/usr/bin/env python3
"""`sijil login` at npm's oidc-provider over TLS, which follows the specifications where glewlwyd does not: any port of the loopback address, `iss` in the
answer, revocation by a public client, groups as a list. INTEROP_PEOPLE is a folder of npm with the module."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../scenario"), os.path.join(HERE, "../support")]
from login_kit import Browser, Place, certify
from ports import free_port
from sijil_test import Server, run

server = Server().start()
folder = tempfile.TemporaryDirectory(prefix="sijil-people-")
port = free_port()
place = Place(server, folder.name, f"https://127.0.0.1:{port}", certify(folder.name))
at, issuer, audience = place.at, place.issuer, "https://" + place.at
admin = server.client(server.admin)


def a_person_logs_in_with_a_browser():
    assert place.log_in("ann", "--browser")["name"] == "ann"
    assert place.sijil("ann", "whoami", at, "--json")["issuer"] == issuer


def a_person_logs_in_by_a_code():
    assert place.log_in("ben", "--device")["name"] == "ben"


def a_login_is_renewed_and_ended():
    for home in ("ann", "ben"):
        before = place.end_token(home)
        place.sijil(home, "whoami", at)
        after = place.stored(home)[at]
        assert after["password"] != before["password"] and after["issuer"]["refresh"] != before["issuer"]["refresh"]
        place.sijil(home, "logout", at)
        form = {"grant_type": "refresh_token", "client_id": "sijil", "refresh_token": after["issuer"]["refresh"]}
        status, _, body = Browser(place, home).call(issuer + "/token", form)
        assert status == 400 and json.loads(body)["error"] == "invalid_grant", body


def groups_come_as_a_list():
    with open(folder.name + "/groups/ann", "w", encoding="utf-8") as file:
        json.dump(["others", "data scientists, of the bank"], file)
    with open(folder.name + "/groups.json", "w", encoding="utf-8") as file:
        json.dump({"name": "bank", "issuer": issuer, "claim": "/groups",
                   "grant": [{"group": "data scientists, of the bank", "role": "publisher", "on": "main/models"}]}, file)
    place.as_admin("admin", "groups", "draft", at, folder.name + "/groups.json", "--key", server.folder + "/officer/approver.pem")
    place.log_in("ann", "--browser")
    roles = place.sijil("ann", "whoami", at, "--json")["roles"]
    assert [(role["role"], role["scope"], role["document"]) for role in roles] == [("publisher", "main/models", "bank")], roles


def other_clients_take_the_login():
    print("pushed and pulled:", *place.other_clients("ann", "main/models/of-ann"))


os.mkdir(folder.name + "/groups")
shutil.copy(os.path.join(HERE, "people", "provider.mjs"), os.environ["INTEROP_PEOPLE"])  # modules are found beside it
process = subprocess.Popen(["node", "--no-warnings", "provider.mjs", folder.name, str(port), audience], cwd=os.environ["INTEROP_PEOPLE"],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
try:
    while "ready" not in (line := process.stdout.readline()):
        assert line, "oidc-provider has not started"
    keys = json.loads(Browser(place, "nobody").call(issuer + "/jwks")[2])
    admin.api("POST", "/issuers", {"url": issuer, "algorithms": ["ES256"], "jwks": {"keys": [{name: value for name, value in key.items() if name in (
        "kty", "crv", "kid", "x", "y", "alg", "use")} for key in keys["keys"]]}, "audience": audience})
    run(a_person_logs_in_with_a_browser, a_person_logs_in_by_a_code, a_login_is_renewed_and_ended, groups_come_as_a_list, other_clients_take_the_login, server=server)
finally:
    process.terminate()
    process.wait()
