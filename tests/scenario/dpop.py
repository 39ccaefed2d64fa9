"""Tokens that are bound to a client's key (DPoP, RFC 9449), at two gateways, or to its certificate (RFC 8705); and fresh logins for dangerous actions (RFC 9470)."""
import base64
import hashlib
import http.client
import http.server
import json
import os
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.parse

from fleet import Fleet
from issuer import certify
from key_holder import Holder, encode
from signing_keys import Key, canonical, sign, utc
from sijil_test import Issuer, make_robot, program, run, wait_until

authorities = tempfile.TemporaryDirectory()
os.chmod(authorities.name, 0o755)
with open(authorities.name + "/plain.cnf", "w", encoding="ascii") as plain:
    plain.write("[req]\ndistinguished_name = name\n[name]\n")
subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj", "/CN=clients",
                "-keyout", authorities.name + "/ca.key", "-out", authorities.name + "/old.pem"], check=True, capture_output=True)
subprocess.run(["openssl", "req", "-x509", "-key", authorities.name + "/ca.key", "-days", "2", "-subj", "/CN=clients", "-out", authorities.name + "/renewed.pem"],
               check=True, capture_output=True)
with open(authorities.name + "/ca.pem", "w", encoding="ascii") as both:
    for part in ("old", "renewed"):
        with open(f"{authorities.name}/{part}.pem", encoding="ascii") as one:
            both.write(one.read())
server = Fleet(2, allowed_hosts="127.0.0.1:*", step_up_acr="phr mfa", step_up_clients="sijil web", tls_client_any="yes", listeners=["abroad"], tls_client_ca=authorities.name + "/ca.pem").start()
first, second = server.clients(server.admin)
login = make_robot(server, "bound", "publisher", "main/models")
server.wait_known(login, "main/models/x")
holder, stranger = Holder(), Holder()
SCOPE = "repository:main/models/x:pull,push"
UPLOADS, LIST = "/v2/main/models/x/blobs/uploads/", "/v2/main/models/x/tags/list"
TOKEN = "/token?" + urllib.parse.urlencode({"scope": SCOPE})
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def url(place, path):
    return f"https://127.0.0.1:{place.port}{path.partition('?')[0]}"


def nonce_of(place):
    """Asked for as a client does: by a proof without one."""
    return ask_for_token(place, holder.proof("GET", url(place, "/token")))["DPoP-Nonce"]


def ask_for_token(place, proof):
    basic = base64.b64encode(":".join(login).encode()).decode()
    return place.call("GET", TOKEN, headers={"Authorization": "Basic " + basic, "DPoP": proof})


def send(place, method, path, token, nonce, key=holder, scheme="DPoP", proof=None, **claims):
    made = proof or key.proof(method, url(place, path), token, nonce, **claims)
    return place.call(method, path, headers={"Authorization": f"{scheme} {token}", "DPoP": made})


def bound_token(place, nonce):
    answer = ask_for_token(place, holder.proof("GET", url(place, "/token"), nonce=nonce))
    assert answer.status == 200 and answer.json["token_type"] == "DPoP", answer.body
    return answer.json["access_token"]


def claims_of(token):
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def event_of(answer):
    return first.api("GET", "/audit/events/" + answer["Sijil-Audit"].rsplit("/", 1)[1])["entry"]


def the_metadata_names_the_algorithms():
    answer = first.call("GET", "/.well-known/oauth-authorization-server")
    assert answer.json["dpop_signing_alg_values_supported"] == ["ES256", "EdDSA"], answer.body


def a_client_gets_a_nonce_and_then_a_bound_token():
    """RFC 9449, 8: the first proof has no nonce; the answer has one, which each gateway accepts."""
    answer = ask_for_token(first, holder.proof("GET", url(first, "/token")))
    assert answer.status == 400 and answer.json["error"] == "use_dpop_nonce" and answer["Cache-Control"] == "no-store", answer.body
    nonce = answer["DPoP-Nonce"]
    assert nonce == nonce_of(second)
    token = bound_token(first, nonce)
    assert claims_of(token)["cnf"] == {"jkt": holder.thumbprint}, claims_of(token)
    for place in (first, second):  # the token and the nonce count at both
        begun = send(place, "POST", UPLOADS, token, nonce)
        assert begun.status == 202 and begun["DPoP-Nonce"] == nonce, begun.body
        location = begun["Location"]
        assert send(place, "GET", location, token, nonce).status == 204  # a route of a session
    wrong = send(first, "GET", LIST, token, "A" * 22)
    assert wrong.status == 401 and wrong["DPoP-Nonce"] == nonce and 'error="use_dpop_nonce"' in wrong["WWW-Authenticate"], wrong.body
    assert wrong["WWW-Authenticate"].startswith(f'DPoP realm="{url(first, "/token")}"') and 'algs="ES256 EdDSA"' in wrong["WWW-Authenticate"]


