/*
 * delivery/sink.h -- the table audit_sink: how far each sink has got, and which key signs (docs/delivery.md).
 */
#pragma once

#include "audit/permit.h"
#include "audit/sequencer.h"
#include "documents/format/audit_sink.h"
#include "storage/pg.h"

extern const struct pg_table sink_table;

#define SINK_PROBLEM_SIZE 300
#define SINK_STATES_MAX   256 /* rows: sinks that were withdrawn stay */

struct sink_state {
    char name[AUDIT_SINK_NAME_MAX + 1];
    uint64_t first, next;
    int64_t moved_ms, stopped_ms; /* 0: it takes */
    char problem[SINK_PROBLEM_SIZE + 1];
    int32_t secret;     /* the number of the key that signs; 0: there is none yet */
    int64_t renewed_ms; /* 0: it replaced none */
};
/** For a handler, under a permit for sink.read of the registry. ERROR_NOT_FOUND: it was never at work. */
RESULT sink_find(const struct permit *permit, struct pg *pg, const char *name, struct sink_state *state_out, struct error *err)
    __attribute__((nonnull));

/** A change: the sink gets the key with the next number, under a permit for sink.secret. */
struct sink_renewal {
    struct change change; /* points into this struct: don't copy it */
    const char *name;
    uint64_t first; /* of a new row */
    int32_t number; /* of the new key, when the change is durable */
};
void sink_renewal_init(struct sink_renewal *renewal, const char *name, uint64_t first);
