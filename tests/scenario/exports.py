#!/usr/bin/env python3
"""Exports with proof of completeness equal a scan of all events: for random keys and ranges, in each format, checked by sijil-verify and by a second
implementation; for auditors of a part, with names opened for a purpose, broken off and continued, and by the command line."""
import http.client
import json
import os
import random
import subprocess
import sys
import urllib.parse

import sijil_test
from sijil_test import Client, Server, make_robot

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vectors"))
sys.dont_write_bytecode = True
import audit_export  # noqa: E402

EXPORTS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
REQUESTS = int(sys.argv[2]) if len(sys.argv) > 2 else 150
END = audit_export.END
chance = random.Random(2016)
server = Server()
state = {"logins": {}}


def prepare():
    server.start()
    admin = server.client(server.admin)
    for name, role, scope, where in (("publisher", "publisher", "main", "main"), ("reader", "consumer", "main/models", "main"),
                                     ("part", "auditor", "main", "main"), ("project", "auditor", "main/models", "main"),
                                     ("auditor", "auditor", "", "main"), ("other", "auditor", "", "main")):
        state["logins"][name] = sijil_test.make_robot(server, name, role, scope, organisation=where)
    probe("late/models/digits")  # before there is such an organisation
    admin.api("POST", "/organisations", {"name": "late"})
    admin.api("POST", "/projects", {"organisation": "late", "name": "models"})
    state["logins"]["late"] = sijil_test.make_robot(server, "late", "auditor", "late", organisation="late")
    state["vkey"] = Client(server, state["logins"]["auditor"]).api("GET", "/audit/key")["vkey"]


def probe(name):
    client = Client(server, state["logins"]["reader"])
    assert client.call("GET", f"/v2/{name}/tags/list", scope=f"repository:{name}:pull").status in (401, 403, 404)


def many_events_are_recorded():
    place = server.client(state["logins"]["publisher"]).repository("main/models/digits")
    blob = place.push_blob(b"content")
    assert place.put_manifest("v1", place.manifest(b"content")).status == 201
    links = {}
    for number in range(REQUESTS):
        login, name = chance.choice(["publisher", "reader"]), chance.choice(["main/models/digits", "main/models/other", "main/data/cats", "late/models/digits"])
        client = links.setdefault(login, Client(server, state["logins"][login]))
        method, path = chance.choice([("GET", "tags/list"), ("HEAD", "manifests/v1"), ("GET", "blobs/" + blob), ("DELETE", "manifests/none")])
        try:
            client.call(method, f"/v2/{name}/{path}", scope=f"repository:{name}:pull,delete")
        except sijil_test.NoToken:
            continue


def scan():
    client, found, after = Client(server, state["logins"]["auditor"]), [], -1
    while True:
        page = client.api("GET", f"/audit/events?order=ascending&limit=1000&after={after}")
        found += [event["entry"] for event in page["events"]]
        if "next" not in page:
            return found
        after = page["next"]


def nonce():
    return "".join(chance.choice("0123456789abcdef") for _ in range(chance.choice([32, 33, 64])))


def ask(login, key, **more):
    document = {"key": key, "nonce": nonce(), **more}
    made = Client(server, state["logins"][login]).api("POST", "/audit/exports", document)
    if "open" in more:
        state.setdefault("opened", set()).add(made["number"])
    return made


def get_lines(login, number, within, **words):
    query = urllib.parse.urlencode({**({"within": within} if within else {}), **words})
    answer = Client(server, state["logins"][login]).call("GET", f"/api/v1/audit/exports/{number}/lines?{query}", scope="registry:admin:*")
    return answer


def whole(login, number, form="ndjson", within=""):
    """All lines, page by page."""
    content, words = b"", {"format": form}
    while True:
        answer = get_lines(login, number, within, **words)
        assert answer.status == 200, (answer.status, answer.body)
        content += answer.body
        last = audit_export.read_line(form, content.split(b"\n")[-2] + b"\n") if content.count(b"\n") > 2 or form != "csv" else None
        if last["place"] == "closing":
            return content
        words.update({"after": last["leaf"]["seq"], "size": head_of(content, form)["checkpoint"].split("\n")[1]})


