#!/usr/bin/env python3
"""The commands of README's "A registry in five minutes", word for word, on a release build. They run with their own /srv and loopback, so
that nothing of this machine disturbs them and nothing of them stays."""
import fcntl
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/scenario"))
from sijil_test import sha256

BUILD, START, ADMINISTRATOR, ROBOT, RUN = range(5)


def blocks():
    """The indented blocks of the section. The first is split before the command that keeps running."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        section = re.search(r"^## A registry in five minutes\n(.*?)^## ", file.read(), re.S | re.M).group(1)
    found = [re.sub(r"^    ", "", block, flags=re.M) for block in re.findall(r"(?:^    .*\n)+", section, re.M)]
    assert len(found) == 4, found
    build, start = found[0].split("export PATH", 1)
    return [build, "export PATH" + start, *found[1:]]


def bash(text, **more):
    return subprocess.run(["bash", "-euo", "pipefail", "-c", text], check=True, text=True, **more)


def raise_loopback():
    """SIOCSIFFLAGS: a new network namespace has its loopback down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        fcntl.ioctl(one, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))


def wait_for_server(server):
    for _ in range(600):
        assert server.poll() is None, "sijild ended"
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", 8443)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("sijild does not listen")


def model(folder):
    """A real model, as the demo trains it."""
    subprocess.run(["/usr/bin/python3", os.path.join(ROOT, "script/demo.d/train.py"), folder], check=True, stdout=subprocess.DEVNULL)


def terminal_of(work):
    """The line that finds the programs, and the environment of a person."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        path = re.search(r"^    (export PATH=.*)$", file.read(), re.M).group(1)
    return path.replace("$PWD", ROOT), {"env": {**os.environ, "HOME": work, "XDG_CONFIG_HOME": f"{work}/config", "XDG_CACHE_HOME": f"{work}/cache"}}


def train(work, commands):
    """Once the runner is enrolled, which is seconds after the start."""
    path, terminal = terminal_of(work)
    for _ in range(600):
        if os.path.exists("/srv/sijil/officer/trainer.pem"):
            break
        time.sleep(0.1)
    words = commands.replace("/tmp/digits", work + "/digits")
    said = bash(f"{path}\ncd {ROOT}\n{{ {words} }} 2>&1 || true", stdout=subprocess.PIPE, **terminal).stdout
    assert '"accuracy"' in said and "succeeded" in said, said


def use_registry(work, administrator, robot):
    path, terminal = terminal_of(work)
    said = bash(f"{path}\ncd {work}\n{administrator}", stdout=subprocess.PIPE, **terminal).stdout
    secret = re.search(r"^\s*(?:secret|password)\S*\s+(\S+)\s*$", said, re.M | re.I)
    assert secret, said
    login, rest = robot.split("\n", 1)
    bash(f"{path}\ncd {work}\n{login} --password-stdin", input=secret.group(1), **terminal)
    bash(f"{path}\ncd {work}\n{rest}", **terminal)
    with open(f"{work}/model.onnx", "rb") as one, open(f"{work}/there/model.onnx", "rb") as other:
        assert sha256(one.read()) == sha256(other.read())


def main():
    raise_loopback()
    commands = blocks()
    with tempfile.TemporaryDirectory(prefix="sijil-readme-", dir="/var/tmp") as work:
        os.chmod(work, 0o755)
        os.mkdir(f"{work}/srv")
        subprocess.run(["mount", "--bind", f"{work}/srv", "/srv"], check=True)
        model(work)
        with open(f"{work}/log", "w", encoding="utf-8") as log:
            start = commands[START].replace("sijild --embedded", "exec sijild --embedded")
            server = subprocess.Popen(["bash", "-euc", start], cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_for_server(server)
            use_registry(work, commands[ADMINISTRATOR], commands[ROBOT])
            train(work, commands[RUN])
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
            subprocess.run(["umount", "/srv"], check=True)
    assert server.returncode == 0, server.returncode
    bash(f"DESTDIR=$(mktemp -d) && export DESTDIR && cmake --install {ROOT}/build/release > /dev/null && "
         "find $DESTDIR -name sijil.1 | grep -q . && find $DESTDIR -name sijild.conf.5 | grep -q . && rm -r $DESTDIR")
    print("ok README: built, started, administered, pushed, pulled, trained, installed")


if os.getuid() != 0:
    print("left out: README's commands are run as root")
elif sys.argv[1:] == ["inside"]:
    main()
else:
    bash(blocks()[BUILD], cwd=ROOT, stdout=subprocess.DEVNULL)
    sys.exit(subprocess.run(["unshare", "--mount", "--net", sys.executable, __file__, "inside"], check=False).returncode)
