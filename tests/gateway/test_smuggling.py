"""
Requests that two readers could understand differently, over real TLS. Each must be refused with the connection
closed, or be answered as exactly the requests that RFC 9112 sees. Every refusal must be counted.

A row: name, bytes, statuses, bodies that a handler saw (method, path, length), whether the connection must close.
"""
from support import Server, check, finish, read_all, statuses
import re

H = b"Host: x\r\n"
SECOND = b"GET /second HTTP/1.1\r\n" + H + b"\r\n"
CHUNKED = b"5\r\nhello\r\n0\r\n\r\n"
REFUSED = ([400], [], True)
SEEN_A = "POST a body=5"
SEEN_2 = "GET second body=0"


def post(headers, body):
    return b"POST /a HTTP/1.1\r\n" + H + headers + b"\r\n" + body


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
    ("a blank after chunked", post(b"Transfer-Encoding: chunked \r\n", CHUNKED + SECOND), *REFUSED),
    ("a blank before the colon", post(b"Transfer-Encoding : chunked\r\nContent-Length: 5\r\n", b"hello" + SECOND), *REFUSED),
    ("a tab before the colon", post(b"Transfer-Encoding\t: chunked\r\nContent-Length: 5\r\n", b"hello" + SECOND), *REFUSED),
    ("a folded header", post(b"Transfer-Encoding:\r\n chunked\r\n", CHUNKED + SECOND), *REFUSED),
    ("a folded harmless header", post(b"X-A: b\r\n c\r\nContent-Length: 5\r\n", b"hello" + SECOND), *REFUSED),
    ("a header that begins with a blank", b"GET /a HTTP/1.1\r\n Host: x\r\n\r\n" + SECOND, *REFUSED),
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
    ("LF in chunks is one request and no second", post(b"Transfer-Encoding: chunked\r\n", b"5\nhello\n0\n\n"), [200], [SEEN_A], False),
    ("%00 in the path", b"GET /a%00b HTTP/1.1\r\n" + H + b"\r\n", [400], [], False),
    ("%2e%2e%2f in the path", b"GET /v2/a%2f..%2fb HTTP/1.1\r\n" + H + b"\r\n", [400], [], False),
    ("%2e%2e as a segment", b"GET /v2/a/%2e%2e/b HTTP/1.1\r\n" + H + b"\r\n", [400], [], False),
    (".. as a segment", b"GET /v2/a/../b HTTP/1.1\r\n" + H + b"\r\n", [400], [], False),
    ("%5c in the path", b"GET /a%5cb HTTP/1.1\r\n" + H + b"\r\n", [400], [], False),
    ("a path that is encoded twice", b"GET /a%252fb HTTP/1.1\r\n" + H + b"\r\n", [400], [], False),
    ("half an escape", b"GET /a%2 HTTP/1.1\r\n" + H + b"\r\n", [400], [], False),
    ("%0d%0a in the query", b"GET /a?x=%0d%0aSet-Cookie:b HTTP/1.1\r\n" + H + b"\r\n", [400], [], False),
    ("an empty segment", b"GET //a HTTP/1.1\r\n" + H + b"\r\n", [400], [], False),
    ("two blanks before the target", b"GET  /a HTTP/1.1\r\n" + H + b"\r\n" + SECOND, *REFUSED),
    ("a tab before the target", b"GET\t/a HTTP/1.1\r\n" + H + b"\r\n" + SECOND, *REFUSED),
    ("a blank in the target", b"GET /a b HTTP/1.1\r\n" + H + b"\r\n" + SECOND, *REFUSED),
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


server = Server()
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
    after = server.state()
    seen = statuses(data)
    if closed and len(seen) == 2 and seen[0] == seen[1]:
        seen = seen[:1]  # libmicrohttpd 0.9.75 says twice what it does not like about a Content-Length, and closes
    good = seen == codes and [x.decode() for x in found] == bodies and closed == closes
    check(name, good, f"{statuses(data)} {found} closed={closed}")
    answered = after["recorded"] - before["recorded"] + after["refused"] - before["refused"]
    wanted = len([code for code in codes if code != 100])
    check(name + ": each has its event or its count", answered == wanted, f"{answered} for {wanted}")

# One byte at a time: what is cut into many reads must be understood the same.
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
