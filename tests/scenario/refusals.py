"""A client repeats refused requests without end: it keeps no other client out, and does not fill the log."""
import base64
import concurrent.futures
import json
import threading
import time
import urllib.parse

import signing_keys
from fleet import Fleet, Judge
from sijil_test import Issuer, Server, await_count, make_robot, run, sha256, wait_until

RATE, BURST = 20, 200  # denials of one principal with separate events: a second, and in the first burst
SMALL_RATE, SMALL_BURST = 1, 10  # the same in a fleet with this setting: even a slow machine asks more often
GATHERED = 16 << 20    # of all bodies
SHARE = GATHERED // 4  # of documents that are gathered before the decision
PRINCIPALS = 8         # principals that together use all of it
DOCUMENT = 64 << 10
ROTATIONS = 110          # at a time, of one principal; each waits for a second or two
PATIENCE = 4             # seconds that another client's request may take in that time; it would be 10 if each rotation held a reader
PER_NAME, PER_NETWORK = 20, 120  # wrong secrets a minute, and in one burst

RIGHTS_RATE = 2          # so small that a slow machine asks more often

server = Server().start()
admin = server.client(server.admin)
# With small limits. Stalled bodies are not cut off while they fill the share.
fleet = Fleet(1, denial_rate_per_principal=SMALL_RATE, rights_rate_per_organisation=RIGHTS_RATE, rights_rate_per_principal=5, gathered_size_max=GATHERED, rate_window=300,
              idle_timeout=300)


def in_the_log(action, sql=server.sql):
    """Its denials with separate events, and how many refusals were counted."""
    row = sql(f"SELECT count(*) FILTER (WHERE outcome = 'denied' AND action = '{action}'), coalesce(sum((convert_from(leaf,"
                     " 'UTF8')::json->'why'->>'count')::int) FILTER (WHERE action IN ('http.refused', 'denied.burst')), 0) FROM audit_entry")
    return [int(number) for number in row.split("|")]


def metric(start, client=admin):
    """The sum of all metrics that begin with the text."""
    return sum(int(line.split()[-1]) for line in client.call("GET", "/metrics").body.decode().splitlines() if line.startswith(start))


def refused_for(why, client=admin):
    """A metric from /metrics; "" stands for all reasons."""
    return metric("sijil_refused_total{why=\"" + why, client)


def not_recorded(client=admin):
    """All requests without a separate event: refused ones, and unauthenticated ones beyond the first."""
    return refused_for("", client) + metric('sijil_audit_folded_total{why="challenge"}', client)


def insist(ask, threads, times):
    """Answers and their seconds."""
    def one(_):
        return [ask() for _ in range(times)]

    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        answers = [answer for some in pool.map(one, range(threads)) for answer in some]
    return answers, time.monotonic() - began


def each_is_accounted_for(action, recorded):
    root, until = fleet.client(fleet.admin), time.monotonic() + 60
    while (found := in_the_log(action, lambda text: Judge.sql_at(fleet, text))) != [recorded, not_recorded(root)]:
        assert time.monotonic() < until, (found, recorded, not_recorded(root))
        time.sleep(0.1)


def who_is_denied_for_ever_does_not_fill_the_log():
    root, client = fleet.client(fleet.admin), fleet.client(make_robot(fleet, "stubborn", "consumer", "main/models"))
    client.token("repository:main/models/a:pull")
    answers, took = insist(lambda: client.call("GET", "/api/v1/robots", scope="registry:admin:*"), 8, 25)
    late = [answer for answer in answers if answer.status == 429]
    assert {answer.status for answer in answers} <= {401, 403, 429} and late, {answer.status for answer in answers}
    assert all(answer["Retry-After"] for answer in late)
    assert SMALL_BURST <= len(answers) - len(late) <= SMALL_BURST + SMALL_RATE * (took + 1), (len(late), took)
    assert client.call("GET", "/v2/main/models/a/tags/list", scope="repository:main/models/a:pull").status in (200, 404)
    await_count(lambda: refused_for("denied_limit", root), len(late), "refusals that are counted")
    each_is_accounted_for("robot.read", len(answers) - len(late))


def rows_of_bursts(within):
    """The counted requests in its auditor's view: (actor, action, network, target) and how often."""
    found = {}
    for event in admin.api("GET", f"/audit/events?within={within}&key=act:system&limit=100")["events"]:
        for row in (event["who"] or {}).get("rows", []):
            key = tuple(row.get(name) for name in ("actor", "action", "network", "target"))
            found[key] = found.get(key, 0) + row["count"]
    return found


