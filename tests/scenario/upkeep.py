"""Scrubs, key rotation, and stopping these jobs, as an operator does it: with `sijil`, on a whole server."""
import base64
import glob
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time

from sijil_test import Server, children_of, make_robot, program, run, sha256, wait_until

server = Server().start()
HOST = f"127.0.0.1:{server.port}"
login = make_robot(server, "publisher", "publisher", "main/models")
auditor = make_robot(server, "auditor", "auditor", "")
ENVIRONMENT = dict(os.environ, XDG_CONFIG_HOME=os.path.join(server.root, "config"))


def sijil(*words, expect=0, stdin=None):
    done = subprocess.run([program("sijil"), *words], capture_output=True, text=True, timeout=200, env=ENVIRONMENT, input=stdin)
    assert done.returncode == expect, f"sijil {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def as_admin():
    name, secret = server.admin
    sijil("login", HOST, "-u", name, "-p", "-c", server.ca_file, stdin=secret + "\n")


def place(name="main/models/upkeep"):
    return server.client(login).repository(name)


def objects():
    """Files of blobs, the newest last."""
    found = [path for path in glob.glob(server.folder + "/**", recursive=True)
             if os.path.isfile(path) and open(path, "rb").read(4) == b"SJB1"]
    return sorted(found, key=os.path.getmtime)


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


def events(action, outcome):
    found = server.client(auditor).api("GET", "/audit/events?limit=1000")["events"]
    return [event["entry"] for event in found if event["entry"]["act"] == action and event["entry"]["out"] == outcome]


def a_sound_region_scrubs_clean():
    as_admin()
    place().push_blob(os.urandom(300_000))
    job = json.loads(sijil("admin", "scrub", HOST, "--digest", "--json"))
    assert job["state"] == "completed" and job["found"] == 0 and job["done"] == job["total"] > 0, job
    assert job["bytes_done"] == job["bytes_total"] and job["region"] == "local/main", job
    assert len(events("scrub.start", "allowed")) == 1 and len(events("job.run", "completed")) == 1
    told = numbers()
    assert (told['sijil_jobs_ended_total{kind="scrub",state="completed"}'], told['sijil_jobs_ended_total{kind="scrub",state="failed"}']) == (1, 0)


def wait_for_readyz(status, words):
    def is_so():
        answer = server.client().call("GET", "/readyz")
        return answer.status == status and words in answer.body.decode()
    wait_until(is_so, 30, f"/readyz is not {status} with {words!r}")


