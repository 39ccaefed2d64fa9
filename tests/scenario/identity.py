"""Logging in, tokens, robots and bindings, against a whole server."""
import base64
import concurrent.futures
import hashlib
import http.client
import json
import os
import re
import socket
import ssl
import subprocess
import time
import urllib.parse

import description

from sijil_test import Issuer, Server, make_person, make_robot, program, run, sha256, wait_until

server = Server().start()
admin = server.client(server.admin)
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
JWT = "urn:ietf:params:oauth:token-type:jwt"


def basic(login):
    return {"Authorization": "Basic " + base64.b64encode(":".join(login).encode()).decode()}


def claims(token):
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def form(**fields):
    return urllib.parse.urlencode(fields)


def refused(answer, status, error):
    assert (answer.status, answer.json["error"]) == (status, error), (answer.status, answer.body)
    assert answer["Cache-Control"] == "no-store"


def api(login, method, path, document=None):
    return server.client(login).call(method, "/api/v1" + path, None if document is None else json.dumps(document),
                                     {"Content-Type": "application/json"}, scope="registry:admin:*")


def every_endpoint_challenges_the_same():
    digest = sha256(b"x")
    make_robot(server, "challenge", "publisher", "main/models")
    for method, path, scope in (
            ("GET", "/v2/", None), ("GET", "/v2/main/models/a/manifests/v1", "repository:main/models/a:pull"),
            ("GET", "/v2/nobody/knows/this/manifests/v1", "repository:nobody/knows/this:pull"),
            ("POST", "/v2/main/models/a/blobs/uploads/", "repository:main/models/a:pull,push"),
            ("DELETE", "/v2/main/models/a/manifests/v1", "repository:main/models/a:delete"),
            ("POST", f"/v2/main/models/a/blobs/uploads/?mount={digest}&from=main/models/b",
             "repository:main/models/a:pull,push repository:main/models/b:pull"),
            ("GET", "/api/v1/robots", "registry:admin:*"), ("POST", "/api/v1/robots", "registry:admin:*"),
            ("POST", "/api/v1/bindings", "registry:admin:*"), ("POST", "/api/v1/organisations", "registry:admin:*")):
        answer = admin.call(method, path, body=b"{}" if path.startswith("/api") and method == "POST" else None)
        wanted = f'Bearer realm="https://127.0.0.1:{server.port}/token",service="sijil"'
        wanted += f',scope="{scope}"' if scope else ""
        assert answer.status == 401, (path, answer.status, answer.body)
        assert answer["WWW-Authenticate"] == wanted, (path, answer["WWW-Authenticate"])


def the_realm_is_where_the_client_came():
    """The challenge has the allowed name that the client used, because the client may not reach, or not trust, another name."""
    ours = f"https://127.0.0.1:{server.port}"
    for host, wanted in ((f"localhost:{server.port}", f"https://localhost:{server.port}"), (f"LOCALHOST:{server.port}", f"https://localhost:{server.port}"),
                         ("localhost", "https://localhost"), ("localhost:9443", "https://localhost:9443"), ("[::1]:9443", "https://[::1]:9443"),
                         ("127.0.0.1:1", "https://127.0.0.1:1"), (f"{socket.gethostname()}:1", f"https://{socket.gethostname().lower()}:1"),
                         ("other.example", ours), (f"localhost.other.example:{server.port}", ours), (f"localhost:{server.port}@other.example", ours),
                         ("localhost:0", ours), ("localhost:70000", ours), ("localhost:", ours), ("", ours)):
        answer = admin.call("GET", "/v2/", headers={"Host": host, "X-Forwarded-Host": "other.example"})
        assert answer.status == 401 and answer["WWW-Authenticate"] == f'Bearer realm="{wanted}/token",service="sijil"', (host, answer["WWW-Authenticate"])
    login = make_robot(server, "elsewhere", "consumer", "main/models")  # its token is valid under every name
    answer = server.client(login).call("GET", "/token", headers={**basic(login), "Host": f"localhost:{server.port}"})
    bearer = {"Authorization": "Bearer " + answer.json["token"]}
    assert claims(answer.json["token"])["iss"] == ours and claims(answer.json["token"])["aud"] == "sijil"
    assert {admin.call("GET", "/v2/", headers={**bearer, "Host": host}).status for host in ("localhost", f"127.0.0.1:{server.port}")} == {200}


def a_secret_comes_with_each_request():
    """python-oras and many scripts never fetch a token. Such a request is decided like one with a token, and is refused for administrators."""
    login, data = make_robot(server, "scripted", "publisher", "main/models"), os.urandom(70000)
    every, base = basic(login), "/v2/main/models/scripted/"

    def call(method, path, body=None, **more):
        return admin.call(method, path, body, {**every, **more})
    assert {call("GET", path).status for path in ("/v2/", "/v2")} == {200}
    location = call("POST", base + "blobs/uploads/")["Location"]
    location = call("PATCH", location, data)["Location"]
    assert call("PUT", f"{location}?digest={sha256(data)}").status == 201
    repository = server.client(login).repository("main/models/scripted")
    manifest = repository.manifest(data)
    assert call("PUT", base + "manifests/v1", manifest, **{"Content-Type": "application/vnd.oci.image.manifest.v1+json"}).status == 201
    assert call("GET", base + "manifests/v1").body == manifest and call("GET", base + "blobs/" + sha256(data)).body == data
    assert "main/models/scripted" in call("GET", "/v2/_catalog").json["repositories"]
    begun = repository.begin()  # with a token of the same login, so in the same session
    assert call("PATCH", begun, data).status == 202 and call("DELETE", begun).status == 204
    assert call("GET", "/v2/main/other/x/manifests/v1").status == 404  # no more than its roles
    reader = basic(make_robot(server, "reads-by-script", "consumer", "main/models"))
    assert admin.call("GET", base + "manifests/v1", headers=reader).body == manifest
    answer = admin.call("POST", base + "blobs/uploads/", headers=reader)
    assert answer.status == 403 and answer.codes == ["DENIED"], answer.body
    for name, secret, path in ((login[0], login[1] + "x", "/v2/"), ("robot$main+nobody", login[1], "/v2/"), ("oidc", login[1], "/v2/"),
                               (*server.admin, "/v2/"), (*login, "/api/v1/projects"), (*server.admin, "/api/v1/projects")):
        answer = admin.call("GET", path, headers=basic((name, secret)))
        assert answer.status == 401 and answer["WWW-Authenticate"].startswith("Bearer realm="), (name, path, answer.status)
        assert 'error="invalid_token"' in answer["WWW-Authenticate"] and secret not in answer.body.decode(), answer["WWW-Authenticate"]
    robot = next(each for each in admin.api("GET", "/robots")["robots"] if each["name"] == login[0])
    binding = admin.api("POST", "/bindings", {"robot": robot["id"], "role": "project-admin", "scope": "main/models"})
    assert call("GET", "/v2/").status == 401  # it governs others now
    admin.api("DELETE", "/bindings/" + binding["id"])
    assert call("GET", "/v2/").status == 200
    admin.api("DELETE", "/robots/" + robot["id"])
    assert call("GET", "/v2/").status == 401