def a_bound_token_works_with_its_key_only():
    nonce = nonce_of(first)
    token = bound_token(first, nonce)
    other = bound_token(first, nonce)
    for name, answer in {
            "as Bearer": first.call("GET", LIST, headers={"Authorization": "Bearer " + token}),
            "as Bearer with its proof": send(first, "GET", LIST, token, nonce, scheme="Bearer"),
            "without a proof": first.call("GET", LIST, headers={"Authorization": "DPoP " + token}),
            "with the proof of another key": send(first, "GET", LIST, token, nonce, key=stranger),
            "with a proof for another token": send(first, "GET", LIST, token, nonce, proof=holder.proof("GET", url(first, LIST), other, nonce)),
            "with a proof for no token": send(first, "GET", LIST, token, nonce, ath=None),
            "for another method": send(first, "GET", LIST, token, nonce, htm="HEAD"),
            "for another path": send(first, "GET", LIST, token, nonce, htu=url(first, UPLOADS)),
            "for the other gateway": send(first, "GET", LIST, token, nonce, htu=url(second, LIST)),
            "too old": send(first, "GET", LIST, token, nonce, iat=1700000000),
            "with the private key": send(first, "GET", LIST, token, nonce, header={"jwk": {**holder.jwk, "d": "AA"}}),
            "of no form": send(first, "GET", LIST, token, nonce, proof="x.y.z"),
            "of another type": send(first, "GET", LIST, token, nonce, header={"typ": "JWT"})}.items():
        assert answer.status == 401, (name, answer.status, answer.body)
        said = answer["WWW-Authenticate"]
        assert 'error="invalid_token"' in said or 'error="invalid_dpop_proof"' in said, (name, said)
        assert event_of(answer)["out"] == "denied", (name, event_of(answer))
    plain = first.call("GET", TOKEN, headers={"Authorization": "Basic " + base64.b64encode(":".join(login).encode()).decode()}).json
    assert plain["token_type"] == "Bearer" and "cnf" not in claims_of(plain["access_token"])
    assert send(first, "GET", LIST, plain["access_token"], nonce).status == 401  # not bound: nothing is proven
    twice = first.connection()
    twice.putrequest("GET", LIST)
    for _ in range(2):
        twice.putheader("DPoP", holder.proof("GET", url(first, LIST), token, nonce))
    twice.putheader("Authorization", "DPoP " + token)
    twice.endheaders()
    assert twice.getresponse().status == 400
    twice.close()


def a_proof_counts_once_at_all_gateways():
    """Both gateways are the registry for the client: it goes to one by the name of the other, as behind a load balancer."""
    nonce = nonce_of(first)
    token = bound_token(first, nonce)
    proof = holder.proof("POST", url(first, UPLOADS), token, nonce, jti="the same")
    headers = {"Authorization": "DPoP " + token, "DPoP": proof, "Host": f"127.0.0.1:{first.port}"}
    begun = second.call("POST", UPLOADS, headers=headers)
    assert begun.status == 202
    for place in (first, second):
        again = place.call("POST", UPLOADS, headers=headers)
        assert again.status == 401 and "used before" in again["WWW-Authenticate"] and 'error="invalid_dpop_proof"' in again["WWW-Authenticate"], again.body
        assert event_of(again)["out"] == "denied" and event_of(again)["act"] == event_of(begun)["act"], event_of(again)  # whose token was stolen
    renamed = holder.proof("POST", url(first, UPLOADS), token, nonce, jti="the same", x=1)  # another proof with this jti
    assert second.call("POST", UPLOADS, headers={**headers, "DPoP": renamed}).status == 401
    proof = holder.proof("GET", url(first, "/token"), nonce=nonce)
    assert ask_for_token(first, proof).status == 200
    again = ask_for_token(first, proof)
    assert again.status == 400 and again.json["error"] == "invalid_dpop_proof", again.body


def what_was_spent_is_swept():
    server.psql.ask("INSERT INTO spent_proof SELECT sha256(n::text::bytea), now() - interval '1 hour' FROM generate_series(1, 50) AS n")
    nonce = nonce_of(first)
    assert send(first, "POST", UPLOADS, bound_token(first, nonce), nonce).status == 202
    assert server.psql.ask("SELECT count(*) FROM spent_proof WHERE expires_at < now()") == "0"
    try:  # also for whoever has the gateways' role
        server.psql.ask("SET ROLE sijil_app; DELETE FROM spent_proof")
        raise LookupError("spent proofs can be removed")
    except AssertionError as why:
        assert "is kept until" in str(why), why
    server.psql.ask("RESET ROLE")


def issuer_of(url):
    """A trusted one, whose alice is a publisher."""
    issuer = Issuer(url, f"https://127.0.0.1:{server.port}")
    first.api("POST", "/issuers", {"url": issuer.url, "algorithms": ["ES256"], "jwks": issuer.jwks})
    first.api("POST", "/bindings", {"issuer": issuer.url, "subject": "alice", "role": "publisher", "scope": "main/models"})
    wait_until(lambda: first.exchange(issuer.token(sub="alice"), SCOPE).json.get("scope") == SCOPE, 10, "the issuer is not known")
    return issuer