def head_of(content, form):
    return audit_export.read_head(content.split(b"\n")[form == "csv"] + b"\n")


def shown(content, form):
    lines = content.split(b"\n")[(2 if form == "csv" else 1):-1]
    read = [audit_export.read_line(form, line + b"\n") for line in lines]
    return [line["leaf"]["seq"] for line in read if line["place"] == "event"]


def verify(content, *more, code=0):
    done = subprocess.run([sijil_test.program("sijil-verify"), "export", "--key", state["vkey"], *more, "-"], input=content, capture_output=True, timeout=60)
    assert done.returncode == code, (done.returncode, done.stderr, content[:300])
    return done.stdout.decode() + done.stderr.decode()


def time_text(milliseconds):
    return audit_export.utc(milliseconds)


def random_range(entries):
    ends = sorted(chance.choice(entries)["seq"] for _ in range(2))
    if chance.random() < 0.5:
        ends = [entries[ends[0]]["ts"], entries[ends[1]]["ts"] + chance.choice([0, 1])]
        words = {"from": time_text(ends[0]), "to": time_text(ends[1])}
        member = "ts"
    else:
        words, member = {"from": str(ends[0]), "to": str(ends[1])}, "seq"
    if chance.random() < 0.2:
        del words["from"]
        ends[0] = 0
    if chance.random() < 0.2:
        del words["to"]
        ends[1] = END
    return words, lambda entry: ends[0] <= entry[member] < ends[1]


def random_exports_equal_a_scan():
    entries = scan()
    assert len(entries) > REQUESTS and [entry["seq"] for entry in entries] == list(range(len(entries)))
    keys = sorted({key for entry in entries for key in entry["k"]}) + ["res:main/nothing/here", "act:" + "0" * 64]
    hits, empty = 0, 0
    for count in range(EXPORTS):
        key, form = chance.choice(keys), chance.choice(["ndjson", "csv", "ocsf"])
        words, inside = random_range(entries)
        made = ask("auditor", key, **words)
        content = whole("auditor", made["number"], form)
        events = audit_export.check(state["vkey"], content, made["nonce"])
        if words.get("to") is None:  # to the closing entry: all that is older
            entries = scan()
        wanted = [entry["seq"] for entry in entries if key in entry["k"] and inside(entry) and entry["seq"] < made["number"]]
        assert shown(content, form) == wanted and events == len(wanted), (key, words, wanted[:10])
        if count % 10 == 0:
            assert f"{events} events under {key}" in verify(content, "--nonce", made["nonce"])
            mangle(content, form)
        hits, empty = hits + bool(wanted), empty + (not wanted)
    assert hits > EXPORTS / 3 and empty > EXPORTS / 40, (hits, empty)
    print(f"     {EXPORTS} exports from {len(entries)} events, {empty} of them empty")


def mangle(content, form):
    """Without any one line, with two exchanged, and with another nonce, nobody takes it."""
    lines = content.split(b"\n")[:-1]
    for place in chance.sample(range(len(lines)), min(3, len(lines))):
        less = b"".join(line + b"\n" for at, line in enumerate(lines) if at != place)
        assert "verified" in verify(less, code=1)
    place = chance.randrange(len(lines) - 1)
    lines[place], lines[place + 1] = lines[place + 1], lines[place]
    verify(b"".join(line + b"\n" for line in lines), code=1)
    assert "another question" in verify(content, "--nonce", "0" * 32, code=1)


def first_number(answer):
    assert b"export from number" in answer.body, answer.body
    return int(answer.body.decode().split("export from number ")[1].split(" ")[0])


