#!/usr/bin/python3
"""A small S3 server over TLS for the tests: real sockets, its own Signature Version 4, and failures on demand.

usage: s3_server.py FOLDER [--part-minimum BYTES] [--page KEYS]
Writes into FOLDER: ca.pem, key (the access key), port when it listens, and log: a line for each request, with the numbers
of objects and of open uploads with bytes. FOLDER/plan, read before each
request, is a JSON object: {"skip": requests that succeed first, "count": requests that fail then, "how": ...,
"only": "PUT" (or ""), "location": the bucket's location, "replication", "lifecycle", "versioning": the bucket's rules, as S3 writes them; a
number: it refuses to tell, with this status; "forget": a key whose object is lost}. It ends when its standard input does.

how: 500, 503, 429, 403, 301, 507   that status instead of doing it
     after                          does it, then says 500
     cut, cut-after                 closes the connection before, or after, doing it
     half                           half of the answer's body, then closes
     silent says nothing until the client goes away
     late                           completing an upload: 200, and an error in the body
     garbage                        200 and a body that is no XML
     lost                           404 NoSuchUpload or NoSuchKey
     astray                         404 of a balancer, which knows neither
"""
import argparse
import datetime
import hashlib
import hmac
import http.server
import json
import os
import re
import secrets
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse
import xml.etree.ElementTree
from xml.sax.saxutils import escape

ACCESS_KEY, SECRET = "TESTKEY" + secrets.token_hex(4), secrets.token_urlsafe(30)
BUCKET, LOCATION = "models", "me-test-1"
RULES = {"replication": ("ReplicationConfiguration", "ReplicationConfigurationNotFoundError"),
         "lifecycle": ("LifecycleConfiguration", "NoSuchLifecycleConfiguration"), "versioning": ("VersioningConfiguration", "")}
NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


class Refusal(Exception):
    def __init__(self, status, code):
        super().__init__(code)
        self.status, self.code = status, code


def encode(text):
    return urllib.parse.quote(text, safe="-._~")


def check_signature(method, target, headers, body):
    """Parses the header strictly, and refuses an important header that is not signed."""
    match = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, SignedHeaders=([a-z0-9;-]+), "
                         r"Signature=([0-9a-f]{64})", headers.get("authorization", ""))
    if not match:
        raise Refusal(403, "AccessDenied")
    key, day, location, names, signature = match.groups()
    stamp = headers["x-amz-date"]
    then = datetime.datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
    if key != ACCESS_KEY:
        raise Refusal(403, "InvalidAccessKeyId")
    if location != LOCATION or not stamp.startswith(day):
        raise Refusal(400, "AuthorizationHeaderMalformed")
    if abs((datetime.datetime.now(datetime.timezone.utc) - then).total_seconds()) > 900:
        raise Refusal(403, "RequestTimeTooSkewed")
    signed = names.split(";")
    must = {"host", "content-type", "range", "if-none-match"} | {name for name in headers if name.startswith("x-amz-")}
    if any(name in headers and name not in signed for name in must) or "host" not in signed:
        raise Refusal(403, "AccessDenied")
    if headers["x-amz-content-sha256"] != hashlib.sha256(body).hexdigest():
        raise Refusal(400, "XAmzContentSHA256Mismatch")
    path, _, query = target.partition("?")
    pairs = sorted((encode(urllib.parse.unquote(name)), encode(urllib.parse.unquote(value)))
                   for name, _, value in (item.partition("=") for item in query.split("&") if item))
    canonical = "\n".join([method, path, "&".join(f"{name}={value}" for name, value in pairs),
                           *(f"{name}:{' '.join(headers[name].split())}" for name in signed), "", names,
                           headers["x-amz-content-sha256"]])
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, f"{day}/{location}/s3/aws4_request",
                      hashlib.sha256(canonical.encode()).hexdigest()])
    secret = ("AWS4" + SECRET).encode()
    for word in (day, location, "s3", "aws4_request"):
        secret = hmac.new(secret, word.encode(), hashlib.sha256).digest()
    if not hmac.compare_digest(hmac.new(secret, text.encode(), hashlib.sha256).hexdigest(), signature):
        raise Refusal(403, "SignatureDoesNotMatch")


