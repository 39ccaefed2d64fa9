#!/usr/bin/env python3
"""usage: node_runs.py BUILD-FOLDER [TEST]...   Runs of several nodes on real runners, each with a sandbox of its own and a real network between them: what passes,
what does not, and what becomes of nodes that end, die or lie."""
import fcntl
import json
import os
import signal
import ssl
import socket
import sys
import time

from node_world import MARK, NAMES, NodeWorld
from runner_world import BUILD, Image, run_tests

# Data-parallel, of the standard library alone: each node has its part of the data, and node 0 adds up the gradients of a line's two numbers.
TRAIN = """
import json, os, socket, struct
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
data = [(x / 10, 3 * x / 10 + 1) for x in range(-30, 30)][rank::size]

def take(link):
    got = b""
    while len(got) < 16:
        got += link.recv(16 - len(got))
    return struct.unpack("dd", got)

if rank == 0:
    server = socket.create_server(address)
    links = [server.accept()[0] for _ in range(size - 1)]
else:
    while True:
        try:
            links = [socket.create_connection(address, 5)]
            break
        except ConnectionRefusedError:
            pass
a = b = 0.0
for step in range(300):
    gradient = (sum((a * x + b - y) * x for x, y in data), sum(a * x + b - y for x, y in data))
    if rank == 0:
        parts = [gradient] + [take(link) for link in links]
        gradient = (sum(one for one, _ in parts) / 60, sum(other for _, other in parts) / 60)
        for link in links:
            link.sendall(struct.pack("dd", *gradient))
    else:
        links[0].sendall(struct.pack("dd", *gradient))
        gradient = take(links[0])
    a, b = a - 0.1 * gradient[0], b - 0.3 * gradient[1]
print(f"node {os.environ['GROUP_RANK']} of {os.environ['GROUP_WORLD_SIZE']}: rank {rank} of {size} at {address[0]}: {a:.3f} {b:.3f}", flush=True)
os.makedirs("/out/model")
with open("/out/model/line.json", "w") as file:
    json.dump([round(a, 3), round(b, 3), rank], file)
with open("/out/metrics.jsonl", "w") as file:
    file.write(json.dumps({"rank": rank}) + "\\n")
"""


def nodes_train_together(world):
    for count in (2, 3):
        runs = world.peer.order(world.python(TRAIN, nodes=count), NAMES[:count])
        assert [one["status"] for one in world.ends(runs)] == ["succeeded"] * count, [run.log for run in runs]
        for node, run in enumerate(runs):
            assert run.log.decode() == f"node {node} of {count}: rank {node} of {count} at 198.18.0.1: 3.000 1.000\n", run.log
            assert world.subjects(run) == ((["log", "model"], ["metrics"]) if node == 0 else (["log"], [])) or \
                sorted(world.subjects(run)[0]) == (["log", "model"] if node == 0 else ["log"]), world.subjects(run)
        manifest = json.loads(runs[0].result["manifests"]["model"])
        assert json.loads(world.files(manifest)["line.json"]) == [3.0, 1.0, 0], "the output is not the first node's"
        assert sorted(runs[1].result["manifests"]) == ["log"], runs[1].result["manifests"]
        world.peer.wait(lambda runs=runs: world.said_of(runs[0], "the network between nodes has ended"), "it does not say what passed")
    (counts,) = world.said_of(runs[0], "the network between nodes has ended")
    assert counts["strangers"] == counts["dropped"] == "0" and int(counts["packets"]) > 300, counts


