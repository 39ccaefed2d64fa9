#!/usr/bin/env python3
"""usage: slurm.py BUILD-FOLDER   The Slurm of Debian 13 (24.11, its API v0.0.40 and later): tests/runner/slurm_runs.py in a Debian of its own, made by
debootstrap. Needs root and a mirror."""
import os
import shutil
import socket
import subprocess
import sys
import tempfile

from machine import CannotBeHad, sources

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RELEASE = "trixie"
PACKAGES = "ca-certificates,munge,slurmctld,slurmd,slurmrestd,slurm-client,slurm-wlm-jwt-plugin,python3,procps,util-linux"
PROGRAMS = ("tests/runner/slurm_jobs", "cmd/sijil-runner")
FILES = ("tests/runner/slurm_runs.py", "tests/support/slurm.py", "tests/support/ports.py")
# The programs of this Debian run there with the libraries of this one.
WRAPPER = '#!/bin/sh\nexec /opt/libraries/ld-linux-x86-64.so.2 --library-path /opt/libraries /opt/programs/{name} "$@"\n'
ENTER = 'mount --bind "$1" "$1" && mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount --rbind /sys "$1/sys" && ' \
        'exec chroot "$1" /usr/bin/python3 /opt/tests/runner/slurm_runs.py /opt/build'


def make(machine, log):
    made = subprocess.run(["debootstrap", "--variant=minbase", "--include=" + PACKAGES, RELEASE, machine, sources()[1]], stdout=log, stderr=log, check=False)
    if made.returncode != 0:
        raise CannotBeHad(f"debootstrap gets no Debian {RELEASE}")


def put(source, target, mode=0o644):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy(source, target)
    os.chmod(target, mode)


def bring(build, machine):
    """Our programs, what they are linked to, and the test."""
    for name in PROGRAMS:
        program, short = os.path.join(build, name), os.path.basename(name)
        put(program, f"{machine}/opt/programs/{short}", 0o755)
        for line in subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout.splitlines():
            words = line.split()
            path = next((word for word in words if word.startswith("/")), None)
            if path is not None:
                put(path, f"{machine}/opt/libraries/{os.path.basename(path)}", 0o755)
        wrapper = f"{machine}/opt/build/{name}"
        os.makedirs(os.path.dirname(wrapper), exist_ok=True)
        with open(wrapper, "w", encoding="ascii") as file:
            file.write(WRAPPER.format(name=short))
        os.chmod(wrapper, 0o755)
    with open(f"{machine}/etc/hosts", "w", encoding="ascii") as file:
        file.write(f"127.0.0.1 localhost {socket.gethostname()}\n")
    for name in FILES:
        put(os.path.join(ROOT, name), f"{machine}/opt/{name}")


def main():
    build = os.path.abspath(sys.argv[1])
    work = tempfile.mkdtemp(prefix="sijil-slurm-", dir="/var/tmp")
    machine = os.path.join(work, "machine")
    try:
        with open(os.path.join(work, "log"), "w", encoding="utf-8") as log:
            make(machine, log)
        bring(build, machine)
        return subprocess.run(["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", ENTER, "enter", machine], check=False).returncode
    except CannotBeHad as why:
        print(f"left out: {why}")
        return 0
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
