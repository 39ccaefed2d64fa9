"""
Requests that two readers could understand differently, over real TLS. Each must be refused with the connection
closed, or be answered as exactly the requests that RFC 9112 sees. Every refusal must be counted.

A row: name, bytes, statuses, bodies that a handler saw (method, path, length), whether the connection must close.
"""
from support import PATIENCE, Server, check, finish, folder_of, read_all, statuses
import os
import re
import socket
import time

H = b"Host: x\r\n"
SECOND = b"GET /second HTTP/1.1\r\n" + H + b"\r\n"
CHUNKED = b"5\r\nhello\r\n0\r\n\r\n"
REFUSED = ([400], [], True)
SEEN_A = "POST a body=5"
SEEN_2 = "GET second body=0"


def post(headers, body):
    return b"POST /a HTTP/1.1\r\n" + H + headers + b"\r\n" + body


def chunks(body):
    return post(b"Transfer-Encoding: chunked\r\n", body) + SECOND


ROWS = [
    ("Content-Length and Transfer-Encoding", post(b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", CHUNKED + SECOND), *REFUSED),
    ("Transfer-Encoding and Content-Length", post(b"Transfer-Encoding: chunked\r\nContent-Length: 15\r\n", CHUNKED + SECOND), *REFUSED),
    ("two lengths that differ", post(b"Content-Length: 5\r\nContent-Length: 0\r\n", b"hello" + SECOND), *REFUSED),
    ("two lengths that agree", post(b"Content-Length: 5\r\nContent-Length: 5\r\n", b"hello" + SECOND), *REFUSED),
    ("a list of lengths", post(b"Content-Length: 5, 5\r\n", b"hello" + SECOND), *REFUSED),
    ("a length with a sign", post(b"Content-Length: +5\r\n", b"hello" + SECOND), *REFUSED),
    ("a negative length", post(b"Content-Length: -5\r\n", b"hello" + SECOND), *REFUSED),
    ("a hexadecimal length", post(b"Content-Length: 0x5\r\n", b"hello" + SECOND), *REFUSED),
    ("a length with a leading zero", post(b"Content-Length: 05\r\n", b"hello" + SECOND), *REFUSED),
    ("an empty length", post(b"Content-Length:\r\n", b"hello" + SECOND), *REFUSED),
    ("a length past 64 bits", post(b"Content-Length: 99999999999999999999\r\n", b"hello"), [413], [], True),
    ("a coding that is not chunked", post(b"Transfer-Encoding: xchunked\r\n", CHUNKED + SECOND), *REFUSED),
    ("a list of codings", post(b"Transfer-Encoding: gzip, chunked\r\n", CHUNKED + SECOND), *REFUSED),
    ("a false coding and a length", post(b"Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n", b"hello" + SECOND), *REFUSED),
    ("two codings", post(b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", CHUNKED + SECOND), *REFUSED),
    ("chunked twice", post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", CHUNKED + SECOND), *REFUSED),
    ("a vertical tab before chunked", post(b"Transfer-Encoding: \x0bchunked\r\n", CHUNKED + SECOND), *REFUSED),
    ("a space after chunked", post(b"Transfer-Encoding: chunked \r\n", CHUNKED + SECOND), *REFUSED),
    ("a space before the colon", post(b"Transfer-Encoding : chunked\r\nContent-Length: 5\r\n", b"hello" + SECOND), *REFUSED),
    ("a tab before the colon", post(b"Transfer-Encoding\t: chunked\r\nContent-Length: 5\r\n", b"hello" + SECOND), *REFUSED),
    ("a folded header", post(b"Transfer-Encoding:\r\n chunked\r\n", CHUNKED + SECOND), *REFUSED),
    ("a folded harmless header", post(b"X-A: b\r\n c\r\nContent-Length: 5\r\n", b"hello" + SECOND), *REFUSED),
    ("a header that begins with a space", b"GET /a HTTP/1.1\r\n Host: x\r\n\r\n" + SECOND, *REFUSED),
    ("LF for CRLF everywhere", b"GET /a HTTP/1.1\nHost: x\n\nGET /second HTTP/1.1\nHost: x\n\n", *REFUSED),
    ("LF after one header", b"GET /a HTTP/1.1\r\nHost: x\nX-A: b\r\n\r\n" + SECOND, *REFUSED),
    ("LF after the request line", b"GET /a HTTP/1.1\nHost: x\r\n\r\n" + SECOND, *REFUSED),
    ("LF for the empty line", b"GET /a HTTP/1.1\r\nHost: x\r\n\n" + SECOND, *REFUSED),
    ("a bare CR in a header", b"GET /a HTTP/1.1\r\n" + H + b"X-A: b\rContent-Length: 5\r\n\r\n" + SECOND, *REFUSED),
    ("a header without a colon", b"GET /a HTTP/1.1\r\n" + H + b"Nonsense\r\n\r\n" + SECOND, *REFUSED),
    ("a header without a name", b"GET /a HTTP/1.1\r\n" + H + b": x\r\n\r\n" + SECOND, *REFUSED),
    ("two Hosts", b"GET /a HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n" + SECOND, *REFUSED),
    ("no Host", b"GET /a HTTP/1.1\r\n\r\n" + SECOND, *REFUSED),
    ("two Authorizations", b"GET /a HTTP/1.1\r\n" + H + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n" + SECOND, *REFUSED),
    ("two Ranges", b"GET /a HTTP/1.1\r\n" + H + b"Range: bytes=0-1\r\nRange: bytes=2-3\r\n\r\n" + SECOND, *REFUSED),
    ("chunked in HTTP/1.0", b"POST /a HTTP/1.0\r\n" + H + b"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED + SECOND, *REFUSED),
    ("a chunk with an extension", post(b"Transfer-Encoding: chunked\r\n", b"5;a=b\r\nhello\r\n0\r\n\r\n"), [200], [SEEN_A], False),
    ("a chunk size that is no number", post(b"Transfer-Encoding: chunked\r\n", b"g\r\nhello\r\n0\r\n\r\n" + SECOND), *REFUSED),
    ("a negative chunk size", post(b"Transfer-Encoding: chunked\r\n", b"-5\r\nhello\r\n0\r\n\r\n" + SECOND), *REFUSED),
    ("a chunk size with 0x", post(b"Transfer-Encoding: chunked\r\n", b"0x5\r\nhello\r\n0\r\n\r\n" + SECOND), *REFUSED),
    ("a chunk that is longer than it says", post(b"Transfer-Encoding: chunked\r\n", b"4\r\nhello\r\n0\r\n\r\n" + SECOND), *REFUSED),
    ("LF in chunks", chunks(b"5\nhello\n0\n\n"), *REFUSED),
    ("LF after a chunk's size", chunks(b"5\nhello\r\n0\r\n\r\n"), *REFUSED),
    ("LF after a chunk", chunks(b"5\r\nhello\n0\r\n\r\n"), *REFUSED),
    ("LF after the last chunk", chunks(b"5\r\nhello\r\n0\n\r\n"), *REFUSED),
    ("LF at the end of the chunks", chunks(b"5\r\nhello\r\n0\r\n\n"), *REFUSED),
    ("CR alone after a chunk", chunks(b"5\r\nhello\r0\r\n\r\n"), *REFUSED),
    ("an extension of 256 bytes", chunks(b"5;" + 256 * b"a" + b"\r\nhello\r\n0\r\n\r\n"), [200, 200], [SEEN_A, SEEN_2], False),
    ("an extension of 257 bytes", chunks(b"5;" + 257 * b"a" + b"\r\nhello\r\n0\r\n\r\n"), *REFUSED),
    ("an extension of 200 kB", chunks(b"5;" + 200000 * b"a" + b"\r\nhello\r\n0\r\n\r\n"), *REFUSED),
    ("an extension of 200 kB on the last chunk", chunks(b"5\r\nhello\r\n0;" + 200000 * b"a" + b"\r\n\r\n"), *REFUSED),
    ("an extension with LF", chunks(b"5;a\nhello\r\n0\r\n\r\n"), *REFUSED),
    ("an extension with NUL", chunks(b"5;a\0\r\nhello\r\n0\r\n\r\n"), *REFUSED),
    ("a space before an extension", chunks(b"5 ;a\r\nhello\r\n0\r\n\r\n"), *REFUSED),
    ("a space after a chunk's size", chunks(b"5 \r\nhello\r\n0\r\n\r\n"), *REFUSED),
    ("a space before a chunk's size", chunks(b" 5\r\nhello\r\n0\r\n\r\n"), *REFUSED),
    ("plus before a chunk's size", chunks(b"+5\r\nhello\r\n0\r\n\r\n"), *REFUSED),
    ("no chunk size", chunks(b"\r\nhello\r\n0\r\n\r\n"), *REFUSED),
    ("an extension without a size", chunks(b";a\r\nhello\r\n0\r\n\r\n"), *REFUSED),
    ("zeros before a chunk's size", chunks(b"00005\r\nhello\r\n0000\r\n\r\n"), [200, 200], [SEEN_A, SEEN_2], False),
    ("sixteen digits in a chunk's size", chunks(b"0000000000000005\r\nhello\r\n0\r\n\r\n"), [413], [], True),
    ("a chunk size past 64 bits", chunks(b"10000000000000005\r\nhello\r\n0\r\n\r\n"), [413], [], True),
    ("a chunk that is shorter than it says", chunks(b"6\r\nhello\r\n0\r\n\r\n"), *REFUSED),
    ("trailers", chunks(b"5\r\nhello\r\n0\r\nX-A: b\r\nContent-Length: 7\r\n\r\n"), [200, 200], [SEEN_A, SEEN_2], False),
    ("trailers of 5 kB", chunks(b"5\r\nhello\r\n0\r\nX-A: " + 5000 * b"b" + b"\r\n\r\n"), [431], [], True),
    ("a trailer with LF", chunks(b"5\r\nhello\r\n0\r\nX-A: b\n\r\n"), *REFUSED),
    ("a folded trailer", chunks(b"5\r\nhello\r\n0\r\nX-A: b\r\n c\r\n\r\n"), *REFUSED),
    ("a trailer without a colon", chunks(b"5\r\nhello\r\n0\r\nNonsense\r\n\r\n"), *REFUSED),
    ("a good request, and then a bad one", SECOND + b"GET /a HTTP/1.1\nHost: x\n\n" + SECOND, [200, 400], [SEEN_2], True),
    ("a good body, and then a bad one", post(b"Transfer-Encoding: chunked\r\n", CHUNKED) + chunks(b"5\nhello\n0\n\n"), [200, 400], [SEEN_A], True),
    ("bad chunks of an upload", b"PUT /v2/x/sink HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5\nhello\r\n0\r\n\r\n" + SECOND, *REFUSED),
    ("bad chunks of what was refused before", b"PUT /v2/x/sink?refuse=1 HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n" + SECOND, *REFUSED),
    ("a list of lengths that begins with none", post(b"Content-Length: 0, 5\r\n", b"hello" + SECOND), *REFUSED),
    ("a space after a length", post(b"Content-Length: 5 \r\n", b"hello" + SECOND), *REFUSED),
    ("lengths in two headers, one empty", post(b"Content-Length: \r\nContent-Length: 5\r\n", b"hello" + SECOND), *REFUSED),
    ("a length of nineteen digits", post(b"Content-Length: 1000000000000000000\r\n", b"hello"), [413], [], True),
    ("an empty coding", post(b"Transfer-Encoding:\r\n", CHUNKED + SECOND), *REFUSED),
    ("a coding with a parameter", post(b"Transfer-Encoding: chunked;a=b\r\n", CHUNKED + SECOND), *REFUSED),
    ("chunked, identity", post(b"Transfer-Encoding: chunked, identity\r\n", CHUNKED + SECOND), *REFUSED),
    ("a coding in capitals", post(b"TRANSFER-ENCODING: Chunked\r\n", CHUNKED + SECOND), [200, 200], [SEEN_A, SEEN_2], False),
    ("an empty line before a request", b"\r\n" + SECOND, [200], [SEEN_2], False),
    ("three empty lines before a request", b"\r\n\r\n\r\n" + SECOND, *REFUSED),
    ("LF before a request", b"\n" + SECOND, *REFUSED),
    ("a space after the version", b"GET /a HTTP/1.1 \r\n" + H + b"\r\n" + SECOND, *REFUSED),
    ("a version in small letters", b"GET /a http/1.1\r\n" + H + b"\r\n" + SECOND, *REFUSED),
    ("a target that never ends", b"GET /" + 70000 * b"a" + b" HTTP/1.1\r\n" + H + b"\r\n", [414], [], True),
    ("a thousand arguments", b"GET /a?" + 1000 * b"a&" + b" HTTP/1.1\r\n" + H + b"\r\n", [414], [], True),
    ("a header that never ends", b"GET /a HTTP/1.1\r\n" + H + b"X-A: " + 70000 * b"b" + b"\r\n\r\n", [431], [], True),
    ("a thousand headers", b"GET /a HTTP/1.1\r\n" + H + 1000 * b"a:\r\n" + b"\r\n", [431], [], True),
    ("a large cookie", b"GET /a HTTP/1.1\r\n" + H + b"Cookie: " + 500 * b"a=b;" + b"\r\n\r\n", [431], [], True),
    ("a cookie", b"GET /a HTTP/1.1\r\n" + H + b"Cookie: " + 200 * b"a=b;" + b"\r\n\r\n", [200], ["GET a body=0"], False),
    ("a method that never ends", 1000 * b"A" + b" /a HTTP/1.1\r\n" + H + b"\r\n", [400], [], True),
    ("TLS within TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", [400], [], True),
    ("%00 in the path", b"GET /a%00b HTTP/1.1\r\n" + H + b"\r\n", [400], [], False),
    ("%2e%2e%2f in the path", b"GET /v2/a%2f..%2fb HTTP/1.1\r\n" + H + b"\r\n", [400], [], False),
    ("%2e%2e as a segment", b"GET /v2/a/%2e%2e/b HTTP/1.1\r\n" + H + b"\r\n", [400], [], False),
    (".. as a segment", b"GET /v2/a/../b HTTP/1.1\r\n" + H + b"\r\n", [400], [], False),
    ("%5c in the path", b"GET /a%5cb HTTP/1.1\r\n" + H + b"\r\n", [400], [], False),
    ("a path that is encoded twice", b"GET /a%252fb HTTP/1.1\r\n" + H + b"\r\n", [400], [], False),
    ("half an escape", b"GET /a%2 HTTP/1.1\r\n" + H + b"\r\n", [400], [], False),
    ("%0d%0a in the query", b"GET /a?x=%0d%0aSet-Cookie:b HTTP/1.1\r\n" + H + b"\r\n", [400], [], False),
    ("an empty segment", b"GET //a HTTP/1.1\r\n" + H + b"\r\n", [400], [], False),
    ("two spaces before the target", b"GET  /a HTTP/1.1\r\n" + H + b"\r\n" + SECOND, *REFUSED),
    ("a tab before the target", b"GET\t/a HTTP/1.1\r\n" + H + b"\r\n" + SECOND, *REFUSED),
    ("a space in the target", b"GET /a b HTTP/1.1\r\n" + H + b"\r\n" + SECOND, *REFUSED),
    ("a byte over 127 in the target", b"GET /a\xff HTTP/1.1\r\n" + H + b"\r\n" + SECOND, *REFUSED),
    ("NUL in the target", b"GET /a\x00b HTTP/1.1\r\n" + H + b"\r\n" + SECOND, *REFUSED),
    ("NUL in a header", b"GET /a HTTP/1.1\r\n" + H + b"Authorization: Bearer a\x00b\r\n\r\n" + SECOND, *REFUSED),
    ("NUL in a header's name", b"GET /a HTTP/1.1\r\n" + H + b"X\x00A: b\r\n\r\n" + SECOND, *REFUSED),
    ("a byte over 127 in a header", b"GET /a HTTP/1.1\r\n" + H + b"X-A: \xff\r\n\r\n" + SECOND, *REFUSED),
    ("GET with a body", b"GET /a HTTP/1.1\r\n" + H + b"Content-Length: 5\r\n\r\nhello" + SECOND, [200, 200], ["GET a body=5", SEEN_2], False),
    ("two requests at once", SECOND + SECOND, [200, 200], [SEEN_2, SEEN_2], False),
    ("a chunked request and another", post(b"Transfer-Encoding: chunked\r\n", CHUNKED + SECOND), [200, 200], [SEEN_A, SEEN_2], False),
    ("the absolute form", b"GET https://elsewhere/a HTTP/1.1\r\n" + H + b"\r\n", [200], ["GET a body=0"], False),
    ("a refusal drains its body", b"PUT /v2/x/sink?refuse=1 HTTP/1.1\r\n" + H + b"Content-Length: 5\r\n\r\nhello" + SECOND, [403, 200], [SEEN_2], False),
    ("leave to send is not given when refused", b"PUT /v2/x/sink?refuse=1 HTTP/1.1\r\n" + H + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n", [403], [], True),
    ("leave to send is given", b"POST /a HTTP/1.1\r\n" + H + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello", [100, 200], [SEEN_A], False),
    ("another expectation", b"POST /a HTTP/1.1\r\n" + H + b"Expect: wonders\r\nContent-Length: 5\r\n\r\nhello", [417], [], True),
    ("HTTP/2 in the request line", b"GET /a HTTP/2.0\r\n" + H + b"\r\n", [505], [], True),
    ("HTTP/1.9", b"GET /a HTTP/1.9\r\n" + H + b"\r\n", [505], [], True),
    ("HTTP/0.9", b"GET /a\r\n\r\n", [400], [], True),
    ("an unknown method", b"BREW /a HTTP/1.1\r\n" + H + b"\r\n", [501], [], True),
    ("CONNECT", b"CONNECT x:443 HTTP/1.1\r\n" + H + b"\r\n", [501], [], True),
    ("a method of this server that the path has not", b"DELETE /a HTTP/1.1\r\n" + H + b"\r\n", [405], [], False),
]


def bodies_in(data):
    return re.findall(rb"((?:GET|POST|PUT) \S+ body=\d+);", data)


def byte_by_byte(request):
    connection = server.connect()
    try:
        for byte in request:
            connection.sendall(bytes([byte]))
    except OSError:
        pass  # it was answered before, and closed
    data = read_all(connection, 1)[0]
    connection.close()
    return data


def in_pieces(request, codes):
    """The correct answers if the body comes later than the head: a refusal of the head may be sent before the body breaks."""
    return (codes, [403]) if b"refuse=1" in request and codes == [400] else (codes,)


def answered_since(before, wanted):
    """The events and counts since then. Waits until there are `wanted`, because the machine may be slow."""
    until = time.monotonic() + PATIENCE
    while True:
        after = server.state()
        answered = sum(after[kind] - before[kind] for kind in ("recorded", "refused"))
        if answered >= wanted or time.monotonic() > until:
            return answered
        time.sleep(0.05)


plain_path = os.path.join(folder_of("sijil-socket-"), "socket")
server = Server(listen_socket=plain_path)
seen_at_first = server.state()["recorded"]
expected_refusals = 0
for name, request, codes, bodies, closes in ROWS:
    before = server.state()
    connection = server.connect()
    connection.sendall(request)
    data, closed = read_all(connection, 0.5, lambda data: not closes and len(statuses(data)) >= len(codes) and
                            len(bodies_in(data)) >= len(bodies))
    connection.close()
    found = bodies_in(data)
    wanted = len([code for code in codes if code != 100])
    answered = answered_since(before, wanted)
    seen = statuses(data)
    good = seen == codes and [x.decode() for x in found] == bodies and closed == closes
    check(name, good, f"{statuses(data)} {found} closed={closed}")
    if closed and codes[-1] >= 400:
        check(name + ": the answer is ours", (b"application/json" if b" /v2/" in request else b"application/problem+json") in data and
              b"<html" not in data and data.lower().count(b"connection: close") == 1, data[-600:])
        if len(request) < 1000:
            found = statuses(byte_by_byte(request))
            check(name + ": byte by byte the same", found in in_pieces(request, codes), found)
    check(name + ": each has its event or its count", answered == wanted, f"{answered} for {wanted}")

# The unix socket, where libmicrohttpd reads without TLS.
class PlainConnection(socket.socket):
    def __init__(self):
        super().__init__(socket.AF_UNIX)
        self.settimeout(20)
        self.connect(plain_path)


for name, request, codes, bodies, closes in ROWS:
    if len(request) > 1000:
        continue  # the kernel's buffers of unix sockets are small
    for how in ("at once", "byte by byte"):
        connection = PlainConnection()
        try:
            for piece in ([request] if how == "at once" else [bytes([byte]) for byte in request]):
                connection.sendall(piece)
        except OSError:
            pass  # it was answered before, and closed
        data, closed = read_all(connection, 0.2, lambda data: not closes and len(statuses(data)) >= len(codes) and
                                len(bodies_in(data)) >= len(bodies))
        connection.close()
        wanted = in_pieces(request, codes) if how == "byte by byte" else (codes,)
        check(f"{name}, over the unix socket, {how}", statuses(data) in wanted and closed == closes, (statuses(data), closed))

# One byte at a time: the server must understand a request in the same way in one read or many.
connection = server.connect()
for byte in post(b"Transfer-Encoding: chunked\r\n", CHUNKED):
    connection.sendall(bytes([byte]))
check("byte by byte", statuses(read_all(connection, 1)[0]) == [200])
big = b"".join(b"X-%d: %s\r\n" % (i, b"y" * 600) for i in range(50))
connection = server.connect()
request = b"GET /second HTTP/1.1\r\n" + H + big + b"\r\n"
for at in range(0, len(request), 7000):
    connection.sendall(request[at : at + 7000])
check("30 KiB of headers in pieces are seamless", statuses(read_all(connection, 1)[0]) == [200])
server.stop()
finish()
