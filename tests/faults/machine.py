"""The three peers of docs/production.md, of which one fails on demand."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

from plan import Plan, faulty, no_findings, real
from peers import Peers


class Machine(Peers):
    """PostgreSQL, sijil-keyd and sijild. Each of our programs may be one that fails on demand: `plans` has its plan."""

    def __init__(self, failing=("sijild",), record_timeout=1500):
        super().__init__("sijil-faults-")
        self.plans = {name: Plan(self.path("plan-" + name)) for name in failing}
        self.processes = {}
        self.judged = 0  # bytes of the log that were checked
        self.start_postgres()
        self.make_ring()
        self.make_keys()
        self.configure(record_timeout=record_timeout, reader_threads=3, mover_threads=2, event_threads=1)
        self.start_keyd()
        self.found()
        self.start_gateway()

    def start(self, name, *options):
        environment = dict(os.environ)
        if name in self.plans:
            environment["SIJIL_FAULT_PLAN"] = self.plans[name].path
        path = faulty(name) if name in self.plans else real(name)
        self.processes[name] = subprocess.Popen([path, *options], env=environment, stdout=self.log, stderr=self.log,
                                                stdin=subprocess.DEVNULL)

    def start_keyd(self):
        if os.path.exists(self.path("socket")):
            os.unlink(self.path("socket"))
        self.start("sijil-keyd", *self.keyd_words(), "--socket", self.path("socket"))
        self.wait(lambda: os.path.exists(self.path("socket")), "sijil-keyd")

    def revive_keyd(self):
        """After a failed write sijil-keyd ends in order, and its service manager starts it again."""
        process, until = self.processes["sijil-keyd"], time.monotonic() + 30
        while process.poll() is None:
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(self.path("socket")) == 0:
                    return
            assert time.monotonic() < until, "sijil-keyd neither listens nor ends"
            time.sleep(0.01)
        if process.returncode not in (1, 75):
            self.lives("sijil-keyd")
        self.judge_log()
        self.start_keyd()

    def start_gateway(self):
        self.start("sijild", "--config=" + self.path("sijild.conf"))
        self.wait(self.is_listening, "sijild")

    def restart_gateway(self):
        """It must end without a report of a sanitizer, in its status and its log."""
        process = self.processes["sijild"]
        process.terminate()
        code = process.wait(60)
        assert code == 0, f"sijild ended with {code}:\n{self.last_words()}"
        self.judge_log()
        self.start_gateway()

    def is_listening(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def wait(self, condition, name, seconds=60):
        until = time.monotonic() + seconds
        while not condition():
            if self.processes[name].poll() is not None or time.monotonic() > until:
                raise AssertionError(f"{name} does not start:\n{self.last_words()}")
            time.sleep(0.02)

    def lives(self, name="sijild"):
        self.judge_log()
        code = self.processes[name].poll()
        if code is not None:
            raise AssertionError(f"{name} ended with {code}:\n{self.last_words()}")

    def judge_log(self):
        """All three write to the log; checks its new lines."""
        with open(self.path("log"), encoding="utf-8", errors="replace") as file:
            file.seek(self.judged)
            new = file.read()
            self.judged = file.tell()
        no_findings(new)

    def last_words(self, lines=60):
        with open(self.path("log"), encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-lines:])

    def sql(self, text):
        """The first column of the first row."""
        return self.psql.ask(text).split("\n", 1)[0]

    def stop(self):
        """The exit statuses of the programs, which also report findings of sanitizers."""
        codes = {}
        for name in ("sijild", "sijil-keyd"):
            process = self.processes.get(name)
            if process is None:
                continue
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            try:
                codes[name] = process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                codes[name] = "killed: it did not end"
                process.wait()
        self.stop_postgres()
        return codes

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        codes = self.stop()
        self.log.close()
        bad = {name: code for name, code in codes.items() if code != 0}
        if kind is None and not bad:
            self.judge_log()
        if kind is not None or bad or os.environ.get("SIJIL_FAULTS_KEEP") == "1":
            sys.stderr.write(self.last_words(120))
            sys.stderr.write(f"the folder is {self.root}\n")
        else:
            shutil.rmtree(self.root, ignore_errors=True)
        assert kind is not None or not bad, f"not a clean end: {bad}"
