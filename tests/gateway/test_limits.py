"""Limits of size, number, time and rate. Each has its status, and each refusal is counted."""
import socket
import threading
import time
from support import PATIENCE, Server, check, check_soon, finish, read_all, statuses

server = Server(handshake_timeout=2, header_timeout=2, idle_timeout=2, rate_window=2, rate_minimum=5000, requests_per_address=20,
                connections_max=400, connections_per_address=350)
H = b"Host: x\r\n"
LAST = H + b"Connection: close\r\n\r\n"  # so that the end of the answer shows without a wait


def ask(request, seconds=3):
    """Reads until the server closes the connection; the client does not close it."""
    connection = server.connect()
    try:
        connection.sendall(request)
    except OSError:
        pass
    data, closed = read_all(connection, seconds)
    connection.close()
    return statuses(data), closed


def refused(what, request, status):
    before = server.state()["refused"]
    codes, closed = ask(request)
    check(what, codes[:1] == [status] and closed, f"{codes} {closed}")
    check_soon(what + ": counted", lambda: server.state()["refused"] > before)
    check(what + ": counted once", server.state()["refused"] - before == 1, server.state()["refused"] - before)


refused("a header of 1 MiB", b"GET / HTTP/1.1\r\n" + H + b"X: " + b"y" * (1 << 20) + b"\r\n\r\n", 431)
refused("headers of 80 KiB together", b"GET /a HTTP/1.1\r\n" + H + b"".join(b"X-%d: %s\r\n" % (i, b"y" * 1000) for i in range(80)) + b"\r\n", 431)
refused("headers of 33 KiB together", b"GET /a HTTP/1.1\r\n" + H + b"".join(b"X-%02d: %s\r\n" % (i, b"y" * 1000) for i in range(33)) + b"\r\n", 431)
refused("101 headers", b"GET /a HTTP/1.1\r\n" + H + b"".join(b"X-%d: y\r\n" % i for i in range(100)) + b"\r\n", 431)
refused("a target of 1 MiB", b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\n" + H + b"\r\n", 414)
refused("a path of 3 KiB", b"GET /" + b"a" * 3000 + b" HTTP/1.1\r\n" + H + b"\r\n", 414)
refused("a query of 20 KiB", b"GET /a?" + b"a" * 20000 + b" HTTP/1.1\r\n" + H + b"\r\n", 414)
# A head with the maximum of everything, and a body after it: libmicrohttpd's memory for a connection has little more room than that.
FULL = b"q=" + b"b" * 16300 + b" HTTP/1.1\r\n" + H + b"".join(b"X-%02d: y\r\n" % i for i in range(95)) + b"Y: " + b"z" * 31500 + b"\r\nConnection: close\r\n"
check("a head at its limits is fine", ask(b"GET /a?" + FULL + b"\r\n")[0] == [200])
check("and a body after it", ask(b"PUT /v2/" + b"x" * 1000 + b"/sink?" + FULL + b"Content-Length: 300000\r\n\r\n" + b"x" * 300000)[0] == [201])
# libmicrohttpd 0.9.75 closes these connections without an answer to the client and without a call to us. The request must not stay open for
# ever.
before = server.state()["refused"]
for what, request in (("a cookie that is too large, and a bad length", b"GET / HTTP/1.1\r\n" + H + b"Cookie: a=" + b"b" * 36000 + b"\r\nContent-Length: x\r\n\r\n"),
                      ("3,000 arguments", b"GET /?" + b"a&" * 3000 + b" HTTP/1.1\r\n" + H + b"\r\n")):
    others = [server.connect() for _ in range(4)]  # with one more connection libmicrohttpd checks the oldest one
    connection = server.connect()
    connection.sendall(request)
    time.sleep(0.3)
    others += [server.connect() for _ in range(4)]
    closed = read_all(connection, 6)[1]
    check(what + ": closed", closed)
    for other in [connection, *others]:
        other.close()
    check_soon(what + ": no request is left", lambda: server.metric("sijil_requests_in_flight") == 1)
check_soon("those are counted", lambda: server.state()["refused"] - before == 2)
check("100 headers are fine", ask(b"GET /a HTTP/1.1\r\n" + H + b"".join(b"X-%d: y\r\n" % i for i in range(98)) + b"Connection: close\r\n\r\n")[0] == [200])


def lasts(what, shortest, longest, begin, trickle=None):
    """Seconds until the server ends a connection that gets `begin` and then `trickle` four times a second; a slow machine may take twice as
    long."""
    longest *= 2
    connection = server.connect()
    connection.sendall(begin)
    connection.settimeout(0.25)
    begun = time.monotonic()
    while time.monotonic() - begun < longest + 5:
        try:
            if trickle:
                connection.sendall(trickle)
            if connection.recv(65536) == b"":
                break
        except (socket.timeout, TimeoutError):
            continue
        except OSError:
            break
    took = time.monotonic() - begun
    check(f"{what} is cut ({took:.1f} s)", shortest <= took <= longest, took)


# At the same time: each of them waits for its own time limit.
together = [threading.Thread(target=lasts, args=arguments) for arguments in (
    ("a client that says nothing", 1, 5, b""),
    ("a client that trickles its headers", 1.5, 5, b"GET /a HTTP/1.1\r\n" + H, b"X: y\r\n"),
    ("a client that trickles its request line", 1.5, 7, b"GET /", b"a"),
    ("a body that stalls", 1, 6, b"PUT /v2/x/sink HTTP/1.1\r\n" + H + b"Content-Length: 100000\r\n\r\n" + b"x" * 1000),
    ("a body that trickles", 1, 7, b"PUT /v2/x/sink HTTP/1.1\r\n" + H + b"Content-Length: 100000\r\n\r\n", b"x"),
    ("a gathered body that trickles", 1, 7, b"POST /a HTTP/1.1\r\n" + H + b"Content-Length: 100000\r\n\r\n", b"x"),
    ("a connection that is idle after a request", 1.5, 6, b"GET /healthz HTTP/1.1\r\n" + H + b"\r\n"))]
for thread in together:
    thread.start()
plain = socket.create_connection(("127.0.0.1", server.port))
begun = time.monotonic()
plain.settimeout(PATIENCE)
try:
    while plain.recv(4096):
        pass
    cut = True
except (socket.timeout, TimeoutError):
    cut = False
except OSError:
    cut = True
check("a client that never begins TLS is cut", cut and time.monotonic() - begun < 12, time.monotonic() - begun)
for thread in together:
    thread.join()

stalled = server.connect(SO_RCVBUF=4096)
stalled.sendall(b"GET /v2/x/pour?size=90000000 HTTP/1.1\r\n" + H + b"\r\n")
stalled.recv(100)
server.wait_for("a reader that stops is cut, and its source let go", lambda s: s["sources"] == 0)
check_soon("the watcher counted", lambda: server.metric('sijil_connections_cut_total{why="rate"}') >= 2 and server.metric('sijil_connections_cut_total{why="head"}') >= 2)
steady = server.connect()
steady.sendall(b"PUT /v2/x/sink HTTP/1.1\r\n" + H + b"Content-Length: 60000\r\nConnection: close\r\n\r\n")
for _ in range(30):
    steady.sendall(b"x" * 2000)
    time.sleep(0.2)
check("a slow but steady body is not cut", statuses(read_all(steady)[0]) == [201])

before = server.state()["refused"]
busy = [server.connect() for _ in range(30)]
for connection in busy:
    connection.sendall(b"GET /a?sleep_ms=3000 HTTP/1.1\r\n" + LAST)  # far longer than it takes to send all
codes = [statuses(read_all(connection, 3)[0]) for connection in busy]
check("20 requests at a time from one address, no more", codes.count([200]) == 20 and codes.count([429]) == 10, codes)
check_soon("those are counted", lambda: server.state()["refused"] - before == 10 and server.metric('sijil_refused_total{why="address_limit"}') == 10)
check_soon("and then there is room again", lambda: server.get("/v2/")[0] == 200)
for connection in busy:
    connection.close()

roomy = Server(connections_per_address=350)
idle = [roomy.connect() for _ in range(200)]
begun = time.monotonic()
check("200 idle connections hold nobody up", roomy.get("/v2/")[0] == 200 and time.monotonic() - begun < 5)
check_soon("they are counted", lambda: roomy.metric("sijil_connections") >= 200)
for connection in idle:
    connection.close()
roomy.stop()

# Gathered bodies use memory as they arrive, and all of them share one limit; a quarter is for requests that are not allowed yet.
MIB = 1 << 20
full = Server(gathered_size_max=4 * MIB, idle_timeout=120)


def half_sent(path, announced, sent):
    connection = full.connect()
    connection.sendall(b"POST /%s HTTP/1.1\r\n" % path + H + b"Content-Length: %d\r\n\r\n" % announced + b"x" * sent)
    return connection


gathered = lambda: full.metric("sijil_gathered_bytes")
announced = [half_sent(b"taken/a", 4 * MIB, 1000) for _ in range(10)]
check_soon("what is only announced takes no memory", lambda: 10_000 <= gathered() <= 10 * 65536)
whole = [half_sent(b"taken/a", 4 * MIB, MIB - 1) for _ in range(2)]
check_soon("what came does", lambda: gathered() > 2 * MIB)
before = full.state()["refused"]
status, headers, data = full.get("/taken/a", "POST", b"x" * (MIB - 1))
check("more than all may take is 503", status == 503 and "Retry-After" in headers, (status, data))
check_soon("which is counted", lambda: full.state()["refused"] - before == 1 and full.metric('sijil_refused_total{why="busy"}') == 1)
check_soon("and takes nothing any more", lambda: gathered() < 3 * MIB)
before = gathered()
strangers = [half_sent(b"a", 100_000, 99_000) for _ in range(40)]
check_soon("forms take memory as well", lambda: gathered() >= before + 40 * 99_000)
check("but strangers can't keep each other out with them", full.get("/a", "POST", b"x" * 60000)[0] == 200)
check("nor who may send", full.get("/taken/a", "POST", b"x" * 60000)[0] == 201)
for connection in announced + whole + strangers:
    connection.close()
check_soon("all of it is given back", lambda: gathered() == 0)
check("and there is room again", full.get("/taken/a", "POST", b"x" * (MIB - 1))[0] == 201)
full.stop()

# Streamed bodies: no organisation gets all places.
few = Server(streams_max=16, streams_per_organisation=8, streams_per_principal=16, rate_window=120)
WHOLE = b"x" * 1000


def half_streamed(name, server):
    connection = server.connect()
    connection.sendall(b"PUT /v2/%s/sink HTTP/1.1\r\n" % name + H + b"Content-Length: 1000000\r\n\r\nx")
    return connection


def streams(number):
    few.wait_for(f"{number} bodies come in", lambda state: state["sinks"] == number)


def put(name):
    status, headers, data = few.get(f"/v2/{name}/sink", "PUT", WHOLE)
    return status, headers["Retry-After"] is not None, data.decode()


held = [half_streamed(b"acme", few) for _ in range(8)]
streams(8)
status, says_when, data = put("acme")
check("an organisation has no more than its share of bodies", status == 429 and says_when and "this organisation" in data, (status, data))
check_soon("which is counted", lambda: few.metric('sijil_refused_total{why="organisation_limit"}') == 1)
check("another one's come in", put("globex")[0] == 201)
held += [half_streamed(b"globex", few) for _ in range(4)]
streams(12)
held += [half_streamed(b"new", few)]
streams(13)
codes = [put(name)[0] for name in ("globex", "new", "other")]
check("the last quarter is for who has little", codes == [429, 429, 201], codes)
held += [half_streamed(name, few) for name in (b"k", b"l", b"m")]
streams(16)
status, says_when, data = put("z")
check("when all are taken it is 503, which says what is", status == 503 and says_when and "16 bodies" in data, (status, data))
for connection in held:
    connection.close()
streams(0)
check("there is room again", put("z")[0] == 201)
few.stop()
of_one = Server(streams_max=64, streams_per_organisation=32, streams_per_principal=2)
held = [half_streamed(b"acme", of_one) for _ in range(2)]
of_one.wait_for("two bodies come in", lambda state: state["sinks"] == 2)
status, headers, data = of_one.get("/v2/globex/sink", "PUT", WHOLE)
check("a client has no more than its share", status == 429 and b"this client" in data, (status, data))
for connection in held:
    connection.close()  # the server's end would wait for them
of_one.stop()

# When few places are left, a very slow body does not keep one.
slow, dripping = Server(streams_max=8, rate_window=2, rate_minimum=10, rate_minimum_busy=100_000), []


def drip():
    while slow.process.poll() is None:
        for connection in list(dripping):
            try:
                connection.sendall(b"x" * 50)
            except OSError:
                dripping.remove(connection)
        time.sleep(0.1)


threading.Thread(target=drip, daemon=True).start()
dripping += [half_streamed(b"acme", slow) for _ in range(4)]
slow.wait_for("four bodies come in", lambda state: state["sinks"] == 4)
time.sleep(5)
check("who drips is let be while there is room", slow.state()["sinks"] == 4, slow.state()["sinks"])
dripping += [half_streamed(b"globex", slow)]
check_soon("and cut when few places are left", lambda: slow.metric('sijil_connections_cut_total{why="rate"}') >= 1)
check_soon("so there are some", lambda: slow.state()["sinks"] <= 4)
held, dripping[:] = list(dripping), []
for connection in held:
    connection.close()
slow.stop()

# While the queue is half full, one address gets at most an eighth of it, so that another one is served.
pressed = Server(reader_threads=1, queue_max=64, queue_timeout=60000, requests_per_address=250)
waiting = [pressed.connect() for _ in range(60)]
for number, connection in enumerate(waiting):
    connection.sendall(b"GET /a?sleep_ms=%d HTTP/1.1\r\n" % (1 if number else 8000) + LAST)
    if number == 0:
        time.sleep(1)  # until the only worker is busy with it: later requests wait
time.sleep(1)
other = pressed.http()
other.source_address = ("127.0.0.9", 0)
other.request("GET", "/a")
check("another address's requests wait in a queue that one has filled", other.getresponse().status == 200)
codes = [statuses(read_all(connection, 3)[0]) for connection in waiting]
check("because it has no more than half of it", 24 <= codes.count([429]) <= 27 and codes.count([200]) + codes.count([429]) == 60, codes)
pressed.stop()

tiny = Server(reader_threads=1, queue_max=2)
busy = [tiny.connect() for _ in range(8)]
for connection in busy:
    connection.sendall(b"GET /a?sleep_ms=1500 HTTP/1.1\r\n" + LAST)
    time.sleep(0.02)
codes = [statuses(read_all(connection, 1)[0]) for connection in busy]
check("a full queue is 503", codes.count([503]) >= 3 and codes.count([200]) >= 2, codes)
tiny.stop()
server.stop()
finish()
