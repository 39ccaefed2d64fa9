#include "training/checkpoint_jobs.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "training/checkpoint_priv.h"
#include "training/format/envelope.h"
#include "training/format/form.h"
#include "training/run_priv.h"

#define DUE_MAX 100 /* in one round: a second of work */

struct forgetting {
    struct change change;
    struct action_pair pair;
    const struct due_checkpoint *due;
};

static struct result forget(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct forgetting *self = (const struct forgetting *)(const void *)change; /* its first member */

    permit_require(permit, ACTION_RUN_FORGET, &self->pair.resource);
    return checkpoint_row_forget(pg, &self->due->run, self->due->digest, err);
}

/* ERROR_CONFLICT: another gateway has done it. */
static struct result forget_one(struct sequencer *sequencer, const struct due_checkpoint *due, bool *is_gone_out,
                                struct error *err)
{
    struct forgetting forgetting = {.change = {.run = forget, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                    .pair = {ACTION_RUN_FORGET, due->where},
                                    .due = due};
    char id[UUID_TEXT_SIZE];

    uuid_format(&due->run, id);
    (void)snprintf(forgetting.pair.resource.detail, sizeof forgetting.pair.resource.detail, "%s %.71s", id, due->digest);
    return run_record_once(sequencer, &forgetting.pair, &forgetting.change, is_gone_out, err);
}

/* ---- what sijil-keyd has signed ---- */

/* After the end of the order nothing of the run can be leased or admitted any more. */
static bool has_order_ended(const struct run_envelope *order, const char *run)
{
    return strcmp(run_text(order, "run"), run) == 0 && run_time(order, "expires") + RUN_CHECKPOINT_KEPT_MS <= clock_wall_ms();
}

static bool is_admitted(const struct run_envelope *admission, const char *run)
{
    const char *said = run_text(admission, "predicate.resourceUri");

    return strncmp(said, FORM_RUN_URN, strlen(FORM_RUN_URN)) == 0 && strcmp(said + strlen(FORM_RUN_URN), run) == 0;
}

static struct result shows_end(const struct pg_rows *rows, size_t row, const struct ecdsa_key *signer, const char *run,
                               bool *shows_out, struct error *err)
{
    const enum run_type type = strcmp(pg_text(rows, row, 0), "order") == 0 ? RUN_ORDER : RUN_ADMISSION;
    OWNED(run_envelope) *envelope = NULL;
    struct error why = {0};

    *shows_out = run_envelope_read(bytes_of_text(pg_text(rows, row, 1)), type, &envelope, &why).ok &&
                 run_check_signer(envelope, signer, &why).ok &&
                 (type == RUN_ORDER ? has_order_ended(envelope, run) : is_admitted(envelope, run));
    return why.kind == ERROR_NO_MEMORY ? failure(err, why.kind, "%s", why.message) : SUCCESS;
}

static struct result is_over(struct pg *pg, const struct ecdsa_key *signer, const struct due_checkpoint *due, bool *is_over_out,
                             struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    char run[UUID_TEXT_SIZE];

    uuid_format(&due->run, run);
    *is_over_out = due->is_deleted;
    if (due->is_deleted) return SUCCESS;
    TRY(checkpoint_rows_over(pg, &due->run, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows) && !*is_over_out; i++) TRY(shows_end(rows, i, signer, run, is_over_out, err));
    return SUCCESS;
}

/* ---- a round ---- */

/* The checkpoints of one look. */
struct removal {
    struct sequencer *sequencer;
    struct pg *pg;
    const struct run_withdrawals *withdrawals; /* NULL: they go for another reason */
    const struct ecdsa_key *signer;            /* without withdrawals */
    struct due_checkpoint *due;                /* DUE_MAX */
    struct run_round round;
};

static struct result may_go(const struct removal *removal, const struct due_checkpoint *due, bool *may_out, struct error *err)
{
    if (removal->withdrawals == NULL) return is_over(removal->pg, removal->signer, due, may_out, err);
    return run_withdrawal_applies(removal->pg, removal->withdrawals, &due->run, due->key, may_out, err);
}

static void forget_all(struct removal *removal, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        bool may = false, is_gone = false;
        struct result one = may_go(removal, &removal->due[i], &may, err);
        if (one.ok && may) one = forget_one(removal->sequencer, &removal->due[i], &is_gone, err);
        run_round_note(&removal->round, one, is_gone, err);
    }
}

/* A page of rows that prove nothing, however many an attacker has written, is passed over. */
static struct result forget_pages(struct removal *removal, struct error *err)
{
    size_t count = DUE_MAX;

    for (size_t skipped = 0; count == DUE_MAX && removal->round.changed == 0; skipped += count) {
        const struct row_window window = {skipped, DUE_MAX};
        TRY(removal->withdrawals == NULL
                ? checkpoint_rows_due(removal->pg, &window, removal->due, &count, err)
                : checkpoint_rows_doubted(removal->pg, removal->withdrawals, &window, removal->due, &count, err));
        forget_all(removal, count, err);
    }
    return SUCCESS;
}

static struct result find_and_forget(struct removal *removal, size_t *count_out, struct error *err)
{
    removal->due = memory_zeroed(DUE_MAX, sizeof *removal->due);
    if (removal->due == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for checkpoints that are due");
    const struct result result = forget_pages(removal, err);
    free(removal->due);
    return result.ok ? run_round_end(&removal->round, count_out, err) : result;
}

struct result run_checkpoint_forget_due(struct sequencer *sequencer, struct pg *pg, const struct ecdsa_key *signer,
                                        size_t *count_out, struct error *err)
{
    struct removal removal = {.sequencer = sequencer, .pg = pg, .signer = signer};

    return find_and_forget(&removal, count_out, err);
}

struct result run_checkpoint_forget_doubted(struct sequencer *sequencer, struct pg *pg, const struct run_withdrawals *withdrawals,
                                            size_t *count_out, struct error *err)
{
    struct removal removal = {.sequencer = sequencer, .pg = pg, .withdrawals = withdrawals};

    return find_and_forget(&removal, count_out, err);
}
