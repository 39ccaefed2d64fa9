#!/usr/bin/env python3
"""Trains on a real NVIDIA device in the sandbox of a run: what the driver says of the device, what the run sees of it, and what its report and its signed
result say afterwards. SIJIL_BUILD is a build folder. GPU_TRAIN names the program tests/interop/gpu/train.c if it is built already, GPU_PYTHON a python3
below /usr that has PyTorch, GPU_CGROUP a delegated folder of control groups."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(os.environ["SIJIL_BUILD"])
RUNNER = os.path.join(BUILD, "cmd/sijil-runner")
STEPS = os.environ.get("GPU_STEPS", "4000")
SECONDS = 280
sys.dont_write_bytecode = True
sys.argv = [sys.argv[0], BUILD]
sys.path.insert(0, os.path.join(HERE, "../runner"))
sys.path.insert(0, os.path.join(HERE, "../support"))
try:
    from runner_world import World as Served, spec as spec_of  # needs python3-cryptography
    from torch_nodes import NodeWorld, train_together
except (ImportError, SystemExit) as error:
    Served, NO_SERVED = None, error
from images import Image  # noqa: E402


class World:
    def __init__(self, folder):
        self.folder, self.count = folder, 0
        self.user = ["--user=" + ("sijil-run" if subprocess.run(["id", "sijil-run"], capture_output=True, check=False).returncode == 0 else "nobody")]
        if os.geteuid() != 0:
            self.user = []
        self.user += [f"--cgroup={os.environ['GPU_CGROUP']}"] if "GPU_CGROUP" in os.environ else []
        self.code = os.path.join(folder, "code")
        os.mkdir(self.code)
        os.chmod(folder, 0o755)
        built = os.environ.get("GPU_TRAIN")
        if built:
            shutil.copy(built, os.path.join(self.code, "train"))
        else:
            subprocess.run(["cc", "-O2", "-o", os.path.join(self.code, "train"), os.path.join(HERE, "gpu/train.c"), "-ldl"], check=True)
        shutil.copy(os.path.join(HERE, "gpu/torch_train.py"), self.code)
        done = subprocess.run([RUNNER, "check", "--json", f"--work={folder}/work", *self.user], capture_output=True, text=True, timeout=SECONDS, check=False)
        self.machine = json.loads(done.stdout)
        self.devices = self.machine["devices"]
        # CUDA reserves far more addresses than memory; rlimits can count addresses alone.
        self.memory = 1 << 47 if self.machine["isolation"] == "rlimits" else 32 << 30

    def run(self, *words, devices=None, options=(), limits=(), **members):
        """(exit status, report or None, what it printed, errors)"""
        self.count += 1
        path = os.path.join(self.folder, f"spec{self.count}.json")
        limits = {"time_s": 240, "memory_bytes": self.memory, "output_bytes": 64 << 20, "processes": 4096, "cpus": 8, **dict(limits)}
        with open(path, "w", encoding="ascii") as file:
            json.dump({"limits": limits, **({} if devices is None else {"devices": devices}), **members}, file)
        done = subprocess.run([RUNNER, "try", path, f"--work={self.folder}/work", "--json", f"--code={self.code}", *self.user, *options, "--", *words],
                              capture_output=True, text=True, timeout=SECONDS, check=False)
        lines = done.stdout.rsplit("\n", 2)
        report = json.loads(lines[-2]) if len(lines) > 1 and lines[-2].startswith("{") else None
        return done.returncode, report, done.stdout, done.stderr

    def trained(self, *words, **more):
        code, report, out, errors = self.run(*words, devices={"count": 1, "type": self.type()}, **more)
        assert code == 0, (code, report, out, errors)
        return report, out

    def type(self):
        """Of the first device, without the maker's name."""
        return self.devices[0]["type"].removeprefix("NVIDIA ")


def losses(out, begins="loss "):
    return [float(line.split()[-1]) for line in out.splitlines() if line.removeprefix("[0] ").startswith(begins)]


def check_device(report, world):
    device = report["devices"][0]
    assert len(report["devices"]) == 1 and device["uuid"] == world.devices[0]["uuid"] and device["driver"] == world.devices[0]["driver"], report["devices"]
    assert device["utilisation_percent"] > 0 and device["memory_in_use"] > 0, device
    print("   ", json.dumps(device), flush=True)


