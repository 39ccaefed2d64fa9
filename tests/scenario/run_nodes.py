#!/usr/bin/env python3
"""Runs of several nodes from end to end: real runners, each with its own sandbox and a real network between them, train the digits model together on two gateways. The
result is admitted, and is the same each time; a node that is killed ends the attempt for all, and the next attempt comes to the same model."""
import atexit
import json
import os
import shutil
import subprocess
import sys

import sijil_test
from ports import free_port
from real_runner import RealRunner
from run_fleet import RunFleet
from run_world import PROJECT, Person, Runner, World, spec
from sijil_test import make_robot, run

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/digits")
server = RunFleet(2).start()
state = {}


def prepare():
    conninfo = f"host={server.database_at} dbname=sijil_template user=sijil_app"
    world = state["world"] = World(server, server.path("approver.pem"), conninfo, server.path("socket"))
    server.load()
    state["alice"] = Person(world, "alice")
    state["pusher"] = server.client(make_robot(server, "pusher", "publisher", PROJECT))
    state["reader"] = server.client(make_robot(server, "reader", "consumer", PROJECT))
    subprocess.run(["/usr/bin/python3", os.path.join(EXAMPLE, "data.py"), server.path("data")], check=True, capture_output=True)
    state["code"] = push("code", {name: os.path.join(EXAMPLE, name) for name in ("train.py", "train_nodes.py")})
    state["data"] = push("digits", {"digits.csv": server.path("data/digits.csv")})
    state["runners"] = []
    for number in range(3):
        runner = Runner(world, pool="cluster")
        state["runners"].append(RealRunner(server, runner, port=server.ports[number % 2], words=[f"--tunnel-listen=127.0.0.1:{free_port()}"]))
        state["runners"][-1].name = runner.key.name
    atexit.register(clean_up)


def clean_up():
    for one in state["runners"]:
        if one.process is not None and one.process.poll() is None:
            one.kill()
        shutil.rmtree(one.folder, ignore_errors=True)


def push(name, files):
    place, layers = state["pusher"].repository(f"{PROJECT}/{name}"), {}
    for title, path in files.items():
        with open(path, "rb") as file:
            layers[title] = file.read()
    for content in layers.values():
        place.push_blob(content)
    manifest = json.loads(place.manifest(*layers.values()))
    for layer, title in zip(manifest["layers"], layers):
        layer["annotations"] = {"org.opencontainers.image.title": title}
    answer = place.put_manifest("latest", json.dumps(manifest).encode())
    assert answer.status == 201, answer.body
    return {"repository": f"{PROJECT}/{name}", "digest": answer["Docker-Content-Digest"]}


def digits(nodes, **more):
    limits = {**spec()["limits"], "memory_bytes": 1 << 31, "time_s": 300}
    return spec(code=state["code"], inputs=[{"name": "digits", **state["data"]}], argv=["/usr/bin/python3", "/code/train_nodes.py"], nodes=nodes, network="tasks",
                pool="cluster", limits=limits, environment={name: value for name, value in (("OMP_NUM_THREADS", "1"), ("OPENBLAS_NUM_THREADS", "1"),
                                                                                          ("PYTHONDONTWRITEBYTECODE", "1"))}, **more)


def said():
    return "\n".join(one.said()[-3000:] for one in state["runners"])


def ended(asked, wanted, seconds=120):
    try:
        state["alice"].wait(asked, wanted, seconds)
    except AssertionError:
        print(said(), file=sys.stderr)
        raise
    return state["alice"].run(asked)


def log_of(asked, node):
    answer = state["alice"].call("GET", f"/{asked['run']}/log?node={node}")
    assert answer.status == 200, (answer.status, answer.body)
    return answer.body


def the_nodes_train_one_model():
    for one in state["runners"]:
        one.start()
    models = {}
    for nodes in (2, 3, 2):
        asked = state["alice"].request(spec=digits(nodes))
        shown = ended(asked, "succeeded")
        assert len(shown["outputs"]) == 1 and shown["attempt"] == 1, shown
        models.setdefault(nodes, set()).add(shown["outputs"][0]["digest"])
        (first,) = [json.loads(line) for line in log_of(asked, 0).splitlines() if line.startswith(b"{")]
        assert first["accuracy"] > 0.85 and first["ranks"] == nodes, first
        for node in range(1, nodes):
            assert b"epoch 200 of 200" in log_of(asked, node) and b"accuracy" not in log_of(asked, node)
    assert len(models[2]) == 1, "the same run gives another model"
    state["model"] = models[2].pop()
    manifest = state["reader"].repository(PROJECT + "/trained").call("GET", "manifests/" + state["model"], scope=f"repository:{PROJECT}/trained:pull")
    assert manifest.status == 200 and len(manifest.json["layers"]) == 1, manifest.body


def several_tasks_on_each_node():
    asked = state["alice"].request(spec=digits(2, tasks=2))
    ended(asked, "succeeded")
    lines = log_of(asked, 0).splitlines()
    assert any(b'"ranks": 4' in line for line in lines if line.startswith(b"[0] ")), lines


def slow(seconds):
    """It waits before it meets the others."""
    wanted = digits(2)
    return {**wanted, "argv": ["/bin/sh", "-c", f"echo begun; sleep {seconds}; exec /usr/bin/python3 /code/train_nodes.py"]}


def tell(asked, message):
    """The runners that have said this of the run."""
    return [one for one in state["runners"] if any(message in line and asked["run"] in line for line in one.said().splitlines())]


def begun(asked):
    """The runners of a run whose programs go on."""
    state["alice"].wait(asked, "running", 60)
    sijil_test.wait_until(lambda: all(b"begun" in log_of(asked, node) for node in (0, 1)), 30, "the programs do not begin")
    assert len(tell(asked, "run started")) == 2
    return tell(asked, "run started")


def a_node_that_is_killed_ends_the_attempt_for_all():
    asked = state["alice"].request(spec=slow(8))
    killed, other = begun(asked)
    killed.kill()
    server.sql(f"UPDATE run_attempt SET deadline = now() WHERE run_id = '{asked['run']}' AND ended_at IS NULL AND key = '{killed.name}'")  # silent from now on
    sijil_test.wait_until(lambda: other in tell(asked, "the registry stops the run"), 60, "the other node goes on")
    before = killed.said().count('"serving"')
    killed.start()
    sijil_test.wait_until(lambda: killed.process.poll() is not None or killed.said().count('"serving"') > before, 60, "it does not serve again")
    assert killed.process.poll() is None, killed.said()[-3000:]
    shown = ended(asked, "succeeded", 180)
    assert shown["attempt"] == 2 and shown["outputs"][0]["digest"] == state["model"], shown


def a_run_that_is_cancelled_ends_on_all_nodes():
    asked = state["alice"].request(spec=slow(600))
    assert len(begun(asked)) == 2 and state["alice"].call("DELETE", "/" + asked["run"]).status == 204
    sijil_test.wait_until(lambda: len(tell(asked, "the registry stops the run")) == 2, 60, "a node goes on")
    for one in state["runners"]:
        one.process.terminate()
        assert one.process.wait(90) == 0, one.said()[-3000:]


if __name__ == "__main__":
    run(prepare, the_nodes_train_one_model, several_tasks_on_each_node, a_node_that_is_killed_ends_the_attempt_for_all, a_run_that_is_cancelled_ends_on_all_nodes,
        server=server)
