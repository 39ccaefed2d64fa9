"""A Slurm cluster on this machine, for tests: its own munge and slurmctld, two nodes, and slurmrestd on a socket. Loopback only; needs
root.

with Cluster() as cluster:
    cluster.url         # unix:/..., of slurmrestd
    cluster.token_file  # of the user root
    cluster.config      # SLURM_CONF
Each node has its own name (UTS namespace), a feature, and two devices gpu:fake."""
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from ports import free_ports

PROGRAMS = ("munged", "slurmctld", "slurmd", "slurmrestd", "scontrol", "sbatch")
FEATURES = ("region-ae-dxb", "region-ae-auh")
SECONDS = 60
CONFIG = """ClusterName=sijil
SlurmctldHost={host}(127.0.0.1)
SlurmUser=slurm
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={folder}/state/jwt.key
SlurmctldPort={port}
SlurmdPort={slurmd_port}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SrunPortRange={first}-{last}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=30
InactiveLimit=0
KillWait=2
MinJobAge=300
JobRequeue=0
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
{nodes}
PartitionName=train Nodes=ALL Default=YES MaxTime=60 State=UP OverSubscribe=NO
"""
NODE = "NodeName={name} NodeHostname={name} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=4000 Gres=gpu:fake:2 Feature={feature} State=UNKNOWN"


def why_not():
    """Why no cluster can be started here; None: it can."""
    if os.geteuid() != 0:
        return "Slurm's daemons are started by root"
    missing = [name for name in PROGRAMS if shutil.which(name, path="/usr/sbin:/usr/bin") is None]
    return f"these programs are missing: {' '.join(missing)}" if missing else None


def read(path):
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


def wait_for(what, is_so):
    until = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < until, f"the cluster has not started: {what}"
        time.sleep(0.05)


