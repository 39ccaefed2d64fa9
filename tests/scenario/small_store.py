"""The tests' own object store (tests/support/s3_server.py), as a region of a BucketFleet."""
import json
import os
import shutil
import subprocess
import tempfile
import time

import sijil_test

MIB = 1 << 20
SERVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support/s3_server.py")


class SmallStore:
    """The tests' own server in a separate folder; its bucket exists from the start."""

    def __init__(self):
        self.root, self.process = tempfile.mkdtemp(prefix="sijil-", dir=sijil_test.work_folder()), None
        self.key_file, self.ca_file = self.root + "/key", self.root + "/ca.pem"

    def start(self):
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen(["/usr/bin/python3", SERVER, self.root, "--part-minimum", str(5 * MIB)],
                                        stdin=subprocess.PIPE)
        until = time.monotonic() + 30
        while not os.path.exists(self.root + "/port"):
            assert time.monotonic() < until and self.process.poll() is None, "the store does not listen"
            time.sleep(0.05)

    def make_bucket(self):
        pass

    @property
    def endpoint(self):
        with open(self.root + "/port", encoding="ascii") as file:
            return f"https://127.0.0.1:{int(file.read())}"

    def move(self, location):
        self.plan(location=location)

    def plan(self, **members):
        """What the bucket is from now on (tests/support/s3_server.py)."""
        with open(self.root + "/plan.new", "w", encoding="utf-8") as file:
            json.dump(members, file)
        os.rename(self.root + "/plan.new", self.root + "/plan")

    def forget(self, key):
        """The bucket loses an object."""
        self.plan(forget=key)

    def requests(self):
        with open(self.root + "/log", encoding="utf-8") as file:
            return file.read().splitlines()

    def done(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait(30)
        shutil.rmtree(self.root, ignore_errors=True)
