#!/usr/bin/env python3
"""SCIM 2.0 on two gateways: persons and groups of one issuer, provisioned by a client of the standard library over TLS; their tokens before and after they leave."""
import base64
import hashlib
import json
import os
import subprocess
import tempfile
import time
import urllib.parse
import uuid

import signing_keys
import sijil_test
from fleet import Fleet, Judge
from signing_keys import Key
from sijil_test import Client, make_robot, run, wait_until

server = Fleet(2, audit_verify_rate=1000000, audit_verify_rest=1).start()
folder = tempfile.TemporaryDirectory()
admin = server.client(server.admin)
at = f"127.0.0.1:{server.port}"
issuer = sijil_test.Issuer("https://id.bank.example", f"https://127.0.0.1:{server.port}")
ROOT = server.path("approver.pem")
BOUND = 4  # deactivations within an hour
SECONDS = 1  # in which a deactivated person can do nothing more, at any gateway
USER, GROUP, PATCH = ("urn:ietf:params:scim:schemas:core:2.0:User", "urn:ietf:params:scim:schemas:core:2.0:Group",
                      "urn:ietf:params:scim:api:messages:2.0:PatchOp")


def prepare():
    admin.api("POST", "/organisations", {"name": "main"}, expect=(201, 409))
    admin.api("POST", "/projects", {"organisation": "main", "name": "models", "region": "local/main"}, expect=(201, 409))
    admin.api("POST", "/issuers", {"url": issuer.url, "algorithms": ["ES256"], "jwks": issuer.jwks})
    return admin.api("POST", "/robots", {"name": "scim"})


robot = prepare()
CLIENT = (robot["name"], robot["secret"])


def sijil(*words, code=0):
    environment = {**os.environ, "HOME": folder.name, "XDG_CONFIG_HOME": folder.name, "SIJIL_CA_FILE": server.ca_file}
    done = subprocess.run([sijil_test.program("sijil"), *words], input="", text=True, capture_output=True, env=environment, timeout=120)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout) if "--json" in words and done.stdout else done.stdout + done.stderr


def log_in(who, code=0):
    done = subprocess.run([sijil_test.program("sijil"), "login", at, "--username", who[0], "--ca-file", server.ca_file], input=who[1] + "\n",
                          text=True, capture_output=True, env={**os.environ, "HOME": folder.name, "XDG_CONFIG_HOME": folder.name}, timeout=60)
    assert done.returncode == code, done
    return done.stdout + done.stderr


log_in(server.admin)


