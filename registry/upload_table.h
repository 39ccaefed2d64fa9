/*
 * registry/upload_table.h -- uploads that write now, and writers kept for the next PATCH.
 *
 * One session has one writing request in this process. A writer that is kept is only a shortcut: losing it costs the
 * next request a resume from the checkpoint, nothing else.
 */
#pragma once

#include "storage/blob.h"

struct upload_table;

struct upload_limits {
    unsigned writers_max; /* sessions that write at the same time */
    unsigned idle_max;    /* writers kept between requests */
};

struct live_upload {
    struct uuid upload;
    struct blob_writer *writer; /* NULL: none was kept */
    uint64_t writer_epoch;      /* that the writer claimed */
    uint64_t sequence;          /* of its last checkpoint that was committed */
};

RESULT upload_table_new(const struct upload_limits *limits, struct upload_table **table_out, struct error *err);
/** Reserves the session for the caller. ERROR_CONFLICT while another request has it, ERROR_LIMIT when all are taken. */
RESULT upload_table_take(struct upload_table *table, const struct uuid *upload, struct live_upload *live_out,
                         struct error *err);
/** Ends the reservation; a writer that is given is kept, or freed. */
void upload_table_give(struct upload_table *table, struct live_upload *live);
/** Frees writers that nobody asked for since `before_ms` (monotonic). */
void upload_table_expire(struct upload_table *table, int64_t before_ms);
/** Frees all kept writers, as a restart would. */
void upload_table_clear(struct upload_table *table);
/** Nothing may be reserved. */
void upload_table_free(struct upload_table *table);
DEFINE_OWNED(upload_table);