def nodes_have_tasks(world):
    text = """
import os, socket
names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK MASTER_ADDR MASTER_PORT".split()
print(" ".join(os.environ[name] for name in names), flush=True)
if os.environ["RANK"] == "0":
    server = socket.create_server((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
    ranks = sorted(int(server.accept()[0].recv(8)) for _ in range(3))
    open("/out/model", "w").write(str(ranks))
else:
    while True:
        try:
            socket.create_connection((os.environ["MASTER_ADDR"], 29500), 5).sendall(os.environ["RANK"].encode())
            break
        except ConnectionRefusedError:
            pass
"""
    runs = world.peer.order({**world.python(text, processes=60), "tasks": 2}, NAMES[:2])
    assert [one["status"] for one in world.ends(runs)] == ["succeeded"] * 2, [run.log for run in runs]
    lines = sorted(line for run in runs for line in run.log.decode().splitlines())
    assert lines == [f"[{local}] {2 * node + local} {local} 4 2 {node} 2 {2 * node + local} 198.18.0.1 29500" for local in (0, 1) for node in (0, 1)], lines
    assert world.files(json.loads(runs[0].result["manifests"]["model"])) == {"model": b"[1, 2, 3]"}


# What a payload tries. Each line of the log is one finding.
LOOK = """
import errno, fcntl, os, socket, struct
def tell(what, action):
    try:
        print(what, action() or "done", flush=True)
    except OSError as failed:
        print(what, errno.errorcode.get(failed.errno, "no-name"), flush=True)
def udp(address, port=53):
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (address, port))
def change(request, *parts):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, request, struct.pack("16s", b"nodes0") + b"".join(parts) + bytes(16))
def spoof():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.SOL_IP, 15, 1)  # IP_FREEBIND
        sender.bind(("198.18.0.2", 999 + 1024))
        sender.sendto(b"as another node", ("198.18.0.2", 4000))
def transparent():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.SOL_IP, 19, 1)  # IP_TRANSPARENT
tell("devices", lambda: [name for _, name in socket.if_nameindex()])
tell("own name", lambda: socket.gethostbyname(socket.gethostname()))
tell("other name", lambda: socket.gethostbyname("node1"))
for address in ("169.254.169.254", "192.0.2.1", "8.8.8.8", "198.18.0.9", "198.18.255.255", "10.0.0.1"):
    tell(address, lambda: udp(address))
tell("all", lambda: udp("255.255.255.255"))
tell("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP).close())
tell("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close())
tell("netfilter", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12).close())
tell("tun", lambda: os.close(os.open("/dev/net/tun", os.O_RDWR)))
tell("address", lambda: change(0x8916, struct.pack("HH4s8x", 2, 0, bytes([198, 18, 0, 2]))))
tell("mtu", lambda: change(0x8922, struct.pack("i", 1500)))
tell("spoof", spoof)
tell("transparent", transparent)
tell("dns", lambda: socket.getaddrinfo("registry.example", 443) and None)
open("/out/model", "w").write("x")
"""


def a_payload_reaches_nothing_else(world):
    other = "open('/out/model', 'w').write('x')"
    program = f"import os\nif os.environ['RANK'] == '1':\n    {other}\nelse:\n" + "".join("    " + line + "\n" for line in LOOK.strip().splitlines())
    runs = world.peer.order(world.python(program), NAMES[:2])
    assert [one["status"] for one in world.ends(runs)] == ["succeeded"] * 2, [run.log for run in runs]
    found = dict(line.rsplit(" ", 1) for line in runs[0].log.decode().replace("['lo', 'nodes0']", "lo+nodes0").splitlines())
    unreachable = {name: "ENETUNREACH" for name in ("169.254.169.254", "192.0.2.1", "8.8.8.8", "198.18.0.9", "198.18.255.255", "10.0.0.1")}
    wanted = {"devices": "lo+nodes0", "own name": "198.18.0.1", "other name": "198.18.0.2", **unreachable, "raw": "EPERM", "packet": "ENOSYS",
              "netfilter": "ENOSYS", "dns": "no-name", "tun": "ENOENT", "address": "EPERM", "mtu": "EPERM", "transparent": "EPERM"}
    assert {name: found[name] for name in wanted} == wanted, found
    assert found["all"] != "done" and found["spoof"] != "done", found


