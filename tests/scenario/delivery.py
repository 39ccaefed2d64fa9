#!/usr/bin/env python3
"""Rules find attacks in the log, and the log is delivered to sinks: a file, a signed webhook and a real rsyslog over mutual TLS. No number is missing there, whatever the peer does,
and after the gateway is killed in the middle (docs/delivery.md, docs/detection.md)."""
import base64
import functools
import hashlib
import hmac
import http.server
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time

from ci_systems import SHAPES
from signing_keys import DAY, canonical, utc
from sijil_test import Issuer, LeftOut, NoToken, Server, free_port, make_robot, program, run, wait_until

TYPE = "application/vnd.sijil.{}.v1+json"
SET = "application/vnd.sijil.policy-set.v1+json"
REGION = "local/main"
ALL = {"api-activity": [], "authentication": [], "application-lifecycle": [], "detection-finding": []}

server = Server()
folder = tempfile.mkdtemp(prefix="sijil-peers-", dir="/var/tmp")
versions, processes, robots = {}, [], {}


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, cwd=folder)


def certificate(name, authority, *more):
    """A key and a certificate of an authority; without one, an authority."""
    openssl("req", "-x509" if authority is None else "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem" if authority is None else f"{name}.csr")
    if authority is not None:
        with open(f"{folder}/{name}.ext", "w", encoding="ascii") as file:
            file.write("subjectAltName=IP:127.0.0.1\n")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-CAcreateserial", "-days", "2",
                "-extfile", f"{name}.ext", "-out", f"{name}.pem", *more)


def read(name):
    with open(f"{folder}/{name}", encoding="ascii") as file:
        return file.read()


def sign(kind, document):
    made = subprocess.run(["openssl", "dgst", "-sha256", "-sign", server.folder + "/officer/approver.pem"], check=True, capture_output=True,
                          input=b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(document), document))
    return {"payloadType": kind, "payload": base64.b64encode(document).decode(), "signatures": [{"sig": base64.b64encode(made.stdout).decode()}]}


def signed(name, body, kind="audit-sink", **more):
    """A new version of a sink or a detection rule, signed by the root."""
    versions[name] = versions.get(name, 0) + 1
    now = time.time()
    return sign(TYPE.format(kind), canonical({"schema": "sijil.document/v1", "kind": kind, "scope": "", "name": name, "version": versions[name],
                                              "effective_from": utc(now - 1), "expires": utc(now + 30 * DAY), "body": body, **more}))


def put(name, body):
    return admin().api("POST", "/audit/sinks", signed(name, body))


def withdraw(name):
    admin().api("POST", f"/audit/sinks/{name}/withdrawal", signed(name, {}, withdrawn="a test"))


@functools.cache
def client_of(login):
    """One for all calls: a new one asks for a token, and its event is one more to deliver."""
    return server.client(login)


def admin():
    return client_of(server.admin)


def auditor():
    return client_of(robots["auditor"])


def shown(name):
    return auditor().api("GET", f"/audit/sinks/{name}")


def events(action=None):
    found, after = [], ""
    while True:
        only = "" if action is None else "&action=" + action
        page = auditor().api("GET", f"/audit/events?order=ascending&limit=1000{only}{after}")
        found += [event["entry"] for event in page["events"]]
        if "next" not in page:
            return found
        after = "&after=" + page["next"]


def act(times=1):
    """Events of a robot that reads nothing."""
    for _ in range(times):
        client_of(robots["reader"]).call("GET", "/v2/main/models/nothing/manifests/v1", scope="repository:main/models/nothing:pull")


def numbers_of(messages):
    """All numbers that a peer knows, however often; each message names one event, or says which are withheld."""
    known = set()
    for message in messages:
        if message.get("withheld"):
            known |= set(range(message["first"], message["last"] + 1))
        else:
            known.add(message["metadata"]["sequence"])
    return known


def size():
    return int(auditor().call("GET", "/api/v1/audit/checkpoint", scope="registry:admin:*").body.split(b"\n")[1])


