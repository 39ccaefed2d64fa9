/*
 * audit/log_key_jobs.h -- records each change of the log's key: the event logkey.follow names both keys, and the size from which the new one counts.
 *
 * It needs no permit, so no code that serves a request may include this (tests/lint/closed_headers.txt). Connections need log_key_table.
 */
#pragma once

#include "audit/sequencer.h"
#include "storage/pg.h"

extern const struct pg_table log_key_table;

/** Records those changes among `keys` that no gateway has recorded yet. Call it under a lock of all gateways; after a crash an event may be there twice. */
RESULT log_key_record(struct sequencer *sequencer, struct pg *pg, const struct log_keys *keys, struct error *err);
