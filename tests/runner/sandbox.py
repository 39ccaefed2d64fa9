#!/usr/bin/env python3
"""usage: sandbox.py BUILD-FOLDER   Checks the limits that sijil-runner puts on training code, as root with a user for payloads, and as a
plain user."""
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time

from try_world import BUILD, HERE, MARK, RUNNER, SECONDS, USER, leftovers, run_tests

EXAMPLE = os.path.join(HERE, "../../examples/digits")
INSIDE = os.path.join(BUILD, "cmd/sijil-inside")


def is_held_by_groups(world):
    return world.run("true")[1]["isolation"] != "rlimits"


def calls_and_namespaces(world):
    if os.uname().machine == "x86_64":
        world.held("calls")
        world.held("watching")
    world.held("namespaces")


def network(world):
    name = f"sijil-test-{os.getpid()}"
    with socket.socket() as port, socket.socket(socket.AF_UNIX) as abstract:
        port.bind(("127.0.0.1", 0))
        port.listen()
        abstract.bind("\0" + name)
        abstract.listen()
        report, _, _ = world.held("network", str(port.getsockname()[1]), name)
    assert report["addresses_out_of_reach"] >= 3


def files_and_processes(world):
    world.held("files", os.path.join(world.folder, "spec1.json"))
    world.held("processes", world.folder[::-1])


def inputs_are_copies(world):
    data = os.path.join(world.folder, "data")
    os.mkdir(data)
    with open(os.path.join(data, "a.txt"), "w", encoding="ascii") as file:
        file.write("input\n")
    os.link(os.path.join(data, "a.txt"), os.path.join(data, "b.txt"))
    os.environ["SECRET_OF_PARENT"] = "x"
    report, out, _ = world.held("inputs", options=(f"--input=data={data}", "--add=OMP_NUM_THREADS=3"), environment={"GIVEN": "1"})
    names = out.decode().split("\n", maxsplit=1)[0].split()
    assert set(names) == set(report["environment"]) | {"PWD"} | ({"LC_CTYPE"} & set(names)), names
    assert report["environment"]["OMP_NUM_THREADS"] == "3" and "SECRET_OF_PARENT" not in names
    digest = "sha256:" + hashlib.sha256(b"input\n").hexdigest()
    wanted = hashlib.sha256(f"{digest}  a.txt\n{digest}  b.txt\n".encode()).hexdigest()
    assert report["inputs"] == {"data": "sha256:" + wanted}
    os.symlink("/etc/passwd", os.path.join(data, "c"))
    code, _, _, errors = world.run("true", options=(f"--input=data={data}",))
    assert code == 126 and "symbolic link" in errors, errors


def term_then_kill(world):
    began = time.monotonic()
    code, report, out, _ = world.hostile("stay", limits={"time_s": 1, "grace_s": 1})
    assert code == 124 and report["end"] == "timeout" and report["signal"] == 9 and b"ready" in out, report
    assert 1.9 < time.monotonic() - began < 60
    world.nothing_is_left()
    code, report, out, _ = world.hostile("polite", limits={"time_s": 2, "grace_s": 30})
    assert report["end"] == "timeout" and report["exit"] == 7 and b"TERM came" in out, (report, out)


def cancelled_or_killed(world):
    process = world.start(("/usr/bin/python3", "-B", "/code/hostile.py", "stay", MARK), limits={"grace_s": 1})
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=SECONDS)
    assert json.loads(out)["end"] == "cancelled", (out, errors)
    world.nothing_is_left()
    process = world.start(("/usr/bin/python3", "-B", "/code/hostile.py", "stay"))
    assert process.stdout.readline() == b"ready\n"
    process.kill()
    process.communicate(timeout=SECONDS)
    until = time.monotonic() + 20
    while leftovers() and time.monotonic() < until:
        time.sleep(0.05)
    assert leftovers() == [] and len(os.listdir(world.work)) == 1
    assert world.run("true")[0] == 0  # which sweeps the folder and the group of the runner that was killed
    world.nothing_is_left()


def forks_are_bounded(world):
    code, report, out, _ = world.hostile("bomb", limits={"processes": 20, "time_s": 60})
    count = int(out.split(b"forks ")[1].split()[0])
    assert code == 0 and 10 <= count <= 22, (code, report, out)
    world.nothing_is_left()


