#!/usr/bin/env python3
"""sijil-witness, whole: its key, its list, its answers over TLS to a log that is written here, kill -9 while two histories compete for its
cosignature, and the log of a real registry."""
import hashlib
import http.client
import random
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

from sijil_test import Server, free_port, make_robot, program, run, trust_in, wait_until
from witness_kit import ORIGIN, Log, Witness, finish, history, tree

KILLS = int(sys.argv[1]) if len(sys.argv) > 1 else 8
log = Log()
witness = Witness(log.vkey)
honest, forked = history("honest", 400, shared=10), history("forked", 400, shared=10)


def a_log_without_a_state_is_asked_for():
    witness.start()
    status, body, _ = witness.add(log.body(0, honest[:5]))
    assert status == 404 and b"--accept" in body, (status, body)
    assert "has no state here" in witness.said()
    assert "another sijil-witness" in witness.accept(ORIGIN, code=1).stderr
    witness.stop()
    witness.accept("other.test/log", code=2)
    witness.accept(ORIGIN)
    assert "goes on from it" in witness.accept(ORIGIN, code=1).stderr
    witness.start()


def checkpoints_are_cosigned_as_the_specification_says():
    hex_name = hashlib.sha256(ORIGIN.encode()).hexdigest()
    assert witness.get(f"/{hex_name}/checkpoint")[0] == 404
    status, body, headers = witness.add(log.body(0, honest[:5]))
    assert status == 200 and abs(witness.check(body, log.note(honest[:5])) - time.time()) < 60, (status, body)
    assert headers["Content-Type"] == "text/plain; charset=utf-8" and headers["Cache-Control"] == "no-store"
    assert witness.add(log.body(5, honest[:9]))[0] == 200
    status, body, headers = witness.add(log.body(5, honest[:9]))
    assert (status, body, headers["Content-Type"]) == (409, b"9\n", "text/x.tlog.size"), (status, body, headers)
    status, body, _ = witness.add(log.body(9, honest[:9]))
    assert status == 200 and witness.check(body, log.note(honest[:9])), (status, body)
    assert witness.add(log.body(9, history("others", 12)))[0] == 422
    status, body, _ = witness.add(log.body(9, [*history("others", 8), honest[8]]))
    assert status == 422 and b"two histories" in body, (status, body)
    stranger = Log()
    assert witness.add(stranger.body(9, honest[:10]))[0] == 403
    assert witness.add(Log("other.test/log").body(0, honest[:10]))[0] == 404
    assert witness.add(b"old 9\n\nnonsense")[0] == 400 and witness.add(b"")[0] == 400
    assert witness.add(log.body(12, honest[:10]))[0] == 400
    assert witness.add(b"old 0\n" + b"x" * (70 << 10))[0] == 413
    status, note, headers = witness.get(f"/{hex_name}/checkpoint")
    text, lines = note.decode().rsplit("\n\n", 1)
    first, second = lines.splitlines()
    assert status == 200 and text + "\n\n" + first + "\n" == log.note(honest[:9]) and witness.check((second + "\n").encode(), note.decode())
    status, head, headers = witness.request("HEAD", f"/{hex_name}/checkpoint")
    assert status == 200 and head == b"" and int(headers["Content-Length"]) == len(note)
    for method, path, expected in (("GET", "/add-checkpoint", 405), ("PUT", f"/{hex_name}/checkpoint", 405), ("GET", "/", 404), ("GET", "/a/b/c", 404),
                                   ("GET", f"/{hex_name[:-1]}/checkpoint", 404), ("GET", "/%2e%2e/checkpoint", 400), ("POST", "/metrics", 404)):
        assert witness.request(method, path)[0] == expected, (method, path)
    assert witness.metric('sijil_witness_answers_total{status="200"}') == 3 and witness.metric("sijil_witness_forks_total") == 1
    assert witness.metric('sijil_witness_logs{state="accepted"}') == 1 and witness.metric("sijil_witness_cosigned_last_seconds") > time.time() - 60


def a_body_in_chunks_or_cut_off_is_no_other_request():
    status, body, _ = witness.request("POST", "/add-checkpoint", iter([log.body(9, honest[:10])[:60], log.body(9, honest[:10])[60:]]))
    assert status == 200 and witness.check(body, log.note(honest[:10])), (status, body)
    link = trust_in(witness.path("tls.pem")).wrap_socket(socket.create_connection(("127.0.0.1", witness.port)), server_hostname="127.0.0.1")
    link.sendall(b"POST /add-checkpoint HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\nold 10\n")
    link.close()
    assert witness.add(log.body(10, honest[:10]))[0] == 200