def has_all(name, messages, seconds=60):
    """Waits until the peer knows each number from the sink's first one to the size that the log has now."""
    wanted, first = size(), shown(name)["event"]
    first = next(iter([shown(name).get("delivery", {}).get("first", first)]))
    wait_until(lambda: set(range(first, wanted)) <= numbers_of(messages()), seconds, f"the peer of {name} does not know all numbers")
    return first


# ---- a file ----

def path_of(name):
    return f"{server.folder}/delivery/{name}"


def lines(*names):
    found = []
    for name in names:
        if os.path.exists(path_of(name)):
            with open(path_of(name), encoding="utf-8") as file:
                found += [json.loads(line) for line in file.read().splitlines() if line.endswith("}")]
    return found


def a_file_has_each_event_and_can_be_rotated():
    put("tail", {"transport": "file", "region": REGION, "address": "tail.ndjson", "classes": ALL})
    act(3)
    first = has_all("tail", lambda: lines("tail.ndjson"))
    assert oct(os.stat(path_of("tail.ndjson")).st_mode & 0o777) == "0o640"
    os.rename(path_of("tail.ndjson"), path_of("old.ndjson"))
    act(3)
    has_all("tail", lambda: lines("old.ndjson", "tail.ndjson"))
    assert first == shown("tail")["event"], "a new sink begins with its own event"
    wait_until(lambda: lines("tail.ndjson"), 60, "the new file gets no events")  # the checkpoint that was waited for may be from before they were made
    assert numbers_of(lines("old.ndjson")).isdisjoint(numbers_of(lines("tail.ndjson")))


def events_are_whole_and_name_nobody():
    found = next(line for line in lines("old.ndjson", "tail.ndjson") if line.get("api", {}).get("operation") == "manifest.read")
    assert found["class_uid"] == 6003 and found["resources"][0]["name"].startswith("main/models/nothing"), found
    assert len(found["actor"]["user"]["uid"]) == 64 and "name" not in found["actor"]["user"] and found["src_endpoint"] == {"name": "sealed"}, found
    assert json.loads(found["raw_data"])["seq"] == found["metadata"]["sequence"]
    text = json.dumps(lines("old.ndjson", "tail.ndjson"))
    assert "127.0.0.1" not in text.replace(f"https://127.0.0.1:{server.port}", ""), "an address has left"


def a_torn_line_of_a_kill_becomes_a_line():
    with open(path_of("tail.ndjson"), "a", encoding="ascii") as file:
        file.write('{"metadata":{"seq')
    act()
    has_all("tail", lambda: lines("old.ndjson", "tail.ndjson"))

    def text():
        with open(path_of("tail.ndjson"), encoding="ascii") as file:
            return file.read()

    wait_until(lambda: '{"metadata":{"seq\n' in text(), 60, "the torn line has no end")  # as above, the events may come after the checkpoint


def a_region_that_is_not_listed_gets_numbers_alone():
    put("abroad", {"transport": "file", "region": "nowhere/at-all", "address": "abroad.ndjson", "classes": ALL})
    act(2)
    has_all("abroad", lambda: lines("abroad.ndjson"))
    assert all(set(line) == {"first", "last", "withheld"} for line in lines("abroad.ndjson")), lines("abroad.ndjson")[0]
    withdraw("abroad")


def begin_pipeline(project):
    """A trust rule of the project, and a token of the pipeline that it lets in."""
    url, claims = SHAPES["github"]
    issuer = Issuer(url, f"https://127.0.0.1:{server.port}")
    admin().api("POST", "/projects", {"organisation": project.split("/", maxsplit=1)[0], "name": project.split("/")[1]})
    admin().api("POST", "/issuers", {"url": url, "algorithms": ["ES256"], "jwks": issuer.jwks, "lifetime_max": 900})
    match = {"/repository_id": {"eq": claims["repository_id"]}, "/ref": {"eq": claims["ref"]}, "/event_name": {"eq": "push"}}
    body = {"system": "github", "issuer": url, "audience": f"https://127.0.0.1:{server.port}", "match": match, "grant": [{"role": "consumer", "on": project}],
            "priority": 100, "max_ttl": 120, "single_use": False}
    admin().api("POST", "/trust-rules", signed("gh", body, "trust-rule", scope=project))
    return issuer.token(**claims)


