/*
 * runner/sandbox/bubblewrap.h -- the command line of bwrap(1), which makes the namespaces and file systems of a sandbox.
 *
 * The payload sees /usr read-only and the files that a dynamic linker needs, or the unpacked image in their place; /code and /in
 * read-only; /out and /tmp and /run/sijil as file systems in memory with a size; a new /proc, and the usual devices. It sees nothing
 * else, and has no network but loopback.
 */
#pragma once

#include "base/json.h"
#include "training/format/spec.h"

#define BUBBLEWRAP        "/usr/bin/bwrap"
#define BUBBLEWRAP_MAX    262144 /* bytes of all arguments: less than 128 variables of 4096 bytes need */
#define BUBBLEWRAP_INSIDE "/run/sijil-inside"
#define BUBBLEWRAP_NAME   "sandbox" /* of the machine, inside */

enum sandbox_bind_kind { BIND_READ, BIND_WRITE, BIND_DEVICE };

/** A granted device or library, or a folder for what an unpacked image has. */
struct sandbox_bind {
    char from[512], to[256];
    enum sandbox_bind_kind kind;
};

struct bubblewrap_view {
    const char *work; /* the run's folder, with code, in/, passwd, inside */
    const struct run_limits *limits;
    const json_t *variables; /* the whole environment */
    size_t input_count;
    const char *const *inputs; /* names below `work`/in */
    bool has_code, has_hosts;  /* hosts: `work`/hosts becomes /etc/hosts */
    int root;                  /* the unpacked image, open; -1: this machine's /usr */
    size_t bind_count;
    const struct sandbox_bind *binds;
    int filter; /* the descriptor of the system call filter, in bwrap */
};

/** Appends bwrap's options, each ended by a NUL, as its --args takes them. */
RESULT bubblewrap_arguments(const struct bubblewrap_view *view, struct buffer *arguments, struct error *err);