def draft(kind, name, code=0, **body):
    """Signed by the root, so it is in force at once."""
    path = os.path.join(folder.name, name + ".json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"name": name, **body}, file)
    return sijil("admin", kind, "draft", at, path, "--key", ROOT, code=code)


def service(code=0, **more):
    return draft("scim", "bank", code=code, **{"issuer": issuer.url, "claim": "/sub", "client": "robot:" + robot["id"], "deactivations": BOUND, **more})


def basic(login):
    return base64.b64encode(":".join(login).encode()).decode()


def scim(method, path, document=None, gateway=0, login=CLIENT, form="Basic ", expect=None, **headers):
    """One request, as a program of an identity team sends it."""
    sent = {"Authorization": form + basic(login), **{name.replace("_", "-"): value for name, value in headers.items()}}
    if document is not None:
        sent["Content-Type"] = "application/scim+json"
    answer = Client(server, None, server.ports[gateway]).call(method, "/scim/v2" + path, None if document is None else json.dumps(document), sent)
    if expect is not None:
        assert answer.status == expect, (method, path, answer.status, answer.body)
    if answer.status >= 400:
        assert answer["Content-Type"] == "application/scim+json" and answer.json["status"] == str(answer.status), (answer["Content-Type"], answer.body)
    return answer


def provision(name, **more):
    return scim("POST", "/Users", {"schemas": [USER], "userName": name, "externalId": "id-of-" + name, **more}, expect=201).json


def patch(path, *operations, **more):
    return scim("PATCH", path, {"schemas": [PATCH], "Operations": list(operations)}, **more)


def deactivate(user, **more):
    return patch("/Users/" + user["id"], {"op": "replace", "path": "active", "value": False}, **more)


def token_of(name, gateway=0, scope="registry:catalog:* registry:admin:*", **claims):
    """Of the registry, for a token of the issuer."""
    return Client(server, None, server.ports[gateway]).exchange(issuer.token(**{"sub": "id-of-" + name, **claims}), scope)


def works(token, gateway):
    return Client(server, None, server.ports[gateway]).call("GET", "/v2/_catalog", headers={"Authorization": "Bearer " + token}).status


def events(action):
    return [each["entry"] for each in auditor.api("GET", f"/audit/events?limit=100&action={action}")["events"]]


def sql(text):
    return Judge.sql_at(server, text)


auditor = server.client(make_robot(server, "auditor", "auditor", ""))
people = {}


# ---- The document ----

def nobody_provisions_without_a_document():
    scim("GET", "/Users", expect=403)
    scim("GET", "/Users", login=("robot$nobody", "x"), expect=401)
    for path, kind in (("/ServiceProviderConfig", "ServiceProviderConfig"), ("/ResourceTypes", "ListResponse"), ("/Schemas", "ListResponse"),
                       ("/Schemas/" + USER, "Schema"), ("/ResourceTypes/Group", "ResourceType")):
        answer = server.client().call("GET", "/scim/v2" + path)
        assert answer.status == 200 and answer.json["schemas"][0].endswith(kind) and answer["Content-Type"] == "application/scim+json", (path, answer.body)
    assert server.client().call("GET", "/scim/v2/Schemas/none").status == 404


def a_document_names_no_mail():
    for claim in ("/email", "/preferred_username", "/upn", "/x/mail"):
        assert "may change, or be given to another person" in service(code=1, claim=claim)
    assert "robot:ID" in service(code=1, client="ann")
    assert "1 to 10000" in service(code=1, deactivations=0)
    assert "in force" in service()
    shown = sijil("admin", "scim", "show", at, "bank", "--json")
    assert shown["provisioned"] == {"active": 0, "inactive": 0, "groups": 0, "deactivated": 0}, shown
    assert "bank" in sijil("admin", "scim", "list", at)
    assert "--issuer URL, if WHO is a person" in sijil("authz", "explain", at, "id-of-ann", "project.read", "main/models", code=3)
    assert "--scope ORGANISATION" in sijil("ci", "rule", "list", at)


def only_the_named_client_provisions():
    other = admin.api("POST", "/robots", {"name": "other"})
    assert "names this credential" in scim("GET", "/Users", login=(other["name"], other["secret"]), expect=403).json["detail"]
    assert scim("GET", "/Users", expect=200).json["totalResults"] == 0
    assert scim("GET", "/Users", form="Bearer ", expect=200).json["totalResults"] == 0  # for clients that only know Bearer
    token = Client(server, CLIENT).token("registry:admin:*")
    assert server.client().call("GET", "/scim/v2/Users", headers={"Authorization": "Bearer " + token}).status == 200
    refused = server.client(CLIENT).call("GET", "/api/v1/robots", scope="registry:admin:*")
    assert refused.status == 403, refused.body  # it may provision, and nothing else


def nobody_gets_the_directory_by_another_secret():
    """Whoever sees a new secret of the client could deactivate everybody, and put anybody into groups."""
    made = admin.api("POST", "/robots", {"organisation": "main", "name": "directory"})
    chief = Client(server, make_robot(server, "chief", "org-admin", "main"))
    service(client="robot:" + made["id"])
    for who in (chief, admin):  # one administrator alone would be a second person with it
        answer = who.call("POST", f"/api/v1/robots/{made['id']}/secret", "{}", {"Content-Type": "application/json"}, scope="registry:admin:*")
        assert answer.status == 403 and "two approvers have signed that this robot" in answer.body.decode(), answer.body
    service()
    chief.api("POST", f"/robots/{made['id']}/secret", {})


# ---- Persons ----

def a_person_is_provisioned():
    made = scim("POST", "/Users", {"schemas": [USER], "userName": "Ann@bank.example", "externalId": "id-of-ann", "displayName": "Ann", "emails": [{"value": "a@b"}],
                                   "name": {"givenName": "Ann"}, "password": "x", "roles": [{"value": "registry-admin"}]}, expect=201)
    people["ann"] = ann = made.json
    assert made["ETag"] == '"1"' == ann["meta"]["version"] and made["Location"].endswith("/scim/v2/Users/" + ann["id"]) and ann["active"] is True
    assert set(ann) == {"schemas", "id", "externalId", "userName", "displayName", "active", "meta"}, ann
    assert scim("GET", "/Users/" + ann["id"], gateway=1, expect=200).json == ann
    assert scim("GET", "/Users/" + ann["id"], If_None_Match='"1"').status == 304
    for body, status, kind in (({"userName": "ANN@bank.example", "externalId": "x"}, 409, "uniqueness"), ({"userName": "x", "externalId": "id-of-ann"}, 409, "uniqueness"),
                               ({"userName": "x"}, 400, "invalidValue"), ({"externalId": "x"}, 400, "invalidValue"), ({"userName": "x", "externalId": "x", "king": 1}, 400, "invalidPath"),
                               ({"userName": "a\u0007", "externalId": "x"}, 400, "invalidValue"), ({"userName": "x", "USERNAME": "y", "externalId": "x"}, 400, "invalidSyntax"),
                               ({"userName": "x" * 300, "externalId": "x"}, 400, "invalidValue"), ({"userName": "x", "externalId": "x", "active": 1}, 400, "invalidValue")):
        assert scim("POST", "/Users", {"schemas": [USER], **body}, expect=status).json["scimType"] == kind, body
    assert scim("POST", "/Users", {"userName": "x", "externalId": "x"}, expect=400).json["scimType"] == "invalidSyntax"


def no_name_is_in_the_database():
    found = sql("SELECT string_agg(u::text, ' ') FROM scim_user u") + sql("SELECT string_agg(n::text, ' ') FROM scim_name n")
    assert "id-of-ann" in found and not any(name in found for name in ("@bank", b"@bank".hex(), "Ann", b"Ann".hex())), found


def persons_are_found():
    def found(text, **more):
        return [each["userName"] for each in scim("GET", "/Users?" + urllib.parse.urlencode({"filter": text, **more}), expect=200).json["Resources"]]
    people["ben"] = provision("ben")
    ann = people["ann"]
    for text in ('userName eq "ann@BANK.example"', 'externalId eq "id-of-ann"', f'id eq "{ann["id"]}"', 'username EQ "ann@bank.example" and active eq true',
                 f'{USER}:userName eq "ann@bank.example"', f'externalId eq "id-of-ann" and id eq "{ann["id"]}"'):
        assert found(text) == ["Ann@bank.example"], text
    assert found("active eq true") == ["Ann@bank.example", "ben"] and found("active eq false") == [] and found('userName eq "nobody"') == []
    for text in ('userName co "a"', 'userName eq ann', 'emails eq "a"', 'userName eq "a" or userName eq "b"', "", 'userName eq "a', '(userName eq "a")',
                 'userName eq "a" and', 'displayName eq "Ann"', 'userName eq "a" and userName eq "b"', 'x' * 3000):
        assert scim("GET", "/Users?" + urllib.parse.urlencode({"filter": text}), expect=400).json["scimType"] == "invalidFilter", text
    page = scim("GET", "/Users?startIndex=2&count=1&attributes=userName", expect=200).json
    assert (page["totalResults"], page["startIndex"], page["itemsPerPage"]) == (2, 2, 1) and set(page["Resources"][0]) == {"schemas", "id", "userName"}, page
    assert scim("GET", "/Users?count=0", expect=200).json["Resources"] == []
    assert scim("GET", "/Users/" + "0" * 8, expect=404).json["detail"]


def a_person_is_changed():
    """Renamed, it keeps its id and its rights; nobody becomes another person."""
    ben = "/Users/" + people["ben"]["id"]
    changed = patch(ben, {"op": "Replace", "path": "userName", "value": "benjamin"}, {"op": "add", "value": {"displayName": "Ben", "nickName": "B"}}, expect=200).json
    assert (changed["userName"], changed["displayName"], changed["meta"]["version"]) == ("benjamin", "Ben", '"2"'), changed
    assert patch(ben, {"op": "remove", "path": "displayName"}, {"op": "replace", "path": 'emails[type eq "work"].value', "value": "x"}, expect=200).json.get("displayName") is None
    assert patch(ben, {"op": "replace", "path": "externalId", "value": "id-of-ann"}, expect=400).json["scimType"] == "mutability"
    assert patch(ben, {"op": "replace", "path": "userName", "value": "ANN@bank.example"}, expect=409).json["scimType"] == "uniqueness"
    for operation, kind in (({"op": "remove"}, "noTarget"), ({"op": "remove", "path": "userName"}, "mutability"), ({"op": "move", "path": "active"}, "invalidSyntax"),
                            ({"op": "replace", "path": "king", "value": 1}, "invalidPath"), ({"op": "replace", "path": "active", "value": "perhaps"}, "invalidValue"),
                            ({"op": "replace", "path": "members", "value": []}, "invalidPath"), ({"op": "add", "path": "active"}, "invalidValue")):
        assert patch(ben, operation, expect=400).json["scimType"] == kind, operation
    assert scim("PUT", ben, {"schemas": [USER], "userName": "ben", "externalId": "id-of-ben"}, If_Match='"1"').status == 412
    version = scim("GET", ben).json["meta"]["version"]
    assert scim("PUT", ben, {"schemas": [USER], "userName": "ben", "externalId": "id-of-ben"}, If_Match="W/" + version, expect=200).json["userName"] == "ben"
    assert patch(ben, *[{"op": "replace", "path": "userName", "value": "ben"}] * 1001, expect=400).json["scimType"] == "tooMany"


# ---- Tokens ----

def only_provisioned_persons_come_in():
    for who in (people["ann"], people["ben"]):
        admin.api("POST", "/bindings", {"issuer": issuer.url, "subject": who["externalId"], "role": "consumer", "scope": "main"})
    people["token"] = token_of("ann").json["access_token"]
    for gateway in (0, 1):
        wait_until(lambda: works(people["token"], gateway) == 200, 10, "a gateway does not know the person")
        assert token_of("stranger", gateway).status == 400 and token_of("ann", gateway).status == 200
    direct = server.client().call("GET", "/v2/", headers={"Authorization": "Bearer " + issuer.token(sub="id-of-ann")})
    assert direct.status == 401 and "/token only" in direct["WWW-Authenticate"], direct["WWW-Authenticate"]


def reviewed(name):
    return [row for row in admin.api("GET", "/access/review?limit=200")["roles"] if row["name"] == name]


def deactivated_means_out():
    """At each gateway within a second: the token that was made before, and new ones. Then it is active again, with its rights."""
    ann, seconds = people["ann"], []
    for gateway in (0, 1):
        token = token_of("ann").json["access_token"]
        assert works(token, 0) == works(token, 1) == 200
        began = time.monotonic()
        assert deactivate(ann, gateway=gateway, expect=200).json["active"] is False
        asked = time.monotonic()
        for other in (0, 1):
            wait_until(lambda: works(token, other) == 401, 10, "a token of a person that has left still works")
        seconds.append(time.monotonic() - asked)
        assert seconds[-1] < SECONDS, seconds
        assert all(token_of("ann", other).status == 400 for other in (0, 1))
        assert {row["deactivated"] for row in reviewed("id-of-ann")} == {True}
        asked_why = {"issuer": issuer.url, "subject": "id-of-ann", "action": "project.read", "resource": "main/models"}
        assert "(SCIM)" in json.dumps(admin.api("POST", "/authz/explain", asked_why)["changes"])
        refused = log_in(("oidc", issuer.token(sub="id-of-ann")), code=4)
        assert "has deactivated this person: ask who keeps the directory" in refused and "sijil login" not in refused, refused
        assert patch("/Users/" + ann["id"], {"op": "replace", "value": {"active": "True"}}, expect=200).json["active"] is True
        wait_until(lambda: token_of("ann", 1).status == 200, 10, "a person that is active again does not come in")
        print(f"deactivated at gateway {gateway}: answered after {asked - began:.3f} s, out everywhere {seconds[-1]:.3f} s later")
    assert {row["deactivated"] for row in reviewed("id-of-ann")} == {False}
    assert works(people["token"], 0) == 200
    assert len(events("scim.end")) == 2 and all(ann["id"] in json.dumps(each) for each in events("scim.end"))


def each_gateway_knows_a_person_at_once():
    """Made at one gateway and deactivated or deleted at another one, before that has read the rights again: an answer 404 would say that nobody has to leave."""
    for number in range(8):
        made = provision(f"short{number}", active=False)
        assert patch("/Users/" + made["id"], {"op": "replace", "path": "displayName", "value": "S"}, gateway=1).status == 200, number
        scim("DELETE", "/Users/" + made["id"], gateway=1, expect=204)


def a_running_download_ends():
    """A body that is under way is cut off, at the other gateway too."""
    pusher = server.client(make_robot(server, "pusher", "publisher", "main"))
    where = pusher.repository("main/models/big")
    digest = where.push_blob(os.urandom(48 << 20))
    token = Client(server, None, server.ports[1]).exchange(issuer.token(sub="id-of-ann"), "repository:main/models/big:pull").json["access_token"]
    link = Client(server, None, server.ports[1]).connection()
    link.request("GET", f"/v2/main/models/big/blobs/{digest}", headers={"Authorization": "Bearer " + token})
    answer = link.getresponse()
    assert answer.status == 200
    got = len(answer.read(1 << 20))
    assert deactivate(people["ann"], expect=200)
    asked, ended = time.monotonic(), None
    try:
        while True:
            piece = answer.read(1 << 16)
            got += len(piece)
            if not piece:
                break
            time.sleep(0.01)  # a slow reader: the body takes about eight seconds
    except OSError as error:
        ended = error
    except sijil_test.http.client.HTTPException as error:
        ended = error
    took = time.monotonic() - asked
    assert got < 48 << 20 and took < SECONDS + 1, (got, took, ended)
    print(f"a download that was under way ended {took:.3f} s after the deactivation")
    patch("/Users/" + people["ann"]["id"], {"op": "replace", "path": "active", "value": True}, expect=200)


# ---- Groups ----

def roles_of(name, gateway=1):
    token = token_of(name, gateway)
    assert token.status == 200, token.body
    answer = Client(server, None, server.ports[gateway]).call("GET", "/api/v1/self", headers={"Authorization": "Bearer " + token.json["access_token"]})
    return sorted((each["role"], each["scope"], each.get("document")) for each in answer.json["roles"])


def groups_get_roles_by_documents():
    ann, ben = people["ann"], people["ben"]
    made = scim("POST", "/Groups", {"schemas": [GROUP], "displayName": "Data scientists", "externalId": "group-7", "members": [{"value": ann["id"]}]}, expect=201).json
    people["group"] = made
    direct = [("consumer", "main", None)]
    assert roles_of("ann") == direct
    draft("groups", "of-scim", issuer=issuer.url, claim="scim", grant=[{"group": "group-7", "role": "publisher", "on": "main/models"}])
    untrusted = draft("groups", "elsewhere", issuer="https://other.example", claim="/groups", grant=[{"group": "g", "role": "consumer", "on": "main"}])
    assert "https://other.example is not trusted" in untrusted and "is not trusted" not in draft("groups", "of-scim-too", issuer=issuer.url, claim="scim", grant=[
        {"group": "group-8", "role": "consumer", "on": "main"}]), untrusted
    assert "no officer" in draft("groups", "officers", code=1, issuer=issuer.url, claim="scim", grant=[{"group": "group-7", "role": "security-officer", "on": "main"}])
    more = [("consumer", "main", None), ("publisher", "main/models", "of-scim")]
    wait_until(lambda: roles_of("ann") == more, 10, "a document gives no role")
    assert roles_of("ben") == direct
    shown = [(each["origin"], each.get("document"), each.get("granted_by")) for each in admin.api("GET", "/access/review?scope=main")["roles"] if each["role"] == "publisher"]
    explained = admin.api("POST", "/authz/explain", {"issuer": issuer.url, "subject": "id-of-ann", "action": "manifest.push", "resource": "main/models/x"})
    assert ("group", "of-scim", None) in shown and ("group", "of-scim") in [(each["origin"], each.get("document")) for each in explained["roles"]], (shown, explained)
    place = "/Groups/" + made["id"]
    patch(place, {"op": "add", "path": "members", "value": [{"value": ben["id"], "display": "Ben"}]}, expect=200)
    wait_until(lambda: roles_of("ben") == more, 10, "a new member has no role")
    changed = patch(place, {"op": "Remove", "path": f'members[value eq "{ann["id"]}"]'}, {"op": "replace", "path": "displayName", "value": "Scientists"}, expect=200).json
    assert [each["value"] for each in changed["members"]] == [ben["id"]] and changed["displayName"] == "Scientists", changed
    wait_until(lambda: roles_of("ann") == direct, 10, "a person that has left a group has its role still")
    assert roles_of("ben") == more
    assert scim("PUT", place, {"schemas": [GROUP], "displayName": "All", "members": [{"value": ann["id"]}, {"value": ben["id"]}]}, expect=200).json["externalId"] == "group-7"
    wait_until(lambda: roles_of("ann") == more, 10, "a member has no role")
    for text in ('displayName eq "all"', 'externalId eq "group-7"', f'id eq "{made["id"]}" and members eq "{ben["id"]}"', f'members[value eq "{ann["id"]}"]'):
        assert [each["id"] for each in scim("GET", "/Groups?" + urllib.parse.urlencode({"filter": text}), expect=200).json["Resources"]] == [made["id"]], text
    assert "members" not in scim("GET", "/Groups?excludedAttributes=members", expect=200).json["Resources"][0]


def bad_groups_are_refused():
    place, nobody = "/Groups/" + people["group"]["id"], "0" * 8 + "-0000-4000-8000-" + "0" * 12
    for body, status, kind in (({"displayName": "x", "members": [{"value": nobody}]}, 400, "invalidValue"), ({"displayName": "x", "members": [{"value": "ann"}]}, 400, "invalidValue"),
                               ({"displayName": "x", "members": [{"value": nobody, "type": "Group"}]}, 400, "invalidValue"), ({"members": []}, 400, "invalidValue"),
                               ({"displayName": "x", "externalId": "group-7"}, 409, "uniqueness"), ({"displayName": "x", "userName": "y"}, 400, "invalidPath"),
                               ({"displayName": "x", "members": [{"value": nobody}] * 10001}, 400, "tooMany")):
        assert scim("POST", "/Groups", {"schemas": [GROUP], **body}, expect=status).json["scimType"] == kind, body
    assert patch(place, {"op": "replace", "path": "externalId", "value": "group-8"}, expect=400).json["scimType"] == "mutability"
    assert scim("POST", "/Groups", {"schemas": [GROUP], "displayName": "x", "members": "x" * (1 << 20)}).status in (400, 413)
    unnamed = scim("POST", "/Groups", {"schemas": [GROUP], "displayName": "unnamed"}, expect=201).json
    set_once = {"op": "add", "path": "externalId", "value": "group-9"}
    assert patch("/Groups/" + unnamed["id"], {**set_once, "value": "group-7"}, expect=409).json["scimType"] == "uniqueness"
    assert patch("/Groups/" + unnamed["id"], set_once, expect=200).json["externalId"] == "group-9"
    assert patch("/Groups/" + unnamed["id"], {**set_once, "value": "group-10"}, expect=400).json["scimType"] == "mutability"
    scim("DELETE", "/Groups/" + unnamed["id"], expect=204)
    deep = '{"schemas":' + "[" * 40 + "]" * 40 + "}"
    answer = server.client().call("POST", "/scim/v2/Users", deep, {"Authorization": "Basic " + basic(CLIENT)})
    assert answer.status in (400, 413), answer.body


# ---- The end ----

def a_person_that_comes_back_is_the_same_by_its_id_alone():
    """Deleted and made again: with the same externalId it has its rights again, with the same name and another one it has nothing."""
    ben, place = people["ben"], "/Users/" + people["ben"]["id"]
    scim("DELETE", place, If_Match='"999"', expect=412)
    scim("DELETE", place, expect=204)
    scim("GET", place, expect=404)
    wait_until(lambda: token_of("ben", 1).status == 400, 10, "a person that was deleted comes in")
    assert ben["id"] not in json.dumps(scim("GET", "/Groups/" + people["group"]["id"]).json)
    assert sql("SELECT count(*) FROM scim_name JOIN scim_user USING (person) WHERE external_id = 'id-of-ben'") == "0"
    other = scim("POST", "/Users", {"schemas": [USER], "userName": "ben", "externalId": "id-of-another"}, expect=201).json
    wait_until(lambda: token_of("another", 1).status == 200, 10, "the new person does not come in")
    assert roles_of("another") == [] and token_of("ben", 1).status == 400
    scim("DELETE", "/Users/" + other["id"], expect=204)
    again = scim("POST", "/Users", {"schemas": [USER], "userName": "ben", "externalId": "id-of-ben"}, expect=201).json
    assert again["id"] != ben["id"]
    wait_until(lambda: token_of("ben", 1).status == 200, 10, "the person does not come back")
    assert roles_of("ben") == [("consumer", "main", None)]  # without the group, which it has left
    people["ben"] = again


def approver(who, other):
    """Enrolled by another person with the root: nobody is behind the administrator's robot."""
    login = sijil_test.make_person(server, who, "registry-admin", "")
    me = server.client(login).api("GET", "/self")
    key = Key("ext:" + hashlib.sha256(f"{me['issuer']}\n{me['name']}".encode()).hexdigest(), "approve")
    document = key.document()
    drafted, root = signing_keys.sign(document, key.path), signing_keys.sign(document, ROOT)
    server.client(login).api("POST", "/keys/signing", drafted)
    other.api("POST", f"/keys/signing/{key.name}/approval", {"envelopes": [drafted, root]})
    return server.client(login), key


def mass_deactivation_stops():
    """At the bound, until two persons have signed another version of the document."""
    ended = int(sql("SELECT count(*) FROM scim_user WHERE ended_at IS NOT NULL"))
    many = [provision(f"many{number}") for number in range(BOUND + 2)]
    assert ended == 3, ended  # ann, ben and the other one
    deactivate(many[0], expect=200)
    refused = deactivate(many[1], gateway=1, expect=403)
    assert "until two approvers sign another version" in refused.json["detail"], refused.body
    scim("DELETE", "/Users/" + many[1]["id"], expect=403)
    assert token_of("many1").status == 200
    failed = [each for each in events("scim.end") if "failed" in json.dumps(each)]
    assert len(failed) == 3, failed  # these two, and one with another version
    gus = server.client(sijil_test.make_person(server, "gus", "registry-admin", ""))
    (one, one_key), (two, two_key) = approver("eve", gus), approver("fay", gus)
    version = sijil("admin", "scim", "show", at, "bank", "--json")["document"]["version"]
    now = time.time()
    document = signing_keys.canonical({"schema": "sijil.document/v1", "kind": "scim-service", "scope": "", "name": "bank", "version": version + 1,
                                       "effective_from": signing_keys.utc(now), "expires": signing_keys.utc(now + 86400),
                                       "body": {"issuer": issuer.url, "claim": "/sub", "client": "robot:" + robot["id"], "deactivations": BOUND}})
    envelopes = [signing_keys.sign(document, key.path, "application/vnd.sijil.scim-service.v1+json") for key in (one_key, two_key)]
    one.api("POST", "/scim", envelopes[0])
    deactivate(many[1], expect=403)  # one signature confirms nothing
    two.api("POST", "/scim/bank/approval", {"envelopes": envelopes})
    deactivate(many[1], expect=200)
    for each in many[2:BOUND + 1]:
        deactivate(each, expect=200)
    deactivate(many[BOUND + 1], expect=403)


def who_was_let_in_is_not_made_inactive_beyond_the_bound():
    """Where others are admitted, a person that is made inactive is one that could come in until now."""
    stranger = {"schemas": [USER], "userName": "stranger", "externalId": "id-of-stranger", "active": False}
    service(others="admit", deactivations=1)
    wait_until(lambda: token_of("stranger", 1).status == 200, 10, "others are not admitted")
    scim("POST", "/Users", {**stranger, "userName": "lost", "externalId": "id-of-lost"}, expect=201)
    refused = scim("POST", "/Users", stranger, expect=403)
    assert "until two approvers sign another version" in refused.json["detail"], refused.body
    assert token_of("stranger", 1).status == 200
    scim("POST", "/Users", {**stranger, "active": True}, expect=201)
    service()


def fsck():
    """What sijil-verify finds in a dump of now."""
    wait_until(lambda: sql("SELECT s.indexed = l.size AND EXISTS (SELECT FROM audit_checkpoint c WHERE c.size = l.size) FROM audit_log l, audit_search s")
               == "t", 60, "the log does not come to rest")
    with open(os.path.join(folder.name, "dump-database"), "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(f"host={server.database_at} user=scim_dumper dbname=sijil_template\n")
    path = os.path.join(folder.name, "log.dump")
    subprocess.run([sijil_test.program("sijil-audit-dump"), "--database=" + file.name, "--output=" + path], check=True, capture_output=True, timeout=120)
    vkey = auditor.api("GET", "/audit/key")["vkey"]
    done = subprocess.run([sijil_test.program("sijil-verify"), "fsck", "--json", "--key", vkey, path], capture_output=True, text=True, timeout=120)
    os.remove(path)
    return json.loads(done.stdout)


def rows_wrong():
    """What the verifier of the first gateway has found."""
    text = server.client().call("GET", "/metrics").body.decode()
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith("sijil_audit_rows_wrong ")))