def who_has_no_role_has_little_of_the_log():
    """All known principals may ping and get tokens; such requests filled the log as fast as they came."""
    admin.api("POST", "/organisations", {"name": "idle"})
    robot = admin.api("POST", "/robots", {"organisation": "idle", "name": "wanderer"})
    client, busy = server.client((robot["name"], robot["secret"])), server.client(make_robot(server, "busy", "consumer", "main/models"))
    counted = refused_for("denied_limit")
    client.token("registry:catalog:*")
    asked = client.call("GET", "/token?scope=registry:admin:*", None, {"Authorization": "Basic " + base64.b64encode(
        f"{robot['name']}:{robot['secret']}".encode()).decode()})
    assert asked.status == 200 and "registry:admin" not in asked.json["scope"], asked.body  # nothing to administer
    began = time.monotonic()
    statuses, took = insist(lambda: client.call("GET", "/v2/", scope="registry:catalog:*"), 8, 150)
    late = [answer for answer in statuses if answer.status == 429]
    served = [answer for answer in statuses if answer.status == 200]
    assert len(late) + len(served) == 1200 and late and all(answer["Retry-After"] for answer in late)
    assert len(served) <= BURST + RATE * (time.monotonic() - began + 1), (len(served), took)
    assert all("Sijil-Audit" in answer.headers for answer in served)
    wait_until(lambda: refused_for("denied_limit") - counted >= len(late), 20, "refusals are not counted")
    assert busy.call("GET", "/v2/main/models/a/tags/list", scope="repository:main/models/a:pull").status in (200, 404)
    assert admin.call("GET", "/v2/", scope="registry:catalog:*").status == 200  # no other principal is affected
    wait_until(lambda: sum(rows_of_bursts("idle").values()) >= len(late), 30, "the burst is not closed")
    rows = rows_of_bursts("idle")
    assert {(action, network, target) for _, action, network, target in rows} <= {
        ("registry.ping", "127.0.0.0/24", "-"), ("token.mint", "127.0.0.0/24", "-")}, rows
    assert sum(count for (_, action, _, _), count in rows.items() if action == "registry.ping") == len(late), (rows, len(late))
    assert len({actor for actor, _, _, _ in rows}) == 1 and "anonymous" not in str(rows)


def denied_mounts_become_uploads_and_do_not_fill_the_log():
    root = fleet.client(fleet.admin)
    root.api("POST", "/organisations", {"name": "victim"})
    root.api("POST", "/projects", {"organisation": "victim", "name": "models"})
    client = fleet.client(make_robot(fleet, "prober", "publisher", "main/models"))
    scope, before = "repository:main/models/a:pull,push", refused_for("denied_limit", root)
    path = f"/v2/main/models/a/blobs/uploads/?mount={sha256(b'x')}&from=victim/models/a"
    client.token(scope)
    answers, took = insist(lambda: client.call("POST", path, scope=scope), 8, 50)
    assert {answer.status for answer in answers} <= {202, 429}, {answer.status for answer in answers}  # 250 may be open
    assert all(answer["RateLimit"].endswith(f'";r=0;t={answer["Retry-After"]}') for answer in answers if answer.status == 429)
    assert sum(answer.status == 202 for answer in answers) == 250
    wait_until(lambda: metric("sijil_requests_in_flight", root) == 1, 20, "requests don't end")  # each is counted at its end, at the latest
    late = refused_for("denied_limit", root) - before
    assert late > 0, "none of the mounts was refused"
    assert SMALL_BURST <= len(answers) - late <= SMALL_BURST + SMALL_RATE * (took + 1), (late, took)
    each_is_accounted_for("blob.read", len(answers) - late)