def an_auditor_of_a_part_exports_its_part():
    entries = scan()
    made = ask("part", "prj:main/models", within="main")
    answer = get_lines("part", made["number"], "main")  # the first organisation has events from before its own beginning
    assert answer.status == 409, (answer.status, answer.body)
    first = first_number(answer)
    made = ask("part", "prj:main/models", within="main", **{"from": str(first)})
    content = whole("part", made["number"], within="main")
    wanted = [entry["seq"] for entry in entries if "prj:main/models" in entry["k"] and entry["seq"] >= first]
    assert shown(content, "ndjson")[:len(wanted)] == wanted and audit_export.check(state["vkey"], content, made["nonce"]) >= len(wanted) > 50
    client = Client(server, state["logins"]["part"])
    for key, within, statuses in (("org:late", "main", (400,)), ("out:denied", "main", (400,)), ("org:main", "", (403, 404)), ("org:late", "late", (403, 404)),
                                  ("res:mainly/x/y", "main", (400,))):
        answer = client.call("POST", "/api/v1/audit/exports", json.dumps({"key": key, "within": within, "nonce": nonce()}),
                             {"Content-Type": "application/json"}, scope="registry:admin:*")
        assert answer.status in statuses, (key, answer.status, answer.body)
    assert get_lines("part", ask("auditor", "org:main")["number"], "main").status == 404  # another auditor's
    assert get_lines("other", made["number"], "").status == 404
    assert get_lines("part", 0, "main").status == 404  # no export
    assert get_lines("part", "x", "main").status == 404


def the_beginning_of_an_organisation_is_an_edge():
    """Its auditor is not shown what happened under the name before it was made."""
    entries = scan()
    born = next(entry["seq"] for entry in entries if entry["act"] == "organisation.create" and entry["res"] == "late")
    early = [entry["seq"] for entry in entries if "org:late" in entry["k"] and entry["seq"] < born]
    assert early
    made = ask("late", "org:late", within="late")
    content = whole("late", made["number"], within="late")
    assert shown(content, "ndjson")[0] == born and '"left":"beginning"' in verify(content, "--json")
    made = ask("late", "res:late/models/digits", within="late")
    answer = get_lines("late", made["number"], "late")
    assert answer.status == 409, (answer.status, answer.body)
    made = ask("late", "res:late/models/digits", within="late", **{"from": str(first_number(answer))})
    assert "neighbour" in verify(whole("late", made["number"], within="late"), "--json")


def names_are_opened_for_a_purpose():
    client = Client(server, state["logins"]["auditor"])
    answer = client.call("POST", "/api/v1/audit/exports", json.dumps({"key": "org:main", "nonce": nonce(), "open": True}),
                         {"Content-Type": "application/json"}, scope="registry:admin:*")
    assert answer.status == 400 and b"purpose" in answer.body, answer.body
    for form in ("ndjson", "csv", "ocsf"):
        sealed = whole("auditor", ask("auditor", "prj:main/models")["number"], form)
        assert b"127.0.0.1" not in sealed and b'"publisher"' not in sealed
        made = ask("auditor", "prj:main/models", open=True, purpose="case 4711 " + form)
        opened = whole("auditor", made["number"], form)
        assert b"127.0.0.1" in opened and b"publisher" in opened
        assert audit_export.check(state["vkey"], opened, made["nonce"]) > 50
        report = json.loads(verify(opened, "--json"))
        assert report["is_opened"] and report["opened"] > 50, report
        verify(opened.replace(b"127.0.0.1", b"127.0.0.9"), code=1)
    event = client.api("GET", f"/audit/events/{made['number']}")
    assert event["who"]["purpose"] == "case 4711 ocsf" and "opened" in event["entry"]["res"] and "4711" not in json.dumps(event["entry"]), event


# Of OCSF 1.3.0: what each class demands, and what else it defines of all that we write. script/interop ocsf compares with the schema itself.
BASE = {"activity_id", "category_uid", "class_uid", "metadata", "severity_id", "time", "type_uid"}
MORE = {"raw_data", "status", "status_code", "status_detail", "status_id", "unmapped"}
CLASSES = {6003: ({"actor", "api", "src_endpoint"}, {"http_request", "resources"}), 3002: ({"user", "service"}, {"actor", "http_request", "src_endpoint"}),
           6002: ({"app"}, set()), 2004: ({"finding_info"}, {"resources"}), 0: (set(), set())}


