#!/usr/bin/env python3
"""Issuers whose keys the registry fetches: they rotate, hang, lie and flood, and none costs another anything (docs/identity.md)."""
import base64
import json
import os
import pwd
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.parse

import sijil_test
from hostile_issuers import World, drips, floods, hangs, loops
from sijil_test import Server, make_robot, run, wait_until

SCOPE = "repository:main/models/digits:pull"


class Following(Server):
    """May call the issuers of this test, and nothing else."""

    def __init__(self):
        super().__init__()
        self.world = World(f"https://127.0.0.1:{self.port}")
        self.options = ["--issuer-networks", "127.0.0.1/32", "--issuer-ca-file", self.world.ca_file, "--introspection-file", self.introspection()]

    def introspection(self):
        path = os.path.join(self.world.folder.name, "introspection")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            for name in ("opaque", "opaque-hangs"):
                file.write(f"{self.world.url(name)} {self.world.url(name)}/introspect sijil a secret:\n")
        if os.geteuid() == 0:
            owner = pwd.getpwnam("sijil")
            os.chown(path, owner.pw_uid, owner.pw_gid)
        return path


server = Following().start()
world, at = server.world, f"127.0.0.1:{server.port}"
audience = "https://" + at
admin = server.client(server.admin)
home = tempfile.TemporaryDirectory()


def sijil(*words, code=0, given=""):
    done = subprocess.run([sijil_test.program("sijil"), *words], input=given + "\n", text=True, capture_output=True, timeout=120,
                          env={**os.environ, "HOME": home.name, "XDG_CONFIG_HOME": home.name, "SIJIL_CA_FILE": server.ca_file})
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout) if "--json" in words and done.stdout else done.stdout + done.stderr


def add(name, code=0, **more):
    """Adds the issuer, and returns what the registry saw."""
    url = world.behave(name, **more) if name not in world.each else world.url(name)
    return sijil("admin", "issuer", "add", at, url, "--algorithm", "ES256", "--lifetime-max", "900", "--json", code=code)


def check(name, code=0):
    return sijil("admin", "issuer", "check", at, world.url(name), "--json", code=code)


def state(name):
    return sijil("admin", "issuer", "show", at, world.url(name), "--json")


def look(name):
    """The same, without a program of its own."""
    found = next(row for row in admin.api("GET", "/issuers?limit=1000")["issuers"] if row["url"] == world.url(name))
    return admin.api("GET", "/issuers/" + found["id"])


def let_pass(name, seconds):
    """As if so much time had passed since the registry asked this issuer."""
    server.sql(f"UPDATE issuer_fetch f SET attempted_at = attempted_at - interval '{seconds} s', ended_at = ended_at - interval '{seconds} s' FROM trusted_issuer t"
               f" WHERE t.issuer_id = f.issuer_id AND t.url = '{world.url(name)}' AND f.ended_at >= f.attempted_at")


def exchange(text):
    return admin.exchange(text, SCOPE)


def is_accepted(text):
    return exchange(text).status == 200


def events(action):
    auditor = server.client(make_robot(server, f"auditor-{time.monotonic_ns()}", "auditor", ""))
    return [event["entry"] for event in auditor.api("GET", f"/audit/events?limit=100&action={action}")["events"] if event["entry"]["act"] == action]


def an_issuer_is_found_by_its_metadata():
    seen = add("good")
    assert [key["kid"] for key in seen["keys"]] == ["one"] and seen["follows"] and "problem" not in seen, seen
    assert seen["report"]["keys_url"] == world.url("good") + "/jwks", seen
    assert [call["status"] for call in seen["report"]["calls"]] == [200, 200], seen
    wait_until(lambda: is_accepted(world.token("good")), 10, "the issuer's tokens do not count")
    assert exchange(world.key("good", "other").token(header={"kid": "one"})).status == 400  # another key with this name
    table = sijil("admin", "issuer", "show", at, world.url("good"))
    assert "confirmed" in table and "openid-configuration" in table and "ALGORITHM" in table, table
    assert any(row["url"] == world.url("good") and row["follows"] for row in sijil("admin", "issuer", "list", at, "--json"))


def metadata_may_be_where_rfc_8414_has_it():
    seen = add("oauth", place="oauth")
    assert [call["status"] for call in seen["report"]["calls"]] == [404, 200, 200] and "problem" not in seen, seen
    seen = sijil("admin", "issuer", "add", at, world.behave("plain", metadata=hangs), "--algorithm", "ES256", "--keys-url", world.url("plain") + "/jwks", "--json")
    assert [call["url"] for call in seen["report"]["calls"]] == [world.url("plain") + "/jwks"], seen