def the_log_is_capped(world):
    code, report, out, _ = world.hostile("flood", limits={"log_bytes": 1000})
    kept = (b"0123456789" * 100)[:1000]
    assert code == 0 and report["log_bytes"] == 1000 and report["log_dropped"] == 65530 * 200 - 1000 + len("held\n"), report
    assert out.startswith(kept + b"\n{") and report["log"] == "sha256:" + hashlib.sha256(kept).hexdigest()


def outputs_have_a_size(world):
    report, _, _ = world.held("fill", limits={"output_bytes": 1 << 20})
    assert report["outputs"] == [{"path": "small", "size": 4, "digest": "sha256:" + hashlib.sha256(b"kept").hexdigest()}]


def memory_has_a_size(world):
    code, report, _, errors = world.hostile("memory", limits={"memory_bytes": 64 << 20})
    if report["isolation"] == "rlimits":
        assert code == 1 and "MemoryError" in errors, (code, report, errors)
    else:
        assert report["end"] == "out-of-memory" and report["memory_bytes"] <= 64 << 20 and code != 0, report


REFUSED_OUTPUTS = {"symlink": "symbolic link", "hardlink": "hard link", "socket": "no pipe, socket or device", "setuid": "setuid",
                   "control": "steer a terminal", "bytes": "UTF-8", "long": "128 bytes", "sparse": "sparse", "deep": "16 deep",
                   "count": "more files"}


def outputs_are_refused(world):
    for kind, rule in REFUSED_OUTPUTS.items():
        code, report, _, errors = world.hostile("outputs", kind, limits={"output_files": 25})
        assert code == 125 and rule in report["outputs_refused"] and "d" in report["outputs_refused"], (kind, code, report, errors)
    assert "\x1b" not in json.dumps(world.hostile("outputs", "control")[1], ensure_ascii=False)
    assert world.hostile("outputs", "fifo")[0] == 1  # mknod(2) is refused


def outputs_are_kept(world):
    target = os.path.join(world.folder, "kept")
    code, report, _, errors = world.run("/bin/sh", "-c", "mkdir -p /out/a/b; echo one > /out/a/b/1; echo two > /out/2; chmod 755 /out/2",
                                        options=(f"--output={target}",))
    assert code == 0 and [each["path"] for each in report["outputs"]] == ["2", "a/b/1"], errors
    with open(os.path.join(target, "a/b/1"), encoding="ascii") as file:
        assert file.read() == "one\n"
    assert os.stat(os.path.join(target, "2")).st_mode & 0o777 == 0o755


def outputs_beyond_the_disk_are_told(world):
    """The run is over then: its report comes, with all digests, and no part of a file stays."""
    if world.plain:
        return  # it takes a file system of its own
    place = os.path.join(world.folder, "small")
    os.mkdir(place)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", place], check=True)
    try:
        fill = "for i in 1 2 3; do head -c 40000 /dev/zero > /out/$i; done"
        code, report, _, errors = world.run("/bin/sh", "-c", fill, options=(f"--output={place}/kept",))
        assert code == 123 and [one["path"] for one in report["outputs"]] == ["1", "2", "3"], (code, report, errors)
        assert report["outputs_kept"] == 1 and "No space" in report["outputs_not_kept"] and report["exit"] == 0, report
        assert os.listdir(place + "/kept") == ["1"] and os.path.getsize(place + "/kept/1") == 40000, os.listdir(place + "/kept")
        code, report, _, errors = world.run("/bin/sh", "-c", fill + "; exit 3", options=(f"--output={place}/again",))
        assert code == 3 and report["outputs_kept"] == 0, (code, report, errors)
        shutil.rmtree(place + "/again")
        command = [word for word in world.command(world.spec(), "/bin/sh", "-c", fill, options=(f"--output={place}/again",)) if word != "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 123 and "NOT KEPT   the first 0 of these" in done.stderr and "ended " in done.stderr, done
    finally:
        subprocess.run(["umount", place], check=True)


def nothing_is_made_for_a_run_that_does_not_start(world):
    made = os.path.join(world.folder, "made")
    file = world.spec()
    for options, wanted in (((f"--input=data={world.folder}/nowhere",), "nowhere: No such file"), (("--code=/no/where",), "/no/where: No such file"),
                            ((f"--code={file}",), "--code needs a folder"), (("--least=cgroup-v2", "--cgroup=/no/group"), "")):
        command = world.command(world.spec(), "true", options=(*options, f"--output={made}"))
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, **world.user())
        assert done.returncode == 126 and wanted in done.stderr and not os.path.exists(made), (options, done)


def progress_is_shown(world):
    _, _, errors = world.held("beat")
    assert "heartbeat: epoch 0?[31m\n" in errors and "heartbeat: epoch 2" in errors, errors


