/*
 * runner/sandbox/sandbox.h -- runs one untrusted program, and reports what it did (docs/runner.md).
 *
 * Before the program begins, a test from inside shows that the sandbox is closed. If a demanded part is not available, nothing
 * runs. When the call returns, no process, control group or file of the program is left.
 */
#pragma once

#include <signal.h>

#include "runner/sandbox/bubblewrap.h"
#include "runner/sandbox/cgroup.h"
#include "runner/sandbox/copy.h"
#include "runner/sandbox/outputs.h"
#include "runner/sandbox/proof.h"
#include "supervision/user.h"
#include "training/format/spec.h"

/** An input by name; the path of a file or folder of this machine. */
struct sandbox_input {
    const char *name, *path;
};

/** The folder of a run while it is filled, and the user that will read it. */
struct sandbox_folder {
    int fd;
    const char *path;
    const struct user *user;
};

struct sandbox_report;

struct sandbox_options {
    const struct run_limits *limits;
    enum isolation isolation; /* the minimum */
    const char *cgroup;       /* a delegated folder of control groups, or NULL */
    char *const *arguments;   /* the program and its arguments; NULL ends them */
    const json_t *variables;  /* variables_make() */
    const char *work;         /* the folder of all runs */
    const char *user;         /* the program's user, if the runner is root */
    const char *inside;       /* the path of sijil-inside */
    const char *code;         /* becomes /code; NULL: an empty folder */
    size_t input_count;
    struct sandbox_input inputs[RUN_INPUTS_MAX];
    /** In place of copies: writes `code`, if it is not NULL, and in/NAME for each input into the open folder of the run. */
    RESULT (*fill)(void *context, int folder, struct error *err);
    /** Makes the folder `root` in the folder of the run: what the program sees as /. NULL: it sees this machine's /usr. */
    RESULT (*image)(void *context, const struct sandbox_folder *folder, struct error *err);
    /** Gets the folder of checkpoints inside, before `ready`; it is closed after the call, so a copy is needed. NULL: nobody takes them. */
    RESULT (*checkpoints)(void *context, int folder, struct error *err);
    /**
     * Gets the device to the other nodes (runner/sandbox/nodes.h) once the sandbox is shown to be closed, and takes it over in any case; then the sandbox is
     * shown to be closed once more. NULL: there is no device, and no other node.
     */
    RESULT (*device)(void *context, int device, struct error *err);
    int64_t node, nodes; /* with `device`: which node of how many this is */
    /** When the sandbox is shown to be closed, before the program begins. Its failure ends the run. NULL: nothing. */
    RESULT (*ready)(void *context, struct error *err);
    size_t bind_count;
    const struct sandbox_bind *binds; /* devices and their libraries */
    unsigned tasks;                   /* processes of the program; 0: one, without the variables of a task */
    bool joins_tasks; /* they reach each other by the loopback, which a sandbox always has, and may ask which devices there are */
    bool unpacks;     /* the program unpacks an archive (base/sandbox.h); without `device` and `joins_tasks` */
    size_t address_count;
    const struct proof_address *addresses; /* that must be out of reach, besides those of proof_addresses() */
    /** The program's output, up to log_bytes. NULL: only hashed. */
    void (*log)(void *context, bool is_error, struct bytes piece);
    /** A new line in its heartbeat file, made safe for a terminal. NULL: none. */
    void (*progress)(void *context, const char *line);
    /** After the end, before the outputs are walked; the report has no outputs yet. NULL: nothing. */
    void (*ended)(void *context, const struct sandbox_report *report);
    /** Each output, after the end. NULL: only counted. */
    RESULT (*output)(void *context, const struct output_file *file, struct error *err);
    /** While it runs, with what its control group has used. NULL: nothing. */
    void (*each_second)(void *context, const struct cgroup_use *use);
    /** In a pod with devices: what its own side tells of them before the program begins (runner/devices/declared.h). Its failure ends the run. */
    RESULT (*pod_devices)(void *context, const char *const *texts, size_t count, struct error *err);
    /** And of their load, about once a second. */
    void (*pod_device_use)(void *context, const char *const *texts, size_t count);
    void *context;
    const volatile sig_atomic_t *cancelled; /* the program is stopped when it is not 0; or NULL */
};

enum sandbox_end {
    SANDBOX_ENDED,     /* by itself */
    SANDBOX_TIMEOUT,   /* time_s was over */
    SANDBOX_CANCELLED, /* by the caller */
    SANDBOX_MEMORY     /* the kernel ended it, because memory_bytes were used */
};

struct sandbox_report {
    enum isolation isolation;
    enum sandbox_end end;
    int exit;   /* 0 to 255; -1: ended by `signal` */
    int signal; /* 0: none */
    int64_t wall_ms, cpu_ms, memory_bytes;
    int64_t start_us; /* from the message to begin to the program's first instruction */
    int64_t log_bytes, log_dropped;
    struct digest log, code; /* log: of the kept part; code: as copy_in() says */
    struct digest inputs[RUN_INPUTS_MAX];
    int64_t output_files, output_bytes;
    size_t address_count; /* shown to be out of reach */
    bool outputs_refused;
    struct error refusal; /* why the outputs are refused */
    char lost[224];       /* of a pod: why it was gone before its program had ended; "" */
};

/** "ended", "timeout", "cancelled", "out-of-memory" */
const char *sandbox_end_name(enum sandbox_end end);

/**
 * ERROR_DENIED if this machine gives less isolation than demanded, or if the sandbox is not closed. A program that fails is no error: see
 * the report. If an output breaks a rule, `output` gets no further one, and the report names the rule.
 */
RESULT sandbox_run(const struct sandbox_options *options, struct sandbox_report *report_out, struct error *err);
/** The last part of sandbox_run(), also for outputs that came from elsewhere: walks the open folder, and gives each output to `options`. */
RESULT sandbox_take_outputs(const struct sandbox_options *options, int folder, struct sandbox_report *report, struct error *err);
