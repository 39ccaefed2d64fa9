"""Load balancers: the client is the one that the head of the PROXY protocol names, and only the listed ones may name one."""
import json
import socket
import struct
import time
from support import PATIENCE, Server, check, check_soon, finish, read_all, statuses

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
BALANCER, OTHER = "127.0.3.1", "127.0.4.1"


def head(client, command=0x21, family=None, extensions=b""):
    kind = socket.AF_INET6 if ":" in client else socket.AF_INET
    family = family or (0x21 if kind == socket.AF_INET6 else 0x11)
    server_address = "2001:db8::1" if kind == socket.AF_INET6 else "192.0.2.1"
    body = socket.inet_pton(kind, client) + socket.inet_pton(kind, server_address) + struct.pack(">HH", 4711, 443) + extensions
    return SIGNATURE + bytes([command, family]) + struct.pack(">H", len(body)) + body


def connect(server, before, source=BALANCER, pause=None):
    """A TLS connection behind the bytes `before`; None: the server ended it. `pause`: sent byte by byte."""
    plain = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE, source_address=(source, 0))
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        for part in ([before] if pause is None else [before[i:i + 1] for i in range(len(before))]):
            plain.sendall(part)
            time.sleep(pause or 0)
        wrapped = server.context.wrap_socket(plain, server_hostname="localhost")
        wrapped.getpeername()  # Python wraps a socket that was closed meanwhile without a handshake
        return wrapped
    except OSError:
        plain.close()
        return None


def client_seen(server, before, source=BALANCER, pause=None, headers=""):
    connection = connect(server, before, source, pause)
    if connection is None:
        return None
    connection.sendall(f"GET /runner HTTP/1.1\r\nHost: x\r\n{headers}Connection: close\r\n\r\n".encode())
    data, _ = read_all(connection)
    connection.close()
    return json.loads(data.split(b"\r\n\r\n", 1)[1])["client"] if statuses(data) == [200] else data


server = Server(proxy_networks="127.0.3.1/32, 2001:db8:3::/64", connections_per_address=6, handshake_timeout=30)
check("who comes by itself needs no head", client_seen(server, b"", OTHER) == OTHER)
check("and can't send one", client_seen(server, head("192.0.2.9"), OTHER) is None)
check("nor name itself in a header", client_seen(server, b"", OTHER, headers="X-Forwarded-For: 192.0.2.9\r\nForwarded: for=192.0.2.9\r\n") == OTHER)
check("of a balancer's connection the head names the client", client_seen(server, head("192.0.2.9")) == "192.0.2.9")
check("or the one of IPv6", client_seen(server, head("2001:db8::9")) == "2001:db8::9")
check("extensions are skipped", client_seen(server, head("192.0.2.9", extensions=b"\x04\x03\xe8" + 1000 * b"\0")) == "192.0.2.9")
check("headers still name nobody", client_seen(server, head("192.0.2.9"), headers="X-Forwarded-For: 192.0.2.1\r\n") == "192.0.2.9")
check("a head may come byte by byte", client_seen(server, head("192.0.2.9"), pause=0.005) == "192.0.2.9")
check("a balancer's own check is its own", client_seen(server, head("192.0.2.9", command=0x20)) == BALANCER)
check("head and TLS in one piece are told apart", client_seen(server, head("198.51.100.4")) == "198.51.100.4")
check("the loopback is a client's address only because the balancer is there, too", client_seen(server, head("127.0.0.1")) == "127.0.0.1")

WRONG = {"none at all": b"", "version 1": b"PROXY TCP4 192.0.2.9 192.0.2.1 4711 443\r\n", "UDP": head("192.0.2.9", family=0x12),
         "an unknown command": head("192.0.2.9", command=0x22), "a client that is everybody": head("255.255.255.255"),
         "a client that is nobody": head("0.0.0.0"), "a link-local client": head("fe80::1"), "too long": head("192.0.2.9", extensions=3000 * b"\0")}
for number, (what, wrong) in enumerate(WRONG.items(), 1):
    check(f"a wrong head, {what}: closed", client_seen(server, wrong) is None)
    check_soon("and counted", lambda: server.metric('sijil_connections_refused_total{why="proxy"}') == number)
check("the log says what is wrong with them", "does not begin with the signature" in server.log_text() and f'"{BALANCER}"' in server.log_text(),
      server.log_text()[-2000:])

held = [connect(server, head("192.0.2.50")) for _ in range(6)]
check("a client has its connections through the balancer", None not in held)
check("and not one more", connect(server, head("192.0.2.50")) is None)
check("others of the balancer are served", client_seen(server, head("192.0.2.51")) == "192.0.2.51")
check("who is refused is counted", server.metric('sijil_connections_refused_total{why="address"}') == 1)
held.pop().close()
check_soon("who leaves makes room", lambda: client_seen(server, head("192.0.2.50")) == "192.0.2.50")
for connection in held:
    connection.close()
server.stop()

slow = Server(proxy_networks="127.0.3.1/32", handshake_timeout=1, header_timeout=300, idle_timeout=300)
begun = time.monotonic()
plain = socket.create_connection(("127.0.0.1", slow.port), timeout=PATIENCE, source_address=(BALANCER, 0))
plain.sendall(head("192.0.2.9")[:20])
check("half a head has the time of a handshake", plain.recv(1) == b"" and 0.8 < time.monotonic() - begun < 10)
slow.stop()
finish()
