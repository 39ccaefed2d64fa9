#!/usr/bin/env python3
"""usage: s3.py [PROGRAM...]   Regions in buckets of real object stores: the driver's contract, then a gateway that stores models there
while connections, gateways and the store itself are cut off. INTEROP_PROGRAMS is the folder of the servers; missing ones are named and left
out."""
import contextlib
import filecmp
import hashlib
import http.client
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../scenario"))
import sijil_test
from production import Production
from sijil_test import free_port, sha256
from stores import BUCKET, KINDS, LOCATION, PROGRAMS, region_text

MIB = 1 << 20


class Gateway(Production):
    """A gateway whose only region is in a store's bucket."""

    def __init__(self, store, prefix, location=LOCATION):
        super().__init__()
        self.store, self.prefix, self.location = store, prefix, location

    def configure(self, **settings):
        super().configure(**settings)
        with open(self.path("sijild.conf"), encoding="utf-8") as file:
            head = file.read().split('\nregion "')[0] + "\n"
        self.write_configuration(head, self.location)

    def write_configuration(self, head, location, name="sijild.conf"):
        if name == "sijild.conf":
            self.head = head
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(head + region_text(self.store, self.prefix, location))

    def kill_and_start(self):
        self.process.kill()
        self.process.wait()
        self.process = subprocess.Popen([sijil_test.program("sijild"), "--config", self.path("sijild.conf")], stdout=self.log,
                                        stderr=self.log, stdin=subprocess.DEVNULL)
        self.wait_ready()

    @contextlib.contextmanager
    def another(self):
        """The port of a second gateway on the same database and bucket."""
        port = free_port()
        head = self.head.replace(f"listen_port = {self.port}", f'listen_port = {port}\ninstance = "another"')
        self.write_configuration(head, self.location, "another.conf")
        process = subprocess.Popen([sijil_test.program("sijild"), "--config", self.path("another.conf")], stdout=self.log,
                                   stderr=self.log, stdin=subprocess.DEVNULL)
        try:
            wait_for(lambda: listens(port))
            yield port
        finally:
            process.terminate()
            assert process.wait(60) == 0

    def peak_memory(self):
        """The peak of the gateway's memory, in bytes."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) * 1024


class Content:
    """Bytes that are not stored: piece i follows from the seed."""

    def __init__(self, seed, length):
        self.seed, self.length = seed, length
        digest = hashlib.sha256()
        for at in range(0, length, MIB):
            digest.update(self.piece(at, min(MIB, length - at)))
        self.digest = "sha256:" + digest.hexdigest()

    def piece(self, at, length):
        """The bytes from here up to the next whole MiB at most."""
        block = random.Random(self.seed * 1000003 + at // MIB).randbytes(MIB)
        return block[at % MIB:at % MIB + length]

    def pieces(self, start, end):
        while start < end:
            piece = self.piece(start, min(end, (start // MIB + 1) * MIB) - start)
            yield piece
            start += len(piece)


class Upload:
    """One upload through the registry. It resumes at the offset that the registry answers."""

    def __init__(self, repository, content):
        self.repository, self.content = repository, content
        self.location = repository.begin()

    def offset(self):
        answer = self.repository.call("GET", self.location)
        assert answer.status == 204, (answer.status, answer.body)
        self.location = answer["Location"]
        said = answer["Range"]
        return int(said.split("-")[1]) + 1 if said and said != "0-0" else 0

    def patch(self, start, end):
        body = self.content.pieces(start, end)
        answer = self.repository.call("PATCH", self.location, body, {
            "Content-Type": "application/octet-stream", "Content-Length": str(end - start),
            "Content-Range": f"{start}-{end - 1}"})
        if answer.status == 202:
            self.location = answer["Location"]
        return answer

    def cut(self, start, end, sent):
        """A PATCH whose connection breaks after `sent` bytes."""
        link = self.repository.client.connection()
        path = urllib.parse.urlsplit(self.location)
        link.putrequest("PATCH", path.path + ("?" + path.query if path.query else ""))
        for name, value in {"Authorization": "Bearer " + self.repository.client.token(self.repository.scope),
                            "Content-Type": "application/octet-stream", "Content-Length": str(end - start),
                            "Content-Range": f"{start}-{end - 1}"}.items():
            link.putheader(name, value)
        link.endheaders()
        try:
            for piece in self.content.pieces(start, start + sent):
                link.send(piece)
        except OSError:
            pass  # the process that was to be cut off was faster
        return link

    def close(self):
        return self.repository.close(self.location, self.content.digest)

    def finish(self):
        """Continues from the present offset, with any number of PATCHes."""
        for _ in range(20):
            at = self.offset()
            if at == self.content.length:
                break
            try:
                answer = self.patch(at, self.content.length)
                assert answer.status in (202, 416, 503), (answer.status, answer.body)
            except OSError:
                time.sleep(1)  # refused before all of it was read: the cut-off bytes are still being written
        answer = self.close()
        assert answer.status == 201, (answer.status, answer.body)


def check_blob(repository, content):
    """Reads the whole blob, and ranges at every kind of edge."""
    link = repository.client.connection()
    whole = repository.call("GET", f"blobs/{content.digest}", connection=link)
    assert whole.status == 200 and sha256(whole.body) == content.digest
    for first, last in ((0, 0), (0, 65519), (65519, 65520), (content.length - 10, content.length - 1),
                        (content.length // 2, content.length // 2 + 3 * MIB)):
        part = repository.call("GET", f"blobs/{content.digest}", headers={"Range": f"bytes={first}-{last}"}, connection=link)
        assert part.status == 206 and part.body == whole.body[first:last + 1], (first, last, part.status)
    link.close()


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(what, seconds=60):
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it does not come"
        time.sleep(0.2)


def cases_of(store):
    gateway = Gateway(store, "gateway/")
    state = {}

    def begun(seed, length, kept):
        """An upload with this number of acknowledged bytes."""
        upload = Upload(state["repository"], Content(seed, length))
        answer = upload.patch(0, kept)
        assert answer.status == 202, (answer.status, answer.body)
        return upload

    def ends_whole(upload):
        upload.finish()
        check_blob(state["repository"], upload.content)

    def sql(text):
        return subprocess.run(["psql", "-h", gateway.database_at, "-U", "postgres", "-d", "sijil_template", "-Atc", text], check=True,
                              capture_output=True, text=True).stdout.strip()

    def the_driver_keeps_its_contract():
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            script = os.path.join(HERE, "../support/postgres.sh")
            migrate = os.path.join(sijil_test.BUILD, "tests/integration/migrate_tool")
            subprocess.run([script, "start", folder, migrate, str(os.getpid())], check=True)
            try:
                environment = {"SIJIL_TEST_POSTGRES": folder, "SIJIL_S3_ENDPOINT": store.endpoint, "SIJIL_S3_BUCKET": BUCKET,
                               "SIJIL_S3_LOCATION": LOCATION, "SIJIL_S3_KEY_FILE": store.key_file, "SIJIL_S3_CA_FILE": store.ca_file}
                done = subprocess.run([os.path.join(sijil_test.BUILD, "tests/integration/test_driver_s3")], text=True, timeout=600,
                                      env={**os.environ, **environment}, capture_output=True)
                assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
            finally:
                subprocess.run([script, "stop", folder], check=True)

    def a_gateway_starts_on_it():
        gateway.start()
        admin = gateway.client(gateway.admin)
        robot = admin.api("POST", "/robots", {"organisation": "main", "name": "ci"})
        for role in ("publisher", "project-admin"):
            admin.api("POST", "/bindings", {"robot": robot["id"], "role": role, "scope": "main/models"})
        state["login"] = robot["name"], robot["secret"]
        state["repository"] = gateway.client(state["login"]).repository("main/models/large")

    def a_large_model_goes_there_and_back():
        content = Content(1, 512 * MIB + 7)
        before = gateway.peak_memory()
        upload = Upload(state["repository"], content)
        began = time.monotonic()
        assert upload.patch(0, content.length).status == 202
        answer = upload.close()
        assert answer.status == 201, (answer.status, answer.body)
        pushed = time.monotonic() - began
        check_blob(state["repository"], content)
        grown = gateway.peak_memory() - before
        print(f"     512 MiB pushed at {512 / pushed:.0f} MiB/s; the gateway's memory grew by {grown / MIB:.0f} MiB", flush=True)
        assert grown < 100 * MIB, grown

    def many_small_pieces_make_one_blob():
        content = Content(2, 9 * MIB + 1)
        upload = Upload(state["repository"], content)
        for at in range(0, content.length, 300_000):
            assert upload.patch(at, min(at + 300_000, content.length)).status == 202
        ends_whole(upload)

    def sijil_pushes_and_pulls_a_model():
        content = Content(8, 100 * MIB + 11)
        host = f"127.0.0.1:{gateway.port}"
        environment = {**os.environ, "XDG_CONFIG_HOME": gateway.path("config")}

        def sijil(*words, text=None):
            done = subprocess.run([sijil_test.program("sijil"), *words], input=text, text=True, capture_output=True, timeout=300,
                                  env=environment, cwd=gateway.root)
            assert done.returncode == 0, (words, done.stdout, done.stderr)
        with open(gateway.path("model.onnx"), "wb") as file:
            file.writelines(content.pieces(0, content.length))
        sijil("login", host, "--username", state["login"][0], "--ca-file", gateway.ca_file, text=state["login"][1] + "\n")
        sijil("push", "model.onnx", f"{host}/main/models/pushed:v1")
        sijil("pull", f"{host}/main/models/pushed:v1", "-o", gateway.path("pulled"))
        assert filecmp.cmp(gateway.path("model.onnx"), gateway.path("pulled/model.onnx"), shallow=False)

    def two_gateways_take_turns():
        content = Content(9, 60 * MIB + 5)
        with gateway.another() as port:
            other = sijil_test.Client(gateway, state["login"], port).repository("main/models/large")
            upload = Upload(state["repository"], content)
            for turn, at in enumerate(range(0, content.length, 7 * MIB)):
                upload.repository = (state["repository"], other)[turn % 2]
                answer = upload.patch(at, min(at + 7 * MIB, content.length))
                assert answer.status == 202, (turn, answer.status, answer.body)
            upload.finish()
            check_blob(other, content)
            check_blob(state["repository"], content)

    def a_cut_connection_costs_nothing_that_was_acknowledged():
        upload = begun(3, 120 * MIB, 20 * MIB + 3)
        upload.cut(20 * MIB + 3, upload.content.length, 30 * MIB).close()
        wait_for(lambda: upload.offset() >= 20 * MIB + 3)
        ends_whole(upload)

    def a_killed_gateway_goes_on():
        upload = begun(4, 150 * MIB, 7 * MIB)
        link = upload.cut(7 * MIB, upload.content.length, 90 * MIB)
        gateway.kill_and_start()
        link.close()
        assert upload.offset() >= 7 * MIB
        ends_whole(upload)

    def a_store_that_restarts_is_waited_for():
        upload = begun(5, 150 * MIB, 30 * MIB)
        failures = []

        def send():
            try:
                failures.append(upload.patch(30 * MIB, upload.content.length).status)
            except OSError as error:
                failures.append(error)
        thread = threading.Thread(target=send)
        thread.start()
        time.sleep(0.7)
        store.stop(signal.SIGKILL)
        time.sleep(2)
        store.start()
        thread.join(120)
        assert failures, "the PATCH hangs"
        assert upload.offset() >= 30 * MIB
        ends_whole(upload)

    def a_store_that_is_away_is_said():
        upload = begun(6, 20 * MIB, 10 * MIB)
        store.stop(signal.SIGKILL)
        began = time.monotonic()
        try:
            answer = upload.patch(10 * MIB, upload.content.length)
            assert answer.status == 503 and answer["Retry-After"], (answer.status, answer.body)
        except (OSError, http.client.HTTPException):
            pass  # the body was not read to its end
        assert time.monotonic() - began < 90
        assert gateway.client().call("GET", "/healthz").status == 200
        store.start()
        ends_whole(upload)

    def an_abandoned_upload_leaves_nothing():
        before = set(store.keys("gateway/"))
        upload = begun(7, 50 * MIB, 23 * MIB)
        answer = state["repository"].call("DELETE", upload.location)
        assert answer.status == 204, (answer.status, answer.body)
        wait_for(lambda: set(store.keys("gateway/")) == before, 90)
        rows = sql("SELECT (SELECT count(*) FROM multipart) + (SELECT count(*) FROM multipart_piece)")
        assert rows == "0", rows

    def a_bucket_elsewhere_is_refused():
        gateway.write_configuration(gateway.head.replace(f"listen_port = {gateway.port}", f"listen_port = {free_port()}"),
                                    "eu-elsewhere-1", "elsewhere.conf")
        done = subprocess.run([sijil_test.program("sijild"), "--config", gateway.path("elsewhere.conf")], capture_output=True,
                              text=True, timeout=60)
        said = done.stdout + done.stderr
        assert done.returncode != 0, said
        # some stores refuse a signature for another location; of the others the answer is compared
        assert "eu-elsewhere-1" in said and "bucket_location" in said, said

    def scrub(seconds=300, **more):
        admin = gateway.client(gateway.admin)
        job = sijil_test.follow(admin, admin.api("POST", "/scrubs", {"bytes_per_second": 1 << 30, **more})["id"], seconds=seconds)
        assert job["done"] == job["total"] > 0 and job["bytes_done"] == job["bytes_total"], job
        return job, admin.api("GET", f"/jobs/{job['id']}/findings")["findings"]

    def objects_of(digest):
        blob = sql(f"SELECT replace(blob_id::text, '-', '') FROM blob WHERE digest = '{digest}'")
        found = store.keys(f"gateway/{blob[:2]}/{blob}")
        assert found, digest
        return found

    def a_scrub_reads_the_whole_bucket_and_finds_what_is_damaged():
        job, findings = scrub(digest=True)
        assert job["found"] == 0 and job["bytes_total"] > 500 * MIB, job
        contents = [os.urandom(300_000) for _ in range(3)]
        damaged, missing, sound = [state["repository"].push_blob(data) for data in contents]
        [key] = objects_of(damaged)
        status, data = store.call("GET", f"/{BUCKET}/{key}")
        assert status == 200
        at = 4096 + 65536 + 9
        status, _ = store.call("PUT", f"/{BUCKET}/{key}", body=data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
        assert status == 200
        for key in objects_of(missing):
            assert store.call("DELETE", f"/{BUCKET}/{key}")[0] == 204
        job, findings = scrub()
        told = {finding["digest"]: finding for finding in findings}
        assert job["found"] == 2 and set(told) == {damaged, missing}, findings
        assert told[damaged]["kind"] == "damaged" and told[damaged]["detail"].startswith("record 1:"), told
        assert told[missing]["kind"] == "missing" and told[missing]["name"] == "main/models", told
        for digest, status in ((damaged, 404), (missing, 404), (sound, 200)):
            assert state["repository"].call("GET", "blobs/" + digest).status == status
        for data in contents[:2]:  # a new push repairs it
            assert state["repository"].call("GET", "blobs/" + state["repository"].push_blob(data)).body == data
        assert scrub(digest=True)[0]["found"] == 0

    def a_scrub_outlives_its_gateway_and_its_store():
        admin = gateway.client(gateway.admin)
        job = admin.api("POST", "/scrubs", {"bytes_per_second": 20 * MIB})["id"]
        wait_for(lambda: admin.api("GET", f"/jobs/{job}")["bytes_done"] > 0)
        gateway.kill_and_start()
        wait_for(lambda: admin.api("GET", f"/jobs/{job}")["state"] == "running" and sql(
            f"SELECT runner_epoch FROM job WHERE job_id = '{job}'") == "2", 90)
        store.stop(signal.SIGKILL)
        wait_for(lambda: "waits_for" in admin.api("GET", f"/jobs/{job}"))
        store.start()
        done = sijil_test.follow(admin, job, seconds=300)
        assert done["found"] == 0 and done["bytes_done"] == done["bytes_total"] > 500 * MIB, done

    def keyd(*words):
        """Runs the command with sijil-keyd stopped, as docs/keys.md demands."""
        gateway.is_stopping = True
        gateway.keyd.terminate()
        gateway.keyd.wait(30)
        gateway.run(sijil_test.program("sijil-keyd"), *gateway.keyd_words(), *words)
        time.sleep(1)  # its service manager has noticed
        gateway.is_stopping = False
        gateway.start_keyd()
        threading.Thread(target=gateway.keep_keyd, daemon=True).start()
        gateway.wait_ready()

    def all_keys_are_wrapped_anew_and_the_old_version_is_destroyed():
        admin = gateway.client(gateway.admin)
        before = set(store.keys("gateway/"))
        open_one = Upload(state["repository"], Content(10, 12 * MIB))  # it keeps running
        assert open_one.patch(0, 6 * MIB).status == 202
        keyd("--add-version")
        def versions():
            return {each["version"]: each for each in admin.api("GET", "/keys")["versions"]}
        old = versions()[1]
        assert old["blobs"] > 5 and old["uploads"] > 0 and versions()[2]["blobs"] == 0, versions()
        job = sijil_test.follow(admin, admin.api("POST", "/rewraps", {})["id"], seconds=300)
        assert job["found"] == 0 and job["done"] == job["total"] >= old["blobs"] + old["projects"] + old["uploads"], job
        now = versions()
        assert now[2]["blobs"] == old["blobs"] and now[2]["state"] == "newest", now
        assert 1 not in now or now[1]["state"] == "unused" and now[1]["blobs"] == 0, now
        assert before <= set(store.keys("gateway/")), "an object was touched"
        keyd("--destroy-version", "1")
        open_one.finish()
        check_blob(state["repository"], Content(10, 12 * MIB))
        check_blob(state["repository"], Content(2, 9 * MIB + 1))
        assert scrub(digest=True)[0]["found"] == 0

    def the_gateway_ends_in_order():
        gateway.finish(False)

    return [the_driver_keeps_its_contract, a_gateway_starts_on_it, a_large_model_goes_there_and_back, sijil_pushes_and_pulls_a_model,
            many_small_pieces_make_one_blob, two_gateways_take_turns,
            a_cut_connection_costs_nothing_that_was_acknowledged, a_killed_gateway_goes_on, a_store_that_restarts_is_waited_for,
            a_store_that_is_away_is_said, an_abandoned_upload_leaves_nothing,
            a_scrub_reads_the_whole_bucket_and_finds_what_is_damaged, a_scrub_outlives_its_gateway_and_its_store,
            all_keys_are_wrapped_anew_and_the_old_version_is_destroyed, a_bucket_elsewhere_is_refused, the_gateway_ends_in_order]


def main():
    cases, stores = [], []
    for kind in KINDS.values():
        if sys.argv[1:] and kind.program not in sys.argv[1:]:
            continue
        if not os.access(os.path.join(PROGRAMS, kind.program), os.X_OK):
            print(f"left out: {kind.name}", flush=True)
            continue
        store = kind()
        stores.append(store)
        for case in cases_of(store):
            def named(case=case, store=store):
                if store.process is None:
                    store.start()
                    store.make_bucket()
                case()
            named.__name__ = f"{kind.name}: {case.__name__}"
            cases.append(named)
    try:
        sijil_test.run(*cases)
    finally:
        for store in stores:
            store.done()


main()
