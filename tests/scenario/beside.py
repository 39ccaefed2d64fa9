#!/usr/bin/env python3
"""Garbage collection in a loop beside clients that push, mount, skip what is there, move tags, delete and pull.

No acknowledged write is lost, and no manifest is refused because of a blob that the server has confirmed to its client. Short: 8 clients
for 6 s; SIJIL_SOAK=1: 64 clients for 10 minutes. SIJIL_SOAK_SECONDS and SIJIL_SOAK_CLIENTS set other values."""
import collections
import multiprocessing
import os
import subprocess
import time

import sijil_test
from pushers import Clients, Pusher, collected_to_the_end
from sijil_test import Client, Server

LONG = os.environ.get("SIJIL_SOAK") == "1"
SECONDS = int(os.environ.get("SIJIL_SOAK_SECONDS", "600" if LONG else "6"))
CLIENTS = int(os.environ.get("SIJIL_SOAK_CLIENTS", "64" if LONG else "8"))
LEASE_S = 20 if LONG else 4
LATE = 50 if LONG else 2  # one of so many manifests may arrive after its leases; on a slow machine the test shows less, but nothing wrong
PATIENCE = 90             # further seconds until something was collected


def collect(admin, **more):
    return sijil_test.follow(admin, admin.api("POST", "/collections", more)["id"])["report"]


def files_of(server):
    """The region's objects on the disk."""
    found = subprocess.run(["find", os.path.join(server.folder, "regions"), "-type", "f"], capture_output=True, text=True, check=True)
    return len(found.stdout.splitlines())


def nothing_is_lost_and_nothing_is_left():
    with Server(["--blob-lease", str(LEASE_S), "--collect-interval", "0"]) as server:
        admin = server.client(server.admin)
        admin.api("PUT", "/projects/main/models/rules", {"untagged_days": 0})
        admin.api("PUT", "/projects/main/models/quota", {"bytes": 1 << 40, "sessions": 1000})
        login = sijil_test.make_robot(server, "pushers", "publisher", "main/models")
        until, stopped = time.monotonic() + SECONDS, multiprocessing.Event()

        def make(number, figures):
            return Pusher(number, Client(server, login), LEASE_S, lambda: not stopped.is_set(), figures)
        clients = Clients(make, CLIENTS)
        totals, runs, told = collections.Counter(), 0, time.monotonic()
        try:
            while time.monotonic() < until or (min(totals["blobs"], totals["manifests"]) == 0 and time.monotonic() < until + PATIENCE):
                report = collect(admin)
                runs += 1
                for figure in ("blobs", "bytes", "manifests", "tags"):
                    totals[figure] += report[figure]
                if LONG and time.monotonic() - told > 30:
                    told = time.monotonic()
                    print(f"     {SECONDS - (until - told):4.0f} s: {runs} collections took {totals['blobs']} blobs and "
                          f"{totals['manifests']} manifests", flush=True)
        finally:
            stopped.set()
        figures, failures = clients.ended()
        print(f"     {CLIENTS} clients, {SECONDS} s: " + ", ".join(f"{count} {name}" for name, count in sorted(figures.items())))
        print(f"     {runs} collections took {totals['blobs']} blobs ({totals['bytes'] / 1e6:.0f} MB) and "
              f"{totals['manifests']} manifests")
        assert not failures, f"{len(failures)} clients failed; the first: {failures[0]}"
        assert totals["blobs"] > 0 and totals["manifests"] > 0 and figures["skipped"] > 0 and figures["mounts"] > 0
        assert figures["late"] <= figures["manifests"] // LATE, "the machine is too slow for these leases"

        rest = collected_to_the_end(lambda: collect(admin), LEASE_S)
        quota = admin.api("GET", "/projects/main/models/quota")
        admin.api("PUT", "/projects/main/models/quota", {})
        counted = admin.api("GET", "/projects/main/models/quota")
        assert quota["bytes_used"] == counted["bytes_used"], f"{quota} was kept, {counted} is there"
        print(f"     in the end {rest['blobs_looked_at']} blobs of {counted['bytes_used']} bytes with their manifests, as counted")
        if not LONG:
            return
        until = time.monotonic() + 120  # the bytes are removed half a minute later, by a maintenance thread that runs twice a minute
        while files_of(server) != rest["blobs_looked_at"] and time.monotonic() < until:
            time.sleep(1)
        assert files_of(server) == rest["blobs_looked_at"], f"{files_of(server)} files for {rest['blobs_looked_at']} blobs"
        print("     and as many files")


sijil_test.run(nothing_is_lost_and_nothing_is_left)
