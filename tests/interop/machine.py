"""A fresh Debian of the release that this machine runs: made from the mirror in apt's configuration, booted with systemd in
namespaces of its own (systemd-nspawn), without a network but its loopback."""
import os
import shutil
import signal
import subprocess
import time

BOOT_SECONDS = 90


class CannotBeHad(Exception):
    """There is no mirror, or the kernel does not allow to boot a machine here: nothing was tested, and nothing failed."""


def said(*words, **more):
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE, **more).stdout


def codename():
    return said("sh", "-c", ". /etc/os-release && echo $VERSION_CODENAME").strip()


def sources():
    """Lines of sources.list for the Debian sources of this machine's apt, and the mirror of the release itself."""
    rows = [line.split("|") for line in said("apt-get", "indextargets", "--format", "$(ORIGIN)|$(REPO_URI)|$(CODENAME)|$(COMPONENT)",
                                             "Created-By: Packages").splitlines()]
    rows = [row[1:] for row in rows if row[0] == "Debian" and row[3] == "main"]
    mirrors = [uri for uri, suite, _ in rows if suite == codename()]
    if not mirrors:
        raise CannotBeHad("apt's configuration names no mirror of " + codename())
    return [f"deb {uri} {suite} {component}" for uri, suite, component in rows], mirrors[0]


def acquire_options():
    """The options with which this machine's apt reaches its mirrors: proxies, and whether it checks a snapshot's age."""
    lines = said("apt-config", "dump").splitlines()
    return "".join(line + "\n" for line in lines if line.startswith(("Acquire::Check-", "Acquire::http", "Acquire::https"))
                   and '"' in line)


class Machine:
    def __init__(self, work):
        self.root, self.name = os.path.join(work, "machine"), f"sijil-package-{os.getpid()}"
        self.log = open(os.path.join(work, "machine.log"), "w", encoding="utf-8")
        self.nspawn = self.leader = None

    def path(self, inside):
        return self.root + inside

    def write(self, inside, text):
        os.makedirs(os.path.dirname(self.path(inside)), exist_ok=True)
        with open(self.path(inside), "w", encoding="utf-8") as file:
            file.write(text)

    # --- making ----------------------------------------------------------------------------------------------------
    def make(self):
        lines, mirror = sources()
        made = subprocess.run(["debootstrap", "--variant=minbase", "--include=ca-certificates", codename(), self.root, mirror],
                              stdout=self.log, stderr=self.log)
        if made.returncode != 0:
            raise CannotBeHad("debootstrap gets no Debian from " + mirror)
        self.write("/etc/apt/sources.list", "\n".join(lines) + "\n")
        self.write("/etc/apt/apt.conf.d/90here", acquire_options() + 'APT::Get::Assume-Yes "true";\nAPT::Install-Recommends "false";\n')
        self.write("/etc/hosts", "127.0.0.1 localhost registry.example\n")
        self.outside("apt-get", "update", "-q")

    def outside(self, *words):
        """Runs a command in it before it boots, with this machine's network."""
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
        subprocess.run(["chroot", self.root, *words], check=True, stdout=self.log, stderr=self.log, env=environment)

    # --- booting ---------------------------------------------------------------------------------------------------
    def boot(self):
        # The unit manager needs its own cgroups, so it is not below one of ours, and is not registered.
        self.nspawn = subprocess.Popen(["systemd-nspawn", "--quiet", "--directory", self.root, "--boot", "--register=no", "--keep-unit",
                                        "--private-network", "--capability=CAP_IPC_LOCK", "--link-journal=no", "--console=read-only", f"--machine={self.name}"],
                                       stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        until = time.monotonic() + BOOT_SECONDS
        while time.monotonic() < until and self.nspawn.poll() is None:
            self.leader = self.leader or self.find_leader()
            if self.leader and self.try_run("systemctl is-system-running").stdout.strip() == "running":
                return
            time.sleep(0.2)
        raise CannotBeHad("systemd does not come up in namespaces here")

    def find_leader(self):
        children = subprocess.run(["pgrep", "-P", str(self.nspawn.pid)], text=True, stdout=subprocess.PIPE).stdout.split()
        return children[0] if children else None

    def try_run(self, text, **more):
        """Runs the text with bash inside, as root."""
        words = ["nsenter", "--target", self.leader, "--mount", "--uts", "--ipc", "--net", "--pid", "env", "-i", "HOME=/root", "LC_ALL=C.UTF-8",
                 "DEBIAN_FRONTEND=noninteractive", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "bash", "-euo", "pipefail",
                 "-c", "cd /root\n" + text]
        return subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=300, **more)

    def run(self, text):
        done = self.try_run(text)
        self.log.write(f"$ {text}\n{done.stdout}{done.stderr}")
        self.log.flush()
        assert done.returncode == 0, f"{text}\nstatus {done.returncode}\n{done.stdout}{done.stderr}\n{self.journal()}"
        return done.stdout

    def wait(self, text, seconds=60):
        until = time.monotonic() + seconds
        while self.try_run(text).returncode != 0:
            assert time.monotonic() < until, f"not within {seconds} s: {text}\n" + self.journal()
            time.sleep(0.2)

    def journal(self):
        return self.try_run("journalctl --no-pager -n 60 -u sijild -u 'sijild@*' -u sijil-keyd").stdout

    def stop(self):
        if self.nspawn is not None and self.nspawn.poll() is None:
            if self.leader:
                self.try_run("systemctl poweroff")
            try:
                self.nspawn.wait(60)
            except subprocess.TimeoutExpired:
                self.nspawn.send_signal(signal.SIGKILL)  # this also ends the machine
                self.nspawn.wait()
        self.log.close()
        shutil.rmtree(f"/run/systemd/nspawn/propagate/{self.name}", ignore_errors=True)
