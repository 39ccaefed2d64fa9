#!/usr/bin/env python3
"""usage: task_runs.py BUILD-FOLDER   Several tasks of one run in one sandbox: their variables, their network, their log, and one end for all."""
import re
import time

from try_world import MARK, run_tests

RING = """
import os, socket, sys
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(place) as server:
        peers = [server.accept()[0] for _ in range(world - 1)]
        total = sum(int(peer.recv(16)) for peer in peers)
        for peer in peers:
            peer.sendall(b"%d" % total)
else:
    for attempt in range(200):
        try:
            peer = socket.create_connection(place)
            break
        except ConnectionRefusedError:
            import time; time.sleep(0.05)
    peer.sendall(b"%d" % rank)
    total = int(peer.recv(16))
try:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)  # another protocol than routes
    print("netfilter")
except OSError:
    print("total", total, [name for _, name in socket.if_nameindex()])  # Gloo asks, too
"""


def lines_of(out):
    return [line for line in out.decode("utf-8", "replace").split("\n") if line and not line.startswith("{")]


def shell(world, text, **members):
    return world.run("/bin/sh", "-c", text + f"\n: {MARK}", **members)


def each_task_has_its_rank(world):
    names = ("RANK", "LOCAL_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "MASTER_ADDR",
             "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")
    text = "echo " + " ".join(f"${{{name}-none}}" for name in names)
    code, report, out, errors = shell(world, text, tasks=3)
    assert code == 0, errors
    assert sorted(lines_of(out)) == [f"[{rank}] {rank} {rank} {rank} 3 3 3 0 1 127.0.0.1 29500 0" for rank in range(3)], out
    assert report["environment"]["WORLD_SIZE"] == "3" and "RANK" not in report["environment"]
    code, report, out, _ = shell(world, text, tasks=1, network="tasks")
    assert lines_of(out) == ["0 0 0 1 1 1 0 1 127.0.0.1 29500 0"] and report["environment"]["RANK"] == "0", out
    assert lines_of(shell(world, text)[2]) == [" ".join(["none"] * len(names))]


def tasks_reach_each_other(world):
    for network in ("tasks", "none"):
        code, report, out, errors = world.run("/usr/bin/python3", "-c", RING, tasks=4, network=network)
        assert code == 0 and sorted(lines_of(out)) == [f"[{rank}] total 6 ['lo']" for rank in range(4)], (out, errors)
        assert report["addresses_out_of_reach"] >= 3


def the_own_name_has_an_address(world):
    """Gloo looks it up, and warned. A program that reaches nobody has no such file."""
    text = "import socket; print(socket.gethostname(), socket.gethostbyname(socket.gethostname()), socket.gethostbyname('localhost'))"
    for members in ({"tasks": 2}, {"tasks": 1, "network": "tasks"}):
        code, _, out, errors = world.run("/usr/bin/python3", "-c", text, **members)
        assert code == 0 and {line.split("] ")[-1] for line in lines_of(out)} == {"sandbox 127.0.0.1 127.0.0.1"}, (out, errors)
    assert shell(world, "test ! -e /etc/hosts")[0] == 0


def one_failure_ends_all(world):
    began = time.monotonic()
    code, report, out, errors = shell(world, "if [ $RANK = 1 ]; then sleep 0.3; exit 7; fi; trap 'echo told; exit 0' TERM; sleep 60 & wait", tasks=3,
                                      limits={"grace_s": 30})
    assert code == 7 and report["exit"] == 7 and report["end"] == "ended" and time.monotonic() - began < 25, (code, report)
    assert "[sijil] task 1 ended with status 7: all tasks are stopped" in errors and lines_of(out).count("[0] told") == 1, (out, errors)
    world.nothing_is_left()
    code, report, _, errors = shell(world, "trap '' TERM; if [ $RANK = 2 ]; then kill -9 $$; fi; sleep 60", tasks=3, limits={"grace_s": 1})
    assert code == 137 and report["signal"] == 9 and "task 2 was ended by signal 9" in errors, (code, report, errors)
    assert report["wall_ms"] < 20000, report
    world.nothing_is_left()


