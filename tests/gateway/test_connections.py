"""Connections before TLS: the time of a handshake, and the share of a network."""
import os
import socket
import ssl
import tempfile
import time
from support import PATIENCE, Server, check, check_soon, finish

H = b"Host: x\r\n"
SLOW = {"header_timeout": 300, "idle_timeout": 300}  # so that only the tested limit ends a connection


def hello():
    """The first message of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def plain(server, address="127.0.0.1"):
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE, source_address=(address, 0))


def ends_after(connection, trickle=b""):
    """Seconds until the server ends it; None if it does not."""
    begun = time.monotonic()
    connection.settimeout(0.2)
    while time.monotonic() - begun < PATIENCE:
        try:
            connection.sendall(trickle[:1])
            trickle = trickle[1:]
            if not connection.recv(4096):
                return time.monotonic() - begun
        except TimeoutError:
            continue
        except OSError:
            return time.monotonic() - begun
    return None


def is_open(connection):
    connection.settimeout(0.05)
    try:
        return connection.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:
        return False


# ---- Time ----
server = Server(handshake_timeout=1, **SLOW)
first = hello()
for what, begin, trickle in (("who says nothing", b"", b""), ("half a ClientHello", first[:len(first) // 2], b""),
                             ("a ClientHello that trickles", first[:100], first[100:]), ("a ClientHello and no more", first, b"")):
    connection = plain(server)
    connection.sendall(begin)
    if begin == first:
        connection.recv(65536)  # the answer of the server
    took = ends_after(connection, trickle)
    check(f"{what}: cut by the time of a handshake", took is not None and 0.8 < took < 10, took)
check_soon("they are counted", lambda: server.metric('sijil_connections_cut_total{why="handshake"}') == 4)
silent = server.connect()
time.sleep(2.5)
silent.sendall(b"GET /healthz HTTP/1.1\r\n" + H + b"\r\n")
check("after the handshake its time is over", silent.recv(4096).startswith(b"HTTP/1.1 200"))
server.stop()

# ---- Share ----
server = Server(handshake_timeout=60, connections_max=40, event_threads=2, **SLOW)
held = [plain(server, f"127.1.2.{1 + number % 5}") for number in range(80)]
check_soon("one network gets half of all connections", lambda: sum(map(is_open, held)) == 20)
check_soon("the others are counted", lambda: server.metric('sijil_connections_refused_total{why="network"}') == 60)
begun = time.monotonic()
check("another network is answered at once", server.get("/v2/")[0] == 200 and time.monotonic() - begun < 5, time.monotonic() - begun)
more = []


def all_but_the_last_quarter_are_taken():
    more.append(plain(server, "127.1.3.1"))  # the place of the previous request may be free only now
    return sum(map(is_open, more)) == 10


check_soon("all but the last quarter are taken", all_but_the_last_quarter_are_taken)
more += [plain(server, "127.1.3.1") for _ in range(20)]
check_soon("of the last quarter nobody has more than a sixteenth", lambda: sum(map(is_open, more)) == 10)
begun = time.monotonic()
check("so that a third network is answered", server.get("/v2/")[0] == 200 and time.monotonic() - begun < 5, time.monotonic() - begun)
for connection in held + more:
    connection.close()
check_soon("who leaves makes room", lambda: server.metric("sijil_connections") == 1)
again = [plain(server, "127.1.2.1") for _ in range(20)]
time.sleep(0.5)
check("all of it", all(map(is_open, again)))
server.stop()

# ---- All ---- (connections_max is for the port and the unix socket together)
path = os.path.join(tempfile.mkdtemp(), "socket")
server = Server(handshake_timeout=60, connections_max=40, connections_per_network=100, event_threads=1, listen_socket=path, **SLOW)


def local():
    link = socket.socket(socket.AF_UNIX)
    link.connect(path)
    return link


def told(name):
    """A metric, as a person of this machine sees it when no port has room."""
    link = local()
    link.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    text = b""
    while piece := link.recv(65536):
        text += piece
    link.close()
    return next((int(line.split()[-1]) for line in text.decode().splitlines() if line.startswith(name + " ")), None)


held = [local() for _ in range(30)]
check_soon("those of the unix socket count", lambda: told("sijil_connections") == 31)
more = [plain(server) for _ in range(20)]
check_soon("the port has what is left, but two", lambda: sum(map(is_open, more)) == 8)
check_soon("the others are counted", lambda: told('sijil_connections_refused_total{why="all"}') >= 12)
check("two are for the unix socket, to see why", told("sijil_connections") == 39)
for connection in held:
    connection.close()
check_soon("who leaves makes room on the port", lambda: server.get("/v2/")[0] == 200)
server.stop()
finish()
