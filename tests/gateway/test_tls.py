"""TLS: 1.3 only, no tickets, certificates that change under load, client certificates, the unix socket."""
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import threading
import time
import warnings
from support import Server, check, check_soon, finish, folder_of, read_all, statuses


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=20, **options)


def openssl(*arguments, folder):
    done = run("openssl", *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def authority(folder, name):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key", "-out",
            f"{name}.pem", "-subj", f"/CN={name}", "-days", "5", "-addext", "keyUsage=critical,keyCertSign", folder=folder)


def leaf(folder, name, by, usage, extra="subjectAltName=DNS:localhost,IP:127.0.0.1"):
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr",
            "-subj", f"/CN={name}", folder=folder)
    with open(os.path.join(folder, f"{name}.ext"), "w") as file:
        file.write(f"{extra}\nextendedKeyUsage={usage}\nbasicConstraints=CA:FALSE\n")
    openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{by}.pem", "-CAkey", f"{by}.key", "-CAcreateserial", "-out", f"{name}.pem",
            "-days", "3", "-extfile", f"{name}.ext", folder=folder)


warnings.simplefilter("ignore")  # the test offers old versions on purpose
work = folder_of("sijil-tls-")
authority(work, "clients")
authority(work, "others")
leaf(work, "alice", "clients", "clientAuth")
leaf(work, "mallory", "others", "clientAuth")
leaf(work, "wrong", "clients", "serverAuth")
authority(work, "fresh")
leaf(work, "server", "fresh", "serverAuth")

socket_path = os.path.join(work, "socket")
server = Server(listen_socket=socket_path)

for version, name in ((ssl.TLSVersion.TLSv1_2, "1.2"), (ssl.TLSVersion.TLSv1_1, "1.1")):
    context = ssl.create_default_context(cafile=server.path("ca.pem"))
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    context.minimum_version = version if name == "1.1" else ssl.TLSVersion.TLSv1_2
    context.maximum_version = version
    try:
        context.wrap_socket(socket.create_connection(("127.0.0.1", server.port)), server_hostname="localhost")
        why = "it is accepted"
    except (ssl.SSLError, OSError) as error:
        why = str(error)
    check(f"TLS {name} is refused, and an alert says why", "ALERT_PROTOCOL_VERSION" in why.upper().replace(" ", "_"), why)
connection = server.connect()
check("TLS 1.3 it is", connection.version() == "TLSv1.3")
connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
read_all(connection, 0.5)
check("there is no ticket to resume with", connection.session is None or not connection.session.has_ticket)
plain = socket.create_connection(("127.0.0.1", server.port))
plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
check("plain HTTP gets no answer on the TLS port", statuses(read_all(plain, 2)[0]) == [])

