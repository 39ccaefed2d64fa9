#!/usr/bin/env python3
"""The manners of the API (docs/api.md): a repeat of a request makes nothing twice, at any gateway; documents have entity tags; limits are named."""
import concurrent.futures
import hashlib
import json
import os
import secrets
import select
import socket
import subprocess
import threading

import sijil_test
from fleet import Fleet
from grant_cases import Batches
from sijil_test import Client, make_robot, program, run

server = Fleet(2, log_level="warning", rights_rate_per_organisation=1000, rights_rate_per_principal=1000)
state = {}
ALL = "registry:admin:*"


def prepare():
    server.start()
    state["admin"], state["other"] = server.clients(server.admin)
    for name in ("main", "globex"):
        state["admin"].api("POST", "/organisations", {"name": name}, (201, 409))
    state["admin"].api("POST", "/projects", {"organisation": "main", "name": "one"})


def post(client, path, body, key, **headers):
    return client.call("POST", "/api/v1" + path, json.dumps(body), {"Idempotency-Key": key, **headers}, scope=ALL)


def new_key():
    return secrets.token_hex(16)


def count_projects():
    return len(state["admin"].api("GET", "/projects?limit=1000")["projects"])


# --- repeats --------------------------------------------------------------------------------------------------------------------
def a_repeat_makes_nothing_twice():
    key, before = new_key(), count_projects()
    first = post(state["admin"], "/projects", {"organisation": "main", "name": "twice"}, key)
    assert first.status == 201 and first["Idempotent-Replayed"] is None, first.body
    for client in (state["admin"], state["other"]):  # at either gateway
        again = post(client, "/projects", {"organisation": "main", "name": "twice"}, key)
        assert (again.status, again.body, again["Content-Type"]) == (201, first.body, first["Content-Type"]), again.body
        assert again["Idempotent-Replayed"] == "true" and again["Sijil-Audit"] != first["Sijil-Audit"], again.headers
    quoted = post(state["admin"], "/projects", {"organisation": "main", "name": "twice"}, f'"{key}"')
    assert quoted.body == first.body  # a String of RFC 9651 is the same key
    assert count_projects() == before + 1
    plain = state["admin"].call("POST", "/api/v1/projects", json.dumps({"organisation": "main", "name": "twice"}), scope=ALL)
    assert plain.status == 409, plain.body


def each_repeat_is_recorded():
    before = newest()
    key = new_key()
    post(state["admin"], "/projects", {"organisation": "main", "name": "recorded"}, key)
    post(state["admin"], "/projects", {"organisation": "main", "name": "recorded"}, key)
    events = [event for event in state["admin"].api("GET", "/audit/events?limit=20&order=descending")["events"] if event["seq"] > before]
    made = [event for event in events if "project.create" in json.dumps(event)]
    assert ["a repeat: nothing was done again" in json.dumps(event) for event in made] == [True, False], made


def newest():
    return state["admin"].api("GET", "/audit/events?limit=1&order=descending")["events"][0]["seq"]


def another_request_under_the_key_is_refused():
    key = new_key()
    assert post(state["admin"], "/projects", {"organisation": "main", "name": "first"}, key).status == 201
    for path, body in (("/projects", {"organisation": "main", "name": "second"}), ("/organisations", {"name": "second"})):
        answer = post(state["other"], path, body, key)
        assert answer.status == 422 and "Idempotency-Key" in answer.json["detail"], answer.body
    names = [each["name"] for each in state["admin"].api("GET", "/projects?limit=1000")["projects"]]
    assert "main/second" not in names


def a_copy_of_the_database_does_not_tell_the_request():
    """Whoever guesses a request can't compute what the row has of it."""
    body = json.dumps({"organisation": "main", "name": "guessed"})
    answer = state["admin"].call("POST", "/api/v1/projects", body, {"Content-Type": "application/json", "Idempotency-Key": new_key()}, scope=ALL)
    assert answer.status == 201, answer.body
    rows = server.psql.ask("SELECT string_agg(encode(request, 'hex'), ' ') FROM kept_answer").split()
    assert rows and hashlib.sha256(b"POST /api/v1/projects\n" + body.encode()).hexdigest() not in rows, rows


def a_key_is_of_one_caller():
    make_robot(server, "second-admin", "registry-admin", "")
    second = server.client(make_robot(server, "third-admin", "registry-admin", ""))
    key = new_key()
    assert post(state["admin"], "/projects", {"organisation": "main", "name": "mine"}, key).status == 201
    answer = post(second, "/projects", {"organisation": "main", "name": "mine"}, key)
    assert answer.status == 409 and answer["Idempotent-Replayed"] is None, answer.body  # it exists: the other caller's request is a new one
    assert post(second, "/projects", {"organisation": "main", "name": "hers"}, key).status == 201