def is_found_by_the_service(back, counts):
    wait_until(lambda: counts(rows_wrong()), 90, "the service has not found it")
    sql(back)
    wait_until(lambda: rows_wrong() == 0, 90, "the service still finds it")


def an_edit_of_who_is_in_a_group_is_found():
    """By fsck, and those of the two kinds of rows by the running service, which compares with the same code: a member whom somebody added, one whom somebody removed, one who was called a person that has gone, a group that nobody made."""
    sql("CREATE ROLE scim_dumper LOGIN; GRANT CONNECT ON DATABASE sijil_template TO scim_dumper; SET ROLE sijil_owner; SELECT grant_audit_dump('scim_dumper'); RESET ROLE")
    group, ann = people["group"]["id"], people["ann"]["id"]
    assert sql(f"SELECT count(*) FROM scim_past_member WHERE group_id = '{group}'") == "1", "ben was deleted, and is a member no more"
    found = fsck()
    assert found["found"] == {} and found["groups"] == int(sql("SELECT count(*) FROM scim_group")) > 0, found
    wait_until(lambda: rows_wrong() == 0, 90, "the service finds something where nothing is wrong")
    intruder = sql(f"SELECT person FROM scim_user WHERE NOT is_deleted AND person NOT IN (SELECT person FROM scim_member WHERE group_id = '{group}') LIMIT 1")
    left = sql(f"SELECT person FROM scim_user WHERE user_id = '{ann}'")
    add, remove = (f"INSERT INTO scim_member (group_id, person) VALUES ('{group}', {{0}})", f"DELETE FROM scim_member WHERE group_id = '{group}' AND person = {{0}}")
    named = sql(f"SELECT coalesce(quote_literal(external_id), 'NULL') FROM scim_group WHERE group_id = '{group}'")
    rename = f"UPDATE scim_group SET external_id = {{}} WHERE group_id = '{group}'"  # its members would have the roles of another group
    gone = f"scim_past_member (group_id, user_id) VALUES ('{group}', '{ann}')"
    for by_service, edit, back, what in (
            (True, add.format(intruder), remove.format(intruder), f"it left other members in the group {group}, or another externalId, than are stored"),
            (False, rename.format("'another'"), rename.format(named), f"it left other members in the group {group}, or another externalId"),
            (False, remove.format(left), add.format(left), f"it left other members in the group {group}"),
            (False, remove.format(left) + "; INSERT INTO " + gone, add.format(left) + f"; DELETE FROM scim_past_member WHERE user_id = '{ann}'", f"it left other members in the group {group}"),
            (True, "INSERT INTO scim_group (group_id, issuer, display_name) VALUES ('00000000-0000-4000-8000-000000000002', 'https://id.bank.example', 'forged')",
             "DELETE FROM scim_group WHERE display_name = 'forged'", "no event has made it")):
        sql(edit)
        found = fsck()["first"]
        assert [each["kind"] for each in found] == ["group of SCIM"] and what in found[0]["what"], (what, found)
        if by_service:
            is_found_by_the_service(back, lambda wrong: wrong == 1)
        else:
            sql(back)
    assert fsck()["found"] == {}


