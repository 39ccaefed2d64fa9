/*
 * registry/upload_table.h -- uploads that write now, and writers kept for the next PATCH.
 *
 * One session has one writing request in this process. One that has stood still for a while, as when its connection
 * is gone and nobody noticed, is overtaken by the next: its writer no longer owns the row, so it can commit nothing. A
 * writer that is kept is only a shortcut: losing it costs the next request a resume from the checkpoint, nothing else.
 */
#pragma once

#include "storage/blob.h"

struct upload_table;

struct upload_limits {
    unsigned writers_max; /* sessions that write at the same time */
    unsigned idle_max;    /* writers kept between requests */
};

#define UPLOAD_STALLED_MS 5000 /* a client that lives sends at least this often */

struct live_upload {
    struct uuid upload;
    uint64_t ticket;            /* of the reservation */
    struct blob_writer *writer; /* NULL: none was kept */
    bool is_begun;              /* begun here, and nobody has asked for it before: its first claim is still ours */
    uint64_t writer_epoch;      /* that the writer claimed */
    uint64_t sequence;          /* of its last checkpoint that was committed */
};

RESULT upload_table_new(const struct upload_limits *limits, struct upload_table **table_out, struct error *err);
/** A session was begun by this process, which claimed it with that. Only the newest are remembered. */
void upload_table_note_begun(struct upload_table *table, const struct uuid *upload);
/** Reserves the session for the caller. ERROR_CONFLICT while another request has it and does not stand still,
 *  ERROR_LIMIT when all are taken. */
RESULT upload_table_take(struct upload_table *table, const struct uuid *upload, struct live_upload *live_out,
                         struct error *err);
/** The reservation's request moves. False: upload_table_end() was called for its session. */
bool upload_table_touch(struct upload_table *table, const struct live_upload *live);
/** Ends the reservation; a writer that is given is kept, or freed. */
void upload_table_give(struct upload_table *table, struct live_upload *live);
/** The session has ended, and its writer with it: one that was kept is freed, one that writes hears of it when it next moves. */
void upload_table_end(struct upload_table *table, const struct uuid *upload);
/** Frees writers that nobody asked for since `before_ms` (monotonic). */
void upload_table_expire(struct upload_table *table, int64_t before_ms);
/** Frees all kept writers, as a restart would. */
void upload_table_clear(struct upload_table *table);
/** For tests: every reservation has stood still since `used_ms` (monotonic). */
void upload_table_age(struct upload_table *table, int64_t used_ms);
/** Nothing may be reserved. */
void upload_table_free(struct upload_table *table);
DEFINE_OWNED(upload_table);