def a_failed_request_leaves_the_key():
    key, body = new_key(), {"organisation": "nowhere", "name": "late"}
    assert post(state["admin"], "/projects", body, key).status == 404
    state["admin"].api("POST", "/organisations", {"name": "nowhere"})
    assert post(state["admin"], "/projects", body, key).status == 201  # done now
    assert post(state["admin"], "/projects", body, key)["Idempotent-Replayed"] == "true"


def a_secret_is_never_kept():
    key, body = new_key(), {"name": "kept", "organisation": "main"}
    first = post(state["admin"], "/robots", body, key)
    assert first.status == 201 and first.json["secret"], first.status
    again = post(state["other"], "/robots", body, key)
    assert again.status == 409 and "secret" in again.json["detail"] and first.json["secret"] not in again.body.decode(), again.body
    assert server.psql.ask("SELECT count(*) FROM kept_answer WHERE box IS NULL") == "1"
    robot, key = first.json["id"], new_key()
    rotated = post(state["admin"], f"/robots/{robot}/secret", {}, key)
    assert rotated.status == 200 and post(state["admin"], f"/robots/{robot}/secret", {}, key).status == 409
    assert server.client((first.json["name"], rotated.json["secret"])).token(ALL)  # the repeat has replaced nothing


def rights_count_at_each_repeat():
    login = make_robot(server, "leaver", "registry-admin", "")
    leaver, key, body = server.client(login), new_key(), {"organisation": "main", "name": "leaving"}
    assert post(leaver, "/projects", body, key).status == 201
    for binding in state["admin"].api("GET", "/bindings?limit=1000")["bindings"]:
        if "leaver" in json.dumps(binding):
            state["admin"].api("DELETE", f"/bindings/{binding['id']}")
    answer = post(leaver, "/projects", body, key)
    assert answer.status in (403, 404) and b"leaving" not in answer.body, answer.body


def bad_keys_are_refused():
    for key in ("", '""', "a b", "x" * 256, '"a', 'a"b', "a\\b", '"' + "x" * 256 + '"'):
        answer = post(state["admin"], "/organisations", {"name": "never"}, key)
        assert answer.status == 400, (key, answer.status)
        assert key == "" or "Idempotency-Key" in answer.json["detail"], answer.body
    assert post(state["admin"], "/organisations", {"name": "never"}, "one", **{"idempotency-key": "other"}).status == 400
    for number, key in enumerate(("x" * 255, "a;b=c", "~!#$%", "8e03978e-40d5-43dd-bc93-6894a57f9324")):
        answer = post(state["admin"], "/organisations", {"name": f"key-{number}"}, key)
        assert answer.status == 201, answer.body


def of_many_at_once_one_is_done():
    before = count_projects()
    for number in range(6):
        key, body = new_key(), {"organisation": "globex", "name": f"race{number}"}
        clients = [Client(server, server.admin, port=port) for port in server.ports for _ in range(4)]
        for client in clients:
            client.token(ALL)
        with concurrent.futures.ThreadPoolExecutor(len(clients)) as pool:
            answers = list(pool.map(lambda client, body=body, key=key: post(client, "/projects", body, key), clients))
        done = [answer for answer in answers if answer.status == 201]
        assert len([answer for answer in done if answer["Idempotent-Replayed"] is None]) == 1, [answer.status for answer in answers]
        assert len({answer.body for answer in done}) == 1
        for answer in answers:
            assert answer.status == 201 or answer.status == 409 and "Idempotency-Key" in answer.json["detail"], answer.body
        assert post(clients[0], "/projects", body, key).body == done[0].body
    assert count_projects() == before + 6


def a_change_without_its_answer_is_said():
    """As after kill -9 between the commit and the answer: for a minute the answer may be kept yet, by a gateway that lives."""
    key, body = new_key(), {"organisation": "main", "name": "halfway"}
    assert post(state["admin"], "/projects", body, key).status == 201
    server.psql.ask("UPDATE kept_answer SET salt = NULL, box = NULL")
    answer = post(state["admin"], "/projects", body, key)
    assert answer.status == 409 and "send it again" in answer.json["detail"] and answer["Retry-After"] == "1", answer.body
    server.psql.ask("UPDATE kept_answer SET expires_at = expires_at - interval '61 seconds'")
    answer = post(state["admin"], "/projects", body, key)
    assert answer.status == 409 and "carried out before" in answer.json["detail"] and answer["Retry-After"] is None, answer.body


