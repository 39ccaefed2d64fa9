#include "cmd/options.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct option_row rows[] = {
    {RUNNER_LEAST, "least", "LEVEL", "the least isolation: rlimits, cgroup-v1 or cgroup-v2; default: that of SPEC, or rlimits"},
    {RUNNER_JSON, "json", NULL, "answer in JSON; the last line of standard output"},
    {RUNNER_WORK, "work", "DIR", "folder for runs; default: /var/tmp/sijil-runner-UID"},
    {RUNNER_USER, "user", "NAME", "the system user that a payload runs as, if root starts this; default: sijil-run"},
    {RUNNER_CGROUP, "cgroup", "DIR",
     "a delegated folder of control groups (version 2) without processes; default: this process's own. serve: `own` makes room in that"},
    {RUNNER_NVML, "nvml", "FILE", "the driver's library of devices (NVML); default: libnvidia-ml.so.1"},
    {RUNNER_IMAGE_BYTES, "image-bytes", "BYTES",
     "the most that an unpacked image may have, for try and serve; default: 34359738368"},
    {RUNNER_DEVICES, "devices", "DIR", "the folder with the nodes of devices; default: /dev"},
    {RUNNER_HELP, "help", NULL, "show this text and end"},
    {RUNNER_VERSION, "version", NULL, "show the version and end"},
};
static const struct option_row slurm_rows[] = {
    {RUNNER_SLURM, "slurm", "URL",
     "a Slurm cluster instead of this machine: https://HOST:PORT or unix:/PATH of slurmrestd, or commands: for sbatch and squeue"},
    {RUNNER_SLURM_USER, "slurm-user", "NAME", "the user of the token; default: this user"},
    {RUNNER_SLURM_TOKEN, "slurm-token", "FILE", "a file with a token (JWT) for slurmrestd"},
    {RUNNER_SLURM_CONFIG, "slurm-config", "FILE", "slurm.conf, for commands:"},
    {RUNNER_SLURM_PROGRAMS, "slurm-programs", "DIR", "the folder of sbatch and squeue, for commands:; default: /usr/bin"},
    {RUNNER_CA, "ca-file", "FILE",
     "certificates of the authorities that the certificate of the Kubernetes API, of slurmrestd, or of the registry, must come from (PEM)"},
};
static const struct option_row kubernetes_rows[] = {
    {RUNNER_KUBERNETES, "kubernetes", "URL", "a Kubernetes cluster instead of this machine: https://HOST:PORT of its API"},
    {RUNNER_KUBERNETES_TOKEN, "kubernetes-token", "FILE", "a file with the token of the service account sijil-runner"},
    {RUNNER_KUBERNETES_NAMESPACE, "kubernetes-namespace", "NAME", "the namespace of runs; default: sijil-runs"},
    {RUNNER_KUBERNETES_IMAGE, "kubernetes-image", "IMAGE",
     "an image with sijil-pod, HOST/REPOSITORY@sha256:DIGEST: the agent of pods; check: a pod of it shows that it is closed in"},
    {RUNNER_KUBERNETES_REGION, "kubernetes-region", "REGION",
     "for check: the pod starts on a node with the label of this region; default: on any"},
    {RUNNER_KUBERNETES_PAYLOAD, "kubernetes-payload", "IMAGE",
     "for serve: what runs without an image of their own see, HOST/REPOSITORY@sha256:DIGEST"},
    {RUNNER_KUBERNETES_LISTEN, "kubernetes-listen", "ADDRESS:PORT",
     "for serve: where agents of pods are awaited, at as many ports from this one on as --parallel says"},
    {RUNNER_KUBERNETES_ADDRESS, "kubernetes-address", "ADDRESS",
     "for serve: the IP address at which pods reach this machine; default: that of --kubernetes-listen"},
    {RUNNER_KUBERNETES_QUEUE, "kubernetes-queue", "NAME", "for serve: the queue of Kueue that lets jobs begin; default: none"},
    {RUNNER_KUBERNETES_DEVICE, "kubernetes-device", "RESOURCE=COUNT:BYTES:TYPE",
     "for serve: devices that pods may have: the plugin's resource, how many, bytes of memory of each, the driver's name for them; once for each kind"},
    {RUNNER_KUBERNETES_PATIENCE, "kubernetes-patience", "SECONDS",
     "for serve: how long a pod may take to begin, before the run is left to another attempt; default: 600"},
};
static const struct option_row try_rows[] = {
    {RUNNER_CODE, "code", "PATH", "the folder that becomes /code; it is copied"},
    {RUNNER_INPUT, "input", "NAME=PATH", "a file or folder that becomes /in/NAME; it is copied; once for each"},
    {RUNNER_OUTPUT, "output", "FOLDER", "a new folder for the files that the command left in /out"},
    {RUNNER_ADD, "add", "NAME=VALUE", "a variable that this machine adds to the environment, such as OMP_NUM_THREADS=4"},
    {RUNNER_IMAGE, "image", "FOLDER",
     "a folder with an image (an OCI image layout), which the command sees in place of this machine's /usr"},
    {RUNNER_QUIET, "quiet", NULL, "do not show the output of the command"},
};
static const struct option_row enroll_rows[] = {
    {RUNNER_STATE, "state", "DIR", "the folder of the enrolled runner, for show and serve, too; default: /var/lib/sijil-runner"},
    {RUNNER_CODE_FILE, "code-file", "FILE", "the file that `sijil runner invite` has written; - is standard input"},
    {RUNNER_ROOT, "root", "FILE", "the public key of the approvers' root (PEM), which the file must have"},
    {RUNNER_SIGNER, "signer", "FILE", "the registry's public key of documents (PEM), which the file must have"},
    {RUNNER_LOG_KEY, "log-key", "KEY", "the key of the registry's log, as `sijil audit key` shows it, which the file must have"},
    {RUNNER_WAIT, "wait", NULL, "wait until the runner was approved, and fetch its certificate"},
};
static const struct option_row serve_rows[] = {
    {RUNNER_PARALLEL, "parallel", "N", "how many runs at a time, 1 to 64; default: 1"},
    {RUNNER_CPUS, "cpus", "N", "the processors of all runs together; default: the machine's"},
    {RUNNER_MEMORY, "memory", "BYTES", "the memory of all runs together; default: the machine's"},
    {RUNNER_LIMIT, "limit", "NAME=VALUE",
     "the most that one run may ask for, by the name of a limit of SPEC, such as time_s=86400; once for each"},
    {RUNNER_IMAGE_CACHE, "image-cache", "BYTES",
     "how much of images is kept, encrypted, between runs of the same project; default: nothing"},
    {RUNNER_TUNNEL_LISTEN, "tunnel-listen", "ADDRESS:PORT",
     "take nodes of runs with several nodes: where the runners of the other nodes reach this one, at as many ports from this one on as "
     "--parallel says; default: take none"},
    {RUNNER_TUNNEL_ADDRESS, "tunnel-address", "ADDRESS",
     "the IP address at which other runners reach this machine; default: that of --tunnel-listen"},
    {RUNNER_DRAIN, "drain", "SECONDS", "how long runs may go on after TERM, before they are cancelled; default: 0"},
};
static const struct option_row schedule_rows[] = {
    {RUNNER_SLURM_REGION, "slurm-region", "REGION",
     "a region of the cluster's nodes, whose feature is region- and the region with - for /; once for each"},
    {RUNNER_SLURM_PARTITION, "slurm-partition", "NAME", "for the jobs; default: the cluster's"},
    {RUNNER_SLURM_GRES, "slurm-gres", "TYPE=GRES",
     "Slurm's name for a type of device, such as H200=gpu:h200; default: gpu; once for each"},
    {RUNNER_SLURM_EXTRA, "slurm-extra", "SECONDS",
     "that a job may last longer than its program, to fetch inputs and store outputs; default: 3600"},
    {RUNNER_SLURM_PATIENCE, "slurm-patience", "SECONDS",
     "how long a job may run or be held while no runner has its run, before it is ended; default: 60"},
    {RUNNER_SLURM_RUNNER, "slurm-runner", "FILE", "sijil-runner on the nodes; default: /usr/bin/sijil-runner"},
};
static const struct option_row jobs_rows[] = {
    {RUNNER_JOBS, "jobs", "SOCKET",
     "run only what jobs of a scheduler name, which connect to this socket; job: where to connect; serve --slurm: the socket on the nodes. "
     "The default for both: /run/sijil-runner/jobs"},
    {RUNNER_JOBS_USER, "jobs-user", "NAME", "the user of these jobs; root and the user of this process may connect, too"},
};
static const struct option_group groups[] = {
    {"", rows, COUNT(rows)},
    {"for check and serve: a Slurm cluster", slurm_rows, COUNT(slurm_rows)},
    {"for check and serve: a Kubernetes cluster", kubernetes_rows, COUNT(kubernetes_rows)},
    {"for try", try_rows, COUNT(try_rows)},
    {"for enroll", enroll_rows, COUNT(enroll_rows)},
    {"for serve", serve_rows, COUNT(serve_rows)},
    {"for serve --slurm", schedule_rows, COUNT(schedule_rows)},
    {"for nodes of a cluster: serve and job", jobs_rows, COUNT(jobs_rows)}};