def the_driver_says_what_nvidia_smi_says(world):
    if shutil.which("nvidia-smi") is None:
        print("    there is no nvidia-smi to compare with")
        return
    said = subprocess.run(["nvidia-smi", "--query-gpu=uuid,name,driver_version,memory.total", "--format=csv,noheader,nounits"], capture_output=True, text=True,
                          check=True).stdout
    rows = [line.split(", ") for line in said.splitlines()]
    assert [row[:3] for row in rows] == [[one["uuid"], one["type"], one["driver"]] for one in world.devices], (rows, world.devices)
    for row, one in zip(rows, world.devices):
        # nvidia-smi counts a part that the driver keeps for itself otherwise than NVML's first version
        assert abs(int(row[3]) * (1 << 20) - one["memory_bytes"]) < 2 << 30, (row, one)


def only_granted_nodes_are_there(world):
    _, out = world.trained("/bin/sh", "-c", "ls /dev; echo visible $CUDA_VISIBLE_DEVICES; ls /proc/driver/nvidia/gpus 2> /dev/null; true")
    nodes = {name for name in out.split() if name.startswith("nvidia")}
    assert len([name for name in nodes if name[6:].isdigit()]) == 1 and "nvidiactl" in nodes and nodes <= {*(f"nvidia{n}" for n in range(64)), "nvidiactl",
                                                                                                           "nvidia-uvm", "nvidia-uvm-tools"}, out
    assert f"visible {world.devices[0]['uuid']}\n" in out, out


def without_devices_there_are_none(world):
    code, report, out, errors = world.run("/bin/sh", "-c", "ls /dev | grep nvidia; /code/train 1; echo status $?")
    assert code == 0 and "nvidia" not in out.split("{")[0] and "status 3" in out, (out, errors)
    assert "devices" not in report


def what_is_absent_is_refused(world):
    count = len(world.devices)
    for asked, wanted in (({"count": 1, "type": "No Such Device"}, "asked for"), ({"count": count + 1}, "asked for"), ({"count": 1, "mig": "1g.10gb"}, "MIG"),
                          ({"count": 1, "memory_bytes": 1 << 50}, "asked for")):
        code, report, out, errors = world.run("/code/train", "1", devices=asked)
        assert code == 126 and report is None and wanted in errors and "loss" not in out, (asked, code, errors)


def training_on_the_device_is_measured(world):
    digests = set()
    for _ in range(2):
        report, out = world.trained("/code/train", STEPS)
        check_device(report, world)
        assert f"device {world.devices[0]['uuid']}\n" in out and "devices 1\n" in out, out
        first, last = losses(out)
        assert 0 < last < first / 2, out
        digests.add(report["outputs"][0]["digest"])
    assert len(digests) == 1, digests
    print(f"    loss {first} to {last} in {STEPS} steps, {report['wall_ms']} ms; weights {digests.pop()[:19]} twice")


def tasks_share_the_device(world):
    report, out = world.trained("/bin/sh", "-c", "echo rank $RANK of $WORLD_SIZE; /code/train 500", tasks=2, network="tasks")
    assert {"[0] rank 0 of 2", "[1] rank 1 of 2"} <= set(out.splitlines()) and out.count(f"device {world.devices[0]['uuid']}") == 2, out
    check_device(report, world)


def an_image_gets_the_driver(world):
    """An image with the program and the C library alone: the driver's libraries come from this machine."""
    if not os.access("/usr/bin/umoci", os.X_OK):
        print("    left out: there is no umoci")
        return
    image = Image(os.path.join(world.folder, "image"))
    libraries = subprocess.run(["ldd", os.path.join(world.code, "train")], capture_output=True, text=True, check=True).stdout
    files = {word for line in libraries.splitlines() for word in line.split() if word.startswith("/")}
    for name in ("libdl.so.2", "libpthread.so.0", "librt.so.1", "libm.so.6"):  # of the driver's libraries
        files |= {os.path.join(os.path.dirname(path), name) for path in files if "libc.so" in path and os.path.exists(os.path.join(os.path.dirname(path), name))}
    image.add_layer({path: image.file_of(path) for path in files} | {"/bin/train": image.file_of(os.path.join(world.code, "train"), 0o755)})
    image.write()
    report, out = world.trained("/bin/train", STEPS, options=(f"--image={image.folder}",))
    check_device(report, world)
    assert report["environment"]["LD_LIBRARY_PATH"] == "/run/sijil-driver" and losses(out)[1] < losses(out)[0], (report, out)


PYTHON, PATHS = os.environ.get("GPU_PYTHON", "/usr/bin/python3"), os.environ.get("GPU_PYTHONPATH", "")


def has_pytorch():
    done = subprocess.run([PYTHON, "-c", "import torch; assert torch.cuda.is_available()"], env={**os.environ, "PYTHONPATH": PATHS}, capture_output=True, check=False)
    if done.returncode != 0:
        print("    left out: no PyTorch that sees a device below /usr")
    return done.returncode == 0


