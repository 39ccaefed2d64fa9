#!/usr/bin/env python3
"""usage: packaging.py SOURCE-FOLDER BUILD-FOLDER   Compares packaging/ with the programs, their users and settings."""
import os
import re
import shlex
import subprocess
import sys
import tempfile

ROOT, BUILD = (os.path.abspath(path) for path in sys.argv[1:])
DEBIAN = os.path.join(ROOT, "packaging/debian")
UNITS = ("sijild.service", "sijil-keyd.service")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def unit(name):
    """Key -> values, in order, of all sections."""
    found = {}
    for line in read(f"packaging/systemd/{name}").splitlines():
        if line and line[0] not in "#[":
            key, value = line.split("=", 1)
            found.setdefault(key, []).append(value)
    return found


def run(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, **more)
    return done.returncode, done.stdout, done.stderr


def program(name):
    return os.path.join(BUILD, "cmd", name)


def users():
    return re.findall(r"^u (\S+) ", read("packaging/debian/sijil-server.sysusers"), re.M)


def folders():
    """Path -> (mode, owner, group), as systemd-tmpfiles makes them."""
    rows = re.findall(r"^d (\S+) (\d+) (\S+) (\S+) -$", read("packaging/debian/sijil-server.tmpfiles"), re.M)
    return {path: tuple(rest) for path, *rest in rows}


def command(name):
    words = shlex.split(unit(name)["ExecStart"][0])
    options = dict(word.split("=", 1) for word in words[1:])
    return os.path.basename(words[0]), words[0], options


EXPOSURE = 55  # of 100, as systemd-analyze counts it: the runner is root, and its payload needs namespaces and mounts