def a_token_says_what_it_is_for():
    login = make_robot(server, "reader", "consumer", "main/models")
    answer = server.client(login).call("GET", "/token?" + urllib.parse.urlencode(
        [("service", "sijil"), ("scope", "repository:main/models/a:pull,push"), ("scope", "repository:main/other/b:pull"),
         ("scope", "repository:localhost:5000/x:pull registry:catalog:*"), ("account", login[0])]), headers=basic(login))
    assert answer.status == 200 and answer["Cache-Control"] == "no-store", answer.body
    assert answer.json["token"] == answer.json["access_token"]
    assert answer.json["scope"] == "repository:main/models/a:pull registry:catalog:*", answer.json["scope"]
    assert answer.json["expires_in"] == 300 and "refresh_token" not in answer.json
    said = claims(answer.json["token"])
    assert said["access"] == [{"type": "repository", "name": "main/models/a", "actions": ["pull"]}], said
    assert said["aud"] == "sijil" and said["exp"] - said["iat"] == 300 and said["sub"].startswith("robot:")
    assert login[0] not in json.dumps(said) and login[1] not in json.dumps(said)


def a_repository_has_its_id_in_the_token():
    login = make_robot(server, "pusher", "publisher", "main/models")
    repository = server.client(login).repository("main/models/with-id")
    repository.push_blob(b"bytes")
    deadline = time.monotonic() + 20
    while True:
        said = claims(repository.client.token("repository:main/models/with-id:pull", fresh=True))
        if "id" in said["access"][0] or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    assert len(said["access"][0]["id"]) == 36, said


def too_little_is_asked_for_again():
    login = make_robot(server, "short", "publisher", "main/models")
    client = server.client(login)
    answer = client.call("GET", "/v2/main/models/a/tags/list", scope="repository:main/models/b:pull")
    assert answer.status == 401 and 'error="insufficient_scope"' in answer["WWW-Authenticate"]
    assert 'scope="repository:main/models/a:pull"' in answer["WWW-Authenticate"]
    answer = client.call("POST", "/v2/main/models/b/blobs/uploads/", scope="repository:main/models/b:pull")
    assert answer.status == 401 and 'error="insufficient_scope"' in answer["WWW-Authenticate"]
    assert client.call("GET", "/api/v1/robots", scope="repository:main/models/b:pull").status == 401


def wrong_secrets_are_refused():
    name, secret = server.admin
    for login in ((name, secret + "x"), (name, "x"), ("robot$nobody", secret), ("alice", "password"), ("oidc", "a.b.c"),
                  ("oauth2accesstoken", "eyJhbGciOiJFUzI1NiJ9.AAAAA===.AAAA")):
        answer = admin.call("GET", "/token", headers=basic(login))
        refused(answer, 401, "invalid_client")
        assert answer["WWW-Authenticate"].startswith("Basic ") and secret not in answer.body.decode()
    refused(admin.call("GET", "/token"), 401, "invalid_client")
    refused(admin.call("GET", "/token", headers={"Authorization": "Basic !!!"}), 400, "invalid_request")
    refused(admin.call("GET", "/token?scope=" + urllib.parse.quote('repository:a":pull'), headers=basic(server.admin)),
            400, "invalid_scope")
    many = " ".join(f"repository:main/models/r{i}:pull" for i in range(17))
    refused(admin.call("GET", "/token?scope=" + urllib.parse.quote(many), headers=basic(server.admin)), 400, "invalid_scope")
    refused(admin.call("GET", "/token?service=another", headers=basic(server.admin)), 400, "invalid_request")
    target = admin.call("GET", "/token?audience=another", headers=basic(server.admin))
    refused(target, 400, "invalid_target")  # RFC 8693, 2.2.2
    assert "audience must be sijil" in target.body.decode(), target.body
    assert admin.call("GET", "/v2/", headers=basic(server.admin)).status == 401  # only at /token


def tokens_by_post():
    name, secret = server.admin
    good = form(grant_type="password", username=name, password=secret, service="sijil", scope="registry:admin:*",
                client_id="docker", access_type="offline")
    answer = admin.call("POST", "/token", good, FORM)
    assert answer.status == 200 and answer.json["token_type"] == "Bearer", answer.body
    chunked = admin.call("POST", "/token", iter([good[:20].encode(), good[20:].encode()]), FORM, encode_chunked=True)
    assert chunked.status == 200, chunked.body
    answer = admin.call("POST", "/token", form(grant_type="client_credentials"), {**FORM, **basic(server.admin)})
    assert answer.status == 200, answer.body
    escaped = [urllib.parse.quote_plus(part, safe="") for part in (name, secret)]  # as OAuth's clients write Basic (RFC 6749, 2.3.1)
    assert escaped[0] == "robot%24admin", escaped
    posted = {"grant_type": "client_credentials", "client_id": name}
    for sent, login in ((form(grant_type="client_credentials"), basic(escaped)), (form(**posted, client_secret=secret), {})):
        answer = admin.call("POST", "/token", sent, {**FORM, **login})
        assert answer.status == 200, answer.body
    for wrong in (secret + "x", secret.replace("_", "%5F"), escaped[0]):
        refused(admin.call("POST", "/token", form(**posted, client_secret=wrong), FORM), 401, "invalid_client")
    refused(admin.call("POST", "/token", form(**posted, client_secret=secret), {**FORM, **basic(server.admin)}), 400, "invalid_request")
    refused(admin.call("POST", "/token", form(grant_type="password", username=name, password="x"), FORM), 401, "invalid_client")
    refused(admin.call("POST", "/token", form(grant_type="password", username=name), FORM), 400, "invalid_request")
    refused(admin.call("POST", "/token", form(grant_type="refresh_token", refresh_token="x"), FORM), 400, "unsupported_grant_type")
    refused(admin.call("POST", "/token", good + "&password=x", FORM), 400, "invalid_request")
    refused(admin.call("POST", "/token", good, {**FORM, **basic(server.admin)}), 400, "invalid_request")
    refused(admin.call("POST", "/token", json.dumps({"a": 1}), {"Content-Type": "application/json"}), 400, "invalid_request")
    refused(admin.call("POST", "/token?scope=x", good, FORM), 400, "invalid_request")
    assert admin.call("POST", "/token", "a=" + "x" * 70000, FORM).status == 413


