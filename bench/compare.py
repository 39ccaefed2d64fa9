#!/usr/bin/env python3
"""Sijil beside Debian's docker-registry, both over TLS, in one run, with the bounds of the machine in the same run.

usage: compare.py [--quick] [--output FILE]     the programs are taken from SIJIL_BUILD (a release build)
Prints a table of ratios and writes all figures as JSON. Absolute figures mean little on a shared machine; the ratios
of one run mean something."""
import argparse
import datetime
import json
import os
import platform
import re
import shutil
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/scenario"))
import sijil_test

BUILD = os.environ["SIJIL_BUILD"]
LOAD = os.path.join(BUILD, "bench/sijil-load")
REPOSITORY = "main/models/bench"
GIB, MIB = 1 << 30, 1 << 20


def load(url, ca_file, pids, login=None, **options):
    words = [LOAD, "--url", url, "--repository", REPOSITORY, "--ca-file", ca_file]
    if login:
        words += ["--login", ":".join(login)]
    for pid in pids:
        words += ["--pid", str(pid)]
    for name, value in options.items():
        words += ["--" + name] if value is True else ["--" + name, str(value)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=1800)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr[-500:]}")
    return json.loads(done.stdout)


def children_of(pid):
    """The process and all below it."""
    found = [pid]
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                    parent = int(file.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if parent == pid and int(entry) != pid:
                found += children_of(int(entry))
    return found


# --- who is measured ---------------------------------------------------------------------------------------------
class Sijil:
    name = "sijil"

    def __enter__(self):
        self.server = sijil_test.Server()
        self.server.start()
        self.login = sijil_test.make_robot(self.server, "bench", "publisher", "main/models")
        self.url, self.ca_file = f"https://127.0.0.1:{self.server.port}", self.server.ca_file
        return self

    def pids(self):
        return [pid for pid in self.server.processes("sijil")][:4]

    def __exit__(self, *trace):
        self.server.finish(False)


class DockerRegistry:
    """Debian's docker-registry, with the certificate of the first, files on the same disk, no authentication."""
    name, login = "docker-registry", None

    def __init__(self, certificate, key, ca_file, folder):
        self.certificate, self.key, self.ca_file, self.folder = certificate, key, ca_file, folder

    def __enter__(self):
        port = sijil_test.free_port()
        self.url = f"https://127.0.0.1:{port}"
        configuration = os.path.join(self.folder, "registry.yml")
        with open(configuration, "w", encoding="ascii") as file:
            file.write(f"version: 0.1\nlog:\n  level: error\n  accesslog:\n    disabled: true\nstorage:\n  filesystem:\n"
                       f"    rootdirectory: {self.folder}/registry\nhttp:\n  addr: 127.0.0.1:{port}\n  tls:\n"
                       f"    certificate: {self.certificate}\n    key: {self.key}\n")
        self.process = subprocess.Popen(["docker-registry", "serve", configuration], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        wait_for(self.url + "/v2/", self.ca_file)
        return self

    def pids(self):
        return [self.process.pid]

    def __exit__(self, *trace):
        self.process.terminate()
        self.process.wait()


class Nginx:
    """The plain file over TLS: what a pull is held against."""

    def __init__(self, certificate, key, ca_file, folder):
        self.certificate, self.key, self.ca_file, self.folder = certificate, key, ca_file, folder

    def __enter__(self):
        port = sijil_test.free_port()
        self.url = f"https://127.0.0.1:{port}"
        os.makedirs(self.folder + "/www", exist_ok=True)
        configuration = os.path.join(self.folder, "nginx.conf")
        with open(configuration, "w", encoding="ascii") as file:
            file.write(f"user root;\nworker_processes 2;\ndaemon off;\npid {self.folder}/nginx.pid;\nerror_log {self.folder}/nginx.log;\n"
                       f"events {{ worker_connections 256; }}\nhttp {{ access_log off; sendfile on;\n"
                       f" client_body_temp_path {self.folder}/b; proxy_temp_path {self.folder}/p; fastcgi_temp_path {self.folder}/f;\n"
                       f" uwsgi_temp_path {self.folder}/u; scgi_temp_path {self.folder}/s;\n"
                       f" server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {self.certificate}; ssl_certificate_key {self.key};\n"
                       f" ssl_protocols TLSv1.3; location / {{ root {self.folder}/www; }} }} }}\n")
        self.process = subprocess.Popen(["/usr/sbin/nginx", "-c", configuration], stderr=subprocess.DEVNULL)
        wait_for(self.url + "/", self.ca_file)
        return self

    def __exit__(self, *trace):
        self.process.terminate()
        self.process.wait()


def wait_for(url, ca_file):
    context = ssl.create_default_context(cafile=ca_file)
    for _ in range(200):
        try:
            urllib.request.urlopen(url, context=context, timeout=5).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"{url} does not answer")


def middle_of(times, measure_once):
    """Of each figure the run that is neither the best nor the worst: what takes a second varies by a fifth."""
    runs = [measure_once() for _ in range(times)]
    return {name: sorted((run[name] for run in runs), key=lambda found: found["per_second"])[times // 2]
            for name in runs[0] if isinstance(runs[0][name], dict) and "per_second" in runs[0][name]}


# --- what is measured ----------------------------------------------------------------------------------------------
def measure(target, quick):
    large = 256 * MIB if quick else GIB
    rows = {}
    for clients in (1, 4):
        found = load(target.url, target.ca_file, target.pids(), target.login, size=large, count=clients if quick else 4,
                     clients=clients, run="push,pull")
        rows[f"push large, {clients} clients"], rows[f"pull large, {clients} clients"] = found["push"], found["pull"]
        found = middle_of(3, lambda clients=clients: load(target.url, target.ca_file, target.pids(), target.login, size=MIB, count=200,
                                          clients=clients, run="push,pull"))
        rows[f"push 200 x 1 MiB, {clients} clients"], rows[f"pull 200 x 1 MiB, {clients} clients"] = \
            found["push"], found["pull"]
    for clients in (1, 16):
        found = load(target.url, target.ca_file, target.pids(), target.login, size=1024, count=1, clients=clients,
                     requests=2000 if quick else 20000, run="push,manifest")
        rows[f"manifest GET, {clients} clients"] = found["manifest"]
    found = load(target.url, target.ca_file, target.pids(), target.login, size=64 * MIB, count=1, uploads=3,
                 requests=1000 if quick else 3000, run="push,beside")
    rows["manifest GET beside 3 uploads"] = found["manifest_beside_uploads"]
    return rows


def fill_page_cache(folder):
    """A virtual machine gets its memory from its host page by page, and whoever writes there first pays: as much again as for
    the write. So all of it is in use before, by pages that the kernel gives to others when they ask."""
    path = os.path.join(folder, "filler")
    with open("/proc/meminfo", encoding="ascii") as file:
        available = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    with open(path, "wb") as file:
        file.truncate(max(available - 2 * GIB, 0))
    piece = bytearray(8 * MIB)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(piece):
            pass


def curl_rate(url, ca_file, times=3):
    rates = []
    for _ in range(times):
        done = subprocess.run(["curl", "-fsS", "--cacert", ca_file, "-o", "/dev/null", "-w", "%{speed_download}", url],
                              capture_output=True, text=True, check=True)
        rates.append(float(done.stdout))
    return statistics.median(rates)


def pull_beside_nginx(sijil, folder, size):
    """The same client (curl), the same bytes: from Sijil, decrypted and verified, and from nginx as a plain file."""
    plain = os.path.join(folder, "www", "plain")
    os.makedirs(os.path.dirname(plain), exist_ok=True)
    with open(plain, "wb") as file:
        for _ in range(size // (8 * MIB)):
            file.write(os.urandom(8 * MIB))
    place = sijil.server.client(sijil.login).repository(REPOSITORY)
    location, digest = place.begin(), subprocess.run(["sha256sum", plain], capture_output=True, text=True, check=True)
    digest = "sha256:" + digest.stdout.split()[0]
    token = place.client.token(place.scope)
    subprocess.run(["curl", "-fsS", "--cacert", sijil.ca_file, "-o", "/dev/null", "-T", plain, "-H",
                    "Authorization: Bearer " + token, f"{location}{'&' if '?' in location else '?'}digest={digest}"], check=True)
    header = os.path.join(folder, "header")
    with open(header, "w", encoding="ascii") as file:
        file.write("Authorization: Bearer " + place.client.token(place.scope, fresh=True))
    rates = {"sijil": [], "nginx": []}
    with Nginx(sijil.server.folder + "/tls/server.pem", sijil.server.folder + "/tls/server.key", sijil.ca_file, folder) as nginx:
        for _ in range(5):
            done = subprocess.run(["curl", "-fsS", "--cacert", sijil.ca_file, "-H", "@" + header, "-o", "/dev/null", "-w",
                                   "%{speed_download}", f"{sijil.url}/v2/{REPOSITORY}/blobs/{digest}"],
                                  capture_output=True, text=True, check=True)
            rates["sijil"].append(float(done.stdout))
            rates["nginx"].append(curl_rate(nginx.url + "/plain", sijil.ca_file, 1))
    return {name: statistics.median(values) / 1e6 for name, values in rates.items()}


def bounds(folder):
    """What one core does alone: SHA-256 and AES-256-GCM with OpenSSL, and our own store without any network."""
    found = {}
    for name, words in (("sha256", ["-evp", "sha256"]), ("aes-256-gcm", ["-evp", "aes-256-gcm"])):
        done = subprocess.run(["openssl", "speed", "-mr", "-seconds", "2", "-bytes", "65536", *words], capture_output=True,
                              text=True, check=True)
        figures = re.findall(r"^\+F:\d+:[^:]+:([\d.]+)", done.stdout, re.MULTILINE)
        found[name + " MB/s"] = float(figures[-1]) / 1e6
    done = subprocess.run([os.path.join(BUILD, "bench/tls_bench")], capture_output=True, text=True, check=True)
    found["tls alone"] = done.stdout.strip()
    done = subprocess.run([os.path.join(BUILD, "bench/blob_bench"), os.path.join(folder, "blobs"), "256"], capture_output=True,
                          text=True, check=True)
    found["store alone"] = [" ".join(line.split()) for line in done.stdout.splitlines()]
    return found


def option_of(pid, name):
    with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
        for word in file.read().split("\0"):
            if word.startswith(name + "="):
                return word[len(name) + 1:]
    return None


def events_per_second(sijil, submitters=(16, 256)):
    """A second gateway on the log of the first, which is idle meanwhile: events recorded durably, nothing else."""
    keyd = next(socket for pid in sijil.server.processes("sijil-keyd") if (socket := option_of(pid, "--socket")))
    folder = next(run for pid in sijil.server.processes("postgres") if (run := option_of(pid, "--unix_socket_directories")))
    owner = os.stat(f"/proc/{sijil.pids()[-1]}")
    become = ["setpriv", f"--reuid={owner.st_uid}", f"--regid={owner.st_gid}", "--clear-groups"] if os.getuid() == 0 else []
    database = f"host={folder} dbname=sijil user=sijil_app"
    asked = subprocess.run([*become, "psql", "-XAt", "-F", " ", database, "-c",
                            "SELECT l.origin, a.epoch FROM audit_log l, authorization_epoch a"],
                           capture_output=True, text=True, check=True).stdout.split()
    found = {}
    for count in submitters:
        done = subprocess.run([*become, os.path.join(BUILD, "bench/audit_bench"), database, keyd, asked[0], str(count), "10", asked[1]],
                              capture_output=True, text=True, check=True)
        figures = re.match(r"([\d.]+) events/s, p50 ([\d.]+) ms, p99 ([\d.]+) ms, longest ([\d.]+) ms, (\d+) failed", done.stdout)
        found[f"{count} at a time"] = {"events a second": float(figures[1]), "p50 ms": float(figures[2]),
                                       "p99 ms": float(figures[3]), "failed": int(figures[5])}
    return found


def table(sijil, peer):
    lines = [f"{'':34} {'sijil':>12} {'docker-reg.':>12} {'ratio':>7}  {'CPU s/GB':>15}  {'peak MiB':>13}  {'p99 ms':>15}"]
    for name, ours in sijil.items():
        theirs = peer[name]
        unit = "mb_per_second" if ours["mb_per_second"] > 0 else "per_second"
        cpu = "" if unit == "per_second" else \
            f"{ours['server_cpu_seconds_per_gb']:6.2f} / {theirs['server_cpu_seconds_per_gb']:5.2f}"
        lines.append(f"{name:34} {ours[unit]:12.1f} {theirs[unit]:12.1f} {ours[unit] / theirs[unit]:7.2f}  {cpu:>15}  "
                     f"{ours['server_peak_mib']:5.0f} / {theirs['server_peak_mib']:5.0f}  "
                     f"{ours['p99_ms']:6.1f} / {theirs['p99_ms']:6.1f}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller blobs and fewer requests: to see that it works")
    parser.add_argument("--output", help="JSON file (default: bench/results/<time>.json)")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="sijil-bench-", dir="/var/tmp")
    results = {"time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "machine": platform.machine(),
               "cores": os.cpu_count(), "quick": options.quick, "load before": os.getloadavg()}
    try:
        fill_page_cache(folder)
        results["bounds"] = bounds(folder)
        with Sijil() as sijil:
            tls = sijil.server.folder + "/tls"
            with DockerRegistry(tls + "/server.pem", tls + "/server.key", sijil.ca_file, folder) as peer:
                results["sijil"] = measure(sijil, options.quick)
                results["docker-registry"] = measure(peer, options.quick)
            results["audit events"] = events_per_second(sijil)
            results["pull beside nginx MB/s"] = pull_beside_nginx(sijil, folder, (256 * MIB) if options.quick else GIB)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    results["load after"] = os.getloadavg()
    print(table(results["sijil"], results["docker-registry"]))
    pull = results["pull beside nginx MB/s"]
    print(f"{'pull, one curl, beside nginx':34} {pull['sijil']:12.1f} {pull['nginx']:12.1f} {pull['sijil'] / pull['nginx']:7.2f}")
    for name, value in results["audit events"].items():
        print(f"{'audit events, ' + name:34} {value['events a second']:12.0f}   p50 {value['p50 ms']} ms, p99 {value['p99 ms']} ms")
    for name, value in results["bounds"].items():
        print(f"bound: {name}: {value}" if not isinstance(value, list) else "\n".join("bound: " + line for line in value))
    output = options.output or os.path.join(os.path.dirname(os.path.abspath(__file__)), "results",
                                            results["time"].replace(":", "") + ".json")
    os.makedirs(os.path.dirname(os.path.abspath(output)), exist_ok=True)
    with open(output, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
    print("all figures:", output)


if __name__ == "__main__":
    main()
