"""A Kubernetes cluster of one node on this machine, for tests: etcd, the API, its controllers, a scheduler, containerd and a kubelet. Loopback only; needs root.

with Cluster(PROGRAMS) as cluster:
    cluster.url, cluster.ca            # of the API
    cluster.api("GET", "/api/v1/nodes")  # as its administrator
Pods get an address on a bridge that leads to this machine's HOST alone, and that enforces no NetworkPolicy."""
import base64
import contextlib
import glob
import hashlib
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tarfile
import tempfile
import time

import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from ports import free_ports  # noqa: E402

PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
DEBIAN = ("containerd", "runc", "ip")
CNI = "/usr/lib/cni"
SECONDS = 120
HOST = "10.244.0.1"  # on the bridge, and nowhere else; no pod has a route beyond it
SERVICES, PODS, DNS = "10.96.0.0/24", "10.244.0.0/24", "10.96.0.10"
SYSCTLS = ("vm.overcommit_memory", "vm.panic_on_oom", "kernel.panic", "kernel.panic_on_oops", "kernel.keys.root_maxkeys", "kernel.keys.root_maxbytes")
CAP_SYS_RESOURCE = 24
PAUSE = """
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int number) { (void)number; _exit(0); }
static void reap(int number) { (void)number; while (waitpid(-1, 0, WNOHANG) > 0) {} }
int main(void) { signal(SIGTERM, end); signal(SIGINT, end); signal(SIGCHLD, reap); for (;;) pause(); }
"""
NETWORK = {"cniVersion": "0.4.0", "plugins": [{"type": "bridge", "isGateway": False, "ipMasq": False, "ipam": {"type": "host-local", "ranges": [[{"subnet": PODS}]]}}]}
CONTAINERD = """version = 2
root = "{folder}/containerd"
state = "{folder}/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt"]
[grpc]
  address = "{folder}/run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  stream_server_address = "127.0.0.1"
  stream_server_port = "{stream}"
  disable_apparmor = true
  restrict_oom_score_adj = {restricted}
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni}"
    conf_dir = "{folder}/etc/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


def why_not(programs):
    """Why no cluster can be started here; None: it can."""
    if os.geteuid() != 0:
        return "a kubelet is started by root"
    missing = [name for name in PARTS if not os.access(os.path.join(programs, name), os.X_OK)]
    missing += [name for name in DEBIAN if shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") is None]
    return f"these programs are missing: {' '.join(missing)}" if missing else None


def run(*words, **more):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=SECONDS, **more)
    assert done.returncode == 0, (words, done.stdout.decode(errors="replace"))
    return done.stdout.decode(errors="replace")


def wait_for(what, is_so, seconds=SECONDS):
    until = time.monotonic() + seconds
    while not (seen := is_so()):
        assert time.monotonic() < until, f"not in time: {what}"
        time.sleep(0.1)
    return seen


class Refused(Exception):
    def __init__(self, status, message):
        super().__init__(f"{status}: {message}")
        self.status = status


class Cluster:
    def __init__(self, programs):
        self.programs = programs

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="sijil-k8s-", dir="/var/tmp")  # a socket's path is at most 107 bytes long
        first = free_ports(8)
        self.ports = dict(zip(("etcd", "peer", "api", "controllers", "scheduler", "kubelet", "health", "stream"), range(first, first + 8)))
        self.url, self.ca, self.node = f"https://127.0.0.1:{self.ports['api']}", self.path("pki/ca.crt"), "localhost"
        self.bridge = f"sijil{first}"
        self.processes, self.sysctls, self.images = {}, {}, {}
        try:
            self.start()
        except BaseException:
            self.show_logs()
            self.__exit__()
            raise
        return self

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text, mode=0o600):
        with open(os.open(self.path(name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="ascii") as file:
            file.write(text)
        return self.path(name)

    def show_logs(self):
        for name in self.processes:
            with open(self.path("log", name), encoding="utf-8", errors="replace") as file:
                print(f"--- {name}\n" + "".join(file.readlines()[-8:]), flush=True)

    # ---- the parts ----

    def start(self):
        os.chmod(self.folder, 0o700)
        for name in ("pki", "etc/cni", "log", "run", "kubelet"):
            os.makedirs(self.path(name))
        self.make_certificates()
        self.start_etcd()
        self.start_api()
        self.start_controllers()
        self.start_containerd()
        self.start_bridge()
        self.start_kubelet()

    def spawn(self, name, program, *words):
        with open(self.path("log", name), "ab") as log:
            self.processes[name] = subprocess.Popen((program, *words), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, umask=0o022,
                                                    env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, cwd=self.folder)

    def part(self, name, /, **options):
        words = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
        self.spawn(name, os.path.join(self.programs, name), *words)

    def certificate(self, name, subject, names=""):
        use = "serverAuth,clientAuth" if names else "clientAuth"
        more = f"subjectAltName={names}\n" if names else ""
        self.write(f"pki/{name}.ext", f"basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage={use}\n{more}")
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject, "-keyout", self.path(f"pki/{name}.key"), "-out",
            self.path(f"pki/{name}.csr"))
        run("openssl", "x509", "-req", "-in", self.path(f"pki/{name}.csr"), "-CA", self.ca, "-CAkey", self.path("pki/ca.key"), "-CAcreateserial", "-days", "2",
            "-extfile", self.path(f"pki/{name}.ext"), "-out", self.path(f"pki/{name}.crt"))

    def make_certificates(self):
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=test", "-days", "2", "-keyout",
            self.path("pki/ca.key"), "-out", self.ca, "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        self.certificate("api", "/CN=kube-apiserver", "IP:127.0.0.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes.default.svc")
        self.certificate("etcd", "/CN=etcd", "IP:127.0.0.1")
        self.certificate("kubelet-server", f"/O=system:nodes/CN=system:node:{self.node}", f"IP:127.0.0.1,DNS:{self.node}")
        for name, subject in (("kubelet-client", "/CN=kube-apiserver-kubelet-client"), ("admin", "/O=system:masters/CN=admin"),
                              ("controllers", "/CN=system:kube-controller-manager"), ("scheduler", "/CN=system:kube-scheduler"),
                              ("node", f"/O=system:nodes/CN=system:node:{self.node}")):
            self.certificate(name, subject)
        run("openssl", "genrsa", "-out", self.path("pki/sa.key"), "2048")
        run("openssl", "rsa", "-in", self.path("pki/sa.key"), "-pubout", "-out", self.path("pki/sa.pub"))
        self.admin = ssl.create_default_context(cafile=self.ca)
        self.admin.load_cert_chain(self.path("pki/admin.crt"), self.path("pki/admin.key"))

    def config(self, name):
        user = {"client-certificate": self.path(f"pki/{name}.crt"), "client-key": self.path(f"pki/{name}.key")}
        return self.write(f"etc/{name}.conf", json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "t", "contexts": [{"name": "t", "context": {"cluster": "t", "user": "u"}}],
            "clusters": [{"name": "t", "cluster": {"server": self.url, "certificate-authority": self.ca}}], "users": [{"name": "u", "user": user}]}))

    def start_etcd(self):
        url, peer = (f"https://127.0.0.1:{self.ports[name]}" for name in ("etcd", "peer"))
        own = {"cert_file": self.path("pki/etcd.crt"), "key_file": self.path("pki/etcd.key"), "trusted_ca_file": self.ca, "client_cert_auth": "true"}
        self.part("etcd", name="t", data_dir=self.path("etcd"), unsafe_no_fsync="true", log_level="warn", listen_client_urls=url, advertise_client_urls=url,
                  listen_peer_urls=peer, initial_advertise_peer_urls=peer, initial_cluster=f"t={peer}", **own, **{f"peer_{key}": value for key, value in own.items()})
        wait_for("etcd", lambda: self.is_open("etcd"))

    def is_open(self, name):
        assert all(process.poll() is None for process in self.processes.values()), "a part of the cluster has ended"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.ports[name])) == 0

    def start_api(self):
        """No endpoint of the service: a pod can't reach the API by it, and must not."""
        pki = lambda name: self.path("pki", name)  # noqa: E731
        self.part("kube-apiserver", bind_address="127.0.0.1", advertise_address="127.0.0.1", secure_port=self.ports["api"],
                  etcd_servers=f"https://127.0.0.1:{self.ports['etcd']}", etcd_cafile=self.ca, etcd_certfile=pki("etcd.crt"), etcd_keyfile=pki("etcd.key"),
                  tls_cert_file=pki("api.crt"), tls_private_key_file=pki("api.key"), client_ca_file=self.ca, authorization_mode="Node,RBAC",
                  anonymous_auth="false", enable_admission_plugins="NodeRestriction", endpoint_reconciler_type="none", service_cluster_ip_range=SERVICES,
                  service_account_issuer="https://kubernetes.default.svc", service_account_key_file=pki("sa.pub"), service_account_signing_key_file=pki("sa.key"),
                  kubelet_certificate_authority=self.ca, kubelet_client_certificate=pki("kubelet-client.crt"), kubelet_client_key=pki("kubelet-client.key"),
                  kubelet_preferred_address_types="Hostname")
        wait_for("the API", self.is_ready)

    def is_ready(self):
        assert self.processes["kube-apiserver"].poll() is None, "the API has ended"
        try:
            self.api("GET", "/readyz", is_text=True)
            return True
        except (OSError, Refused, http.client.HTTPException):
            return False

    def kill(self, name):
        self.processes[name].kill()
        self.processes.pop(name).wait()

    def kill_api(self):
        self.kill("kube-apiserver")

    def start_controllers(self):
        for name, port in (("kube-controller-manager", "controllers"), ("kube-scheduler", "scheduler")):
            config = self.config(port)
            more = {} if port == "scheduler" else {"service_account_private_key_file": self.path("pki/sa.key"), "root_ca_file": self.ca,
                                                   "use_service_account_credentials": "true", "kube_api_qps": 500, "kube_api_burst": 1000}
            self.part(name, bind_address="127.0.0.1", secure_port=self.ports[port], cert_dir=self.path("run"), kubeconfig=config,
                      authentication_kubeconfig=config, authorization_kubeconfig=config, leader_elect="false", authentication_skip_lookup="true", **more)

    def start_containerd(self):
        with open("/proc/self/status", encoding="ascii") as file:
            rights = int(next(line for line in file if line.startswith("CapEff")).split()[1], 16)
        restricted = "false" if rights >> CAP_SYS_RESOURCE & 1 else "true"
        self.write("etc/containerd.toml", CONTAINERD.format(folder=self.folder, stream=self.ports["stream"], cni=CNI, restricted=restricted))
        network = json.loads(json.dumps(NETWORK))
        network["name"] = network["plugins"][0]["bridge"] = self.bridge
        network["plugins"][0]["ipam"]["dataDir"] = self.path("cni")
        self.write("etc/cni/10.conflist", json.dumps(network))
        self.run_containerd()
        source, program = self.write("run/pause.c", PAUSE), self.path("run/pause")
        run("gcc", "-Os", "-static", "-s", "-o", program, source)
        self.add_image("localhost/pause:1", {"pause": program}, ["/pause"])

    def run_containerd(self):
        self.spawn("containerd", "/usr/bin/containerd", "--config", self.path("etc/containerd.toml"))
        wait_for("containerd", lambda: subprocess.run(self.ctr_words("version"), capture_output=True, check=False, timeout=SECONDS).returncode == 0)

    def kill_tasks(self, pod_uid):
        """Ends the containers of a pod, as a node does that crashes."""
        for name in subprocess.run(self.ctr_words("containers", "ls", "-q", f"labels.\"io.kubernetes.pod.uid\"=={pod_uid}"), capture_output=True, text=True,
                                   check=True, timeout=SECONDS).stdout.split():
            subprocess.run(self.ctr_words("tasks", "kill", "-s", "KILL", "-a", name), capture_output=True, check=False, timeout=SECONDS)

    def start_bridge(self):
        """What the pods are connected to; with an address of this machine, where a runner may listen."""
        run("ip", "link", "add", self.bridge, "type", "bridge")
        run("ip", "address", "add", f"{HOST}/24", "dev", self.bridge)
        run("ip", "link", "set", self.bridge, "up")

    def ctr_words(self, *words):
        return ("/usr/bin/ctr", "--address", self.path("run/containerd.sock"), "-n", "k8s.io", *words)

    def add_image(self, name, files, entry=(), volumes=()):
        """An image of one layer, with these files (path -> file of this machine, or "" for a folder), and volumes. A name that ends in @ gets its digest. Returns the name."""
        folder = tempfile.mkdtemp(dir=self.path("run"))
        blobs = os.path.join(folder, "blobs/sha256")
        os.makedirs(blobs)

        def blob(content, media):
            digest = hashlib.sha256(content).hexdigest()
            with open(os.path.join(blobs, digest), "wb") as file:
                file.write(content)
            return {"mediaType": media, "digest": "sha256:" + digest, "size": len(content)}

        def write(file, value):
            with open(os.path.join(folder, file), "w", encoding="ascii") as stream:
                json.dump(value, stream)

        media = "application/vnd.oci.image."
        layer = blob(layer_of(files), media + "layer.v1.tar")
        config = {"architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/bin:/usr/bin"], "Entrypoint": list(entry), "Volumes": {place: {} for place in volumes}},
                  "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}}
        manifest = blob(json.dumps({"schemaVersion": 2, "mediaType": media + "manifest.v1+json", "config": blob(json.dumps(config).encode(), media + "config.v1+json"),
                                    "layers": [layer]}).encode(), media + "manifest.v1+json")
        name += manifest["digest"] if name.endswith("@") else ""
        write("oci-layout", {"imageLayoutVersion": "1.0.0"})
        write("index.json", {"schemaVersion": 2, "manifests": [{**manifest, "annotations": {"io.containerd.image.name": name}}]})
        with tarfile.open(folder + ".tar", "w") as archive:
            for each in ("oci-layout", "index.json", "blobs"):
                archive.add(os.path.join(folder, each), each)
        run(*self.ctr_words("images", "import", folder + ".tar"))
        shutil.rmtree(folder)
        os.unlink(folder + ".tar")
        return name

    def start_kubelet(self):
        """Control groups of its own: two kubelets with one root would end each other's pods. Version 1 has to be allowed."""
        for place in control_groups():
            os.makedirs(os.path.join(place, self.bridge), exist_ok=True)
        self.sysctls = {name: read_sysctl(name) for name in SYSCTLS}
        few = "1%"
        settings = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "address": "127.0.0.1", "port": self.ports["kubelet"], "readOnlyPort": 0,
            "healthzBindAddress": "127.0.0.1", "healthzPort": self.ports["health"], "failCgroupV1": False, "failSwapOn": False, "cgroupDriver": "cgroupfs",
            "containerRuntimeEndpoint": f"unix://{self.path('run/containerd.sock')}", "podLogsDir": self.path("log/pods"),
            "tlsCertFile": self.path("pki/kubelet-server.crt"), "tlsPrivateKeyFile": self.path("pki/kubelet-server.key"),
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}, "x509": {"clientCAFile": self.ca}},
            "authorization": {"mode": "Webhook"}, "cgroupRoot": "/" + self.bridge, "makeIPTablesUtilChains": False,
            "volumePluginDir": self.path("kubelet/plugins"), "registerNode": True, "resolvConf": "", "clusterDomain": "cluster.local", "clusterDNS": [DNS],
            "imageGCHighThresholdPercent": 99, "imageGCLowThresholdPercent": 98, "syncFrequency": "10s",
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": few, "nodefs.inodesFree": few, "imagefs.available": few, "imagefs.inodesFree": few}}
        self.write("etc/kubelet.yaml", json.dumps(settings))
        self.run_kubelet()

    def run_kubelet(self):
        self.part("kubelet", config=self.path("etc/kubelet.yaml"), kubeconfig=self.config("node"), root_dir=self.path("kubelet"),
                  cert_dir=self.path("kubelet/pki"), hostname_override=self.node)
        wait_for("the node", self.has_node)

    def has_node(self):
        try:
            node = self.api("GET", f"/api/v1/nodes/{self.node}")
        except Refused:
            return False
        return not node["spec"].get("taints") and any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", ()))

    # ---- the API, as its administrator or with a token ----

    def api(self, method, path, value=None, *, token=None, patch="merge-patch", is_text=False):
        context = self.admin if token is None else ssl.create_default_context(cafile=self.ca)
        headers = {"Content-Type": f"application/{patch}+json" if method == "PATCH" else "application/json"}
        if token is not None:
            headers["Authorization"] = "Bearer " + token
        connection = http.client.HTTPSConnection("127.0.0.1", self.ports["api"], context=context, timeout=30)
        try:
            connection.request(method, path, None if value is None else json.dumps(value), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status >= 300:
            raise Refused(answer.status, text[:300])
        return text if is_text else json.loads(text)

    def apply(self, file):
        """Makes the objects of a manifest, whatever is there already stays."""
        places = {"Namespace": "/api/v1/namespaces", "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
                  "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
                  **{kind: f"/apis/rbac.authorization.k8s.io/v1/namespaces/{{}}/{kind.lower()}s" for kind in ("Role", "RoleBinding")},
                  **{kind: f"/apis/rbac.authorization.k8s.io/v1/{kind.lower()}s" for kind in ("ClusterRole", "ClusterRoleBinding")}}
        with open(file, encoding="ascii") as stream:
            for each in yaml.safe_load_all(stream):
                self.api("POST", places[each["kind"]].format(each["metadata"].get("namespace")), each)

    def token(self, space, account, audiences=(), bound=None):
        spec = {"expirationSeconds": 3600, "audiences": list(audiences)}
        if bound is not None:
            spec["boundObjectRef"] = bound
        made = self.api("POST", f"/api/v1/namespaces/{space}/serviceaccounts/{account}/token",
                        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {key: value for key, value in spec.items() if value}})
        return made["status"]["token"]

    # ---- the end ----

    def stop(self, name):
        process = self.processes.pop(name, None)
        if process is None:
            return
        process.terminate()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def clear_containers(self):
        """Before containerd ends: a shim outlives it, and ends only when its task is deleted."""
        def names(*words):
            return subprocess.run(self.ctr_words(*words), capture_output=True, text=True, check=False, timeout=SECONDS).stdout.split()

        def quietly(*words):
            subprocess.run(self.ctr_words(*words), capture_output=True, check=False, timeout=SECONDS)
        for name in names("tasks", "ls", "-q"):
            quietly("tasks", "kill", "-s", "KILL", "-a", name)
            quietly("tasks", "delete", "-f", name)
        for name in names("containers", "ls", "-q"):
            quietly("containers", "delete", name)

    def __exit__(self, *_):
        self.stop("kubelet")
        if "containerd" in self.processes:
            self.clear_containers()
        for name in ("containerd", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"):
            self.stop(name)
        self.end_left()
        for place in sorted(mounts_below(self.folder), reverse=True):
            subprocess.run(("/usr/bin/umount", "-l", place), capture_output=True, check=False)
        subprocess.run(("ip", "link", "delete", self.bridge), capture_output=True, check=False)
        for name, value in self.sysctls.items():
            subprocess.run(("sysctl", "-q", "-w", f"{name}={value}"), capture_output=True, check=False)
        for place in control_groups():
            for folder, _, _ in os.walk(os.path.join(place, self.bridge), topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
        for name in glob.glob(f"/var/lib/cni/results/{self.bridge}-*"):
            os.unlink(name)
        for name in os.listdir("/var/log/containers") if os.path.isdir("/var/log/containers") else ():
            link = os.path.join("/var/log/containers", name)
            if os.path.islink(link) and os.readlink(link).startswith(self.folder):
                os.unlink(link)
        shutil.rmtree(self.folder, ignore_errors=True)

    def end_left(self):
        """Shims, which are in sessions of their own: each has the folder in its command line."""
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    words = file.read()
                if b"containerd-shim" in words and self.folder.encode() in words:
                    os.kill(int(name), signal.SIGKILL)


def layer_of(files):
    with tempfile.TemporaryFile() as stream:
        with tarfile.open(fileobj=stream, mode="w") as archive:
            for name in sorted(files):
                info = tarfile.TarInfo(name)
                info.mode = 0o755
                if files[name] == "":
                    info.type = tarfile.DIRTYPE
                    archive.addfile(info)
                elif files[name].startswith("->"):
                    info.type, info.linkname = tarfile.SYMTYPE, files[name][2:]
                    archive.addfile(info)
                else:
                    with open(files[name], "rb") as content:
                        info.size = os.fstat(content.fileno()).st_size
                        archive.addfile(info, content)
        stream.seek(0)
        return stream.read()


def mount_lines():
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return [line.split(" ") for line in file]


def mounts_below(folder):
    return [words[4] for words in mount_lines() if words[4].startswith(folder + "/")]


def control_groups():
    return [words[4] for words in mount_lines() if words[words.index("-") + 1] in ("cgroup", "cgroup2")]


def read_sysctl(name):
    with open("/proc/sys/" + name.replace(".", "/"), encoding="ascii") as file:
        return file.read().strip()


def claims_of(token):
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
