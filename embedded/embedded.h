/*
 * embedded/embedded.h -- runs a gateway with all its parts on one machine, in one directory (docs/embedded.md).
 *
 * embedded_prepare() makes or opens the directory, starts a private PostgreSQL and sijil-keyd, applies the migrations, makes certificates,
 * the first region, organisation, project, policy set and administrator, and returns the same struct settings that a configuration file
 * gives. From then on both modes run the same code.
 *
 * The one rule: embedded_prepare() forks. The caller must have a single thread and no open files. The calling process becomes the
 * supervisor, and the call never returns there: the supervisor restarts processes that end, also a gateway that could not start,
 * and ends with the gateway's exit status. The call returns in a child, the gateway (as the user `sijil` if root started it), and
 * again in a new child after a crash. If the supervisor is killed, all its processes end.
 */
#pragma once

#include "base/owned.h"
#include "gateway/settings/settings.h"

/** Exit status of sijild if a peer was away or memory was short: EX_TEMPFAIL of sysexits.h. The same call may succeed later. */
#define EXIT_TRY_AGAIN 75

struct embedded;

/** The texts are borrowed; NULL takes the default. */
struct embedded_options {
    const char *directory;      /* made if it is missing; its parent must exist */
    const char *program;        /* folder with sijil-keyd; NULL: the folder of this program */
    const char *listen_address; /* "127.0.0.1" */
    int64_t listen_port;        /* 0: 8443 */
    const char *public_url;     /* "https://127.0.0.1:<port>"; its host goes into the certificate */
    const char *
        geo; /* of the region `local/main`: "AE"; this option and the next two have an effect only at the first start; later they give a warning */
    const char *operator_name;        /* operator of the machine: "operator"; first start only */
    const char *network;              /* clients that are proven to be in the region's country: "127.0.0.0/8"; first start only */
    int passphrase_fd;                /* descriptor with the key ring's passphrase; -1: it is in a file */
    const char *passphrase_file;      /* made if it is not there; NULL: a file of sijil-keyd's user, outside the directory */
    const char *secrets_folder;       /* for the administrator's secret and private keys; NULL: one outside the directory */
    int64_t blob_lease;               /* seconds; 0: 86400 */
    const int64_t *erasure_retention; /* seconds; NULL: the default */
    int64_t collect_interval;         /* seconds; -1: 86400 */
    const char *issuer_networks;      /* NULL: the public internet */
    const char *client_ca;            /* file with authorities of clients' certificates; NULL: none */
    bool client_any;                  /* tokens are bound to any certificate of a client */
    const char *introspection_file;   /* NULL: no issuer is asked about opaque tokens */
    const char *issuer_ca_file;       /* NULL: the system's authorities vouch for issuers */
    const char *witness_policy;       /* file; NULL: no witnesses cosign the log */
    const char *witness_ca_file;      /* NULL: the system's authorities vouch for them */
    int64_t witness_interval;         /* seconds; 0: 10 */
    int64_t witness_patience;         /* seconds, of sijil-keyd; 0: 3600 */
    int64_t witness_lag;              /* seconds; 0: 60 */
    bool new_admin;                   /* make one more administrator robot, and write it to admin.json */
    bool officers_by_bindings;        /* at the first start: no document of officers is signed for the administrator */
    bool no_runner;                   /* without the runner of this machine, and without the first trainer */
};

/** Checks the options without making anything. ERROR_INVALID names the option of sijild. */
RESULT embedded_check(const struct embedded_options *options, struct error *err);
/**
 * Takes options that embedded_check() accepted. Blocks until all parts run. Errors are for the person who started it, and name a solution:
 * a missing user, a directory that a user can't reach, one in use (ERROR_CONFLICT), a lost passphrase (ERROR_NOT_FOUND).
 */
RESULT embedded_prepare(const struct embedded_options *options, struct embedded **embedded_out, struct error *err);
/** What a recovery on one machine does (docs/recovery.md). */
struct embedded_recovery {
    const char *plan, *reason, *checkpoint; /* makes a plan: the file that it writes, why, and a cosigned checkpoint or NULL */
    const char *signed_plan;                /* NULL, or the file of the signed plan: does what it says */
};
/** Starts PostgreSQL and sijil-keyd, does this, and stops both. The root of approvers alone signs such a plan, and each report says so. */
RESULT embedded_recover(const struct embedded_options *options, const struct embedded_recovery *wanted, struct error *err);
/** Complete and checked; lives as long as `embedded`. The caller may still change the listening address. */
struct settings *embedded_settings(struct embedded *embedded);
/** Paths for messages: admin.json among the secrets, which DIR/admin.json links to, and DIR/ca.pem. */
const char *embedded_admin_file(const struct embedded *embedded);
const char *embedded_authority_file(const struct embedded *embedded);

/** The gateway has ended. The supervisor stops the other processes when this process ends. */
void embedded_stop(struct embedded *embedded);
static inline void embedded_free(struct embedded *embedded)
{
    embedded_stop(embedded);
}
DEFINE_OWNED(embedded);