def names_in_a_detail_are_decided_too():
    """The policies keep the log of a repository in the country; a token's scope names it, and so do its trust rule and the key of an export. A detail is cut,
    also within the name."""
    pipeline = begin_pipeline("main/kept")
    regions, (policy,) = first_set()["regions"], first_set()["policies"]
    abroad = {**policy, "rules": [rule for rule in policy["rules"] if rule["id"] != "R-STORE-HOME"]}
    home = {**policy, "metadata": {**policy["metadata"], "id": "merger-home", "scope": ["main/models/merger", "main/kept/**"]}}
    load_set(regions={**regions, "fr/soc": {**regions[REGION], "geo": "FR"}}, policies=[home, abroad])
    put("soc", {"transport": "file", "region": "fr/soc", "address": "soc.ndjson", "classes": ALL})
    put("short", {"transport": "file", "region": "fr/soc", "address": "short.ndjson", "classes": {"authentication": ["detail"]}})
    for scope in ("repository:main/models/merger:pull registry:catalog:*", "repository:" + "x" * 97 + ":pull repository:main/models/merger:pull",
                  "repository:x:main/models/merger:pull", "repository:main/models/digits:pull"):
        server.client(robots["reader"]).token(scope)
    assert server.client(robots["reader"]).exchange(pipeline, "registry:catalog:*").status == 200
    auditor().api("POST", "/audit/exports", {"key": "res:main/models/merger", "nonce": "0123456789abcdef" * 2})
    mints = [event["seq"] for event in events("token.mint") if "main/models/mer" in event["res"] or "main/kept" in event["res"]]
    other = [event["seq"] for event in events("token.mint") if event["res"] == "#repository:main/models/digits:pull"]
    for name in ("soc", "short"):
        has_all(name, lambda: lines(name + ".ndjson"))
    delivered = json.dumps(lines("soc.ndjson") + lines("short.ndjson"))
    assert "main/models/mer" not in delivered and "main/kept" not in delivered
    whole = {line["metadata"]["sequence"]: line for line in lines("soc.ndjson") if "metadata" in line}
    assert len(mints) == 4 and not whole.keys() & set(mints) and other and other[-1] in whole, (mints, other, list(whole))
    assert set(mints) <= {line["metadata"]["sequence"] for line in lines("short.ndjson") if "metadata" in line}, "without the detail they name nothing"
    for name in ("soc", "short"):
        withdraw(name)
    load_set()


def what_the_document_leaves_out_does_not_leave():
    put("bare", {"transport": "file", "region": REGION, "address": "bare.ndjson",
                 "classes": {"api-activity": ["actor", "detail", "rules", "request", "region"]}})
    act(2)
    has_all("bare", lambda: lines("bare.ndjson"))
    whole = [line for line in lines("bare.ndjson") if "metadata" in line]
    assert whole and all(line["class_uid"] == 6003 for line in whole), "another class has left"
    for line in whole:
        assert not {"raw_data", "actor", "user", "src_endpoint", "status_detail", "http_request"} & set(line) and "request" not in line["api"], line
        assert all("#" not in one["name"] and "data" not in one for one in line["resources"]), line
    withdraw("bare")


def names_leave_for_a_purpose_alone():
    put("named", {"transport": "file", "region": REGION, "address": "named.ndjson", "classes": ALL, "names": {"purpose": "the SOC, case 4711"}})
    act()
    has_all("named", lambda: lines("named.ndjson"))
    found = next(line for line in lines("named.ndjson") if line.get("api", {}).get("operation") == "manifest.read")
    assert found["src_endpoint"] == {"ip": "127.0.0.1"} and found["actor"]["user"]["name"], found
    wait_until(lambda: any(event["res"].startswith("#named ") for event in events("sink.open")), 10, "no event says that names have left")
    withdraw("named")


# ---- a webhook ----

