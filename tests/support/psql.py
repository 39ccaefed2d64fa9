"""A psql that stays open, for tests that ask a database often. Standard library only."""
import os
import subprocess
import threading

END = "the end of an answer"


class Psql:
    """As `psql -c`, with a fiftieth of its cost. After the end of the server the next question starts a new one."""

    def __init__(self, folder, database):
        self.words = ["psql", "-qXAt", "-h", folder, "-U", "postgres", "-d", database]
        self.process, self.lock = None, threading.Lock()

    def ask(self, text):
        """The rows of the answer, one a line."""
        with self.lock:
            if self.process is None:
                self.process = subprocess.Popen(self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                                env={**os.environ, "PGOPTIONS": "-c client_min_messages=error"})
            try:
                return self.answer(" ".join(text.split()))
            except OSError as why:
                self.close()
                raise AssertionError(f"psql: {why}") from why

    def answer(self, text):
        self.process.stdin.write(f"{text};\n\\echo {END} :ERROR\n")
        self.process.stdin.flush()
        lines = []
        while not lines or not lines[-1].startswith(END):
            line = self.process.stdout.readline()
            if line == "":
                self.close()
                raise AssertionError(f"psql has ended: {lines}")
            lines.append(line.rstrip("\n"))
        assert lines[-1].endswith(" false"), f"{text}: {lines[:-1]}"
        return "\n".join(lines[:-1])

    def close(self):
        if self.process is not None:
            self.process.kill()  # the end of its input may not reach it: a forked client holds it open, too
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.process = None
