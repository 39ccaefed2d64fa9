"""Readers: an organisation does not get all of them, and a request that only waits has none."""
import threading
import time
from support import PATIENCE, Server, check, check_soon, finish, read_all, statuses

READERS = 8  # the last two are for organisations that have none
LAST = b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
server = Server(reader_threads=READERS, requests_per_address=250, queue_timeout=60000)


def begin(path):
    connection = server.connect(timeout=PATIENCE)
    connection.sendall(b"GET " + path + LAST)
    return connection


def answers(connections):
    found = [statuses(read_all(connection, 1)[0]) for connection in connections]
    for connection in connections:
        connection.close()
    return found


def wait_for_waiting(number):
    check_soon(f"{number} wait", lambda: server.metric('sijil_pool_waiting{pool="readers"}') >= number)


server.state("?stuck=1")
acme = [begin(b"/acme?may_hang=1") for _ in range(60)]
server.wait_for("one organisation's requests have three quarters of the readers", lambda state: state["hanging"] == 6)
wait_for_waiting(54)
for _ in range(20):
    check("others are served meanwhile", server.get("/globex")[0] == 200)
globex = [begin(b"/globex?may_hang=1") for _ in range(3)]
server.wait_for("of the last quarter another organisation gets one", lambda state: state["hanging"] == 7)
wait_for_waiting(56)
check("a third one is served still", server.get("/initech")[0] == 200)
server.state("?stuck=0")
check("all who waited are served in the end", answers(acme + globex) == [[200]] * 63)
server.wait_for("nobody hangs any more", lambda state: state["hanging"] == 0)

server.state("?stuck=1")
acme = [begin(b"/long/acme?may_hang=1") for _ in range(10)]
server.wait_for("of work that grows with an organisation, it has one at a time", lambda state: state["hanging"] == 1)
wait_for_waiting(9)
check("its other requests are served", server.get("/acme")[0] == 200)
globex = [begin(b"/long/globex?may_hang=1")]
server.wait_for("another organisation has one, too", lambda state: state["hanging"] == 2)
server.state("?stuck=0")
check("one after the other is done", answers(acme + globex) == [[200]] * 11)

# A request that waits has no reader, whether its answer is ready or not.
begun = time.monotonic()
waiting = [begin(b"/acme?answer_later=3000") for _ in range(40)] + [begin(b"/acme?waits=10&wait_ms=300") for _ in range(40)]
sent = time.monotonic() - begun
check("others are served while they wait", all(server.get(path)[0] == 200 for path in ("/acme", "/globex", "/initech")))
check("all of them are served", answers(waiting) == [[200]] * 80)
took = time.monotonic() - begun
check("and none before its time", took >= 3, took)
check("all waited at the same time", took < sent + 3 + 80 * 3 / READERS / 2, took)
before = server.state()
check("a request that waited", server.get("/acme?waits=3&wait_ms=50")[0] == 200)
check_soon("has an event", lambda: server.state()["recorded"] > before["recorded"])
check("and has one", server.state()["recorded"] - before["recorded"] == 1)
slow = begin(b"/acme?answer_later=1500")
time.sleep(0.5)
stopper = threading.Thread(target=server.stop)
stopper.start()
check("a server that ends waits for it", answers([slow]) == [[200]])
stopper.join()
finish()