class Webhook(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answers, got, secrets = [], [], []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = Webhook.answers.pop(0) if Webhook.answers else 200
        if answer == "hang":
            time.sleep(3)
        if answer in ("close", "hang"):
            self.close_connection = True
            return
        if answer == 200:
            Webhook.got.append((dict(self.headers), body))
        self.send_response(answer)
        if answer == 429:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def begin_webhook(name="peer"):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{folder}/{name}.pem", f"{folder}/{name}.key")
    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Webhook)
    listening.socket = context.wrap_socket(listening.socket, server_side=True)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    return listening


def cloud_events():
    return [event for _, body in list(Webhook.got) for event in json.loads(body)]


def webhook_body(listening, **more):
    return {"transport": "webhook", "region": REGION, "address": f"https://127.0.0.1:{listening.server_address[1]}/hook", "classes": ALL,
            "ca": read("authority.pem"), "signature": "v1", **more}


def is_signed(headers, body, secret):
    message = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    mac = base64.b64encode(hmac.new(base64.b64decode(secret[6:]), message, hashlib.sha256).digest()).decode()
    return "v1," + mac in headers["webhook-signature"].split(" ")


def a_webhook_gets_signed_cloud_events():
    robots["webhook"] = begin_webhook()
    put("hook", webhook_body(robots["webhook"]))
    robots["secret"] = admin().api("POST", "/audit/sinks/hook/secret")["secret"]
    act(2)
    has_all("hook", lambda: [event["data"] for event in cloud_events()])
    for headers, body in Webhook.got:
        assert headers["Content-Type"].startswith("application/cloudevents-batch+json") and is_signed(headers, body, robots["secret"]), headers
        assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
    event = next(one for one in cloud_events() if one["type"] == "sijil.audit.event")
    assert event["specversion"] == "1.0" and event["id"] == str(event["data"]["metadata"]["sequence"]) and event["source"].startswith("//"), event
    assert "//" + event["data"]["metadata"]["uid"] == f"{event['source']}/{event['id']}"


def a_renewed_key_signs_beside_the_one_before():
    fresh = admin().api("POST", "/audit/sinks/hook/secret")
    assert fresh["key"] == 2 and fresh["secret"] != robots["secret"]
    before = len(Webhook.got)
    act()
    wait_until(lambda: any(is_signed(*one, fresh["secret"]) for one in Webhook.got[before:]), 30, "nothing is signed with the new key")
    assert all(is_signed(*one, robots["secret"]) for one in Webhook.got[before:]), "the old key no longer signs"


def a_webhook_that_fails_misses_no_number():
    Webhook.answers[:] = ["close", 500, 429, "hang"]
    act(3)
    wait_until(lambda: "stopped_at" in shown("hook")["delivery"], 60, "the sink does not stop")
    has_all("hook", lambda: [event["data"] for event in cloud_events()], 120)
    assert not Webhook.answers
    wait_until(lambda: "stopped_at" not in shown("hook")["delivery"], 30, "the sink does not return")
    for action in ("sink.stop", "sink.return"):
        assert [event["res"] for event in events(action)] == ["#hook"], action
    ids = [headers["webhook-id"] for headers, _ in Webhook.got]
    assert len(ids) == len(set(ids)), "a batch that was taken came again"


def listed_by_command():
    host, (name, secret) = f"127.0.0.1:{server.port}", server.admin
    environment = {**os.environ, "XDG_CONFIG_HOME": server.root + "/client", "SIJIL_CONFIG_HOME": server.root + "/client"}

    def sijil(*words, text=None):
        return subprocess.run([program("sijil"), *words], input=text, check=True, capture_output=True, text=True, env=environment, timeout=60).stdout

    sijil("login", host, "--username", name, "--ca-file", server.ca_file, text=secret + "\n")
    return sijil("admin", "sink", "list", host).splitlines()