def exchanges_are_strict():
    own = admin.token("registry:admin:*")
    for fields, status, error in (
            ({"subject_token": own}, 400, "invalid_request"),
            ({"subject_token": own, "subject_token_type": "urn:ietf:params:oauth:token-type:saml2"}, 400, "invalid_request"),
            ({"subject_token": own, "subject_token_type": JWT, "actor_token": "x"}, 400, "invalid_request"),
            ({"subject_token": own, "subject_token_type": JWT}, 400, "invalid_grant"),  # no token is made from a token
            ({"subject_token": "eyJhbGciOiJFUzI1NiJ9.AAAAA===.AAAA", "subject_token_type": JWT}, 400, "invalid_grant"),
            ({"subject_token": "https://issuer/jwks", "subject_token_type": JWT}, 400, "invalid_grant")):
        refused(admin.call("POST", "/token", form(grant_type=EXCHANGE, **fields), FORM), status, error)


def hostile_tokens_do_no_harm():
    good = admin.token("registry:admin:*")
    head, body, signature = good.split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none","kid":"x"}').rstrip(b"=").decode()
    nested = base64.urlsafe_b64encode(b"[" * 9000).rstrip(b"=").decode()
    for token in ("eyJhbGciOiJFUzI1NiJ9.AAAAA===.AAAA", good + "=", good + "==", good + "A", good + ".", f"{head}.{body}.",
                  f"{none}.{body}.", f"{none}.{body}.{signature}", f"{head}.{body}.{signature[:-4]}AAAA",
                  f"{nested}.{body}.{signature}", "x" * 12000, "....", "https://127.0.0.1/jwks"):
        answer = admin.call("GET", "/api/v1/robots", headers={"Authorization": "Bearer " + token})
        assert answer.status == 401 and 'error="invalid_token"' in answer["WWW-Authenticate"], (token[:40], answer.status)
    assert admin.call("GET", "/api/v1/robots", headers={"Authorization": "Bearer " + good}).status == 200