def keys_rotate():
    """A token with a key that is not known has the issuer asked, but not within 30 seconds of the last time."""
    world.behave("good", keys=world.set_of("good", "one", "two"))
    refusal = exchange(world.token("good", "two"))
    assert refusal.status == 400 and "its keys are fetched again" in refusal.json["error_description"], refusal.body
    asked = world.count("/good/jwks")
    time.sleep(3)
    assert world.count("/good/jwks") == asked and not is_accepted(world.token("good", "two"))
    let_pass("good", 40)
    wait_until(lambda: is_accepted(world.token("good", "two")), 15, "the new key does not count")
    assert is_accepted(world.token("good")) and world.count("/good/jwks") == asked + 1
    made = [event for event in events("issuer.keys") if event["out"] == "allowed"]
    assert any(event["res"].startswith("#" + state("good")["id"]) and " sha256:" in event["res"] for event in made), made

    world.behave("good", keys=world.set_of("good", "two"))  # the old one is withdrawn
    let_pass("good", 40)
    check("good")
    wait_until(lambda: not is_accepted(world.token("good")), 10, "a key that was withdrawn counts")
    assert is_accepted(world.token("good", "two"))


def a_bad_answer_changes_nothing():
    """Each is refused with a reason, and the keys from before count."""
    shared = {"lies": {"metadata": world.metadata("good")},
              "plain-keys": {"metadata": world.metadata("plain-keys", jwks_uri=f"http://localhost:{world.port}/plain-keys/jwks")},
              "elsewhere": {"metadata": world.metadata("elsewhere", jwks_uri=f"https://127.0.0.2:{world.port}/elsewhere/jwks")},
              "inside": {"metadata": world.metadata("inside", jwks_uri="https://169.254.169.254/latest/meta-data")},
              "floods": {"keys": floods}, "loops": {"keys": loops}, "loops-early": {"metadata": loops}, "drips": {"keys": drips},
              "no-json": {"keys": b"<html>"}, "two-meanings": {"keys": b'{"keys":[],"keys":[]}'}, "nothing": {"keys": {"keys": []}},
              "twice": {"keys": world.set_of("twice", "one", "one")},
              "private": {"keys": {"keys": [{**world.set_of("private", "one")["keys"][0], "d": "AAAA"}]}},
              "deep": {"keys": b"[" * 100000}, "off-curve": {"keys": {"keys": [{**world.set_of("off-curve", "one")["keys"][0], "y": "A" * 43}]}},
              "many": {"keys": {"keys": [{**world.set_of("many", "one")["keys"][0], "kid": f"k{number}"} for number in range(40)]}}}
    says = {"lies": "that of another issuer", "plain-keys": "no jwks_uri that is an https URL", "elsewhere": "set issuer_networks",
            "inside": "set issuer_networks", "floods": "more than 262144 bytes", "loops": "redirects are not followed",
            "loops-early": "redirects are not followed", "drips": "", "no-json": "not JSON", "two-meanings": "twice", "nothing": "no key that is accepted",
            "twice": "the kid one twice", "private": "publishes a private key", "deep": "", "off-curve": "no valid point", "many": "more than 32 usable keys"}
    for name in shared:  # well-behaved at first
        admin.api("POST", "/issuers", {"url": world.behave(name), "algorithms": ["ES256"], "lifetime_max": 900})
    before = {}
    for name in shared:
        wait_until(lambda name=name: is_accepted(world.token(name)), 60, name)
        before[name] = look(name)["keys"]
    for name, behaviour in shared.items():
        world.behave(name, **behaviour)
        let_pass(name, 40)
        admin.api("POST", f"/issuers/{look(name)['id']}/check")
    for name in shared:
        wait_until(lambda name=name: "ended" in look(name), 60, name)
        seen = look(name)
        assert says[name] in seen["problem"], (name, seen)
        assert seen["keys"] == before[name] and is_accepted(world.token(name)), (name, seen)
    assert admin.call("GET", "/readyz").status == 200
    world.behave("lies", metadata=world.metadata("good"))
    assert "that of another issuer" in check("lies", code=1)["problem"]
    assert not any("private" in json.dumps(event) for event in events("issuer.keys"))
    names = [("https://localhost:1/x", ""), (f"https://127.0.0.2:{world.port}/x", "set issuer_networks"), ("https://nowhere.invalid/x", "")]
    for url, why in names:
        assert why in sijil("admin", "issuer", "add", at, url, code=1), url