def who_makes_rights_in_a_loop_stops_nobody_else():
    rate, burst = RIGHTS_RATE, 10 * RIGHTS_RATE
    root, made = fleet.client(fleet.admin), {}
    for name in ("crowded", "quiet"):
        root.api("POST", "/organisations", {"name": name})
        made[name] = fleet.client(make_robot(fleet, "chief", "org-admin", name, organisation=name))
        made[name].token("registry:admin:*")
    numbers, before, recorded = iter(range(10_000)), refused_for("rights_limit", root), in_the_log("robot.create", lambda text: Judge.sql_at(fleet, text))[0]

    def make(where, client):
        return client.call("POST", "/api/v1/robots", json.dumps({"organisation": where, "name": f"r{next(numbers)}"}),
                           {"Content-Type": "application/json"}, scope="registry:admin:*")

    answers, took = insist(lambda: make("crowded", made["crowded"]), 8, 15)
    late = [answer for answer in answers if answer.status == 429]
    assert {answer.status for answer in answers} == {201, 429} and all(answer["Retry-After"] for answer in late)
    assert {answer["RateLimit"] for answer in late} == {'"rights";r=0;t=1'}, {answer["RateLimit"] for answer in late}
    assert burst - 10 <= len(answers) - len(late) <= burst + rate * (took + 1), (len(late), took)  # the chief's own requests were counted
    await_count(lambda: refused_for("rights_limit", root), before + len(late), "refusals that are counted")
    assert in_the_log("robot.create", lambda text: Judge.sql_at(fleet, text))[0] == recorded
    assert make("quiet", made["quiet"]).status == 201  # another organisation has a separate budget
    first = next(answer for answer in answers if answer.status == 201).json["id"]
    assert made["crowded"].call("DELETE", "/api/v1/robots/" + first, scope="registry:admin:*").status == 204  # removing has no limit
    time.sleep(1.5)
    assert make("crowded", made["crowded"]).status == 201
    a_directory_that_floods_is_slowed(root)


def a_directory_that_floods_is_slowed(root):
    """Its changes have a budget as other rights have; that somebody leaves has none."""
    issuer, robot, now = Issuer("https://id.bank.example", f"https://127.0.0.1:{fleet.port}"), root.api("POST", "/robots", {"name": "scim"}), time.time()
    root.api("POST", "/issuers", {"url": issuer.url, "algorithms": ["ES256"], "jwks": issuer.jwks})
    document = signing_keys.canonical({"schema": "sijil.document/v1", "kind": "scim-service", "scope": "", "name": "bank", "version": 1,
                                       "effective_from": signing_keys.utc(now), "expires": signing_keys.utc(now + 86400),
                                       "body": {"issuer": issuer.url, "claim": "/sub", "client": "robot:" + robot["id"], "deactivations": 4}})
    root.api("POST", "/scim", signing_keys.sign(document, fleet.path("approver.pem"), "application/vnd.sijil.scim-service.v1+json"))
    sent = {"Authorization": "Basic " + base64.b64encode(f"{robot['name']}:{robot['secret']}".encode()).decode(), "Content-Type": "application/scim+json"}
    numbers = iter(range(1000))

    def provision():
        name = f"p{next(numbers)}"
        return root.call("POST", "/scim/v2/Users", json.dumps({"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": name, "externalId": name}), sent)

    answers, _ = insist(provision, 8, 8)
    late = [answer for answer in answers if answer.status == 429]
    assert {answer.status for answer in answers} == {201, 429} and all(answer["Retry-After"] and answer.json["status"] == "429" for answer in late), [answer.status for answer in answers]
    somebody = next(answer for answer in answers if answer.status == 201).json["id"]
    leaves = {"schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"], "Operations": [{"op": "replace", "path": "active", "value": False}]}
    answer = root.call("PATCH", "/scim/v2/Users/" + somebody, json.dumps(leaves), sent)
    assert answer.status == 200 and answer.json["active"] is False, (answer.status, answer.body)