def the_floor_is_kept(world):
    gives = world.run("true")[1]["isolation"]
    for level in ("rlimits", "cgroup-v1", "cgroup-v2"):
        wanted = 0 if level <= gives or level == "rlimits" else 126
        if gives == "rlimits" and level != "rlimits":
            wanted = 126
        for options, members in (((f"--least={level}",), {}), ((), {"isolation": level})):
            code, _, _, errors = world.run("true", options=options, **members)
            assert code == wanted and (code == 0 or f"{level} is demanded, and this machine gives {gives}" in errors), (level, code, errors)


BAD_SPECS = [({"limits": {"time": 1}}, "not known"), ({"limits": {"time_s": 0}}, "1 to 2592000"), ({"limits": {"memory_bytes": 1.5}}, "whole number"),
             ({"argv": []}, "argv"), ({"environment": {"a": "b"}}, "names of A-Z"), ({"environment": {"SIJIL_X": "b"}}, "SIJIL_"),
             ({"surprise": 1}, "surprise"), ({"inputs": [{}]}, "name of an input is missing"), ({"devices": {"type": "H200"}}, "count is missing"),
             ({"limits": {"output_bytes": 0}}, "4096"), ({"pool": "Fast"}, "pool"), ({"isolation": "strong"}, "isolation"), ({"inputs": [{"name": "../x"}]}, "name: 1 to 63 of"),
             ({"inputs": [{"name": "train"}]}, "--input=train=PATH"), ({"devices": {"count": 65}}, "1 to 64"), ({"image": {}}, "image")]


def bad_input_is_explained(world):
    for spec, wanted in BAD_SPECS:
        code, _, _, errors = world.run("true", **spec)
        assert code == 126 and wanted in errors, (spec, code, errors)
    for addition in ("LD_PRELOAD=x", "OMP_NUM_THREADS=a", "OMP_NUM_THREADS=", "PATH=/tmp"):
        code, _, _, errors = world.run("true", options=(f"--add={addition}",))
        assert code == 126 and addition.split("=", maxsplit=1)[0] in errors, (addition, code, errors)
    code, _, _, errors = world.run("/no/such/program")
    assert code == 126 and "/no/such/program can't begin" in errors, errors
    assert world.run("false")[0] == 1 and world.run("/bin/sh", "-c", "kill -9 $$")[0] == 137
    assert subprocess.run([RUNNER, "try"], capture_output=True, check=False).returncode == 2
    for wrong in ("train", "=x", "train="):
        assert subprocess.run([RUNNER, "try", "--input", wrong, "/dev/null"], capture_output=True, check=False).returncode == 2, wrong
    for place, wanted in (("/no/such/spec.json", "/no/such/spec.json: "), ("/tmp", "/tmp is a folder"),
                          (os.path.join(EXAMPLE, "spec.yaml"), "spec.yaml: not JSON: try takes the specification in JSON")):
        done = subprocess.run([RUNNER, "try", place], capture_output=True, text=True, check=False)
        assert done.returncode == 126 and wanted in done.stderr, done
    assert subprocess.run([RUNNER, "check", "--quiet"], capture_output=True, check=False).returncode == 2


def training_is_repeatable(world):
    data = os.path.join(world.folder, "digits")
    os.makedirs(data)
    subprocess.run(["/usr/bin/python3", os.path.join(EXAMPLE, "data.py"), data], check=True)
    digests = set()
    for _ in range(2):
        command = [RUNNER, "try", os.path.join(EXAMPLE, "run.json"), f"--work={world.work}", "--json", f"--code={EXAMPLE}", f"--input=digits={data}",
                   *([] if world.plain else [f"--user={USER}"])]
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False, **world.user())
        assert done.returncode == 0, done
        learned, report = (json.loads(line) for line in done.stdout.splitlines())
        assert learned["accuracy"] > 0.85 and b"heartbeat: epoch" in done.stderr
        digests.add(report["outputs"][0]["digest"])
    assert len(digests) == 1 and report["outputs"][0]["path"] == "model/digits.onnx"


REFUSED_DEVICES = [({"count": 2, "type": "H200"}, "2 devices H200 with 0 MiB each are asked for; this machine has 6 devices, and 1 fit"),
                   ({"count": 1, "type": "H20"}, "0 fit"), ({"count": 1, "memory_bytes": 1 << 40}, "0 fit"), ({"count": 3}, "2 fit"),
                   ({"count": 3, "mig": "1g.18gb"}, "of the MIG profile 1g.18gb with 0 MiB each are asked for; this machine has 6 devices, and 2 fit"),
                   ({"count": 1, "mig": "3g.71gb"}, "0 fit"), ({"count": 1, "mig": "1g.18gb", "type": "A100-SXM4-40GB"}, "0 fit"),
                   ({"count": 1, "mig": "1g.18gb", "memory_bytes": 20 << 30}, "0 fit")]
