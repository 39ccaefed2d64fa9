#!/usr/bin/env python3
"""scim2-tester, a checker of SCIM servers (RFC 7643, RFC 7644), against a fresh registry.

INTEROP_SCIM is a Python that has it; INTEROP_RESULTS is the folder for its report."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../scenario"))
import sijil_test
from sijil_test import Server

RESULTS = os.environ["INTEROP_RESULTS"]
# Runs in the other Python. One line of JSON for each check.
PROGRAM = """
import json, os, ssl, sys
import httpx2
from scim2_client.engines.httpx2 import SyncSCIMClient
from scim2_tester import check_server
context = ssl.create_default_context(cafile=os.environ["CA"])
client = SyncSCIMClient(httpx2.Client(base_url=sys.argv[1], verify=context, auth=(os.environ["NAME"], os.environ["SECRET"])))
client.discover()
for result in check_server(client):
    print(json.dumps([str(result.status), result.title, str(result.reason)]))
"""
# (check, words of the reason): what the registry does otherwise, on purpose.
ELSEWISE = (("search_with_attributes", ""),      # no POST to /.search: a search has no more to say than a query can
            ("check_remove_attribute", "active"))  # without a value nobody would know whether the person may come in
server = Server().start()


def set_up():
    admin = server.client(server.admin)
    issuer = sijil_test.Issuer("https://id.bank.example", f"https://127.0.0.1:{server.port}")
    admin.api("POST", "/issuers", {"url": issuer.url, "algorithms": ["ES256"], "jwks": issuer.jwks})
    robot = admin.api("POST", "/robots", {"name": "scim"})
    home = os.path.join(server.folder, "interop-home")
    os.makedirs(home)
    environment = {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "SIJIL_CA_FILE": server.ca_file}
    place = f"127.0.0.1:{server.port}"
    subprocess.run([sijil_test.program("sijil"), "login", place, "--username", server.admin[0], "--ca-file", server.ca_file], input=server.admin[1] + "\n", text=True,
                   check=True, env=environment)
    with open(home + "/scim.json", "w", encoding="utf-8") as file:
        json.dump({"name": "bank", "issuer": issuer.url, "claim": "/sub", "client": "robot:" + robot["id"], "deactivations": 10000}, file)
    subprocess.run([sijil_test.program("sijil"), "admin", "scim", "draft", place, home + "/scim.json", "--key", os.path.join(server.folder, "officer", "approver.pem")],
                   check=True, env=environment)
    return robot


def a_foreign_checker_is_content():
    robot = set_up()
    environment = {**os.environ, "CA": server.ca_file, "NAME": robot["name"], "SECRET": robot["secret"]}
    done = subprocess.run([os.environ["INTEROP_SCIM"], "-c", PROGRAM, f"https://127.0.0.1:{server.port}/scim/v2/"], text=True, capture_output=True, timeout=900,
                          env=environment)
    os.makedirs(RESULTS, exist_ok=True)
    with open(os.path.join(RESULTS, "scim2-tester.txt"), "w", encoding="utf-8") as file:
        file.write(done.stdout + done.stderr)
    checks = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    bad = [check for check in checks if not any(word in check[0] for word in ("SUCCESS", "SKIPPED", "COMPLIANT", "ACCEPTABLE"))
           and not any(check[1] == name and words in check[2] for name, words in ELSEWISE)]
    print(f"{len(checks)} checks, {len(bad)} not passed")
    assert done.returncode == 0 and len(checks) > 20 and not bad, (done.returncode, bad, done.stderr[-3000:])


sijil_test.run(a_foreign_checker_is_content, server=server)