def a_token_of_an_issuer_that_is_bound_is_exchanged_with_its_proof():
    issuer = issuer_of("https://bound.example")
    bound = issuer.token(sub="alice", cnf={"jkt": holder.thumbprint})
    assert first.exchange(bound, SCOPE).status == 400  # no proof
    form = urllib.parse.urlencode({"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": bound, "scope": SCOPE,
                                   "subject_token_type": "urn:ietf:params:oauth:token-type:jwt"})
    nonce = nonce_of(first)
    wrong = first.call("POST", "/token", form, {**FORM, "DPoP": stranger.proof("POST", url(first, "/token"), nonce=nonce)})
    assert wrong.status == 400 and wrong.json["error"] == "invalid_grant", wrong.body
    right = first.call("POST", "/token", form, {**FORM, "DPoP": holder.proof("POST", url(first, "/token"), nonce=nonce)})
    assert right.status == 200 and claims_of(right.json["access_token"])["cnf"] == {"jkt": holder.thumbprint}, right.body
    assert send(first, "POST", UPLOADS, right.json["access_token"], nonce).status == 202
    assert send(first, "POST", UPLOADS, bound, nonce).status == 202  # the issuer's own token, with each request
    assert first.call("POST", UPLOADS, headers={"Authorization": "Bearer " + bound}).status == 401



def proofs():
    return int(server.psql.ask("SELECT count(*) FROM spent_proof"))


def denied():
    """How many events say so."""
    return len(first.api("GET", "/audit/events?limit=1000&key=out:denied")["events"])


def sijil(home, *words, typed=""):
    return subprocess.run([program("sijil"), *words], input=typed, capture_output=True, text=True, timeout=60, cwd=home,
                          env={**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "SIJIL_CA_FILE": server.ca_file})


def the_command_line_uses_proofs_where_they_are_taken():
    """Without a refused request: the metadata tell that they are taken, and the nonce comes with them."""
    with tempfile.TemporaryDirectory() as home:
        at, before, refused = f"127.0.0.1:{server.port}", proofs(), denied()
        done = sijil(home, "login", at, "--ca-file", server.ca_file, "--username", login[0], typed=login[1] + "\n")
        assert done.returncode == 0, done.stderr
        with open(os.path.join(home, "model"), "wb") as file:
            file.write(os.urandom(3 << 20))
        done = sijil(home, "push", "model", f"{at}/main/models/pushed:v1")
        assert done.returncode == 0, done.stderr
        done = sijil(home, "pull", f"{at}/main/models/pushed:v1", "-o", "there")
        assert done.returncode == 0, done.stderr
        assert proofs() > before + 10, (before, proofs())
        assert denied() == refused
        assert not os.path.exists(os.path.join(home, "sijil/dpop.pem"))  # the key ends with the program


def a_login_of_ci_is_bound_to_a_stored_key():
    issuer = issuer_of("https://ci.example")
    with tempfile.TemporaryDirectory() as home:
        at, key = f"127.0.0.1:{server.port}", os.path.join(home, "sijil/dpop.pem")
        done = sijil(home, "ci", "login", at, "main/models/x", typed=issuer.token(sub="alice"))
        assert done.returncode == 0, done.stderr
        assert os.stat(key).st_mode & 0o777 == 0o600
        with open(os.path.join(home, "sijil/hosts.json"), encoding="utf-8") as file:
            stored = json.load(file)[at]
        token = stored["password"]
        assert stored["username"] == "dpop" and "jkt" in claims_of(token)["cnf"], stored["username"]
        with open(os.path.join(home, "model"), "wb") as file:
            file.write(b"model")
        refused = denied()
        done = sijil(home, "push", "model", f"{at}/main/models/x:v1")
        assert done.returncode == 0 and denied() == refused, done.stderr
        assert first.call("POST", UPLOADS, headers={"Authorization": "Bearer " + token}).status == 401  # the token alone
        done = sijil(home, "credential", "get", typed=at + "\n")
        assert done.returncode != 0 and "other programs can't send" in done.stderr, done
        os.rename(key, key + ".lost")
        done = sijil(home, "push", "model", f"{at}/main/models/x:v2")
        assert done.returncode != 0 and "dpop.pem" in done.stderr, done


def with_certificate(folder, name, says="DNS:example", authority=False):
    """A connection with a certificate that the client has signed itself, or the authority of clients, and the certificate's SHA-256 as cnf has it."""
    path = os.path.join(folder, name)
    if not os.path.exists(path + ".pem"):
        by = ["-CA", authorities.name + "/old.pem", "-CAkey", authorities.name + "/ca.key"] if authority else []
        subprocess.run(["openssl", "req", "-x509", "-config", authorities.name + "/plain.cnf", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-days", "1", "-subj", "/CN=" + name, "-addext", "subjectAltName=" + says, "-addext", "extendedKeyUsage=clientAuth", "-addext", "basicConstraints=critical,CA:FALSE", *by,
                        "-keyout", path + ".key", "-out", path + ".pem"], check=True, capture_output=True)
    context = ssl.create_default_context(cafile=server.ca_file)
    context.load_cert_chain(path + ".pem", path + ".key")
    with open(path + ".pem", encoding="ascii") as file:
        der = ssl.PEM_cert_to_DER_cert(file.read())
    return http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=60), encode(hashlib.sha256(der).digest())


