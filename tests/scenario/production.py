"""The three peers of docs/production.md (peers.py), each below tests/support/fault_shim.c, so that a test can step its clock
and slow down or fail its disk while it runs.

Processes that end are not restarted, except sijil-keyd, which a service manager would restart."""
import mmap
import os
import shutil
import signal
import struct
import subprocess
import threading
import time

import sijil_test
from peers import POSTGRES, Peers
from sijil_test import program


class Faults:
    """The faults of one process: written into memory that it has mapped."""
    FORM, COUNTS = "=qiiiiii", "=iiii"

    def __init__(self, folder, name, library):
        self.path, self.library = os.path.join(folder, name + ".faults"), library
        size = struct.calcsize(self.FORM) + struct.calcsize(self.COUNTS)
        with open(self.path, "wb") as file:
            file.write(bytes(size))
        os.chmod(self.path, 0o666)
        with open(self.path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), size)

    def set(self, clock_ms=0, sync_ms=0, write_ms=0, failure=0, read_ms=0, read_failure=0, spoiled_reads=0):
        struct.pack_into(self.FORM, self.memory, 0, clock_ms, sync_ms, write_ms, failure, read_ms, read_failure, spoiled_reads)

    def spoiled_left(self):
        """How many reads are still to be spoiled."""
        return struct.unpack_from(self.FORM, self.memory, 0)[-1]

    def past(self):
        """How many writes, fsyncs and reads of the kernel's asynchronous I/O have completed, with success or not."""
        return self.counts()[:3]

    def counts(self):
        """How many of the writes the real disk has failed or cut short."""
        return struct.unpack_from(self.COUNTS, self.memory, struct.calcsize(self.FORM))

    def environment(self):
        # Sanitizers must normally be the first library; this option lets them accept another order.
        options = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
        return {**os.environ, "LD_PRELOAD": self.library, "SIJIL_FAULT_FILE": self.path, "ASAN_OPTIONS": options}


class Production(Peers, sijil_test.Server):
    """Has the embedded server's interface for tests; `settings` are lines of sijild.conf."""

    def __init__(self, **settings):
        Peers.__init__(self)
        os.chmod(self.root, 0o755)
        self.folder, self.settings = self.root, settings
        library = self.path("shim.so")  # where PostgreSQL's user can read it
        shutil.copy(os.path.join(sijil_test.BUILD, "tests/scenario/libsijil_fault_shim.so"), library)
        self.faults = {name: Faults(self.root, name, library) for name in ("gateway", "keyd", "postgres")}
        self.process = self.keyd = None
        self.is_stopping = False

    # --- starting ------------------------------------------------------------------------------------------------
    def start(self, wait=True):
        self.start_postgres(self.faults["postgres"].environment())
        self.make_ring()
        self.start_keyd()
        threading.Thread(target=self.keep_keyd, daemon=True).start()
        while not os.path.exists(self.path("socket")):
            time.sleep(0.05)
        self.make_keys()
        self.configure(**self.settings)
        self.found()
        self.process = subprocess.Popen([program("sijild"), "--config", self.path("sijild.conf")], stdout=self.log,
                                        stderr=self.log, stdin=subprocess.DEVNULL, env=self.faults["gateway"].environment())
        self.wait_ready()
        return self

    def start_keyd(self):
        self.keyd = subprocess.Popen([program("sijil-keyd"), *self.keyd_words(), "--socket", self.path("socket")],
                                     stdout=self.log, stderr=self.log, env=self.faults["keyd"].environment())

    def keep_keyd(self):
        """Restart=always, RestartSec=500ms."""
        while not self.is_stopping:
            self.keyd.wait()
            time.sleep(0.5)
            if not self.is_stopping:
                self.start_keyd()

    # --- what is done to it ----------------------------------------------------------------------------------------
    def postgres_processes(self):
        with open(self.path("postgres/pid"), encoding="ascii") as file:
            postmaster = int(file.read())
        return [postmaster, *sijil_test.children_of(postmaster)]

    def run_postgres(self, action):
        self.run(POSTGRES, action, self.path("postgres"), env=self.faults["postgres"].environment(), timeout=240)
        data = self.path("postgres/data")
        if action == "restart":
            with open(data + "/postmaster.pid", encoding="ascii") as pid, open(self.path("postgres/pid"), "w", encoding="ascii") as file:
                file.write(pid.readline())

    def calm(self):
        for faults in self.faults.values():
            faults.set()

    def stop(self, sig=signal.SIGTERM):
        self.is_stopping = True
        code = super().stop(sig)
        if self.keyd is not None:
            self.keyd.terminate()
            self.keyd.wait(30)
        self.stop_postgres()
        return code
