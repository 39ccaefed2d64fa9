/*
 * delivery/deliverer.h -- delivers the log to one sink (docs/delivery.md).
 *
 * Of all gateways, one at a time delivers to a sink: the one whose connection has its lock. It follows the log by number, below the newest signed
 * checkpoint. The position moves after the peer has taken a batch, so each event arrives at least once. Memory is bounded by one batch.
 */
#pragma once

#include <stdatomic.h>

#include "audit/sequencer.h"
#include "documents/view.h"
#include "policy/decider/decider.h"

struct deliverer;

struct deliverer_options {
    const char *conninfo, *origin, *log_name; /* of the registry, which opens sealed parts; of the log */
    const char *folder;                       /* of sinks that are files; "": this gateway writes none */
    const char *certificate, *key;            /* PEM files of this gateway, for peers that ask for them; "": none */
    struct keyd_client *keyd;
    struct sequencer *sequencer;
    struct decider *decider;
    const atomic_bool *gives_up; /* once it is set, a step ends within seconds */
};

/** The document that is in force, and the number of its event: a new sink begins with the events from there on. The options are copied, and
 *  what they point at outlives the deliverer. */
RESULT deliverer_new(const struct deliverer_options *options, const struct pinned_document *pinned,
                     struct deliverer **deliverer_out, struct error *err) __attribute__((nonnull));

struct deliverer_report {
    bool is_holder;               /* false: another gateway delivers to this sink */
    bool is_stopped;              /* an event says that the peer takes nothing */
    bool has_failed;              /* in this step the peer took nothing */
    uint64_t lag;                 /* events of the log that the peer has not taken */
    uint64_t delivered, withheld; /* numbers, in this step */
    int64_t wait_ms;              /* until the next step */
    char problem[301];            /* has_failed: why */
};
/**
 * One step: one batch. ERROR_FORKED: the log is not as it was signed. ERROR_UNAVAILABLE: the database, the policies or sijil-keyd can't be
 * used now.
 */
RESULT deliverer_step(struct deliverer *deliverer, struct deliverer_report *report_out, struct error *err)
    __attribute__((nonnull));
const char *deliverer_name(const struct deliverer *deliverer);
void deliverer_free(struct deliverer *deliverer);
DEFINE_OWNED(deliverer);
