#!/usr/bin/env python3
"""Issuers and their signed documents at two gateways (docs/identity.md): each issuer has its own authority, and what two officers sign, or the root, counts at both."""
import json
import os
import shutil
import subprocess
import tempfile
import time

from fleet import Fleet
from sijil_test import IssuerProcess, program, run, wait_until

folder = tempfile.TemporaryDirectory()
os.chmod(folder.name, 0o755)
authorities = os.path.join(folder.name, "authorities")
os.mkdir(authorities)
server = Fleet(2, issuer_networks="127.0.0.1/32, ::1/128", issuer_ca_folder=authorities).start()
audience = f"https://127.0.0.1:{server.port}"
gateways = server.clients(server.admin)
ci, bank, other = (IssuerProcess(audience) for _ in range(3))
SCOPE = "repository:main/models/x:pull,push"


def vouch(issuer, certificate):
    shutil.copy(certificate, os.path.join(authorities, issuer.url.removeprefix("https://") + ".pem"))


def sijil(number, *words, code=0):
    """At one of the gateways. HOST stands for its address."""
    home, at = os.path.join(folder.name, "home"), f"127.0.0.1:{server.ports[number]}"
    os.makedirs(home, exist_ok=True)
    done = subprocess.run([program("sijil"), *(at if word == "HOST" else word for word in words)], input="", text=True, capture_output=True, timeout=60, check=False,
                          env={**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "SIJIL_CA_FILE": server.ca_file, "SIJIL_USERNAME": server.admin[0],
                               "SIJIL_PASSWORD": server.admin[1]})
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def token(issuer, name, **claims):
    """A token with these claims."""
    with open(os.path.join(issuer.folder, "claims", name + ".json"), "w", encoding="utf-8") as file:
        json.dump({"sub": name, **claims}, file)
    path = os.path.join(issuer.folder, "people", name)
    if not os.path.exists(path):
        issuer.add(name)
    with open(path, encoding="ascii") as file:
        password = file.read()
    done = subprocess.run(["curl", "-fsS", "--cacert", issuer.certificate, "-H", "Authorization: Bearer " + password, f"{issuer.url}/actions?job={name}&audience={audience}"],
                          capture_output=True, text=True, check=True, timeout=30)
    return json.loads(done.stdout)["value"]