PARTS = [({"count": 1, "mig": "1g.18gb", "type": "H200"}, [10], "gpu-instance"), ({"count": 2, "mig": "1g.18gb"}, [10, 12], "gpu-instance"),
         ({"count": 1, "mig": "1c.3g.71gb", "memory_bytes": 60 << 30}, [13], "compute-instance")]


def parts_of_devices_are_granted(world):
    """Devices in MIG mode: each part opens by two nodes of its own, beside that of its device."""
    nodes = os.path.join(world.folder, "parts")
    os.makedirs(os.path.join(nodes, "nvidia-caps"))
    for name in ("nvidia0", "nvidia1", "nvidia2", "nvidiactl"):
        os.symlink("/dev/null", os.path.join(nodes, name))
    for instance in (0, 2, 3):
        for number, place in ((20 + instance, f"gi{instance}"), (30 + instance, f"gi{instance}/ci0")):
            folder = os.path.join(nodes, "capabilities/gpu2/mig", place)
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, "access"), "w", encoding="ascii") as file:
                file.write(f"DeviceFileMinor: {number}\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
            os.symlink("/dev/null", os.path.join(nodes, f"nvidia-caps/nvidia-cap{number}"))
    driver = (f"--nvml={os.path.join(BUILD, 'tests/runner/libfake_nvml.so')}", f"--devices={nodes}")
    show = ("/bin/sh", "-c", "echo $CUDA_VISIBLE_DEVICES; echo $(ls /dev | grep nvidia) $(ls /dev/nvidia-caps)")
    for request, numbers, isolation in PARTS:
        code, report, out, errors = world.run(*show, options=driver, devices=request)
        uuids = [f"MIG-00000000-1111-2222-3333-4444444444{number}" for number in numbers]
        caps = sorted(f"nvidia-cap{ten + number - 10}" for number in numbers for ten in (20, 30))
        assert code == 0 and out.decode().startswith(f"{','.join(uuids)}\nnvidia-caps nvidia2 nvidiactl {' '.join(caps)}\n{{"), (code, out, errors)
        seen = report["devices"]
        assert [(one["uuid"], one["mig"], one["part_of"], one["isolation"]) for one in seen] == [
            (uuid, request["mig"], "GPU-00000000-1111-2222-3333-444444444442", isolation) for uuid in uuids], seen
        assert all(one["type"] == "NVIDIA H200 MIG " + request["mig"] and one["memory_bytes"] >> 30 == (71 if numbers == [13] else 18) for one in seen), seen
    os.unlink(os.path.join(nodes, "nvidia-caps/nvidia-cap33"))
    code, _, _, errors = world.run("true", options=driver, devices=PARTS[2][0])
    assert code == 126 and "nvidia-cap33 is not there" in errors, errors
    for text in ("", "DeviceFileMinor: -1\n", "DeviceFileMinor: 99999999999\n", "x" * 5000):
        with open(os.path.join(nodes, "capabilities/gpu2/mig/gi0/access"), "w", encoding="ascii") as file:
            file.write(text)
        code, _, _, errors = world.run("true", options=driver, devices=PARTS[0][0])
        assert code == 126 and "does not name a node" in errors, errors


def devices_are_granted_or_refused(world):
    nodes = os.path.join(world.folder, "nodes")
    os.makedirs(nodes, exist_ok=True)
    for name in ("nvidia0", "nvidia1", "nvidia2", "nvidiactl"):
        os.symlink("/dev/null", os.path.join(nodes, name))
    driver = (f"--nvml={os.path.join(BUILD, 'tests/runner/libfake_nvml.so')}", f"--devices={nodes}")
    show = ("/bin/sh", "-c", "sleep 1.5; echo $CUDA_VISIBLE_DEVICES; ls /dev | grep nvidia")
    for request, number, kind in (({"count": 1, "type": "H200"}, 0, "NVIDIA H200"), ({"count": 1, "type": "A100-SXM4-40GB"}, 1, "NVIDIA A100-SXM4-40GB")):
        code, report, out, errors = world.run(*show, options=driver, devices=request)
        uuid = f"GPU-00000000-1111-2222-3333-44444444444{number}"
        assert code == 0 and out.decode().startswith(f"{uuid}\nnvidia{number}\nnvidiactl\n{{"), (code, out, errors)
        device = report["devices"][0]
        assert len(report["devices"]) == 1 and (device["uuid"], device["type"], device["driver"]) == (uuid, kind, "570.86.15"), report
        assert device["utilisation_percent"] == (87 if number == 0 else 5), device
    for request, wanted in REFUSED_DEVICES:
        code, _, _, errors = world.run("true", options=driver, devices=request)
        assert code == 126 and wanted in errors, (request, errors)
    os.unlink(os.path.join(nodes, "nvidia0"))
    code, _, _, errors = world.run("true", options=driver, devices={"count": 1, "type": "H200"})
    assert code == 126 and "nvidia0 is not there" in errors, errors
    code, _, _, errors = world.run("true", options=driver, devices={"count": 1}, environment={"CUDA_VISIBLE_DEVICES": "0"})
    assert code == 126, errors
    for library in ("libno-such-driver.so.1", "libjansson.so.4"):
        code, _, _, errors = world.run("true", options=(f"--nvml={library}",), devices={"count": 1})
        assert code == 126 and ("no driver" in errors or "has no nvmlInit_v2" in errors), errors
    assert "devices" not in world.run("true", options=driver)[1]


def an_open_sandbox_is_refused(world):
    """Runs sijil-inside in sandboxes that bwrap leaves open: it must notice each. Only sijil-runner makes a closed one."""
    base = ["bwrap", "--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000", "--ro-bind", "/usr", "/usr", "--proc", "/proc",
            "--ro-bind", os.path.realpath(INSIDE), "/inside"]
    rows = [((), "privileges are left"), (("--share-net",), "127.0.0.1"), (("--uid", "0"), "privileges are left")]
    for more, wanted in rows:
        with socket.socket() as port:
            port.bind(("127.0.0.1", 0))
            port.listen()
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            number = str(theirs.fileno())
            address = ["127.0.0.1", str(port.getsockname()[1])] if more == ("--share-net",) else []
            command = base + list(more) + ["--", "/inside", number, "10", "-", "1", "0", *address, "--", "/usr/bin/true"]
            with subprocess.Popen(command, pass_fds=[theirs.fileno()], **world.user()) as process:
                theirs.close()
                ours.settimeout(SECONDS)
                said = ours.recv(300).decode()
                ours.close()
                assert said == "open: " + wanted, (more, said)
                assert process.wait(SECONDS) == 125


def check_says_what_is_there(world):
    more = [] if world.plain else [f"--user={USER}"]
    command = [RUNNER, "check", "--json", f"--work={world.work}", *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS, **world.user())
    said = json.loads(done.stdout)
    assert done.returncode == 0 and said["sandbox"] and said["meets_floor"] and said["start_us"] > 0, said
    assert said["images"] == os.access("/usr/bin/umoci", os.X_OK), said
    if said["isolation"] != "cgroup-v2":
        done = subprocess.run(command + ["--least=cgroup-v2"], capture_output=True, text=True, check=False, timeout=SECONDS, **world.user())
        assert done.returncode == 1 and not json.loads(done.stdout)["meets_floor"]
    relative = [RUNNER, "check", "--json", "--work=" + os.path.relpath(world.work, world.folder), *more]
    done = subprocess.run(relative, capture_output=True, text=True, check=False, cwd=world.folder, **world.user())
    assert done.returncode == 0 and json.loads(done.stdout)["sandbox"], done
    missing = [f"--user={USER}x"] if not world.plain else [f"--work={world.folder}/a/b/c"]
    done = subprocess.run([RUNNER, "check", f"--work={world.work}", *missing], capture_output=True, text=True, check=False, **world.user())
    assert done.returncode == 1 and "does not work" in done.stdout and "NOT met" in done.stdout, done.stdout


TESTS = (check_says_what_is_there, calls_and_namespaces, network, files_and_processes, inputs_are_copies, term_then_kill, cancelled_or_killed,
         forks_are_bounded, the_log_is_capped, outputs_have_a_size, memory_has_a_size, outputs_are_refused, outputs_are_kept,
         outputs_beyond_the_disk_are_told, nothing_is_made_for_a_run_that_does_not_start, progress_is_shown,
         the_floor_is_kept, bad_input_is_explained, training_is_repeatable, devices_are_granted_or_refused, parts_of_devices_are_granted, an_open_sandbox_is_refused)


run_tests(TESTS)
