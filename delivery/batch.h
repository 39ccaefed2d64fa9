/*
 * delivery/batch.h -- the next events of a log for one sink, decided and rendered (docs/delivery.md).
 *
 * Each event is decided as `log` and `export` of all that it names, towards the region of the sink. Of an event that is denied, that this version
 * can't read, or whose class the sink does not get, only the number leaves. A batch has all numbers from its first to its last.
 */
#pragma once

#include "audit/follow.h"
#include "delivery/message.h"
#include "policy/decider/decider.h"

#define DELIVERY_EVENTS_MAX 256
#define DELIVERY_BYTES_MAX  ((size_t)1 << 20)

struct delivery_source {
    struct pg *pg; /* with the tables of audit/follow.h */
    struct decider *decider;
    struct keyd_client *keyd;
    const char *origin;   /* of the registry: opens sealed parts */
    const char *log_name; /* of the log */
    const struct audit_sink *sink;
};

struct delivery_message {
    uint64_t first, last; /* numbers of events: several only if is_withheld */
    bool is_withheld;
    bool has_failed;       /* the event says denied or failed */
    int64_t time_ms;       /* of the event; of numbers alone the time of the batch */
    size_t offset, length; /* in the text of the batch */
};

struct delivery_batch {
    uint64_t from, next;  /* it has the numbers from <= n < next */
    size_t count, opened; /* opened: events with names of persons */
    uint64_t withheld;    /* numbers of which nothing else leaves */
    struct delivery_message messages[DELIVERY_EVENTS_MAX];
    struct buffer text; /* JSON, one after the other */
};
RESULT delivery_batch_new(struct delivery_batch **batch_out, struct error *err);
/** Fills it with the events of `span` for which there is room. They are below the checkpoint. ERROR_FORKED, ERROR_UNAVAILABLE, ERROR_CORRUPT. */
RESULT delivery_batch_fill(struct delivery_batch *batch, const struct delivery_source *source,
                           const struct signed_checkpoint *checkpoint, const struct audit_span *span, struct error *err)
    __attribute__((nonnull));
struct bytes delivery_batch_text(const struct delivery_batch *batch, size_t index);
void delivery_batch_free(struct delivery_batch *batch);
DEFINE_OWNED(delivery_batch);