def roles_by_groups(name):
    """As the snapshot of a gateway has them now."""
    sql("SELECT raise_authorization_epoch()")
    return sorted(row["scope"] for row in reviewed(name) if row["origin"] == "group")


def an_edit_of_who_a_person_is_gives_nothing_and_is_found():
    """By fsck, and one of each kind by the running service: an externalId that somebody else has now, a subject of tokens that nobody joined, one that names an event which does not tell it, one that is gone, also of a person that was made again."""
    ann = people["ann"]["id"]
    found = fsck()
    assert found["found"] == {} and found["untold"] == 0 and found["links"] == int(sql("SELECT count(*) FROM scim_subject")) > 4, found
    made = next(each for each in events("scim.create") if f"#{ann} " in each["res"])["res"].split(" ")
    assert [word.split("=")[0] for word in made[1:4]] == ["active", "as", "link"] and len(made) == 5, made
    wait_until(lambda: rows_wrong() == 0, 90, "the service finds something where nothing is wrong")
    wait_until(lambda: roles_by_groups("id-of-ann") == ["main/models"], 10, "a person whom the log tells has no role")
    person = f"(SELECT person FROM scim_user WHERE user_id = '{ann}')"
    join = "INSERT INTO scim_subject (issuer, subject, person, told) SELECT issuer, 'id-of-intruder', person, {} FROM scim_user WHERE user_id = '" + ann + "'"
    part = "DELETE FROM scim_subject WHERE subject = 'id-of-intruder'"
    again = f"(SELECT person FROM scim_user WHERE user_id = '{people['ben']['id']}')"  # made again: the events that tell its subject have another id
    sql(f"CREATE TABLE kept AS SELECT issuer, subject, person, salt, told FROM scim_subject WHERE person IN ({person}, {again})")
    made_again = f"(SELECT max(seq) FROM audit_entry WHERE action = 'scim.create' AND position('#{people['ben']['id']} '::bytea IN leaf) > 0)"
    assert sql(f"SELECT count(*) > 0 AND max(told) < {made_again} FROM kept WHERE person = {again}") == "t"
    for by_service, edit, back, what in (
            (True, f"UPDATE scim_user SET external_id = 'id-of-intruder' WHERE user_id = '{ann}'", f"UPDATE scim_user SET external_id = 'id-of-ann' WHERE user_id = '{ann}'",
             f"it left the person {ann} with another externalId than is stored"),
            (True, join.format("NULL"), part, f"a subject of tokens of the person {ann} is stored, and no event tells it"),
            (False, join.format("told"), part, f"a subject of tokens of the person {ann} is stored, and no event tells it"),
            (False, f"UPDATE scim_subject SET subject = 'id-of-intruder' WHERE person = {person}", f"UPDATE scim_subject SET subject = 'id-of-ann' WHERE person = {person}",
             "the subject of tokens that it joins with a person is not stored so"),
            (False, f"DELETE FROM scim_subject WHERE person = {person}", f"INSERT INTO scim_subject (issuer, subject, person, salt, told) SELECT * FROM kept WHERE person = {person}",
             "the subject of tokens that it joins with a person is not stored so"),
            (True, f"DELETE FROM scim_subject WHERE person = {again}", f"INSERT INTO scim_subject (issuer, subject, person, salt, told) SELECT * FROM kept WHERE person = {again}",
             "the subject of tokens that it joins with a person is not stored so")):
        sql(edit)
        assert roles_by_groups("id-of-intruder") == [], edit
        found = fsck()["first"]
        assert {each["kind"] for each in found} == {"person of SCIM"} and any(what in each["what"] for each in found), (what, found)
        if by_service:
            is_found_by_the_service(back, lambda wrong: wrong > 0)
        else:
            sql(back)
    sql("DROP TABLE kept")
    wait_until(lambda: roles_by_groups("id-of-ann") == ["main/models"], 10, "the person has lost its role")


