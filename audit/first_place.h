/*
 * audit/first_place.h -- whether a client is somewhere for the first time, as the index of searches knows it: for detection.
 *
 * Rule: it needs no permit, so no code that serves a request may include this (tests/lint/closed_headers.txt). Connections need
 * first_place_table, audit_subject_table, audit_query_table and audit_archive_table.
 */
#pragma once

#include "audit/format/leaf.h"
#include "audit/query.h"

extern const struct pg_table first_place_table;

/** Where actors were found before, and the keys by which they are found: so that not each event asks the database and sijil-keyd. */
struct first_place_memo;
struct first_place_memo *first_place_memo_new(void); /* NULL: no memory */
void first_place_memo_free(struct first_place_memo *memo);
DEFINE_OWNED(first_place_memo);
/** Call it for each page: the keys are asked for again, so that none is used after its row was destroyed. */
void first_place_memo_begin(struct first_place_memo *memo) __attribute__((nonnull));

struct first_place_source {
    struct pg *pg;
    struct keyd_client *keyd;
    const char *origin;
    struct first_place_memo *memo;
};
/** The number of entries that the index knows: only these have places. */
RESULT first_place_known(struct pg *pg, uint64_t *known_out, struct error *err) __attribute__((nonnull));
/**
 * Whether the event of the page, which was read and is not denied, is the first one of its actor from the client's network, and from its country, while the
 * actor has earlier events. Denied ones don't count. An event whose payload is erased, and one of an actor that was never seen before, is nowhere new.
 */
struct first_place {
    bool is_new_network, is_new_country;
};
RESULT first_place_of(const struct first_place_source *source, struct audit_page *page, size_t index, const struct leaf *leaf,
                      struct first_place *place_out, struct error *err) __attribute__((nonnull));