def a_forged_answer_is_not_sent():
    """Whoever writes rows can have a change refused, and can't make a client believe in one."""
    keys = [new_key(), new_key()]
    bodies = [{"organisation": "main", "name": f"forged{number}"} for number in (0, 1)]
    for key, body in zip(keys, bodies):
        assert post(state["admin"], "/projects", body, key).status == 201
    rows = server.psql.ask("SELECT encode(name, 'hex') FROM kept_answer WHERE box IS NOT NULL ORDER BY expires_at DESC LIMIT 2")
    newer, older = rows.split()
    server.psql.ask(f"UPDATE kept_answer a SET salt = b.salt, box = b.box FROM kept_answer b WHERE a.name = '\\x{newer}' AND b.name = '\\x{older}'")
    answer = post(state["admin"], "/projects", bodies[1], keys[1])
    assert answer.status == 409 and b"forged0" not in answer.body, answer.body
    server.psql.ask(f"UPDATE kept_answer SET box = set_byte(box, 30, get_byte(box, 30) # 1) WHERE name = '\\x{older}'")
    assert post(state["admin"], "/projects", bodies[0], keys[0]).status == 409


def rows_end_after_a_day():
    key, body = new_key(), {"organisation": "main", "name": "old"}
    assert post(state["admin"], "/projects", body, key).status == 201
    try:
        server.psql.ask("SET ROLE sijil_app; DELETE FROM kept_answer")
        raise LookupError("rows can be deleted before their time")
    except AssertionError as why:
        assert "is kept until" in str(why), why
    finally:
        server.psql.ask("RESET ROLE")
    server.psql.ask("UPDATE kept_answer SET expires_at = now() - interval '1 minute'")
    answer = post(state["admin"], "/projects", body, key)
    assert answer.status == 409 and "carried out" not in answer.json["detail"], answer.body  # a new request, of which the project is there
    for number in range(20):
        assert post(state["admin"], "/projects", {"organisation": "main", "name": f"sweep{number}"}, new_key()).status == 201
    assert server.psql.ask("SELECT count(*) FROM kept_answer WHERE expires_at < now()") == "0"


def a_conflict_costs_its_group_nothing():
    """Changes that fail before they touch a row are no work for the others of their group; a key makes no difference."""
    body, before = {"organisation": "main", "name": "again"}, rollbacks()
    assert post(state["admin"], "/projects", body, new_key()).status == 201
    for _ in range(3):
        assert post(state["admin"], "/projects", body, new_key()).status == 409
    assert rollbacks() == before


def rollbacks():
    lines = [line for client in (state["admin"], state["other"]) for line in client.call("GET", "/metrics").body.decode().splitlines()]
    counts = [int(line.split()[-1]) for line in lines if line.startswith("sijil_audit_rollbacks_total")]
    assert len(counts) == 2, lines
    return sum(counts)


def of_one_caller_the_newest_are_kept():
    one = "SELECT subject FROM kept_answer WHERE box IS NOT NULL ORDER BY expires_at DESC LIMIT 1"
    server.psql.ask("INSERT INTO kept_answer SELECT k.subject, sha256(convert_to(n::text, 'UTF8')), k.request, now() + n * interval '1 second', k.salt, k.box"
                    f" FROM (SELECT * FROM kept_answer WHERE box IS NOT NULL AND subject = ({one}) LIMIT 1) k, generate_series(1, 1200) n")
    rows = int(server.psql.ask(f"SELECT count(*) FROM kept_answer WHERE subject = ({one})"))
    key, body = new_key(), {"organisation": "main", "name": "newest"}
    assert post(state["admin"], "/projects", body, key).status == 201
    assert post(state["admin"], "/projects", body, key)["Idempotent-Replayed"] == "true"
    assert server.psql.ask(f"SELECT count(*) >= {rows}, count(box) FROM kept_answer WHERE subject = ({one})").replace("|", " ").split() == ["t", "1000"]


def rows_go_with_the_key_of_their_caller():
    assert int(server.psql.ask("SELECT count(*) FROM kept_answer WHERE expires_at > now()")) > 0
    server.psql.ask("BEGIN")
    server.psql.ask("DELETE FROM audit_subject WHERE id IN (SELECT subject FROM kept_answer)")
    left = server.psql.ask("SELECT count(*) FROM kept_answer")
    server.psql.ask("ROLLBACK")
    assert left == "0"


