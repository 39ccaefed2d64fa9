"""Clients that push, mount, skip what is there, move tags, delete and pull beside garbage collections.

Each client remembers the acknowledged content. None of it may be lost, and no manifest is refused because of a blob that the
server has confirmed to its client."""
import collections
import hashlib
import json
import multiprocessing
import random
import threading
import time
import traceback
import urllib.parse

import sijil_test
from sijil_test import sha256

TAGS = 6           # of one client
THREADS = 8        # of one process
IMAGE = "application/vnd.oci.image.manifest.v1+json"
POOL = [hashlib.sha256(b"shared %d" % number).digest() * (20 + 40 * number) for number in range(40)]


class Lost(Exception):
    pass


class Pusher:
    """One client: it has its own repositories, and shares content with all others."""

    def __init__(self, number, client, lease_s, goes_on, figures):
        self.number, self.client, self.lease_s, self.goes_on, self.figures = number, client, lease_s, goes_on, figures
        self.random = random.Random(number)
        self.repositories = [client.repository(f"main/models/c{number}/r{i}") for i in range(2)]
        self.link = client.connection()
        self.kept = {}   # (repository, tag) -> manifest

    def call(self, repository, method, path, body=None, headers=None, scope=None):
        try:
            answer = repository.call(method, path, body, headers, connection=self.link, scope=scope or repository.scope)
        except (OSError, sijil_test.http.client.HTTPException):
            self.link.close()
            self.link = self.client.connection()
            answer = repository.call(method, path, body, headers, connection=self.link, scope=scope or repository.scope)
        if answer.status >= 500 or answer.status == 429:
            raise Lost(f"{method} {path[:90]}: {answer.status} {answer.body[:200]}")
        return answer

    def upload(self, repository, data):
        location = self.call(repository, "POST", "blobs/uploads/")["Location"]
        answer = self.call(repository, "PUT", location + "?digest=" + urllib.parse.quote(sha256(data)), data,
                           {"Content-Type": "application/octet-stream"})
        if answer.status != 201:
            raise Lost(f"a blob was not taken: {answer.status} {answer.body[:200]}")
        self.figures["uploads"] += 1

    def mount(self, repository, data):
        """From the other repository, whether or not it has the blob."""
        other = self.repositories[1 - self.repositories.index(repository)]
        answer = self.call(repository, "POST", f"blobs/uploads/?mount={urllib.parse.quote(sha256(data))}&from={other.name}",
                           scope=f"{repository.scope} repository:{other.name}:pull")
        if answer.status == 201:
            self.figures["mounts"] += 1
            return True
        assert answer.status == 202, answer.status
        self.call(repository, "DELETE", answer["Location"])
        return False

    def bring(self, repository, data):
        """As clients do: asks first, then mounts or uploads the missing blob. Returns until when it is safe (docs/garbage-collection.md)."""
        way = self.random.random()
        if way < 0.6:
            asked = time.monotonic()
            if self.call(repository, "HEAD", "blobs/" + sha256(data)).status == 200:
                self.figures["skipped"] += 1
                return asked + self.lease_s / 2
        asked = time.monotonic()
        if way < 0.8 and self.mount(repository, data):
            return asked + self.lease_s
        asked = time.monotonic()
        self.upload(repository, data)
        return asked + self.lease_s

    def push(self):
        repository, tag = self.random.choice(self.repositories), f"t{self.random.randrange(TAGS)}"
        blobs = self.random.sample(POOL, 2) + [self.random.randbytes(self.random.randrange(100, 9000))]
        began = time.monotonic()
        promised = min(self.bring(repository, data) for data in blobs)
        if self.random.random() < 0.15:
            self.figures["left alone"] += 1  # garbage
            return
        if self.random.random() < 0.2:
            time.sleep(self.random.random() * self.lease_s / 4)
        manifest = json.dumps({
            "schemaVersion": 2, "mediaType": IMAGE,
            "config": {"mediaType": "application/octet-stream", "digest": sha256(blobs[0]), "size": len(blobs[0])},
            "layers": [{"mediaType": "application/octet-stream", "digest": sha256(blob), "size": len(blob)} for blob in blobs[1:]],
        }).encode()
        before = self.kept.pop((repository.name, tag), None)
        answer = self.call(repository, "PUT", f"manifests/{tag}", manifest, {"Content-Type": IMAGE})
        if answer.status != 201:
            if time.monotonic() < promised:
                raise Lost(f"refused after {time.monotonic() - began:.1f} s: {answer.status} {answer.body[:300]}")
            self.figures["late"] += 1
            if before is not None:
                self.kept[(repository.name, tag)] = before
            return
        self.figures["manifests"] += 1
        self.kept[(repository.name, tag)] = manifest

    def pull(self, name, tag):
        repository = self.client.repository(name)
        manifest = self.kept[(name, tag)]
        answer = self.call(repository, "GET", f"manifests/{tag}")
        if answer.status != 200 or answer.body != manifest:
            raise Lost(f"{name}:{tag} is lost: {answer.status}")
        document = json.loads(manifest)
        for layer in (document["config"], *document["layers"]):
            answer = self.call(repository, "GET", "blobs/" + layer["digest"])
            if answer.status != 200 or sha256(answer.body) != layer["digest"]:
                raise Lost(f"{layer['digest']} of {name}:{tag} is lost: {answer.status} {answer.body[:200]}")
        self.figures["pulls"] += 1

    def delete(self):
        name, tag = self.random.choice(list(self.kept))
        manifest = self.kept.pop((name, tag))
        repository = self.client.repository(name)
        shared = [key for key, other in self.kept.items() if key[0] == name and other == manifest]
        reference = tag if shared or self.random.random() < 0.5 else sha256(manifest)
        answer = self.call(repository, "DELETE", f"manifests/{reference}")
        if answer.status not in (202, 404):
            raise Lost(f"DELETE {reference}: {answer.status}")
        self.figures["deletions"] += 1

    def step(self):
        roll = self.random.random()
        if roll < 0.65 or not self.kept:
            self.push()
        elif roll < 0.85:
            self.pull(*self.random.choice(list(self.kept)))
        else:
            self.delete()

    def run(self):
        while self.goes_on():
            self.step()
        for name, tag in list(self.kept):
            self.pull(name, tag)


