#!/usr/bin/env python3
"""usage: pod_sides.py BUILD-FOLDER   The two sides of a pod, without Kubernetes: the agent here, the payload's side as process 1 of a namespace, with an image that
can't be changed. Needs root, because the two are different users."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PROGRAM = os.path.join(os.path.abspath(sys.argv[1]), "cmd/sijil-pod")
AGENT, PAYLOAD = 64001, 64002
SECONDS = 60
BECOME = ("/usr/bin/setpriv", f"--reuid={AGENT}", f"--regid={AGENT}", "--clear-groups")
ALONE = ("/usr/bin/unshare", "--net", *BECOME)  # as a pod whose network forbids all
BWRAP = ("/usr/bin/bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL", "--ro-bind", "/", "/",
         "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run", "--tmpfs", "/var", "--tmpfs", "/tmp")
LAST = ("--remount-ro", "/run", "--remount-ro", "/var")
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


class Pod:
    """Both containers, with the folder that they share."""

    def __init__(self, *command, sealed=BWRAP, payload_user=PAYLOAD, addresses=(), network=ALONE, tasks=()):
        self.gate = tempfile.mkdtemp(prefix="sijil-pod-", dir="/dev/shm")
        os.chown(self.gate, AGENT, AGENT)
        os.chmod(self.gate, 0o755)
        self.run_as(AGENT, PROGRAM, "place", self.gate).wait(SECONDS)
        self.agent = self.run_as(0, *network, PROGRAM, "trial", self.gate, *addresses, "--", *command)
        self.payload = self.run_as(payload_user, *sealed, "--ro-bind", self.gate, "/tmp/gate", *LAST, "/tmp/gate/sijil-pod", "payload", "/tmp/gate", *tasks)

    @staticmethod
    def run_as(user, *words):
        return subprocess.Popen(words, user=user, group=user, extra_groups=[], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                cwd="/", start_new_session=True)

    def end(self):
        """Exit status and output of the agent, then of the payload's side."""
        outputs = [process.communicate(timeout=SECONDS)[0].decode() for process in (self.agent, self.payload)]
        shutil.rmtree(self.gate)
        return self.agent.returncode, outputs[0], self.payload.returncode, outputs[1]

    def end_or_stop(self):
        """A side that never calls leaves the other one waiting: that is told to stop."""
        wait_for(lambda: self.payload.poll() is not None or self.agent.poll() is not None)
        time.sleep(0.2)
        for process in (self.agent, self.payload):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        return self.end()

    def wait_for_output(self, text):
        seen = b""
        until = time.monotonic() + SECONDS
        while text not in seen:
            assert time.monotonic() < until, seen
            seen += os.read(self.agent.stdout.fileno(), 4096)
        return seen.decode()


def wait_for(is_so):
    until = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


def python(code):
    return ("/usr/bin/python3", "-I", "-c", code)


def closed(*command, **more):
    return Pod(*command, **more).end()


def a_command_runs_and_its_end_is_told():
    status, text, inner, own = closed("/bin/sh", "-c", "echo out; echo err >&2; id -u; exit 7")
    assert (status, inner, own) == (7, 7, ""), (status, text, inner, own)
    assert {"out", "err", str(PAYLOAD)} <= set(text.split()) and "closed: no privilege, no token, " in text and "169.254.169.254:80" in text and "10.96.0.10:53" in text, text
    assert closed("sh", "-c", "kill -9 $$")[0] == 137, "the path is searched, and a signal is told"
    status, text, *_ = closed("/no/such/program")
    assert status == 127, text


def no_socket_of_a_network():
    status, text, *_ = closed(*python("""
import socket
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET):
    try: socket.socket(family, socket.SOCK_RAW if family == socket.AF_PACKET else socket.SOCK_STREAM if family != socket.AF_NETLINK else socket.SOCK_RAW); print('open', family)
    except OSError as error: print('refused')
socket.socketpair(); socket.socket(socket.AF_UNIX)
"""))
    assert status == 0 and text.count("refused") == 4 and "open" not in text, text


class TwoNetworks:
    """The network of a pod, and one that reaches it and that it reaches."""

    def __enter__(self):
        self.ends = [subprocess.Popen(["/usr/bin/unshare", "--net", "/usr/bin/sleep", "1000"]) for _ in range(2)]
        own = os.stat("/proc/self/ns/net").st_ino
        for end in self.ends:
            wait_for(lambda end=end: os.stat(f"/proc/{end.pid}/ns/net").st_ino != own)
        self.run(0, "ip", "link", "add", "one", "type", "veth", "peer", "name", "two", "netns", str(self.ends[1].pid))
        for number, name in enumerate(("one", "two")):
            self.run(number, "ip", "address", "add", f"10.77.0.{number + 1}/24", "dev", name)
            for device in (name, "lo"):
                self.run(number, "ip", "link", "set", device, "up")
        return self

    def words(self, number):
        return ("/usr/bin/nsenter", f"--net=/proc/{self.ends[number].pid}/ns/net")

    def run(self, number, *words):
        subprocess.run([*self.words(number), *words], check=True, timeout=SECONDS, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})

    def ask(self, number, *words):
        return subprocess.run([*self.words(number), *words], check=True, timeout=SECONDS, capture_output=True, text=True).stdout.strip()

    def __exit__(self, *_):
        for end in self.ends:
            end.kill()
            end.wait()


