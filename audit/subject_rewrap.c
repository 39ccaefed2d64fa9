#include "audit/subject_rewrap.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "audit/search_blind_priv.h"
#include "audit/subject_rewrap_priv.h"
#include "base/clock.h"

#define YEARS_MAX 200 /* of a log */

static void require(const struct permit *permit)
{
    assert(permit_resource(permit, ACTION_JOB_RUN)->kind == RESOURCE_SYSTEM);
}

/* keyd tells its newest epoch with each key that it wraps. This one is used for nothing. */
static struct result ask_epoch(struct keyd_client *keyd, uint32_t *epoch_out, struct error *err)
{
    static const uint8_t nobody[32];
    OWNED(secret) *key = NULL;
    struct wrapped_key wrapped;

    TRY(keyd_subject_key_new(keyd, nobody, &key, &wrapped, err));
    *epoch_out = wrapped.version;
    return SUCCESS;
}

/* ---- blind keys ---- */

/* The keys of the years under older epochs go, and the index with them. */
static struct result renew_blind(struct keyd_client *keyd, struct pg *pg, uint32_t epoch, struct error *err)
{
    uint8_t indices[YEARS_MAX][32];
    struct bytes views[YEARS_MAX];
    int64_t old = 0, first_ms = 0;
    size_t count = 0;
    char text[12]; /* an int in decimal */

    TRY(rewrap_count_subjects(pg, epoch, &old, &first_ms, err));
    const int last = blind_year(clock_wall_ms()) + 1;
    for (int year = blind_year(first_ms); old > 0 && year <= last && count < YEARS_MAX; year++, count++) {
        (void)snprintf(text, sizeof text, "%04d", year);
        TRY(keyd_subject_index(keyd, BLIND_ISSUER, text, indices[count], err));
        views[count] = (struct bytes){indices[count], sizeof indices[count]};
    }
    return count == 0 ? SUCCESS : rewrap_renew_blind(pg, views, count, epoch, err);
}

/* ---- all other keys ---- */

struct batch {
    struct pg_rows *rows;
    struct wrapped_key fresh[SUBJECT_REWRAP_BATCH];
    struct rewrapped_subjects keys;
};

static struct result read_old(const struct pg_rows *rows, size_t row, struct wrapped_key *old, struct error *err)
{
    const struct bytes wrapped = pg_bytes(rows, row, 3);

    if (pg_bytes(rows, row, 1).length != 32 || wrapped.length > sizeof old->bytes)
        return failure(err, ERROR_CORRUPT, "the stored key of a subject is damaged");
    old->version = (uint32_t)pg_int8(rows, row, 2);
    old->length = wrapped.length;
    memcpy(old->bytes, wrapped.data, wrapped.length);
    return SUCCESS;
}

static struct result wrap_one(struct keyd_client *keyd, struct batch *batch, size_t row, struct error *err)
{
    struct rewrapped_subjects *keys = &batch->keys;
    struct wrapped_key old = {0}, *fresh = &batch->fresh[keys->count];

    TRY(read_old(batch->rows, row, &old, err));
    const struct bytes subject = pg_bytes(batch->rows, row, 1);
    TRY(keyd_subject_rewrap(keyd, subject.data, &old, fresh, err));
    keys->epoch = fresh->version;
    keys->subjects[keys->count] = subject;
    keys->old[keys->count] = pg_bytes(batch->rows, row, 3);
    keys->fresh[keys->count++] = (struct bytes){fresh->bytes, fresh->length};
    return SUCCESS;
}

static struct result wrap_all(struct keyd_client *keyd, struct batch *batch, struct subject_rewrap *rewrap, struct error *err)
{
    for (size_t i = 0; i < pg_rows_count(batch->rows); i++) {
        struct error why = {0};
        if (wrap_one(keyd, batch, i, &why).ok) continue;
        if (why.kind != ERROR_CORRUPT && why.kind != ERROR_INVALID) return failure(err, why.kind, "%s", why.message);
        rewrap->bad++;
    }
    return SUCCESS;
}

static struct result run_batch(struct keyd_client *keyd, struct pg *pg, struct batch *batch, struct subject_rewrap *rewrap,
                               struct error *err)
{
    const size_t count = pg_rows_count(batch->rows);
    int64_t changed = 0;

    rewrap->is_done = count == 0;
    if (count == 0) return SUCCESS;
    TRY(wrap_all(keyd, batch, rewrap, err));
    if (batch->keys.count > 0) TRY(rewrap_replace_subjects(pg, &batch->keys, &changed, err));
    rewrap->changed += (uint64_t)changed;
    rewrap->after = pg_int8(batch->rows, count - 1, 0);
    return SUCCESS;
}

struct result subject_rewrap_step(const struct permit *permit, struct keyd_client *keyd, struct pg *pg,
                                  struct subject_rewrap *rewrap, struct error *err)
{
    struct batch batch = {.keys = {.count = 0}};
    OWNED(pg_rows) *rows = NULL;

    require(permit);
    if (rewrap->epoch == 0) TRY(ask_epoch(keyd, &rewrap->epoch, err));
    if (rewrap->after == 0) TRY(renew_blind(keyd, pg, rewrap->epoch, err));
    TRY(rewrap_select_subjects(pg, rewrap->epoch, rewrap->after, &rows, err));
    batch.rows = rows;
    return run_batch(keyd, pg, &batch, rewrap, err);
}

struct result subject_rewrap_count(const struct permit *permit, struct pg *pg, const struct subject_rewrap *rewrap,
                                   uint64_t *old_out, struct error *err)
{
    int64_t old = 0, first_ms = 0;

    require(permit);
    TRY(rewrap_count_subjects(pg, rewrap->epoch, &old, &first_ms, err));
    *old_out = (uint64_t)old;
    return SUCCESS;
}
