"""What this machine can do at all, in the same run: the parts of the work measured alone, and what they allow."""
import json
import os
import re
import statistics
import subprocess
import urllib.parse

from registries import BUILD, GIB, MIB, REPOSITORY, Nginx, load
from rows import middle, settle
from sijil_test import Issuer


def run_program(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def bounds(folder):
    """What one core does alone: SHA-256 and AES-256-GCM with OpenSSL, TLS, and our own store without any network."""
    found = {}
    for name in ("sha256", "aes-256-gcm"):
        figures = re.findall(r"^\+F:\d+:[^:]+:([\d.]+)",
                             run_program("openssl", "speed", "-mr", "-seconds", "2", "-bytes", "65536", "-evp", name), re.MULTILINE)
        found[name + " MB/s"] = float(figures[-1]) / 1e6
    found["tls alone"] = run_program(os.path.join(BUILD, "bench/tls_bench")).strip()
    lines = run_program(os.path.join(BUILD, "bench/blob_bench"), os.path.join(folder, "blobs"), "256").splitlines()
    found["store alone"] = [" ".join(line.split()) for line in lines]
    return found


def parts_alone(folder, times=3):
    """CPU seconds per GB of hashing, sealing, and writing a file with fsync: the middle of three."""
    place = os.path.join(folder, "parts")
    os.makedirs(place, exist_ok=True)
    runs = [json.loads(run_program(os.path.join(BUILD, "bench/parts_bench"), place)) for _ in range(times)]
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def push_against_parts(rows, parts, cores):
    """The server's CPU time of a push beside the sum of its parts. The part of TLS is what a server needs that takes the same
    bytes from the same client and throws them away; it was measured in turn with the registries. In a straight line, all parts
    are in one program that does nothing else."""
    found = {}
    for title, figures in rows.items():
        if "tls-sink" not in figures:
            continue
        whole = {**parts, "tls receive": figures["tls-sink"]["server_cpu_seconds_per_gb"]}
        total, ours = sum(whole.values()), figures["sijil"]
        straight = figures["straight-line"]["server_cpu_seconds_per_gb"]
        client = figures["tls-sink"]["client_cpu_seconds_per_gb"]
        found[title] = {"parts": whole, "sum": total, "sijil": ours["server_cpu_seconds_per_gb"],
                        "ratio": ours["server_cpu_seconds_per_gb"] / total, "straight line": straight,
                        "ratio to straight line": ours["server_cpu_seconds_per_gb"] / straight, "client": client,
                        "bound MB/s": 1000 * cores / (total + client), "sijil MB/s": ours["mb_per_second"]}
    return found


def pull_beside_nginx(sijil, folder, size=GIB):
    """The same client (curl), the same bytes: from Sijil, decrypted and verified, and from nginx as a plain file."""
    nginx = Nginx(sijil, folder)
    plain = os.path.join(nginx.folder, "www", "plain")
    os.makedirs(os.path.dirname(plain), exist_ok=True)
    with open(plain, "wb") as file:
        for _ in range(size // (8 * MIB)):
            file.write(os.urandom(8 * MIB))
    place = sijil.server.client(sijil.login).repository(REPOSITORY)
    location, digest = urllib.parse.urljoin(f"https://127.0.0.1:{sijil.server.port}", place.begin()), "sha256:" + run_program("sha256sum", plain).split()[0]
    curl = ["curl", "-fsS", "--cacert", sijil.ca_file, "-o", "/dev/null"]
    subprocess.run([*curl, "-T", plain, "-H", "Authorization: Bearer " + place.client.token(place.scope),
                    f"{location}{'&' if '?' in location else '?'}digest={digest}"], check=True)
    header = os.path.join(folder, "header")
    with open(header, "w", encoding="ascii") as file:
        file.write("Authorization: Bearer " + place.client.token(place.scope, fresh=True))
    rates = {"sijil": [], "nginx": []}
    with nginx:
        for _ in range(9):
            for name, words in (("sijil", ["-H", "@" + header, f"{sijil.url}/v2/{REPOSITORY}/blobs/{digest}"]),
                                ("nginx", [nginx.url + "/plain"])):
                rates[name].append(float(run_program(*curl, "-w", "%{speed_download}", *words)))
    return {name: statistics.median(values) / 1e6 for name, values in rates.items()}


def option_of(pid, name):
    with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
        for word in file.read().split("\0"):
            if word.startswith(name + "="):
                return word[len(name) + 1:]
    return None


def become_gateway(sijil):
    """How to run a program as the gateway's user."""
    owner = os.stat(f"/proc/{sijil.pids()[-1]}")
    return ["setpriv", f"--reuid={owner.st_uid}", f"--regid={owner.st_gid}", "--clear-groups"] if os.getuid() == 0 else []


def database_folder(sijil):
    return next(run for pid in sijil.server.processes("postgres") if (run := option_of(pid, "--unix_socket_directories")))


def record_events(words):
    settle()
    said = run_program(*words)
    figures = re.match(r"([\d.]+) events/s, p50 ([\d.]+) ms, p99 ([\d.]+) ms, longest ([\d.]+) ms, (\d+) failed", said)
    return {"per_second": float(figures[1]), "p50 ms": float(figures[2]), "p99 ms": float(figures[3]), "failed": int(figures[5])}


def events_per_second(sijil, submitters=(16, 256)):
    """A second gateway on the log of the first, which is idle meanwhile: events recorded durably, nothing else. The middle of three."""
    keyd = next(socket for pid in sijil.server.processes("sijil-keyd") if (socket := option_of(pid, "--socket")))
    become, database = become_gateway(sijil), f"host={database_folder(sijil)} dbname=sijil user=sijil_app"
    asked = run_program(*become, "psql", "-XAt", "-F", " ", database, "-c",
                        "SELECT l.origin, a.epoch FROM audit_log l, authorization_epoch a").split()
    words = [*become, os.path.join(BUILD, "bench/audit_bench"), database, keyd, asked[0]]
    return {f"{count} at a time": middle([record_events([*words, str(count), "10", asked[1]]) for _ in range(3)])
            for count in submitters}


def trust_issuer(sijil):
    """A CI platform's issuer with one subject that may push; answers a login with its token."""
    issuer = Issuer("https://ci.example", sijil.url)
    admin = sijil.server.client(sijil.server.admin)
    admin.api("POST", "/issuers", {"url": issuer.url, "algorithms": ["ES256"], "jwks": issuer.jwks, "lifetime_max": 900})
    admin.api("POST", "/bindings", {"issuer": issuer.url, "subject": "repo:acme/train:ref:refs/heads/main", "role": "publisher",
                                    "scope": "main/models"})
    return "oidc", issuer.token()


def tokens_per_second(sijil, quick):
    """Tokens for a robot's secret, and for a CI platform's token, whose signature is another one each time in real life; here it
    is the same, which the gateway is allowed to know already. Peers have no tokens."""
    found = {}
    for kind, login in (("robot's secret", sijil.login), ("CI platform's token", trust_issuer(sijil))):
        for clients in (1, 16):
            runs = [load(sijil, login=login, clients=clients, requests=(200 if quick else 2000) * (1 if clients == 1 else 4),
                         count=1, size=16, run="token")["token"] for _ in range(1 if quick else 3)]
            found[f"tokens for a {kind}, {clients} clients"] = middle(runs)
    return found