def a_row_of_an_earlier_version_is_told_by_the_next_token():
    """Until then it gives no role by a group. A person whose externalId somebody has changed is joined with nobody."""
    ann = people["ann"]["id"]
    of_ann = f"WHERE person = (SELECT person FROM scim_user WHERE user_id = '{ann}')"
    sql(f"UPDATE scim_user SET told = NULL {of_ann}; UPDATE scim_subject SET told = NULL {of_ann}")
    assert roles_by_groups("id-of-ann") == [] and works(people["token"], 0) in (200, 401)
    wait_until(lambda: token_of("ann").status == 200 and roles_by_groups("id-of-ann") == ["main/models"], 10, "a token tells nothing")
    told = next(each for each in events("token.mint") if f" person={ann} " in each["res"])["res"]
    assert sql(f"SELECT told FROM scim_subject {of_ann}") == sql(f"SELECT told FROM scim_user {of_ann}") and " as=" in told and " link=" in told, told
    assert fsck()["found"] == {}
    sql(f"UPDATE scim_user SET external_id = 'id-of-thief' {of_ann}; SELECT raise_authorization_epoch()")
    wait_until(lambda: "the log tells another externalId" in token_of("thief").body.decode(), 10, "a thief is joined with the row of another person")
    # Who removes the number of the event, too, makes no row of an earlier version of it.
    sql(f"UPDATE scim_user SET told = NULL {of_ann}; UPDATE scim_subject SET told = NULL {of_ann}; SELECT raise_authorization_epoch()")
    wait_until(lambda: "the log tells another externalId" in token_of("thief").body.decode(), 10, "a thief is joined with a row that names no event")
    sql(f"UPDATE scim_user SET external_id = 'id-of-ann' {of_ann}; SELECT raise_authorization_epoch()")
    wait_until(lambda: token_of("ann").status == 200 and roles_by_groups("id-of-ann") == ["main/models"], 10, "the person does not come in")
    assert fsck()["found"] == {}