def pytorch_trains(world):
    if not has_pytorch():
        return
    report, out = world.trained(PYTHON, "/code/torch_train.py", limits={"memory_bytes": max(world.memory, 64 << 30)},
                                environment={"PYTHONPATH": PATHS, "HOME": "/tmp"} if PATHS else {"HOME": "/tmp"})
    check_device(report, world)
    first, last = losses(out)
    assert last < first / 2 and world.devices[0]["uuid"] in out, out
    print("   ", " | ".join(out.splitlines()[:6])[:300])


def a_signed_result_names_the_device(world):
    if Served is None:
        print(f"    left out: {NO_SERVED}")
        return
    place = os.path.join(world.folder, "served")
    os.mkdir(place)
    served = Served(place)
    served.start("--limit=memory_bytes=9007199254740991", "--memory=9007199254740991", *[word for word in world.user if word.startswith("--cgroup")])
    try:
        with open(os.path.join(world.code, "train"), "rb") as file:
            program = file.read()
        text = "cp /code/train /tmp/train; chmod 755 /tmp/train; /tmp/train %s && mkdir /out/model && mv /out/weights.bin /out/model/" % STEPS
        code = served.peer.push("code", {"train.sh": text.encode(), "train": program})
        wanted = spec_of(code, memory_bytes=world.memory, time_s=240, processes=4096, devices={"count": 1, "type": world.type(), "memory_bytes": 1 << 30})
        run, _ = served.give(wanted)
        served.peer.wait(lambda: run.result or run.refusal, "no result", 240)
        assert run.refusal is None, served.registry.opened(run.refusal)
        details = served.statement(run)["predicate"]["runDetails"]
        assert details["sijil_outcome"]["status"] == "succeeded", (details, run.log)
        device = details["sijil_devices"][0]
        assert (device["uuid"], device["driver"]) == (world.devices[0]["uuid"], world.devices[0]["driver"]) and device["utilisation_percent"] > 0, device
        assert details["sijil_usage"]["device_ms"] > 0, details
        print("    signed:", json.dumps(device), flush=True)
        refused, _ = served.give({**wanted, "devices": {"count": 1, "type": "No Such Device", "memory_bytes": 0}})
        served.peer.wait(lambda: refused.result or refused.refusal, "no refusal")
        assert served.registry.opened(refused.refusal)["check"] == "devices"
        served.stop()
    except BaseException:
        with open(served.log, encoding="utf-8", errors="replace") as file:
            print(file.read()[-4000:])
        raise
    finally:
        if served.process.poll() is None:
            served.kill()


def nodes_train_on_devices(world):
    """Two runners, each with a device (here the same one), train one model over the network of the attempt."""
    if Served is None or not has_pytorch():
        return
    place = os.path.join(world.folder, "nodes")
    os.mkdir(place)
    served = NodeWorld(place)
    served.start("--limit=memory_bytes=9007199254740991", "--memory=9007199254740991", *[word for word in world.user if word.startswith("--cgroup")])
    try:
        statements, runs = train_together(served, 2, python=PYTHON, environment={"PYTHONPATH": PATHS} if PATHS else {}, steps=2000, processes=4096,
                                          memory_bytes=max(world.memory, 64 << 30), devices={"count": 1, "type": world.type(), "memory_bytes": 1 << 30})
        for statement, run in zip(statements, runs):
            device = statement["predicate"]["runDetails"]["sijil_devices"][0]
            assert device["uuid"] == world.devices[0]["uuid"] and device["utilisation_percent"] > 0, device
            assert f"device {world.devices[0]['uuid']}" in run.log.decode(), run.log
            print("    signed:", json.dumps(device), flush=True)
        served.stop()
    finally:
        served.kill()


TESTS = (the_driver_says_what_nvidia_smi_says, only_granted_nodes_are_there, without_devices_there_are_none, what_is_absent_is_refused,
         training_on_the_device_is_measured, tasks_share_the_device, an_image_gets_the_driver, a_signed_result_names_the_device, pytorch_trains,
         nodes_train_on_devices)


def main():
    folder = tempfile.mkdtemp(prefix="sijil-gpu-", dir="/var/tmp")
    failed = 0
    try:
        world = World(folder)
        print("machine", json.dumps(world.machine), flush=True)
        if not world.devices or not world.machine["sandbox"]:
            print("left out:", "no sandbox can be made: " + world.machine["why"] if not world.machine["sandbox"] else "there is no NVIDIA device")
            return 0
        for test in TESTS:
            try:
                test(world)
                print("ok", test.__name__, flush=True)
            except (AssertionError, subprocess.SubprocessError, OSError) as why:
                failed += 1
                print("FAILED", test.__name__, repr(why)[:3000], flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


sys.exit(main())