def the_first_failure_counts(world):
    code, report, _, errors = shell(world, "if [ $RANK = 0 ]; then exit 3; fi; trap 'exit 9' TERM; sleep 60 & wait", tasks=4)
    assert code == 3 and report["exit"] == 3 and errors.count("[sijil]") == 1, (code, errors)


def lines_stay_whole(world):
    text = "i=0; while [ $i -lt 300 ]; do echo line $i of $RANK; echo error $i >&2; i=$((i+1)); done; printf 'no end'"
    code, report, out, errors = shell(world, text, tasks=4, limits={"log_bytes": 10 << 20})
    assert code == 0
    for rank in range(4):
        mine = [line for line in lines_of(out) if line.startswith(f"[{rank}] ")]
        assert mine == [f"[{rank}] line {at} of {rank}" for at in range(300)] + [f"[{rank}] no end"], mine[-3:]
        assert f"[{rank}] error 299\n" in errors
    assert all(re.match(r"\[\d\] ", line) for line in lines_of(out))
    code, _, out, _ = world.run("/usr/bin/python3", "-c", "import sys; sys.stdout.write('x' * 20000 + chr(0) + 'y')", tasks=2)
    mine = [line[4:] for line in lines_of(out) if line.startswith("[1] ")]
    assert code == 0 and [len(one) for one in mine] == [8192, 8192, 20002 - 16384] and mine[2].endswith("x\0y"), [len(one) for one in mine]


def what_a_task_leaves_ends_with_the_tasks(world):
    for leaves in ("yes", "sleep 60"):  # one writes on and on, one only holds the log open
        code, report, out, _ = shell(world, f"for i in 1 2 3; do {leaves} & done; sleep 0.3; echo the last of $RANK", tasks=2, limits={"time_s": 60})
        assert code == 0 and report["end"] == "ended" and report["wall_ms"] < 20000, (leaves, code, report)
        assert leaves == "yes" or sorted(lines_of(out)) == [f"[{rank}] the last of {rank}" for rank in range(2)], out
        world.nothing_is_left()


def a_program_that_is_not_there(world):
    code, _, _, errors = world.run("/no/such/program", tasks=3)
    assert code == 126 and "/no/such/program can't begin" in errors, (code, errors)


def time_and_cancellation_reach_all(world):
    code, report, out, _ = shell(world, "trap 'echo told; exit 0' TERM; sleep 60 & wait", tasks=3, limits={"time_s": 1, "grace_s": 20})
    assert code == 124 and report["end"] == "timeout" and sorted(lines_of(out)) == [f"[{rank}] told" for rank in range(3)], (code, out)
    code, report, _, _ = shell(world, "trap '' TERM; sleep 60", tasks=3, limits={"time_s": 1, "grace_s": 1})
    assert code == 124 and report["wall_ms"] < 20000
    world.nothing_is_left()


def limits_hold_for_all_together(world):
    code, _, _, errors = world.run("/usr/bin/python3", "-B", "/code/hostile.py", "bomb", MARK, tasks=2, limits={"processes": 20, "time_s": 60})
    assert code in (0, 1, 126) or "fork" in errors, (code, errors)
    world.nothing_is_left()
    code, report, _, _ = shell(world, "if [ $RANK = 0 ]; then kill -9 $PPID; fi; sleep 60", tasks=2)
    assert code == 137 and report["exit"] == -1, (code, report)
    world.nothing_is_left()


def bad_tasks_are_explained(world):
    for members, wanted in (({"tasks": 65}, "tasks"), ({"tasks": 0}, "tasks"), ({"nodes": 2}, "2 nodes"), ({"network": "all"}, "network"),
                            ({"tasks": 2, "environment": {"RANK": "5"}}, "RANK"), ({"tasks": 2, "environment": {"MASTER_PORT": "5"}}, "MASTER_PORT")):
        code, _, _, errors = world.run("true", **members)
        assert code == 126 and wanted in errors, (members, code, errors)


run_tests((each_task_has_its_rank, tasks_reach_each_other, the_own_name_has_an_address, one_failure_ends_all, the_first_failure_counts, lines_stay_whole,
           what_a_task_leaves_ends_with_the_tasks, a_program_that_is_not_there, time_and_cancellation_reach_all, limits_hold_for_all_together, bad_tasks_are_explained))