SERVER = """
import socket
with socket.create_server(('0.0.0.0', 7070)) as server:
    print('up', flush=True)
    while True: server.accept()[0].close()
"""
TALK = """
import errno, os, socket, struct, threading, time
def tell(what, call):
    try: call(); print(what, 'open')
    except OSError as error: print(what, errno.errorcode.get(error.errno, 'ETIMEDOUT'))
def call(address, family=socket.AF_INET):
    with socket.socket(family) as one: one.settimeout(1); one.connect(address)
tell('other', lambda: call(('10.77.0.2', 7070)))
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET): tell('kind', lambda: socket.socket(socket.AF_INET, kind))
tell('sctp', lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)); tell('mptcp', lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262))
tell('family', lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
for protocol in range(1, 23): tell('family', lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol))  # all but routes
assert [name for _, name in socket.if_nameindex()] == ['lo', 'one']
def route(kind, body):  # a question or a change, which the kernel answers by an error
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM) as one:
        one.bind((0, 0)); one.send(struct.pack('IHHII', 16 + len(body), kind, 5, 1, 0) + body)
        failed = -struct.unpack('i', one.recv(4096)[16:20])[0]
        if failed: raise OSError(failed, '')
address = struct.pack('BBBBI', socket.AF_INET, 24, 0, 0, 1) + struct.pack('HH4s', 8, 2, bytes([10, 77, 0, 2]))
tell('change', lambda: route(20, address))  # the other's address on lo
for kind in range(16, 120):
    if kind % 4 != 2: tell('change', lambda: route(kind, bytes(32)))  # each kind of message that makes, sets or deletes
def pass_on():
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as one, socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as two:
        two.bind((0, 0)); one.sendto(b'x' * 16, two.getsockname())
tell('change', pass_on)  # to another program of the pod
def leave():  # bind() fails, and the socket is of the other device all the same
    with socket.socket(socket.AF_INET6) as six:
        try: six.bind(('fe80::dead:beef', 0, 0, SCOPE))
        except OSError: pass
        six.settimeout(1); six.connect(('::ffff:10.77.0.2', 7070))
tell('six', leave)
one = socket.socket()
assert one.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16).rstrip(bytes(1)) == b'lo' and not os.get_inheritable(one.fileno())
tell('unbind', lambda: one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b'')); tell('move', lambda: one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b'one'))
tell('fast', lambda: socket.socket().sendto(b'x', socket.MSG_FASTOPEN | socket.MSG_DONTWAIT, ('10.77.0.2', 7070)))
import ctypes
def bound(one): return one.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16).rstrip(bytes(1)) == b'lo'
with socket.create_server(('127.0.0.1', 7075)) as server:
    one = socket.create_connection(('127.0.0.1', 7075)); other = server.accept()[0]
    assert bound(other) and ctypes.CDLL(None).connect(one.fileno(), bytes(16), 16) == 0 and bound(one)  # disconnected (AF_UNSPEC), and still bound
    tell('other', lambda: (one.settimeout(1), one.connect(('10.77.0.2', 7070))))
with socket.create_server(('0.0.0.0', 7071)) as server:
    print('listens', flush=True)
    for address in (('127.0.0.1', 7071), ('10.77.0.1', 7071)):
        caller = threading.Thread(target=lambda: tell('own', lambda: call(address))); caller.start(); server.accept(); caller.join()
    server.settimeout(3)
    tell('accept', server.accept)
for i in range(200): socket.socket().close()
print('end')
"""


