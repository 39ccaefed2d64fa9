/*
 * registry/copies/copier.h -- makes the copies that projects are to have, decides them again, and withdraws what may not stay.
 *
 * Rule: no code that serves a request may include this (tests/lint/closed_headers.txt). Each copy is decided and recorded by itself.
 */
#pragma once

#include <stdatomic.h>

#include "registry/copies/copies.h"

struct decider;
struct outgoing;

struct copier_options {
    struct decider *decider;
    const char *instance;               /* the name of this gateway */
    bool (*is_stopping)(void *context); /* called several times a second */
    void *context;
    uint64_t lease_bytes; /* after so many bytes a copy is decided again; 0: 64 MiB */
    unsigned lease_ms;    /* and after this time; 0: 10 s */
    unsigned pause_ms;    /* between two looks at a project and region; 0: 10 s */
    /* What is at home in a region that another gateway serves is fetched from that one (registry->elsewhere); NULL: nothing is. */
    struct outgoing *outgoing;
    const atomic_bool *gives_up; /* once it is set, a fetch ends within a second; NULL: never */
};
/**
 * Works on one project and region that is due, if there is one that this gateway serves and no other gateway works on. *worked_out: there was one. A killed gateway's
 * claim ends after 30 s, or when it starts again; the copy goes on at its last checkpoint. Blocks; call it on a thread of its own with its own `pg`.
 */
RESULT copier_work(struct registry *registry, struct pg *pg, const struct copier_options *options, bool *worked_out,
                   struct error *err);
/** Reads how far the copies of each region are, for registry_write_metrics(). */
RESULT copier_count(struct registry *registry, struct pg *pg, struct error *err);