def written(document):
    path = os.path.join(folder.name, f"document-{time.monotonic_ns()}.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)
    return path


def signed(number, *words):
    return sijil(number, *words, "--key", server.path("approver.pem"))


def granted(gateway, made):
    answer = gateway.exchange(made, SCOPE)
    return answer.json.get("scope") if answer.status == 200 else answer.status


def myself(gateway, made):
    access = gateway.exchange(made, "registry:admin:*").json["access_token"]
    return gateway.call("GET", "/api/v1/self", headers={"Authorization": "Bearer " + access}).json


def each_issuer_has_its_own_authority():
    """The file of one vouches for no other, and an issuer without a file has the authorities of the system."""
    vouch(ci, ci.certificate)
    vouch(bank, bank.certificate)
    vouch(other, ci.certificate)
    for number, issuer in ((0, ci), (1, bank)):
        said = sijil(number, "admin", "issuer", "add", "HOST", issuer.url, "--algorithm", "ES256")
        assert "one" in said, said
    said = sijil(0, "admin", "issuer", "add", "HOST", other.url, "--algorithm", "ES256", code=1)
    assert "certificate" in said.lower(), said
    os.unlink(os.path.join(authorities, other.url.removeprefix("https://") + ".pem"))
    sijil(0, "admin", "issuer", "remove", "HOST", other.url)
    said = sijil(0, "admin", "issuer", "add", "HOST", other.url, "--algorithm", "ES256", code=1)
    assert "certificate" in said.lower(), said


def a_file_that_cannot_be_looked_at_is_no_other_authority():
    """A link to nowhere, and a folder that is away for a moment: the system's authorities are not asked instead."""
    link = os.path.join(authorities, other.url.removeprefix("https://") + ".pem")
    sijil(0, "admin", "issuer", "remove", "HOST", other.url)
    os.symlink("/nowhere.pem", link)
    said = [sijil(0, "admin", "issuer", "add", "HOST", other.url, "--algorithm", "ES256", code=1)]
    os.unlink(link)
    os.rename(authorities, authorities + ".away")
    sijil(0, "admin", "issuer", "remove", "HOST", other.url)
    said.append(sijil(0, "admin", "issuer", "add", "HOST", other.url, "--algorithm", "ES256", code=1))
    os.rename(authorities + ".away", authorities)
    assert all("error setting certificate file" in each for each in said), said


def documents_count_at_both_gateways():
    """A trust rule and roles of groups, each brought to one gateway."""
    rule = {"id": "job", "scope": "main", "system": "generic", "issuer": ci.url, "audience": audience, "immutable": ["/project_id"],
            "match": {"/project_id": {"eq": "7"}, "/sub": {"eq": "job"}}, "grant": [{"role": "publisher", "on": "main/models"}], "single_use": False}
    signed(0, "ci", "rule", "draft", "HOST", written(rule))
    signed(1, "admin", "groups", "draft", "HOST", written({"name": "bank", "issuer": bank.url, "claim": "/groups",
                                                          "grant": [{"group": "data", "role": "publisher", "on": "main/models"}]}))
    for gateway in gateways:
        wait_until(lambda: granted(gateway, token(ci, "job", project_id="7")) == SCOPE, 10, "the rule is not known")
        assert granted(gateway, token(ci, "job", project_id="8")) == ""
        wait_until(lambda: granted(gateway, token(bank, "ann", groups=["data"])) == SCOPE, 10, "the roles of groups are not known")
        time.sleep(1.1)  # `iat` has whole seconds, and a token of the same second brings no other groups
        assert granted(gateway, token(bank, "ann", groups=["others"])) == ""
        time.sleep(1.1)


def a_withdrawal_counts_at_the_other_gateway_at_once():
    job, ann = token(ci, "job", project_id="7"), token(bank, "ann", groups=["data"])
    held = []
    for gateway in gateways:
        for made in (job, ann):
            held.append((gateway, {"Authorization": "Bearer " + gateway.exchange(made, SCOPE).json["access_token"]}))
    uploads = "/v2/main/models/x/blobs/uploads/"
    assert all(gateway.call("POST", uploads, headers=headers).status == 202 for gateway, headers in held)
    signed(1, "ci", "rule", "revoke", "HOST", "job", "--scope", "main", "--reason", "a test")
    signed(0, "admin", "groups", "revoke", "HOST", "bank", "--reason", "a test")
    began = time.monotonic()
    wait_until(lambda: all(gateway.call("POST", uploads, headers=headers).status in (401, 404) for gateway, headers in held), 5, "rights go on")
    assert time.monotonic() - began < 1.5, "the withdrawals took longer than a second"


def persons_come_from_one_issuer_at_both_gateways():
    signed(0, "admin", "persons", "draft", "HOST", written({"name": "_registry", "issuer": bank.url}))
    for gateway in gateways:
        wait_until(lambda: myself(gateway, token(ci, "eve"))["person"] is None, 10, "the document is not known")
        assert (myself(gateway, token(bank, "eve"))["person"] or "").startswith("ext:")
    sijil(1, "admin", "persons", "revoke", "HOST", "_registry", "--reason", "a test", "--key", server.path("approver.pem"))
    wait_until(lambda: all(myself(gateway, token(ci, "eve"))["person"] for gateway in gateways), 5, "the document goes on")


try:
    run(each_issuer_has_its_own_authority, a_file_that_cannot_be_looked_at_is_no_other_authority, documents_count_at_both_gateways, a_withdrawal_counts_at_the_other_gateway_at_once,
        persons_come_from_one_issuer_at_both_gateways, server=server)
finally:
    for process in (ci, bank, other):
        process.stop()