class Cut(Exception):
    """It is unknown whether the request was done."""


class Wanderer(Pusher):
    """A client of gateways that are killed: it goes to another gateway. It forgets requests without an answer, which may be done or not."""
    ports = ()

    def call(self, repository, method, path, body=None, headers=None, scope=None):
        try:
            answer = repository.call(method, path, body, headers, connection=self.link, scope=scope or repository.scope)
        except (OSError, AssertionError, sijil_test.http.client.HTTPException) as why:  # a token that was refused, too
            self.link.close()
            self.client.port = self.random.choice(self.ports)
            self.link = self.client.connection()
            raise Cut(f"{method} {path[:90]}: {why!r}") from why
        if answer.status == 503:
            raise Cut(f"{method} {path[:90]}: 503")
        if answer.status >= 500 or answer.status == 429:
            raise Lost(f"{method} {path[:90]}: {answer.status} {answer.body[:200]}")
        return answer

    def patiently(self, work, *arguments):
        """Whether there was an answer. The caller may try a request again that was cut off."""
        try:
            work(*arguments)
            return True
        except Cut:
            self.figures["cut"] += 1
            time.sleep(0.1)
            return False

    def run(self):
        while self.goes_on():
            self.patiently(self.step)
        for name, tag in list(self.kept):
            until = time.monotonic() + 60
            while not self.patiently(self.pull, name, tag):
                if time.monotonic() > until:
                    raise Lost(f"{name}:{tag} can't be pulled")


def collected_to_the_end(collect, lease_s):
    """The report of the first collection that finds nothing, after the clients have ended. A pull is noted up to ten seconds later
    (docs/quotas.md), and the manifest is safe for one lease from then."""
    time.sleep(lease_s + 1)
    until = time.monotonic() + 30 + 2 * lease_s
    while (report := collect())["blobs"] + report["manifests"] > 0:
        assert time.monotonic() < until, report
        time.sleep(1)
    return report


def be_clients(make, numbers, results):
    """A process with some clients, each in a thread. `make(number, figures)` makes a client."""
    figures, failures = collections.Counter(), []

    def one(number):
        try:
            make(number, figures).run()
        except Exception as why:  # told by the parent
            failures.append(f"client {number}: {why!r}\n" + ("" if isinstance(why, Lost) else traceback.format_exc()))

    threads = [threading.Thread(target=one, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put((dict(figures), failures))


class Clients:
    """Starts so many clients, in processes with some threads each. `make` as for be_clients()."""

    def __init__(self, make, count):
        self.results = multiprocessing.Queue()
        groups = [range(first, min(first + THREADS, count)) for first in range(0, count, THREADS)]
        self.workers = [multiprocessing.Process(target=be_clients, args=(make, group, self.results)) for group in groups]
        for worker in self.workers:
            worker.start()

    def ended(self):
        """Waits for all clients; returns their figures and failures."""
        figures, failures = collections.Counter(), []
        for _ in self.workers:
            more, failed = self.results.get(timeout=300)
            figures.update(more)
            failures += failed
        for worker in self.workers:
            worker.join()
        return figures, failures
