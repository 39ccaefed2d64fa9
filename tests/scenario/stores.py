"""Real object stores, each in a separate folder, for regions in buckets. INTEROP_PROGRAMS in the environment names the folder
of their programs: script/interop and script/soak build them there."""
import datetime
import hashlib
import hmac
import http.client
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.parse
import xml.etree.ElementTree

from peers import REGION
from sijil_test import free_port

PROGRAMS = os.path.abspath(os.environ.get("INTEROP_PROGRAMS", "build/interop"))
BUCKET, LOCATION, KEY, SECRET = "models", "me-test-1", "interop-key", "interop-secret-0123456789"


def region_text(store, prefix, location=LOCATION, more=""):
    """Lines of sijild.conf for a region in the store's bucket. `store` has endpoint, key_file and ca_file."""
    return (f'region "{REGION}" {{\n driver = s3\n endpoint = "{store.endpoint}"\n bucket = "{BUCKET}"\n'
            f' bucket_location = "{location}"\n prefix = "{prefix}"\n access_key_file = "{store.key_file}"\n'
            f' ca_file = "{store.ca_file}"\n{more}}}\n')


class Store:
    """One object store over TLS in a separate folder; it can be stopped and started again with its content."""
    name = program = None

    def __init__(self):
        self.root = tempfile.mkdtemp(prefix="sijil-interop-s3-", dir="/var/tmp")
        self.port, self.process = free_port(), None
        os.makedirs(self.path("certs"))
        os.makedirs(self.path("data"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
                        self.path("certs/private.key"), "-out", self.ca_file], check=True, stderr=subprocess.DEVNULL)
        with open(self.key_file, "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(f"{KEY}\n{SECRET}\n")

    def path(self, name):
        return os.path.join(self.root, name)

    @property
    def ca_file(self):
        return self.path("certs/public.crt")

    @property
    def key_file(self):
        return self.path("key")

    @property
    def endpoint(self):
        return f"https://127.0.0.1:{self.port}"

    def start(self):
        with open(self.path("log"), "ab") as log:
            self.process = subprocess.Popen(self.words(), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                            env={**os.environ, **self.environment()}, cwd=self.root)
        until = time.monotonic() + 60
        while time.monotonic() < until and self.process.poll() is None:
            try:
                if self.call("GET", "/")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise AssertionError(f"{self.name} does not start: see {self.path('log')}")

    def environment(self):
        return {}

    def stop(self, sig=signal.SIGTERM):
        if self.process is not None:
            self.process.send_signal(sig)
            self.process.wait(30)
            self.process = None

    def done(self):
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.root, ignore_errors=True)

    def call(self, method, path, query=None, body=b""):
        """A signed request; status and body."""
        stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        text = "&".join(f"{urllib.parse.quote(name, safe='')}={urllib.parse.quote(value, safe='')}"
                        for name, value in sorted((query or {}).items()))
        headers = {"host": f"127.0.0.1:{self.port}", "x-amz-content-sha256": hashlib.sha256(body).hexdigest(), "x-amz-date": stamp}
        canonical = "\n".join([method, path, text, *(f"{name}:{headers[name]}" for name in sorted(headers)), "",
                               ";".join(sorted(headers)), headers["x-amz-content-sha256"]])
        scope = f"{stamp[:8]}/{LOCATION}/s3/aws4_request"
        key = ("AWS4" + SECRET).encode()
        for word in scope.split("/"):
            key = hmac.new(key, word.encode(), hashlib.sha256).digest()
        signature = hmac.new(key, f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}".encode(),
                             hashlib.sha256).hexdigest()
        headers["authorization"] = (f"AWS4-HMAC-SHA256 Credential={KEY}/{scope}, SignedHeaders={';'.join(sorted(set(headers)))}, "
                                    f"Signature={signature}")
        link = http.client.HTTPSConnection("127.0.0.1", self.port, context=ssl.create_default_context(cafile=self.ca_file), timeout=20)
        try:
            link.request(method, path + ("?" + text if text else ""), body=body, headers=headers)
            response = link.getresponse()
            return response.status, response.read()
        finally:
            link.close()

    def make_bucket(self):
        body = f"<CreateBucketConfiguration><LocationConstraint>{LOCATION}</LocationConstraint></CreateBucketConfiguration>".encode()
        status, answer = self.call("PUT", f"/{BUCKET}", body=body)
        assert status == 200, (status, answer)

    def listing(self, prefix):
        """Key, size and etag of each object."""
        found, query = [], {"list-type": "2", "prefix": prefix}
        while True:
            status, answer = self.call("GET", f"/{BUCKET}", query)
            assert status == 200, (status, answer)
            page = xml.etree.ElementTree.fromstring(answer)
            for entry in page.iterfind("{*}Contents"):
                found.append((entry.findtext("{*}Key"), int(entry.findtext("{*}Size")), entry.findtext("{*}ETag").strip('"')))
            query["continuation-token"] = page.findtext("{*}NextContinuationToken")
            if not query["continuation-token"]:
                return found

    def keys(self, prefix):
        return [key for key, _, _ in self.listing(prefix)]

    def room_taken(self):
        """Bytes of the disk that its data use, also parts that are not an object yet."""
        taken = 0
        for folder, _, names in os.walk(self.path("data")):
            for name in names:
                try:
                    taken += os.stat(os.path.join(folder, name)).st_blocks * 512
                except FileNotFoundError:
                    pass
        return taken


class Minio(Store):
    name, program = "MinIO", "minio"

    def words(self):
        return [os.path.join(PROGRAMS, "minio"), "server", self.path("data"), "--address", f"127.0.0.1:{self.port}",
                "--certs-dir", self.path("certs"), "--quiet"]

    def environment(self):
        return {"MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": SECRET, "MINIO_REGION": LOCATION}


class Versity(Store):
    name, program = "Versity S3 Gateway", "versitygw"

    def words(self):
        return [os.path.join(PROGRAMS, "versitygw"), "--port", f"127.0.0.1:{self.port}", "--region", LOCATION, "--cert", self.ca_file,
                "--key", self.path("certs/private.key"), "--keep-alive", "--quiet", "posix", self.path("data")]

    def environment(self):
        return {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}


KINDS = {kind.program: kind for kind in (Minio, Versity)}
