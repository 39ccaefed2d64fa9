#!/usr/bin/env python3
"""usage: package.py   Builds the Debian packages twice, asks lintian, installs them in a fresh Debian, and runs the commands of
docs/packages.md there, word for word: install, found, serve, a second gateway, upgrade, remove, purge. Parts that are not possible here are
named and left out."""
import filecmp
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
from machine import CannotBeHad, Machine, said

PARTS = ("sijil-client", "sijil-runner", "sijil-server", "sijil-verify", "sijil-witness")
UNITS = ("sijil-keyd.service", "sijild.service")
EXPOSURE_MAX = {"sijil-keyd.service": 5, "sijild.service": 12, "sijild@.service": 12}  # tenths, as in --threshold
HOST = "registry.example:8443"


def blocks(title):
    """The indented blocks of a section of docs/packages.md."""
    with open(os.path.join(ROOT, "docs/packages.md"), encoding="utf-8") as file:
        section = re.search(rf"^## {title}\n(.*?)^## ", file.read(), re.S | re.M).group(1)
    return [re.sub(r"^    ", "", block, flags=re.M) for block in re.findall(r"(?:^    .*\n)+", section, re.M)]


# --- the packages themselves ---------------------------------------------------------------------------------------
def build(work, name, **environment):
    output = os.path.join(work, name, "packages")
    os.makedirs(output)
    subprocess.run([os.path.join(ROOT, "script/package"), "--output", output], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "TMPDIR": os.path.join(work, name), **environment})
    return output


def same_bytes_twice(work):
    first = build(work, "one")
    second = build(work, "another-folder-with-a-longer-name", TZ="Asia/Dubai", LC_ALL="C.UTF-8", DEB_BUILD_OPTIONS="nocheck")
    names = sorted(os.path.basename(path) for path in glob.glob(first + "/*.deb"))
    assert {name.split("_")[0] for name in names} == {*PARTS, *(part + "-dbgsym" for part in PARTS)}, names
    for name in names:
        assert filecmp.cmp(os.path.join(first, name), os.path.join(second, name), shallow=False), f"{name} differs between two builds"
    return first


