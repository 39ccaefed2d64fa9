"""The end of the server: running requests are finished, slow ones are cut, and nothing is left."""
import itertools
import os
import signal
import socket
import threading
import time
from support import PATIENCE, Server, check, check_soon, finish, folder_of, read_all, statuses

H = b"Host: x\r\n"
server = Server()
results = {}


def ask(name, path, method="GET", body=None):
    try:
        status, headers, data = server.get(path, method, body)
        results[name] = (status, len(data))
    except OSError as error:
        results[name] = repr(error)


def hold(server):
    """A request that ends when the test sends its last byte, so that even a slow machine sees it running."""
    connection = server.connect(timeout=PATIENCE)
    connection.sendall(b"PUT /v2/x/sink HTTP/1.1\r\nContent-Length: 10\r\n" + H + b"\r\n123456789")
    return connection


def is_answered(connection):
    connection.sendall(b"0")
    return statuses(read_all(connection)[0]) == [201]


held = hold(server)
threads = [threading.Thread(target=ask, args=arguments) for arguments in (
    ("down", "/v2/x/pour?size=3000000&slow_ms=100"),
    ("up", "/v2/x/sink?slow_ms=100", "PUT", b"x" * 2000000))]
for thread in threads:
    thread.start()
idle = [server.connect() for _ in range(20)]
check_soon("they are at work", lambda: server.metric("sijil_requests_in_flight") == 4)  # with this one
begun = time.monotonic()
server.process.send_signal(signal.SIGTERM)


def is_refused_by_the_kernel():
    try:
        socket.create_connection(("127.0.0.1", server.port), timeout=2).close()
        return False
    except ConnectionRefusedError:
        return True
    except (ConnectionResetError, TimeoutError):  # the socket was closed while the kernel shook hands
        return False


check_soon("nothing new is accepted", is_refused_by_the_kernel)
check("what is at work is finished", is_answered(held))
for thread in threads:
    thread.join()
check("what ran was finished", results["down"] == (200, 3000000) and results["up"][0] == 201, results)
server.stop()
check("soon", time.monotonic() - begun < 30, time.monotonic() - begun)

# Clients that stall in both directions do not delay the end for ever.
server = Server(shutdown_timeout=2)
stalled = []
for request in (b"GET /v2/x/pour?size=900000000 HTTP/1.1\r\n", b"PUT /v2/x/sink HTTP/1.1\r\nContent-Length: 5000000\r\n", b"POST /a HTTP/1.1\r\nContent-Length: 5000\r\n"):
    for _ in range(5):
        connection = server.connect(SO_RCVBUF=4096)
        connection.sendall(request + H + b"\r\n")
        stalled.append(connection)
time.sleep(0.5)
begun = time.monotonic()
server.stop()
check("stalled clients are cut", 1.5 < time.monotonic() - begun < 30, time.monotonic() - begun)

# Again and again while others connect, also at the limit of connections: threads of the server take its socket out of a set there.
networks = itertools.cycle([f"127.0.{number}.1" for number in range(40)])  # or the share of one network ends before that limit


def connect_on(held):
    """Connects again and again, with several connections at a time, until the server accepts none."""
    while True:
        try:
            held.append(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE, source_address=(next(networks), 0)))
        except ConnectionRefusedError:
            break
        except OSError:
            continue
        while len(held) > most:
            held.pop(0).close()


for round_number in range(20):
    server, most = (Server(event_threads=2), 0) if round_number % 2 else (Server(event_threads=2, connections_max=8), 3)
    threads = [threading.Thread(target=connect_on, args=([],)) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    server.stop()  # checks that it ends cleanly
    for thread in threads:
        thread.join()

# With many connections the socket stays open for a while. A new connection is closed at once, and no existing one is cut.
server = Server(connections_max=40, event_threads=2, connections_per_network=100)
idle = [server.connect() for _ in range(24)]
held = hold(server)
check_soon("one is at work", lambda: server.metric("sijil_requests_in_flight") == 2)
server.process.send_signal(signal.SIGTERM)


def is_let_go():
    """Whether the server closes a new connection."""
    try:
        server.connect(timeout=PATIENCE).close()
        return False
    except TimeoutError:
        raise
    except OSError:
        return True


check_soon("who connects is let go", is_let_go)
check("by the server", not is_refused_by_the_kernel())
for connection in idle:
    connection.close()
check_soon("once there are few, the kernel refuses", is_refused_by_the_kernel)
check("the one at work is answered", is_answered(held))
server.stop()

# Again and again under load.
for round_number in range(3):
    folder = folder_of("sijil-socket-")
    server = Server(shutdown_timeout=5, listen_socket=os.path.join(folder, "socket"))
    stop = threading.Event()
    broken = []

    def load():
        while not stop.is_set():
            try:
                connection = server.http(10)
                for path in ("/v2/", "/v2/x/pour?size=300000", "/change/a"):
                    connection.request("GET" if path != "/change/a" else "POST", path)
                    answer = connection.getresponse()
                    body = answer.read()
                    if answer.status not in (200, 201) and not (stopping and answer.status == 503):
                        broken.append((answer.status, body))
                connection.close()
            except OSError:
                if server.process.poll() is None and not stopping:
                    broken.append("dropped")
            except Exception as error:  # an incomplete answer
                broken.append(repr(error))

    def ask_a_proxys_way():
        """Sends requests over one connection as long as it lasts, as a proxy's pool does, also while the server ends."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(os.path.join(folder, "socket"))
            try:
                while connection.send(b"GET /v2/ HTTP/1.1\r\n" + H + b"\r\n") and connection.recv(65536):
                    pass
            except OSError:
                pass

    stopping = False
    threads = [threading.Thread(target=run) for run in [load, ask_a_proxys_way] * 8]
    for thread in threads:
        thread.start()
    time.sleep(0.7)
    stopping = True
    server.stop(30)
    stop.set()
    for thread in threads:
        thread.join()
    check(f"round {round_number}: no half answer", not broken, broken[:3])
finish()
