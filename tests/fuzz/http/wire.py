"""TLS to the server, and a strict reader of answers (RFC 9112)."""
import re
import select
import socket
import ssl
import struct
import time

STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-5][0-9][0-9]) [ -~]*")
FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+): ?([\t -~]*)")
BODY_MAX = 16 << 20


class Malformed(Exception):
    """The received bytes are not a well-formed answer."""


class Ended(Exception):
    """The server closed the connection before the next answer began."""


class Silence(Exception):
    """Nothing arrived in time."""


class Answer:
    def __init__(self, status, fields, body):
        self.status, self.fields, self.body = status, fields, body

    def __getitem__(self, name):
        return next((value for key, value in self.fields if key == name.lower()), None)

    def all(self, name):
        return [value for key, value in self.fields if key == name]


class Link:
    """One connection. `received` has the bytes that belong to no answer yet."""

    def __init__(self, port, context, timeout):
        plain = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.tls = context.wrap_socket(plain, server_hostname="127.0.0.1")
        self.received, self.ended = b"", False

    def send(self, data, splits):
        """Sends in pieces; False if the server takes no more bytes."""
        edges = [0, *[at for at in splits if at < len(data)], len(data)]
        for start, end in zip(edges, edges[1:]):
            try:
                self.tls.sendall(data[start:end])
            except (OSError, ssl.SSLError):
                return False
            if splits:
                time.sleep(0.001)
        return True

    def read_more(self, until):
        if self.ended:
            return False
        while not self.tls.pending():
            left = until - time.monotonic()
            if left <= 0:
                raise Silence()
            if select.select([self.tls], [], [], left)[0]:
                break
        try:
            piece = self.tls.recv(65536)
        except (ssl.SSLZeroReturnError, ConnectionError, ssl.SSLEOFError, ssl.SSLError):
            piece = b""
        except OSError:
            piece = b""
        self.received += piece
        self.ended = not piece
        return bool(piece)

    def line(self, until):
        while b"\r\n" not in self.received:
            if len(self.received) > 131072:
                raise Malformed("a line without an end")
            if not self.read_more(until):
                if not self.received:
                    raise Ended()
                raise Malformed(f"the head is cut off: {self.received[:200]!r}")
        line, self.received = self.received.split(b"\r\n", 1)
        return line

    def take(self, count, until):
        while len(self.received) < count:
            if not self.read_more(until):
                raise Malformed(f"the body is cut off after {len(self.received)} of {count} bytes")
        data, self.received = self.received[:count], self.received[count:]
        return data

    def answer(self, is_head, seconds):
        """The next final answer; interim answers are skipped."""
        until = time.monotonic() + seconds
        while True:
            status_line = STATUS_LINE.fullmatch(line := self.line(until))
            if status_line is None:
                raise Malformed(f"no status line: {line[:200]!r}")
            fields = []
            while field := self.line(until):
                match = FIELD.fullmatch(field)
                if match is None:
                    raise Malformed(f"no header: {field[:200]!r}")
                fields.append((match[1].decode().lower(), match[2].decode()))
            made = Answer(int(status_line[1]), fields, b"")
            if made.status >= 200:
                made.body = self.body(made, is_head, until)
                return made
            if made.status != 100:
                raise Malformed(f"an interim answer {made.status}")

    def body(self, made, is_head, until):
        lengths, codings = made.all("content-length"), made.all("transfer-encoding")
        if len(lengths) + len(codings) > 1:
            raise Malformed("a body that is framed twice")
        if is_head or made.status in (204, 304):
            return b""
        if codings:
            if codings != ["chunked"]:
                raise Malformed(f"Transfer-Encoding: {codings[0]}")
            return self.chunks(until)
        if not lengths or not re.fullmatch("0|[1-9][0-9]{0,18}", lengths[0]):
            raise Malformed(f"a body without an end: {lengths}")
        if int(lengths[0]) > BODY_MAX:
            raise Malformed("a body larger than anything that was stored")
        return self.take(int(lengths[0]), until)

    def chunks(self, until):
        data = b""
        while True:
            size = self.line(until)
            if not re.fullmatch(rb"[0-9a-fA-F]{1,8}", size):
                raise Malformed(f"no chunk size: {size[:100]!r}")
            data += self.take(int(size, 16), until)
            if self.line(until) != b"":
                raise Malformed("a chunk without its end")
            if int(size, 16) == 0:
                return data

    def finish(self, how):
        try:
            if how == "reset":
                self.tls.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif how == "half":
                self.tls.settimeout(1)
                self.tls.unwrap().close()
                return
        except (OSError, ssl.SSLError, ValueError):
            pass
        self.tls.close()