unix = socket.socket(socket.AF_UNIX)
unix.connect(socket_path)
unix.sendall(b"GET /v2/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
check("plain HTTP on the unix socket", statuses(read_all(unix, 2)[0]) == [200])
check("the socket is for owner and group", oct(os.stat(socket_path).st_mode & 0o777) == "0o660", oct(os.stat(socket_path).st_mode))



def end_of(path):
    return ssl.cert_time_to_seconds(openssl("x509", "-noout", "-enddate", "-in", path, folder=work).strip().partition("=")[2])


def told_end(of, path):
    """The value in /metrics, read through the socket at `path`, which needs no certificate."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(path)
        link.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        text = read_all(link, 2)[0].decode()
    return next(int(line.split()[-1]) for line in text.splitlines() if line.startswith(f'sijil_certificate_expiry_timestamp_seconds{{of="{of}"}} '))


check("the end of the certificate is told", told_end("server", socket_path) == end_of(server.path("server.pem")))
check("there is no authority of clients whose end could be told", told_end("client_ca", socket_path) == 0)

# A new certificate while 8 clients send requests without pause; existing connections go on.
stop = threading.Event()
errors = []
answers = [0] * 8


def load(number):
    context = ssl.create_default_context()
    context.load_verify_locations(server.path("ca.pem"))
    context.load_verify_locations(os.path.join(work, "fresh.pem"))
    connection = http.client.HTTPSConnection("localhost", server.port, context=context, timeout=20)
    try:
        while not stop.is_set():
            connection.request("GET", "/v2/x/pour?size=300000")
            if len(connection.getresponse().read()) != 300000:
                errors.append("short")
            answers[number] += 1
            if number % 2 == 0 and answers[number] % 5 == 0:
                connection.close()
    except OSError as error:
        errors.append(repr(error))


lasting = server.connect()
threads = [threading.Thread(target=load, args=(i,)) for i in range(8)]
for thread in threads:
    thread.start()
check_soon("all are served", lambda: min(answers) > 0)
with open(server.path("server.pem"), "wb") as file:
    file.write(open(os.path.join(work, "server.pem"), "rb").read())
with open(server.path("server.key"), "wb") as file:
    file.write(open(os.path.join(work, "server.key"), "rb").read())
for _ in range(5):
    server.process.send_signal(signal.SIGHUP)
    time.sleep(0.2)


def issuer_of_new():
    context = ssl.create_default_context()
    context.load_verify_locations(server.path("ca.pem"))
    context.load_verify_locations(os.path.join(work, "fresh.pem"))
    with context.wrap_socket(socket.create_connection(("127.0.0.1", server.port)), server_hostname="localhost") as link:
        return dict(x[0] for x in link.getpeercert()["issuer"])["commonName"]


check_soon("a new connection sees the new certificate", lambda: issuer_of_new() == "fresh")
check("the end of the new certificate is told", told_end("server", socket_path) == end_of(os.path.join(work, "server.pem")))
reloaded = list(answers)
check_soon("all are served on", lambda: all(now > then for now, then in zip(answers, reloaded)) or errors)
stop.set()
for thread in threads:
    thread.join()
check("no connection was dropped by the reloads", not errors and min(answers) > 0, f"{errors[:3]} {answers}")
lasting.sendall(b"GET /v2/ HTTP/1.1\r\nHost: x\r\n\r\n")
check("an older connection lives on", statuses(read_all(lasting, 1)[0]) == [200])
context = ssl.create_default_context(cafile=os.path.join(work, "fresh.pem"))
with open(server.path("server.key"), "w") as file:
    file.write("nonsense\n")
server.process.send_signal(signal.SIGHUP)
check_soon("a broken file is told", lambda: '"reload"' in server.log_text())
fresh = context.wrap_socket(socket.create_connection(("127.0.0.1", server.port)), server_hostname="localhost")
check("a broken file changes nothing", fresh.version() == "TLSv1.3")
check("the end that is told is that of the one in use", told_end("server", socket_path) == end_of(os.path.join(work, "server.pem")))
server.stop()

# Client certificates.
ca = os.path.join(work, "client-ca.pem")


def trust(name):
    with open(ca, "wb") as file:
        file.write(open(os.path.join(work, name + ".pem"), "rb").read())


def with_certificate(name):
    context = ssl.create_default_context(cafile=mutual.path("ca.pem"))
    if name:
        context.load_cert_chain(os.path.join(work, name + ".pem"), os.path.join(work, name + ".key"))
    try:
        connection = context.wrap_socket(socket.create_connection(("127.0.0.1", mutual.port)), server_hostname="localhost")
        connection.sendall(b"GET /v2/ HTTP/1.1\r\nHost: x\r\n\r\n")
        return statuses(read_all(connection, 1)[0]), connection
    except OSError:
        return [], None


trust("clients")
mutual_path = os.path.join(work, "mutual")
mutual = Server(tls_client_ca=ca, listen_socket=mutual_path)
check("the end of the clients' authority is told", told_end("client_ca", mutual_path) == end_of(ca))
check("no client certificate is fine", with_certificate(None)[0] == [200])
codes, alice = with_certificate("alice")
check("a good client certificate", codes == [200], codes)
check("one of another authority", with_certificate("mallory")[0] in ([400], []))
check("one that is not for clients", with_certificate("wrong")[0] in ([400], []), with_certificate("wrong")[0])
trust("others")
mutual.process.send_signal(signal.SIGHUP)
check_soon("new connections are judged by the new authorities", lambda: with_certificate("mallory")[0] == [200])
alice.sendall(b"GET /v2/ HTTP/1.1\r\nHost: x\r\n\r\n")
codes = statuses(read_all(alice, 1)[0])
check("an open connection is judged by the new authorities", codes in ([400], []), codes)
check("and so are new ones", with_certificate("alice")[0] in ([400], []))
mutual.stop()

# Runners have an authority of their own. It certifies no other clients, and the authority of clients certifies no runners.
RUNNER = "00112233-4455-4677-8899-aabbccddeeff"
CALLED = f"subjectAltName=URI:urn:sijil:runner:{RUNNER}\nkeyUsage=critical,digitalSignature"
authority(work, "runners")
leaf(work, "runner", "runners", "clientAuth", CALLED)
leaf(work, "impostor", "others", "clientAuth", CALLED)
leaf(work, "insider", "clients", "clientAuth", CALLED)
leaf(work, "server-of-runners", "runners", "serverAuth", CALLED)


def told(server, name):
    """The server's view of this client; the status if it is not 200."""
    context = ssl.create_default_context(cafile=server.path("ca.pem"))
    if name:
        context.load_cert_chain(os.path.join(work, name + ".pem"), os.path.join(work, name + ".key"))
    try:
        connection = context.wrap_socket(socket.create_connection(("127.0.0.1", server.port)), server_hostname="localhost")
        connection.sendall(b"GET /runner HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = read_all(connection, 1)[0]
    except OSError:
        return 400
    return {key: value for key, value in json.loads(answer[answer.index(b"{"):]).items() if key != "client"} if statuses(answer) == [200] else (statuses(answer) or [400])[0]


NOBODY = {"runner": "", "bound": False}
alone = Server(runner_authority=os.path.join(work, "runners.key"))
check("a runner is known by its certificate", told(alone, "runner") == {"runner": RUNNER, "bound": True}, told(alone, "runner"))
check("without a certificate it is nobody", told(alone, None) == NOBODY)
for name in ("impostor", "insider", "alice", "server-of-runners"):
    check(f"without an authority of clients, {name}'s certificate is as none", told(alone, name) == NOBODY, told(alone, name))
alone.stop()
anybody = Server(runner_authority=os.path.join(work, "runners.key"), tls_client_any="yes")
check("a runner is known where any certificate counts", told(anybody, "runner") == {"runner": RUNNER, "bound": True}, told(anybody, "runner"))
for name in ("impostor", "insider", "alice", "server-of-runners"):
    check(f"where any certificate counts, {name} is bound to its own, and no runner", told(anybody, name) == {"runner": "", "bound": True}, told(anybody, name))
check("and without one nobody", told(anybody, None) == NOBODY)
anybody.stop()
trust("clients")
both = Server(tls_client_ca=ca, runner_authority=os.path.join(work, "runners.key"))
check("a runner is known beside an authority of clients", told(both, "runner") == {"runner": RUNNER, "bound": True}, told(both, "runner"))
check("a client with a runner's name is no runner", told(both, "insider") == {"runner": "", "bound": True}, told(both, "insider"))
check("nor is a client without one", told(both, "alice") == {"runner": "", "bound": True})
for name in ("impostor", "mallory", "server-of-runners"):
    check(f"{name} is refused", told(both, name) == 400, told(both, name))
both.stop()
none = Server()
check("a server without an authority of runners asks for no certificate", told(none, "runner") == NOBODY)
none.stop()
finish()