def a_webhook_with_a_wrong_certificate_gets_nothing():
    robots["wrong"] = begin_webhook("stranger")
    put("hook", webhook_body(robots["wrong"]))
    act(2)
    wait_until(lambda: "certificate" in shown("hook")["delivery"].get("problem", ""), 60, "the certificate is no problem")
    listed = listed_by_command()
    assert "PROBLEM" in listed[0] and any("certificate" in line for line in listed if line.startswith("hook ")), listed
    assert not any(headers["Host"].endswith(f":{robots['wrong'].server_address[1]}") for headers, _ in Webhook.got)
    Webhook.got.clear()
    put("hook", webhook_body(robots["webhook"], signature="v1a"))
    robots["public"] = admin().api("POST", "/audit/sinks/hook/secret")["secret"]
    assert robots["public"].startswith("whpk_")
    act()
    wanted = size() - 1
    wait_until(lambda: wanted in numbers_of([event["data"] for event in cloud_events()]), 90, "the sink does not go on")
    assert Webhook.got[0][0]["webhook-signature"].startswith("v1a,")
    check_ed25519(*Webhook.got[-1])
    withdraw("hook")


def check_ed25519(headers, body):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    message = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    signature = base64.b64decode(headers["webhook-signature"].split(" ")[0].split(",", 1)[1])
    Ed25519PublicKey.from_public_bytes(base64.b64decode(robots["public"][5:])).verify(signature, message)


# ---- rsyslog ----

def begin_rsyslog(port):
    """A real rsyslog that takes only clients of our authority, and writes each message as it came."""
    with open(f"{folder}/rsyslog.conf", "w", encoding="ascii") as file:
        file.write(f"""global(workDirectory="{folder}" maxMessageSize="128k" defaultNetstreamDriver="ossl"
       defaultNetstreamDriverCAFile="{folder}/authority.pem" defaultNetstreamDriverCertFile="{folder}/peer.pem"
       defaultNetstreamDriverKeyFile="{folder}/peer.key")
module(load="imtcp" streamDriver.name="ossl" streamDriver.mode="1" streamDriver.authMode="x509/certvalid")
template(name="raw" type="string" string="%syslogfacility-text% %syslogseverity-text% %app-name% %msgid% %msg%\\n")
input(type="imtcp" address="127.0.0.1" port="{port}" ruleset="all")
ruleset(name="all") {{ action(type="omfile" file="{folder}/rsyslog.log" template="raw" asyncWriting="off" flushOnTXEnd="on") }}
""")
    process = subprocess.Popen(["rsyslogd", "-n", "-f", f"{folder}/rsyslog.conf", "-i", f"{folder}/rsyslog.pid"],
                               stdout=subprocess.DEVNULL, stderr=open(f"{folder}/rsyslog.err", "ab"))
    processes.append(process)
    return process


def syslog_messages():
    if not os.path.exists(f"{folder}/rsyslog.log"):
        return []
    with open(f"{folder}/rsyslog.log", encoding="utf-8") as file:
        return [json.loads(line[line.index("{"):]) for line in file.read().splitlines() if line.endswith("}")]


def rsyslog_gets_all_over_mutual_tls():
    if shutil.which("rsyslogd") is None:
        raise LeftOut("rsyslogd is not installed")
    robots["port"] = free_port()
    robots["rsyslog"] = begin_rsyslog(robots["port"])
    put("siem", {"transport": "syslog", "region": REGION, "address": f"127.0.0.1:{robots['port']}", "classes": ALL, "ca": read("authority.pem")})
    act(5)
    has_all("siem", syslog_messages)
    with open(f"{folder}/rsyslog.log", encoding="utf-8") as file:
        first = file.readline().split(" ", 4)
    assert first[0] in ("audit", "local4", "13") or first[0] and first[2] == "sijil" and first[3] in ("event", "withheld"), first


def rsyslog_that_dies_misses_no_number():
    if "rsyslog" not in robots:
        raise LeftOut("rsyslogd is not installed")
    robots["rsyslog"].kill()
    robots["rsyslog"].wait()
    act(5)
    wait_until(lambda: size() > shown("siem")["delivery"]["next"] + 3, 30, "events are taken by nobody")
    robots["rsyslog"] = begin_rsyslog(robots["port"])
    has_all("siem", syslog_messages, 120)


# ---- kills ----

