"""The real `sijil-runner serve`, with the folder that the enrolment of a runner leaves (docs/runner.md)."""
import os
import pwd
import shutil
import subprocess
import tempfile

import sijil_test
from run_world import RUNNER_TYPE, canonical, seal, url64
from sijil_test import program


def user():
    try:
        return pwd.getpwnam("sijil-run").pw_name
    except KeyError:
        return "nobody"


class RealRunner:
    """`runner`: who it is; `words`: more options. A machine without sandboxes leaves the case out."""

    def __init__(self, server, runner, port=None, words=()):
        self.folder = tempfile.mkdtemp(prefix="sijil-runner-", dir="/var/tmp")
        os.chmod(self.folder, 0o755)  # the payload's user must reach its folder
        self.as_user = [f"--user={user()}"] if os.geteuid() == 0 else []
        self.process, self.words = None, list(words)
        checked = subprocess.run([program("sijil-runner"), "check", f"--work={self.folder}/check", *self.as_user], capture_output=True, text=True, check=False)
        if "does not work: the sandbox can't be made" in checked.stdout:
            shutil.rmtree(self.folder)
            raise sijil_test.LeftOut(checked.stdout)
        self.make_state(server, runner, port or server.ports[0])

    def make_state(self, server, runner, port):
        keys = server.client(server.admin).api("GET", "/audit/key")
        signer = subprocess.run(["openssl", "ec", "-pubin", "-outform", "DER"], input=keys["documents"].encode(), capture_output=True, check=True).stdout[-65:]
        key = subprocess.run(["openssl", "pkcs8", "-topk8", "-nocrypt", "-in", runner.key.path], capture_output=True, check=True).stdout
        pins = {"schema": "sijil.runner-registry/v1", "url": f"https://127.0.0.1:{port}", "audience": runner.world.origin,
                "log_key": keys["vkey"], "signer": url64(signer), "root": url64(runner.world.root.point), "ca_file": "ca.pem"}
        with open(runner.certificate, "rb") as certificate, open(server.ca_file, "rb") as authority:
            files = {"registry.json": canonical(pins), "key.pem": key, "ca.pem": authority.read(), "certificate.pem": certificate.read(),
                     "document.json": canonical(seal(RUNNER_TYPE, runner.document, runner.key))}
        os.makedirs(self.folder + "/state", mode=0o700)
        for name, content in files.items():
            with open(os.path.join(self.folder, "state", name), "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(content)

    def command(self):
        return [program("sijil-runner"), "serve", f"--state={self.folder}/state", f"--work={self.folder}/work", *self.as_user, *self.words]

    def start(self):
        with open(self.folder + "/log", "ab") as log:
            self.process = subprocess.Popen(self.command(), stderr=log)
        return self

    def said(self):
        with open(self.folder + "/log", encoding="utf-8", errors="replace") as file:
            return file.read()

    def kill(self):
        self.process.kill()
        self.process.wait(60)

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, value, trace):
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(90)
        if kind is not None:
            print(self.said())
        shutil.rmtree(self.folder, ignore_errors=True)
        assert kind is not None or code == 0, f"sijil-runner ended with {code}"