def nodes_without_a_network(world):
    text = """
import os, socket
print(os.environ["MASTER_ADDR"], os.environ["RANK"], os.environ["WORLD_SIZE"], flush=True)
try:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("198.18.0.2", 53))
    print("it reaches the other node")
except OSError:
    pass
open("/out/model", "w").write("x")
"""
    runs = world.peer.order(world.python(text, network="none"), NAMES[:2])
    assert [one["status"] for one in world.ends(runs)] == ["succeeded"] * 2
    assert [run.log for run in runs] == [b"127.0.0.1 0 2\n", b"127.0.0.1 1 2\n"], [run.log for run in runs]
    assert world.peer.orders[runs[0].id].listens == {0: None, 1: None}


def nodes_in_an_image_know_each_other(world):
    """An /etc/hosts of the image that leads elsewhere is replaced: the sandbox has its own."""
    made = Image("")
    made.add_layer({"bin/program": Image.file_of(os.path.join(BUILD, "tests/runner/image_program")), "etc/hosts": Image.link("/etc/name"), "etc/name": Image.file(b"of the image\n")})
    wanted = {**world.python("pass"), "image": world.peer.push_image(made), "argv": ["/bin/program", "cat", "/etc/hosts"], "environment": {}}
    runs = world.peer.order(wanted, NAMES[:2])
    world.ends(runs)
    for node, run in enumerate(runs):
        names = [f"198.18.0.{one + 1} node{one}{' sandbox' if one == node else ''}" for one in (0, 1)]
        assert run.log.decode().startswith("\n".join(["127.0.0.1 localhost", *names]) + "\n"), run.log


LAST = """
import fcntl, os, select, socket
if os.environ["RANK"] == "0":
    server = socket.create_server(("198.18.0.1", 29500))
    link = server.accept()[0]
    fcntl.flock(os.open("/usr/bin/env", os.O_RDONLY), fcntl.LOCK_SH)  # a lock is what a sandbox sees of the outside
    count = 0
    while piece := link.recv(1 << 20):
        count += len(piece)
    print(count, flush=True)
    open("/out/model", "w").write("x")
else:
    while True:
        try:
            link = socket.create_connection(("198.18.0.1", 29500), 5)
            break
        except ConnectionRefusedError:
            pass
    sent = 0
    while select.select([], [link], [], 0.5)[1]:  # until neither kernel takes more
        sent += link.send(bytes(1 << 16))
    print(sent, flush=True)
"""


