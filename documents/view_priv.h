/*
 * documents/view_priv.h -- the struct behind a view.
 */
#pragma once

#include <pthread.h>

#include "documents/view.h"

struct view_entry {
    struct document *document;
    uint64_t sequence;
};
/* A pinned document in the chain of its kind. */
struct view_link {
    uint64_t sequence;
    uint8_t before[DOCUMENT_DIGEST_SIZE], envelopes[DOCUMENT_DIGEST_SIZE]; /* the pin before it; digest of its envelopes */
    uint8_t scope[DOCUMENT_DIGEST_SIZE]; /* SHA-256 of its scope: the text would make a link twice as large */
    char name[DOCUMENT_NAME_SIZE];
};
/* A document that keyd refused when this gateway asked, and why. */
struct view_refusal {
    uint64_t sequence;
    char why[sizeof((struct error *)NULL)->message];
};
#define VIEW_REFUSALS \
    32 /* the newest: a request looks for its own right after the refresh, and a gateway has at most so many workers at it */

/* One kind. Only an update changes it, with the lock held; the update itself reads it without the lock. */
struct view_kind {
    struct document_pin pin; /* after all events read */
    uint64_t pinned;         /* the event that sijil-keyd had pinned at the last update that came to an end */
    uint64_t read_until;     /* the number of the next event */
    uint64_t named_count;    /* rows that events name */
    uint64_t unlogged_count;
    bool is_corrupt;
    struct view_entry *slots; /* sorted by scope and name: the newest version of each */
    size_t count, capacity;
    struct view_link *links; /* all pinned documents, the oldest first */
    size_t link_count, link_capacity;
    struct view_refusal refusals[VIEW_REFUSALS]; /* a ring */
    size_t refusal_count;                        /* also those that the ring has lost */
};
struct document_view {
    pthread_mutex_t update_lock; /* one update at a time */
    pthread_mutex_t lock;
    struct view_kind kinds[DOCUMENT_KIND_COUNT];
    struct error problem; /* ERROR_CORRUPT if an update found it and no later one succeeded, else ERROR_NONE */
    int64_t checked_ms;   /* the monotonic time at which the last successful update began; 0: none */
};

/** Brings one kind up to date with keyd's pin; has newly recorded documents pinned. */
RESULT view_update_kind(struct document_view *view, enum document_kind kind, const struct document_source *source,
                        struct error *err);

/** The index of the document with this scope and name, or where it would be inserted. */
size_t view_position(const struct view_kind *view, const char *scope, const char *name, bool *is_there_out);
