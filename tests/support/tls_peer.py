#!/usr/bin/python3
"""A server over TLS that answers well or badly, as the path asks, and a proxy: for tests/unit/test_outgoing.c.

usage: tls_peer.py FOLDER
Writes into FOLDER: ca.pem (the authority of peer.example), other.pem (an authority of no certificate here), client.pem and client.key
(a client that `mutual` accepts), ports when it listens ("main tls12 mutual proxy"), and log, a line for each request: the address that was
called, the port's name, and the request's line; of `proxy` the whole head in one line. It ends when its standard input does.

/plain        200 and a few bytes             /redirect     302 to /plain at 127.0.0.2
/bytes/N      200 and N bytes                 /chunks/N     the same without a length
/head         a head without an end           /interim      answers of status 100 without an end
/drip         a byte every 100 ms             /silent       nothing
/cut          half of its body, then closes   /echo         what came: its line, headers and body
/last         200, and closes the connection when the next request comes, without an answer
"""
import os
import socket
import ssl
import subprocess
import sys
import threading
import time

FOLDER = sys.argv[1]
ADDRESSES = ("127.0.0.1", "127.0.0.2")
LOCK = threading.Lock()


def path_of(name):
    return os.path.join(FOLDER, name)


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


def certificate(name, subject, *more):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={subject}",
            *more, "-keyout", path_of(name + ".key"), "-out", path_of(name + ".pem"))


def log(line):
    with LOCK, open(path_of("log"), "a", encoding="latin-1") as file:
        file.write(line + "\n")


def read_head(stream):
    lines = []
    while (line := stream.readline(65536)) not in (b"", b"\r\n"):
        lines.append(line.decode("latin-1").rstrip("\r\n"))
    return lines


def length_of(lines):
    return next((int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:")), 0)


def answer(status, body, *more):
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *more, "", ""]).encode() + body


def endless(connection, beginning, piece, pause):
    connection.sendall(beginning)
    until = time.monotonic() + 30
    while time.monotonic() < until:
        connection.sendall(piece)
        time.sleep(pause)


def respond(connection, lines, body):
    """False: the connection ends."""
    path = lines[0].split()[1]
    number = int(path.rsplit("/", 1)[1]) if path.count("/") == 2 else 0
    if path == "/redirect":
        connection.sendall(answer("302 Found", b"", f"Location: https://127.0.0.2:{PORTS['main']}/plain"))
    elif path.startswith("/bytes/"):
        connection.sendall(answer("200 OK", b"x" * number))
    elif path.startswith("/chunks/"):
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * number + b"0\r\n\r\n")
    elif path == "/head":
        endless(connection, b"HTTP/1.1 200 OK\r\n", b"X-More: " + b"x" * 4000 + b"\r\n", 0)
    elif path == "/interim":
        endless(connection, b"", b"HTTP/1.1 100 Continue\r\nX-More: " + b"x" * 4000 + b"\r\n\r\n", 0)
    elif path == "/drip":
        endless(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n", b"x", 0.1)
    elif path == "/silent":
        time.sleep(30)
    elif path == "/cut":
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf!")
        return False
    elif path == "/echo":
        connection.sendall(answer("200 OK", "\n".join(lines).encode("latin-1") + b"\n\n" + body))
    else:
        connection.sendall(answer("200 OK", b"hello"))
    return True


def serve(connection, address, name, context):
    try:
        connection = context.wrap_socket(connection, server_side=True)
        stream, is_last = connection.makefile("rb"), False
        while lines := read_head(stream):
            log(f"{address} {name} {lines[0]}")
            if is_last:
                break
            is_last = lines[0].split()[1] == "/last"
            if not respond(connection, lines, stream.read(length_of(lines))):
                break
        connection.close()
    except (OSError, ValueError):
        pass  # the client went away


def copy(source, target):
    try:
        while piece := source.recv(65536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def tunnel(connection, address, name, _):
    """CONNECT to any name connects to the main port of this server."""
    stream = connection.makefile("rb", buffering=0)
    log(f"{address} {name} {' | '.join(read_head(stream))}")
    with socket.create_connection(("127.0.0.1", PORTS["main"])) as far:
        connection.sendall(b"HTTP/1.1 200 Connection established\r\nX-Proxy: yes\r\n\r\n")
        back = threading.Thread(target=copy, args=(far, connection), daemon=True)
        back.start()
        copy(connection, far)
        back.join()


def accept(listener, address, name, serve_one, context):
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve_one, args=(connection, address, name, context), daemon=True).start()


def context_of(name):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path_of("ca.pem"), path_of("ca.key"))
    if name == "tls12":
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    else:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if name == "mutual":
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(path_of("client.pem"))
    return context


def listen(name):
    """Listens at both addresses, so that a call of the wrong one would get an answer too."""
    first = socket.create_server((ADDRESSES[0], 0))
    port = first.getsockname()[1]
    for address, listener in ((ADDRESSES[0], first), (ADDRESSES[1], socket.create_server((ADDRESSES[1], port)))):
        threading.Thread(target=accept, args=(listener, address, name, tunnel if name == "proxy" else serve,
                                              None if name == "proxy" else context_of(name)), daemon=True).start()
    return port


certificate("ca", "peer.example", "-addext", "subjectAltName=DNS:peer.example,IP:127.0.0.1,IP:127.0.0.2")
certificate("other", "other.example")
certificate("client", "client.example")
open(path_of("log"), "a", encoding="ascii").close()
PORTS = {}
for each in ("main", "tls12", "mutual", "proxy"):
    PORTS[each] = listen(each)
with open(path_of("ports.new"), "w", encoding="ascii") as out:
    out.write(" ".join(str(port) for port in PORTS.values()))
os.rename(path_of("ports.new"), path_of("ports"))
sys.stdin.read()
