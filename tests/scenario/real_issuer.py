#!/usr/bin/env python3
"""Debian's glewlwyd as an issuer that the registry follows: its metadata and keys over TLS, an access token of a client (RFC 9068), and introspection."""
import base64
import json
import os
import pwd
import ssl
import sys
import urllib.parse
import urllib.request

from sijil_test import Server, run, wait_until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from glewlwyd import Glewlwyd  # noqa: E402

CLIENT, SECRET = "ci", "secret-of-ci"


class Following(Server):
    def __init__(self):
        super().__init__()
        self.audience = f"https://127.0.0.1:{self.port}"
        self.issuer = Glewlwyd(self.audience)
        os.chmod(self.issuer.folder, 0o755)  # sijild reads the certificate as another user
        path = os.path.join(self.issuer.folder, "introspection")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write(f"{self.issuer.url} {self.issuer.url}/introspect {CLIENT} {SECRET}\n")
        if os.geteuid() == 0:
            owner = pwd.getpwnam("sijil")
            os.chown(path, owner.pw_uid, owner.pw_gid)
        self.options = ["--issuer-networks", "127.0.0.1/32", "--issuer-ca-file", self.issuer.certificate, "--introspection-file", path]


server = Following().start()
issuer, admin = server.issuer, server.client(server.admin)


def ask_issuer(path, **form):
    request = urllib.request.Request(issuer.url + path, data=urllib.parse.urlencode(form).encode())
    request.add_header("Authorization", "Basic " + base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode())
    with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=issuer.certificate), timeout=30) as answer:
        return json.loads(answer.read())


def its_keys_are_fetched():
    made = admin.api("POST", "/issuers", {"url": issuer.url, "algorithms": ["ES256"], "lifetime_max": 900})
    wait_until(lambda: "ended" in admin.api("GET", "/issuers/" + made["id"]), 20, "the issuer is not asked")
    seen = admin.api("GET", "/issuers/" + made["id"])
    assert "problem" not in seen and [key["kid"] for key in seen["keys"]] == ["one"], seen


def a_client_of_it_gets_a_token_here():
    issuer.ask(issuer.admin, "POST", "/client/", {"client_id": CLIENT, "client_name": CLIENT, "client_secret": SECRET, "confidential": True, "enabled": True,
                                                  "authorization_type": ["client_credentials"], "redirect_uri": [], "scope": ["registry"],
                                                  "resource": [server.audience], "token_endpoint_auth_method": ["client_secret_basic"]})
    token = ask_issuer("/token", grant_type="client_credentials", scope="registry", resource=server.audience)["access_token"]
    admin.api("POST", "/bindings", {"issuer": issuer.url, "subject": CLIENT, "role": "consumer", "scope": "main/models"})
    answer = admin.exchange(token, "repository:main/models/digits:pull")
    assert answer.status == 200 and answer.json["scope"] == "repository:main/models/digits:pull", (answer.status, answer.body)
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": token, "scope": "registry:catalog:*",
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token"}
    refused = admin.call("POST", "/token", urllib.parse.urlencode(form), {"Content-Type": "application/x-www-form-urlencoded"})
    assert refused.status == 400 and "is an access token" in refused.json["error_description"], refused.body


def it_is_asked_about_opaque_tokens():
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": "nobody.knows-it", "scope": "registry:catalog:*",
            "subject_token_type": "urn:ietf:params:oauth:token-type:access_token"}
    refused = admin.call("POST", "/token", urllib.parse.urlencode(form), {"Content-Type": "application/x-www-form-urlencoded"})
    assert refused.status == 400 and "no valid access token" in refused.json["error_description"], refused.body  # the issuer knows us, and not the token


try:
    run(its_keys_are_fetched, a_client_of_it_gets_a_token_here, it_is_asked_about_opaque_tokens, server=server)
finally:
    issuer.stop()
