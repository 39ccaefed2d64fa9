"""Bodies in both directions: unchanged, with back pressure, and correct after faults."""
import hashlib
import os
import threading
import time
from support import Server, check, finish, read_all, statuses

server = Server(drain_size_max=3000000)


def poured(size):
    pattern = bytes(i * 7 % 251 for i in range(251))
    return (pattern * (size // 251 + 1))[:size]


def named(data):
    return f"{len(data)} sha256:{hashlib.sha256(data).hexdigest()}\n"


BLOCK = 262080
for size in (0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 4 * BLOCK, 5 * BLOCK + 7, 20000000):
    status, headers, data = server.get(f"/v2/x/pour?size={size}")
    check(f"{size} bytes come out unchanged", status == 200 and data == poured(size), f"{status} {len(data)}")
before = server.state()["reads"]
status, headers, data = server.get("/v2/x/pour?size=1000000", "HEAD")
check("HEAD says the size and reads nothing", headers["Content-Length"] == "1000000" and server.state()["reads"] == before)

SLOT = 131072
for size in (0, 1, SLOT - 1, SLOT, SLOT + 1, 8 * SLOT, 9 * SLOT + 1, 3000000):
    body = os.urandom(size)
    status, headers, data = server.get("/v2/x/sink", "PUT", body)
    check(f"{size} bytes come in unchanged", status == 201 and data.decode() == named(body), f"{status} {data!r}")
body = os.urandom(700000)
connection = server.http()
connection.request("PUT", "/v2/x/sink", body=(body[i : i + 9999] for i in range(0, len(body), 9999)), encode_chunked=True,
                   headers={"Transfer-Encoding": "chunked"})
answer = connection.getresponse()
check("chunked", answer.status == 201 and answer.read().decode() == named(body))
status, headers, data = server.get("/v2/x/sink?slow_ms=20", "PUT", os.urandom(4000000))
check("a slow writer slows the client down", status == 201 and data.startswith(b"4000000 "), f"{status} {data!r}")

# TLS records of any size: one byte each, many with one call, requests one after the other without a pause.
connection = server.connect()
body = os.urandom(3000)
connection.sendall(b"PUT /v2/x/sink HTTP/1.1\r\nHost: x\r\nContent-Length: 3000\r\n\r\n")
for i in range(3000):
    connection.sendall(body[i : i + 1])
data, closed = read_all(connection, 1, lambda data: data.endswith(b"\n"))
check("a record for each byte", data.endswith(named(body).encode()), data[-200:])
connection = server.connect(SO_SNDBUF=4096)
bodies = [os.urandom(size) for size in (300000, 1, 40000, 131072, 16384)]
connection.sendall(b"".join(b"PUT /v2/x/sink HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body +
                            b"GET /v2/x/pour?size=200000 HTTP/1.1\r\nHost: x\r\n\r\n" for body in bodies))
data, closed = read_all(connection, 1, lambda data: len(statuses(data)) == 10 and data.endswith(poured(200000)))
check("requests in one stream with their bodies", statuses(data) == [201, 200] * 5 and all(named(body).encode() in data for body in bodies)
      and data.count(poured(200000)) == 5, statuses(data))
connection = server.http()
begun = time.monotonic()
for i in range(40):
    method, size = ("HEAD", "GET")[i % 4 > 0], (1, 300, 20000)[i % 3]
    connection.request(method, f"/v2/x/pour?size={size}" if i % 2 else "/healthz")
    connection.getresponse().read()
seconds = time.monotonic() - begun
check("no answer waits for the kernel to send it", seconds < 6, seconds)  # which takes 0.2 s for each

# Refusals: the client gets the answer although it was still sending.
seen = [server.get("/v2/denied/sink", "PUT", b"x" * 2000000)[0] for _ in range(20)]
check("20 of 20 clients see the refusal", seen == [403] * 20, seen)
seen = [server.get("/v2/x/sink?fail_at=500000", "PUT", b"x" * 2000000)[0] for _ in range(5)]
check("a failure in the middle is answered", seen == [507] * 5, seen)
connection = server.connect()
connection.sendall(b"PUT /v2/denied/sink HTTP/1.1\r\nHost: x\r\nContent-Length: 900000000\r\n\r\n" + b"x" * 100000)
data, closed = read_all(connection, 2)
check("what is too much to drain is answered at once, and closed", closed and statuses(data) in ([403], []), f"{closed} {data[:200]!r}")
connection = server.connect()
connection.sendall(b"PUT /v2/denied/sink HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
try:
    for _ in range(100):
        connection.sendall(b"20000\r\n" + b"x" * 0x20000 + b"\r\n")
    drained = False
except OSError:
    drained = True
check("an endless body is drained only so far", drained)

for misses in (1, 2, 3, 7, 1000): # how often a sender must read bytes that were requested without a wait
    for size in (1, 262080, 262081, 5000000):
        status, headers, data = server.get(f"/v2/x/pour?size={size}&misses={misses}")
        check(f"{size} bytes, each {misses}th block read by a sender", status == 200 and data == poured(size), f"{status} {len(data)}")

# Damage.
status, headers, data = server.get("/v2/x/pour?size=1000000&fail_at=1")
check("damage at the start is a 500", status == 500 and b"secret" not in data, status)
connection = server.connect()
connection.sendall(b"GET /v2/x/pour?size=5000000&fail_at=2000000 HTTP/1.1\r\nHost: x\r\n\r\n")
data, closed = read_all(connection)
check("damage further in breaks the connection off", closed and b"Content-Length: 5000000" in data and 100000 < len(data) < 2100000, len(data))
connection = server.connect()
connection.sendall(b"GET /v2/x/pour?size=5000000&fail_at=2000000&misses=1000 HTTP/1.1\r\nHost: x\r\n\r\n")
data, closed = read_all(connection)
check("and damage that is found without a sender", closed and b"Content-Length: 5000000" in data and 100000 < len(data) < 2100000, len(data))

# More downloads than workers wait for a slow disk with their first blocks: all other requests go on, and damage still gives a 500.
def slow_start(number):
    status, headers, data = server.get(f"/v2/x/pour?size=1000&slow_ms=700&fail_at={number % 2}")
    starts.append((status, data == poured(1000)))


starts = []
threads = [threading.Thread(target=slow_start, args=(i,)) for i in range(16)]
for thread in threads:
    thread.start()
time.sleep(0.3)
begun = time.monotonic()
status, headers, data = server.get("/a?sleep_ms=1")
check("beside sixteen downloads that can't begin", status == 200 and not starts and time.monotonic() - begun < 0.4, time.monotonic() - begun)
for thread in threads:
    thread.join()
check("they begin one after the other", sorted(starts) == [(200, True)] * 8 + [(500, False)] * 8, starts)

# A disk that hangs. Half of the twelve readers and all four senders wait for it; and as many requests as possible wait for a worker.
class Asked(threading.Thread):
    def __init__(self, whom, path):
        super().__init__()
        self.whom, self.path, self.status = whom, path, None
        self.start()

    def run(self):
        self.status = self.whom.get(self.path)[0]


hung = Server(queue_max=5)
hung.state("?stuck=1")
stuck = []
for number in range(15):
    stuck.append(Asked(hung, "/v2/x/pour?size=600000&may_hang=1"))
    hung.wait_for(f"download {number} waits", lambda s, wanted=number + 1: s["sources"] == wanted)
time.sleep(0.2)  # its source exists a moment before it is in a queue
seen = [hung.get("/v2/x/pour?size=600000&may_hang=1")[0] for _ in range(3)]
check("more are refused at once", seen == [503] * 3, seen)
seen = [hung.get("/v2/x/pour?size=600000&misses=1000")[0] for _ in range(20)]
check("what needs no disk is served", seen == [200] * 20, seen)
hung.wait_for("and lets go of what it had open", lambda s: s["sources"] == 15)
check("nobody was answered meanwhile", all(one.status is None for one in stuck))
hung.state("?stuck=0")
for one in stuck:
    one.join()
check("they are served when it goes on", [one.status for one in stuck] == [200] * 15, [one.status for one in stuck])

# A request that waited too long for a worker is refused, also if its event is recorded already.
late = Server(reader_threads=1, queue_timeout=500)
first = Asked(late, "/a?sleep_ms=3000")
time.sleep(1)
status, headers, data = late.get("/v2/x/pour?size=10")
first.join()
check("too late for a worker", (first.status, status) == (200, 503), (first.status, status))

# Clients that disconnect.
server.wait_for("nothing is left open", lambda s: s["sinks"] == 0 and s["sources"] == 0)
cut = server.state()["cut"]
for _ in range(10):
    connection = server.connect()
    connection.sendall(b"PUT /v2/x/sink?slow_ms=50 HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n" + b"x" * 1500000)
    connection.close()
server.wait_for("ten cut uploads are kept and let go", lambda s: s["cut"] == cut + 10 and s["sinks"] == 0, 20)
for _ in range(10):
    connection = server.connect()
    connection.sendall(b"GET /v2/x/pour?size=50000000&slow_ms=20 HTTP/1.1\r\nHost: x\r\n\r\n")
    connection.recv(1000)
    connection.close()
server.wait_for("ten cut downloads are let go", lambda s: s["sources"] == 0, 20)
connection = server.connect()
connection.sendall(b"GET /a?sleep_ms=300 HTTP/1.1\r\nHost: x\r\n\r\n")
connection.close()
time.sleep(0.6)
check("a client that vanished while it was suspended", server.get("/v2/")[0] == 200)


def time_of_get():
    begun = time.monotonic()
    server.get("/healthz")
    return time.monotonic() - begun



# A slow reader gets everything, and does not delay others.
alone = sorted(time_of_get() for _ in range(21))[10]
slow = server.connect(SO_RCVBUF=131072)
slow.sendall(b"GET /v2/x/pour?size=3000000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
times = []
received = b""
for _ in range(40):
    received += slow.recv(16384)
    times.append(time_of_get())
data, closed = read_all(slow, 10)
received += data
check("a slow reader gets all", received.split(b"\r\n\r\n", 1)[1] == poured(3000000), len(received))
check("others are quick beside it", sorted(times)[len(times) // 2] < 0.25 + 2 * alone, sorted(times)[-5:])

# Many at a time.
results = []


def worker(number):
    body = hashlib.sha256(str(number).encode()).digest() * 20000
    good = server.get("/v2/x/sink", "PUT", body)[2].startswith(b"640000 ")
    good = good and server.get(f"/v2/x/pour?size={500000 + number}")[2] == poured(500000 + number)
    results.append(good)


threads = [threading.Thread(target=worker, args=(i,)) for i in range(32)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
check("32 uploads and downloads at a time", results == [True] * 32, results)
server.wait_for("nothing is left open at the end", lambda s: s["sinks"] == 0 and s["sources"] == 0)
server.stop()
finish()