def kill_9_makes_nothing_twice():
    key, body = new_key(), {"organisation": "main", "name": "killed"}
    assert post(state["other"], "/projects", body, key).status == 201
    server.psql.ask("UPDATE kept_answer SET expires_at = now() - interval '1 second' WHERE expires_at < now() + interval '2 hours'")
    server.kill(1)
    assert post(state["admin"], "/projects", body, key)["Idempotent-Replayed"] == "true"
    server.start_gateway(1)
    server.wait_for_gateway(1)
    sijil_test.wait_until(lambda: server.psql.ask("SELECT count(*) FROM kept_answer WHERE expires_at < now()") == "0", 40, "rows stay after their end, if nobody repeats")


class Cutter(threading.Thread):
    """Passes a connection on, and ends it when the registry answers the client's flight of this number; later connections pass whole, or `is_last`."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.registry, self.flight, self.cuts, self.is_last = port, 0, 0, False
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.start()

    def run(self):
        while True:
            client, _ = self.socket.accept()
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        flights, last = 0, None
        if self.is_last and self.cuts > 0:
            client.close()
            return
        with client, socket.create_connection(("127.0.0.1", self.registry)) as registry:
            while True:
                for ready in select.select([client, registry], [], [])[0]:
                    data = ready.recv(1 << 16)
                    if not data:
                        return
                    flights += ready is client and last is not client
                    last = ready
                    if ready is registry and flights == self.flight and self.cuts == 0:
                        self.cuts += 1
                        return
                    (registry if ready is client else client).sendall(data)


def sijil_repeats_what_it_can_not_know():
    """The answer to `sijil admin organisation create` is lost: the command sends it again, and the organisation was made once."""
    cutter, folder = Cutter(server.port), server.path("home")
    environment = {**os.environ, "HOME": folder, "XDG_CONFIG_HOME": folder}
    place = f"127.0.0.1:{cutter.port}"

    def sijil(*words):
        done = subprocess.run([program("sijil"), *words], env=environment, capture_output=True, text=True, timeout=60, input=server.admin[1] + "\n")
        assert done.returncode == 0, done.stderr

    os.makedirs(folder)
    sijil("login", place, "--username", server.admin[0], "--password-stdin", "--ca-file", server.ca_file)
    lost = 0
    for flight in (2, 3, 4):  # of the request for a token, or of the one that makes something: as the TLS library sends them
        cutter.flight, cutter.cuts, before = flight, 0, newest()
        try:
            sijil("admin", "organisation", "create", place, f"cut{flight}")
        except AssertionError:  # the token's answer was lost, and nothing was made
            assert cutter.cuts and f"cut{flight}" not in [each["name"] for each in state["admin"].api("GET", "/organisations?limit=1000")["organisations"]]
            continue
        events = [event for event in state["admin"].api("GET", "/audit/events?limit=50&order=descending")["events"] if event["seq"] > before]
        lost += len([event for event in events if "organisation.create" in json.dumps(event)]) == 2
    assert lost == 1, lost


def sijil_tells_what_it_can_not_know():
    """What takes no key is not sent again; and if the registry is gone after a lost answer, the failure to reach it is not the last word."""
    cutter, folder = Cutter(server.port), server.path("lost")
    environment = {**os.environ, "HOME": folder, "XDG_CONFIG_HOME": folder}
    place, order = f"127.0.0.1:{cutter.port}", server.path("order.json")

    def sijil(*words):
        return subprocess.run([program("sijil"), *words], env=environment, capture_output=True, text=True, timeout=60, input=server.admin[1] + "\n")

    os.makedirs(folder)
    with open(order, "w", encoding="ascii") as file:
        json.dump({"payloadType": "application/json", "payload": "e30=", "signatures": [{"sig": "AAAA"}]}, file)
    assert sijil("login", place, "--username", server.admin[0], "--password-stdin", "--ca-file", server.ca_file).returncode == 0
    told = []
    for flight in (2, 3, 4):
        cutter.flight, cutter.cuts, before = flight, 0, newest()
        said = sijil("admin", "log-key", "rotate", place, order)
        events = [event for event in state["admin"].api("GET", "/audit/events?limit=50&order=descending")["events"] if event["seq"] > before]
        asked = [event for event in events if "logkey.rotate" in json.dumps(event)]
        assert said.returncode != 0 and len(asked) <= 1, (said.stderr, events)
        told.append((len(asked), "look whether it was done" in said.stderr))
    assert (1, True) in told, told
    for flight in (3, 4):
        cutter.flight, cutter.cuts, cutter.is_last = flight, 0, True
        said = sijil("admin", "organisation", "create", place, f"gone{flight}")
        if f"gone{flight}" in [each["name"] for each in state["admin"].api("GET", "/organisations?limit=1000")["organisations"]]:
            assert said.returncode != 0 and "look whether it was done" in said.stderr, said.stderr
            return
    raise LookupError("the answer was lost nowhere")


# --- entity tags ----------------------------------------------------------------------------------------------------------------
def rules(client, method, body=None, **headers):
    return client.call(method, "/api/v1/projects/main/one/rules", None if body is None else json.dumps(body), headers, scope=ALL)


def rules_are_changed_by_those_who_know_them():
    admin, other = state["admin"], state["other"]
    first = rules(admin, "GET")
    tag = first["ETag"]
    assert first.status == 200 and tag.startswith('"'), first.headers
    unchanged = rules(admin, "GET", **{"If-None-Match": tag})
    assert unchanged.status == 304 and unchanged["ETag"] == tag and not unchanged.body
    mine, hers = {"immutable": [{"repositories": "*", "tags": "v*"}]}, {"immutable": [{"repositories": "*", "tags": "w*"}]}
    changed = rules(admin, "PUT", mine, **{"If-Match": tag})
    assert changed.status == 200, changed.body
    assert changed["ETag"] == rules(other, "GET")["ETag"] != tag
    late = rules(other, "PUT", hers, **{"If-Match": tag})
    assert late.status == 412 and "read it again" in late.json["detail"], late.body
    assert rules(admin, "GET").json == changed.json
    assert rules(other, "PUT", hers, **{"If-Match": "*"}).status == 200
    assert rules(other, "PUT", mine, **{"If-None-Match": "*"}).status == 412  # there are some
    assert rules(other, "PUT", mine, **{"If-Match": f'W/{rules(other, "GET")["ETag"]}'}).status == 412  # a weak tag never matches


def of_two_who_know_the_same_one_wins():
    for number in range(10):
        tag = rules(state["admin"], "GET")["ETag"]
        bodies = [{"immutable": [{"repositories": "*", "tags": f"{name}{number}*"}]} for name in ("a", "b")]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(lambda pair, tag=tag: rules(pair[0], "PUT", pair[1], **{"If-Match": tag}), zip((state["admin"], state["other"]), bodies)))
        assert sorted(answer.status for answer in answers) == [200, 412], [answer.body for answer in answers]


# --- limits ---------------------------------------------------------------------------------------------------------------------
def limits_are_named():
    state["admin"].api("PUT", "/projects/main/one/quota", {"events_per_minute": 40})
    pusher = server.client(make_robot(server, "pusher", "publisher", "main/one"))
    place = "/v2/main/one/none/tags/list"
    left = []
    sijil_test.wait_until(lambda: pusher.call("GET", place, scope="repository:main/one/none:pull")["RateLimit"] is not None, 30, "the quota is not in force")
    for _ in range(60):
        answer = pusher.call("GET", place, scope="repository:main/one/none:pull")
        name, *members = answer["RateLimit"].split(";")
        members = dict(member.split("=") for member in members)
        assert answer["RateLimit-Policy"] == '"requests-per-minute";q=40;w=60' and name == '"requests-per-minute"', answer.headers
        assert 0 <= int(members["t"]) <= 60
        left.append(int(members["r"]))
        if answer.status == 429:
            break
    assert answer.status == 429 and left[-1] == 0 and answer["Retry-After"] == members["t"], (answer.status, left)
    assert max(left) < 40 and left[0] > left[-2], left
    other = state["admin"].call("GET", "/api/v1/projects", scope=ALL)
    assert other["RateLimit"] is None  # nothing limits it that could be said


run(prepare, a_repeat_makes_nothing_twice, each_repeat_is_recorded, another_request_under_the_key_is_refused, a_copy_of_the_database_does_not_tell_the_request, a_key_is_of_one_caller, a_failed_request_leaves_the_key,
    a_secret_is_never_kept, rights_count_at_each_repeat, bad_keys_are_refused, of_many_at_once_one_is_done, a_change_without_its_answer_is_said,
    a_forged_answer_is_not_sent, rows_end_after_a_day, a_conflict_costs_its_group_nothing, of_one_caller_the_newest_are_kept, rows_go_with_the_key_of_their_caller, kill_9_makes_nothing_twice, sijil_repeats_what_it_can_not_know, sijil_tells_what_it_can_not_know,
    rules_are_changed_by_those_who_know_them, of_two_who_know_the_same_one_wins,
    *Batches(server).all(), limits_are_named, server=server)
