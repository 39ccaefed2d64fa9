#!/usr/bin/env python3
"""Memory and load: large blobs with little memory, memory that is given back, many idle connections, many busy clients for a long time.

usage: load.py [GROUP...]     the short forms of memory, given_back, idle and busy; SIJIL_SOAK=1 makes them the long ones
Long: 8 clients with 4 GiB each; 1,000 connections; 64 clients for 10 minutes. Figures are printed and checked. Bounds of
memory are checked only without sanitizers, which need memory themselves."""
import json
import os
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import threading
import time

import sijil_test
from sijil_test import Server, wait_until

LONG = os.environ.get("SIJIL_SOAK") == "1"
GIB, MIB = 1 << 30, 1 << 20
RESIDENT_MAX = 128 * MIB
GIVEN_BACK_MAX = 100 * MIB  # of gateway, supervisor and key process together, without clients
CONNECTIONS_MAX = 1000  # docs/http.md, as shipped
PER_NETWORK = 50        # docs/http.md: a network has less than a sixteenth of them while most are in use
TRIES = 3               # the best result counts, because other work of the machine may disturb a second or two
KINDS = ("manifest", "pull", "push")
LOAD = os.path.join(sijil_test.BUILD, "bench/sijil-load")


def sanitized():
    with open(os.path.join(sijil_test.BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
        return any(line.startswith("SIJIL_SANITIZERS") and line.rstrip().split("=", 1)[1] for line in file)


def load_words(server, login, **options):
    words = [LOAD, "--url", f"https://127.0.0.1:{server.port}", "--repository", "main/models/load", "--ca-file", server.ca_file,
             "--login", ":".join(login)]
    for name, value in options.items():
        words += ["--" + name] if value is True else ["--" + name, str(value)]
    return words


def run_load(server, login, **options):
    done = subprocess.run(load_words(server, login, **options), capture_output=True, text=True, timeout=7200)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


# --- what a process uses ---------------------------------------------------------------------------------------------
def memory(process, what):
    """VmRSS or VmHWM in bytes."""
    with open(f"/proc/{process}/status", encoding="ascii", errors="replace") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(what + ":"))


def descriptors(process):
    return len(os.listdir(f"/proc/{process}/fd"))


def cpu_seconds(process):
    try:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except OSError:  # PostgreSQL's workers come and go
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def processes(server):
    """Name -> process of our own programs."""
    gateway = next(pid for pid in server.processes("sijild") if pid != server.process.pid)
    return {"gateway": gateway, "supervisor": server.process.pid, "sijil-keyd": server.processes("sijil-keyd")[0]}


def check_resident(server):
    peaks = {name: memory(pid, "VmHWM") for name, pid in processes(server).items()}
    print("     most resident: " + ", ".join(f"{name} {peak / MIB:.1f} MiB" for name, peak in peaks.items()))
    if not sanitized():
        for name, peak in peaks.items():
            assert peak < RESIDENT_MAX, f"{name} used {peak / MIB:.1f} MiB"


# --- large blobs -----------------------------------------------------------------------------------------------------
def large_blobs_fit_into_little_memory():
    clients, size = (8, 4 * GIB) if LONG else (2, 256 * MIB if not sanitized() else 64 * MIB)
    room = shutil.disk_usage("/var/tmp").free
    assert room > clients * size * 1.1 + GIB, f"this needs {clients * size * 1.1 / GIB + 1:.0f} GiB in /var/tmp"
    with Server() as server:
        login = sijil_test.make_robot(server, "load", "publisher", "main/models")
        found = run_load(server, login, size=size, count=clients, clients=clients, check=True)
        for phase in ("push", "pull"):
            print(f"     {phase} of {clients} x {size // MIB} MiB, {clients} clients: {found[phase]['seconds']:.1f} s, "
                  f"{found[phase]['mb_per_second']:.0f} MB/s")
        found = run_load(server, login, size=size // 4, count=clients, clients=clients, check=True, patch=True)
        print(f"     the same with PATCH, a quarter of the size: push {found['push']['mb_per_second']:.0f} MB/s")
        check_resident(server)


def what_many_clients_needed_is_given_back():
    """Not only the peak counts: soon after many clients have left, the server has as little memory as before them."""
    clients = 64 if not sanitized() else 8
    with Server() as server:
        login = sijil_test.make_robot(server, "load", "publisher", "main/models")
        found = processes(server)
        before = {name: memory(pid, "VmRSS") for name, pid in found.items()}
        run_load(server, login, size=MIB, count=2 * clients, clients=clients, run="push,pull", check=True)
        busy = memory(found["gateway"], "VmHWM")

        def resident():
            return sum(memory(pid, "VmRSS") for pid in found.values())
        if not sanitized():
            wait_until(lambda: resident() < GIVEN_BACK_MAX, 60, f"more than {GIVEN_BACK_MAX // MIB} MiB stay after {clients} clients have left")
        after = {name: memory(pid, "VmRSS") for name, pid in found.items()}
        print(f"     gateway with {clients} clients: {busy / MIB:.0f} MiB at most; " + ", ".join(
            f"{name} {before[name] / MIB:.1f} -> {after[name] / MIB:.1f} MiB" for name in found))


# --- idle connections ------------------------------------------------------------------------------------------------
class Idle:
    """Connections over TLS that made one request and then wait, from as many networks as needed."""

    def __init__(self, server):
        self.server, self.links = server, []
        self.context = ssl.create_default_context(cafile=server.ca_file)

    def open(self, count):
        for _ in range(count):
            address = f"127.0.{1 + len(self.links) // PER_NETWORK}.1"
            plain = socket.create_connection(("127.0.0.1", self.server.port), timeout=20, source_address=(address, 0))
            self.links.append(self.context.wrap_socket(plain, server_hostname="127.0.0.1"))

    def touch(self):
        """One request on each: none of them was dropped."""
        for link in self.links:
            link.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        for link in self.links:
            answer = b""
            while not answer.endswith(b"alive\n"):
                piece = link.recv(4096)
                assert piece, f"an idle connection was closed after {answer[:60]}"
                answer += piece
            assert answer.startswith(b"HTTP/1.1 200 "), answer[:60]

    def close(self):
        for link in self.links:
            link.close()
        self.links = []


def busy_beside(server, login, clients, requests):
    found = run_load(server, login, size=1024, count=1, clients=clients, requests=requests, run="push,manifest")
    return found["manifest"]


def the_next_connection_waits_for_room(server, idle):
    """At the limit no connection is dropped and none is accepted; a waiting client is served when another leaves."""
    idle.open(CONNECTIONS_MAX - len(idle.links))
    outcome = []
    waiting = threading.Thread(target=lambda: outcome.append(server.client().call("GET", "/healthz").status), daemon=True)
    waiting.start()
    waiting.join(2)
    assert not outcome, "one connection more than connections_max was served"
    idle.touch()
    for link in idle.links[:5]:
        link.close()
    idle.links = idle.links[5:]
    waiting.join(20)
    assert outcome == [200], f"who waited for room was never served: {outcome}"


def idle_connections_are_cheap_and_harm_nobody():
    count = CONNECTIONS_MAX - 20 if LONG else 200
    clients, requests = 4, 4000 if LONG else 400
    with Server() as server:
        login = sijil_test.make_robot(server, "load", "publisher", "main/models")
        gateway = processes(server)["gateway"]
        alone = [busy_beside(server, login, clients, requests) for _ in range(TRIES)]
        bare, open_before = memory(gateway, "VmRSS"), descriptors(gateway)
        idle = Idle(server)
        idle.open(count)
        after_tls = memory(gateway, "VmRSS")
        idle.touch()
        resident = memory(gateway, "VmRSS")
        together = [busy_beside(server, login, clients, requests) for _ in range(TRIES)]
        before, beside = (max(tries, key=lambda found: found["per_second"]) for tries in (alone, together))
        print(f"     {count} idle connections: {(after_tls - bare) / count / 1024:.0f} KiB each after TLS, "
              f"{(resident - bare) / count / 1024:.0f} KiB after a request; {resident / MIB:.0f} MiB in all")
        print(f"     manifest GETs, {clients} clients: {before['per_second']:.0f}/s and p99 {before['p99_ms']:.1f} ms alone, "
              f"{beside['per_second']:.0f}/s and {beside['p99_ms']:.1f} ms beside them")
        assert beside["per_second"] > before["per_second"] / 2, "idle connections slow down busy ones"
        assert min(found["p99_ms"] for found in together) < before["p99_ms"] * 3 + 20
        idle.touch()
        if not sanitized():
            assert (resident - bare) / count < 112 * 1024, "an idle connection costs more than its buffers"
        if LONG:
            the_next_connection_waits_for_room(server, idle)
        idle.close()
        wait_until(lambda: descriptors(gateway) <= open_before + 10, 20, "connections that were closed keep their descriptors")
        time.sleep(1)
        left = memory(gateway, "VmRSS")
        print(f"     after they closed: {left / MIB:.0f} MiB, {descriptors(gateway)} descriptors")
        if not sanitized():
            assert left < bare + 24 * MIB, "memory of closed connections is kept"


# --- busy clients ------------------------------------------------------------------------------------------------------
def look(server, line):
    found = processes(server)
    line["resident"] = {name: memory(pid, "VmRSS") for name, pid in found.items()}
    line["descriptors"] = {name: descriptors(pid) for name, pid in found.items()}
    postmaster = min(server.processes("postgres"))
    line["cpu"] = sum(cpu_seconds(pid) for pid in [found["gateway"], found["sijil-keyd"], *sijil_test.children_of(postmaster)])
    return line


def cpu_for_each(lines):
    """Milliseconds of the server's CPU time for each request of an interval: other programs do not affect it."""
    return [(after["cpu"] - before["cpu"]) * 1000 / sum(after[kind]["count"] for kind in KINDS)
            for before, after in zip(lines, lines[1:])]


def growth(values):
    """Growth from the first to the last quarter of the values, by medians, so that a single peak is no growth."""
    quarter = max(1, len(values) // 4)
    return statistics.median(values[:quarter]), statistics.median(values[-quarter:])


def judge(lines):
    """After the first fifth, in which caches fill, nothing grows."""
    steady = lines[len(lines) // 5:]
    for name in ("gateway", "supervisor", "sijil-keyd"):
        first, last = growth([line["resident"][name] for line in steady])
        print(f"     {name}: {first / MIB:.1f} -> {last / MIB:.1f} MiB resident, descriptors "
              "%d -> %d" % growth([line["descriptors"][name] for line in steady]))
        assert last < first + max(4 * MIB, first * 0.05), f"memory of {name} grows"
        first, last = growth([line["descriptors"][name] for line in steady])
        assert last <= first + 8, f"descriptors of {name} grow"
    first, last = growth(cpu_for_each(steady))
    print(f"     CPU time of a request: {first:.3f} -> {last:.3f} ms")
    assert last < first * 1.15, "requests take more and more work"
    for kind in KINDS:
        for figure in ("p50_ms", "p99_ms"):
            first, last = growth([line[kind][figure] for line in steady])
            print(f"     {kind} {figure}: {first:.1f} -> {last:.1f} ms")
            assert last < first * 1.5 + 5, f"latency of {kind} grows"


def busy_clients_leave_no_trace():
    # Of 128 requests that one principal may have at a time, and of 96 bodies: an answered request must count among neither, nor its
    # body among those of all.
    clients, seconds = (64, 600) if LONG else (96, 4)
    interval = 10 if LONG else 2
    with Server() as server:
        login = sijil_test.make_robot(server, "load", "publisher", "main/models")
        words = load_words(server, login, run="mixed", size=32768, count=200, clients=clients, seconds=seconds,
                           interval=interval, check=True)
        lines = []
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            for text in process.stdout:
                line = look(server, json.loads(text))
                lines.append(line)
                print(f"     {line['second']:5.0f} s: " + ", ".join(
                    f"{kind} {line[kind]['count'] / interval:.0f}/s {line[kind].get('p50_ms', 0):.1f}/{line[kind].get('p99_ms', 0):.1f} ms"
                    for kind in KINDS) +  # a busy machine may answer none of a kind in an interval
                    f"; {line['resident']['gateway'] / MIB:.0f} MiB, {line['descriptors']['gateway']} descriptors", flush=True)
            errors = process.stderr.read()
        assert process.returncode == 0 and lines[-1]["failures"] == 0, errors[-2000:]
        if LONG:
            judge(lines)
        check_resident(server)


GROUPS = {"memory": large_blobs_fit_into_little_memory, "given_back": what_many_clients_needed_is_given_back,
          "idle": idle_connections_are_cheap_and_harm_nobody, "busy": busy_clients_leave_no_trace}

wanted = sys.argv[1:] or list(GROUPS)
unknown = [name for name in wanted if name not in GROUPS]
if unknown:
    sys.exit(f"load.py: there is no group {unknown[0]}; there are {', '.join(GROUPS)}")
sijil_test.run(*[GROUPS[name] for name in wanted])
