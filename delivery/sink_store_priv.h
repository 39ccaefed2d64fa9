/* delivery/sink_store_priv.h -- what the delivery itself does with the table of sinks: no client asks for it. */
#pragma once

#include "delivery/sink.h"

/** Whether this connection now has the lock of the sink; it keeps the lock until it ends. */
RESULT sink_lock(struct pg *pg, const char *name, bool *is_mine_out, struct error *err);
/** The row; makes it if there is none, so that the sink begins with event `first`. */
RESULT sink_open(struct pg *pg, const char *name, uint64_t first, struct sink_state *state_out, struct error *err);
/** All events before `next` were taken. ERROR_CONFLICT: the row has another position than `from`. */
RESULT sink_advance(struct pg *pg, const char *name, uint64_t from, uint64_t next, struct error *err);

/** A change: the sink stops, or works again, under a permit for `action`. ERROR_CONFLICT: an event says so already. */
struct sink_turn {
    struct change change; /* points into this struct: don't copy it */
    enum action action;   /* ACTION_SINK_STOP or ACTION_SINK_RETURN */
    const char *name, *problem;
};
void sink_turn_init(struct sink_turn *turn, enum action action, const char *name, const char *problem);