def one_process_has_the_folder():
    done = witness.call("--logs", witness.path("logs"), "--listen-port", str(free_port()), "--tls-certificate", witness.path("tls.pem"), "--tls-key",
                        witness.path("tls.key"), code=1)
    assert "another sijil-witness has this folder" in done.stderr, done.stderr
    witness.call("--init", "--name", "witness.test/w2", code=1)
    witness.write("wrong", "another passphrase\n")
    done = subprocess.run([program("sijil-witness"), "--directory", witness.directory, "--passphrase-file", witness.path("wrong"), "--logs",
                           witness.path("logs"), "--show"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "passphrase" in done.stderr, (done.returncode, done.stderr)


def a_new_certificate_is_read_on_a_signal():
    old = ssl.get_server_certificate(("127.0.0.1", witness.port))
    subprocess.run(["openssl", "req", "-x509", "-new", "-key", witness.path("tls.key"), "-days", "20", "-subj", "/CN=127.0.0.1", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-out", witness.path("tls.pem")], check=True, capture_output=True)
    witness.process.send_signal(signal.SIGHUP)
    wait_until(lambda: ssl.get_server_certificate(("127.0.0.1", witness.port)) != old, 10, "the old certificate stays")


cosigned = {}  # size -> the roots that were cosigned


def compete(hashes, stop):
    """Goes on from whatever size the witness says, with one history."""
    old = 10
    while not stop.is_set():
        new = min(old + random.randrange(0, 3), len(hashes))
        try:
            status, body, _ = witness.add(log.body(old, hashes[:new]))
        except (OSError, http.client.HTTPException):
            time.sleep(0.02)
            continue
        if status == 200:
            witness.check(body, log.note(hashes[:new]))
            cosigned.setdefault(new, set()).add(tree(hashes[:new]))
            old = new
        elif status == 409:
            old = int(body)


def kills_never_yield_two_roots_of_one_size():
    stop = threading.Event()
    threads = [threading.Thread(target=compete, args=(hashes, stop)) for hashes in (honest, forked, honest, forked)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(KILLS):
            time.sleep(random.random() * 0.8)
            witness.stop(signal.SIGKILL)
            witness.start()
        time.sleep(1)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    twice = {size: roots for size, roots in cosigned.items() if len(roots) > 1}
    assert not twice and len(cosigned) > 5, (twice, len(cosigned))
    print(f"     {KILLS} kills, {len(cosigned)} sizes", flush=True)


def the_log_of_a_registry_is_cosigned():
    """The registry's proof of consistency is the body that the witness takes."""
    with Server() as server:
        auditor, watcher = (server.client(make_robot(server, role, role, "")) for role in ("auditor", "witness"))
        own = Witness(auditor.api("GET", "/audit/key")["vkey"])
        origin = auditor.api("GET", "/audit/key")["origin"]
        own.accept(origin)
        own.start()

        def note():
            return watcher.call("GET", "/audit/checkpoint", scope="registry:admin:*").body.decode()

        def proof(old):
            answer = watcher.call("GET", f"/api/v1/audit/consistency?old={old}", scope="registry:admin:*")
            assert answer.status == 200, answer.body
            return answer.body
        first = note()
        status, body, _ = own.add(b"old 0\n\n" + first.encode())
        assert status == 200 and own.check(body, first), (status, body)
        size = int(first.split("\n")[1])
        for _ in range(3):
            wait_until(lambda old=size: int(note().split("\n")[1]) > old, 20, "the log stands still")
            request = proof(size)
            status, body, _ = own.add(request)
            text = request.decode().split("\n\n", 1)[1]
            assert status == 200 and own.check(body, text), (status, body)
            size = int(text.split("\n")[1])
        assert f"{origin} {size}" in finish(own)


def it_ends_in_order():
    assert ORIGIN in finish(witness)


run(a_log_without_a_state_is_asked_for, checkpoints_are_cosigned_as_the_specification_says, a_body_in_chunks_or_cut_off_is_no_other_request,
    one_process_has_the_folder, a_new_certificate_is_read_on_a_signal, kills_never_yield_two_roots_of_one_size, the_log_of_a_registry_is_cosigned,
    it_ends_in_order)