def an_issuer_that_changes_its_keys_each_second_is_asked_seldom():
    def fresh(handler):
        handler.send(200, json.dumps(world.set_of("flaps", f"k{time.time_ns()}")).encode())

    add("flaps", keys=fresh)
    asked, until = world.count("/flaps/jwks"), time.monotonic() + 6
    while time.monotonic() < until:
        assert not is_accepted(world.token("flaps", f"k{time.time_ns()}"))
        time.sleep(0.1)
    assert world.count("/flaps/jwks") == asked, "tokens with unknown keys make the registry ask at will"


def spread(texts):
    """Milliseconds of each exchange."""
    taken = []
    for text in texts:
        begun = time.monotonic()
        assert is_accepted(text)
        taken.append((time.monotonic() - begun) * 1000)
    return statistics.median(taken), sorted(taken)[len(taken) * 95 // 100]


def issuers_that_hang_cost_the_others_nothing():
    texts = [world.token("good", "two") for _ in range(60)]
    spread(texts[:10])
    calm = spread(texts)
    for number in range(4):
        admin.api("POST", "/issuers", {"url": world.behave(f"hangs{number}", metadata=hangs if number % 2 else drips), "algorithms": ["ES256"]})
    wait_until(lambda: world.count("/hangs") >= 2, 20, "nobody asks them")
    busy = min(spread([world.token("good", "two") for _ in range(20)]) for _ in range(3))  # other tests may run beside this one for a moment
    print(f"   an exchange takes {calm[0]:.1f} ms (95 %: {calm[1]:.1f}), and {busy[0]:.1f} ms (95 %: {busy[1]:.1f}) while 4 issuers hang", flush=True)
    assert busy[0] < 2 * calm[0] + 10, (calm, busy)
    wait_until(lambda: server.sql("SELECT count(*) FROM issuer_fetch f JOIN trusted_issuer t USING (issuer_id) WHERE t.url LIKE '%/hangs%' AND f.failures > 0") == "4",
               90, "not all have failed once")
    server.sql("UPDATE issuer_fetch f SET due_at = now() FROM trusted_issuer t WHERE t.issuer_id = f.issuer_id AND t.url LIKE '%/hangs%'")
    begun = time.monotonic()
    let_pass("good", 40)
    check("good")  # those that failed wait apart
    assert time.monotonic() - begun < 4, "an issuer waits behind others that hang"
    for row in admin.api("GET", "/issuers?limit=1000")["issuers"]:
        if "/hangs" in row["url"]:
            admin.api("DELETE", "/issuers/" + row["id"])


def an_issuer_without_keys_yet():
    url = world.behave("late", metadata=lambda handler: handler.send(503, b""))
    assert "it answers 503" in sijil("admin", "issuer", "add", at, url, "--algorithm", "ES256", code=1)
    refusal = exchange(world.token("late"))
    assert refusal.status == 400 and "could not be fetched yet" in refusal.json["error_description"], refusal.body
    world.behave("late")
    let_pass("late", 40)
    wait_until(lambda: is_accepted(world.token("late")), 15, "the keys are not fetched again")  # the token itself has it asked


def exchange_opaque(text, issuer="opaque", kind="access_token"):
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": text,
            "subject_token_type": "urn:ietf:params:oauth:token-type:" + kind, "scope": SCOPE}
    if issuer:
        form["subject_issuer"] = world.url(issuer)
    return server.client(server.admin).call("POST", "/token", urllib.parse.urlencode(form), {"Content-Type": "application/x-www-form-urlencoded"})