def lines_are_events_of_their_ocsf_class():
    """An alarm is an event of the class 2004: here one is made by the rule for bursts of denials."""
    auditor = Client(server, state["logins"]["auditor"])
    for _ in range(25):
        probe("main/data/none")
    sijil_test.wait_until(lambda: auditor.api("GET", "/audit/events?action=alarm.raise")["events"], 60, "the denials make no alarm")
    seen, regions = set(), set()
    for key, more in (("act:system", {}), ("org:main", {"open": True, "purpose": "a check"}), ("out:denied", {}), (tokens_of(auditor), {"open": True, "purpose": "a check"})):
        made = ask("auditor", key, **more)
        for line in whole("auditor", made["number"], "ocsf").splitlines():
            event = json.loads(line)
            demanded, others = CLASSES[event["class_uid"]]
            assert BASE | demanded <= set(event) <= BASE | MORE | demanded | others, (event["class_uid"], sorted(event))
            assert event["metadata"]["version"] == "1.3.0" and event["type_uid"] == 100 * event["class_uid"] + event["activity_id"], event
            assert all(set(one) <= {"name", "type", "data"} for one in event.get("resources", [])), event  # a region is a member for clouds
            regions |= {one["data"]["region"] for one in event.get("resources", []) if "data" in one}
            seen.add(event["class_uid"])
    assert seen == set(CLASSES) and regions == {"local/main"}, (seen, regions)


def tokens_of(auditor):
    return "act:" + auditor.api("GET", "/audit/events?action=token.mint&outcome=allowed")["events"][0]["entry"]["actor"]


def filters_that_no_key_stands_for_are_told_so():
    client = Client(server, state["logins"]["auditor"])
    pseudonym = "ab" * 32
    for wanted, keys in (({"resource": "main/models/digits", "outcome": "denied"}, ["res:main/models/digits", "out:denied"]),
                         ({"prefix": "main/models/vision/x"}, ["prj:main/models"]), ({"prefix": "main"}, ["org:main"]), ({"prefix": "main/"}, ["org:main"]), ({"prefix": "main//models"}, []),
                         ({"resource": "main/models/digits:v1"}, []), ({"prefix": "/main"}, []),
                         ({"actor": pseudonym, "address": "192.0.2.1"}, ["act:" + pseudonym]), ({"country": "AE"}, [])):
        answer = client.call("POST", "/api/v1/audit/exports", json.dumps({"nonce": nonce(), "filter": wanted}), {"Content-Type": "application/json"},
                             scope="registry:admin:*")
        assert answer.status == 422 and answer.json["provable"] == keys and "proven" in answer.json["title"], (answer.status, answer.body)
    for wrong in ({"key": "org:main/models"}, {"key": "prj:main"}, {"key": "prj:main/models/digits"}, {"key": "res:a#b"}, {"key": "x:y"}, {"key": "org:m\u00fcller"}, {"key": "org:main", "nonce": "A" * 32}, {}, {"key": "org:main", "from": "x"},
                  {"key": "org:main", "from": "5", "to": "4"}, {"key": "org:main", "from": "1", "to": "2026-01-01T00:00:00Z"}):
        answer = client.call("POST", "/api/v1/audit/exports", json.dumps({"nonce": nonce(), **wrong}), {"Content-Type": "application/json"},
                             scope="registry:admin:*")
        assert answer.status == 400, (wrong, answer.status, answer.body)
    number = ask("auditor", "org:main")["number"]
    for words in ({"format": "xml"}, {"after": "x"}, {"size": "x"}, {"limit": 3}):
        assert get_lines("auditor", number, "", **words).status == 400, words
    assert get_lines("auditor", number, "", after=number, size=1).status == 404
    assert get_lines("auditor", number, "", after=number).status == 404  # there is nothing behind the closing entry