def a_gateway_that_is_killed_misses_no_number():
    names = [name for name in ("tail", "siem") if name in versions]
    stop = threading.Event()

    def press():
        while not stop.is_set():
            try:
                act()
                stop.wait(0.02)  # enough events, and time for the start
            except Exception:  # the server is killed meanwhile
                time.sleep(0.05)

    pressing = [threading.Thread(target=press) for _ in range(4)]
    for thread in pressing:
        thread.start()
    for _ in range(2):
        time.sleep(1)
        for process in server.processes("sijild"):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        server.process.wait()
        for name in ("postgres", "sijil-keyd"):
            for process in server.processes(name):
                server.wait_gone(process)
        server.start()
    stop.set()
    for thread in pressing:
        thread.join()
    for name in names:
        has_all(name, syslog_messages if name == "siem" else lambda: lines("old.ndjson", "tail.ndjson"), 120)


# ---- who may ----

def is_refused(method, body=None):
    """Whether a consumer may not."""
    try:
        return server.client(robots["reader"]).call(method, "/api/v1/audit/sinks", body, {"Content-Type": "application/json"} if body else {},
                                                    scope="registry:admin:*").status in (401, 403, 404)
    except NoToken:
        return True


def what_was_not_taken_is_decided_again():
    regions = first_set()["regions"]
    load_set(regions={**regions, "local/soc": regions[REGION]})
    os.mkdir(path_of("again.ndjson"))
    put("again", {"transport": "file", "region": "local/soc", "address": "again.ndjson", "classes": ALL})
    act()
    wait_until(lambda: "can't be written" in shown("again").get("delivery", {}).get("problem", ""), 60, "the sink does not stop")
    load_set()  # the region is no longer in it
    os.rmdir(path_of("again.ndjson"))
    has_all("again", lambda: lines("again.ndjson"))
    assert all(set(line) == {"first", "last", "withheld"} for line in lines("again.ndjson")), lines("again.ndjson")[0]
    withdraw("again")


def a_sink_needs_rights_and_signatures():
    body = {"transport": "file", "region": REGION, "address": "x.ndjson", "classes": ALL}
    assert is_refused("POST", json.dumps(signed("x", body)))
    for wrong, says in (({**body, "transport": "smtp"}, "transport"), ({**body, "address": "../x"}, "address"), ({**body, "classes": {}}, "classes"),
                        ({**body, "names": {}}, "names"), ({**body, "more": 1}, "more")):
        answer = admin().api("POST", "/audit/sinks", signed("x", wrong), expect=(400,))
        assert says in json.dumps(answer), answer
    stale = signed("tail", body)
    versions["tail"] -= 1
    envelope = {**stale, "payload": base64.b64encode(base64.b64decode(stale["payload"]).replace(b"x.ndjson", b"y.ndjson")).decode()}
    admin().api("POST", "/audit/sinks", envelope, expect=(403,))
    listed = auditor().api("GET", "/audit/sinks")
    assert [sink["name"] for sink in listed["sinks"] if sink["state"] == "in force"] == [n for n in ("siem", "tail") if n in versions], listed
    assert is_refused("GET")
    auditor().api("GET", "/audit/sinks?scope=acme", expect=(404,))


def metrics_say_how_far_sinks_are():
    text = admin().call("GET", "/metrics").body.decode()
    assert 'sijil_delivery_events_total{left="whole"}' in text and "sijil_delivery_lag_events" in text, text[-2000:]


# ---- detection ----

def alarms(rule):
    """The alarms of a rule: actor, and the numbers of their events."""
    found = []
    for event in events("alarm.raise"):
        words = event["res"].lstrip("#").split(" ")
        if words[0] == rule:
            found.append((event["seq"], *(word.split("=", 1)[1] for word in words[1:] if word.startswith(("actor=", "events=")))))
    return found


def have_seen_all():
    """The rules have looked at each event that the log has now."""
    wanted = server.sql("SELECT size FROM audit_log")
    wait_until(lambda: server.sql(f"SELECT at >= {wanted} FROM audit_detection") == "t", 60, "the rules are behind")


def rule(name, **body):
    admin().api("POST", "/audit/detections", signed(name, body, "detection-rule"))