def opaque_tokens_are_introspected():
    """At /token alone, by their own issuer, which is asked once in 30 seconds; one that hangs costs the others nothing."""
    add("opaque")
    add("opaque-hangs")
    now = int(time.time())
    world.opaque["mF_9.B5f-4.1JqM.x"] = {"active": True, "sub": "ann", "aud": audience, "exp": now + 300, "token_type": "Bearer"}
    world.opaque["for-another"] = {"active": True, "sub": "ann", "aud": "https://other.example", "exp": now + 300}
    admin.api("POST", "/bindings", {"issuer": world.url("opaque"), "subject": "ann", "role": "consumer", "scope": "main/models"})
    answer = exchange_opaque("mF_9.B5f-4.1JqM.x")
    assert answer.status == 200 and answer.json["scope"] == SCOPE, (answer.status, answer.body)
    assert admin.call("GET", "/v2/main/models/digits/tags/list", headers={"Authorization": "Bearer " + answer.json["access_token"]}).status == 404  # it may read
    assert exchange_opaque("mF_9.B5f-4.1JqM.x").status == 200 and len(world.introspected) == 1, world.introspected
    for text, more, status, why in (("for-another", {}, 400, "aud must be"), ("unknown", {}, 400, "no valid access token"), ("x.y.z.z", {"issuer": None}, 400, "subject_issuer must name"),
                                    ("unknown-2", {"issuer": "good"}, 400, "does not ask this issuer"), ("unknown-3", {"kind": "id_token"}, 400, "three segments")):
        answer = exchange_opaque(text, **more)
        assert answer.status == status and why in answer.json["error_description"], (text, answer.status, answer.body)
    assert {name for name, _ in world.introspected} == {"opaque"}, world.introspected  # nobody else has seen a token
    assert admin.call("GET", "/v2/", headers={"Authorization": "Bearer mF_9.B5f-4.1JqM.x"}).status == 401  # at /token alone

    hung = []
    threads = [threading.Thread(target=lambda number=number: hung.append(exchange_opaque(f"hangs-{number}", "opaque-hangs").status)) for number in range(6)]
    for thread in threads:
        thread.start()
    begun = time.monotonic()
    for _ in range(5):
        assert exchange_opaque("mF_9.B5f-4.1JqM.x").status == 200
    assert time.monotonic() - begun < 5, "an issuer that hangs delays another"
    for thread in threads:
        thread.join()
    assert set(hung) == {503}, hung
    assert time.monotonic() - begun < 25


def what_may_be_said():
    for body in ({"url": world.url("good"), "algorithms": ["ES256"], "keys_url": "http://x/y"}, {"url": world.url("good"), "algorithms": ["ES256"], "keys_url": "https://x/y#z"},
                 {"url": world.url("good"), "algorithms": ["ES256"], "keys_url": "https://x/y", "jwks": world.set_of("good", "one")}):
        assert admin.call("POST", "/api/v1/issuers", json.dumps(body), {"Content-Type": "application/json"}, scope="registry:admin:*").status == 400, body
    eve = server.client(make_robot(server, "eve", "org-admin", "main"))
    one = state("good")["id"]
    assert eve.call("GET", f"/api/v1/issuers/{one}", scope="registry:admin:*").status in (403, 404)
    assert eve.call("POST", f"/api/v1/issuers/{one}/check", scope="registry:admin:*").status in (403, 404)
    assert admin.call("GET", "/api/v1/issuers/00000000-0000-4000-8000-000000000000", scope="registry:admin:*").status == 404
    by_hand = admin.api("POST", "/issuers", {"url": "https://hand.example", "algorithms": ["ES256"], "jwks": world.set_of("good", "one")})
    assert not by_hand["follows"] and admin.call("POST", f"/api/v1/issuers/{by_hand['id']}/check", scope="registry:admin:*").status == 404
    sijil("admin", "issuer", "remove", at, world.url("good"))
    wait_until(lambda: not is_accepted(world.token("good", "two")), 10, "an issuer that was removed is trusted")


def others_verify_our_tokens():
    """By nothing but what the registry publishes (RFC 8414, RFC 7517)."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    def decoded(text):
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))

    answer = admin.call("GET", "/.well-known/oauth-authorization-server")
    said, public = answer.json, f"https://{at}"
    assert answer.status == 200 and said["issuer"] == public and said["token_endpoint"] == public + "/token", said
    assert said["response_types_supported"] == [] and "max-age" in answer["Cache-Control"], said
    keys = admin.call("GET", said["jwks_uri"].removeprefix(public)).json["keys"]
    assert len(keys) in (2, 3) and len({key["kid"] for key in keys}) == len(keys) and not any("d" in key for key in keys), keys
    token = admin.token("registry:catalog:*")
    header, _, signature = token.split(".")
    head = json.loads(decoded(header))
    assert head["kid"] == keys[0]["kid"] and head["alg"] == keys[0]["alg"] == "ES256", (head, keys)
    x, y = (int.from_bytes(decoded(keys[0][name]), "big") for name in ("x", "y"))
    raw = decoded(signature)
    ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key().verify(
        encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")), token.rpartition(".")[0].encode(), ec.ECDSA(hashes.SHA256()))


sijil("login", at, "--username", server.admin[0], "--ca-file", server.ca_file, given=server.admin[1])
run(others_verify_our_tokens, an_issuer_is_found_by_its_metadata, metadata_may_be_where_rfc_8414_has_it, keys_rotate, a_bad_answer_changes_nothing,
    an_issuer_that_changes_its_keys_each_second_is_asked_seldom, issuers_that_hang_cost_the_others_nothing, an_issuer_without_keys_yet, opaque_tokens_are_introspected,
    what_may_be_said, server=server)
