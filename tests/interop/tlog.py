#!/usr/bin/env python3
"""Foreign programs read the log over HTTPS (C2SP tlog-tiles): tests/interop/tlog/main.go, at sizes around those at which tiles fill. The log
is filled by tests/support/log_fill.c before the server starts, so that a checkpoint of each of these sizes is published. INTEROP_PROGRAMS has
the program."""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../scenario"))
import sijil_test
from production import Production
from sijil_test import make_robot, program, run

SIZES = [str(size) for size in (1, 255, 256, 257, 65535, 65536, 65537, 70000)]
PROGRAM = os.path.join(os.environ["INTEROP_PROGRAMS"], "tlog")


class Filled(Production):
    """Has 70,000 events before its first own one."""

    def found(self):
        self.run(program("sijild"), "--migrate", "--database-owner", self.path("owner"))
        begun = time.monotonic()
        done = subprocess.run([os.path.join(sijil_test.BUILD, "tests/scenario/log_fill"), f"host={self.database_at} dbname=sijil_template "
                               "user=sijil_app", self.path("socket"), "1", *SIZES], capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
        print(f"     {SIZES[-1]} events were appended in {time.monotonic() - begun:.1f} s", flush=True)
        super().found()


server = Filled().start()
auditor = server.client(make_robot(server, "auditor", "auditor", ""))
witness = server.client(make_robot(server, "watcher", "witness", ""))


def read(client, *sizes):
    key = auditor.api("GET", "/audit/key")["vkey"]
    return subprocess.run([PROGRAM, f"https://127.0.0.1:{server.port}", server.ca_file, key, client.token("registry:admin:*", fresh=True), *sizes],
                          capture_output=True, text=True, timeout=600, check=False)


def foreign_programs_agree_at_each_size():
    begun = time.monotonic()
    done = read(auditor, *SIZES)
    print("     " + done.stdout.strip().replace("\n", "\n     "), flush=True)
    assert done.returncode == 0 and f"ok   {SIZES[-1]} entries" in done.stdout, done.stderr
    print(f"     in {time.monotonic() - begun:.1f} s", flush=True)


def a_foreign_program_meets_the_limits_of_a_witness():
    done = read(witness, "256")
    assert done.returncode != 0 and "403" in done.stderr and "entry" in done.stderr, (done.stdout, done.stderr)


def a_foreign_program_finds_an_edit():
    """The server finds it before, and gives the tile to nobody."""
    server.psql.ask("UPDATE audit_entry SET leaf = set_byte(leaf, 29, get_byte(leaf, 29) # 1) WHERE seq = 300")
    done = read(auditor, "70000")
    assert done.returncode != 0 and "503" in done.stderr, (done.stdout, done.stderr)


run(foreign_programs_agree_at_each_size, a_foreign_program_meets_the_limits_of_a_witness, a_foreign_program_finds_an_edit, server=server)
