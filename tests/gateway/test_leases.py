"""The right of a body that moves is decided again, by time and by size; a body whose right is gone is cut off."""
import re
import threading
import time
from support import Server, check, check_soon, finish, read_all

LEASE = 1
server = Server(lease_time=LEASE, lease_size=4 << 20)
PATIENCE = 8  # seconds that a sanitized server on a busy machine may take beyond its lease
FAILED = 2


def revoke(now=True):
    server.state(f"?revoked={int(now)}")


def notes(pattern):
    return [int(number) for number in re.findall(pattern, server.log_text())]


def leases(came):
    return server.metric('sijil_stream_leases_total{came="%s"}' % came)


def lost(what, before, wanted=1):
    check_soon(f"{what}: one lease is lost", lambda: leases("lost") == before + wanted)


# A slow reader: 150 MB at a pace that takes much longer than a lease. The answer to an idle reader is cut, too.
for what, pause in (("a slow reader", 0.05), ("a reader that does not read", None)):
    revoke(False)
    before, seen = leases("lost"), len(notes(rf"outcome {FAILED}: (\d+) bytes had gone: T-RULE"))
    connection = server.connect(SO_RCVBUF=65536)
    connection.sendall(b"GET /v2/revocable/pour?size=150000000 HTTP/1.1\r\nHost: x\r\n\r\n")
    data = connection.recv(65536)
    check(f"{what}: it begins", b"Content-Length: 150000000" in data, data[:200])
    revoke()
    begun, size = time.monotonic(), len(data)
    try:
        while pause is not None and time.monotonic() < begun + LEASE + PATIENCE and (part := connection.recv(65536)):
            size += len(part)
            time.sleep(pause)
    except OSError:
        pass
    lost(what, before)
    check(f"{what}: it ends within the lease", time.monotonic() - begun < LEASE + PATIENCE, time.monotonic() - begun)
    check(f"{what}: it has a part of it", size < 20000000, size)
    data, closed = read_all(connection)
    check(f"{what}: and sees that it is one", closed and size + len(data) < 30000000, (closed, size + len(data)))
    check_soon(f"{what}: one event says how much had gone",
               lambda: len(notes(rf"outcome {FAILED}: (\d+) bytes had gone: T-RULE")) == seen + 1)
    gone = notes(rf"outcome {FAILED}: (\d+) bytes had gone: T-RULE")[-1]
    check(f"{what}: and that is at least what came", size <= gone + 1000 and gone < 150000000, (size, gone))
    connection.close()

# A quick reader reaches the size limit before the time limit.
quick = Server(lease_time=60, lease_size=1 << 20)
connection = quick.connect(SO_RCVBUF=65536)
connection.sendall(b"GET /v2/revocable/pour?size=150000000 HTTP/1.1\r\nHost: x\r\n\r\n")
connection.recv(65536)
quick.state("?revoked=1")
data, closed = read_all(connection, 10)
check("a quick reader is cut by size", closed and len(data) < 20000000, (closed, len(data)))
check_soon("and that counts", lambda: quick.metric('sijil_connections_cut_total{why="right"}') == 1)

# A client that keeps the right gets everything, however often the right is decided again.
revoke(False)
before = leases("renewed")
status, headers, data = server.get("/v2/revocable/pour?size=100000000&misses=1000000")
check("who keeps the right gets all", status == 200 and len(data) == 100000000, (status, len(data)))
check_soon("decided again after each lease_size", lambda: leases("renewed") >= before + 20)


# Incoming bodies, written at once or gathered; a client that stops in the middle, and one that goes on.
def send(path, goes_on):
    connection = server.connect()
    connection.sendall(f"PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n".encode() + b"x" * 1000000)
    time.sleep(0.2)  # the bytes are accepted
    revoke()
    begun = time.monotonic()
    try:
        while goes_on and time.monotonic() < begun + LEASE + PATIENCE:
            connection.sendall(b"x" * 100)
            time.sleep(0.05)
    except OSError:
        pass
    data, closed = read_all(connection, LEASE + PATIENCE)
    return closed and not data and time.monotonic() < begun + LEASE + PATIENCE


for what, path, trace in (("an upload", "/v2/revocable/sink", rf"outcome {FAILED}: (\d+) bytes had gone: T-RULE"),
                          ("a manifest", "/taken/revocable", r"(denied): revocable")):
    for goes_on in (False, True):
        how = f"{what} that {'goes on' if goes_on else 'stops'}"
        revoke(False)
        before, seen = leases("lost"), len(re.findall(trace, server.log_text()))
        check(f"{how} is cut off", send(path, goes_on))
        lost(how, before)
        check_soon(f"{how}: one event says so", lambda: len(re.findall(trace, server.log_text())) == seen + 1)
        if "sink" in path:
            check(f"{how}: and how much had come", 900000 < notes(trace)[-1] < 1100000, notes(trace)[-1])
revoke(False)

# Many at a time, begun and ended while leases end: no client that keeps its right is cut.
results = []


def worker(number):
    body = b"x" * 300000
    for turn in range(8):
        results.append(server.get("/v2/revocable/sink?slow_ms=5", "PUT", body)[0] == 201)
        results.append(len(server.get(f"/v2/revocable/pour?size=3000000&slow_ms={turn * 20}")[2]) == 3000000)


threads = [threading.Thread(target=worker, args=(i,)) for i in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
check("eight clients at a time keep their right", len(results) == 128 and all(results), results.count(False))
server.wait_for("nothing is left open at the end", lambda s: s["sinks"] == 0 and s["sources"] == 0)
server.stop()
finish()