def lintian_is_silent(packages):
    found = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", *glob.glob(packages + "/*.changes")], text=True,
                           stdout=subprocess.PIPE)
    assert found.returncode == 0 and not re.search("^[EW]:", found.stdout, re.M), found.stdout


def verifier_stands_alone(packages):
    needs = said("dpkg-deb", "-f", *glob.glob(packages + "/sijil-verify_*.deb"), "Depends")
    names = {re.match(r"\s*(\S+)", part).group(1) for part in needs.split(",")}
    assert names <= {"libc6", "libjansson4", "libsodium23", "libssl3"}, needs


# --- in containers -------------------------------------------------------------------------------------------------
def in_containers(machine, packages, work):
    """Tests the image on this Debian, before it has a systemd; then the needs of its two containers: users, folders, the socket's group."""
    buildah = ["buildah", "--root", work + "/containers", "--runroot", work + "/run", "--storage-driver", "vfs"]
    isolated = ["--isolation", "chroot", "--network", "host"]
    try:
        base = said(*buildah, "from", "scratch").strip()
        said(*buildah, "add", "-q", base, machine.root, "/")
        said(*buildah, "commit", "-q", base, "localhost/base")
    except subprocess.CalledProcessError:
        print("left out: buildah makes no image here")
        return
    said(*buildah, "build", *isolated, "--build-arg", "BASE=localhost/base", "-t", "sijil", "-f", os.path.join(ROOT, "packaging/Containerfile"),
         packages, stderr=machine.log)
    container = said(*buildah, "from", "localhost/sijil").strip()
    run = lambda user, text: said(*buildah, "run", "--isolation", "chroot", "--user", user, container, "--", "bash", "-euc", text, stderr=machine.log)
    configured = json.loads(said(*buildah, "inspect", container))["OCIv1"]["config"]
    assert configured["User"] == "sijil" and configured["Cmd"][0] == "/usr/bin/sijild", configured
    assert run("sijil", "id -un; sijild --check-config 2> /dev/null || echo $?") == "sijil\n2\n"
    with open(os.path.join(ROOT, "packaging/systemd/sijil-keyd.service"), encoding="utf-8") as file:
        serve = re.search("^ExecStart=(.*)$", file.read(), re.M).group(1)
    made = run("sijil-keyd:sijil", f"""echo a long passphrase > /tmp/passphrase
        sijil-keyd --directory=/var/lib/sijil-keyd --init --origin=registry.example/audit --passphrase-fd=0 < /tmp/passphrase
        {serve} < /tmp/passphrase > /tmp/log & until [ -S /run/sijil-keyd/socket ]; do sleep 0.1; kill -0 $!; done
        stat -c '%U:%G %a' /run/sijil-keyd/socket; kill $!; wait $!""")
    assert made == "sijil-keyd:sijil 660\n", made
    print("ok an image: sijild knows what it lacks, sijil-keyd serves the group of gateways")


# --- in the machine ------------------------------------------------------------------------------------------------
def prepare(machine, packages):
    """Fetches all packages that the commands will install, because the running machine has no network."""
    os.makedirs(machine.path("/root/build/packages"))
    for part in PARTS:
        subprocess.run(["cp", *glob.glob(f"{packages}/{part}_*.deb"), machine.path("/root/build/packages")], check=True)
    machine.outside("apt-get", "install", "-q", "systemd-sysv")
    machine.outside("sh", "-c", "apt-get install -q --download-only /root/build/packages/*.deb postgresql-15 openssl")
    machine.outside("apt-get", "install", "-q", "curl", "jq", "man-db", "procps")


def nothing_is_started(machine):
    for unit in UNITS:
        assert machine.try_run(f"systemctl is-active {unit}").stdout.strip() == "inactive", unit
        assert machine.try_run(f"systemctl is-enabled {unit}").stdout.strip() == "disabled", unit
    assert machine.run("find /var/lib/sijil /var/lib/sijil-keyd /etc/sijil -type f") == "/etc/sijil/sijild.conf\n"
    assert machine.run("stat -c '%U:%G %a' /etc/sijil/sijild.conf") == "root:sijil 640\n"
    assert machine.run("stat -c '%n %U:%G %a' /var/lib/sijil /var/lib/sijil-keyd /run/sijil-keyd /run/sijil") == (
        "/var/lib/sijil sijil:sijil 700\n/var/lib/sijil-keyd sijil-keyd:sijil-keyd 700\n"
        "/run/sijil-keyd sijil-keyd:sijil 2750\n/run/sijil sijil:sijil 755\n")
    machine.run("cmp <(sijild --sample-config) /etc/sijil/sijild.conf; man=$(dpkg -L sijil-server | grep -c '/man[58]/.*gz$'); [ $man = 4 ]")


def unconfigured_does_not_run(machine):
    machine.run("systemctl start sijil-keyd")  # its condition does not hold, which is not a failure
    assert machine.try_run("systemctl is-active sijil-keyd").stdout.strip() == "inactive"
    machine.try_run("systemctl start sijild")
    machine.wait("systemctl is-failed sijild && [ \"$(systemctl show -P ExecMainStatus sijild)\" = 2 ]")
    machine.run("systemctl reset-failed sijild")


def allowed_calls(machine, unit):
    """The system calls that the unit's filter allows, with systemd's groups expanded."""
    groups, current = {}, None
    for line in machine.run("systemd-analyze syscall-filter --no-pager").splitlines():
        if line.startswith("@"):
            current = groups.setdefault(line.strip(), [])
        elif line.startswith("    ") and current is not None and not line.strip().startswith("#"):
            current.append(line.strip())
    spell = lambda name: {name} if name[0] != "@" else set().union(*(spell(part) for part in groups[name]))
    allowed = spell("@default")
    for words in re.findall(r"^SystemCallFilter=(.*)$", machine.run(f"cat /lib/systemd/system/{unit}"), re.M):
        named = set().union(*(spell(word) for word in words.lstrip("~").split()))
        allowed = allowed - named if words[0] == "~" else allowed | named
    return allowed


def filters_agree(machine):
    """The unit's filter allows all calls that sijil-keyd's own filter allows, and denies those that only an attacker would make."""
    with open(os.path.join(ROOT, "base/sandbox.c"), encoding="utf-8") as file:
        source = file.read()
    tables = {name: set(re.findall(r"SCMP_SYS\((\w+)\)", body))
              for name, body in re.findall(r"static const int (\w+)\[\] = \{(.*?)\};", source, re.S)}
    assert len(tables["allowed"]) > 30 and len(tables["denied"]) > 20, tables
    for unit in UNITS:
        calls = allowed_calls(machine, unit)
        assert tables["allowed"] | {"seccomp", "mmap", "mprotect", "prctl"} <= calls, (unit, tables["allowed"] - calls)
        assert not {"ptrace", "mount", "setuid", "bpf", "init_module", "reboot", "chown", "setpriority"} & calls, unit


def units_are_closed(machine):
    said = machine.run("systemd-analyze verify /lib/systemd/system/sijild.service /lib/systemd/system/sijil-keyd.service "
                       "/lib/systemd/system/sijild@.service 2>&1")
    assert said == "", said
    for unit, most in EXPOSURE_MAX.items():
        report = machine.run(f"systemd-analyze security --offline=true --no-pager --threshold={most} /lib/systemd/system/{unit}")
        print("  " + re.search(r"Overall exposure level for .*?: [\d.]+", report).group(0))
    filters_agree(machine)


def a_wrong_call_kills(machine):
    """From here on a denied call ends the program, so that the test notices a needed call that the unit's filter denies."""
    for unit in (*UNITS, "sijild@.service"):
        machine.write(f"/etc/systemd/system/{unit}.d/kill.conf", "[Service]\nSystemCallErrorNumber=kill\n")
    machine.run("systemctl daemon-reload")


def main_pid(machine, unit):
    return machine.run(f"systemctl show -P MainPID {unit}").strip()


def processes_are_closed_off(machine):
    for unit, user in (("sijil-keyd.service", "sijil-keyd"), ("sijild.service", "sijil")):
        pid = main_pid(machine, unit)
        status = dict(line.split(":\t", 1) for line in machine.run(f"cat /proc/{pid}/status").splitlines() if ":\t" in line)
        assert status["Seccomp"] == "2" and int(status["Seccomp_filters"]) > 1 and status["NoNewPrivs"] == "1", status
        assert int(status["CapEff"], 16) == 0 == int(status["CapBnd"], 16), status
        assert machine.run(f"stat -c %U /proc/{pid}").strip() in (user, "root")  # not dumpable: then root
        assert machine.run(f"id -u {user}").strip() == status["Uid"].split()[0], status
        assert machine.try_run(f"nsenter -t {pid} -m touch /etc/x").returncode != 0, unit
    keyd = main_pid(machine, "sijil-keyd.service")
    assert len(machine.run(f"nsenter -t {keyd} -n cat /proc/net/dev").splitlines()) == 3, "sijil-keyd has a network"
    for user, path in (("sijil", "/var/lib/sijil-keyd/keyring"), ("sijil-keyd", "/etc/sijil/sijild.conf"),
                       ("sijil-keyd", "/etc/sijil/keyd.passphrase"), ("sijil", "/etc/sijil/keyd.passphrase")):
        machine.run(f"test -e {path}; ! runuser -u {user} -- cat {path} 2> /dev/null")


def wait_ready(machine, port=8443):
    machine.wait(f"curl -fsS --cacert /etc/sijil/tls.pem https://registry.example:{port}/readyz")


def use(machine):
    """An administrator, a robot, a push, a pull, and a proof that it is recorded, which sijil-verify checks."""
    machine.run("head -c 5000000 /dev/urandom > model.onnx")
    machine.run(f"""jq -r .password /var/lib/sijil/admin.json | sijil login {HOST} --ca-file /etc/sijil/tls.pem \
        --username "$(jq -r .username /var/lib/sijil/admin.json)" """)
    machine.run(f"sijil admin organisation create {HOST} acme; sijil admin project create {HOST} acme/models")
    make_robot(machine, "auditor", "auditor", "acme")
    make_robot(machine, "ci", "publisher", "acme/models")
    become(machine, "ci")
    machine.run(f"sijil push model.onnx {HOST}/acme/models/fraud:v1")
    pulls(machine, HOST)
    become(machine, "auditor")
    last = json.loads(machine.run(f"sijil audit tail {HOST} --within acme --key res:acme/models/fraud -n 1 --json"))
    machine.run("apt-get install ./build/packages/sijil-verify_*.deb")
    machine.run(f"""sijil audit key {HOST} --within acme > log.vkey
        sijil audit proof {HOST} {last["seq"]} --within acme
        sijil-verify proof --key "$(cat log.vkey)" --entry entry.json entry.tlog-proof""")
    become(machine, "ci")


def make_robot(machine, name, role, scope):
    robot = json.loads(machine.run(f"sijil admin robot create {HOST} acme/{name} --json"))
    machine.run(f"sijil admin binding create {HOST} 'robot$acme+{name}' {role} {scope}")
    machine.write(f"/root/{name}.secret", next(value for key, value in robot.items() if key in ("secret", "password")))


def become(machine, name):
    machine.run(f"sijil login {HOST} --ca-file /etc/sijil/tls.pem --username 'robot$acme+{name}' --password-stdin < {name}.secret")


def pulls(machine, host):
    machine.run(f"rm -rf there; sijil pull {host}/acme/models/fraud:v1 -o there; cmp model.onnx there/model.onnx")


def restarts_and_reloads(machine):
    gateway, keyd = (main_pid(machine, unit) for unit in ("sijild", "sijil-keyd"))
    machine.run("systemctl reload sijild")
    wait_ready(machine)
    assert main_pid(machine, "sijild") == gateway
    machine.run(f"kill -9 {keyd}")
    machine.wait(f"[ $(systemctl show -P MainPID sijil-keyd) != {keyd} ] && systemctl is-active sijil-keyd")
    wait_ready(machine)
    assert main_pid(machine, "sijild") == gateway
    pulls(machine, HOST)


def second_gateway(machine):
    for block in blocks("More gateways on one machine"):
        machine.run(block)
    wait_ready(machine, 8444)
    assert machine.run("stat -c '%U:%G %a' /etc/sijil/second.conf") == "root:sijil 640\n"


def upgrade(machine):
    before = [main_pid(machine, unit) for unit in ("sijild", "sijil-keyd", "sijild@second")]
    edited = machine.run("sha256sum /etc/sijil/sijild.conf")
    machine.run("apt-get install --reinstall ./build/packages/sijil-server_*.deb")
    assert [main_pid(machine, unit) for unit in ("sijild", "sijil-keyd", "sijild@second")] == before, "an upgrade restarted something"
    assert machine.run("sha256sum /etc/sijil/sijild.conf") == edited
    assert machine.run("stat -c '%U:%G %a' /etc/sijil/sijild.conf") == "root:sijil 640\n"
    for block in blocks("Upgrading"):
        if "--migrate" in block:
            assert machine.try_run("pgrep -x sijild").returncode == 1, "the page migrates beside gateways"
        machine.run(block)
        wait_ready(machine) if "stop" not in block else None
    wait_ready(machine, 8444)
    assert main_pid(machine, "sijild") != before[0] and main_pid(machine, "sijil-keyd") != before[1]
    pulls(machine, HOST)


def data(machine):
    return machine.run("find /var/lib/sijil /var/lib/sijil-keyd /etc/sijil/keyd.passphrase /etc/sijil/tls.key -type f | sort | xargs sha256sum")


def removal(machine):
    remove, purge = blocks("Removing")[0].splitlines()
    machine.run(remove)
    running = machine.try_run("pgrep -ax 'sijild|sijil-keyd'")
    assert running.returncode == 1, "something runs on: " + running.stdout + machine.journal()
    kept = data(machine)
    assert "keyring" in kept and "admin.json" in kept and len(kept.splitlines()) > 6, kept
    machine.run("test -e /etc/sijil/sijild.conf")
    machine.run(purge)
    assert data(machine) == kept, "purging took data"
    machine.run("test ! -e /etc/sijil/sijild.conf; test ! -e /usr/bin/sijild; id sijil; id sijil-keyd; test ! -e /lib/systemd/system/sijild@.service")


def in_a_machine(machine):
    machine.boot()
    install, *rest = blocks("A registry on one machine")
    machine.run(install)
    nothing_is_started(machine)
    unconfigured_does_not_run(machine)
    units_are_closed(machine)
    a_wrong_call_kills(machine)
    print("ok installed: nothing runs, the units are closed off")
    for block in rest:
        machine.run(block)
    wait_ready(machine)
    processes_are_closed_off(machine)
    use(machine)
    restarts_and_reloads(machine)
    print("ok founded, pushed, pulled, reloaded, killed")
    second_gateway(machine)
    upgrade(machine)
    print("ok a second gateway, an upgrade")
    removal(machine)
    print("ok removed and purged: keys and data are left")


def main():
    with tempfile.TemporaryDirectory(prefix="sijil-package-", dir="/var/tmp") as work:
        os.chmod(work, 0o755)
        packages = same_bytes_twice(work)
        lintian_is_silent(packages)
        verifier_stands_alone(packages)
        print("ok built twice with the same bytes; lintian finds nothing")
        machine = Machine(work)
        try:
            machine.make()
            in_containers(machine, packages, work)
            prepare(machine, packages)
            in_a_machine(machine)
        except CannotBeHad as why:
            print(f"left out: {why}")
        finally:
            machine.stop()


if __name__ == "__main__":
    main()
