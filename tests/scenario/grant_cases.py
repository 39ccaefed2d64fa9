"""Many roles in one request, and from a file (docs/identity.md, "Many roles at once"), as cases of the two gateways of manners.py."""
import json
import os
import re
import subprocess
import threading

from sijil_test import Client, make_robot, program, wait_until

ALL = "registry:admin:*"
ISSUER = "https://ci.example"
UUID = "[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"


def subject(name, role="consumer", scope="bulk/one", **more):
    return {"issuer": ISSUER, "subject": name, "role": role, "scope": scope, **more}


class Batches:
    def __init__(self, server):
        self.server, self.chief = server, None

    def prepare(self):
        self.admin, self.other = self.server.clients(self.server.admin)
        self.admin.api("POST", "/organisations", {"name": "bulk"})
        for name in ("one", "two"):
            self.admin.api("POST", "/projects", {"organisation": "bulk", "name": name})
        self.chief_login = make_robot(self.server, "chief", "org-admin", "bulk", "bulk")
        self.chief, self.lead = self.server.client(self.chief_login), self.server.client(make_robot(self.server, "lead", "project-admin", "bulk/one", "bulk"))
        self.robot = self.admin.api("POST", "/robots", {"organisation": "bulk", "name": "reader"})

    def send(self, client, bindings, scope="bulk", **headers):
        return client.call("POST", f"/api/v1/bindings/batch?scope={scope}", json.dumps({"bindings": bindings}), headers, scope=ALL)

    def rows(self, where="true"):
        return int(self.server.psql.ask(f"SELECT count(*) FROM binding WHERE revoked_at IS NULL AND {where}"))

    def outcomes(self, first):
        """Of the grants behind this event, in the order of the log."""
        return self.server.psql.ask(f"SELECT coalesce(string_agg(seq || ' ' || outcome, ',' ORDER BY seq), '') FROM audit_entry WHERE action = 'binding.create' AND seq > {first}")

    def each_is_answered_by_itself(self):
        self.prepare()
        reader, chief = self.robot["name"], self.chief_login[0]
        asked = ((subject("ann"), 201, None), ({"robot": reader, "role": "publisher", "scope": "bulk/one"}, 201, None),
                 ({"robot": self.robot["id"], "role": "consumer", "scope": "bulk/one/a/*", "expires_days": 30}, 201, None), (subject("ann"), 409, "given"),
                 ({"robot": reader, "role": "publisher", "scope": "bulk/one"}, 409, "given"), (subject("bob", role="no such"), 400, "no role"),
                 (subject("bob", colour="red"), 400, "colour"), ({"role": "consumer"}, 400, "scope"), ("text", 400, "object"), (subject("bob", robot=reader), 400, "not for both"),
                 ({"role": "consumer", "scope": "bulk/one"}, 400, "a binding is for"), (subject("bob", scope="main/one"), 400, "inside"), (subject("bob", scope=""), 400, "inside"),
                 (subject("bob", scope="bulky/one"), 400, "inside"), (subject("bob", scope="bulk//x"), 400, "a scope is"), (subject("bob", expires_days=3651), 400, "expires_days"),
                 (subject("bob", role="security-officer", scope="bulk"), 400, "one by one"), (subject("bob", scope="bulk/gone"), 404, "no such"),
                 ({"robot": "robot$bulk+gone", "role": "consumer", "scope": "bulk/one"}, 404, "no such"), ({"robot": chief, "role": "consumer", "scope": "bulk/one"}, 403, "itself"),
                 (subject("bob", role="org-admin", scope="bulk"), 400, "one by one"), (subject("eve", role="project-admin"), 201, None), (subject("bob", scope="bulk/two"), 201, None))
        before, size = self.rows(), int(self.server.psql.ask("SELECT size FROM audit_log"))
        answer = self.send(self.chief, [body for body, _, _ in asked])
        assert answer.status == 200, answer.body
        found = answer.json["bindings"]
        for (body, status, why), one in zip(asked, found, strict=True):
            assert one["status"] == status and (why is None or why in one["detail"]), (body, one)
            assert ("id" in one) == (status == 201) and one.get("is_there", False) == (why == "given"), (body, one)
            assert ("event" in one) == (status in (201, 409, 404, 403)), (body, one)
        given = [one for one in found if one["status"] == 201]
        assert answer.json["given"] == len(given) == self.rows() - before == 5
        assert found[19]["rule"] == "SYS-SELF-GRANT" and found[2]["expires"] < found[0]["expires"]
        said = dict(one.split() for one in self.outcomes(size - 1).split(","))
        for one in found:  # each has the event that it names, and there is no other one
            if "event" in one:
                assert said.pop(str(one["event"])) in {201: ("allowed",), 409: ("failed",), 404: ("denied", "failed"), 403: ("denied",)}[one["status"]], one
        assert not said, said
        for one in given:  # the event tells its row
            assert one["id"] in json.dumps(self.admin.api("GET", f"/audit/events/{one['event']}")), one
        self.send(self.lead, [subject("kim")], "bulk/one")
        lead = self.send(self.lead, [subject("kim"), subject("kim", scope="bulk/one/a/*"), subject("kim", role="project-admin"), subject("kim", scope="bulk/two")], "bulk/one")
        assert [one["status"] for one in lead.json["bindings"]] == [409, 201, 403, 400], lead.body

    def what_is_no_batch_is_refused_whole(self):
        before = self.rows()
        many = [subject(f"many{number}") for number in range(1001)]
        for body in ({}, {"bindings": []}, {"bindings": {}}, {"bindings": many}, {"bindings": [subject("x")], "more": 1}, []):
            answer = self.chief.call("POST", "/api/v1/bindings/batch?scope=bulk", json.dumps(body), scope=ALL)
            assert answer.status == 400, (str(body)[:80], answer.status)
        reader = self.server.client((self.robot["name"], self.robot["secret"]))
        for client, scope, status in ((self.lead, "bulk", 403), (self.chief, "main", 404), (self.chief, "gone", 404), (self.chief, "", 403), (reader, "bulk", 403), (self.admin, "gone", 404),
                                      (self.chief, "bulk/one/x", 404)):
            assert self.send(client, [subject("x")], scope).status == status, (scope, status)
        assert self.server.client().call("POST", "/api/v1/bindings/batch?scope=bulk", json.dumps({"bindings": [subject("x")]})).status == 401
        assert self.rows() == before

    def a_key_holds_for_the_whole(self):
        few, many = ([subject(f"{name}{number}") for number in range(count)] for name, count in (("few", 40), ("all", 300)))
        first = self.send(self.chief, few, **{"Idempotency-Key": "few"})
        assert first.status == 201 and first.json["given"] == 40, first.body
        second = Client(self.server, self.chief_login, port=self.server.ports[1])
        again = self.send(second, few, **{"Idempotency-Key": "few"})
        assert (again.status, again.body, again["Idempotent-Replayed"]) == (201, first.body, "true"), again.body
        assert self.send(self.chief, few[:1], **{"Idempotency-Key": "few"}).status == 422
        before = self.rows()
        assert self.send(self.chief, many, **{"Idempotency-Key": "many"}).json["given"] == 300
        assert self.send(second, many, **{"Idempotency-Key": "many"}).status == 409  # its answer is too long to be kept
        assert self.rows() == before + 300
        found = self.send(second, many).json  # without the key each is looked at again
        assert found["given"] == 0 and all(one["is_there"] for one in found["bindings"]) and self.rows() == before + 300

    def kill_9_in_the_middle_leaves_rows_and_events_equal(self):
        size = int(self.server.psql.ask("SELECT size FROM audit_log"))
        answers, sender = [], Client(self.server, self.chief_login, port=self.server.ports[1])
        sender.token(ALL)

        def send():
            for turn in range(50):
                try:
                    answers.append(self.send(sender, [subject(f"kill{turn}-{number}") for number in range(200)]).json)
                except OSError:
                    return
        thread = threading.Thread(target=send)
        thread.start()
        wait_until(lambda: answers and self.rows("subject LIKE 'kill%'") % 200 > 32, 30, "no batch is half done")
        self.server.kill(1)
        thread.join()
        self.server.wait_settled(1)
        self.server.start_gateway(1)
        self.server.wait_for_gateway(1)
        rows = set(self.server.psql.ask("SELECT binding_id FROM binding WHERE subject LIKE 'kill%'").split())
        given = {one["id"] for answer in answers for one in answer["bindings"] if one["status"] == 201}
        assert given < rows and len(rows) < 10000, (len(given), len(rows))  # what was acknowledged is there, and more
        leaves = self.server.psql.ask(f"SELECT convert_from(leaf, 'UTF8') FROM audit_entry WHERE action = 'binding.create' AND outcome = 'allowed' AND seq >= {size}").splitlines()
        assert len(leaves) == len(rows) and rows == {word for leaf in leaves for word in re.findall(UUID, leaf) if word in rows}, (len(leaves), len(rows))

    def a_file_is_granted_and_may_be_granted_again(self):
        folder, path = self.server.path("granting"), self.server.path("roles.ndjson")
        os.makedirs(folder)
        environment = {**os.environ, "HOME": folder, "XDG_CONFIG_HOME": folder}

        def sijil(*words, status=0):
            done = subprocess.run([program("sijil"), *words], env=environment, capture_output=True, text=True, timeout=120, input=self.server.admin[1] + "\n", check=False)
            assert done.returncode == status, (done.returncode, done.stderr)
            return done

        place = f"127.0.0.1:{self.server.port}"
        sijil("login", place, "--username", self.server.admin[0], "--password-stdin", "--ca-file", self.server.ca_file)
        rows = [{"robot": "bulk/reader", "role": "trainer", "scope": "bulk/two"}, *(subject(f"file{number}", scope="bulk/two" if number % 2 else "main/one") for number in range(300))]
        with open(path, "w", encoding="utf-8") as file:
            file.write("# an export\n\n" + "\n".join(json.dumps(row) for row in rows) + "\n")
        said = json.loads(sijil("admin", "grant", place, "--file", path, "--json").stdout)
        assert said == {"given": 301, "refused": [], "there": 0}, said
        with open(path, "a", encoding="utf-8") as file:
            file.write("nonsense\n" + json.dumps(subject("file", role="unknown")) + "\n" + json.dumps(subject("file")) + "\n" + json.dumps(subject("x", role="registry-admin", scope="")) + "\n" + "{" + " " * 5000 + "}\n[]\n" + json.dumps(subject("x", role="no\x1b[2J\u202erole")))
        again = sijil("admin", "grant", place, "--file", path, status=4)
        assert "301 there already, 6 refused" in again.stderr.replace("1 given, ", "") and "6 of the lines were refused" in again.stderr, again.stderr
        assert "no role called no?[2J" in again.stderr and "\x1b" not in again.stderr and "\u202e" not in again.stderr, again.stderr
        for line in (304, 305, 307, 308, 309, 310):
            assert f"line {line}: " in again.stderr, again.stderr
        assert self.rows("subject LIKE 'file%'") == 301
        sijil("admin", "grant", place, status=2)

    def each_counts_in_the_limits(self):
        """With the default limits: 20 a second of one organisation, and as many refusals of one caller; both with a reserve of ten seconds."""
        admin, start = self.server.client(self.server.admin), self.server.psql.ask("SELECT size FROM audit_log")
        admin.api("POST", "/organisations", {"name": "fast"})
        admin.api("POST", "/projects", {"organisation": "fast", "name": "one"})
        chief = self.server.client(make_robot(self.server, "chief", "org-admin", "fast", "fast"))
        lead = self.server.client(make_robot(self.server, "lead", "project-admin", "fast/one", "fast"))
        for client, role, status, scope in ((chief, "consumer", 201, "fast"), (lead, "project-admin", 403, "fast/one")):
            size = int(self.server.psql.ask("SELECT size FROM audit_log"))
            found = self.send(client, [subject(f"{role}{number}", role, "fast/one") for number in range(500)], scope).json["bindings"]
            done = [one for one in found if one["status"] == status]
            late = [one for one in found if one["status"] == 429]
            assert len(done) + len(late) == 500 and len(done) > 150 and late, (len(done), len(late))
            assert all("event" in one for one in done) and not any("event" in one for one in late)
            events = self.server.psql.ask(f"SELECT count(*) FROM audit_entry WHERE action = 'binding.create' AND seq >= {size}")
            assert int(events) == len(done), (events, len(done))
        assert int(self.server.psql.ask(f"SELECT count(*) FROM audit_entry WHERE action = 'denied.burst' AND outcome = 'denied' AND seq >= {start}")) > 0
        assert self.rows("subject LIKE 'consumer%'") > 150 and self.rows("subject LIKE 'project-admin%'") == 0

    def all(self):
        return [self.each_is_answered_by_itself, self.what_is_no_batch_is_refused_whole, self.a_key_holds_for_the_whole, self.kill_9_in_the_middle_leaves_rows_and_events_equal,
                self.a_file_is_granted_and_may_be_granted_again]
