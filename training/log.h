/*
 * training/log.h -- the log of a run while the run goes on (docs/runs.md, "The log of a run").
 *
 * Each node of an attempt has a log. It is begun by a change, in the transaction of the event run.append. Its pieces are sealed objects in the
 * region of the first output's project (registry/upload/piece.h); the database has only their places. What run_log_append() has taken is
 * durable. A reader is noted by a change too, with the event run.log. So run_log_append() and run_log_read() take no permit: they find no row
 * of a log that was not begun, and none for a reader that was not recorded. Both are decided at each request.
 */
#pragma once

#include "registry/registry.h"
#include "training/lease.h"

extern const struct pg_table run_log_table;

#define RUN_LOG_PIECE_MAX 262144 /* bytes of one piece, and of one answer */

/* --- writing --- */

/**
 * A change: begins the log of one node of an attempt; nothing if it has begun. ERROR_DENIED: the project's quota has no room for `bytes_max`, which
 * count until the end of the attempt; then what the log has counts. The permit: run.append on the repository of the first output.
 */
struct run_log_begin {
    struct change change;
    const struct registry *registry;
    struct resource where;
    struct run_holder holder;
    int64_t bytes_max; /* of the order */
};
void run_log_begin_prepare(const struct registry *registry, const struct resource *where, const struct run_holder *holder,
                           int64_t bytes_max, struct run_log_begin *begin_out);

/** Whether the log has begun, and where it ends. */
RESULT run_log_find(struct lookup *lookup, const struct run_holder *holder, bool *is_begun_out, uint64_t *bytes_out,
                    struct error *err);

/** Bytes that a runner brings. `where` has organisation, project and region of the first output. */
struct run_log_append {
    const struct resource *where;
    const struct run_holder *holder;
    uint64_t offset;
    struct bytes bytes; /* 1 to RUN_LOG_PIECE_MAX */
};
enum run_log_taken { RUN_LOG_TAKEN, RUN_LOG_ELSEWHERE };
/**
 * RUN_LOG_TAKEN: the bytes stand at the offset, now or already. RUN_LOG_ELSEWHERE: the log ends at *bytes_out, so they can't stand there, or
 * others do. ERROR_CONFLICT: the lease has ended, or the log was removed. ERROR_LIMIT: the order allows no more bytes of log.
 */
RESULT run_log_append(struct registry *registry, struct pg *pg, const struct run_log_append *append,
                      enum run_log_taken *taken_out, uint64_t *bytes_out, struct error *err);

/* --- reading --- */

/** What a reader sees of a run before it may read: where its log belongs to. */
struct run_log_place {
    struct resource project;
    char repository[RESOURCE_NAME_MAX + 1]; /* of the first output */
};
/** ERROR_NOT_FOUND: there is no such run. */
RESULT run_log_place_find(struct lookup *lookup, const struct uuid *run, struct run_log_place *place_out, struct error *err);

/** A change: notes that this principal reads the log of the run. The permit: run.log on the repository. */
struct run_log_reader {
    struct change change;
    struct resource where;
    struct uuid run;
    const char *principal; /* principal_key() */
};
void run_log_reader_prepare(const struct resource *where, const struct uuid *run, const char *principal,
                            struct run_log_reader *reader_out);
/** Whether the event of this reader is recorded. */
RESULT run_log_reader_is_known(struct lookup *lookup, const struct uuid *run, const char *principal, bool *is_known_out,
                               struct error *err);

struct run_log_query {
    const char *principal; /* of a recorded reader */
    struct uuid run;
    int64_t attempt, node; /* attempt 0: the newest */
    uint64_t offset;
};
struct run_log_view {
    int64_t attempt; /* 0: there was none yet */
    uint64_t bytes;  /* of the log so far */
    enum run_state state;
    bool has_ended; /* nothing more will come */
    bool is_gone;   /* its pieces were removed */
};
/** Appends at most RUN_LOG_PIECE_MAX bytes from the offset on. ERROR_NOT_FOUND: no such run, or no such reader. ERROR_CORRUPT. */
RESULT run_log_read(struct registry *registry, struct pg *pg, const struct run_log_query *query, struct run_log_view *view_out,
                    struct buffer *bytes, struct error *err);