def a_first_token_joins_its_subject_with_the_person():
    """Also where nobody else comes in: who has been provisioned, and whose tokens have another subject than its externalId. The next one that names another person is refused."""
    service(claim="/oid")
    cyd = provision("cyd")["id"]
    wait_until(lambda: token_of("cyd", sub="subject-of-cyd", oid="id-of-cyd").status == 200, 10, "a provisioned person does not come in")
    told = next(each for each in events("token.mint") if f" person={cyd} " in each["res"])
    assert told["out"] == "allowed" and sql(f"SELECT s.told = {told['seq']} FROM scim_subject s JOIN scim_user u USING (person) WHERE u.user_id = '{cyd}'") == "t", told
    assert token_of("cyd", 1, sub="subject-of-cyd", oid="id-of-ann").status == 400 and token_of("cyd", 1, sub="another", oid="id-of-nobody").status == 400
    assert fsck()["found"] == {}
    service()


def no_row_of_the_past_keeps_a_person_from_leaving():
    leaver = provision("leaver")
    group = scim("POST", "/Groups", {"schemas": [GROUP], "displayName": "leavers", "members": [{"value": leaver["id"]}]}, expect=201).json["id"]
    sql(f"INSERT INTO scim_past_member (group_id, user_id) VALUES ('{group}', '{leaver['id']}')")
    scim("DELETE", f"/Users/{leaver['id']}", expect=204)
    scim("DELETE", f"/Groups/{group}", expect=204)
    assert fsck()["found"] == {}


def an_edit_is_found_behind_the_next_event():
    """Whoever changes rows before the program changes the group: its event says what the members were. A row that an erasure takes away is no such edit."""
    passing = provision("passing")
    group = scim("POST", "/Groups", {"schemas": [GROUP], "displayName": "passing", "members": [{"value": passing["id"]}]}, expect=201).json["id"]
    sql(f"CREATE TABLE kept AS SELECT * FROM scim_user WHERE user_id = '{passing['id']}'; CREATE TABLE kept_subject AS SELECT issuer, subject, person, salt, told FROM scim_subject"
        f" WHERE person = (SELECT person FROM kept); DELETE FROM scim_user WHERE user_id = '{passing['id']}'")
    assert [each["kind"] for each in fsck()["first"]] == ["person of SCIM"] * 2  # itself, and the subject of its tokens
    scim("DELETE", "/Groups/" + group, expect=204)
    sql("INSERT INTO scim_user OVERRIDING SYSTEM VALUE TABLE kept; INSERT INTO scim_subject (issuer, subject, person, salt, told) TABLE kept_subject; DROP TABLE kept, kept_subject")
    assert fsck()["found"] == {}
    group = scim("POST", "/Groups", {"schemas": [GROUP], "displayName": "kept", "members": [{"value": people["ann"]["id"]}]}, expect=201).json["id"]
    sql(f"INSERT INTO scim_member (group_id, person) SELECT '{group}', person FROM scim_user WHERE user_id = '{passing['id']}'")
    patch("/Groups/" + group, {"op": "replace", "path": "displayName", "value": "other"}, expect=200)
    found = fsck()["first"]
    assert [each["kind"] for each in found] == ["group of SCIM"] and f"before it the group {group} had other members, or another externalId, than entry" in found[0]["what"], found
    wait_until(lambda: rows_wrong() == 1, 90, "the service has not found it behind the next event")
    sql(f"UPDATE scim_user SET external_id = 'id-of-thief', told = NULL WHERE user_id = '{passing['id']}'")
    patch("/Users/" + passing["id"], {"op": "replace", "path": "displayName", "value": "other"}, expect=200)
    told = [each["res"] for each in events("scim.change") if f"#{passing['id']} active " in each["res"]]
    assert len(told) == 1 and " as=" not in told[0], told  # no event of the directory tells who the row says it is
    assert sql(f"SELECT told IS NULL FROM scim_user WHERE user_id = '{passing['id']}'") == "t"


