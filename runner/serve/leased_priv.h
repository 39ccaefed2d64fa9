/*
 * runner/serve/leased_priv.h -- one leased run, for the sources that run it and that tell of its end.
 */
#pragma once

#include "runner/serve/checkpoints.h"
#include "runner/serve/floors.h"
#include "runner/serve/harvest.h"
#include "runner/serve/leased.h"
#include "runner/serve/outcome.h"
#include "runner/serve/teller.h"
#include "runner/serve/worker_stop.h"
#include "runner/tunnel/tunnel.h"

struct leased {
    struct worker *worker;
    const struct verdict *verdict;
    struct leased_run run;
    struct ecdsa_key *key;                 /* of this attempt: in this process alone, and gone with it */
    struct run_envelope *certificate;      /* of the key */
    char certified[CHANNEL_ENVELOPE_SIZE]; /* its envelope */
    int64_t ends_ms;                       /* of the lease */
    struct calls *tells;                   /* of the teller */
    atomic_bool closes;                    /* nobody waits for the teller's calls any more */
    struct report report;
    struct token_source tokens;
    struct session *session; /* under the run's token */
    struct teller *teller;
    struct floors *floors; /* what the manifests of its artifacts state */
    struct buffer label;   /* of all that it writes, as an annotation */
    bool is_forbidden;     /* by the policies, with these labels */
    struct harvest *harvest;
    struct checkpoints *checkpoints; /* NULL: none are taken */
    struct nodes *nodes;             /* the other nodes of the run; NULL: there are none */
    int log;                         /* a file without a name */
    uint64_t log_bytes;
    bool is_in_line;            /* the log does not end with a line feed */
    bool has_fetched, is_ready; /* code and inputs are there; the sandbox is closed */
    bool has_begun, has_ended;  /* the program; has_ended: the report `ended` counts */
    bool has_lost_nodes;        /* it is cancelled for that: `fault` says which */
    struct sandbox_report ended;
    int64_t began_ms, started_ms, finished_ms; /* monotonic; wall */
    char fault[256];                           /* what else failed; "" */
    const char *stops;                         /* why this runner cancels it; NULL: it does not */
};

/**
 * Reads the labels that the manifests of its artifacts state, decides `train` again with them, and computes the label of all that it writes. Nothing of
 * the content was fetched before.
 */
RESULT leased_check_labels(struct leased *leased, struct error *err);
/** sandbox_options.image: fetches and unpacks the image of the order. */
RESULT leased_image(void *context, const struct sandbox_folder *folder, struct error *err);
/** Whether the run has ended at the registry, or the lease is over: nothing is to be told any more. */
bool leased_is_left(struct leased *leased);
void leased_fail(struct leased *leased, const char *what);
/** Adds to the log, up to the order's log_bytes. */
void leased_add_log(struct leased *leased, struct bytes piece);

/** sandbox_options.checkpoints: from now on the finished checkpoints of the first node are kept. */
RESULT leased_take_checkpoints(void *context, int folder, struct error *err);
/** Adds what became of the checkpoints to the log. */
void leased_tell_checkpoints(struct leased *leased);
/** The program has ended: keeps the last checkpoint, unless the program succeeded. */
void leased_end_checkpoints(struct leased *leased);

/** sandbox_options.device: the device to the other nodes. */
RESULT leased_take_device(void *context, int device, struct error *err);
/** Tells the registry that this node is ready, and waits until all nodes are. Then the run has started. */
RESULT leased_meet(struct leased *leased, struct error *err);
/** After that: checks who the other nodes are, and connects to them. A run of one node has none. */
RESULT leased_join(struct leased *leased, struct error *err);
/** While the program runs: cancels it if another node can't be reached any more. */
void leased_watch_nodes(struct leased *leased);
/** The program has ended: tells the other nodes. */
void leased_part(struct leased *leased);
/** At last: waits until the programs of the other nodes have ended, too, and forgets them. */
void leased_leave(struct leased *leased);

/** Uploads the log, signs the result, and sends it. True: the lease has ended. */
bool leased_finish(struct leased *leased);
