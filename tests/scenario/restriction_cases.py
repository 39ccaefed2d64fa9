"""Restrictions of organisations (docs/policies.md, "Restrictions of an organisation"): cases of officers.py, whose organisation acme has a security officer with a document.

What the officers of acme sign restricts acme and nobody else, is in the facts of each decision, and ends only with one officer more."""
import base64
import json
import os
import subprocess

import signing_keys
import sijil_test

TYPE = "application/vnd.sijil.restriction.v1+json"


class Restrictions:
    def __init__(self, world):
        self.world, self.server = world, world.server
        self.robots = {}

    def all(self):
        return (self.an_officer_restricts_its_organisation, self.what_does_not_only_restrict_is_refused, self.others_see_and_sign_nothing,
                self.the_facts_name_it_and_a_replay_proves_it, self.an_outsider_counts_its_officers, self.a_plan_tells_its_names_from_others_of_the_project,
                self.a_row_of_the_organisation_ends_none, self.the_end_takes_one_officer_more)

    def policy(self, name="acme.closed", **more):
        metadata = {"id": name, "version": 1, "scope": ["acme/closed/**", "acme/open/part/**"], "organisation": "acme", "effective_from": "2026-01-01T00:00:00Z", "review_by": "2030-01-01"}
        rule = {"id": "A-DUBAI", "effect": "require", "ops": ["ingest"], "target": {"geo_within": ["AE/DU"]}, "message": "closed to new content"}
        return {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "closed": False, "metadata": {**metadata, **more.pop("metadata", {})}, "rules": [rule], **more}

    def file(self, name, value):
        path = os.path.join(self.world.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file)
        return path

    def officer(self, who, *words, works=True):
        """The person's own login and key, as it types the command."""
        world = self.world
        if not os.path.exists(os.path.join(world.folder.name, "home-" + who)):
            world.sijil(who, "login", world.at, "--username", world.people[who][0], "--ca-file", self.server.ca_file, given=world.people[who][1])
        return world.sijil(who, *words, works=works)

    def push(self, name, robot="acme"):
        answer = self.server.client(self.robots[robot]).call("POST", f"/v2/{name}/blobs/uploads/", scope=f"repository:{name}:pull,push")
        return answer.status, answer.body.decode()

    def an_officer_restricts_its_organisation(self):
        world, admin = self.world, self.server.client(self.server.admin)
        for organisation in ("acme", "beta"):
            if organisation == "beta":
                assert world.call(world.people["alice"], "POST", "/organisations", {"name": "beta", "label": {}}).status == 201
            for project in ("closed", "open"):
                admin.api("POST", "/projects", {"organisation": organisation, "name": project})
            self.robots[organisation] = sijil_test.make_robot(self.server, "pusher-" + organisation, "publisher", organisation, organisation=organisation)
        assert self.push("acme/closed/a")[0] == 202 and self.push("beta/closed/a", "beta")[0] == 202
        assert self.push("acme/open/part/a")[0] == 202 and self.push("acme/open/b")[0] == 202  # two decisions with equal facts
        path = self.file("closed.json", self.policy())
        plan = world.sijil("admin", "policy", "plan", world.at, "--restriction", path, "--days", "1", "--json")
        assert {(row["resource"], row["operation"], row["rule"], row["policy"]) for row in plan["newly_denied"] if row["action"] == "upload.begin"} == {
            (name, "ingest", "A-DUBAI", "acme.closed@1") for name in ("acme/closed/a", "acme/open/part/a")} and not plan["newly_allowed"], plan
        said = self.officer("dora", "policy", "restriction", "draft", world.at, path, "--key", world.keys["dora", "sign"].path, "--organisation", "acme", "--plan", plan["digest"])
        assert "in force" in said, said
        assert self.server.client(self.server.admin).api("GET", "/restrictions/acme.closed?scope=acme")["document"]["body"]["plan"] == plan["digest"]
        status, said = self.push("acme/closed/a")
        assert status == 403 and "A-DUBAI" in said and "acme.closed@1" in said, (status, said)
        assert self.push("acme/open/a")[0] == 202 and self.push("beta/closed/a", "beta")[0] == 202
        shown = self.officer("dora", "policy", "restriction", "list", world.at, "--organisation", "acme")
        assert "acme.closed" in shown and "in force" in shown, shown
        shown = world.sijil("admin", "policy", "show", world.at, "--organisation", "acme")
        assert "A-DUBAI" in shown and "as the registry tells them" in " ".join(shown.split()), shown
        shown = world.sijil("admin", "policy", "show", world.at, "--organisation", "acme", "--root", world.root_key)
        assert "A-DUBAI" in shown and "counted from the root's key on" in " ".join(shown.split()), shown
        assert "A-DUBAI" not in world.sijil("admin", "policy", "show", world.at)

    def what_does_not_only_restrict_is_refused(self):
        world = self.world
        permit = {"id": "P", "effect": "permit", "ops": ["read"]}
        for says, made in (("only restricts", self.policy("acme.a", rules=[permit])), ("only restricts", self.policy("acme.a", labels={"class": "open"})),
                           ("only restricts", self.policy("acme.a", closed=True)), ("begin with acme/", self.policy("acme.a", metadata={"scope": ["**"]})),
                           ("begin with acme/", self.policy("acme.a", metadata={"scope": ["beta/**"]})), ("a dot", self.policy("closed"))):
            said = self.officer("dora", "policy", "restriction", "draft", world.at, self.file("wrong.json", made), "--key", world.keys["dora", "sign"].path, works=False)
            assert says in said, said
            self.refused_as_it_is(made, says)

    def refused_as_it_is(self, made, says):
        """A client that checks nothing."""
        world = self.world
        document = signing_keys.canonical({"schema": "sijil.document/v1", "kind": "restriction", "scope": "acme", "name": made["metadata"]["id"], "version": 1,
                                           "effective_from": signing_keys.utc(sijil_test.time.time() - 1), "body": {"policy": made}})
        answer = world.call(world.people["dora"], "POST", "/restrictions", signing_keys.sign(document, world.keys["dora", "sign"].path, TYPE))
        world.refused(answer, 400, says)

    def others_see_and_sign_nothing(self):
        """Another organisation's officer does not learn that there is one. An approver of the registry, and an officer without its own key, sign none."""
        world = self.world
        world.person("frank", "security-officer", "beta")
        key = world.keys["frank", "sign"] = world.Key(world.people["frank"].principal, "sign", "beta")
        self.appoint("frank", key, "beta")
        for path in ("/restrictions?scope=acme", "/restrictions/acme.closed?scope=acme"):
            assert world.call(world.people["frank"], "GET", path).status == 404
        assert world.call(world.people["frank"], "GET", "/restrictions?scope=beta").json["restrictions"] == []
        document = self.version(2)
        answer = world.call(world.people["frank"], "POST", "/restrictions", signing_keys.sign(document, key.path, TYPE))
        assert answer.status == 404, answer.body
        for signer in (world.keys["alice", "approve"].path, world.root_key, key.path):
            world.refused(world.call(world.people["dora"], "POST", "/restrictions", signing_keys.sign(document, signer, TYPE)), 403, "an officer of the organisation signs")
        world.refused(world.call(world.people["alice"], "POST", "/restrictions", signing_keys.sign(document, world.keys["dora", "sign"].path, TYPE)), 403, "sends it itself")

    def appointed_by(self, appointer, who):
        """The second security officer of acme, whom another person must appoint than the first."""
        world = self.world
        binding = {"issuer": self.server.people.url, "subject": who, "role": "security-officer", "scope": "acme"}
        answer = world.call(world.people[appointer], "POST", "/bindings", binding)
        assert answer.status == 201, answer.body
        self.server.people.add(who)
        world.people[who] = sijil_test.login_of(self.server, who)
        world.people[who].principal = world.principal_of(self.server.people.url, who)

    def appoint(self, who, key, organisation):
        world = self.world
        made = key.document()
        drafted = signing_keys.sign(made, key.path)
        assert world.call(world.people[who], "POST", "/keys/signing", drafted).status == 201
        approval = {"envelopes": [drafted, signing_keys.sign(made, world.root_key)]}
        assert world.call(world.people["bob"], "POST", f"/keys/signing/{key.name}/approval", approval).status == 201
        answer = world.by_root(world.document("security-officer." + who, world.people[who].principal, key, on=organisation))
        assert answer.status == 201, answer.body

    def version(self, number, **more):
        return signing_keys.canonical({"schema": "sijil.document/v1", "kind": "restriction", "scope": "acme", "name": "acme.closed", "version": number,
                                       "effective_from": signing_keys.utc(sijil_test.time.time() - 1), "body": {} if "withdrawn" in more else {"policy": self.policy()}, **more})

    def the_facts_name_it_and_a_replay_proves_it(self):
        world, admin = self.world, self.server.client(self.server.admin)
        rows, after = [], "-1"
        while after is not None:
            page = admin.api("GET", f"/audit/events?order=ascending&limit=1000&facts=true&after={after}")
            rows, after = rows + page["events"], page.get("next")
        decided = [row for row in rows if row["entry"]["res"].startswith(("acme/closed/a", "acme/open/a")) and row["entry"]["act"] == "upload.begin"]
        named = [judged.get("restrictions") for row in decided for facts in row["facts"] for judged in facts["judged"]]
        assert named[0] is None and all(one == named[-1] and len(one) == 1 for one in named[1:]) and len(named) > 2, named
        sets = self.file("set.json", admin.api("GET", "/policies")["set"])
        shown = self.file("restriction.json", admin.api("GET", "/restrictions/acme.closed?scope=acme"))
        first = next(at for at, row in enumerate(rows) if row["entry"]["act"] == "policy.load")
        recent = [row for row in rows[first:] if row["entry"]["act"] in ("upload.begin", "restriction.approve", "policy.load")]

        self.recent, self.named, replay = recent, named[-1][0], self.replay
        code, said = replay(recent, sets, shown)
        assert code == 0 and " 0 differ" in said, said
        code, said = replay(recent, sets)
        assert code == 1 and "first missing policy set: " + named[-1][0] in said, said
        moved = [row for row in recent if row["entry"]["act"] == "restriction.approve"] + [row for row in recent if row["entry"]["act"] != "restriction.approve"]
        code, said = replay(moved, sets, shown)  # as if a gateway had decided without the restriction, after the event that brought it into force
        assert code == 1 and "decided without the restriction acme.closed" in said, said

    def verify(self, *words):
        done = subprocess.run([sijil_test.program("sijil-verify"), *words], capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    def replay(self, lines, *files, more=()):
        path = os.path.join(self.world.folder.name, "export.ndjson")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        return self.verify("replay", *more, *(word for one in files for word in ("--set", one)), path)

    def an_outsider_counts_its_officers(self):
        """From the root's key on: without the document that made dora an officer, or in another organisation's name, her signature is nothing."""
        world, key = self.world, self.server.client(self.server.admin).api("GET", "/audit/key")["vkey"]
        path = os.path.join(world.folder.name, "acme.export.json")
        world.sijil("admin", "policy", "export", world.at, "--organisation", "acme", "-o", path)
        with open(path, encoding="utf-8") as file:
            exported = json.load(file)
        trust = ("--key", key, "--root", world.root_key)
        code, said = self.verify("policy", *trust, path)
        assert code == 0 and "acme.closed, version 1, event" in said and "in force, signed by security-officer.dora (1 of 1)" in " ".join(said.split()) and "A-DUBAI" in said, said
        shown = json.loads(self.verify("policy", "--json", *trust, path)[1])["restrictions"]
        assert shown["organisation"] == "acme" and shown["refused"] == 0 and [one["signers"] for one in shown["documents"]] == [["security-officer.dora"]], shown
        code, said = self.replay(self.recent, path, more=("--signer", world.root_key))
        assert code == 0 and " 0 differ" in said, said
        documents = exported["restrictions"]["documents"]

        def kinds(one):
            return json.loads(base64.b64decode(json.loads(one["envelopes"][0])["payload"]))["kind"]

        def changed(organisation="acme", **members):
            return self.file("changed.json", {**exported, "restrictions": {"documents": documents, "organisation": organisation, **members}})

        for made in (changed(documents=[one for one in documents if kinds(one) != "officers"]), changed(documents=[one for one in documents if kinds(one) != "signing-key"]), changed("beta")):
            shown = json.loads(self.verify("policy", "--json", *trust, made)[1])["restrictions"]
            assert shown["documents"] == [] and shown["refused"] > 0, shown
            code, said = self.replay(self.recent, made, more=("--signer", world.root_key))
            assert code == 1 and "first missing policy set: " + self.named in said, said
        code, said = self.verify("policy", *trust, changed(documents=documents[::-1]))
        assert code == 1 and "order of their events" in said, said
        last = documents[-1]
        for wrong in ({**last, "entry": last["entry"].replace("restriction.approve", "restriction.revoke")}, {**last, "entry": documents[0]["entry"], "proof": documents[0]["proof"]},
                      {**last, "envelopes": [json.dumps(signing_keys.sign(self.version(1), world.keys["alice", "approve"].path, TYPE))]}):
            code, said = self.verify("policy", *trust, changed(documents=[*documents[:-1], wrong]))
            assert code == 1 and "proof" in said or "event" in said, said
        free = next(row for row in self.recent if row["entry"]["act"] == "upload.begin" and "restrictions" not in row["facts"][0]["judged"][0] and row["entry"]["res"].startswith("acme/closed"))
        later = {**free, "entry": {**free["entry"], "seq": self.recent[-1]["entry"]["seq"] + 1000}}  # decided without it, and the export has no event that brought it into force
        code, said = self.replay([later], path, more=("--signer", world.root_key))
        assert code == 1 and "decided without the restriction acme.closed" in said, said
        name, secret = sijil_test.make_robot(self.server, "reporter", "auditor", "acme", organisation="acme")
        report = os.path.join(world.folder.name, "closed")
        world.sijil("reporter", "login", world.at, "--username", name, "--ca-file", self.server.ca_file, given=secret)
        world.sijil("reporter", "report", "residency", world.at, "acme/closed", "--within", "acme", "-o", report)
        code, said = self.verify("report", *trust, "--set", path, report + ".json")
        assert code == 0 and " 0 differ" in said and "Of restrictions of acme those count" in said, said
        code, said = self.verify("report", *trust, report + ".json")
        assert code == 0 and "Not checked: who signed the restrictions" in said, said
        code, said = self.verify("report", *trust, "--set", changed(documents=[]), report + ".json")
        assert code == 1 and "decisions" in said, said

    def a_plan_tells_its_names_from_others_of_the_project(self):
        """A plan decides names of one class once: where the restriction counts, a set that denies the project denies nothing new."""
        world, admin = self.world, self.server.client(self.server.admin)
        now = admin.api("GET", "/policies")["set"]
        ends = {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "closed": False, "rules": [{"id": "ENDS", "effect": "require", "ops": ["ingest"], "target": {"geo_within": ["AE/DU"]}}],
                "metadata": {"id": "ends", "version": 1, "scope": ["acme/open/**"], "effective_from": "2026-01-01T00:00:00Z", "review_by": "2030-01-01"}}
        parts = {name: now[name] for name in ("regions", "groups", "networks", "declassified") if name in now}
        path, signed = self.file("next.json", {**parts, "policies": [*now["policies"], ends]}), os.path.join(world.folder.name, "next.dsse")
        world.sijil("admin", "policy", "sign", "--key", world.root_key, "--epoch", str(now["epoch"] + 1), "--output", signed, path)
        with open(signed, encoding="utf-8") as file:
            payload = json.loads(base64.b64decode(json.load(file)["payload"]))
        job = admin.api("POST", "/policies/plan", {"set": payload, "days": 1})
        sijil_test.wait_until(lambda: "ended" in admin.api("GET", "/policies/plans/" + job["id"])["job"], 60, "the plan does not end")
        made = admin.api("GET", "/policies/plans/" + job["id"])["plan"]
        assert {row["resource"] for row in made["newly_denied"] if row["action"] == "upload.begin"} == {"acme/open/a", "acme/open/b"}, made

    def a_row_of_the_organisation_ends_none(self):
        """As if acme had been made after the restriction was signed: other documents of that name then give no rights, and this one takes none away."""
        world, admin = self.world, self.server.client(self.server.admin)
        born = int(self.server.sql("SELECT born FROM organisation WHERE name = 'acme'"))
        self.bear(admin.api("GET", "/audit/events?limit=1")["events"][0]["entry"]["seq"] + 1000)
        again = world.document("security-officer.frank", world.people["frank"].principal, world.keys["frank", "sign"], on="beta", version=2)
        assert world.by_root(again).status == 201  # all gateways read all documents again
        status, said = self.push("acme/closed/a")
        assert status == 403 and "A-DUBAI" in said, (status, said)
        shown = admin.api("GET", "/restrictions/acme.closed?scope=acme")
        assert shown["state"] == "in force", shown
        assert [one["name"] for one in admin.api("GET", "/restrictions?scope=acme")["restrictions"]] == ["acme.closed"]
        self.bear(born)

    def bear(self, born):
        self.server.sql("BEGIN; ALTER TABLE organisation DISABLE TRIGGER organisation_stays_born; "
                        f"UPDATE organisation SET born = {born} WHERE name = 'acme'; SELECT raise_authorization_epoch(); "
                        "ALTER TABLE organisation ENABLE TRIGGER organisation_stays_born; COMMIT")

    def the_end_takes_one_officer_more(self):
        world = self.world
        revoked = ("policy", "restriction", "revoke", world.at, "acme.closed", "--organisation", "acme", "--reason", "opened again", "--key", world.keys["dora", "sign"].path)
        assert "draft" in self.officer("dora", *revoked)
        assert self.push("acme/closed/a")[0] == 403
        again = self.version(2)  # a new version may allow more, so it takes two as well
        answer = world.call(world.people["dora"], "POST", "/restrictions", signing_keys.sign(again, world.keys["dora", "sign"].path, TYPE))
        assert answer.status == 201 and answer.json["state"] == "draft", answer.body
        self.appointed_by("alice", "eve")
        key = world.keys["eve", "sign"] = world.Key(world.people["eve"].principal, "sign", "acme")
        self.appoint("eve", key, "acme")
        free = {**self.policy(metadata={"version": 2}), "rules": [{"id": "A-OUT", "effect": "deny", "ops": ["export"], "target": {"geo_within": ["US"]}}]}
        plan = world.sijil("admin", "policy", "plan", world.at, "--restriction", self.file("free.json", free), "--days", "1", "--json")  # in place of the version in force
        assert "acme/closed/a" in {row["resource"] for row in plan["newly_allowed"]} and not plan["newly_denied"], plan
        draft = world.call(world.people["eve"], "GET", "/restrictions?scope=acme").json["drafts"]
        assert [one["missing"] for one in draft] == [1], draft
        assert "draft" in self.officer("dora", *revoked)
        said = self.officer("eve", "policy", "restriction", "approve", world.at, "acme.closed", "--organisation", "acme", "--key", key.path)
        assert "withdrawn" in said, said
        assert self.push("acme/closed/a")[0] == 202
        told = world.sijil("admin", "policy", "history", world.at, "--organisation", "acme", "--root", world.root_key, "--json")
        assert [(one["version"], one["what"], one["by"], one["signed"]) for one in told] == [(1, "made", "security-officer.dora", "1 of 1"),
                                                                                            (2, "withdrawn", "security-officer.dora, security-officer.eve", "2 of 2")], told
        assert told[0]["until"] == told[1]["event"] and told[1]["reason"] == "opened again", told
        path = os.path.join(world.folder.name, "acme.end.json")
        world.sijil("admin", "policy", "export", world.at, "--organisation", "acme", "-o", path)
        code, said = self.verify("policy", "--key", self.server.client(self.server.admin).api("GET", "/audit/key")["vkey"], "--root", world.root_key, path)
        assert code == 0 and "the end of it, signed by security-officer.dora, security-officer.eve (2 of 2)" in " ".join(said.split()) and "A-DUBAI" not in said, said
        answer = world.call(world.people["dora"], "POST", "/restrictions", signing_keys.sign(self.version(1), world.keys["dora", "sign"].path, TYPE))
        world.refused(answer, 409, "sign a higher one")