class Cluster:
    def __init__(self, mounts=None):
        """`mounts`: for each node a folder, which the node sees at mount_point() below the cluster's folder."""
        self.mounts = mounts or {}

    def mount_point(self):
        return self.path("here")

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="sijil-slurm-", dir="/tmp")  # a socket's path is at most 107 bytes long
        os.chmod(self.folder, 0o755)
        self.config = os.path.join(self.folder, "etc/slurm.conf")
        self.environment = {"PATH": "/usr/sbin:/usr/bin:/bin", "SLURM_CONF": self.config}
        self.nodes = [f"node{i + 1}" for i in range(len(FEATURES))]
        self.processes = []
        try:
            self.start()
        except BaseException:
            for name in sorted(os.listdir(self.path("log"))):
                print(f"--- {name}\n{read(self.path('log', name))[-2000:]}")
            self.__exit__()
            raise
        return self

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def start(self):
        for name in ("etc", "state", "log", "run", "munge", "spool", "rest", "here"):
            os.mkdir(self.path(name))
        self.write_config()
        self.start_munge()
        self.write_key("state/jwt.key", "slurm")
        for name in ("state", "log", "run"):
            shutil.chown(self.path(name), "slurm", "slurm")
        self.start_controller()
        self.daemons = {node: self.start_node(node) for node in self.nodes}
        self.start_rest()
        wait_for("nodes", lambda: self.run("sinfo", "-h", "-o", "%T").split() == ["idle"])

    def write_key(self, name, user):
        path = self.path(name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(os.urandom(64))
        shutil.chown(path, user, user)

    def is_old(self):
        """Before 23.11: the API is a plugin with its version, and slurmd needs no word about control groups."""
        words = subprocess.run(["/usr/sbin/slurmctld", "-V"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
        return tuple(int(part) for part in words[-1].split(".")[:2]) < (23, 11)

    def write_config(self):
        first = free_ports(34)
        self.ports = {node: first + 2 + i for i, node in enumerate(self.nodes)}
        nodes = "\n".join(NODE.format(name=node, port=self.ports[node], feature=feature) for node, feature in zip(self.nodes, FEATURES))
        with open(self.config, "w", encoding="ascii") as file:
            file.write(CONFIG.format(host=socket.gethostname().split(".")[0], folder=self.folder, port=first, slurmd_port=first + 1,
                                     first=first + 4, last=first + 33, nodes=nodes))
        if not self.is_old():
            with open(self.path("etc/cgroup.conf"), "w", encoding="ascii") as file:
                file.write("CgroupPlugin=disabled\n")
        with open(self.path("etc/gres.conf"), "w", encoding="ascii") as file:
            for node in self.nodes:
                for i in range(2):
                    os.mknod(self.path("run", f"{node}-{i}"), 0o666 | 0o020000, os.makedev(1, 3))  # as /dev/null
                file.write(f"NodeName={node} Name=gpu Type=fake File={self.path('run', node)}-[0-1]\n")

    def spawn(self, *words, user=None, **environment):
        more = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if user else {}
        with open(self.path("log", os.path.basename(words[0]) + ".out"), "ab") as log:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                       env={**self.environment, **environment}, **more)
        self.processes.append(process)
        return process

    def start_munge(self):
        self.write_key("munge/key", "munge")
        shutil.chown(self.path("munge"), "munge", "munge")
        self.spawn("/usr/sbin/munged", "--foreground", "--force", "--key-file=" + self.path("munge/key"), "--socket=" + self.path("munge/socket"),
                   "--pid-file=" + self.path("munge/pid"), "--log-file=" + self.path("munge/log"), "--seed-file=" + self.path("munge/seed"),
                   user="munge")
        wait_for("munge", lambda: os.path.exists(self.path("munge/socket")))

    def start_controller(self):
        self.controller = self.spawn("/usr/sbin/slurmctld", "-D", *([] if read(self.path("state/clustername")) else ["-c"]))

    def start_node(self, node):
        """slurmd binds to the address of its own host name, so each has a host name and /etc/hosts of its own."""
        hosts = self.path("etc", "hosts." + node)
        os.makedirs(self.path("spool", node), exist_ok=True)
        with open(hosts, "w", encoding="ascii") as file:
            file.write(read("/etc/hosts") + f"\n127.0.0.1 {node}\n")
        own = self.mounts.get(node, self.path("spool", node))
        return self.spawn("/usr/bin/unshare", "--uts", "--mount", "--propagation", "private", "/bin/sh", "-c",
                          'mount --bind "$1" /etc/hosts && mount --bind "$3" "$4" && hostname "$2" && exec slurmd -D -N "$2"', "slurmd", hosts, node, own,
                          self.mount_point())

    def start_rest(self):
        """slurmrestd refuses to be root or Slurm's user."""
        shutil.chown(self.path("rest"), "nobody")
        self.url = "unix:" + self.path("rest/socket")
        plugin = "openapi/v0.0.38" if self.is_old() else "openapi/slurmctld"
        self.spawn("/usr/sbin/slurmrestd", "-a", "rest_auth/jwt", "-s", plugin, self.url, user="nobody", SLURM_JWT="daemon")
        wait_for("slurmrestd", lambda: os.path.exists(self.path("rest/socket")))
        wait_for("slurmctld", lambda: "UP" in self.run("scontrol", "ping", check=False))
        self.token_file = self.token("root")

    def token(self, user):
        """A file with a token of this user."""
        path = self.path("token-" + user)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write(self.run("scontrol", "token", "username=" + user, "lifespan=3600").split("=", 1)[1])
        return path

    def run(self, *words, check=True):
        done = subprocess.run(words, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=SECONDS)
        text = done.stdout.decode()
        assert not check or done.returncode == 0, text
        return text

    def wait_until_saved(self, job):
        """slurmctld writes its state every few seconds; a job that it has not written is lost when it ends."""
        def is_saved():
            try:
                with open(self.path("state/job_state"), "rb") as file:
                    return job.encode() in file.read()
            except FileNotFoundError:
                return False
        wait_for("the state of jobs", is_saved)

    def kill_controller(self):
        self.controller.kill()
        self.controller.wait()

    def left(self):
        """The processes of jobs, which are in sessions of their own."""
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if self.folder.encode() in file.read():
                        yield int(name)
            except OSError:
                pass

    def __exit__(self, *_):
        running = [process for process in self.processes if process.returncode is None]  # the number of another one may be in use again
        for process in reversed(running):
            try:
                os.killpg(process.pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
        for process in running:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        while left := list(self.left()):
            for number in left:
                try:
                    os.kill(number, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.05)
        shutil.rmtree(self.folder, ignore_errors=True)