static const char *const synopses[] = {
    "check [--least=LEVEL] [--slurm=URL | --kubernetes=URL] [--json]",
    "try SPEC [OPTION]... [-- COMMAND [ARGUMENT]...]",
    "enroll [URL] --code-file=FILE [--wait] [OPTION]...",
    "show [--state=DIR] [--json]",
    "serve [--state=DIR] [--parallel=N] [OPTION]...",
    "serve --slurm=URL --slurm-region=REGION [OPTION]...",
    "serve --kubernetes=URL --kubernetes-listen=ADDRESS:PORT --cpus=N --memory=BYTES [OPTION]...",
    "job [--jobs=SOCKET] RUN ATTEMPT",
    NULL};
static const char *const see_also[] = {"sijil(1)", "bwrap(1)", NULL};

const struct program runner_program = {
    .name = "sijil-runner",
    .section = 1,
    .summary = "runs untrusted training code",
    .synopses = synopses,
    .about =
        "Check the isolation that this machine offers, or run a command in exactly the sandbox that an ordered run would get: no "
        "network, nothing of this machine but /usr, limits on all that it uses. Or enroll this machine as a runner of a registry, with the "
        "file of a single-use code: it makes its own key and pins the keys of the registry. Or serve: ask that registry for signed orders, "
        "check each of them, and run them. With --slurm, have a cluster start a job for each run that waits; such a job tells the runner of "
        "its node, which serves with --jobs, that it may run it now. With --kubernetes, runs are pods of a cluster, and not processes of this machine.",
    .groups = groups,
    .group_count = COUNT(groups),
    .closing =
        "SPEC is a run's specification in JSON; {} has all defaults.\n"
        "COMMAND sees /code and /in, which it can't change, and writes to /out. Without COMMAND, argv of SPEC is run.\n"
        "A line in the file that $SIJIL_HEARTBEAT names is shown as progress.\n"
        "enroll shows the name of the runner's key, which the approvers compare, and the keys of the registry. URL is in place of the one in\n"
        "the file. Without --code-file it goes on where it was: it fetches the certificate.\n"
        "serve logs a JSON object in each line of standard error. TERM cancels what runs, and ends it.\n"
        "job is what a scheduler starts on a node. RUN and ATTEMPT are no secret, and are not believed.",
    .exit_status =
        "check: 0 the isolation suffices or the cluster answers, 1 otherwise. try: that of COMMAND, 128 and the number of a signal, 123 COMMAND ran, "
        "but an output or the report could not be written, 124 time_s was over, 125 the outputs are refused, 126 nothing was started or the "
        "sandbox failed. enroll: 0 enrolled, 1 refused, 3 it waits for its approval. serve: 0 stopped as asked, 1 it can't serve, "
        "3 the registry has suspended the runner's key, 4 stopped as asked, and a run had to be killed. job: 0 the runner of this node had the "
        "run, however that ended; 1 otherwise. 2 the command line is wrong.",
    .see_also = see_also,
};