def the_last_data_arrives(world):
    """A program that has sent all may end: its kernel still sends, as that of a machine does. The other program reads nothing before this one's result is there."""
    with open("/usr/bin/env", "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        runs = world.peer.order(world.python(LAST), NAMES[:2])
        world.peer.wait(lambda: runs[1].result, "no result of the node that ended")
        assert runs[0].result is None, "the other node has ended already"
    assert [one["status"] for one in world.ends(runs)] == ["succeeded"] * 2, [run.log for run in runs]
    assert runs[0].log == runs[1].log and int(runs[0].log) > 1 << 17, [run.log for run in runs]


WAIT = "import time\nprint('ready', flush=True)\ntime.sleep(60)  # MARK"


def worker_of(world, name, run):
    """The process of a runner that has this run."""
    assert world.said_of(run, "run started")
    with open(f"/proc/{world.processes[name].pid}/task/{world.processes[name].pid}/children", encoding="utf-8") as file:
        children = [int(one) for one in file.read().split()]
    return [pid for pid in children if os.path.exists(f"/proc/{pid}/task") and len(os.listdir(f"/proc/{pid}/task")) > 2]


def a_node_that_is_killed_ends_the_run(world):
    runs = world.peer.order(world.python(WAIT), NAMES[:2])
    world.peer.wait(lambda: all(run.log for run in runs), f"it does not begin: {[run.refusal and world.registry.opened(run.refusal, run.name) for run in runs]}")
    (worker,) = worker_of(world, "east", runs[1])
    os.kill(worker, signal.SIGKILL)
    world.peer.wait(lambda: world.said_of(runs[1], "a run was interrupted"), "nobody notices")
    time.sleep(1)
    assert not world.said_of(runs[0], "stops the run"), "the other node has ended by itself"
    world.peer.end(runs[0].id, "node 1 was silent")
    world.peer.wait(lambda: world.said_of(runs[0], "stops the run"), "the other node is not stopped")
    world.nothing_runs()
    assert runs[0].result is None


def a_node_that_fails_ends_the_run(world):
    text = "import os, sys, time\nif os.environ['RANK'] == '1':\n    sys.exit(3)\ntime.sleep(60)  # MARK"
    runs = world.peer.order(world.python(text), NAMES[:2])
    world.peer.wait(lambda: runs[1].result, "no result")
    assert world.registry.statement(runs[1].result, "east")["predicate"]["runDetails"]["sijil_outcome"]["exit"] == 3
    world.peer.wait(lambda: world.said_of(runs[0], "node 1 failed"), "the other node is not stopped")
    world.nothing_runs()
    assert runs[0].result is None


def a_false_node_is_not_believed(world):
    """A registry that names a lease which is not the other node's: nothing is started, and the signed result says why."""
    ordered = world.registry.order(world.python(WAIT))
    others = {"signed": lambda peers: [{**peers[0], "lease": world.peer.runs[(runs[0].id, peers[0]["node"])].lease.changed("lease").bundle["lease"]}],
              "order": lambda peers: [{**peers[0], "lease": world.registry.lease_of(ordered, name="east", node=1).bundle["lease"]}],
              "1 other": lambda peers: []}
    for change in others.values():
        runs = world.peer.order(world.python(WAIT), NAMES[:2])
        world.peer.orders[runs[0].id].change = lambda peers, change=change: change(peers) if peers[0]["node"] == 1 else peers
        world.peer.wait(lambda: runs[0].result, "no result")
        outcome = world.registry.statement(runs[0].result)["predicate"]["runDetails"]["sijil_outcome"]
        assert outcome["status"] == "failed" and ("not proven" in outcome["reason"] or "names 0 others" in outcome["reason"]), outcome
        assert runs[0].log == b"", "the program has begun"
        world.nothing_runs()


def a_stranger_is_refused(world):
    """Whoever reaches the ports, without a key of the attempt, changes nothing."""
    runs = world.peer.order(world.python(WAIT.replace("60", "4") + "\nopen('/out/model', 'w').write('x')"), NAMES[:2])
    world.peer.wait(lambda: all(run.log for run in runs), "it does not begin")
    port = int(world.peer.orders[runs[0].id].listens[0].rsplit(":", 1)[1])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(world.at("west", "state", "certificate.pem"), world.at("west", "state", "key.pem"))  # another runner of this registry
    with socket.create_connection(("127.0.0.1", port), 10) as plain:
        with context.wrap_socket(plain) as link:
            try:
                link.sendall(b"h" + bytes([0, 65]) + bytes(65))
                said = link.recv(1)
            except (ssl.SSLError, ConnectionError) as refused:
                said = str(refused).encode()
            assert said == b"" or b"alert" in said or b"EOF" in said or b"reset" in said.lower(), said  # no byte of an answer
    with socket.create_connection(("127.0.0.1", port), 10) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert [one["status"] for one in world.ends(runs)] == ["succeeded"] * 2
    world.peer.wait(lambda: world.said_of(runs[0], "the network between nodes has ended"), "it does not end")
    assert int(world.said_of(runs[0], "the network between nodes has ended")[0]["strangers"]) >= 2, world.said("the network between nodes")


def a_node_that_stops_before_the_start_says_so(world):
    runs = world.peer.order(world.python(WAIT), NAMES[1:])
    world.peer.orders[runs[0].id].is_held, world.peer.orders[runs[0].id].every_ms = True, {1: 10_000}
    # A node whose question is on its way may be about to start, so it would say nothing: it has its answer first, and asks again in ten seconds.
    world.peer.wait(lambda: len(world.peer.orders[runs[0].id].waiting) == 2, "the nodes do not come")
    time.sleep(1)  # nothing tells that it has read the answer
    world.processes["west"].send_signal(signal.SIGTERM)
    assert world.processes["west"].wait(30) == 0
    world.peer.wait(lambda: runs[1].refusal, "it says nothing")
    value = world.registry.opened(runs[1].refusal, "west")
    assert value["check"] == "machine" and "stops" in value["reason"], value
    world.peer.wait(lambda: world.said("a run did not begin", "east"), "the other node waits on")
    world.nothing_runs()
    assert runs[0].refusal is None and runs[0].result is None
    world.start_runner("west")


def a_runner_that_joins_none_says_so(world):
    world.processes["west"].send_signal(signal.SIGTERM)
    assert world.processes["west"].wait(30) == 0
    time.sleep(1.2)  # until its last question is answered
    world.start_runner("west", joins=False)
    world.peer.wait(lambda: any(one["by"] == "west" and one["nodes"] == 0 for one in world.peer.asked), "it does not ask")
    assert all(one["nodes"] == 1 for one in world.peer.asked if one["by"] == "runner")
    runs = world.peer.order(world.python(WAIT), ("west", "east"))
    world.peer.wait(lambda: runs[0].refusal, "no refusal")
    value = world.registry.opened(runs[0].refusal, "west")
    assert value["check"] == "limits" and "2 nodes" in value["reason"] and "--tunnel-listen" in value["reason"], value
    world.nothing_runs()


SPEED = """
import os, socket, time
if os.environ["RANK"] == "0":
    link = socket.create_server(("198.18.0.1", 29500)).accept()[0]
    count, began = 0, time.monotonic()
    while piece := link.recv(1 << 20):
        count += len(piece)
    seconds = time.monotonic() - began
    link = socket.create_server(("198.18.0.1", 29501)).accept()[0]
    began = time.monotonic()
    for _ in range(2000):
        link.sendall(link.recv(1))
    print(f"{count / seconds / 1e6:.0f} MB/s, {(time.monotonic() - began) / 2000 * 1e6:.0f} us there and back", flush=True)
    open("/out/model", "w").write("x")
else:
    def call(port):
        while True:
            try:
                link = socket.create_connection(("198.18.0.1", port), 60)
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return link
            except ConnectionRefusedError:
                pass
    link, piece = call(29500), bytes(1 << 20)
    for _ in range(512):
        link.sendall(piece)
    link.close()
    link = call(29501)
    for _ in range(2000):
        link.sendall(b"x")
        link.recv(1)
"""


def how_fast_it_is(world):
    runs = world.peer.order(world.python(SPEED), NAMES[:2])
    assert [one["status"] for one in world.ends(runs)] == ["succeeded"] * 2, [run.log for run in runs]
    world.peer.wait(lambda: world.said_of(runs[0], "the network between nodes has ended"), "it does not end")
    print(runs[0].log.decode(), world.said_of(runs[0], "the network between nodes has ended"))


TESTS = (nodes_train_together, nodes_have_tasks, a_payload_reaches_nothing_else, nodes_without_a_network, nodes_in_an_image_know_each_other, the_last_data_arrives, a_node_that_fails_ends_the_run,
         a_false_node_is_not_believed, a_stranger_is_refused, a_node_that_is_killed_ends_the_run, a_node_that_stops_before_the_start_says_so,
         a_runner_that_joins_none_says_so)

if __name__ == "__main__":
    if not os.path.exists("/dev/net/tun"):
        print("left out: there is no /dev/net/tun")
        sys.exit(77)
    run_tests(TESTS + ((how_fast_it_is,) if sys.argv[2:] else ()), starts=True, world=NodeWorld)