def what_proxies_and_browsers_say_counts_for_nothing():
    """RFC 9700, 4.13, 4.16, 4.17 and 2.6: no header takes the place of a credential, of a certificate or of the connection's address; no page of another site reads an answer."""
    forged = {"X-Forwarded-For": "203.0.113.9", "Forwarded": "for=203.0.113.9;proto=https", "X-Real-IP": "203.0.113.9", "X-Remote-User": server.admin[0], "X-Forwarded-User": server.admin[0],
              "X-SSL-Client-Cert": "-----BEGIN CERTIFICATE-----", "SSL-Client-Verify": "SUCCESS", "X-Forwarded-Client-Cert": "Hash=" + "0" * 64, "Origin": "https://evil.example",
              "Cookie": "token=" + admin.token("registry:admin:*")}
    bearer = {"Authorization": "Bearer " + admin.token("registry:admin:*")}
    for method, path, body, more, statuses in (("GET", "/api/v1/robots", None, {}, (401,)), ("GET", "/v2/", None, {}, (401,)), ("GET", "/api/v1/robots", None, bearer, (200,)),
                                               ("POST", "/token", form(grant_type="client_credentials", client_id=server.admin[0]), FORM, (400, 401)),
                                               ("GET", "/.well-known/oauth-authorization-server", None, {}, (200,))):
        answer = admin.call(method, path, body, {**forged, **more})
        assert answer.status in statuses, (method, path, answer.status, answer.body)
        for name in ("Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Set-Cookie", "Location"):
            assert answer[name] is None, (path, name, answer[name])
        assert "html" not in (answer["Content-Type"] or ""), answer["Content-Type"]
        if more is bearer:
            event = admin.api("GET", f"/audit/events/{answer['Sijil-Audit'].rpartition('/')[2]}?purpose=test")
            assert event["who"]["address"] == "127.0.0.1", event
    link = admin.connection()
    link.request("OPTIONS", "/token", headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"})
    answer = link.getresponse()
    assert answer.status == 501 and answer.getheader("Access-Control-Allow-Origin") is None, answer.status
    link.close()


def robots_are_made_listed_and_revoked():
    made = api(server.admin, "POST", "/robots", {"organisation": "main", "name": "short-lived", "expires_days": 1})
    assert made.status == 201 and made["Cache-Control"] == "no-store", made.body
    login = (made.json["name"], made.json["secret"])
    assert login[0] == "robot$main+short-lived" and login[1].startswith("sijil_") and len(login[1]) == 49
    assert api(server.admin, "POST", "/robots", {"organisation": "main", "name": "short-lived"}).status == 409
    listed = api(server.admin, "GET", "/robots?organisation=main").json["robots"]
    assert login[0] in [robot["name"] for robot in listed] and "secret" not in json.dumps(listed)
    page = api(server.admin, "GET", "/robots?limit=1")
    second = api(server.admin, "GET", "/robots?limit=1&after=" + urllib.parse.quote(page.json["next"])).json
    assert page.json["robots"][0]["name"] < second["robots"][0]["name"]
    linked = page["Link"].removeprefix("</api/v1").removesuffix('>; rel="next"')
    assert api(server.admin, "GET", linked).json == second, linked
    for body in ({"organisation": "main"}, {"name": "UPPER"}, {"name": "a", "organisation": "main", "expires_days": 91},
                 {"name": "a", "organisation": "main", "expires_days": 0}, {"name": "a", "unknown": 1}, {"name": 1}, [], "x"):
        answer = api(server.admin, "POST", "/robots", body)
        assert answer.status == 400 and answer["Content-Type"].startswith("application/problem+json"), (body, answer.body)
    assert api(server.admin, "POST", "/robots", {"organisation": "nobody", "name": "a"}).status == 404

    client = server.client(login)
    assert client.call("GET", "/v2/", scope="registry:catalog:*").status == 200
    assert api(server.admin, "DELETE", "/robots/" + made.json["id"]).status == 204
    deadline = time.monotonic() + 10  # until this gateway knows it
    while client.call("GET", "/v2/", scope="registry:catalog:*").status == 200 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert client.call("GET", "/v2/", scope="registry:catalog:*").status == 401  # the token it had is worth nothing now
    refused(client.call("GET", "/token", headers=basic(login)), 401, "invalid_client")
    assert api(server.admin, "DELETE", "/robots/" + made.json["id"]).status == 404
    assert api(server.admin, "DELETE", "/robots/nonsense").status == 404


def robot_of(login):
    """The id of a robot."""
    return next(each["id"] for each in api(server.admin, "GET", "/robots?limit=1000").json["robots"] if each["name"] == login[0])


def rotate(login, asked=None, who=None):
    return api(who or server.admin, "POST", f"/robots/{robot_of(login)}/secret", asked)


def shown(login):
    """Until when the previous secret is valid, as its administrator sees it and as its holder sees it."""
    robot = next(one for one in api(server.admin, "GET", "/robots?limit=1000").json["robots"] if one["name"] == login[0])
    own = server.client(login).call("GET", "/api/v1/self", scope="").json
    return robot.get("previous_until"), own.get("previous_until")


def a_secret_is_replaced():
    """The old secret ends together with its tokens, at once or after a grace period; roles stay."""
    old = make_robot(server, "replaced", "publisher", "main/models")
    before = server.client(old)
    assert before.call("GET", "/v2/", scope="").status == 200
    repository = before.repository("main/models/replaced")
    digest = repository.push_blob(b"bytes")
    answer = rotate(old, {"expires_days": 5})
    assert answer.status == 200 and answer["Cache-Control"] == "no-store", answer.body
    new = (answer.json["name"], answer.json["secret"])
    assert new[0] == old[0] and new[1] != old[1] and len(new[1]) == 49
    after = server.client(new)
    assert after.call("GET", "/v2/", scope="").status == 200, "a token of the very next moment counts"
    assert after.repository("main/models/replaced").call("GET", "blobs/" + digest).body == b"bytes"
    assert before.call("GET", "/v2/", scope="").status == 401, "its tokens ended with it"
    refused(before.call("GET", "/token", headers=basic(old)), 401, "invalid_client")
    assert server.client().call("GET", "/v2/main/models/replaced/blobs/" + digest, headers=basic(old)).status == 401

    assert shown(new) == (None, None), "an old secret that is not good is not shown"
    answer = rotate(new, {"grace_seconds": 3})
    newest = (answer.json["name"], answer.json["secret"])
    assert shown(newest) == (answer.json["previous_until"],) * 2
    assert server.client(newest).call("GET", "/v2/", scope="").status == 200
    assert server.client(new).call("GET", "/v2/", scope="").status == 200 and after.call("GET", "/v2/", scope="").status == 200
    refused(server.client().call("GET", "/token", headers=basic(old)), 401, "invalid_client")
    deadline = time.monotonic() + 30
    while server.client().call("GET", "/token", headers=basic(new)).status == 200 and time.monotonic() < deadline:
        time.sleep(0.1)
    refused(server.client().call("GET", "/token", headers=basic(new)), 401, "invalid_client")
    assert after.call("GET", "/v2/", scope="").status == 401
    assert server.client(newest).call("GET", "/v2/", scope="").status == 200
    assert shown(newest) == (None, None)
    for bad in ({"grace_seconds": -1}, {"grace_seconds": 604801}, {"expires_days": 91}, {"expires_days": 0}, {"x": 1}, []):
        assert rotate(old, bad).status == 400, bad
    assert server.client(newest).call("GET", "/v2/", scope="").status == 200, "what is refused replaces nothing"
    assert api(server.admin, "POST", "/robots/nonsense/secret").status == 404


def nobody_gives_a_robot_a_secret_that_is_not_seen():
    """An attacker with only the gateways' database role could add a second secret that was valid for years, without an event and in no list."""
    # The verifier of the server would doubt such a row at the end of its first round. The next one begins an hour later.
    wait_until(lambda: not re.search("^sijil_audit_verify_last_seconds 0$", server.client().call("GET", "/metrics").body.decode(), re.M), 120,
               "the first round of the verification does not end")
    login = make_robot(server, "doubled", "publisher", "main/models")
    forged = (login[0], "forged")

    def forge(until, since="secret_since"):
        server.sql(f"UPDATE robot SET previous_hash = sha256('forged'), previous_until = {until}, secret_since = {since} WHERE name = '{login[0]}'")
        server.sql(f"SELECT raise_authorization_epoch(organisation_id, true) FROM robot WHERE name = '{login[0]}'")

    def is_good():
        return server.client().call("GET", "/token", headers=basic(forged)).status == 200

    try:
        forge("now() + interval '8 days'")
    except subprocess.CalledProcessError as refusal:
        assert "robot_previous_secret_ends" in refusal.stderr, refusal.stderr
    else:
        raise AssertionError("the table took an end that no rotation sets")
    forge("now() + interval '8 days'", "now() + interval '2 days'")
    time.sleep(3)
    assert not is_good() and server.client(login).call("GET", "/v2/", scope="").status == 200
    forge("now() + interval '6 days'", "now()")
    deadline = time.monotonic() + 30
    while not is_good():  # values that a rotation could set are valid, and are shown
        assert time.monotonic() < deadline
        time.sleep(0.5)
    assert None not in shown(login)


def a_download_ends_with_the_secret_behind_it():
    """A running download is cut off when the robot's secret is replaced, as when the robot is revoked."""
    old = make_robot(server, "slow", "publisher", "main/models")
    repository = server.client(old).repository("main/models/slow")
    size = 150 << 20
    digest = repository.push_blob(bytes(size))
    link = server.client(old).connection()
    link.request("GET", f"/v2/main/models/slow/blobs/{digest}",
                 headers={"Authorization": "Bearer " + server.client(old).token("repository:main/models/slow:pull")})
    answer = link.getresponse()
    assert answer.status == 200 and len(answer.read(65536)) == 65536
    assert rotate(old).status == 200
    got = 65536
    try:
        while part := answer.read(1 << 20):
            got += len(part)
            time.sleep(0.01)
    except OSError:
        pass
    except http.client.HTTPException:
        pass
    assert got < size, "all of it came"
    link.close()


def a_secret_is_for_those_who_may_give_its_roles():
    """A caller that gets the new secret can act as the robot, so it must be allowed to give all of the robot's roles."""
    publisher = make_robot(server, "victim", "publisher", "main/models")
    boss = make_robot(server, "boss", "org-admin", "main")
    leader = make_robot(server, "leader", "project-admin", "main/models")
    officer = make_robot(server, "officer", "security-officer", "main")
    other = make_person(server, "erin", "org-admin", "main")
    for who, target, status in ((leader, publisher, 403), (publisher, leader, 403), (boss, publisher, 200), (boss, boss, 403),
                                (other, officer, 403), (server.admin, officer, 200), (boss, server.admin, 404), (boss, leader, 200)):
        answer = rotate(target, who=who)
        assert answer.status == status, (who[0], target[0], answer.status, answer.body)
    assert api(server.admin, "DELETE", "/robots/" + robot_of(officer)).status == 204
    # A row gives nobody a role that two persons must give together (docs/break-glass.md).
    glass = make_robot(server, "glass", "consumer", "main/models")
    server.sql("INSERT INTO binding (binding_id, robot_id, role, organisation_id, granted_by, approved_by, expires_at) SELECT"
               f" gen_random_uuid(), '{robot_of(glass)}', 'break-glass', organisation_id, 'one', 'two', now() + interval '50 min'"
               " FROM organisation WHERE name = 'main'; SELECT raise_authorization_epoch()")
    later = make_robot(server, "later", "consumer", "main/models")  # once its role counts, the row would, too
    assert rotate(later, who=boss).status == 200
    assert not [role for role in server.client(glass).api("GET", "/self")["roles"] if role["role"] == "break-glass"]
    assert api(server.admin, "DELETE", "/robots/" + robot_of(later)).status == 204
    assert api(server.admin, "DELETE", "/robots/" + robot_of(glass)).status == 204
    shared = api(server.admin, "POST", "/robots", {"name": "shared"}).json
    api(server.admin, "POST", "/bindings", {"robot": shared["id"], "role": "publisher", "scope": "main/models"})
    assert api(boss, "POST", f"/robots/{shared['id']}/secret").status == 404, "a robot of the registry"
    me = api(server.admin, "POST", f"/robots/{robot_of(server.admin)}/secret")
    assert me.status == 403 and me.json["rule"] == "SYS-SELF-GRANT", me.body
    absent = api(boss, "POST", "/robots/00000000-0000-4000-8000-000000000000/secret")
    hidden = api(boss, "POST", f"/robots/{shared['id']}/secret")
    assert {**absent.json, "instance": 0} == {**hidden.json, "instance": 0}


def a_credential_tells_who_it_is():
    login = make_robot(server, "self", "publisher", "main/models")
    admin.api("POST", "/bindings", {"robot": login[0], "role": "consumer", "scope": "main", "expires_days": 2})

    def self_of(client):
        answer = client.call("GET", "/api/v1/self", scope="")
        assert answer.status == 200 and answer["Cache-Control"] == "no-store", answer.body
        return answer.json
    told = self_of(server.client(login))
    assert (told["kind"], told["name"], told["id"]) == ("robot", login[0], robot_of(login)), told
    assert sorted((role["role"], role["scope"], "expires" in role) for role in told["roles"]) == \
        [("consumer", "main", True), ("publisher", "main/models", True)], told
    assert told["token_expires"] and told["secret_expires"] > told["token_expires"] and not told["has_more"]
    rows = admin.api("GET", "/bindings?scope=main/models")["bindings"]
    taken, = [row for row in rows if row.get("robot") == login[0]]
    admin.api("DELETE", "/bindings/" + taken["id"])
    assert [role["role"] for role in self_of(server.client(login))["roles"]] == ["consumer"], "what it has now"
    mine, = [role for role in self_of(admin)["roles"] if role["role"] == "registry-admin"]
    assert (mine["scope"], mine["origin"], mine["granted_by"]) == ("", "binding", "system"), mine
    assert [role["binding"] for role in told["roles"] if role["role"] == "publisher"] == \
        [row["id"] for row in rows if row.get("robot") == login[0] and row["role"] == "publisher"], told
    assert server.client().call("GET", "/api/v1/self").status == 401
    assert server.client(login).call("GET", "/api/v1/self?of=" + server.admin[0], scope="").status == 400


def a_right_that_is_taken_during_an_upload_is_gone_at_its_end():
    login = make_robot(server, "interrupted", "publisher", "main/models")
    repository = server.client(login).repository("main/models/interrupted")
    repository.push_blob(b"so that the repository is there")
    binding, = [row for row in admin.api("GET", "/bindings?scope=main/models")["bindings"] if row.get("robot") == login[0]]
    data = os.urandom(3 << 20)

    def halves():
        yield data[:1 << 20]
        time.sleep(1)
        admin.api("DELETE", f"/bindings/{binding['id']}")
        yield data[1 << 20:]

    try:
        answer = repository.call("PUT", repository.begin() + "?digest=" + sha256(data), halves(),
                                 {"Content-Type": "application/octet-stream", "Content-Length": str(len(data))}, connection=admin.connection())
        assert answer.status == 404, (answer.status, answer.body)  # the same answer as to all callers without a role there
    except (ssl.SSLError, ConnectionError):
        pass  # it is decided again while the rest comes, and the connection ended before all was sent
    admin.api("POST", "/bindings", {"robot": login[0], "role": "publisher", "scope": "main/models"})
    assert repository.call("HEAD", f"blobs/{sha256(data)}").status == 404


def roles_are_given_and_taken():
    name, secret = make_robot(server, "bound", "consumer", "main/models/a")
    robot = next(r for r in api(server.admin, "GET", "/robots?organisation=main").json["robots"] if r["name"] == name)
    for scope in ("main/models", "main/models/team/*"):
        answer = api(server.admin, "POST", "/bindings", {"robot": name, "role": "publisher", "scope": scope, "expires_days": 30})
        assert answer.status == 201 and answer.json["scope"] == scope and answer.json["robot"] == name, answer.body
        assert answer.json["expires"] > "2026"
    assert api(server.admin, "POST", "/bindings", {"robot": robot["id"], "role": "publisher", "scope": "main/models"}).status == 409
    external = api(server.admin, "POST", "/bindings", {"issuer": "https://ci.example", "subject": "repo:acme/train",
                                                       "role": "consumer", "scope": "main/models"})
    assert external.status == 201 and external.json["subject"] == "repo:acme/train", external.body
    for body, status in (({"robot": robot["id"], "role": "owner", "scope": "main"}, 400),
                         ({"robot": robot["id"], "role": "publisher", "scope": "a//b"}, 400),
                         ({"robot": robot["id"], "role": "publisher", "scope": "main/*"}, 400),
                         ({"robot": robot["id"], "issuer": "x", "subject": "y", "role": "publisher", "scope": "main"}, 400),
                         ({"issuer": "https://x", "role": "publisher", "scope": "main"}, 400),
                         *(({"issuer": issuer, "subject": "y", "role": "consumer", "scope": "main/models"}, 400)
                           for issuer in ("", "ci.example", "http://ci.example", "https://CI.example", "https://ci.example/a b",
                                          "https://ci.example\n", "https://me@ci.example", "https://ci.example/?x", "https://")),
                         *(({"issuer": "https://ci.example", "subject": subject, "role": "consumer", "scope": "main/models"}, 400)
                           for subject in ("", "a\nb", "a\x7f", "s" * 256)),
                         *(({"robot": robot["id"], "role": "publisher", "scope": scope}, 400)
                           for scope in ("main/models/..", "main/models/-a", "main/models/a-", "main/models/a..b/*", "main/models/A",
                                         "main/models/a b", "main/models/*/a", "main/models/" + "a" * 300, "main/..", "/main")),
                         ({"robot": robot["id"], "role": "publisher", "scope": "main/gone"}, 404),
                         ({"robot": robot["id"], "role": "publisher", "scope": "gone/gone/x"}, 404),
                         ({"robot": "robot$gone", "role": "publisher", "scope": "main/models"}, 404),
                         ({"robot": robot["id"], "role": "break-glass", "scope": "main/models"}, 403),
                         ({"robot": robot["id"], "role": "registry-admin", "scope": "main"}, 403)):
        answer = api(server.admin, "POST", "/bindings", body)
        if status == 400:
            assert answer.status == 400 and answer.json["detail"], (body, answer.status, answer.body)
        assert answer.status == status, (body, answer.status, answer.body)
    binding = next(b for b in api(server.admin, "GET", "/bindings?scope=main/models&limit=1000").json["bindings"]
                   if b.get("robot") == name and b["scope"] == "main/models")
    assert api(server.admin, "DELETE", "/bindings/" + binding["id"]).status == 204
    assert api(server.admin, "DELETE", "/bindings/" + binding["id"]).status in (403, 404)
    deadline = time.monotonic() + 10
    client = server.client((name, secret))
    while "push" in json.dumps(claims(client.token("repository:main/models/b:push", fresh=True)).get("access")):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def who_may_grant_does_not_grant_himself_or_beyond():
    chief = make_robot(server, "chief", "org-admin", "main")
    lead = make_robot(server, "lead", "project-admin", "main/models")
    other = make_robot(server, "somebody", "consumer", "main/models/z")
    answer = api(lead, "POST", "/bindings", {"robot": lead[0], "role": "publisher", "scope": "main/models"})
    assert answer.status == 403 and answer.json["rule"] == "SYS-SELF-GRANT", answer.body
    answer = api(lead, "POST", "/bindings", {"robot": other[0], "role": "project-admin", "scope": "main/models"})
    assert answer.status == 403 and answer.json["rule"] == "SYS-GRANT", answer.body
    answer = api(lead, "POST", "/bindings", {"robot": other[0], "role": "publisher", "scope": "main"})
    assert answer.status == 403, answer.body
    assert api(lead, "POST", "/bindings", {"robot": other[0], "role": "publisher", "scope": "main/models"}).status == 201
    assert api(lead, "POST", "/robots", {"organisation": "main", "name": "x"}).status == 403
    assert api(other, "GET", "/bindings?scope=main/models").status == 403

    assert admin.api("POST", "/organisations", {"name": "beta"})
    make = {"organisation": "beta", "name": "ci"}
    assert api(chief, "POST", "/robots", make).status == 404  # the caller does not learn that beta exists
    assert api(chief, "POST", "/robots", {**make, "organisation": "gamma"}).status == 404
    assert api(chief, "GET", "/robots").status == 403
    assert api(chief, "GET", "/robots?organisation=main").status == 200
    foreign = admin.api("POST", "/robots", make)
    assert api(chief, "DELETE", "/robots/" + foreign["id"]).status == 404
    assert api(chief, "POST", "/bindings", {"robot": foreign["name"], "role": "publisher", "scope": "main/models"}).status == 404

    officer, second = make_robot(server, "o1", "consumer", "main/models/z"), make_robot(server, "o2", "consumer", "main/models/z")
    assert api(chief, "POST", "/bindings", {"robot": officer[0], "role": "security-officer", "scope": "main"}).status == 201
    answer = api(chief, "POST", "/bindings", {"robot": second[0], "role": "security-officer", "scope": "main"})
    assert answer.status == 403 and answer.json["rule"] == "SYS-BOTH-OFFICERS", answer.body
    answer = api(server.admin, "POST", "/bindings", {"robot": second[0], "role": "security-officer", "scope": "main"})
    assert answer.status == 403 and answer.json["rule"] == "SYS-BOTH-OFFICERS", answer.body  # the chief counts as the person who made it
    assert api(officer, "GET", "/robots").status == 403


def two_officers_are_two_persons():
    """Two robots of one administrator appointed one officer each, so one person had both secrets."""
    admin.api("POST", "/organisations", {"name": "guarded"})
    officers = [make_robot(server, name, "auditor", "guarded", "guarded")[0] for name in ("o1", "o2")]
    chiefs = [make_robot(server, name, "org-admin", "guarded", "guarded") for name in ("c1", "c2")]
    bob = make_person(server, "bob", "org-admin", "guarded")

    def appoint(who, **whom):
        return api(who, "POST", "/bindings", {**whom, "role": "security-officer", "scope": "guarded"})
    assert appoint(chiefs[0], robot=officers[0]).status == 201
    for who, whom in ((chiefs[1], officers[1]), (server.admin, officers[1]), (bob, officers[1])):
        answer = appoint(who, robot=whom)
        assert answer.status == 403 and answer.json["rule"] == "SYS-BOTH-OFFICERS", (who[0], answer.body)
    assert admin.api("DELETE", "/robots/" + robot_of(chiefs[0])) is None  # the chief's maker still counts as the same person
    assert appoint(server.admin, robot=officers[1]).status == 403
    assert appoint(bob, issuer=server.people.url, subject="bob").status == 403  # for the caller's own person
    mine = api(bob, "POST", "/robots", {"organisation": "guarded", "name": "of-bob"}).json
    assert appoint((mine["name"], mine["secret"]), robot=officers[1]).status in (401, 403)  # it has no role
    assert appoint(bob, robot=mine["name"]).status == 201
    persons = [server.client(who).call("GET", "/api/v1/self", scope="").json["person"]
               for who in (server.admin, chiefs[1], bob, (mine["name"], mine["secret"]))]
    assert persons[0] == persons[1] == "administrator" and persons[2] == persons[3] and persons[2].startswith("ext:"), persons
    rotated = api(chiefs[1], "POST", f"/robots/{mine['id']}/secret")
    assert rotated.status == 403, rotated.body  # the secret of an officer whom bob appointed


def a_ci_job_needs_no_stored_secret():
    issuer = Issuer("https://token.actions.example", f"https://127.0.0.1:{server.port}")
    subject = "repo:acme/train:ref:refs/heads/main"
    trust = {"url": issuer.url, "algorithms": ["ES256"], "jwks": issuer.jwks, "lifetime_max": 900}
    token = issuer.token()
    push = "repository:main/models/ci:pull,push"
    exchange = form(grant_type=EXCHANGE, subject_token=token, subject_token_type=JWT, scope=push)
    refused(admin.call("POST", "/token", exchange, FORM), 400, "invalid_grant")  # the issuer is not trusted yet
    for body in ({**trust, "algorithms": ["HS256"]}, {**trust, "algorithms": []}, {**trust, "jwks": {"keys": []}}, {**trust, "url": "http://x"},
                 {**trust, "lifetime_max": 90000}, {**trust, "jwks": "x"}, {"url": "https://x"}, {**trust, "more": 1}):
        assert api(server.admin, "POST", "/issuers", body).status == 400, body
    nameless = {"keys": [{name: value for name, value in key.items() if name != "kid"} for key in issuer.jwks["keys"]]}
    answer = api(server.admin, "POST", "/issuers", {**trust, "jwks": nameless})
    assert answer.status == 400 and "has a kid of 1 to" in answer.json["detail"], answer.body
    own = f"https://127.0.0.1:{server.port}"
    for url in ("https://", "https:// x", "https://x /a", "https://x/a b", "https://x\n", "https://x/\u00a0", "https://x?a", "https://x/#a",
                "https://u@x", "https://:1", "https://X.example", " https://x", own, own + "/", own.replace("https", "HTTPS")):
        answer = api(server.admin, "POST", "/issuers", {**trust, "url": url})
        assert answer.status == 400, (url, answer.status)
    made = api(server.admin, "POST", "/issuers", trust)
    assert made.status == 201 and made.json["audience"] == f"https://127.0.0.1:{server.port}", made.body
    assert api(server.admin, "POST", "/issuers", trust).json["id"] == made.json["id"]
    assert issuer.url in [i["url"] for i in api(server.admin, "GET", "/issuers").json["issuers"]]
    assert api(server.admin, "POST", "/bindings", {"issuer": issuer.url, "subject": subject, "role": "publisher",
                                                   "scope": "main/models/ci"}).status == 201
    deadline = time.monotonic() + 10
    while admin.call("POST", "/token", exchange, FORM).json.get("scope") != push and time.monotonic() < deadline:
        time.sleep(0.05)
    answer = admin.call("POST", "/token", exchange, FORM)
    assert answer.status == 200 and answer.json["scope"] == push, answer.body
    assert answer.json["issued_token_type"] == "urn:ietf:params:oauth:token-type:access_token"
    for authorization in ("Bearer " + answer.json["access_token"], "Bearer " + token):  # our token, or the issuer's unchanged
        assert admin.call("POST", "/v2/main/models/ci/blobs/uploads/", headers={"Authorization": authorization}).status == 202
        assert admin.call("POST", "/v2/main/models/other/blobs/uploads/", headers={"Authorization": authorization}).status in (401, 404)
    now, upload = time.time(), "/v2/main/models/ci/blobs/uploads/"
    for typ in ("at+jwt", "application/at+jwt", "APPLICATION/AT+JWT", "application/jwt", "JWT"):  # RFC 9068, 4; times as RFC 7519 has them
        good = issuer.token(header={"typ": typ}, iat=int(now) + 0.5, nbf=int(now) - 0.25, exp=int(now) + 600.999)
        assert admin.call("POST", upload, headers={"Authorization": "Bearer " + good}).status == 202, typ
    for claims, words in (({"x": 2**63}, "a number does not fit 64 bits"), ({"nbf": 1e300}, "nbf is no number")):
        bad = admin.call("POST", upload, headers={"Authorization": "Bearer " + issuer.token(**claims)})
        assert bad.status == 401 and words in bad["WWW-Authenticate"], (claims, bad["WWW-Authenticate"])
    short = admin.call("GET", "/token?scope=" + urllib.parse.quote(push), headers=basic(("oidc", issuer.token(exp=int(time.time()) + 60))))
    assert short.status == 200 and 50 <= short.json["expires_in"] <= 59, short.body  # never after the expiry of the source token
    for wrong in ({"aud": ["https://127.0.0.1:1"]}, {"aud": [f"https://127.0.0.1:{server.port}", "x"]}, {"exp": int(time.time()) + 1000},
                  {"exp": int(time.time()) - 1}, {"nbf": int(time.time()) + 300}, {"iss": issuer.url + "/"}, {"cnf": {"jkt": "x"}}):
        bad = admin.call("GET", "/v2/", headers={"Authorization": "Bearer " + issuer.token(**wrong)})
        assert bad.status == 401 and 'error="invalid_token"' in bad["WWW-Authenticate"], (wrong, bad.status)
    assert api(server.admin, "DELETE", "/issuers/" + made.json["id"]).status == 204
    deadline = time.monotonic() + 10
    ours = {"Authorization": "Bearer " + answer.json["access_token"]}
    while admin.call("GET", "/v2/", headers=ours).status == 200 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert admin.call("GET", "/v2/", headers=ours).status == 401
    assert admin.call("GET", "/v2/", headers={"Authorization": "Bearer " + token}).status == 401
    assert api(server.admin, "DELETE", "/issuers/" + made.json["id"]).status == 404


def a_grant_says_to_whom():
    """The event of a grant named only "external", and the event of a revocation had an id that no other event had."""
    scope, audited = "main/models/granted", lambda answer: admin.api(
        "GET", "/audit/events/" + answer["Sijil-Audit"].rsplit("/", 1)[1])
    made = api(server.admin, "POST", "/robots", {"organisation": "main", "name": "granted"})
    robot = made.json["id"]
    told = audited(made)["entry"]["res"]
    assert re.fullmatch(rf"main#robot\$main\+granted {robot} secret=[0-9a-f]{{32}} for=7776000", told), told
    given = api(server.admin, "POST", "/bindings", {"robot": robot, "role": "publisher", "scope": scope})
    told = audited(given)["entry"]["res"]
    assert re.fullmatch(rf"{scope}#publisher robot:{robot} {given.json['id']} for=\d+", told), told

    issuer = Issuer("https://people.example", f"https://127.0.0.1:{server.port}")
    trusted = api(server.admin, "POST", "/issuers", {"url": issuer.url, "algorithms": ["ES256"], "jwks": issuer.jwks})
    to_alice = {"issuer": issuer.url, "subject": "alice", "role": "consumer", "scope": scope}
    given = api(server.admin, "POST", "/bindings", to_alice)
    assert given.status == 201, given.body
    event = audited(given)
    pseudonym = event["entry"]["res"].rsplit(" ", 1)[1]
    assert re.fullmatch(rf"{scope}#consumer external {given.json['id']} as=[0-9a-f]{{32}} for=\d+ {pseudonym}", event["entry"]["res"]), event
    assert len(pseudonym) == 64 and pseudonym != event["entry"]["actor"]
    assert "alice" not in json.dumps(event) and issuer.url not in json.dumps(event)  # the granting person's data is erased with another key
    again = api(server.admin, "POST", "/bindings", to_alice)
    assert again.status == 409, again.body
    event = audited(again)["entry"]
    assert event["out"] == "failed" and event["res"].endswith(" " + pseudonym) and given.json["id"] not in event["res"]

    answer = admin.call("GET", f"/v2/{scope}/tags/list", headers={"Authorization": "Bearer " + issuer.token(sub="alice")})
    assert answer.status == 404, answer.body  # allowed, but it does not exist
    mine = admin.api("GET", f"/audit/events?key=act:{pseudonym}")["events"]
    assert [(one["entry"]["act"], one["who"]["issuer"], one["who"]["subject"]) for one in mine] == [
        ("tag.list", issuer.url, "alice")], mine
    taken = api(server.admin, "DELETE", "/bindings/" + given.json["id"])
    assert audited(taken)["entry"]["res"] == f"{scope}#{given.json['id']}"
    assert api(server.admin, "DELETE", "/issuers/" + trusted.json["id"]).status == 204


def what_was_made_is_there_at_once():
    """After a change, the same caller's next request was decided by outdated rights: 404 for the new project, 401 for the new robot."""
    for i in range(8):
        name = f"at-once-{i}"
        assert api(server.admin, "POST", "/organisations", {"name": name}).status == 201
        answer = api(server.admin, "POST", "/projects", {"organisation": name, "name": "first"})
        assert answer.status == 201, (i, answer.status, answer.body)
        robot = api(server.admin, "POST", "/robots", {"organisation": name, "name": "maker"}).json
        login = robot["name"], robot["secret"]
        assert server.client(login).token("registry:catalog:*")
        assert api(server.admin, "POST", "/bindings", {"robot": robot["id"], "role": "publisher",
                                                       "scope": f"{name}/first"}).status == 201
        server.client(login).repository(f"{name}/first/model").push_blob(b"at once")
        assert api(server.admin, "DELETE", f"/robots/{robot['id']}").status == 204
        answer = server.client(login).call("GET", "/token", headers=basic(login))
        assert answer.status == 401, (i, answer.status)


def lists_name_nothing_that_is_hidden():
    """If a page ended with another tenant's organisation or project, its cursor revealed that name."""
    login = make_robot(server, "lister", "consumer", "main/models")
    for name in ("aaa-hidden", "zzz-hidden"):
        assert api(server.admin, "POST", "/organisations", {"name": name}).status == 201
        assert api(server.admin, "POST", "/projects", {"organisation": name, "name": "hidden"}).status == 201
    for kind, own in (("organisations", set()), ("projects", {"main/models"})):
        seen, after, pages = set(), "", 0
        while after is not None:
            answer = api(login, "GET", f"/{kind}?limit=1&after={after}")
            assert answer.status == 200 and b"hidden" not in answer.body, answer.body
            seen |= {found["name"] for found in answer.json[kind]}
            after, pages = answer.json.get("next"), pages + 1
        assert pages <= 2 and own <= seen <= {"main", "main/models"}, (kind, seen, pages)


def an_administrator_has_no_content():
    repository = admin.repository("main/models/secret")
    assert claims(admin.token("repository:main/models/secret:pull,push,delete")).get("access", []) == []
    assert repository.call("GET", "tags/list").status == 401


def holds(process, secret):
    """Whether a process has these bytes anywhere in its memory."""
    with open(f"/proc/{process}/maps", encoding="utf-8") as maps, open(f"/proc/{process}/mem", "rb", 0) as memory:
        for line in maps:
            first, last = (int(part, 16) for part in line.split()[0].split("-"))
            if "r" not in line.split()[1] or last - first > 1 << 31:  # a sanitizer's shadow
                continue
            try:
                memory.seek(first)
                if secret in memory.read(last - first):
                    return True
            except (OSError, ValueError, OverflowError):  # the kernel's own pages
                continue
    return False


def the_key_process_forgets_what_opened_its_keys():
    if os.geteuid() != 0:
        return  # no other user may read it
    process, = server.processes("sijil-keyd")
    with open(server.passphrase, "rb") as file:
        passphrase = file.read().strip()
    assert holds(process, server.folder.encode())  # a value in memory is found
    assert not holds(process, passphrase)


def core_limit(process):
    with open(f"/proc/{process}/limits", encoding="ascii") as file:
        return next(line.split()[4:6] for line in file if line.startswith("Max core file size"))


def no_program_leaves_its_memory_in_a_core_file():
    if core_limit("self")[1] == "0":
        return  # no other operation may
    processes = {name: server.processes(name) for name in ("sijild", "sijil-keyd", "postgres")}
    assert len(processes["sijild"]) == 2 and all(processes.values()), processes
    for name, found in processes.items():
        assert all(core_limit(process) == ["0", "0"] for process in found), (name, found)
    client = subprocess.Popen([program("sijil"), "login", f"127.0.0.1:{server.port}", "--username", "x", "--password-stdin"],
                              stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # waits for the password
    until = time.monotonic() + 20
    while core_limit(client.pid) != ["0", "0"] and time.monotonic() < until:
        time.sleep(0.05)
    limit = core_limit(client.pid)
    client.communicate(b"")
    assert limit == ["0", "0"], limit


def the_description_is_sent_once():
    ask = server.client()
    first = ask.call("GET", "/api/v1/openapi.json")
    tag = first["ETag"]
    assert first.status == 200 and tag == '"' + hashlib.sha256(first.body).hexdigest() + '"', tag
    for method in ("GET", "HEAD"):
        again = ask.call(method, "/api/v1/openapi.json", headers={"If-None-Match": tag})
        assert again.status == 304 and not again.body and again["ETag"] == tag, (method, again.status)
    assert ask.call("GET", "/api/v1/openapi.json", headers={"If-None-Match": '"sha256:other"'}).body == first.body
    assert ask.call("GET", "/api/v1/openapi.json", headers={"If-Match": '"sha256:other"'}).status == 412


def the_last_administrator_stays():
    """Revoking the last binding of the role, or its robot, is a conflict until there is another one: nobody could give the role again."""
    mine = [one for one in api(server.admin, "GET", "/bindings").json["bindings"] if one["role"] == "registry-admin"]
    assert len(mine) == 1, mine
    robot = next(one for one in api(server.admin, "GET", "/robots").json["robots"] if one["name"] == server.admin[0])
    for path in ("/bindings/" + mine[0]["id"], "/robots/" + robot["id"]):
        answer = api(server.admin, "DELETE", path)
        assert answer.status == 409 and "last registry-admin" in answer.json["detail"], (path, answer.status, answer.body)
    second = make_robot(server, "second", "registry-admin", "")
    third = next(one for one in api(server.admin, "GET", "/bindings").json["bindings"]
                 if one["role"] == "registry-admin" and one["id"] != mine[0]["id"])
    assert api(server.admin, "DELETE", "/bindings/" + third["id"]).status == 204  # not the last one
    assert api(server.admin, "DELETE", "/bindings/" + mine[0]["id"]).status == 409 and second


if __name__ == "__main__":
    run(every_endpoint_challenges_the_same, the_realm_is_where_the_client_came, a_secret_comes_with_each_request, a_token_says_what_it_is_for, a_repository_has_its_id_in_the_token,
        too_little_is_asked_for_again, wrong_secrets_are_refused, tokens_by_post, exchanges_are_strict,
        hostile_tokens_do_no_harm, what_proxies_and_browsers_say_counts_for_nothing, robots_are_made_listed_and_revoked, a_secret_is_replaced, nobody_gives_a_robot_a_secret_that_is_not_seen, a_download_ends_with_the_secret_behind_it,
        a_secret_is_for_those_who_may_give_its_roles, a_credential_tells_who_it_is,
        a_right_that_is_taken_during_an_upload_is_gone_at_its_end, roles_are_given_and_taken,
        who_may_grant_does_not_grant_himself_or_beyond, two_officers_are_two_persons, a_ci_job_needs_no_stored_secret, a_grant_says_to_whom, what_was_made_is_there_at_once,
        lists_name_nothing_that_is_hidden, an_administrator_has_no_content,
        the_key_process_forgets_what_opened_its_keys, no_program_leaves_its_memory_in_a_core_file,
        *description.cases(server), the_description_is_sent_once, the_last_administrator_stays, server=server)