def an_edit_of_who_may_come_in_is_found():
    """By fsck; a person that was let in again, one that nobody provisioned, one that is gone, and one that somebody shut out."""
    found = fsck()
    assert found["found"] == {} and found["persons"] == int(sql("SELECT count(*) FROM scim_user")) > 4, found
    out = sql("SELECT user_id FROM scim_user WHERE NOT active AND NOT is_deleted LIMIT 1")
    inside = sql("SELECT user_id FROM scim_user WHERE active LIMIT 1")
    gone = sql("SELECT user_id FROM scim_user WHERE is_deleted LIMIT 1")
    assert out and inside and gone, (out, inside, gone)
    told = next(each for each in events("scim.end") if each["out"] == "allowed")["res"].split(" ")
    assert told[1] in ("inactive", "deleted") and told[2].startswith("as=") and len(told) == 4, told
    for edit, back, what in (
            (f"UPDATE scim_user SET active = true WHERE user_id = '{out}'", f"UPDATE scim_user SET active = false WHERE user_id = '{out}'", f"it left the person {out} inactive, and the row says active"),
            (f"UPDATE scim_user SET active = false WHERE user_id = '{inside}'", f"UPDATE scim_user SET active = true WHERE user_id = '{inside}'", f"it left the person {inside} active, and the row says inactive"),
            (f"UPDATE scim_user SET is_deleted = false WHERE user_id = '{gone}'", f"UPDATE scim_user SET is_deleted = true WHERE user_id = '{gone}'", f"it left the person {gone} deleted"),
            ("INSERT INTO scim_user (user_id, issuer, external_id, active) VALUES ('00000000-0000-4000-8000-000000000001', 'https://id.bank.example', 'intruder', true)",
             "DELETE FROM scim_user WHERE external_id = 'intruder'", "no event has made it"),
            (f"CREATE TABLE kept AS SELECT * FROM scim_user WHERE user_id = '{out}'; UPDATE scim_user SET user_id = gen_random_uuid() WHERE user_id = '{out}'",
             f"UPDATE scim_user SET user_id = '{out}' WHERE person = (SELECT person FROM kept); DROP TABLE kept", "is not stored, and no event has erased it")):
        sql(edit)
        found = fsck()["first"]
        if "kept" in edit:  # a row that nobody made, and one that is gone
            wait_until(lambda: rows_wrong() == 2, 90, "the service has not found it")
        sql(back)
        assert any(each["kind"] == "person of SCIM" and what in each["what"] for each in found), (what, found)
    assert fsck()["found"] == {}


