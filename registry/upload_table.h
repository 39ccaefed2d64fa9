/*
 * registry/upload_table.h -- the uploads that are written now, and idle writers kept for the next PATCH.
 *
 * A session has one writing request in this process. A request without progress for a while, such as one with a
 * broken connection, is replaced by the next request of the session. The writer of the replaced request no longer owns the row,
 * so it can't commit. A kept writer is only an optimisation: without it the next request resumes from the checkpoint.
 */
#pragma once

#include "storage/blob.h"

struct upload_table;

struct upload_limits {
    unsigned writers_max; /* sessions that may write at the same time */
    unsigned idle_max;    /* writers kept between requests */
};

#define UPLOAD_STALLED_MS 5000 /* a live client sends at least this often */

struct live_upload {
    struct uuid upload;
    uint64_t ticket;            /* of the reservation */
    struct blob_writer *writer; /* NULL: none was kept */
    bool is_begun;              /* begun by this process and not used since, so this process still has the claim */
    uint64_t writer_epoch;      /* of the writer's claim */
    uint64_t sequence;          /* of its last checkpoint that was committed */
};

RESULT upload_table_new(const struct upload_limits *limits, struct upload_table **table_out, struct error *err);
/** Notes a session that this process began, and so has claimed. Only the newest are kept. */
void upload_table_note_begun(struct upload_table *table, const struct uuid *upload);
/**
 * Reserves the session for the caller. ERROR_CONFLICT while another request has it and makes progress, ERROR_LIMIT if
 * all slots are taken.
 */
RESULT upload_table_take(struct upload_table *table, const struct uuid *upload, struct live_upload *live_out, struct error *err);
/** Notes progress of the reservation's request. False: upload_table_end() was called for its session. */
bool upload_table_touch(struct upload_table *table, const struct live_upload *live);
/** Ends the reservation. live->writer is kept or freed. */
void upload_table_give(struct upload_table *table, struct live_upload *live);
/** Notes that the session has ended. An idle writer is freed; a busy one is told at its next upload_table_touch(). */
void upload_table_end(struct upload_table *table, const struct uuid *upload);
/** Frees writers that have been idle since `before_ms` (monotonic). */
void upload_table_expire(struct upload_table *table, int64_t before_ms);
/** Frees all kept writers, as a restart would. */
void upload_table_clear(struct upload_table *table);
/** For tests: sets the last progress of all reservations to `used_ms` (monotonic). */
void upload_table_age(struct upload_table *table, int64_t used_ms);
/** No session may be reserved. */
void upload_table_free(struct upload_table *table);
DEFINE_OWNED(upload_table);