def a_token_is_bound_to_a_self_signed_certificate():
    assert first.call("GET", "/.well-known/oauth-authorization-server").json["tls_client_certificate_bound_access_tokens"] is True
    basic = {"Authorization": "Basic " + base64.b64encode(":".join(login).encode()).decode()}
    with tempfile.TemporaryDirectory() as folder:
        mine, thumbprint = with_certificate(folder, "mine")
        answer = first.call("GET", TOKEN, headers=basic, connection=mine)
        token = answer.json["access_token"]
        assert claims_of(token)["cnf"] == {"x5t#S256": thumbprint} and answer.json["token_type"] == "Bearer", claims_of(token)
        bearer = {"Authorization": "Bearer " + token}
        assert first.call("POST", UPLOADS, headers=bearer, connection=mine).status == 202
        for link in (with_certificate(folder, "other")[0], first.connection()):
            refused = first.call("POST", UPLOADS, headers=bearer, connection=link)
            assert refused.status == 401 and "certificate that was not presented" in refused["WWW-Authenticate"], refused.body
            link.close()
        refused = first.call("GET", "/v2/", connection=mine)  # the certificate alone is no credential
        assert refused.status == 401
        nonce = nonce_of(first)
        both = first.call("GET", TOKEN, headers={**basic, "DPoP": holder.proof("GET", url(first, "/token"), nonce=nonce)}, connection=mine).json["access_token"]
        assert claims_of(both)["cnf"] == {"jkt": holder.thumbprint, "x5t#S256": thumbprint}
        for link, status in ((mine, 202), (first.connection(), 401)):
            headers = {"Authorization": "DPoP " + both, "DPoP": holder.proof("POST", url(first, UPLOADS), both, nonce)}
            assert first.call("POST", UPLOADS, headers=headers, connection=link).status == status
            link.close()


def clients_are_where_their_certificate_or_port_says():
    """Of several statements of the signed set the one with the lowest assurance counts; nothing that a client writes does."""
    def digest_of(name):
        with open(f"{authorities.name}/{name}.pem", encoding="ascii") as file:
            return "sha256:" + hashlib.sha256(ssl.PEM_cert_to_DER_cert(file.read())).hexdigest()
    authority, old = digest_of("renewed"), digest_of("old")
    base = first.api("GET", "/policies")
    policy = {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "closed": False,
              "metadata": {"id": "proven", "version": 1, "scope": ["main/models/**"], "effective_from": "2020-01-01T00:00:00Z", "review_by": "2099-01-01"},
              "rules": [{"id": "PROVEN", "effect": "require", "ops": ["read"], "target": {"geo_within": ["AE"], "min_assurance": 3}}]}
    here = {"authority": authority, "facts": {"geo": "AE/DU", "assurance": 3}}
    abroad = {"listener": "abroad", "facts": {"geo": "FR", "assurance": 2}}

    def load(policies, networks):
        load.epoch += 1
        first.api("POST", "/policies", server.sign_set(load.epoch, policies=policies, networks=networks))
        wait_until(lambda: first.api("GET", "/policies")["epoch"] == load.epoch, 30, "the set is not in force")
    load.epoch = base["epoch"]

    def look(link, **headers):
        """The status of a list of tags, and what policies knew of the client."""
        basic = base64.b64encode(":".join(login).encode()).decode()
        token = first.call("GET", TOKEN, headers={"Authorization": "Basic " + basic}, connection=link).json["access_token"]
        answer = first.call("GET", LIST, headers={"Authorization": "Bearer " + token, **headers}, connection=link)
        number = answer["Sijil-Audit"].rsplit("/", 1)[1]
        facts = json.loads(server.psql.ask("SELECT convert_from(facts, 'UTF8') FROM audit_facts, audit_entry WHERE seq = " + number +
                                           " AND encode(digest, 'hex') = convert_from(leaf, 'UTF8')::json->'facts'->>0"))
        link.close()
        return answer.status, facts["judged"][0]["operations"][0]["target_id"]

    policies = base["set"]["policies"]
    with tempfile.TemporaryDirectory() as folder:
        def certified(port=server.port):
            link = with_certificate(folder, "resident", authority=True)[0]
            link.port = port
            return link
        early = certified()  # while no set has a place of an authority, nobody looks which one it leads to
        early.request("GET", "/healthz")
        early.getresponse().read()
        load([*policies, policy], [here, abroad])
        status, where = look(early)
        assert status in (200, 404) and where == "authority:" + authority, f"an old connection is not looked at again: {status, where}"
        assert look(first.connection(), **{"X-Forwarded-For": "10.1.2.3", "Forwarded": "for=10.1.2.3", "X-Client-Cert": authority}) == (403, "client")
        assert look(with_certificate(folder, "stranger")[0]) == (403, "client")  # which it has signed itself
        status, where = look(certified())
        assert status in (200, 404) and where == "authority:" + authority, (status, where)
        assert look(certified(server.listeners["abroad"][0])) == (403, "listener:abroad")
        load([*policies, policy], [here, {**abroad, "facts": {"geo": "AE", "assurance": 2}}, {"cidr": "127.0.0.0/8", "facts": {"geo": "AE", "assurance": 1}},
                                   {"authority": old, "facts": {"geo": "AE"}}])
        assert look(with_certificate(folder, "stranger")[0]) == (403, "127.0.0.0/8")
        assert look(certified(server.listeners["abroad"][0])) == (403, "authority:" + old)  # its certificate leads to both
        load(policies, base["set"]["networks"])
    assert first.call("GET", "/healthz").status == 200