def the_command_line_exports_and_goes_on():
    host, (name, secret), folder = f"127.0.0.1:{server.port}", state["logins"]["auditor"], server.root + "/exports"
    os.makedirs(folder)
    environment = {**os.environ, "XDG_CONFIG_HOME": server.root + "/client", "SIJIL_CONFIG_HOME": server.root + "/client"}

    def sijil(*words, code=0, text=None):
        done = subprocess.run([sijil_test.program("sijil"), *words], input=text, capture_output=True, text=True, env=environment, timeout=120)
        assert done.returncode == code, (words, done.returncode, done.stderr)
        return done.stdout + done.stderr

    sijil("login", host, "--username", name, "--ca-file", server.ca_file, text=secret + "\n")
    for form in ("ndjson", "csv", "ocsf"):
        file, chosen = f"{folder}/main.{form}", nonce()
        told = sijil("audit", "export", host, "--key", "org:main", "--from", "1h", "--format", form, "--nonce", chosen, "-o", file)
        assert chosen in told and os.stat(file).st_mode & 0o777 == 0o600, told
        with open(file, "rb") as opened:
            content = opened.read()
        assert "complete only if the writer was honest" in verify(content, "--nonce", chosen)
        sijil("audit", "export", host, "--key", "org:main", "-o", file, code=1)  # it is there
        head = sum(len(line) + 1 for line in content.split(b"\n")[:2 if form == "csv" else 1])
        os.replace(file, file + ".whole")
        with open(file + ".part", "wb") as part:
            part.write(content[:head])  # the head alone: it may get another checkpoint, but answers the same question
        assert chosen in sijil("audit", "export", host, "--continue", "-o", file)
        with open(file, "rb") as again:
            assert shown(again.read(), form) == shown(content, form)
        os.replace(file + ".whole", file)
        for length in (0, 20, content.index(b"\n") + (len(content) // 2), len(content) - 1):
            os.replace(file, file + ".whole")
            with open(file + ".part", "wb") as part:
                part.write(content[:length])
            if length in (0, 20):  # not even the head
                sijil("audit", "export", host, "--continue", "-o", file, code=1)
                os.remove(file + ".part")
                os.replace(file + ".whole", file)
                continue
            sijil("audit", "export", host, "--continue", "-o", file)
            with open(file, "rb") as again:
                assert again.read() == content, (form, length)
    chosen = nonce()
    told = sijil("audit", "export", host, "--key", "org:main", "--log-key", state["vkey"], "--nonce", chosen, "-o", folder + "/proven")
    with open(folder + "/proven", "rb") as file:
        assert told.endswith(verify(file.read(), "--nonce", chosen)), told  # what the verifier says, at once
    another = state["vkey"][:-6] + ("AAAAA=" if state["vkey"].endswith("=") else "AAAAAA")
    assert "--log-key" in sijil("audit", "export", host, "--key", "org:main", "--log-key", "no key", "-o", folder + "/none", code=1)
    sijil("audit", "export", host, "--key", "org:main", "--log-key", another, "-o", folder + "/none", code=1)
    sijil("audit", "export", host, "--key", "bad", "-o", folder + "/none", code=1)
    assert not [name for name in os.listdir(folder) if name.startswith("none")]
    for number, (words, key) in enumerate(((("--resource", "main/models/digits"), "res:main/models/digits"), (("--prefix", "main"), "org:main"),
                                           (("--prefix", "main/models"), "prj:main/models"), (("--prefix", "main/"), "org:main"), (("--outcome", "denied"), "out:denied"), (("--actor", "system"), "act:system"))):
        told = sijil("audit", "export", host, *words, "-o", f"{folder}/key-{number}")
        assert f"events under {key};" in told and "NO EVENT" not in told, told
    told = sijil("audit", "export", host, "--prefix", "main/mod", "-o", folder + "/empty")
    assert "0 events under prj:main/mod;" in told and "NO EVENT of this range stands under prj:main/mod. Does this name exist?" in told, told
    for words, said in ((("--prefix", "/main"), "whole segments"), (("--prefix", "main//models"), "whole segments"), (("--resource", "main/models/digits:v1"), "whole segments"),
                        (("--resource", "main/models/digits@sha256"), "whole segments"), (("--actor", "alice"), "pseudonym")):
        assert said in sijil("audit", "export", host, *words, "-o", folder + "/none", code=1), words
    for words, keys in ((("--resource", "main/models/digits", "--outcome", "denied"), ["res:main/models/digits", "out:denied"]), (("--country", "AE"), []),
                        (("--key", "org:main", "--action", "blob.read"), ["org:main"]), (("--prefix", "main/models/vision"), ["prj:main/models"])):
        told = sijil("audit", "export", "localhost:1", *words, "-o", folder + "/none", code=1)  # nothing is sent: nobody is there
        assert "completeness can't be proven" in told and [line.split("--key ")[1] for line in told.split("\n") if "--key " in line] == keys, told
    for words in (("-a", "system"), ("-P", "main"), ("-C", "AE")):  # a letter of a search means no condition here
        assert f"there is no option {words[0]}" in sijil("audit", "export", host, *words, "-o", folder + "/none", code=2)
    opened = sijil("audit", "search", host, "--action", "audit.export", "--detail", "opened", "--lines", "all", "--json")
    assert {json.loads(line)["entry"]["seq"] for line in opened.splitlines() if line.startswith("{")} == state["opened"], opened
    sijil("audit", "export", host, "-o", folder + "/none", code=2)
    sijil("audit", "export", host, "--key", "org:main", code=2)
    begun = f"{folder}/main.ndjson"
    with open(begun, "rb") as file:
        content = file.read()
    with open(folder + "/begun.part", "wb") as part:
        part.write(content[:len(content) // 2])
    other = make_robot(server, "another-auditor", "auditor", "")
    sijil("login", host, "--username", other[0], "--ca-file", server.ca_file, text=other[1] + "\n")
    told = sijil("audit", "export", host, "--continue", "-o", folder + "/begun", code=3)
    assert "begun.part is kept: --continue goes on with it, as the login that has begun it" in told, told
    sijil("login", host, "--username", name, "--ca-file", server.ca_file, text=secret + "\n")
    for words, code in ((("--resource", "main/models/digits"), 2), (("--from", "1"), 2), (("--key", "org:other"), 1), (("--nonce", "ab" * 16), 1)):
        sijil("audit", "export", host, "--continue", *words, "-o", folder + "/begun", code=code)
    sijil("audit", "export", host, "--continue", "--key", "org:main", "-o", folder + "/begun")
    with open(folder + "/begun", "rb") as file:
        assert file.read() == content
    report = json.loads(sijil("audit", "export", host, "--json", "--key", "out:denied", "--open", "--purpose", "a test", "-o", folder + "/denied"))
    assert report["events"] > 5 and report["is_opened"] and report["opened"] == report["events"], report


def a_damaged_entry_makes_no_export():
    """A superuser's edit of an exported row: the export fails, and no file shows it."""
    made = ask("auditor", "res:main/models/digits")
    content = whole("auditor", made["number"])
    victim = shown(content, "ndjson")[1]
    server.sql(f"UPDATE audit_entry SET leaf = replace(convert_from(leaf, 'UTF8'), '\"out\":\"', '\"out\":\"x')::bytea WHERE seq = {victim}")
    try:
        answer = get_lines("auditor", made["number"], "")
        assert answer.status == 503, (answer.status, answer.body[:300])
    except (OSError, http.client.HTTPException):
        pass


prepare()
sijil_test.run(many_events_are_recorded, random_exports_equal_a_scan, an_auditor_of_a_part_exports_its_part, the_beginning_of_an_organisation_is_an_edge,
               names_are_opened_for_a_purpose, lines_are_events_of_their_ocsf_class, filters_that_no_key_stands_for_are_told_so, the_command_line_exports_and_goes_on,
               a_damaged_entry_makes_no_export, server=server)