def an_edit_of_a_role_or_a_secret_is_found_and_believed_no_longer():
    """By the running service, in one round: the subject of a role, its end, a secret of a robot, one that it seems to have had before. Restoring the row is not enough: its owner takes the doubt away."""
    found = make_robot(server, "doubted", "auditor", "")
    name, first = found
    ident = sql(f"SELECT robot_id FROM robot WHERE name = '{name}' AND revoked_at IS NULL")
    rotate = lambda: admin.call("POST", f"/api/v1/robots/{ident}/secret", json.dumps({"grace_seconds": 3600}), {"Content-Type": "application/json", "Idempotency-Key": key}, scope="registry:admin:*")
    key = str(uuid.uuid4())
    second = rotate().json["secret"]
    assert rotate().status == 409, "the client's second try: nothing is done again, and its event tells no secret"
    role = admin.api("POST", "/bindings", {"issuer": issuer.url, "subject": "id-of-ann", "role": "auditor", "scope": "main", "expires_days": 1})["id"]
    told = next(each for each in events("binding.create") if f" {role} " in each["res"])["res"].split(" ")
    assert told[3].startswith("as=") and told[4] == "for=86400", told
    assert [f"{ident} secret=" in each["res"] and " for=" in each["res"] for each in events("robot.rotate") if ident in each["res"]].count(True) == 1
    sql(f"UPDATE binding SET expires_at = expires_at - interval '10 minutes' WHERE binding_id = '{role}'")  # as of a log whose clock was ahead: it ends before what its event tells, and gives no more
    wait_until(lambda: rows_wrong() == 0, 90, "the service finds something where nothing is wrong")
    has_role = lambda who: any(row["role"] == "auditor" and row["scope"] == "main" for row in reviewed("id-of-" + who))
    comes_in = lambda secret: server.client((name, secret)).call("GET", "/token", headers={"Authorization": "Basic " + basic((name, secret))}).status == 200
    a_binding, a_robot = f"WHERE binding_id = '{role}'", f"WHERE robot_id = '{ident}'"
    third = hashlib.sha256(b"sijil_intruder").hexdigest()
    for table, edit, back, believed in (
            ("binding", f"SET subject = 'id-of-thief' {a_binding}", f"SET subject = 'id-of-ann' {a_binding}", lambda: has_role("thief")),
            ("binding", f"SET expires_at = expires_at + interval '30 days' {a_binding}", f"SET expires_at = expires_at - interval '30 days' {a_binding}", lambda: has_role("ann")),
            ("robot", f"SET secret_hash = '\\x{third}', kept = secret_hash {a_robot}", f"SET secret_hash = kept {a_robot}", lambda: comes_in("sijil_intruder")),
            ("robot", f"SET expires_at = expires_at + interval '1 day', secret_since = secret_since + interval '1 day' {a_robot}",
             f"SET expires_at = expires_at - interval '1 day', secret_since = secret_since - interval '1 day' {a_robot}", lambda: comes_in(first)),
            ("robot", f"SET previous_hash = '\\x{third}', kept = previous_hash {a_robot}", f"SET previous_hash = kept {a_robot}", lambda: comes_in("sijil_intruder"))):
        has_holes = "previous_hash" in edit  # without an index of searches the verifier looks into the log itself: roles come before robots, and none of them is doubted
        if has_holes:
            sql("DELETE FROM audit_post")
        sql(f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS kept bytea; UPDATE {table} {edit}; SELECT raise_authorization_epoch()")
        back = f"UPDATE {table} {back}; SELECT raise_authorization_epoch()"
        if has_holes:
            wait_until(lambda: sql("SELECT count(*) FROM doubted_row") != "0", 90, "a hole in the index hides it")
            back += "; TRUNCATE audit_post, audit_blind; UPDATE audit_search SET indexed = 0"
        is_found_by_the_service(back, lambda wrong: wrong > 0 if has_holes else wrong == 1)
        assert sql("SELECT count(*) FROM doubted_row") == "1" and not believed(), edit
        event, about = sql("SELECT told || ' ' || id FROM doubted_row").split()
        shown = auditor.api("GET", f"/audit/events/{event}")["entry"]
        assert shown["act"] == "right.doubt" and shown["res"].endswith(f"#{table} {about}") and about == (role if table == "binding" else ident), shown
        assert not has_role("ann") if table == "binding" else not comes_in(second), "a row that was doubted counts again by itself"
        sql("DELETE FROM doubted_row; SELECT raise_authorization_epoch()")
    wait_until(lambda: has_role("ann") and comes_in(second) and comes_in(first), 10, "a row that is as it was gives nothing")
    for what, number, why in ((str(uuid.uuid4()), event, "no role and no robot"), (role, event, "this event does not doubt it"), (ident, "0", "this event does not doubt it")):
        try:
            sql(f"SET ROLE sijil_app; SELECT doubt_row('{what}', {number})")
            assert False, what
        except AssertionError as refused:
            assert why in str(refused), refused
        finally:
            sql("RESET ROLE")
    sql("ALTER TABLE binding DROP COLUMN kept; ALTER TABLE robot DROP COLUMN kept")
    admin.api("DELETE", "/bindings/" + role)
    admin.api("DELETE", "/robots/" + ident)
    sql(f"UPDATE robot SET revoked_at = NULL {a_robot}; SELECT raise_authorization_epoch()")
    is_found_by_the_service(f"UPDATE robot SET revoked_at = now() {a_robot}; SELECT raise_authorization_epoch()", lambda wrong: wrong == 1)
    assert sql("DELETE FROM doubted_row RETURNING id") == ident, "a robot that was revoked comes in again"


def a_repeat_of_a_grant_gives_nothing():
    """Its event has no id of a role, as those of a first start. Nobody puts a row beside it, also where only fsck looks."""
    wanted = json.dumps({"issuer": issuer.url, "subject": "id-of-ann", "role": "auditor", "scope": "main"})
    headers = {"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())}
    role, again = (admin.call("POST", "/api/v1/bindings", wanted, headers, scope="registry:admin:*").json["id"] for _ in range(2))
    assert role == again
    columns = "issuer, role, organisation_id, granted_by, giver, giver_issuer"
    sql(f"INSERT INTO binding (binding_id, subject, {columns}) SELECT gen_random_uuid(), 'id-of-thief', {columns} FROM binding WHERE binding_id = '{role}'")
    found = fsck()["found"]
    sql("DELETE FROM binding WHERE subject = 'id-of-thief'; DELETE FROM doubted_row")
    assert found != {}, "fsck takes the repeat for a grant"
    admin.api("DELETE", "/bindings/" + role)


def who_is_doubted_is_no_administrator_that_is_left():
    make_robot(server, "spare", "registry-admin", "")
    mine = sql(f"SELECT binding_id FROM binding b JOIN robot r USING (robot_id) WHERE r.name = '{server.admin[0]}' AND role = 'registry-admin' AND b.revoked_at IS NULL")
    sql(f"INSERT INTO doubted_row (id) SELECT binding_id FROM binding WHERE role = 'registry-admin' AND revoked_at IS NULL AND binding_id <> '{mine}'; SELECT raise_authorization_epoch()")
    assert sql("SELECT count(*) > 0 FROM doubted_row") == "t"
    assert "last registry-admin" in admin.api("DELETE", "/bindings/" + mine, expect=(409,))["detail"]
    sql("DELETE FROM doubted_row; SELECT raise_authorization_epoch()")


def beside_an_officer_who_is_doubted_nobody_appoints_the_first_one():
    """Else whoever has a row doubted is rid of the only officer, and appoints another one alone."""
    wanted = {"issuer": issuer.url, "role": "security-officer", "scope": "main"}
    officer = admin.api("POST", "/bindings", {**wanted, "subject": "id-of-ann"})["id"]
    sql(f"INSERT INTO doubted_row (id) VALUES ('{officer}'); SELECT raise_authorization_epoch()")
    assert "counts no longer" in admin.api("POST", "/bindings", {**wanted, "subject": "id-of-cleo"}, expect=(409,))["detail"]
    sql("DELETE FROM doubted_row; SELECT raise_authorization_epoch()")
    assert "both" in json.dumps(admin.api("POST", "/bindings", {**wanted, "subject": "id-of-cleo"}, expect=(403,))).lower(), "the first one counts again"
    admin.api("DELETE", "/bindings/" + officer)


def a_person_is_erased():
    """Its names go with its key, and so does its row."""
    holdings = sql("SELECT count(*) FROM scim_name n JOIN audit_subject s ON s.id = n.subject")
    assert int(holdings) > 0
    sql("DELETE FROM audit_subject WHERE id IN (SELECT subject FROM scim_name n JOIN scim_user u USING (person) WHERE external_id = 'id-of-many0')")
    left = scim("GET", '/Users?' + urllib.parse.urlencode({"filter": 'externalId eq "id-of-many0"'}), expect=200).json["Resources"][0]
    assert left["userName"] == "id-of-many0", left


def out_stays_out_without_the_document():
    """A withdrawal ends provisioning, and lets persons in that nobody has provisioned; those that were deactivated stay out."""
    sijil("admin", "scim", "revoke", at, "bank", "--reason", "a test", "--key", ROOT)
    scim("GET", "/Users", expect=403)
    wait_until(lambda: token_of("nobody", 1).status == 200, 10, "the document decides still")
    assert token_of("many1", 1).status == 400 and token_of("ann", 1).status == 200
    assert roles_of("ann") == [("consumer", "main", None)]  # no group of SCIM counts any more


if __name__ == "__main__":
    run(nobody_provisions_without_a_document, a_document_names_no_mail, only_the_named_client_provisions, nobody_gets_the_directory_by_another_secret, a_person_is_provisioned, no_name_is_in_the_database,
        persons_are_found, a_person_is_changed, only_provisioned_persons_come_in, deactivated_means_out, each_gateway_knows_a_person_at_once, a_running_download_ends, groups_get_roles_by_documents,
        bad_groups_are_refused, a_person_that_comes_back_is_the_same_by_its_id_alone, mass_deactivation_stops,
        who_was_let_in_is_not_made_inactive_beyond_the_bound, an_edit_of_who_is_in_a_group_is_found, an_edit_of_who_may_come_in_is_found,
        an_edit_of_who_a_person_is_gives_nothing_and_is_found, a_row_of_an_earlier_version_is_told_by_the_next_token, a_first_token_joins_its_subject_with_the_person, no_row_of_the_past_keeps_a_person_from_leaving, an_edit_of_a_role_or_a_secret_is_found_and_believed_no_longer, a_repeat_of_a_grant_gives_nothing, who_is_doubted_is_no_administrator_that_is_left, beside_an_officer_who_is_doubted_nobody_appoints_the_first_one, an_edit_is_found_behind_the_next_event, a_person_is_erased,
        out_stays_out_without_the_document, server=server)