def the_runner_s_unit_is_well_formed_and_closed():
    """As far as systemd can tell without running."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "sijil-runner.service")
        with open(path, "w", encoding="utf-8") as file:
            file.write(read("packaging/systemd/sijil-runner.service").replace("ExecStart=/usr/bin/sijil-runner", "ExecStart=" + program("sijil-runner")))
        code, out, errors = run("systemd-analyze", "verify", "--man=no", path)
        assert code == 0 and not out + errors, (code, out, errors)
        code, out, errors = run("systemd-analyze", "security", "--offline=yes", f"--threshold={EXPOSURE}", path)
        assert code == 0, out[-300:] + errors
        for filtered in ("clock", "cpu-emulation", "module", "obsolete", "raw-io", "reboot", "swap"):
            assert re.search(rf"✓ SystemCallFilter=~@{filtered} ", out), filtered
    # What would keep bubblewrap or umoci from working.
    found = unit("sijil-runner.service")
    for name in ("RestrictNamespaces", "RestrictSUIDSGID", "ProtectKernelTunables", "ProtectKernelLogs", "ProtectHostname", "PrivateUsers", "PrivateDevices",
                 "ProtectControlGroups", "ProtectProc"):
        assert name not in found, name
    needed = {"mount", "umount2", "pivot_root", "unshare", "clone", "setuid", "setgid", "setgroups", "chown", "fchownat", "capset", "prctl", "ptrace", "kill"}
    for group in found["SystemCallFilter"][0].lstrip("~").split():
        code, out, errors = run("systemd-analyze", "syscall-filter", group)
        assert code == 0, errors
        assert not needed & set(re.findall(r"^    ([a-z0-9_]+)$", out, re.M)), group


def commands_fit_the_programs():
    for name in UNITS:
        called, path, options = command(name)
        assert name == called + ".service" and path == f"/usr/bin/{called}", path
        known = set(re.findall(r"^\s+(--[a-z-]+)", run(program(called), "--help")[1], re.M))
        assert len(known) > 5 and set(options) <= known, (name, set(options) - known)
        assert path in unit(name)["ExecPaths"][0].split(), name
    default = re.search(r"default: (/etc/\S+sijild.conf)", run(program("sijild"), "--help")[1]).group(1)
    assert command("sijild.service")[2]["--config"] == default == unit("sijild.service")["ConditionPathExists"][0]
    keyd = command("sijil-keyd.service")[2]
    assert unit("sijil-keyd.service")["ConditionPathExists"] == [keyd["--directory"] + "/keyring"]
    assert keyd["--passphrase-fd"] == "0" and unit("sijil-keyd.service")["StandardInput"][0].startswith("file:/etc/sijil/")


def the_unit_of_the_runner_fits():
    """It has a verb before its options, and its folders come from the unit itself."""
    found, words = unit("sijil-runner.service"), shlex.split(unit("sijil-runner.service")["ExecStart"][0])
    known = set(re.findall(r"^\s+(--[a-z-]+)", run(program("sijil-runner"), "--help")[1], re.M))
    options = dict(word.split("=", 1) for word in words[2:])
    assert words[:2] == ["/usr/bin/sijil-runner", "serve"] and set(options) <= known, set(options) - known
    assert found["ConditionPathExists"] == [options["--state"] + "/certificate.pem"]
    assert options["--state"] == "/var/lib/" + found["StateDirectory"][0] and found["StateDirectoryMode"] == ["0700"]
    assert options["--work"].startswith("/var/cache/" + found["CacheDirectory"][0] + "/") and found["CacheDirectoryMode"] == ["0711"]
    assert re.findall(r"^u (\S+) ", read("packaging/debian/sijil-runner.sysusers"), re.M) == [options["--user"]]
    assert set(found["RestartPreventExitStatus"][0].split()) == {"2", "3"} and found["Restart"] == ["on-failure"]
    assert seconds(found["TimeoutStopSec"][0]) > 60 + 10  # FINISH_MS of runner/serve/serve.c
    assert "sijil-runner.service" in read("packaging/debian/sijil-runner.install")
    # With these no sandbox gets a /proc of its own, or no accelerator is seen.
    assert not {"ProtectKernelLogs", "ProtectKernelTunables", "ProtectHostname", "ProtectClock", "PrivateDevices", "PrivateUsers"} & set(found)


def the_runner_can_read_what_the_pages_name():
    """The unit hides the registry's own folder; tokens and authorities of clusters lie in the runner's."""
    hidden = [path.lstrip("-") + "/" for path in unit("sijil-runner.service")["InaccessiblePaths"][0].split()]
    named = set()
    for page in ("docs/kubernetes.md", "docs/slurm.md", "docs/runner.md"):
        named |= set(re.findall(r"--(?:kubernetes-token|slurm-token|ca-file|log-key|signer|root)=(/[^\s`]+)", read(page)))
    assert {os.path.dirname(path) for path in named} == {"/etc/sijil-runner"}, named
    assert not [path for path in named if path.startswith(tuple(hidden))], named
    assert "d /etc/sijil-runner 0700 root root -" in read("packaging/debian/sijil-runner.tmpfiles").splitlines()


def the_unit_of_the_witness_fits():
    called, path, options = command("sijil-witness.service")
    found, known = unit("sijil-witness.service"), set(re.findall(r"^\s+(--[a-z-]+)", run(program(called), "--help")[1], re.M))
    assert called == "sijil-witness" and set(options) <= known, set(options) - known
    assert found["ConditionPathExists"] == [options["--directory"] + "/key"] and path in found["ExecPaths"][0].split()
    assert options["--directory"] == "/var/lib/" + found["StateDirectory"][0] and found["StateDirectoryMode"] == ["0700"]
    assert re.findall(r"^u (\S+) ", read("packaging/debian/sijil-witness.sysusers"), re.M) == found["User"] == found["Group"]
    assert found["RestartPreventExitStatus"] == ["2"] and run(program(called), "--no-such-option")[0] == 2
    assert options["--passphrase-fd"] == "0" and found["StandardInput"] == ["file:" + os.path.dirname(options["--logs"]) + "/passphrase"]
    assert "sijil-witness.service" in read("packaging/debian/sijil-witness.install")


def users_and_folders_are_made():
    made = folders()
    assert users() == ["sijil", "sijil-keyd", "sijil-runner"] and len(made) == 4, (users(), made)
    for path, (_, owner, group) in made.items():
        assert owner in users() and group in users(), path
    for name in UNITS:
        assert unit(name)["User"][0] == unit(name)["Group"][0] and unit(name)["User"][0] in users(), name
        for path in unit(name)["ReadWritePaths"][0].split():
            assert made[path][1] == unit(name)["User"][0], (name, path)
    keyd = command("sijil-keyd.service")[2]
    assert made[keyd["--directory"]] == ("0700", "sijil-keyd", "sijil-keyd"), "only sijil-keyd may enter its folder"
    # The socket's group comes from the folder: setgid, and no other user may enter.
    assert made[os.path.dirname(keyd["--socket"])] == ("2750", "sijil-keyd", "sijil") and keyd["--allow-uid"] == "sijil"


def sample():
    return run(program("sijild"), "--sample-config")[1]


def default(name):
    return int(re.search(rf'^{name} = "(\d+)"', sample(), re.M).group(1))


def seconds(text):
    return int(re.fullmatch(r"(\d+)s", text).group(1))


def limits_leave_room_for_the_settings():
    assert seconds(unit("sijild.service")["TimeoutStopSec"][0]) >= default("shutdown_timeout") + 10
    for name in UNITS:
        assert unit(name)["Restart"] == ["on-failure"] and unit(name)["StartLimitIntervalSec"] == ["0"], name
        assert unit(name)["RestartPreventExitStatus"] == ["2"], name
        assert "LimitNOFILE" not in unit(name), "sijild raises its own soft limit up to the hard one"
    assert run(program("sijild"), "--no-such-option")[0] == 2 and run(program("sijil-keyd"), "--no-such-option")[0] == 2


def documented_settings():
    """The settings that docs/packages.md appends to the conffile."""
    block = re.search(r"^    cat >> /etc/sijil/sijild.conf <<'END'\n(.*?)^    END\n", read("docs/packages.md"), re.M | re.S).group(1)
    return re.sub(r"^    ", "", block, flags=re.M)


def the_conffile_with_what_docs_add_is_good():
    """The conffile is the output of --sample-config. This check finds a new setting without a default."""
    assert "--sample-config > $(generated)/sijild.conf" in read("packaging/debian/rules")
    settings = documented_settings()
    assert f'keyd_socket = "{command("sijil-keyd.service")[2]["--socket"]}"' in settings
    assert any(location.startswith(path + "/") for location in re.findall(r'location = "(\S+)"', settings)
               for path in unit("sijild.service")["ReadWritePaths"][0].split())
    with tempfile.TemporaryDirectory() as work:
        make_pair(work)
        settings = settings.replace("/etc/sijil/tls.", work + "/tls.")
        for text, expected in ((sample(), 2), (sample() + settings, 0)):
            with open(work + "/sijild.conf", "w", encoding="utf-8") as file:
                file.write(text)
            code, _, said = run(program("sijild"), f"--config={work}/sijild.conf", "--check-config")
            assert code == expected, (code, expected, said)
            if expected != 0:  # and so the unit does not start it again and again
                assert run(program("sijild"), f"--config={work}/sijild.conf")[0] == expected


def make_pair(work):
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj",
        "/CN=registry.example", "-addext", "subjectAltName=DNS:registry.example", "-keyout", work + "/tls.key", "-out", work + "/tls.pem")


def dependencies_agree():
    listed = re.search(r'^build_packages="(.*?)"', read("script/lib.sh"), re.M | re.S).group(1).split()
    fields = re.search(r"^Build-Depends:\n((?: .*\n)+)", read("packaging/debian/control"), re.M).group(1)
    named = {re.match(r" (\S+?)(?: \(.*\))?,?$", line).group(1) for line in fields.splitlines()}
    # build-essential is implied; the tests, git and certificates are not needed to build packages.
    expected = set(listed) - {"build-essential", "ca-certificates", "git", "libcmocka-dev"}
    assert named - {"debhelper-compat", "dh-sequence-installsysusers"} == expected, named ^ expected
    minimum = re.search(r"^cmake_minimum_required\(VERSION (\S+)\)", read("CMakeLists.txt"), re.M).group(1)
    assert f"cmake (>= {minimum})" in fields


def every_program_is_in_a_package():
    installed = "".join(read(f"packaging/debian/sijil-{part}.install") for part in ("server", "client", "verify", "runner", "witness"))
    for name in re.findall(r"^install\(TARGETS (\S+) ", read("cmd/CMakeLists.txt"), re.M):
        assert re.search(rf"^usr/bin/{name}$", installed, re.M), name


for test in (commands_fit_the_programs, the_unit_of_the_runner_fits, the_runner_s_unit_is_well_formed_and_closed, the_runner_can_read_what_the_pages_name, the_unit_of_the_witness_fits,
             users_and_folders_are_made, limits_leave_room_for_the_settings,
             the_conffile_with_what_docs_add_is_good, dependencies_agree, every_program_is_in_a_package):
    test()
    print("ok", test.__name__)