def tasks_reach_each_other_and_nobody_else():
    """With another network that is one hop away, and no rule in between: a cluster that enforces no NetworkPolicy."""
    with TwoNetworks() as networks:
        other = subprocess.Popen([*networks.words(1), *python(SERVER)], stdout=subprocess.PIPE)
        assert other.stdout.readline() == b"up\n"
        networks.run(0, *python("import socket; socket.create_connection(('10.77.0.2', 7070), 5)"))  # it can be reached
        become = ("/usr/bin/setpriv", f"--reuid={PAYLOAD}", f"--regid={PAYLOAD}", "--clear-groups")
        scope = networks.ask(0, *python("import socket; print(socket.if_nametoindex('one'))"))
        pod = Pod(*python(TALK.replace("SCOPE", scope)), sealed=(*networks.words(0), *become, *BWRAP), payload_user=0, tasks=("tasks",), addresses=("10.77.0.3", "80"))
        begun = pod.wait_for_output(b"listens")
        reach = subprocess.run([*networks.words(1), *python("import socket; socket.create_connection(('10.77.0.1', 7071), 2)")], capture_output=True, check=False)
        status, text, _, own = pod.end()
        text = begun + text
        assert reach.returncode != 0 and (b"timed out" in reach.stderr or b"refused" in reach.stderr), reach.stderr
        assert status == 0 and "\nend\n" in text, (status, text, own)
        said = [line.split() for line in text.splitlines() if len(line.split()) == 2]
        for what, wanted in (("other", {"ETIMEDOUT"}), ("kind", {"EPERM"}), ("family", {"ENOSYS"}), ("change", {"EPERM"}), ("sctp", {"EPROTONOSUPPORT"}), ("mptcp", {"EPROTONOSUPPORT"}), ("six", {"EAFNOSUPPORT"}),
                             ("unbind", {"EPERM"}), ("move", {"EPERM"}), ("own", {"open"}), ("accept", {"ETIMEDOUT"})):
            assert {end for name, end in said if name == what} == wanted, (what, text)
        own_server = subprocess.Popen([*networks.words(0), *python(SERVER.replace("7070", "7072"))], stdout=subprocess.PIPE)
        assert own_server.stdout.readline() == b"up\n"
        for name, port, wanted in (("127.0.0.1", "7072", 125), ("10.77.0.2", "7070", 0)):  # who answers on the loopback itself is found; who answers elsewhere is not reached
            pod = Pod("/bin/echo", "started", sealed=(*networks.words(0), *become, *BWRAP), payload_user=0, tasks=("tasks",), addresses=(name, port))
            status, text, *_ = pod.end_or_stop()
            assert status == wanted and ("started" in text) == (wanted == 0) and (wanted == 0 or f"is open: {name}" in text), (name, status, text)
        own_server.kill()
        own_server.wait()
        other.kill()
        other.wait()


def the_agent_is_out_of_reach():
    """Not its files, not the first program's memory, no signal to either."""
    status, text, *_ = closed(*python("""
import os
for path in ('/proc/1/mem', '/proc/1/environ', '/proc/1/fd'):
    try: os.open(path, os.O_RDONLY) if path != '/proc/1/fd' else os.listdir(path); print('open', path)
    except OSError: print('refused')
os.kill(1, 9)
print('gate', os.access('/tmp/gate', os.W_OK), os.environ.get('KUBERNETES_SERVICE_HOST'))
"""))
    assert status == 0 and text.count("refused") == 3 and "gate False None" in text, text


def nothing_is_left():
    began = time.monotonic()
    status, text, *_ = closed("/bin/sh", "-c", "setsid sleep 1000 & (trap '' TERM; sleep 1000) & echo gone")
    assert status == 0 and "gone" in text and time.monotonic() - began < 30, text


def a_stop_is_passed_on():
    pod = Pod(*python("""
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
print('ready', flush=True)
time.sleep(1000)
"""))
    pod.wait_for_output(b"ready")
    pod.agent.send_signal(signal.SIGTERM)
    assert pod.end()[0] == 9


def the_payload_ends_with_its_agent():
    pod = Pod(*python("import time; print('ready', flush=True); time.sleep(1000)"))
    pod.wait_for_output(b"ready")
    pod.agent.kill()
    status, _, inner, own = pod.end()
    assert (status, inner) == (-9, 125) and "gone" in own, (inner, own)


def what_is_open_is_refused():
    token = tempfile.mkdtemp(prefix="sijil-pod-", dir="/dev/shm")
    writable = tuple("--bind" if word == "--ro-bind" else word for word in BWRAP)
    for sealed, said in ((BWRAP + ("--ro-bind", token, "/run/sijil"), "/run/sijil"), (writable, "can be written to"),
                         (tuple(word for word in BWRAP if word != "--as-pid-1"), "share their processes")):
        status, text, inner, own = Pod("/bin/echo", "started", sealed=sealed).end_or_stop()
        assert (status, inner) == (125, 125), (said, status, inner)
        assert said in text + own and "started" not in text, (said, text, own)
    os.rmdir(token)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        status, text, *_ = Pod("/bin/echo", "started", network=BECOME, addresses=("127.0.0.1", port)).end_or_stop()
    assert status == 125 and "network is open: " in text and "started" not in text, text
    status, text, *_ = Pod("/bin/echo", "started", payload_user=AGENT).end_or_stop()
    assert status == 125 and "one user" in text and "started" not in text, text


def main():
    if os.geteuid() != 0 or subprocess.run(["/usr/bin/bwrap", "--unshare-all", "--ro-bind", "/", "/", "/bin/true"], capture_output=True, check=False).returncode:
        print("left out: root starts the two sides as two users, in namespaces")
        return 77
    for case in (a_command_runs_and_its_end_is_told, no_socket_of_a_network, tasks_reach_each_other_and_nobody_else, the_agent_is_out_of_reach, nothing_is_left, a_stop_is_passed_on,
                 the_payload_ends_with_its_agent, what_is_open_is_refused):
        began = time.monotonic()
        case()
        print(f"ok {case.__name__} ({time.monotonic() - began:.1f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