def load_set(**changes):
    """The set of the start with these members, as the next epoch."""
    versions[SET] = versions.get(SET, 1) + 1
    found = first_set()
    found.update({"epoch": versions[SET], **changes})
    del found["digest"]
    found["digest"] = "sha256:" + hashlib.sha256(canonical(found)).hexdigest()
    admin().api("POST", "/policies", sign(SET, canonical(found)))


def first_set():
    with open(server.folder + "/officer/policy-set.json", encoding="utf-8") as file:
        return json.loads(base64.b64decode(json.load(file)["payload"]))


def a_burst_of_denials_makes_one_alarm():
    server.client(robots["quiet"]).call("GET", "/v2/main/other/x/manifests/v1", scope="repository:main/other/x:pull")
    client = server.client(robots["denied"])
    for _ in range(45):
        client.call("GET", "/v2/main/other/x/manifests/v1", scope="repository:main/other/x:pull")
    wait_until(lambda: alarms("denial-burst"), 30, "no alarm tells of the denials")
    have_seen_all()
    found = alarms("denial-burst")
    assert len(found) == 1, found
    numbers = [int(number) for number in found[0][2].split(",")]
    by_number = {event["seq"]: event for event in events()}
    assert len(numbers) == 16 and all(by_number[number]["out"] == "denied" for number in numbers)
    wait_until(lambda: found[0][0] in {line["metadata"]["sequence"] for line in lines("old.ndjson", "tail.ndjson") if line.get("class_uid") == 2004},
               30, "the alarm is not delivered")


def a_mass_pull_makes_an_alarm_and_a_busy_job_none():
    rule("mass-pull", detector="mass-pull", threshold=6, window=600)
    publisher = server.client(robots["publisher"]).repository("main/models/digits")
    blobs = [publisher.push_blob(b"weights %d" % i) for i in range(8)]
    wait_until(lambda: any(one["name"] == "mass-pull" and one["threshold"] == 6 and "event" in one
                           for one in auditor().api("GET", "/audit/alarm-rules")["rules"]), 30, "the rule is not in force")
    for _ in range(2):  # the second look begins with the rule
        act()
        have_seen_all()
    for who, wanted in (("job", [blobs[0]] * 20), ("thief", blobs)):
        repository = server.client(robots[who]).repository("main/models/digits")
        for blob in wanted:
            assert repository.call("GET", f"blobs/{blob}", scope="repository:main/models/digits:pull").status == 200
    wait_until(lambda: alarms("mass-pull"), 30, "no alarm tells of the pulls")
    assert len(alarms("mass-pull")) == 1, alarms("mass-pull")
    trial = auditor().api("GET", "/audit/alarm-rules/mass-pull/trial?since=2026-01-01T00:00:00Z")
    assert [one["actor"] for one in trial["alarms"]] == [alarms("mass-pull")[0][1]] and trial["is_whole"], trial
    auditor().api("GET", "/audit/alarm-rules/new-country/trial", expect=(400,))
    auditor().api("GET", "/audit/alarm-rules/magic/trial", expect=(404,))


def a_pull_of_many_bytes_makes_an_alarm():
    """Two blobs of 700 kB against a bound of one MiB: the first one alone, read often, makes no alarm."""
    rule("mass-pull-bytes", detector="mass-pull-bytes", threshold=1, window=600)
    publisher = server.client(robots["publisher"]).repository("main/models/digits")
    blobs = [publisher.push_blob(os.urandom(700_000)) for _ in range(2)]
    wait_until(lambda: any(one["name"] == "mass-pull-bytes" and one["threshold"] == 1 and "event" in one
                           for one in auditor().api("GET", "/audit/alarm-rules")["rules"]), 30, "the rule is not in force")
    for _ in range(2):  # the second look begins with the rule
        act()
        have_seen_all()
    for who, wanted in (("job", [blobs[0]] * 5), ("thief", blobs)):
        repository = server.client(robots[who]).repository("main/models/digits")
        for blob in wanted:
            assert repository.call("GET", f"blobs/{blob}", scope="repository:main/models/digits:pull").status == 200
    wait_until(lambda: alarms("mass-pull-bytes"), 30, "no alarm tells of the bytes")
    assert [actor for _, actor, _ in alarms("mass-pull-bytes")] == [alarms("mass-pull")[0][1]], alarms("mass-pull-bytes")
    auditor().api("GET", "/audit/alarm-rules/mass-pull-bytes/trial", expect=(400,))


