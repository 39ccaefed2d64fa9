/*
 * delivery/peer_priv.h -- the three ways in which a batch reaches the peer of a sink.
 *
 * What the peer does wrong is no failure: it is in the outcome, and the batch is sent again later. A function fails only if this side can't work.
 */
#pragma once

#include <stdatomic.h>

#include "delivery/batch.h"
#include "delivery/sink.h"

struct peer_outcome {
    bool is_taken;
    unsigned wait_s;                     /* the peer asks to wait so long; 0: it asks nothing */
    char problem[SINK_PROBLEM_SIZE + 1]; /* why it was not taken, for a person */
};

struct peer_options {
    const struct audit_sink *sink;
    const char *name, *origin;
    const char *folder;            /* of files; "": this gateway writes none */
    const char *certificate, *key; /* PEM files, with which peers know us; "": none */
    const atomic_bool *gives_up;
    struct keyd_client *keyd;
    struct pg *pg; /* audit_subject_table */
};

struct peer {
    /** Whether a connection is there; makes one. *is_new_out: it is another one than before, so what was sent last may be lost. */
    RESULT (*reach)(struct peer *peer, bool *is_new_out, struct peer_outcome *outcome, struct error *err);
    RESULT(*send)
    (struct peer *peer, const struct delivery_batch *batch, const struct sink_state *state, struct peer_outcome *outcome,
     struct error *err);
    void (*free)(struct peer *peer);
};
/* The options and all that they point at outlive the peer. */
RESULT peer_syslog_new(const struct peer_options *options, struct peer **peer_out, struct error *err);
RESULT peer_webhook_new(const struct peer_options *options, struct peer **peer_out, struct error *err);
RESULT peer_file_new(const struct peer_options *options, struct peer **peer_out, struct error *err);

struct outgoing;
/** The way out to a peer: its document's networks and authorities, and the gateway's certificate. */
RESULT peer_outgoing(const struct peer_options *options, struct outgoing **outgoing_out, struct error *err);
void peer_refuse(struct peer_outcome *outcome, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** What a webhook gets: CloudEvents 1.0, a batch in JSON. Appends it. */
RESULT cloud_events_write(const struct delivery_batch *batch, const char *origin, struct buffer *body, struct error *err);
/** What syslog gets: RFC 5424, each message with its length before it (RFC 5425). Appends it. */
RESULT syslog_write(const struct delivery_batch *batch, const char *origin, struct buffer *text, struct error *err);
/** The seconds of a line "Retry-After: 120" of an answer's head; 0: it is another line, or has no number. At most PEER_WAIT_MAX_S. */
unsigned retry_after_of(struct bytes line);
#define PEER_WAIT_MAX_S 3600