def who_only_waits_has_no_reader():
    clients = {}
    for name in ("turning", "steady"):
        admin.api("POST", "/organisations", {"name": name})
        clients[name] = server.client(make_robot(server, "chief", "org-admin", name, organisation=name))
        clients[name].token("registry:admin:*")
    robot = clients["turning"].api("POST", "/robots", {"organisation": "turning", "name": "turned"})
    clients["turning"].api("POST", "/bindings", {"robot": robot["id"], "role": "org-admin", "scope": "turning"})
    path, answers, seconds = f"/api/v1/robots/{robot['id']}/secret", [], []
    old = server.client((robot["name"], robot["secret"]))
    listed = "/robots?organisation="
    old.api("GET", listed + "turning")

    def rotate():
        answers.append(clients["turning"].call("POST", path, "{}", {"Content-Type": "application/json"}, scope="registry:admin:*"))

    threads = [threading.Thread(target=rotate) for _ in range(ROTATIONS)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        began = time.monotonic()
        clients["steady"].api("GET", listed + "steady")
        seconds.append(time.monotonic() - began)
    assert {answer.status for answer in answers} == {200}, [answer.body for answer in answers if answer.status != 200][:1]
    assert max(seconds) < PATIENCE, sorted(seconds)[-5:]
    last = clients["turning"].api("POST", f"/robots/{robot['id']}/secret", {})
    old.api("GET", listed + "turning", expect=(401,))  # once the answer is there, the old tokens have ended
    server.client((last["name"], last["secret"])).api("GET", listed + "turning")  # and new ones are valid
    plans, _ = insist(lambda: clients["turning"].call("GET", "/api/v1/organisations/turning/deletion", scope="registry:admin:*"), 24, 2)
    assert {answer.status for answer in plans} == {200}, plans[0].body


links = {}  # address -> a connection from it


def link_from(address):
    if address not in links:
        links[address] = admin.connection(address=address)
    return links[address]


def log_in(name, secret, address, form=False):
    """Status and body of the answer to a name and a secret from `address`, as Basic or in a form."""
    basic = {"Authorization": "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()}
    said = urllib.parse.urlencode({"grant_type": "password", "service": "sijil", "username": name, "password": secret})
    if form:
        return admin.call("POST", "/token", said, {"Content-Type": "application/x-www-form-urlencoded"}, link_from(address))
    return admin.call("GET", "/token", None, basic, link_from(address))


def try_at_v2(name, secret, address):
    """A secret in the request itself gives no faster way to guess it than /token."""
    pair = base64.b64encode(f"{name}:{secret}".encode()).decode()
    return admin.call("GET", "/v2/", headers={"Authorization": "Basic " + pair}, connection=link_from(address))


def wrong_secrets_are_limited_by_name_and_network():
    name, secret = make_robot(server, "guessed", "consumer", "main/models")
    counted, began = refused_for("wrong_secrets"), time.monotonic()
    assert log_in(name, secret, "127.0.0.5").status == 200
    assert log_in(name, "wrong", "127.0.0.4").status == log_in("not-a-robot-" + secret, "wrong", "127.0.0.4").status == 401
    strangers = [event["who"] for event in admin.api("GET", "/audit/events?key=act:anonymous&limit=2")["events"]]
    assert [who.get("tried") for who in strangers] == [None, name] and secret not in str(strangers), strangers
    tried = {each: [log_in(each, "wrong", "127.0.0.5", form=i % 2) for i in range(2 * PER_NAME)] for each in (name, "robot$main+nobody")}
    more = int((time.monotonic() - began) * PER_NAME / 60) + 1  # tries that the passed time gave back
    for answers in tried.values():  # the same, whether or not there is such a robot
        late = [answer for answer in answers if answer.status == 429]
        assert {answer.status for answer in answers} == {401, 429}, {answer.status for answer in answers}
        assert PER_NAME <= len(answers) - len(late) <= PER_NAME + more, len(late)
        assert all(1 <= int(answer["Retry-After"]) <= 60 and answer["WWW-Authenticate"] is None for answer in late)
    guesses = 0  # tries come back with time: the right secret is accepted directly after a refused wrong one
    while log_in(name, "wrong", "127.0.0.5").status != 429:
        guesses += 1
    assert log_in(name, secret, "127.0.0.5").status == 200  # otherwise an outsider could lock out all clients of the same address
    assert log_in(name, secret, "127.0.0.6").status == 200  # a client that knows the name can't lock out clients of other addresses
    others = [log_in(f"robot$main+other{i}", "wrong", "127.0.0.5").status for i in range(3 * PER_NETWORK // 2)]
    assert set(others) == {401, 429}, set(others)
    assert log_in(name, secret, "127.0.0.5", form=True).status == 200
    assert PER_NETWORK - 2 * (PER_NAME + more) - guesses <= others.count(401) <= PER_NETWORK + (time.monotonic() - began) * PER_NETWORK / 60
    at_v2 = [try_at_v2(name, guess, "127.0.0.7") for guess in ["wrong"] * 2 * PER_NAME + [secret]]
    assert {answer.status for answer in at_v2[:-1]} == {401, 429} and at_v2[-1].status == 200, [answer.status for answer in at_v2]
    assert PER_NAME <= [answer.status for answer in at_v2].count(401) <= PER_NAME + (time.monotonic() - began) * PER_NAME / 60
    assert try_at_v2(name, secret, "127.0.0.8").status == 200
    others += [answer.status for answer in at_v2]
    late = sum(answer.status == 429 for answers in tried.values() for answer in answers) + 1 + others.count(429)
    await_count(lambda: refused_for("wrong_secrets"), counted + late, "refusals that are counted")
    wait_until(lambda: in_the_log("token.mint")[1] == not_recorded(), 60, "a refusal is in no event")


def half_sent(client, address):
    """Sends a document without its end."""
    connection = client.connection(address=address)
    connection.putrequest("POST", "/api/v1/projects")
    connection.putheader("Authorization", "Bearer " + client.token("registry:admin:*"))
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(DOCUMENT))
    connection.endheaders(b" " * (DOCUMENT - 1))
    return connection


def create_project(client, name):
    return client.call("POST", "/api/v1/projects", json.dumps({"organisation": "main", "name": name}),
                       {"Content-Type": "application/json"}, scope="registry:admin:*")


def fill_the_share(root, robots, waiting):
    """Fills the share with bodies of all robots but the last."""
    for i, robot in enumerate(robots[:-1]):
        waiting += [half_sent(robot, f"127.0.0.{i + 2}") for _ in range(SHARE // DOCUMENT // PRINCIPALS)]
        until = time.monotonic() + 60
        while (gathered := metric("sijil_gathered_bytes ", root)) < SHARE // PRINCIPALS * (i + 1):
            assert time.monotonic() < until, (i, gathered)
            time.sleep(0.1)
        if i == PRINCIPALS // 2 - 1:
            late = create_project(robots[-1], "more")
            assert late.status == 429 and b"organisation" in late.body and late["RateLimit"] == '"organisation";r=0;t=1', (late.body, late["RateLimit"])  # one organisation gets at most half of it
        if i > 0:
            continue
        before = refused_for("principal_limit", root)
        late = create_project(robot, "more")
        assert late.status == 429 and late["Retry-After"] == "1" and late["RateLimit"] == '"principal";r=0;t=1', late.body  # one principal gets only a part of it
        await_count(lambda: refused_for("principal_limit", root), before + 1, "refusals that are counted")
        assert create_project(root, "beside-one").status == 201


def who_may_nothing_keeps_nobody_out():
    root, waiting = fleet.client(fleet.admin), []
    root.api("POST", "/organisations", {"name": "beside"})
    robots = [fleet.client(make_robot(fleet, f"idler{i}", "consumer", "main/models")) for i in range(PRINCIPALS // 2)]
    robots += [fleet.client(make_robot(fleet, f"idler{i}", "consumer", "beside", organisation="beside")) for i in range(PRINCIPALS // 2)]
    robots += [fleet.client(make_robot(fleet, "late", "consumer", "main/models"))]
    login = make_robot(fleet, "publisher", "publisher", "main/models")
    fill_the_share(root, robots, waiting)
    kept_out = create_project(root, "other")
    assert kept_out.status == 503 and kept_out["Retry-After"], kept_out.body  # the share is full
    form = urllib.parse.urlencode({"grant_type": "password", "service": "sijil", "client_id": "test", "username": login[0],
                                   "password": login[1], "scope": "repository:main/models/a:pull"})
    answer = root.call("POST", "/token", form, {"Content-Type": "application/x-www-form-urlencoded"})
    assert answer.status == 200, answer.body  # clients without credentials send forms
    repository = fleet.client(login).repository("main/models/a")
    repository.push_blob(b"content")
    assert repository.put_manifest("v1", repository.manifest(b"content")).status == 201
    for connection in waiting:
        connection.close()
    wait_until(lambda: create_project(root, "other").status == 201, 30, "their share is not given back")


def the_small_limits_end():
    fleet.finish(False)


if __name__ == "__main__":
    fleet.start()
    run(who_is_denied_for_ever_does_not_fill_the_log, who_has_no_role_has_little_of_the_log,
        denied_mounts_become_uploads_and_do_not_fill_the_log, wrong_secrets_are_limited_by_name_and_network,
        who_may_nothing_keeps_nobody_out, who_makes_rights_in_a_loop_stops_nobody_else,
        who_only_waits_has_no_reader, the_small_limits_end, server=server)