def numbers():
    """All metrics, by name and labels."""
    lines = [line for line in server.client().call("GET", "/metrics").body.decode().splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def a_gateway_tells_of_itself_and_of_keyd():
    """Compares the metrics that the rules of monitoring/ use with the kernel, sijil-keyd and openssl."""
    [gateway] = [child for child in children_of(server.process.pid) if child in server.processes("sijild")] or [server.process.pid]
    folder, told = f"/proc/{gateway}", numbers()
    status = dict(line.split(":", 1) for line in open(folder + "/status", encoding="utf-8"))
    assert 0.5 < told["process_resident_memory_bytes"] / (int(status["VmRSS"].split()[0]) * 1024) < 2, told
    assert abs(told["process_threads"] - int(status["Threads"])) <= 2 and 0 < told["process_cpu_seconds_total"] < 600
    assert abs(told["process_open_fds"] - len(os.listdir(folder + "/fd"))) <= 4 < told["process_open_fds"] < told["process_max_fds"]
    assert told["process_virtual_memory_bytes"] > told["process_resident_memory_bytes"]
    with open(folder + "/stat", encoding="ascii") as file:
        since_boot = int(file.read().rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
    assert abs(told["process_start_time_seconds"] - since_boot - (time.time() - time.clock_gettime(time.CLOCK_BOOTTIME))) < 5
    [build] = [name for name in told if name.startswith("sijil_build_info{")]
    version = subprocess.run([program("sijild"), "--version"], capture_output=True, text=True, timeout=60).stdout.split()[1]
    assert told[build] == 1 and re.fullmatch(rf'.*version="{re.escape(version)}",commit="[0-9a-z-]+"}}', build), build
    with open(server.ca_file, encoding="ascii") as file:
        served = ssl.get_server_certificate(("127.0.0.1", server.port), ca_certs=file.name)
    end = subprocess.run(["openssl", "x509", "-noout", "-enddate"], input=served, capture_output=True, text=True, check=True, timeout=60).stdout
    assert told['sijil_certificate_expiry_timestamp_seconds{of="server"}'] <= ssl.cert_time_to_seconds(end.strip().partition("=")[2])
    keys = json.loads(sijil("admin", "keys", HOST, "--json"))
    told = numbers()
    assert sum(told[name] for name in told if name.startswith("sijil_keyd_tokens_total{")) == keys["tokens"]["signed"] > 0
    assert told["sijil_keyd_unwraps_total"] == keys["unwraps"] and told["sijil_keyd_key_version"] == 1
    assert told['sijil_keyd_call_seconds_count{call="token"}'] > 0 and told["sijil_audit_unsigned_since_seconds"] < time.time()

    [keyd_id] = server.processes("sijil-keyd")
    failed = told['sijil_keyd_failures_total{kind="unavailable"}']
    os.kill(keyd_id, signal.SIGSTOP)
    try:
        told = numbers()
        assert told['sijil_ready{part="keyd"}'] == 0 and told['sijil_ready{part="database"}'] == 1, told
        assert told['sijil_keyd_failures_total{kind="unavailable"}'] > failed
    finally:
        os.kill(keyd_id, signal.SIGCONT)
    wait_for_readyz(200, "ready")
    assert numbers()['sijil_ready{part="keyd"}'] == 1


def regions():
    return json.loads(sijil("region", "list", HOST, "--json"))


def a_region_whose_folder_can_not_be_used_is_not_ready():
    data = os.urandom(200_000)
    digest = place().push_blob(data)
    folder = os.path.join(server.folder, "regions", "main")
    sound = {"id": "local/main", "driver": "fs", "geo": "AE", "served": True, "ready": True}
    [shown] = regions()
    assert {key: shown.get(key) for key in sound} == sound and "problem" not in shown, shown

    os.rename(folder, folder + ".away")
    wait_for_readyz(503, "region local/main can't be used: its folder is missing")
    [shown] = regions()
    assert not shown["ready"] and shown["problem"] == "its folder is missing", shown
    told = numbers()
    assert (told['sijil_region_usable{region="local/main"}'], told['sijil_ready{part="regions"}'], told['sijil_ready{part="log"}']) == (0, 0, 1)
    os.rename(folder + ".away", folder)
    wait_for_readyz(200, "ready")
    told, room = numbers(), os.statvfs(folder)
    assert (told['sijil_region_usable{region="local/main"}'], told['sijil_ready{part="regions"}']) == (1, 1)
    assert told['sijil_region_size_bytes{region="local/main"}'] == room.f_blocks * room.f_frsize
    assert 0 < told['sijil_region_free_bytes{region="local/main"}'] < room.f_blocks * room.f_frsize

    if os.geteuid() == 0:  # or the gateway runs as root, which ignores file modes
        writable = [path for path in glob.glob(folder + "/*") if os.path.isdir(path)]
        for path in writable:
            os.chmod(path, 0o500)
        wait_for_readyz(503, "region local/main can't be used: its folder can't be read and written")
        begun = place().begin()
        answer = place().close(begun, sha256(b"new"), b"new")
        assert answer.status == 503 and answer.codes == ["UNAVAILABLE"], (answer.status, answer.body)
        assert "region local/main can't be used now" in answer.json["errors"][0]["message"], answer.body
        assert place().call("GET", "blobs/" + digest).body == data  # reading goes on
        for path in writable:
            os.chmod(path, 0o700)
        place().call("DELETE", begun)
        wait_for_readyz(200, "ready")
    assert place().call("GET", "blobs/" + digest).body == data


def damage_is_found_named_alarmed_and_refused():
    data = os.urandom(300_000)
    digest = place().push_blob(data)
    flip(objects()[-1], 4096 + 65536 + 9)
    assert digest in sijil("admin", "scrub", HOST, expect=6)
    [job] = [each for each in json.loads(sijil("admin", "job", "list", HOST, "--json")) if each["found"] > 0]
    [finding] = json.loads(sijil("admin", "job", "findings", HOST, job["id"], "--json"))
    assert finding["kind"] == "damaged" and finding["detail"].startswith("record 1:"), finding
    assert len(events("blob.damaged", "completed")) == 1
    answer = place().call("GET", "blobs/" + digest)  # not a broken download: the blob counts as missing until it is pushed again
    assert answer.status == 404 and answer.codes == ["BLOB_UNKNOWN"], (answer.status, answer.body[:200])
    metrics = server.client().call("GET", "/metrics").body.decode()
    assert 'sijil_scrub_findings_total{kind="damaged"} 1' in metrics, metrics
    place().push_blob(data)
    assert place().call("GET", "blobs/" + digest).body == data
    sijil("admin", "scrub", HOST)


def a_scrub_survives_a_killed_gateway():
    place().push_blob(os.urandom(4 << 20))
    job = json.loads(sijil("admin", "scrub", HOST, "--rate", str(1 << 20), "--detach", "--json"))
    until = time.monotonic() + 60
    while json.loads(sijil("admin", "job", "show", HOST, job["id"], "--json"))["bytes_done"] == 0:
        assert time.monotonic() < until, "the scrub does not begin"
        time.sleep(0.2)
    sijil("admin", "scrub", HOST, expect=1)  # one at a time
    os.kill(server.process.pid, 9)
    server.process.wait()
    server.start()
    done = json.loads(sijil("admin", "job", "show", HOST, job["id"], "--follow", "--json"))
    assert done["state"] == "completed" and done["found"] == 0 and done["bytes_done"] == done["bytes_total"], done
    assert len([e for e in events("job.run", "allowed") if job["id"] in e["res"] or job["id"] in json.dumps(e)]) >= 2


def a_job_is_stopped_and_the_keys_are_counted():
    job = json.loads(sijil("admin", "rewrap", HOST, "--detach", "--json"))
    [newest] = json.loads(sijil("admin", "keys", HOST, "--json"))["versions"]
    assert newest["version"] == 1 and newest["state"] == "newest" and newest["blobs"] > 0 and newest["projects"] > 0, newest
    sijil("admin", "job", "stop", HOST, job["id"])
    until = time.monotonic() + 60
    while (shown := json.loads(sijil("admin", "job", "show", HOST, job["id"], "--json")))["state"] != "stopped":
        assert time.monotonic() < until, shown
        time.sleep(0.2)
    sijil("admin", "job", "stop", HOST, job["id"], expect=3)


ASK_KEYD = """
import os, socket, struct, sys
def text(value):
    return struct.pack(">I", len(value)) + value
fields = b"".join(text(value) for value in (b"https://x.example", b"sijil", b"robot:mallory", b"robot:mallory", b"", b""))
fields += bytes(16) + struct.pack(">IBBB", 900, 0, 1, 0)
with socket.socket(socket.AF_UNIX) as keyd:
    keyd.connect(sys.argv[1])
    for number in range(int(sys.argv[2])):
        keyd.sendall(struct.pack(">IBBQ", 10 + len(fields), 6, 4, number) + fields)
        length = struct.unpack(">I", keyd.recv(4, socket.MSG_WAITALL))[0]
        assert keyd.recv(length, socket.MSG_WAITALL)[1] == 4, "no token"
"""


def keyd_socket():
    """The socket path from the command line of its own sijil-keyd."""
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            words = open(path, "rb").read().decode().split("\0")
        except OSError:
            continue  # it has ended since
        if any(word.endswith(os.path.join(server.folder, "keyd")) for word in words):
            return next(word.partition("=")[2] for word in words if word.startswith("--socket="))
    raise AssertionError("sijil-keyd does not run")


def gateway_ids():
    """User and group of the process that faces the network: the one whose parent is the supervisor."""
    for path in glob.glob("/proc/[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in open(path, encoding="utf-8").read().splitlines())
        except OSError:
            continue  # it has ended since
        if fields["Name"].strip() == "sijild" and int(fields["PPid"]) == server.process.pid:
            return {"user": int(fields["Uid"].split()[1]), "group": int(fields["Gid"].split()[1])}
    return {"user": os.geteuid(), "group": os.getegid()}


def tokens_signed_past_the_log_are_seen():
    """The attack of a compromised gateway: it may call keyd without an event."""
    token = server.client(server.admin).token("registry:admin:*", fresh=True)
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    [event] = [entry for entry in events("token.mint", "allowed") if claims["jti"].startswith(entry["req"] + ".")]
    assert event["res"].startswith("#registry:admin:*"), event
    before = json.loads(sijil("admin", "keys", HOST, "--json"))["tokens"]
    assert before["unexplained"] == 0 and 0 < before["scopes"]["administration"] <= before["signed"] <= before["recorded"], before
    gateway = gateway_ids()
    some = before["recorded"] - before["signed"] + 5
    subprocess.run([sys.executable, "-c", ASK_KEYD, keyd_socket(), str(some)], check=True, **gateway)
    after = json.loads(sijil("admin", "keys", HOST, "--json"))["tokens"]
    assert after["unexplained"] >= 5, (before, after)
    assert {"tokens": some} in [{"tokens": one["tokens"]} for one in after["administrators"]], after
    assert "stand in no event" in sijil("admin", "keys", HOST)


def only_administrators_may():
    for method, path in (("POST", "/scrubs"), ("POST", "/rewraps"), ("GET", "/jobs"), ("GET", "/keys"), ("GET", "/regions"),
                         ("DELETE", "/jobs/00000000-0000-4000-8000-000000000000")):
        answer = server.client(login).call(method, "/api/v1" + path, "{}" if method == "POST" else None,
                                           {"Content-Type": "application/json"}, scope="registry:admin:*")
        assert answer.status in (403, 404), (path, answer.status, answer.body)
    assert len(events("scrub.start", "denied")) == 1
    for body in ("[]", '{"region":"no/where"}', '{"bytes_per_second":1}', '{"digest":1}', '{"more":1}'):
        answer = server.client(server.admin).call("POST", "/api/v1/scrubs", body, {"Content-Type": "application/json"},
                                                  scope="registry:admin:*")
        assert answer.status in (400, 404), (body, answer.status, answer.body)


def keyd(*options):
    folder = os.path.join(server.folder, "keyd")
    with open(server.passphrase, "rb") as secret:
        done = subprocess.run([program("sijil-keyd"), "--directory", folder, "--passphrase-fd", str(secret.fileno()), *options],
                              pass_fds=[secret.fileno()], user=os.stat(folder).st_uid, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def certificate(digest, expect=0):
    path = os.path.join(server.root, "certificate.json")
    sijil("admin", "deletion-certificate", HOST, "main/models", digest, "--output", path, expect=expect)
    return path


def verify(path, *more, expect=0):
    vkey = server.client(auditor).api("GET", "/audit/key")["vkey"]
    signer = os.path.join(server.root, "documents.pem")
    with open(signer, "w", encoding="ascii") as file:
        file.write(server.client(auditor).api("GET", "/audit/key")["documents"])
    done = subprocess.run([program("sijil-verify"), "certificate", "--key", vkey, "--signer", signer, path, *more],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def a_deleted_blob_has_a_certificate_in_two_stages():
    data = os.urandom(100_000)
    digest = place().push_blob(data)
    certificate(digest, expect=1)  # it is there
    certificate(sha256(b"never was"), expect=3)
    # The changes of a garbage collection to the rows, without its waits.
    server.sql(f"DELETE FROM repository_blob WHERE digest = '{digest}'; DELETE FROM blob WHERE digest = '{digest}'")
    until = time.monotonic() + 30
    while not events("key.forgotten", "allowed"):
        assert time.monotonic() < until, "the event does not come"
        time.sleep(0.2)
    path = certificate(digest)
    assert "Stage 1 of 2" in verify(path) and digest in verify(path)
    stated = json.loads(verify(path, "--json"))["certificate"]
    assert stated["stage"] == 1 and stated["size"] == 100_000 and not stated["stored_again"], stated
    place().push_blob(data)
    assert json.loads(verify(certificate(digest), "--json"))["certificate"]["stored_again"]

    with open(path, encoding="utf-8") as file:
        whole = json.load(file)
    other = {"certificate": {**whole["certificate"], "payload": whole["certificate"]["payload"].replace("A", "B", 1)},
             "entry": whole["entry"].replace('"allowed"', '"denied"'), "proof": whole["proof"].replace("index ", "index 1")}
    for part, changed in other.items():  # after any change the certificate proves nothing
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**whole, part: changed}, file)
        verify(path, expect=1)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"entry": whole["entry"], "proof": whole["proof"]}, file)
    verify(path, expect=1)

    server.stop()
    keyd("--add-version")
    keyd("--destroy-version", "1", "--force")
    server.start()
    stated = json.loads(verify(certificate(digest), "--json"))["certificate"]
    assert stated["stage"] == 2 and stated["key_version"] == 1 and "destroyed" in stated, stated
    assert "Stage 2 of 2" in verify(certificate(digest))
    assert len(events("deletion.certify", "allowed")) >= 4
    assert place().call("GET", "blobs/" + digest).status == 500  # the blob that was pushed again is lost together with the version
    assert "destroyed" in sijil("admin", "scrub", HOST, expect=6)


def tokens_signed_before_a_start_are_told():
    """Runs last, after a restart: a gateway checks at its start, and then twice a minute."""
    wait_until(lambda: numbers()["sijil_keyd_tokens_unexplained"] >= 5, 60, "the metric does not tell")
    with open(os.path.join(server.root, "log"), encoding="utf-8") as log:
        assert "signed tokens that no event explains" in log.read()


def an_upload_whose_bytes_are_lost_ends():
    repository = place()
    answer = repository.patch(repository.begin(), os.urandom(300_000))
    assert answer.status == 202, answer.body
    server.stop()  # no writer in memory continues
    [checkpoint] = [path for path in glob.glob(server.folder + "/**", recursive=True)
                    if re.fullmatch(r"[0-9a-f]{32}[.]c[0-9a-f]{32}", os.path.basename(path))]
    flip(checkpoint, os.path.getsize(checkpoint) // 2)
    server.start()
    again = repository.patch(answer["Location"], b"more", 300_000)
    assert again.status == 404 and again.codes == ["BLOB_UPLOAD_UNKNOWN"], (again.status, again.body)
    assert repository.call("GET", answer["Location"]).status == 404
    assert server.sql("SELECT count(*) FROM upload") == "0"
    assert [entry["why"]["note"] for entry in events("upload.write", "failed")] == ["what it had is lost"]


def administrators_see_what_there_is():
    as_admin()
    assert "main" in [one["name"] for one in json.loads(sijil("admin", "organisation", "list", HOST, "--json"))]
    shown = json.loads(sijil("admin", "project", "show", HOST, "main/models", "--json"))
    assert shown["name"] == "main/models" and shown["region"] == "local/main", shown
    sijil("admin", "project", "show", HOST, "main/nothing", expect=3)


def an_issuer_is_trusted_bound_and_removed():
    url, keys = "https://idp.example", os.path.join(server.root, "keys.json")
    made = subprocess.run(["openssl", "genrsa", "2048"], capture_output=True, check=True)
    number = subprocess.run(["openssl", "rsa", "-noout", "-modulus"], input=made.stdout, capture_output=True, check=True).stdout.split(b"=")[1]
    modulus = base64.urlsafe_b64encode(bytes.fromhex(number.decode().strip())).decode().rstrip("=")
    with open(keys, "w", encoding="utf-8") as file:
        json.dump({"keys": [{"kty": "RSA", "kid": "one", "n": modulus, "e": "AQAB"}]}, file)
    bind = [program("sijil"), "admin", "binding", "create", "--issuer", url, HOST]
    early = subprocess.run([*bind, "job", "consumer", "main/models"], capture_output=True, text=True, env=ENVIRONMENT, check=True)
    assert "warning: no trusted issuer has the URL " + url in early.stderr, early.stderr
    trusted = json.loads(sijil("admin", "issuer", "trust", HOST, url, keys, "--algorithm", "RS256", "--algorithm", "PS256",
                               "--lifetime-max", "600", "--json"))
    assert trusted["algorithms"] == ["RS256", "PS256"] and trusted["lifetime_max"] == 600, trusted
    assert [one["url"] for one in json.loads(sijil("admin", "issuer", "list", HOST, "--json"))] == [url]
    late = subprocess.run([*bind, "other", "consumer", "main/models"], capture_output=True, text=True, env=ENVIRONMENT, check=True)
    assert "warning" not in late.stderr, late.stderr
    assert "ISSUER" in sijil("admin", "binding", "list", HOST) and url in sijil("admin", "binding", "list", HOST)
    sijil("admin", "issuer", "trust", HOST, url, keys, "--lifetime-max", "0", expect=2)
    sijil("admin", "issuer", "remove", HOST, url)
    assert json.loads(sijil("admin", "issuer", "list", HOST, "--json")) == []
    sijil("admin", "issuer", "remove", HOST, url, expect=3)


def the_set_in_force_is_read_changed_and_loaded():
    """As in docs/policies.md: the next set is made from the set in force."""
    document = json.loads(sijil("policy", "show", "--document", HOST))
    shown = json.loads(sijil("policy", "show", "--json", HOST))
    assert shown["digest"] == document["digest"] and "set" not in shown, shown
    assert [one["metadata"]["id"] for one in document["policies"]] == [one["id"] for one in shown["policies"]]
    second = json.loads(json.dumps(document["policies"][0]))
    second["metadata"].update(id="for-an-organisation-that-is-not-there", version=7, scope=["nowhere/**"])
    document["policies"].append(second)
    path, signed = os.path.join(server.root, "set.json"), os.path.join(server.root, "set.dsse")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)
    key = os.path.realpath(os.path.join(server.folder, "officer", "approver.pem"))
    sijil("policy", "sign", "--key", key, "--epoch", str(shown["epoch"] + 1), path, "-o", signed)
    told = sijil("policy", "load", HOST, signed)
    rows = [line.split() for line in told.splitlines()]
    assert ["ID", "VERSION", "REVIEW", "BY"] in rows and ["epoch", str(shown["epoch"] + 1)] in rows, told
    assert [row[:2] for row in rows[-2:]] == sorted([one["metadata"]["id"], str(one["metadata"]["version"])] for one in document["policies"]), told
    told = sijil("policy", "show", HOST)
    assert f"Policy set of epoch {shown['epoch'] + 1}" in told and all(one["metadata"]["id"] in told for one in document["policies"]), told
    again = json.loads(sijil("policy", "show", "--document", HOST))
    assert again["epoch"] == shown["epoch"] + 1 and sorted(one["metadata"]["id"] for one in again["policies"]) == sorted(one["metadata"]["id"] for one in document["policies"])
    answer = server.client(login).call("GET", "/api/v1/policies", scope="registry:admin:*")
    assert answer.status in (403, 404) and b"set" not in answer.body.replace(b"policy_set", b""), answer.body


run(administrators_see_what_there_is, an_issuer_is_trusted_bound_and_removed, the_set_in_force_is_read_changed_and_loaded,
    a_sound_region_scrubs_clean, a_gateway_tells_of_itself_and_of_keyd, a_region_whose_folder_can_not_be_used_is_not_ready, an_upload_whose_bytes_are_lost_ends, damage_is_found_named_alarmed_and_refused,
    a_scrub_survives_a_killed_gateway, a_job_is_stopped_and_the_keys_are_counted,
    tokens_signed_past_the_log_are_seen, only_administrators_may,
    a_deleted_blob_has_a_certificate_in_two_stages, tokens_signed_before_a_start_are_told, server=server)
