#include "audit/cosigned_priv.h"

#include "audit/cosigned_jobs.h"
#include "audit/format/add_checkpoint.h"
#include "audit/log_tiles_priv.h"
#include "base/memory.h"

#define FOREIGN_ROWS_MAX 1000 /* that are passed over: whoever inserts more can only hide a copy */

static struct result judge(const struct witness_policy *policy, struct bytes bytes, struct witness_verdict *verdict_out,
                           struct error *err)
{
    struct note *note = memory_zeroed(1, sizeof *note); /* too large for the stack: the list of signatures is long */

    if (note == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a checkpoint");
    struct result result = note_read(bytes, note, err);
    if (result.ok) result = witness_policy_judge(policy, note, verdict_out, err);
    free(note);
    return result;
}

struct result cosigned_read(const struct log_keys *keys, const struct witness_policy *policy, struct bytes note,
                            struct cosigned *cosigned_out, struct error *err)
{
    struct witness_verdict verdict;

    TRY(judge(policy, note, &verdict, err));
    if (!verdict.is_met)
        return failure(err, ERROR_DENIED, "%zu of %zu witnesses have cosigned, and these are no quorum", verdict.count,
                       policy->witness_count);
    TRY(signed_checkpoint_read(keys, note, &cosigned_out->checkpoint, err));
    cosigned_out->verdict = verdict;
    return SUCCESS;
}

/* ---- stored ones ---- */

struct wanted {
    const struct log_keys *keys;
    const struct witness_policy *policy;
    struct cosigned_cursor before;
    int64_t least; /* size */
};

static struct result find(struct pg *pg, const struct wanted *wanted, struct cosigned *cosigned_out, struct error *err)
{
    struct cosigned_cursor cursor = wanted->before;
    struct error why = {0};

    for (size_t seen = 0, more = 1; more > 0 && seen < FOREIGN_ROWS_MAX; seen += more) {
        OWNED(pg_rows) *rows = NULL;
        TRY(cosigned_select_down(pg, &cursor, &rows, err));
        more = pg_rows_count(rows);
        for (size_t i = 0; i < more; i++) {
            cursor = (struct cosigned_cursor){.size = pg_int8(rows, i, 1), .id = pg_int8(rows, i, 0)};
            if (cursor.size < wanted->least) return failure(err, ERROR_NOT_FOUND, "no cosigned checkpoint of this size");
            if (cosigned_read(wanted->keys, wanted->policy, bytes_of_text(pg_text(rows, i, 2)), cosigned_out, &why).ok &&
                (int64_t)cosigned_out->checkpoint.size == cursor.size)
                return SUCCESS;
        }
    }
    return failure(err, ERROR_NOT_FOUND, "no checkpoint of the log is cosigned yet");
}

struct result cosigned_newest(struct pg *pg, const struct log_keys *keys, const struct witness_policy *policy,
                              struct cosigned *cosigned_out, struct error *err)
{
    const struct wanted wanted = {.keys = keys, .policy = policy, .before = {INT64_MAX, INT64_MAX}};

    return find(pg, &wanted, cosigned_out, err);
}

struct result cosigned_of_size(const struct permit *permit, struct pg *pg, const struct published_query *query,
                               const struct witness_policy *policy, struct cosigned *cosigned_out, struct error *err)
{
    const int64_t size = query->size > MERKLE_SIZE_MAX ? INT64_MAX : (int64_t)query->size;
    const struct wanted wanted = {.keys = query->keys, .policy = policy, .before = {size, INT64_MAX}, .least = size};

    (void)permit_resource(permit, query->action);
    return find(pg, &wanted, cosigned_out, err);
}

struct result cosigned_store(struct pg *pg, const struct cosigned *cosigned, struct error *err)
{
    return cosigned_insert(pg, cosigned->checkpoint.size, cosigned->checkpoint.note, err);
}

/* ---- what a witness is given ---- */

static struct result prove(struct pg *pg, uint64_t old_size, uint64_t size, struct merkle_proof *proof_out, struct error *err)
{
    struct log_tiles *log = memory_zeroed(1, sizeof *log);

    if (log == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a proof");
    log_tiles_init(log, pg, size);
    const struct result proven = merkle_prove_consistency(&log->tiles.source, old_size, size, proof_out, err);
    free(log);
    return proven;
}

struct result cosigned_prove(struct pg *pg, uint64_t old_size, const struct signed_checkpoint *newer, struct buffer *body,
                             struct error *err)
{
    struct add_checkpoint request = {.old_size = old_size, .note = bytes_of_text(newer->note)};

    if (old_size > newer->size)
        return failure(err, ERROR_INVALID, "%llu entries are more than the %llu of the checkpoint", (unsigned long long)old_size,
                       (unsigned long long)newer->size);
    if (old_size > 0 && old_size < newer->size) TRY(prove(pg, old_size, newer->size, &request.proof, err));
    return add_checkpoint_write(&request, body, err);
}