def a_client_in_a_new_country_makes_an_alarm():
    load_set(networks=[{"cidr": "127.0.0.0/24", "facts": {"geo": "AE/DU", "assurance": 2}}, {"cidr": "127.0.1.0/24", "facts": {"geo": "FR", "assurance": 2}}])
    client = server.client(robots["traveller"])

    def read(address, scope="repository:main/models/digits:pull"):
        token = client.token(scope)
        link = client.connection(address=address)
        answer = client.call("GET", "/v2/main/models/digits/manifests/none", headers={"Authorization": "Bearer " + token}, connection=link)
        link.close()
        return answer.status

    for address in ("127.0.0.1", "127.0.0.7", "127.0.0.1"):
        read(address)
    have_seen_all()
    assert not alarms("new-country"), alarms("new-country")
    assert read("127.0.1.9", "repository:main/other/x:pull") == 401  # a refused request from there hides nothing
    have_seen_all()
    assert not alarms("new-country"), alarms("new-country")
    read("127.0.1.9")
    wait_until(lambda: alarms("new-country"), 40, "no alarm tells of the new country")
    read("127.0.1.9")
    have_seen_all()
    assert len(alarms("new-country")) == 1, alarms("new-country")


def a_sink_that_stopped_made_an_alarm():
    stops = [event["seq"] for event in events("sink.stop")]
    wait_until(lambda: sorted(int(numbers) for _, _, numbers in alarms("sink-stopped")) == stops, 30, "an alarm is missing")


def no_alarm_comes_twice_after_kills():
    wait_until(lambda: auditor().api("GET", "/audit/alarm-rules"), 30, "the server does not answer")
    have_seen_all()
    found = [(rule, actor, numbers) for rule in ("denial-burst", "mass-pull", "mass-pull-bytes", "new-country", "sink-stopped") for _, actor, numbers in alarms(rule)]
    assert len(found) == len(set(found)), found
    assert len(alarms("mass-pull")) == 1 and len(alarms("new-country")) == 1, found


def prepare():
    certificate("authority", None)
    certificate("other", None)
    certificate("peer", "authority")
    certificate("client", "authority")
    certificate("stranger", "other")
    server.start()  # the certificate is read at a start
    for name in ("client.pem", "client.key"):
        shutil.copy(f"{folder}/{name}", path_of(name))
        os.chmod(path_of(name), 0o644)
    server.stop()
    server.start()
    robots["auditor"] = make_robot(server, "auditor", "auditor", "")
    for name in ("reader", "denied", "quiet", "job", "thief", "traveller"):
        robots[name] = make_robot(server, name, "consumer", "main/models")
    robots["publisher"] = make_robot(server, "publisher", "publisher", "main/models")


def main():
    prepare()
    try:
        run(a_file_has_each_event_and_can_be_rotated, events_are_whole_and_name_nobody, a_torn_line_of_a_kill_becomes_a_line,
            a_region_that_is_not_listed_gets_numbers_alone, names_in_a_detail_are_decided_too, what_the_document_leaves_out_does_not_leave, names_leave_for_a_purpose_alone,
            a_webhook_gets_signed_cloud_events, a_renewed_key_signs_beside_the_one_before, a_webhook_that_fails_misses_no_number,
            a_webhook_with_a_wrong_certificate_gets_nothing, rsyslog_gets_all_over_mutual_tls, rsyslog_that_dies_misses_no_number,
            what_was_not_taken_is_decided_again, a_sink_needs_rights_and_signatures, metrics_say_how_far_sinks_are, a_burst_of_denials_makes_one_alarm,
            a_mass_pull_makes_an_alarm_and_a_busy_job_none, a_pull_of_many_bytes_makes_an_alarm, a_client_in_a_new_country_makes_an_alarm, a_sink_that_stopped_made_an_alarm,
            a_gateway_that_is_killed_misses_no_number, no_alarm_comes_twice_after_kills, server=server)
    finally:
        for process in processes:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
