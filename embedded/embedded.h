/*
 * embedded/embedded.h -- everything that a gateway needs, on one machine, in one directory
 * (docs/embedded.md).
 *
 * embedded_prepare() makes or opens the directory, starts a private PostgreSQL and sijil-keyd, applies the
 * migrations, makes certificates, the first region, organisation, project, policy set and administrator, and
 * yields the same struct settings that a configuration file would give: there is no second way to run.
 *
 * The one rule: it forks. The caller, with a single thread and no open files of its own, becomes the
 * supervisor, which never returns from it: it restarts what dies, a gateway that could not start again included,
 * and ends with the gateway's exit status.
 * What returns is a child, the gateway (as the user `sijil` if root started it), and it may return again
 * after a crash. Nothing stays running when the supervisor is killed.
 */
#pragma once

#include "base/owned.h"
#include "gateway/settings/settings.h"

/** Exit status of sijild when a peer was away, or memory was short: EX_TEMPFAIL of sysexits.h. The same may work later. */
#define EXIT_TRY_AGAIN 75

struct embedded;

/** All texts are borrowed; NULL takes the default. */
struct embedded_options {
    const char *directory;      /* made if it is not there; its parent must be */
    const char *program;        /* folder that holds sijil-keyd; NULL: that of this program */
    const char *listen_address; /* "127.0.0.1" */
    int64_t listen_port;        /* 0: 8443 */
    const char *public_url;     /* "https://127.0.0.1:<port>"; its host goes into the certificate */
    const char *geo;            /* of the region `local/main`: "AE"; only at the first start, as the next two: later a warning */
    const char *operator_name;  /* who runs the machine: "operator"; only at the first start */
    const char *network; /* clients that are proven to be where the region is: "127.0.0.0/8"; first start */
    int passphrase_fd;   /* the key ring's passphrase is read from it; -1: from a file */
    const char
        *passphrase_file; /* made if it is not there; NULL: one of sijil-keyd's user, outside the directory */
    const char *secrets_folder; /* for the administrator's secret and private keys; NULL: one outside the directory */
    int64_t blob_lease;        /* seconds; 0: 86400 */
    int64_t collect_interval;  /* seconds; -1: 86400 */
    bool new_admin;       /* make one more administrator robot, and write it to admin.json */
};

/** What can be judged before anything is made: ERROR_INVALID names the option of sijild. */
RESULT embedded_check(const struct embedded_options *options, struct error *err);
/**
 * Takes options that embedded_check() found good. Blocks until all is up. Errors are for the person who started it and name the way out: a missing user, a
 * directory that they can't reach, one that is in use (ERROR_CONFLICT), a lost passphrase (ERROR_NOT_FOUND).
 */
RESULT embedded_prepare(const struct embedded_options *options, struct embedded **embedded_out,
                        struct error *err);
/** Complete and checked; lives as long as `embedded`. Where it listens may still be changed by the caller. */
struct settings *embedded_settings(struct embedded *embedded);
/** For people: admin.json among the secrets, which DIR/admin.json leads to, and DIR/ca.pem. */
const char *embedded_admin_file(const struct embedded *embedded);
const char *embedded_authority_file(const struct embedded *embedded);

/** The gateway is done. The supervisor stops the rest when this process ends. */
void embedded_stop(struct embedded *embedded);
static inline void embedded_free(struct embedded *embedded)
{
    embedded_stop(embedded);
}
DEFINE_OWNED(embedded);
