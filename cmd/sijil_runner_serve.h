/*
 * cmd/sijil_runner_serve.h -- `sijil-runner serve`: its options, and its start.
 */
#pragma once

#include "cmd/options.h"
#include "runner/machine.h"
#include "runner/schedule/schedule.h"
#include "runner/serve/serve.h"
#include "runner/serve/serve_limits.h"
#include "runner/talk/talk_sockets.h"

enum { SERVE_EXIT_FAILED = 1, SERVE_EXIT_SUSPENDED = 3, SERVE_EXIT_KILLED = 4 };

struct runner_serve {
    const char *state;              /* the folder */
    struct machine_options machine; /* as for check */
    const char *devices;
    uint64_t parallel, drain_s;
    int64_t cpus, memory_bytes;             /* 0: the machine's */
    int64_t image_bytes, image_cache_bytes; /* cache 0: none */
    struct run_limits most;                 /* serve_limits_unsaid, or what --limit says */
    const struct attend_place *pods;        /* NULL: runs are processes of this machine */
    const char *jobs_user;                  /* NULL: nobody besides root and this user */
    char tunnel_listen[TALK_ADDRESS_SIZE];  /* "": no nodes of runs with several */
    unsigned tunnel_port;
    const char *tunnel_address; /* NULL: tunnel_listen */
};

#define RUNNER_SERVE ((struct runner_serve){.state = RUNNER_STATE_FOLDER, .parallel = 1, .most = serve_limits_unsaid})

/** NULL, or what is wrong with the option's value, which is optarg. *known_out: whether it is an option of serve. */
const char *runner_serve_option(struct runner_serve *settings, int option, bool *known_out);
/** Serves until a signal asks it to stop. `jobs` is the socket for jobs of a scheduler; NULL: none. Returns the exit status. */
int runner_serve(const struct runner_serve *settings, const char *jobs, const volatile sig_atomic_t *stops);
