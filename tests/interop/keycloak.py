#!/usr/bin/env python3
"""Keycloak over TLS as the bank's identity provider: its metadata and keys are fetched, people log in with a browser and by a code, their groups have roles, a service
has a token of its own; through `sijil`, skopeo and oras. KEYCLOAK is the folder of its distribution."""
import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../scenario"), os.path.join(HERE, "../support")]
from login_kit import Browser, Place, certify
from ports import free_port
from sijil_test import Server, run, wait_until

port = free_port()
folder = tempfile.TemporaryDirectory(prefix="sijil-keycloak-")
os.chmod(folder.name, 0o755)  # the registry's user reads the certificate
certificate, issuer = certify(folder.name), f"https://localhost:{port}/realms/bank"
server = Server()
server.options = ["--issuer-networks", "127.0.0.1/32, ::1/128", "--issuer-ca-file", certificate]
server.start()
place = Place(server, folder.name, issuer, certificate)
place.password = "a password of a test"
at, audience, admin = place.at, "https://" + place.at, server.client(server.admin)


def mapper(name, kind, **config):
    return {"name": name, "protocol": "openid-connect", "protocolMapper": kind, "config": {"access.token.claim": "true", **config}}


AUDIENCE = mapper("registry", "oidc-audience-mapper", **{"included.custom.audience": audience, "id.token.claim": "false"})
GROUPS = mapper("groups", "oidc-group-membership-mapper", **{"claim.name": "groups", "full.path": "false"})


def client(name, **more):
    return {"clientId": name, "protocol": "openid-connect", "fullScopeAllowed": False, "defaultClientScopes": ["basic", "acr"], "optionalClientScopes": ["offline_access"],
            "protocolMappers": [AUDIENCE, GROUPS], "directAccessGrantsEnabled": False, "standardFlowEnabled": False, **more}


REALM = {
    "realm": "bank", "enabled": True, "sslRequired": "all", "accessTokenLifespan": 300, "revokeRefreshToken": True,
    "groups": [{"name": "data-scientists"}],
    "users": [{"username": name, "enabled": True, "email": name + "@bank.example", "emailVerified": True, "firstName": name, "lastName": "of the bank",
               "credentials": [{"type": "password", "value": place.password}], "groups": groups, "realmRoles": ["offline_access"]}
              for name, groups in (("ann", ["data-scientists"]), ("ben", []))],
    "clients": [client("sijil", publicClient=True, standardFlowEnabled=True, redirectUris=["http://127.0.0.1/callback"]),
                client("sijil-device", publicClient=True, attributes={"oauth2.device.authorization.grant.enabled": "true"}),
                client("job", publicClient=False, secret="a secret of a test", serviceAccountsEnabled=True)],
}


def claims_of(token):
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def start():
    imports = os.path.join(os.environ["KEYCLOAK"], "data", "import")
    os.makedirs(imports, exist_ok=True)
    with open(os.path.join(imports, "bank-realm.json"), "w", encoding="utf-8") as file:
        json.dump(REALM, file)
    shutil.rmtree(os.path.join(os.environ["KEYCLOAK"], "data", "h2"), ignore_errors=True)
    log = open(os.path.join(folder.name, "keycloak.log"), "wb")
    return subprocess.Popen([os.path.join(os.environ["KEYCLOAK"], "bin", "kc.sh"), "start-dev", "--import-realm", "--http-enabled=false", "--http-host=127.0.0.1",
                             f"--https-port={port}", f"--hostname=https://localhost:{port}", f"--https-certificate-file={certificate}",
                             f"--https-certificate-key-file={folder.name}/tls.key"],
                            stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True, env={**os.environ, "JAVA_OPTS_KC_HEAP": "-Xms64m -Xmx768m"})


def is_up():
    assert process.poll() is None, open(folder.name + "/keycloak.log", encoding="utf-8").read()[-3000:]
    try:
        return Browser(place, "nobody").call(issuer + "/.well-known/openid-configuration")[0] == 200
    except OSError:
        return False


def the_registry_fetches_its_keys():
    """Keycloak has a key for encryption beside the one that signs: it does not count, and does not disturb."""
    seen = place.as_admin("admin", "issuer", "add", at, issuer, "--audience", audience, "--algorithm", "RS256", "--json")
    assert "problem" not in seen and seen["keys"], seen


def a_person_logs_in_with_a_browser():
    name = place.log_in("ann", "--browser")["name"]
    token = claims_of(place.stored("ann")[at]["password"])
    assert token["sub"] == name and token["aud"] == audience and token["azp"] == "sijil" and token["auth_time"] > time.time() - 300 and token["acr"], token


def a_person_logs_in_by_a_code():
    name = place.log_in("ben", "--device", "--client-id", "sijil-device")["name"]
    token = claims_of(place.stored("ben")[at]["password"])
    assert token["sub"] == name and token["azp"] == "sijil-device", token  # what step_up_clients tells apart


def groups_have_roles():
    with open(folder.name + "/groups.json", "w", encoding="utf-8") as file:
        json.dump({"name": "bank", "issuer": issuer, "claim": "/groups", "grant": [{"group": "data-scientists", "role": "publisher", "on": "main/models"}]}, file)
    place.as_admin("admin", "groups", "draft", at, folder.name + "/groups.json", "--key", server.folder + "/officer/approver.pem")
    for home, wanted in (("ann", [("publisher", "main/models")]), ("ben", [])):
        place.end_token(home)
        assert [(role["role"], role["scope"]) for role in place.sijil(home, "whoami", at, "--json")["roles"]] == wanted, home


def other_clients_take_the_login():
    print("pushed and pulled:", *place.other_clients("ann", "main/models/of-ann"))


def a_login_is_renewed_and_ended():
    """A refresh token that was replaced is refused, and so is the last one after the logout."""
    for home, name in (("ann", "sijil"), ("ben", "sijil-device")):
        before = place.end_token(home)
        place.sijil(home, "whoami", at)
        after = place.stored(home)[at]
        assert after["issuer"]["refresh"] != before["issuer"]["refresh"]
        place.sijil(home, "logout", at)
        status, _, body = Browser(place, home).call(issuer + "/protocol/openid-connect/token",
                                                    {"grant_type": "refresh_token", "client_id": name, "refresh_token": after["issuer"]["refresh"]})
        assert status == 400 and json.loads(body)["error"] == "invalid_grant", body


def a_service_has_a_token_of_its_own():
    status, _, body = Browser(place, "job").call(issuer + "/protocol/openid-connect/token",
                                                 {"grant_type": "client_credentials", "client_id": "job", "client_secret": "a secret of a test"})
    assert status == 200, body
    token = json.loads(body)["access_token"]
    scope = "repository:main/models/of-job:pull,push"
    assert admin.exchange(token, scope).json["scope"] == ""
    admin.api("POST", "/bindings", {"issuer": issuer, "subject": claims_of(token)["sub"], "role": "publisher", "scope": "main/models"})
    wait_until(lambda: admin.exchange(token, scope).json["scope"] == scope, 10, "the role is not known")
    changed = token[:-6] + "AAAAAA"
    assert admin.exchange(changed, scope).status == 400
    assert urllib.parse.urlsplit(claims_of(token)["iss"]).path == "/realms/bank"


process = start()
try:
    wait_until(is_up, 300, "Keycloak has not started")
    run(the_registry_fetches_its_keys, a_person_logs_in_with_a_browser, a_person_logs_in_by_a_code, groups_have_roles, other_clients_take_the_login,
        a_login_is_renewed_and_ended, a_service_has_a_token_of_its_own, server=server)
finally:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    process.wait()