def by_certificate(name, connection=None):
    """RFC 8705, 2: the name alone, in the form."""
    form = urllib.parse.urlencode({"grant_type": "client_credentials", "client_id": name, "scope": SCOPE})
    return first.call("POST", "/token", form, FORM, connection=connection)


def rotated(home, robot, certificate):
    done = sijil(home, "admin", "robot", "rotate", f"127.0.0.1:{server.port}", robot, "--certificate", certificate, "--json")
    assert done.returncode == 0, done.stderr
    assert "secret" not in json.loads(done.stdout), done.stdout
    server.wait_known(login, "main/models/x")
    return json.loads(done.stdout)["certificate"]


def a_robot_logs_in_by_its_certificate():
    """Both kinds of RFC 8705: the certificate itself, and a name in one that an authority has signed."""
    methods = first.call("GET", "/.well-known/oauth-authorization-server").json["token_endpoint_auth_methods_supported"]
    assert methods == ["client_secret_basic", "client_secret_post", "self_signed_tls_client_auth", "tls_client_auth"], methods
    name, secret = make_robot(server, "service", "publisher", "main/models")[:2]
    basic = {"Authorization": "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()}
    with tempfile.TemporaryDirectory() as home:
        at = f"127.0.0.1:{server.port}"
        assert sijil(home, "login", at, "--ca-file", server.ca_file, "--username", server.admin[0], typed=server.admin[1] + "\n").returncode == 0
        mine, thumbprint = with_certificate(home, "mine")
        assert by_certificate(name, mine).status == 401  # it has a secret, and nobody has given it a certificate
        certificate = rotated(home, name, "mine.pem")
        assert certificate == "x5t#S256:" + thumbprint
        listed = {robot["name"]: robot.get("certificate") for robot in first.api("GET", "/robots?organisation=main")["robots"]}
        assert listed[name] == certificate and listed[login[0]] is None, listed
        answer = by_certificate(name, mine)
        assert answer.status == 200 and claims_of(answer.json["access_token"])["cnf"] == {"x5t#S256": thumbprint}, answer.body
        bearer = {"Authorization": "Bearer " + answer.json["access_token"]}
        assert first.call("POST", UPLOADS, headers=bearer, connection=mine).status == 202
        stolen = {"Authorization": "Basic " + base64.b64encode(f"{name}:{certificate}".encode()).decode()}
        other, _ = with_certificate(home, "other")
        signed, _ = with_certificate(home, "signed", "DNS:ci.bank.example,URI:spiffe://bank.example/ci", True)
        forged, _ = with_certificate(home, "forged", "DNS:ci.bank.example")
        elsewhere, _ = with_certificate(home, "elsewhere", "DNS:ci.bank.example.evil.example", True)
        for link in (other, signed, None):
            assert by_certificate(name, link).status == 401
        for headers, path in ((basic, TOKEN), (stolen, TOKEN), (stolen, LIST)):  # the old secret, and the digest as a secret, with the right certificate
            assert first.call("GET", path, headers=headers, connection=mine).status == 401, (headers, path)
        for certificate in ("dns:ci.bank.example", "uri:spiffe://bank.example/ci"):
            assert rotated(home, name, certificate) == certificate
            answer = by_certificate(name, signed)
            assert answer.status == 200 and "x5t#S256" in claims_of(answer.json["access_token"])["cnf"], answer.body
            for link in (mine, forged, elsewhere, None):
                assert by_certificate(name, link).status == 401, certificate
            assert by_certificate("oidc", signed).status == by_certificate("robot$main+nobody", signed).status == 401
        refused = sijil(home, "admin", "robot", "rotate", at, name, "--certificate", "dns:two names")
        assert refused.returncode != 0 and "certificate: x5t#S256:" in refused.stderr, refused
        for link in (mine, other, signed, forged, elsewhere):
            link.close()


def dangerous_actions_need_a_fresh_login():
    issuer = issuer_of("https://people.example")
    first.api("POST", "/bindings", {"issuer": issuer.url, "subject": "ann", "role": "org-admin", "scope": "main"})
    number = iter(range(1, 100))

    def make_robot_by(token, scheme="Bearer", headers=None):
        return first.call("POST", "/api/v1/robots", json.dumps({"organisation": "main", "name": f"made-{next(number)}"}),
                          {"Content-Type": "application/json", "Authorization": f"{scheme} {token}", **(headers or {})})

    now = int(time.time())
    good = {"sub": "ann", "acr": "phr", "auth_time": now - 30, "client_id": "sijil"}
    wait_until(lambda: make_robot_by(issuer.token(**good)).status == 201, 10, "the role is not known")
    made = make_robot_by(issuer.token(**good))
    for name, claims in {"no acr": {"acr": None}, "another acr": {"acr": "pwd"}, "no time": {"auth_time": None},
                         "long ago": {"auth_time": now - 1000}, "in the future": {"auth_time": now + 1000}, "a text": {"auth_time": "now"},
                         "a code that was typed elsewhere": {"client_id": "sijil-device"}, "no client": {"client_id": None}}.items():
        answer = make_robot_by(issuer.token(**{key: value for key, value in {**good, **claims}.items() if value is not None}))
        said = answer["WWW-Authenticate"] or ""
        assert answer.status == 401 and 'error="insufficient_user_authentication",acr_values="phr mfa",max_age="900"' in said, (name, answer.status, said)
        assert event_of(answer)["out"] == "denied" and event_of(answer)["act"] == event_of(made)["act"], name
    assert make_robot_by(issuer.token(**{**{key: good[key] for key in good if key != "client_id"}, "azp": "web"})).status == 201  # as Keycloak names it
    old = issuer.token(**{**good, "auth_time": now - 1000})
    for token, says in ((old, True), (issuer.token(**good), False)):
        answer = first.call("POST", "/api/v1/authz/explain", json.dumps({"action": "robot.create", "resource": "main"}),
                            {"Content-Type": "application/json", "Authorization": "Bearer " + token})
        assert answer.json["allowed"] and any("fresh login" in each for each in answer.json["unknown"]) == says, answer.body
    batch = [first.call("POST", "/api/v1/bindings/batch?scope=main", json.dumps({"bindings": [{"issuer": issuer.url, "subject": "sue", "role": "auditor", "scope": "main"}]}),
                        {"Authorization": "Bearer " + token}) for token in (old, issuer.token(**good))]
    assert [one.status for one in batch] == [401, 201] and 'max_age="900"' in batch[0]["WWW-Authenticate"], [one.body for one in batch]
    assert first.call("GET", "/api/v1/projects", headers={"Authorization": "Bearer " + old}).status == 200  # nothing dangerous
    # What the root has signed comes into force with the draft, so the draft needs what an approval needs.
    document = canonical({"schema": "sijil.document/v1", "kind": "group-roles", "scope": "", "name": "by-root", "version": 1, "effective_from": utc(now - 1), "expires": utc(now + 86400),
                          "body": {"issuer": issuer.url, "claim": "/groups", "grant": [{"group": "all", "role": "consumer", "on": "main"}]}})
    for key, is_asked in ((server.path("approver.pem"), True), (Key("stranger").path, False)):
        body = json.dumps(sign(document, key, "application/vnd.sijil.group-roles.v1+json"))
        answer = first.call("POST", "/api/v1/groups", body, {"Content-Type": "application/json", "Authorization": "Bearer " + old})
        assert ("insufficient_user_authentication" in (answer["WWW-Authenticate"] or "")) == is_asked and answer.status in (401, 403), (key, answer.status, answer.body)
    nobody = make_robot_by(issuer.token(sub="nobody"))
    assert nobody.status == 401 and "insufficient_user_authentication" in nobody["WWW-Authenticate"]  # as for somebody with the right

    def exchanged(headers=None, **claims):
        form = urllib.parse.urlencode({"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "scope": "registry:admin:*",
                                       "subject_token": issuer.token(**{**good, **claims}), "subject_token_type": "urn:ietf:params:oauth:token-type:jwt"})
        return first.call("POST", "/token", form, {**FORM, **(headers or {})}).json["access_token"]

    with tempfile.TemporaryDirectory() as home:
        at = f"127.0.0.1:{server.port}"
        done = sijil(home, "login", at, "--ca-file", server.ca_file, "--username", "oidc", typed=old + "\n")
        assert done.returncode == 0, done.stderr
        done = sijil(home, "admin", "robot", "create", at, "main/by-hand")
        assert done.returncode == 4 and f"sijil login {at} --fresh --acr-values 'phr mfa'" in done.stderr, done

    kept = exchanged()
    assert claims_of(kept)["acr"] == "phr" and claims_of(kept)["auth_time"] == now - 30, claims_of(kept)
    assert make_robot_by(kept).status == 201
    assert make_robot_by(exchanged(auth_time=now - 1000)).status == 401  # a new token of an old login
    assert make_robot_by(exchanged(client_id="sijil-device")).status == 401 and "auth_time" not in claims_of(exchanged(client_id="sijil-device"))
    nonce = nonce_of(first)
    bound = exchanged({"DPoP": holder.proof("POST", url(first, "/token"), nonce=nonce)}, acr="pwd")
    answer = make_robot_by(bound, "DPoP", {"DPoP": holder.proof("POST", url(first, "/api/v1/robots"), bound, nonce)})
    assert answer.status == 401 and answer["WWW-Authenticate"].startswith("DPoP ") and "insufficient_user_authentication" in answer["WWW-Authenticate"]
    assert first.api("POST", "/robots", {"organisation": "main", "name": "by-a-robot"})["name"] == "robot$main+by-a-robot"  # it has no login


class LoginIssuer(http.server.BaseHTTPRequestHandler):
    """The issuer of a login with a browser: it gives the token that the test has set for any code."""
    token, forms = None, []

    def do_GET(self):
        here = f"https://localhost:{self.server.server_port}"
        self.reply({"issuer": here, "authorization_endpoint": here + "/auth", "token_endpoint": here + "/token", "code_challenge_methods_supported": ["S256"]})

    def do_POST(self):
        LoginIssuer.forms.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.reply({"access_token": LoginIssuer.token(), "token_type": "Bearer", "expires_in": 300, "refresh_token": "r"})

    def reply(self, document):
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


BROWSER = """#!/usr/bin/python3
import sys, urllib.parse, urllib.request
asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(sys.argv[1]).query))
open(%r, "a").write(sys.argv[1] + "\\n")
urllib.request.urlopen(asked["redirect_uri"] + "?" + urllib.parse.urlencode({"code": "c", "state": asked["state"]}), timeout=30).close()
"""


def a_refused_command_is_repeated_after_the_fresh_login():
    """RFC 9470: the person logs in again with a browser, and the same request is sent again, once."""
    with tempfile.TemporaryDirectory() as home:
        at, opened, browser = f"127.0.0.1:{server.port}", os.path.join(home, "opened"), os.path.join(home, "browser")
        listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), LoginIssuer)
        listener.daemon_threads = True
        listener.socket = certify(home).wrap_socket(listener.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        issuer = issuer_of(f"https://localhost:{listener.server_port}")
        first.api("POST", "/bindings", {"issuer": issuer.url, "subject": "ann", "role": "org-admin", "scope": "main"})
        with open(browser, "w", encoding="ascii") as file:
            file.write(BROWSER % opened)
        os.chmod(browser, 0o755)
        person = {"who": "ann", "ago": 1000}
        LoginIssuer.token = lambda: issuer.token(sub=person["who"], acr="phr", auth_time=int(time.time()) - person["ago"], client_id="sijil")

        def command(*words, **more):
            return subprocess.run([program("sijil"), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, cwd=home,
                                  env={**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "SIJIL_CA_FILE": server.ca_file, **more})

        def pages():
            with open(opened, encoding="utf-8") as file:
                return file.read().splitlines()

        done = command("login", at, "--issuer", issuer.url, "--issuer-ca-file", home + "/tls.pem", "--ca-file", server.ca_file, "--browser", BROWSER=browser)
        assert done.returncode == 0 and len(pages()) == 1, done.stderr
        person["ago"] = 0
        done = command("admin", "robot", "create", at, "main/again-by-hand")
        assert done.returncode == 4 and f"sijil login {at} --fresh" in done.stderr and len(pages()) == 1, done  # nobody is there to ask
        done = command("admin", "robot", "create", at, "main/again", "--json", BROWSER=browser)
        assert done.returncode == 4 and len(pages()) == 1, done  # a program reads this
        person["who"] = "alice"
        done = command("admin", "robot", "create", at, "main/again", BROWSER=browser)
        assert done.returncode == 1 and "another person" in done.stderr and len(pages()) == 2, done
        person["who"] = "ann"
        done = command("admin", "robot", "create", at, "main/again", BROWSER=browser)
        assert done.returncode == 0 and "sijil_" in done.stdout and "sent again" in done.stderr, done
        asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(pages()[2]).query))
        assert asked["max_age"] == "0" and asked["acr_values"] == "phr mfa" and asked["prompt"] == "login consent", asked
        done = command("admin", "robot", "create", at, "main/and-again", BROWSER=browser)
        assert done.returncode == 0 and len(pages()) == 3, done  # the login is fresh still
        person["ago"] = 2000
        done = command("login", at, "--browser", BROWSER=browser)
        assert done.returncode == 0, done.stderr
        done = command("admin", "robot", "create", at, "main/never", BROWSER=browser)
        assert done.returncode == 4 and len(pages()) == 5 and "a few minutes old" in done.stderr, (done, len(pages()))  # asked once: its issuer does not do it
        listener.shutdown()


