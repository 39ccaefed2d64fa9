#!/usr/bin/env python3
"""PyTorch's data-parallel training in runs of several nodes, and of several tasks of one: real runners, sandboxes and tunnels, Gloo as it is. SIJIL_BUILD is a build
folder. tests/interop/gpu.py takes `train_together` for nodes that have devices."""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
if __name__ == "__main__":
    sys.argv = [sys.argv[0], os.path.abspath(os.environ["SIJIL_BUILD"])]
sys.path.insert(0, os.path.join(HERE, "../runner"))
from node_world import NAMES, NodeWorld  # noqa: E402  (its folder is not a package)
from runner_world import run_tests  # noqa: E402

PROGRAM = os.path.join(HERE, "torch/data_parallel.py")


def train_together(world, nodes, tasks=1, python="/usr/bin/python3", environment=(), steps=300, **more):
    """Statements of all nodes' results, and the bytes of the trained model."""
    with open(PROGRAM, encoding="utf-8") as file:
        wanted = world.python(file.read(), nodes=nodes, **{"processes": 512, "cpus": 2, "time_s": 240, **more})
    wanted |= {"tasks": tasks, "argv": [python, "/code/train.py"], "environment": {"HOME": "/tmp", "STEPS": str(steps), "OMP_NUM_THREADS": "1", **dict(environment)}}
    runs = world.peer.order(wanted, NAMES[:nodes])
    outcomes = world.ends(runs)
    assert [one["status"] for one in outcomes] == ["succeeded"] * nodes, (outcomes, [run.log.decode()[-2000:] for run in runs])
    losses = {}
    for line in (line for run in runs for line in run.log.decode().splitlines() if "rank" in line):
        words = line[line.index("rank"):].replace(":", "").split()
        losses.setdefault(int(words[1]), {})[words[-2]] = float(words[-1])
        assert words[3] == str(nodes * tasks), line
    assert sorted(losses) == list(range(nodes * tasks)), losses
    assert all(0 < one["end"] < one["begin"] / 2 for one in losses.values()), losses
    print("   ", f"{nodes} nodes of {tasks}:", ", ".join(f"rank {rank} {one['begin']} to {one['end']}" for rank, one in sorted(losses.items())), flush=True)
    return [world.registry.statement(run.result, run.name) for run in runs], runs


def model_of(world, run):
    return world.files(json.loads(run.result["manifests"]["model"]))["model"]


MEMORY = 4 << 30  # PyTorch's libraries alone map more than one


def ranks_of_two_nodes_learn_the_same(world):
    _, runs = train_together(world, 2, tasks=2, memory_bytes=MEMORY)
    first = model_of(world, runs[0])
    _, again = train_together(world, 2, tasks=2, memory_bytes=MEMORY)
    assert len(first) == 4 * (64 * 256 + 256 + 256 * 4 + 4) and model_of(world, again[0]) == first, "a second run has other weights"


def tasks_of_one_node_train(world):
    train_together(world, 1, tasks=3, memory_bytes=MEMORY)


def three_nodes_train(world):
    train_together(world, 3, memory_bytes=MEMORY)


if __name__ == "__main__":
    run_tests((ranks_of_two_nodes_learn_the_same, tasks_of_one_node_train, three_nodes_train), starts=True, world=NodeWorld)
