"""
A refusal in the middle of a body reaches the client, even if it still sends much: curl, which reads while it writes, and clients that read
the answer only when they can't write any more. The body has a gibibyte, and the server drops at most 64 MiB of it.
"""
from support import Server, check, finish, folder_of, read_all, statuses
import os
import subprocess
import time

GIB = 1 << 30
server = Server()
zeros = os.path.join(folder_of("sijil-zeros-"), "zeros")
with open(zeros, "wb") as file:
    file.truncate(GIB)


def curl(query, *options):
    """The answer to curl when it sends a gibibyte."""
    words = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", server.path("ca.pem"), *options,
             f"https://localhost:{server.port}/v2/x/sink?{query}"]
    with open(zeros, "rb") as body:
        done = subprocess.run(words, stdin=body, capture_output=True, text=True, timeout=120)
    return done.stdout, done.returncode, done.stderr


def write_and_read(query, framing, piece, limit=GIB):
    """A client that writes until it can't or has written all, and then reads the answer."""
    connection = server.connect()
    sent = 0
    try:
        connection.sendall(f"PUT /v2/x/sink?{query} HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n".encode())
        while sent < limit:
            connection.sendall(piece)
            sent += len(piece)
    except OSError:
        pass
    data = read_all(connection, 2)[0]
    connection.close()
    return statuses(data), sent, data


LENGTH = ("-T", zeros)
CHUNKED = ("-T", "-")
NO_EXPECT = ("-H", "Expect:")
for name, query, wanted in (("a disk that is full at once", "fail_at=1", "507"), ("a disk that is full later", "fail_at=50000000", "507"),
                            ("who may not", "refuse=1", "403")):
    for how, options in (("a length", LENGTH), ("a length, at once", LENGTH + NO_EXPECT), ("chunks", CHUNKED),
                         ("chunks, at once", CHUNKED + NO_EXPECT)):
        found = curl(query, *options)
        check(f"curl with {how}: {name}", found[0] == wanted, found)
    megabyte = bytes(1 << 20)
    for how, framing, piece in (("a length", f"Content-Length: {GIB}", megabyte),
                                ("chunks", "Transfer-Encoding: chunked", b"100000\r\n" + megabyte + b"\r\n")):
        codes, sent, data = write_and_read(query, framing, piece)
        check(f"a client that only writes, {how}: {name}", codes == [int(wanted)], (codes, sent, data[-300:]))
        check(f"a client that only writes, {how}: {name}: it is broken off", sent < 256 << 20, sent)
        check(f"a client that only writes, {how}: {name}: the answer is whole", data.endswith(b"}") and b"Connection: close" in data, data[-300:])

codes, sent, data = write_and_read("fail_at=1", f"Content-Length: {20 << 20}", bytes(1 << 20), 20 << 20)
check("20 MiB are thrown away before the answer", codes == [507] and sent == 20 << 20 and b"Connection: close" not in data, (codes, sent))

# Bounds: the server waits for a client at most ten seconds, and only for as many clients as it has places.
idle = []
for number in range(80):
    connection = server.connect()
    connection.sendall(f"PUT /v2/x/sink?refuse=1 HTTP/1.1\r\nHost: x\r\nContent-Length: {GIB}\r\n\r\n".encode())
    idle.append(connection)
check("80 that were refused and don't close are all answered",
      [statuses(read_all(connection, 1)[0]) for connection in idle] == [[403]] * 80)
before = len(os.listdir(f"/proc/{server.process.pid}/fd"))
check("64 of them are waited for", before >= 64, before)
until = time.monotonic() + 30
while (now := len(os.listdir(f"/proc/{server.process.pid}/fd"))) > before - 60 and time.monotonic() < until:
    time.sleep(0.2)
check("... and closed within seconds", now <= before - 60, (before, now))
for connection in idle:
    connection.close()
server.wait_for("nothing is left open", lambda state: state["sinks"] == 0)
server.stop()
finish()
