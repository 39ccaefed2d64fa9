/*
 * audit/server_key.h -- keys of the server's own: sijil-keyd makes them, and the database has them wrapped, as the keys of subjects.
 *
 * Rule: it needs no permit, so no code that serves a request may include this (tests/lint/closed_headers.txt). Connections need
 * audit_subject_table.
 */
#pragma once

#include "crypto/keyd_client.h"
#include "storage/pg.h"

/** `purpose`: "sijil:sink", which no issuer has; `name` within it. ERROR_NOT_FOUND if there is no such key, unless `makes` is set. */
struct server_key {
    const char *purpose, *name;
    bool makes;
};
RESULT server_key_open(struct keyd_client *keyd, struct pg *pg, const struct server_key *wanted, struct secret **key_out,
                       struct error *err) __attribute__((nonnull));