def nobody_locks_the_registry(home):
    """By a demand that its own request does not meet: the command line has keys, and no certificates."""
    with open(os.path.join(home, "tokens.json"), "w", encoding="utf-8") as file:
        json.dump({"name": "_registry", "issuer": "https://people.example", "tokens": {"bound_to": "certificate"}}, file)
    done = sijil(home, "admin", "persons", "draft", f"127.0.0.1:{server.port}", "tokens.json", "--key", server.path("approver.pem"))
    assert done.returncode != 0 and "could not be withdrawn: tokens must be bound to a certificate" in done.stderr, done


def demand(home, **tokens):
    """A document of persons, by the root; without any demand it is withdrawn."""
    at = f"127.0.0.1:{server.port}"
    words = ("revoke", at, "main", "--reason", "a test")
    if tokens:
        with open(os.path.join(home, "tokens.json"), "w", encoding="utf-8") as file:
            json.dump({"name": "main", "issuer": "https://people.example", "tokens": tokens}, file)
        words = ("draft", at, "tokens.json")
    done = sijil(home, "admin", "persons", *words, "--key", server.path("approver.pem"))
    assert done.returncode == 0, done.stderr


def refusals_without_a_bound_token(unbound):
    """At /token, and in a request, whatever credential it has; the event names whose it was."""
    basic = {"Authorization": "Basic " + base64.b64encode(":".join(login).encode()).decode()}
    answer = first.call("GET", TOKEN, headers=basic)
    assert answer.status == 400 and answer.json["error"] == "invalid_dpop_proof" and "send a proof of it" in answer.json["error_description"], answer.body
    assert event_of(answer)["act"] == "token.mint" and event_of(answer)["out"] == "denied"
    for headers in ({"Authorization": "Bearer " + unbound}, basic):
        answer = second.call("POST", UPLOADS, headers=headers)
        said = answer["WWW-Authenticate"] or ""
        assert answer.status == 401 and said.startswith("DPoP ") and 'error="invalid_token"' in said and "send a proof of it" in said, (answer.status, said)
        assert event_of(answer)["out"] == "denied" and event_of(answer)["act"] == "upload.begin", event_of(answer)