class Store:
    def __init__(self, folder, part_minimum, page):
        self.folder, self.part_minimum, self.page = folder, part_minimum, page
        self.objects, self.uploads, self.lock = {}, {}, threading.RLock()  # key -> (bytes, etag, time); id -> (key, parts)
        self.plan, self.plan_stamp = {}, None

    # --- failures ------------------------------------------------------------------------------------------------------
    def next_failure(self, method):
        path = os.path.join(self.folder, "plan")
        with self.lock:
            stamp = os.stat(path).st_mtime_ns if os.path.exists(path) else None
            if stamp != self.plan_stamp:
                with open(path, encoding="ascii") as file:
                    self.plan, self.plan_stamp = json.load(file), stamp
                self.objects.pop(self.plan.get("forget"), None)
            if self.plan.get("only") not in (None, "", method) or self.plan.get("count", 0) == 0:
                return None
            if self.plan.get("skip", 0) > 0:
                self.plan["skip"] -= 1
                return None
            self.plan["count"] -= 1
            return self.plan["how"]

    # --- operations: each gives status, headers, body --------------------------------------------------------------------
    def put(self, key, headers, body):
        with self.lock:
            if headers.get("if-none-match") == "*" and key in self.objects:
                raise Refusal(412, "PreconditionFailed")
            etag = hashlib.md5(body).hexdigest()
            self.objects[key] = (body, etag, time.time())
        return 200, {"ETag": f'"{etag}"'}, b""

    def get(self, key, headers):
        with self.lock:
            if key not in self.objects:
                raise Refusal(404, "NoSuchKey")
            body, etag, _ = self.objects[key]
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", headers.get("range", ""))
        if not wanted:
            return 200, {"ETag": f'"{etag}"'}, body
        first, last = int(wanted[1]), min(int(wanted[2]), len(body) - 1)
        if first >= len(body):
            raise Refusal(416, "InvalidRange")
        return 206, {"ETag": f'"{etag}"', "Content-Range": f"bytes {first}-{last}/{len(body)}"}, body[first:last + 1]

    def delete(self, key):
        with self.lock:
            self.objects.pop(key, None)
        return 204, {}, b""

    def begin(self, key):
        name = secrets.token_urlsafe(24) + "/+="
        with self.lock:
            self.uploads[name] = (key, {})
        return 200, {}, (f"<?xml version=\"1.0\"?><InitiateMultipartUploadResult {NAMESPACE}><Bucket>{BUCKET}</Bucket>"
                         f"<Key>{escape(key)}</Key><UploadId>{escape(name)}</UploadId></InitiateMultipartUploadResult>").encode()

    def upload(self, key, name):
        if name not in self.uploads or self.uploads[name][0] != key:
            raise Refusal(404, "NoSuchUpload")
        return self.uploads[name][1]

    def put_part(self, key, name, number, body):
        if not 1 <= number <= 10000:
            raise Refusal(400, "InvalidArgument")
        with self.lock:
            etag = hashlib.md5(body).hexdigest()
            self.upload(key, name)[number] = (body, etag)
        return 200, {"ETag": f'"{etag}"'}, b""

    def complete(self, key, name, body):
        tag = "{http://s3.amazonaws.com/doc/2006-03-01/}"
        listed = [(int(part.findtext(tag + "PartNumber")), part.findtext(tag + "ETag").strip('"'))
                  for part in xml.etree.ElementTree.fromstring(body).iter(tag + "Part")]
        with self.lock:
            parts = self.upload(key, name)
            if not listed or any(number not in parts or parts[number][1] != etag for number, etag in listed):
                raise Refusal(400, "InvalidPart")
            if [number for number, _ in listed] != sorted({number for number, _ in listed}):
                raise Refusal(400, "InvalidPartOrder")
            if any(len(parts[number][0]) < self.part_minimum for number, _ in listed[:-1]):
                raise Refusal(400, "EntityTooSmall")
            self.objects[key] = (b"".join(parts[number][0] for number, _ in listed), f"{secrets.token_hex(16)}-{len(listed)}",
                                 time.time())
            del self.uploads[name]
        return 200, {}, f"<CompleteMultipartUploadResult {NAMESPACE}><Key>{escape(key)}</Key></CompleteMultipartUploadResult>".encode()

    def abort(self, key, name):
        with self.lock:
            self.upload(key, name)
            del self.uploads[name]
        return 204, {}, b""

    def list(self, query):
        prefix, after = query.get("prefix", ""), query.get("continuation-token", "")
        with self.lock:
            keys = sorted(key for key in self.objects if key.startswith(prefix) and key > after.removeprefix("after:"))
            page = keys[:min(self.page, int(query.get("max-keys", "1000")))]
            rows = "".join(
                f"<Contents><Key>{escape(key)}</Key><LastModified>"
                f"{datetime.datetime.utcfromtimestamp(self.objects[key][2]).isoformat(timespec='milliseconds')}Z</LastModified>"
                f"<ETag>&quot;{self.objects[key][1]}&quot;</ETag><Size>{len(self.objects[key][0])}</Size></Contents>" for key in page)
        more = len(page) < len(keys)
        token = f"<NextContinuationToken>after:{escape(page[-1])}</NextContinuationToken>" if more else ""
        return 200, {}, (f"<?xml version=\"1.0\"?><ListBucketResult {NAMESPACE}><Name>{BUCKET}</Name><IsTruncated>{str(more).lower()}"
                         f"</IsTruncated>{token}{rows}</ListBucketResult>").encode()

    def rules(self, name):
        root, absent = RULES[name]
        told = self.plan.get(name, "")
        if isinstance(told, int):
            raise Refusal(told, "AccessDenied" if told == 403 else "NotImplemented")
        if not told and absent:
            raise Refusal(404, absent)
        return 200, {}, f"<{root} {NAMESPACE}>{told}</{root}>".encode()

    def busy(self):
        """Open uploads with bytes."""
        return sum(1 for _, parts in self.uploads.values() if parts)

    def serve(self, method, path, query, headers, body):
        bucket, _, key = urllib.parse.unquote(path.lstrip("/")).partition("/")
        if bucket != BUCKET:
            raise Refusal(404, "NoSuchBucket")
        if not key and method == "GET" and "location" in query:
            return 200, {}, f"<LocationConstraint {NAMESPACE}>{self.plan.get('location', LOCATION)}</LocationConstraint>".encode()
        if not key and method == "GET" and set(query) & set(RULES):
            return self.rules(set(query).intersection(RULES).pop())
        if not key and method == "GET" and query.get("list-type") == "2":
            return self.list(query)
        if method == "POST" and "uploads" in query:
            return self.begin(key)
        if method == "POST" and "uploadId" in query:
            return self.complete(key, query["uploadId"], body)
        if method == "PUT" and "uploadId" in query:
            return self.put_part(key, query["uploadId"], int(query["partNumber"]), body)
        if method == "DELETE" and "uploadId" in query:
            return self.abort(key, query["uploadId"])
        if key and not query and method in ("PUT", "GET", "DELETE"):
            return {"PUT": lambda: self.put(key, headers, body), "GET": lambda: self.get(key, headers),
                    "DELETE": lambda: self.delete(key)}[method]()
        raise Refusal(400, "InvalidRequest")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize, disable_nagle_algorithm = 1 << 16, True  # head and body in one go
    store = None

    def log_message(self, *words):
        pass

    def answer(self, status, headers, body, half=False):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:len(body) // 2] if half else body)
        if half:
            self.close_connection = True

    def error(self, status, code):
        self.answer(status, {}, f"<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>as planned</Message></Error>".encode())

    def fail_before(self, how):
        """True if that was all."""
        codes = {"500": "InternalError", "503": "SlowDown", "429": "TooManyRequests", "403": "AccessDenied",
                 "301": "PermanentRedirect", "507": "XMinioStorageFull"}
        if how in codes:
            self.error(int(how), codes[how])
        elif how == "lost":
            self.error(404, "NoSuchUpload" if "uploadId" in self.path else "NoSuchKey")
        elif how == "astray":
            self.answer(404, {"Content-Type": "text/html"}, b"<html><body>No such site</body></html>")
        elif how == "late":
            self.error(200, "InternalError")
        elif how == "garbage":
            self.answer(200, {"Content-Range": "bytes 0-0/1"}, b"<html>what?")
        elif how == "silent":
            with self.store.lock, open(os.path.join(self.store.folder, "log"), "a", encoding="utf-8") as log:
                log.write(f"SILENT {self.command}\n")
            time.sleep(20)
            self.close_connection = True
        elif how == "cut":
            self.close_connection = True
        else:
            return False
        return True

    def handle_one(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        path, _, text = self.path.partition("?")
        query = dict((urllib.parse.unquote(name), urllib.parse.unquote(value))
                     for name, _, value in (item.partition("=") for item in text.split("&") if item))
        headers = {name.lower(): value for name, value in self.headers.items()}
        how = self.store.next_failure(self.command)
        if self.fail_before(how):
            return None
        if how == "careless":
            query.pop("prefix", None)
        try:
            check_signature(self.command, self.path, headers, body)
            status, more, content = self.store.serve(self.command, path, query, headers, body)
        except Refusal as refusal:
            status, more, content = refusal.status, {}, f"<Error><Code>{refusal.code}</Code></Error>".encode()
        with self.store.lock, open(os.path.join(self.store.folder, "log"), "a", encoding="utf-8") as log:
            log.write(f"{self.command} {self.path} {status} {len(body)} {how or '-'} {len(self.store.objects)} {self.store.busy()}\n")
        if how == "cut-after":
            self.close_connection = True
        elif how == "after":
            self.error(500, "InternalError")
        else:
            self.answer(status, more, content, half=how == "half")
        return None

    do_GET = do_PUT = do_POST = do_DELETE = handle_one


class Server(http.server.ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 128

    def finish_request(self, request, client_address):
        request.settimeout(60)
        try:
            request.do_handshake()
            super().finish_request(request, client_address)
        except (OSError, ssl.SSLError):
            pass  # the client went away

    def handle_error(self, request, client_address):
        with open(os.path.join(Handler.store.folder, "log"), "a", encoding="utf-8") as log:
            log.write(f"CRASH {sys.exc_info()[1]!r}\n")


def write(path, text):
    with open(path + ".new", "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)
    os.rename(path + ".new", path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--part-minimum", type=int, default=5 << 20)
    parser.add_argument("--page", type=int, default=1000)
    options = parser.parse_args()
    ca, key = os.path.join(options.folder, "ca.pem"), os.path.join(options.folder, "tls.key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", ca],
                   check=True, stderr=subprocess.DEVNULL)
    Handler.store = Store(options.folder, options.part_minimum, options.page)
    server = Server(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(ca, key)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    write(os.path.join(options.folder, "key"), f"{ACCESS_KEY}\n{SECRET}\n")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    write(os.path.join(options.folder, "port"), str(server.server_port))
    sys.stdin.read()


main()
