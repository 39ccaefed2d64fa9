#!/usr/bin/env python3
"""Garbage collection in a loop beside clients that push, mount, skip what is there, move tags, delete and pull.

Nothing that was acknowledged is lost, and no manifest is refused for a blob that its client was told of. Short: 8 clients
for 8 s; SIJIL_SOAK=1: 64 clients for 10 minutes. SIJIL_SOAK_SECONDS and SIJIL_SOAK_CLIENTS say otherwise."""
import collections
import hashlib
import json
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time
import traceback
import urllib.parse

import sijil_test
from sijil_test import Client, Server, sha256

LONG = os.environ.get("SIJIL_SOAK") == "1"
SECONDS = int(os.environ.get("SIJIL_SOAK_SECONDS", "600" if LONG else "8"))
CLIENTS = int(os.environ.get("SIJIL_SOAK_CLIENTS", "64" if LONG else "8"))
LEASE_S = 20 if LONG else 4
THREADS = 8        # of one process
TAGS = 6           # of one client
IMAGE = "application/vnd.oci.image.manifest.v1+json"
POOL = [hashlib.sha256(b"shared %d" % number).digest() * (20 + 40 * number) for number in range(40)]


class Lost(Exception):
    pass


class Pusher:
    """One client: repositories of its own, contents that it shares with all others."""

    def __init__(self, number, client, until, figures):
        self.number, self.client, self.until, self.figures = number, client, until, figures
        self.random = random.Random(number)
        self.repositories = [client.repository(f"main/models/c{number}/r{i}") for i in range(2)]
        self.link = client.connection()
        self.kept = {}   # (repository, tag) -> manifest
        self.told_at = None

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
        """As clients do: asks first, mounts or uploads what is not there."""
        way = self.random.random()
        if way < 0.6:
            if self.call(repository, "HEAD", "blobs/" + sha256(data)).status == 200:
                self.figures["skipped"] += 1
                return
        if way < 0.8 and self.mount(repository, data):
            return
        self.upload(repository, data)

    def push(self):
        repository, tag = self.random.choice(self.repositories), f"t{self.random.randrange(TAGS)}"
        blobs = self.random.sample(POOL, 2) + [self.random.randbytes(self.random.randrange(100, 9000))]
        began = time.monotonic()
        for data in blobs:
            self.bring(repository, data)
        if self.random.random() < 0.15:
            self.figures["left alone"] += 1  # garbage
            return
        if self.random.random() < 0.2:
            time.sleep(self.random.random() * LEASE_S / 4)
        manifest = json.dumps({
            "schemaVersion": 2, "mediaType": IMAGE,
            "config": {"mediaType": "application/octet-stream", "digest": sha256(blobs[0]), "size": len(blobs[0])},
            "layers": [{"mediaType": "application/octet-stream", "digest": sha256(blob), "size": len(blob)} for blob in blobs[1:]],
        }).encode()
        before = self.kept.pop((repository.name, tag), None)
        answer = self.call(repository, "PUT", f"manifests/{tag}", manifest, {"Content-Type": IMAGE})
        if answer.status != 201:
            late = time.monotonic() - began > LEASE_S / 2  # so long at least is promised (docs/garbage-collection.md)
            if not late:
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

    def run(self):
        while time.monotonic() < self.until:
            roll = self.random.random()
            if roll < 0.65 or not self.kept:
                self.push()
            elif roll < 0.85:
                self.pull(*self.random.choice(list(self.kept)))
            else:
                self.delete()
        for name, tag in list(self.kept):
            self.pull(name, tag)


def be_clients(server, login, numbers, until, results):
    """A process: some clients, a thread each."""
    figures, failures = collections.Counter(), []
    client = Client(server, login)

    def one(number):
        try:
            Pusher(number, Client(server, login), until, figures).run()
        except Exception as why:  # told by the parent
            failures.append(f"client {number}: {why!r}\n" + ("" if isinstance(why, Lost) else traceback.format_exc()))

    assert client
    threads = [threading.Thread(target=one, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put((dict(figures), failures))


def collect(admin, **more):
    return sijil_test.follow(admin, admin.api("POST", "/collections", more)["id"])["report"]


def files_of(server):
    """Objects of the region, as the disk has them."""
    found = subprocess.run(["find", os.path.join(server.folder, "regions"), "-type", "f"], capture_output=True, text=True, check=True)
    return len(found.stdout.splitlines())


def nothing_is_lost_and_nothing_is_left():
    with Server(["--blob-lease", str(LEASE_S), "--collect-interval", "0"]) as server:
        admin = server.client(server.admin)
        admin.api("PUT", "/projects/main/models/rules", {"untagged_days": 0})
        admin.api("PUT", "/projects/main/models/quota", {"bytes": 1 << 40, "sessions": 1000})
        login = sijil_test.make_robot(server, "pushers", "publisher", "main/models")
        results = multiprocessing.Queue()
        until = time.monotonic() + SECONDS
        groups = [range(first, min(first + THREADS, CLIENTS)) for first in range(0, CLIENTS, THREADS)]
        workers = [multiprocessing.Process(target=be_clients, args=(server, login, group, until, results)) for group in groups]
        for worker in workers:
            worker.start()
        totals, runs, told = collections.Counter(), 0, time.monotonic()
        while time.monotonic() < until:
            report = collect(admin)
            runs += 1
            for figure in ("blobs", "bytes", "manifests", "tags"):
                totals[figure] += report[figure]
            if LONG and time.monotonic() - told > 30:
                told = time.monotonic()
                print(f"     {SECONDS - (until - told):4.0f} s: {runs} collections took {totals['blobs']} blobs and "
                      f"{totals['manifests']} manifests", flush=True)
        figures, failures = collections.Counter(), []
        for _ in workers:
            more, failed = results.get(timeout=300)
            figures.update(more)
            failures += failed
        for worker in workers:
            worker.join()
        print(f"     {CLIENTS} clients, {SECONDS} s: " + ", ".join(f"{count} {name}" for name, count in sorted(figures.items())))
        print(f"     {runs} collections took {totals['blobs']} blobs ({totals['bytes'] / 1e6:.0f} MB) and "
              f"{totals['manifests']} manifests")
        assert not failures, f"{len(failures)} clients failed; the first: {failures[0]}"
        assert totals["blobs"] > 0 and totals["manifests"] > 0 and figures["skipped"] > 0 and figures["mounts"] > 0
        assert figures["late"] <= figures["manifests"] // 50, "the machine is too slow for these leases"

        time.sleep(LEASE_S + 1)
        collect(admin)
        rest = collect(admin)
        assert (rest["blobs"], rest["manifests"]) == (0, 0), rest
        quota = admin.api("GET", "/projects/main/models/quota")
        admin.api("PUT", "/projects/main/models/quota", {})
        counted = admin.api("GET", "/projects/main/models/quota")
        assert quota["bytes_used"] == counted["bytes_used"], f"{quota} was kept, {counted} is there"
        print(f"     in the end {rest['blobs_looked_at']} blobs of {counted['bytes_used']} bytes with their manifests, as counted")
        if not LONG:
            return
        until = time.monotonic() + 120  # bytes go half a minute later, by a janitor that comes twice a minute
        while files_of(server) != rest["blobs_looked_at"] and time.monotonic() < until:
            time.sleep(1)
        assert files_of(server) == rest["blobs_looked_at"], f"{files_of(server)} files for {rest['blobs_looked_at']} blobs"
        print("     and as many files")


sijil_test.run(nothing_is_lost_and_nothing_is_left)