def an_organisation_demands_bound_tokens_that_end_soon():
    basic = {"Authorization": "Basic " + base64.b64encode(":".join(login).encode()).decode()}
    unbound = first.call("GET", TOKEN, headers=basic).json["access_token"]
    nonce = nonce_of(first)
    with tempfile.TemporaryDirectory() as home:
        at, long_one = f"127.0.0.1:{server.port}", bound_token(first, nonce)
        assert sijil(home, "login", at, "--ca-file", server.ca_file, "--username", server.admin[0], typed=server.admin[1] + "\n").returncode == 0
        nobody_locks_the_registry(home)
        demand(home, bound_to="any", lifetime_max=120)
        wait_until(lambda: all(place.call("POST", UPLOADS, headers={"Authorization": "Bearer " + unbound}).status == 401 for place in (first, second)), 10,
                   "the document does not count")
        refusals_without_a_bound_token(unbound)
        answer = send(first, "POST", UPLOADS, long_one, nonce)
        assert answer.status == 401 and "lives longer" in answer["WWW-Authenticate"], answer["WWW-Authenticate"]
        token = bound_token(first, nonce)
        assert claims_of(token)["exp"] - claims_of(token)["iat"] == 120, claims_of(token)
        assert send(second, "POST", UPLOADS, token, nonce).status == 202
        link, _ = with_certificate(home, "mine")
        held = first.call("GET", TOKEN, headers=basic, connection=link)
        assert held.status == 200 and held.json["expires_in"] == 120, held.body
        bearer = {"Authorization": "Bearer " + held.json["access_token"]}
        assert first.call("POST", UPLOADS, headers=bearer, connection=link).status == 202
        robot = json.dumps({"organisation": "main", "name": "unbound"})  # administration too, of this organisation alone
        assert first.call("POST", "/api/v1/robots", robot, {"Content-Type": "application/json"}, scope="registry:admin:*").status == 401
        assert first.api("POST", "/organisations", {"name": "free"})["name"] == "free"
        assert sijil(home, "admin", "robot", "create", at, "main/bound-too").returncode == 0  # by proofs
        stranger_robot = first.api("POST", "/robots", {"organisation": "free", "name": "stranger"})
        hidden = server.client((stranger_robot["name"], stranger_robot["secret"]))
        said = []  # without the right: the same for what is not there, and nothing of the demand
        for name in ("main/models/x", "nobody/models/x"):
            answer = hidden.call("GET", f"/v2/{name}/tags/list", scope=f"repository:{name}:pull")
            said.append((answer.status, answer["WWW-Authenticate"].replace(name, "NAME")))
        assert said[0] == said[1] and said[0][0] == 401 and 'error="insufficient_scope"' in said[0][1] and said[0][1].startswith("Bearer "), said
        demand(home, bound_to="key")
        wait_until(lambda: first.call("POST", UPLOADS, headers=bearer, connection=link).status == 401, 10, "the second version does not count")
        assert send(first, "POST", UPLOADS, long_one, nonce).status == 202
        demand(home)
        wait_until(lambda: first.call("POST", UPLOADS, headers={"Authorization": "Bearer " + unbound}).status == 202, 10, "the withdrawal does not count")
        link.close()


run(the_metadata_names_the_algorithms, a_client_gets_a_nonce_and_then_a_bound_token, a_bound_token_works_with_its_key_only,
    a_proof_counts_once_at_all_gateways, what_was_spent_is_swept, a_token_of_an_issuer_that_is_bound_is_exchanged_with_its_proof,
    the_command_line_uses_proofs_where_they_are_taken, a_login_of_ci_is_bound_to_a_stored_key,
    a_token_is_bound_to_a_self_signed_certificate, clients_are_where_their_certificate_or_port_says, a_robot_logs_in_by_its_certificate, dangerous_actions_need_a_fresh_login,
    a_refused_command_is_repeated_after_the_fresh_login, an_organisation_demands_bound_tokens_that_end_soon, server=server)
