/* training/log_priv.h -- the rows of logs of runs (training/log.h). */
#pragma once

#include "registry/upload/piece.h"
#include "training/log.h"

/** One node of one attempt. */
struct log_id {
    struct uuid run;
    int64_t attempt, node;
};
struct log_row {
    bool is_begun, is_gone;
    bool is_live; /* the lease of the holder goes on */
    uint64_t bytes, bytes_max;
};
RESULT log_row_find(struct pg *pg, const struct run_holder *holder, struct log_row *row_out, struct error *err);
RESULT log_row_begin(struct pg *pg, const struct run_log_begin *begin, const struct uuid *repository, struct error *err);
/** *is_added_out false: the log does not end at the offset, the lease has ended, or the pieces were removed; nothing has changed. */
RESULT log_row_append(struct pg *pg, const struct run_log_append *append, const struct sealed_piece *piece, bool *is_added_out,
                      struct error *err);

struct log_piece {
    uint64_t start;
    size_t length;
    struct resource where; /* organisation, project, region */
    struct sealed_piece sealed;
};
#define LOG_PIECES_MAX 64
/** The pieces with bytes from `offset` on, in their order. */
RESULT log_rows_from(struct pg *pg, const struct log_id *log, uint64_t offset, struct log_piece pieces_out[LOG_PIECES_MAX],
                     size_t *count_out, struct error *err);
/** The start of the last pieces, if there are exactly `wanted`. *start_out is `end` if there are fewer. */
RESULT log_row_tail(struct pg *pg, const struct log_id *log, int64_t wanted, uint64_t end, uint64_t *start_out,
                    struct error *err);
/** Puts one piece in the place of all from its start on, unless the log has grown. */
RESULT log_row_merge(struct pg *pg, const struct log_id *log, const struct log_piece *merged, struct error *err);

RESULT log_row_add_reader(struct pg *pg, const struct run_log_reader *reader, struct error *err);
RESULT log_row_view(struct pg *pg, const struct run_log_query *query, struct run_log_view *view_out, struct error *err);

/** A run whose pieces are due. */
struct due_log {
    struct uuid run;
    struct resource where; /* the project */
};
RESULT log_rows_due(struct pg *pg, struct due_log *due_out, size_t capacity, size_t *count_out, struct error *err);
/** ERROR_CONFLICT: they are gone. */
RESULT log_row_forget(struct pg *pg, const struct uuid *run, struct error *err);
