"""Roles of signed documents and roles for some hours (docs/identity.md), as cases of the two gateways and the people of break_glass.py."""
import concurrent.futures
import datetime
import json
import os
import threading
import time

import signing_keys
from signing_keys import DAY, canonical, utc
from sijil_test import NoToken, make_person, make_robot, wait_until

TYPE = "application/vnd.sijil.role.v1+json"
READS = ["manifest.read", "manifest.stat", "blob.read", "blob.stat", "tag.list", "project.read"]
SECONDS = 1  # in which a new version counts at each gateway
DENIED = {401, 403, 404}
LIVES = {"binding_days_default": 200, "binding_days_max": 300, "robot_days_max": 80, "role_document_days_max": 400}  # settings of the gateways


def once_known(what):
    """What it says; None while a gateway gives no token to a new robot, because it has not loaded it yet."""
    try:
        return what()
    except NoToken:
        return None


class OwnRoles:
    def __init__(self, world):
        self.world, self.server, self.people, self.keys, self.state = world, world.server, world.people, world.keys, world.state

    def api(self, who, method, path, body=None):
        return self.world.call(self.people[who], method, path, body)

    def file(self, name, **body):
        path = os.path.join(self.world.folder.name, name + ".json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"name": name, "meaning": "reads", "organisation": "main", **body}, file)
        return path

    def document(self, version, **body):
        now = time.time()
        more = {"withdrawn": "a test"} if not body else {}
        return canonical({"schema": "sijil.document/v1", "kind": "role", "scope": "", "name": "main.curator", "version": version, "effective_from": utc(now - 1),
                          "expires": utc(now + DAY), "body": body, **more})

    def sign(self, document, *whom):
        return [signing_keys.sign(document, self.keys[who].path, TYPE) for who in whom]

    def pulls(self, robot):
        return [client.call("GET", "/v2/main/other/x/blobs/" + self.state["digest"], scope="repository:main/other/x:pull").status
                for client in self.server.clients(robot)]

    def in_time(self, robot, wanted, since):
        """All gateways know it within a second of the answer; a slow machine's own share is measured, too."""
        wait_until(lambda: wanted(self.pulls(robot)), 10, "a gateway does not know the new version")
        took = time.monotonic() - since
        assert took < SECONDS + 2, took  # five requests, and their tokens, are in it
        return took

    # --- cases -------------------------------------------------------------------------------------------------------------------
    def a_role_is_signed_by_two_persons(self):
        sijil, at = self.world.sijil, self.world.at()
        robot = make_robot(self.server, "curator", "consumer", "main/models")
        self.state["curator"], wanted = robot, {"robot": robot[0], "role": "main.curator", "scope": "main/other"}
        answer = self.api("alice", "POST", "/bindings", wanted)
        assert answer.status == 403 and "no signed document of a role" in answer.json["detail"], answer.body
        assert "no right to grant" in sijil("bob", "admin", "role", "draft", at, self.file("main.curator", actions=["binding.create"]), "--key", self.keys["bob"].path, works=False)
        assert "built-in roles have no dot" in sijil("bob", "admin", "role", "draft", at, self.file("curator", actions=READS), "--key", self.keys["bob"].path, works=False)
        sijil("bob", "admin", "role", "draft", at, self.file("main.curator", actions=READS), "--key", self.keys["bob"].path)
        assert "another person signs, too" in sijil("bob", "admin", "role", "approve", at, "main.curator", "--key", self.keys["bob"].path, works=False)
        assert self.api("alice", "GET", "/roles").status == 403  # an administrator of an organisation
        assert set(self.pulls(robot)) <= DENIED and self.api("alice", "POST", "/bindings", wanted).status == 403
        sijil("carol", "admin", "role", "approve", at, "main.curator", "--key", self.keys["carol"].path)
        listed = sijil("carol", "admin", "role", "list", at)
        assert "main.curator  in force  1" in listed and "reads" in listed, listed
        answer = self.api("alice", "POST", "/bindings", wanted)
        assert answer.status == 201 and answer.json["role"] == "main.curator", answer.body
        self.state["curates"] = answer.json["id"]
        wait_until(lambda: self.pulls(robot) == [200, 200], 10, "a gateway does not know the role")
        pushed = self.server.client(robot).call("POST", "/v2/main/other/x/blobs/uploads/", scope="repository:main/other/x:pull,push")
        assert pushed.status in (401, 403), pushed.body

    def its_version_is_named(self):
        robot = self.state["curator"]
        own = next(one for one in self.server.client(robot).api("GET", "/self")["roles"] if one["role"] == "main.curator")
        assert (own["role_version"], own["origin"], own["scope"]) == (1, "binding", "main/other"), own
        question = {"robot": robot[0], "action": "blob.read", "resource": "main/other/x"}
        answer = self.api("alice", "POST", "/authz/explain", question)
        assert answer.status == 200 and answer.json["allowed"], answer.body
        assert [(one["role"], one["role_version"], one["decides"]) for one in answer.json["roles"]] == [("main.curator", 1, True)], answer.body
        assert "version 1 of the role" in self.world.sijil("alice", "authz", "explain", self.world.at(), robot[0], "blob.read", "main/other/x")
        review = self.server.client(self.people["carol"]).api("GET", "/access/review?scope=main/other&limit=200")["roles"]
        assert [(one["role_version"], one["origin"], "last_used" in one) for one in review if one["role"] == "main.curator"] == [(1, "binding", True)], review

    def a_new_version_counts_at_once_and_an_old_one_never_again(self):
        robot = self.state["curator"]
        first = self.document(1, meaning="reads", organisation="main", actions=READS)
        narrow = self.document(2, meaning="lists", organisation="main", actions=["tag.list"])
        drafted, approved = self.sign(narrow, "bob", "carol")
        assert self.api("bob", "POST", "/roles", drafted).status == 201
        answer = self.api("carol", "POST", "/roles/main.curator/approval", {"envelopes": [drafted, approved]})
        assert answer.status == 201, answer.body
        self.in_time(robot, lambda seen: set(seen) <= DENIED, time.monotonic())
        answer = self.api("bob", "POST", "/roles", self.sign(first, "bob")[0])
        assert answer.status == 409, answer.body
        wide = self.document(3, meaning="reads again", organisation="main", actions=READS)
        drafted, approved = self.sign(wide, "bob", "carol")
        assert self.api("bob", "POST", "/roles", drafted).status == 201
        assert self.api("carol", "POST", "/roles/main.curator/approval", {"envelopes": [drafted, approved]}).status == 201
        self.in_time(robot, lambda seen: seen == [200, 200], time.monotonic())

    def it_counts_in_its_organisation_alone_and_by_its_document_alone(self):
        """A row names a role: what that permits, no row says. A row with a name that no document has gives nothing, and hinders nobody."""
        stranger = make_robot(self.server, "stranger", "consumer", "main/models")
        self.server.psql.ask("INSERT INTO binding (binding_id, robot_id, role, organisation_id, granted_by) SELECT gen_random_uuid(), r.robot_id, 'main.nothing',"
                             f" r.organisation_id, 'system' FROM robot r WHERE r.name = '{stranger[0]}'; SELECT raise_authorization_epoch()")
        later = make_robot(self.server, "later", "consumer", "main/other")
        wait_until(lambda: once_known(lambda: self.pulls(later)) == [200, 200], 10, "the row hinders others")
        assert set(self.pulls(stranger)) <= DENIED
        assert [one["role"] for one in self.server.client(stranger).api("GET", "/self")["roles"]] == ["consumer"]
        admin = self.server.client(self.server.admin)
        admin.api("POST", "/organisations", {"name": "globex"}, (201, 409))
        other = admin.api("POST", "/robots", {"organisation": "globex", "name": "curator"})
        answer = self.server.client(self.server.admin).call("POST", "/api/v1/bindings", json.dumps({"robot": other["id"], "role": "main.curator", "scope": "globex"}),
                                                            {"Content-Type": "application/json"}, scope="registry:admin:*")
        assert answer.status == 403 and "no signed document of a role" in answer.json["detail"], answer.body

    def a_withdrawn_role_gives_nothing(self):
        robot, at = self.state["curator"], self.world.at()
        self.world.sijil("bob", "admin", "role", "revoke", at, "main.curator", "--reason", "a test", "--key", self.keys["bob"].path)
        self.in_time(robot, lambda seen: set(seen) <= DENIED, time.monotonic())
        assert [one["role"] for one in self.server.client(robot).api("GET", "/self")["roles"]] == ["consumer"]
        rows = self.server.client(self.people["alice"]).api("GET", "/bindings?scope=main&limit=1000")["bindings"]
        assert [one["role"] for one in rows if one["id"] == self.state["curates"]] == ["main.curator"]
        answer = self.api("alice", "POST", "/authz/explain", {"robot": robot[0], "action": "blob.read", "resource": "main/other/x"})
        assert answer.status == 200 and not answer.json["allowed"] and not answer.json["roles"], answer.body
        assert self.api("alice", "POST", "/bindings", {"robot": robot[0], "role": "main.curator", "scope": "main/models"}).status == 403
        assert self.api("alice", "DELETE", "/bindings/" + self.state["curates"]).status == 204

    def lives_are_bounded_by_the_configuration(self):
        def days(row):
            return (datetime.datetime.fromisoformat(row["expires"].rstrip("Z")) - datetime.datetime.utcnow()).total_seconds() / DAY

        for path, body in (("/robots", {"organisation": "main", "name": "brief"}), ("/bindings", {"robot": "robot$main+brief", "role": "consumer", "scope": "main/models"})):
            most = LIVES["robot_days_max" if path == "/robots" else "binding_days_max"]
            answer = self.api("alice", "POST", path, {**body, "expires_days": most + 1})
            assert answer.status == 400 and f"at most {most}" in answer.json["detail"], answer.body
            answer = self.api("alice", "POST", path, body)
            usual = most if path == "/robots" else LIVES["binding_days_default"]
            assert answer.status == 201 and usual - 1 < days(answer.json) <= usual, answer.body
        robot = next(one for one in self.api("alice", "GET", "/robots?organisation=main&limit=1000").json["robots"] if one["name"] == "robot$main+brief")
        answer = self.api("alice", "POST", f"/robots/{robot['id']}/secret", {"expires_days": LIVES["robot_days_max"] + 1})
        assert answer.status == 400 and "at most 80" in answer.json["detail"], answer.body
        for most, status in ((401, 400), (400, 201)):
            now = time.time()
            document = canonical({"schema": "sijil.document/v1", "kind": "role", "scope": "", "name": "main.long", "version": 1, "effective_from": utc(now - 1),
                                  "expires": utc(now - 1 + most * DAY), "body": {"meaning": "reads", "actions": READS}})
            answer = self.api("bob", "POST", "/roles", self.sign(document, "bob")[0])
            assert answer.status == status, answer.body
        assert self.api("bob", "DELETE", "/roles/main.long/drafts").status == 204

    def all(self):
        return [self.lives_are_bounded_by_the_configuration, self.a_role_is_signed_by_two_persons, self.its_version_is_named, self.a_new_version_counts_at_once_and_an_old_one_never_again,
                self.it_counts_in_its_organisation_alone_and_by_its_document_alone, self.a_withdrawn_role_gives_nothing]


class Elevations:
    """A role for some hours: asked for by one person, granted by another one."""

    def __init__(self, world):
        self.world, self.server, self.people, self.state = world, world.server, world.people, world.state

    def api(self, who, method, path, body=None):
        return self.world.call(self.people[who], method, path, body)

    def ask(self, who="erin", role="publisher", scope="main/other", hours=2, **more):
        return self.api(who, "POST", "/elevations", {"role": role, "scope": scope, "hours": hours, "reason": "the release of May", **more})

    def grant(self, who, id, role="publisher", scope="main/other", subject="erin", hours=2):
        words = {"role": role, "scope": scope, "issuer": self.server.people.url, "subject": subject, "hours": hours}
        return self.api(who, "POST", f"/elevations/{id}/approval", words)

    def listed(self, who, id, scope="main/other"):
        found = [one for one in self.api(who, "GET", f"/elevations?scope={scope}&limit=1000").json["elevations"] if one["id"] == id]
        return found[0] if found else None

    def pushes(self, who="erin"):
        return [client.call("POST", "/v2/main/other/x/blobs/uploads/", scope="repository:main/other/x:pull,push").status
                for client in self.server.clients(self.people[who])]

    # --- cases -------------------------------------------------------------------------------------------------------------------
    def a_person_asks_inside_its_own_scope(self):
        self.people["erin"] = make_person(self.server, "erin", "consumer", "main/other")
        self.people["frank"] = make_person(self.server, "frank", "project-admin", "main/other")
        wait_until(lambda: self.ask(role="nobody").status == 400, 10, "erin is not known")
        for role in ("registry-admin", "security-officer", "break-glass", "witness"):
            answer = self.ask(role=role)
            assert answer.status == 400 and "given in other ways" in answer.json["detail"], answer.body
        assert self.ask(scope="main/models").status == 404 and self.ask(scope="elsewhere/x").status == 404  # the same answer
        assert self.ask(scope="main").status in (403, 404)
        answer = self.ask(hours=9)
        assert answer.status == 400 and "at most 8" in answer.json["detail"], answer.body
        assert self.ask(hours=0).status == 400 and self.ask(reason="a\nb").status == 400
        robot = self.people["asker"] = make_robot(self.server, "asker", "consumer", "main/other")
        self.server.wait_known(robot, "main/other/x")
        answer = self.ask("asker")
        assert answer.status == 403 and "a person asks" in answer.json["detail"], answer.body

    def nobody_grants_what_it_asked_for(self):
        answer = self.ask()
        assert answer.status == 201, answer.body
        id = self.state["elevation"] = answer.json["id"]
        assert self.listed("erin", id)["state"] == "waiting" and self.listed("frank", id)["reason"] == "the release of May"
        assert set(self.pushes()) <= DENIED
        assert self.grant("erin", id).status == 403  # a consumer grants nothing
        own = self.ask("frank", role="project-admin").json["id"]
        answer = self.grant("frank", own, "project-admin", subject="frank")
        assert answer.status == 403, answer.body
        answer = self.grant("frank", own, "consumer", subject="frank")  # a role that frank may grant, but not to itself
        assert answer.status == 403, answer.body
        alex = self.grant("alex", id)  # an account at another issuer may be erin's
        assert alex.status == 403 and "another person" in alex.json["detail"], alex.body
        self.server.psql.ask(f"UPDATE elevation SET hours = 72 WHERE elevation_id = '{id}'")  # a hand in the database
        assert self.grant("alice", id).status == 409
        answer = self.grant("alice", id, hours=72)
        assert answer.status == 400 and "at most 8" in answer.json["detail"], answer.body
        self.server.psql.ask(f"UPDATE elevation SET hours = 2 WHERE elevation_id = '{id}'")
        for words in ({"role": "trainer"}, {"scope": "main/other/x"}, {"subject": "frank"}, {"hours": 3}):
            answer = self.grant("alice", id, **words)
            assert answer.status == 409 and "no request with this id" in answer.json["detail"], (words, answer.body)
        assert self.api("erin", "DELETE", f"/elevations/{own}?scope=main/other&role=project-admin").status == 404  # frank's
        assert self.api("frank", "DELETE", f"/elevations/{own}?scope=main/other&role=project-admin").status == 204
        assert self.grant("alice", own, "project-admin", subject="frank").status == 409
        assert self.listed("frank", own)["state"] == "ended" and set(self.pushes()) <= DENIED

    def another_person_grants_it_for_the_hours_alone(self):
        id = self.state["elevation"]
        for who, role in (("frank", "project-admin"), ("erin", "consumer")):
            self.world.sijil(who, "login", self.world.at(), "--username", self.people[who][0], "--ca-file", self.server.ca_file, given=self.people[who][1])
        assert id in self.world.sijil("frank", "admin", "elevation", "list", self.world.at(), "main/other")
        approve = ("frank", "admin", "elevation", "approve", self.world.at(), "main/other", id)
        for words, says in ((("--hours", "3"), "is for 2 hours"), ((), "--hours HOURS"), (("--hours", "2", "--role", "consumer"), "another role than consumer"),
                            (("--hours", "2", "--subject", "frank"), "another person than frank"), (("--hours", "2", "--sign-with", "x.pem"), "say what you sign")):
            refusal = self.world.sijil(*approve, *words, works=False)
            assert says in refusal and self.listed("erin", id)["state"] == "waiting", (words, refusal)
        shown = self.world.sijil(*approve, "--hours", "2", "--role", "publisher", "--subject", "erin")
        assert "You grant:" in shown and "the release of May" in shown and "erin" in shown, shown
        wait_until(lambda: set(self.pushes()) == {202}, 10, "a gateway does not know the role")
        row = self.listed("erin", id)
        assert row["state"] == "granted" and row["hours"] == 2 and "binding" in row and row["decided_by"].startswith("ext:"), row
        role = next(one for one in self.server.client(self.people["erin"]).api("GET", "/self")["roles"] if one["role"] == "publisher")
        assert role["expires"] == row["until"] and role["binding"] == row["binding"], (role, row)
        assert self.grant("alice", id).status == 409  # once
        events = self.server.client(self.server.admin).api("GET", "/audit/events?limit=100")["events"]
        acts = [(one["entry"]["act"], one["entry"]["out"]) for one in events]
        assert ("elevation.request", "allowed") in acts and ("binding.create", "allowed") in acts, acts

    def it_ends_by_itself_and_by_hand(self):
        """The hours pass in the database; each gateway has the end in its memory, so its clock is what counts. Here the row's end is moved."""
        id = self.state["elevation"]
        assert self.world.sijil("erin", "admin", "elevation", "end", self.world.at(), "main/other", id) is not None
        wait_until(lambda: set(self.pushes()) <= DENIED, 10, "a gateway still lets erin push")
        assert self.listed("erin", id)["state"] == "ended"
        assert self.api("erin", "DELETE", f"/elevations/{id}?scope=main/other&role=publisher").status == 404
        again = self.ask(hours=1).json["id"]
        assert self.grant("alice", again, hours=1).status == 201
        wait_until(lambda: set(self.pushes()) == {202}, 10, "a gateway does not know the role")
        binding = self.listed("erin", again)["binding"]
        self.server.psql.ask(f"UPDATE binding SET expires_at = now() + interval '2 s' WHERE binding_id = '{binding}'; SELECT raise_authorization_epoch()")
        wait_until(lambda: set(self.pushes()) <= DENIED, 20, "it does not end by itself")
        assert self.listed("erin", again)["state"] == "ended"
        waiting = self.ask().json["id"]
        assert self.api("frank", "DELETE", f"/elevations/{waiting}?scope=main/other&role=consumer").status == 404  # it is of another role
        assert self.api("frank", "DELETE", f"/elevations/{waiting}?scope=main/other&role=publisher").status == 204  # whoever may grant it may refuse it

    def all(self):
        return [self.a_person_asks_inside_its_own_scope, self.nobody_grants_what_it_asked_for, self.another_person_grants_it_for_the_hours_alone,
                self.it_ends_by_itself_and_by_hand]


class Grants:
    """Grants at two gateways while the right to grant is taken away: grants do not make each other's decisions stale, but what takes a right does."""
    ROUNDS, THREADS, MOST = 3, 8, 28  # within what one organisation may do at once, and one robot may have

    def __init__(self, world):
        self.world, self.server = world, world.server

    def strike(self, client, grantee, number, barrier):
        """The statuses of grants that follow each other without a pause, until one is refused."""
        token = client.token("registry:admin:*")
        barrier.wait()
        statuses = []
        until = time.monotonic() + 30
        while time.monotonic() < until and not DENIED & set(statuses):
            if statuses.count(201) < self.MOST:  # then the last one again, so that none is left before the end of the right comes
                scope = f"main/other/r{number}-{len(statuses)}-{time.time_ns()}"
            body = json.dumps({"robot": grantee[0], "role": "consumer", "scope": scope})
            statuses.append(client.call("POST", "/api/v1/bindings", body, {"Content-Type": "application/json", "Authorization": "Bearer " + token}).status)
        return statuses

    def round(self, turn):
        grantee = make_robot(self.server, f"grantee{turn}", "consumer", "main/models")
        giver = make_robot(self.server, f"giver{turn}", "project-admin", "main/other")
        wait_until(lambda: once_known(lambda: [client.call("GET", "/api/v1/self", scope="registry:admin:*").status for client in self.server.clients(giver)]) == [200, 200], 20,
                   "a gateway does not know the giver")
        admin = self.server.clients(self.server.admin)[turn % 2]
        binding = next(one["id"] for one in admin.api("GET", "/bindings?limit=1000")["bindings"] if one.get("robot") == giver[0])
        barrier = threading.Barrier(self.THREADS + 1)
        with concurrent.futures.ThreadPoolExecutor(self.THREADS) as pool:
            strikes = [pool.submit(self.strike, self.server.clients(giver)[number % 2], grantee, number, barrier) for number in range(self.THREADS)]
            barrier.wait()
            time.sleep(0.02 * turn)  # before, among and behind the first ones
            admin.api("DELETE", f"/bindings/{binding}")
            return [status for strike in strikes for status in strike.result()]

    def no_grant_is_recorded_behind_the_end_of_the_givers_right(self):
        given = 0
        for turn in range(self.ROUNDS):
            statuses = self.round(turn)
            assert set(statuses) <= {201, 409, 429, *DENIED} and set(statuses) & DENIED, statuses
            given += statuses.count(201)
            late = self.server.psql.ask("SELECT count(*) FROM audit_entry WHERE action = 'binding.create' AND outcome = 'allowed'"
                                        " AND seq > (SELECT max(seq) FROM audit_entry WHERE action = 'binding.revoke' AND outcome = 'allowed')")
            assert late == "0", f"{late} grants are behind the end of the right: {statuses}"
        rows = self.server.psql.ask("SELECT count(*) FROM binding WHERE pattern LIKE 'main/other/r%-%'")
        assert int(rows) == given > 0, (rows, given)

    def all(self):
        return [self.no_grant_is_recorded_behind_the_end_of_the_givers_right]
