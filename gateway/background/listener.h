/*
 * gateway/background/listener.h -- a thread with a database connection of its own that works when PostgreSQL notifies on a channel, and every few
 * seconds: an earlier gateway may have left work, and notifications are lost while the connection is broken.
 */
#pragma once

#include "base/owned.h"
#include "storage/pg.h"

#define LISTENER_EVERY_MS 5000 /* without a notification */
#define LISTENER_WAIT_MS  200  /* of one wait for a notification, because the thread may have to stop */

struct gateway;
struct listener;

/** What it works on. All functions run on its thread. */
struct listener_work {
    const char *channel; /* of PostgreSQL */
    const char *name;    /* of the thread, for a person */
    /** Does one piece of work. True: there may be more. */
    bool (*next)(struct pg *pg, void *context);
    /** There may be work: a notification came, or may have been lost. NULL: nothing. */
    void (*told)(void *context);
    /** After each wait, and after each piece of work. NULL: nothing. */
    void (*each)(struct pg *pg, void *context);
    /** How long the next wait is, at most LISTENER_WAIT_MS. NULL: LISTENER_WAIT_MS. */
    unsigned (*wait_ms)(const void *context);
};

/** `work` and `context` must outlive the listener. */
RESULT listener_start(struct gateway *gateway, const struct listener_work *work, void *context, struct listener **listener_out,
                      struct error *err);
/** Waits for the end of the thread. */
void listener_free(struct listener *listener);
DEFINE_OWNED(listener);
