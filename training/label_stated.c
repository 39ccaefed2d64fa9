#include "training/label_stated.h"

#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/dsse.h"
#include "policy/decider/set_store.h"
#include "policy/label_annotation.h"
#include "policy/set.h"
#include "policy/train.h"
#include "training/label_stated_priv.h"

#define CLOCKS_MS 60000 /* a runner's clock may differ by so much from sijil-keyd's */

struct run_floor {
    struct policy_set *set;
    struct train_floors stated;
    struct stated_label each[RUN_ARTIFACTS_MAX]; /* of `stated` */
    struct label label;
};

void run_floor_free(struct run_floor *floor)
{
    if (floor == NULL) return;
    for (size_t i = 0; i < RUN_ARTIFACTS_MAX; i++) stated_label_done(&floor->each[i]);
    policy_set_free(floor->set);
    free(floor);
}

/* ---- the policy set ---- */

static struct result compile(const struct pg_rows *rows, struct policy_set **set_out, struct error *err)
{
    OWNED(dsse) *dsse = NULL;

    TRY(dsse_read(pg_bytes(rows, 0, 1), POLICY_SET_ENVELOPE_MAX, &dsse, err));
    return policy_set_compile(buffer_bytes(&dsse->payload), set_out, err);
}

static struct result find_stored(struct pg *pg, const struct run_envelope *order, struct policy_set **set_out, struct error *err)
{
    uint8_t digest[DOCUMENT_DIGEST_SIZE];
    const struct policy_set_row row = {(uint64_t)run_integer(order, "policy.epoch"), digest};
    OWNED(pg_rows) *rows = NULL;
    struct error why = {0};

    if (!text_from_hex(bytes_of_text(run_text(order, "policy.digest") + strlen("sha256:")), digest, sizeof digest))
        return failure(err, ERROR_CORRUPT, "the order names no policy set");
    TRY(policy_set_find(pg, &row, 0, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_CORRUPT, "the policy set of the order is not stored any more");
    if (compile(rows, set_out, &why).ok) return SUCCESS;
    return failure(err, why.kind == ERROR_NO_MEMORY ? why.kind : ERROR_CORRUPT, "the policy set of the order: %.200s",
                   why.message);
}

/* NULL: the order's set is not the one in force. */
static struct policy_set *set_in_force(struct decider *decider, const struct run_envelope *order)
{
    OWNED(policy_set) *set = decider_policy_set(decider);

    return set != NULL && strcmp(policy_set_digest(set), run_text(order, "policy.digest")) == 0 ? GIVE(set) : NULL;
}

/* ---- what manifests state ---- */

static struct result read_stated(const struct pg_rows *rows, struct run_floor *floor, struct error *err)
{
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        const int64_t at = pg_int8(rows, i, 0);
        OWNED_JSON text = json_string(pg_text(rows, i, 1));
        struct error why = {0};
        if (text == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a label");
        if (at < 0 || at >= RUN_ARTIFACTS_MAX || floor->each[at].json != NULL) continue;
        if (!label_annotation_read(text, &floor->each[at], &why).ok)
            return failure(err, why.kind == ERROR_NO_MEMORY ? why.kind : ERROR_CORRUPT, "a stored label: %.200s", why.message);
        floor->stated.each[at] = &floor->each[at].label;
    }
    return SUCCESS;
}

static struct result find_stated(struct pg *pg, const struct run_envelope *order, struct run_floor *floor, struct error *err)
{
    const struct run_artifacts artifacts = run_spec_artifacts(run_member(order, "spec"));
    OWNED(pg_rows) *rows = NULL;

    TRY(run_rows_stated(pg, &artifacts, &rows, err));
    return read_stated(rows, floor, err);
}

/* ---- */

static struct result compute(struct run_floor *floor, const struct run_floor_query *query, struct error *err)
{
    const struct train_run run = {.set = floor->set,
                                  .spec = run_member(query->order, "spec"),
                                  .now_ms = query->at_ms - CLOCKS_MS,
                                  .floors = &floor->stated};

    return policy_train_label(&run, &floor->label, err);
}

/* Takes over the set, which may be NULL. */
static struct result new_floor(struct policy_set *set, struct run_floor **floor_out, struct error *err)
{
    OWNED(run_floor) *floor = memory_zeroed(1, sizeof *floor);

    if (floor == NULL) {
        policy_set_free(set);
        return failure(err, ERROR_NO_MEMORY, "no memory for the labels of a run");
    }
    floor->set = set;
    floor->label = (struct label){.class = LABEL_OPEN, .lineage = LINEAGE_ATTESTED};
    *floor_out = GIVE(floor);
    return SUCCESS;
}

struct result run_floor_find(const struct permit *permit, struct pg *pg, struct decider *decider,
                             const struct run_floor_query *query, struct run_floor **floor_out, struct error *err)
{
    OWNED(run_floor) *floor = NULL;

    permit_require_detail(permit, query->action, run_text(query->order, "run"));
    TRY(new_floor(set_in_force(decider, query->order), &floor, err));
    if (floor->set == NULL) TRY(find_stored(pg, query->order, &floor->set, err));
    TRY(find_stated(pg, query->order, floor, err));
    TRY(compute(floor, query, err));
    *floor_out = GIVE(floor);
    return SUCCESS;
}

struct result run_floor_now(struct pg *pg, struct decider *decider, const struct run_floor_query *query,
                            struct run_floor **floor_out, struct error *err)
{
    OWNED(run_floor) *floor = NULL;

    TRY(new_floor(decider_policy_set(decider), &floor, err));
    if (floor->set == NULL) return failure(err, ERROR_UNAVAILABLE, "no policy set is loaded yet");
    TRY(find_stated(pg, query->order, floor, err));
    TRY(compute(floor, query, err));
    *floor_out = GIVE(floor);
    return SUCCESS;
}

struct result run_floor_write(const struct run_floor *floor, struct buffer *label, struct error *err)
{
    return label_write(label, &floor->label, err);
}

struct result run_floor_of_names(struct decider *decider, const struct run_floor_query *query, struct run_floor **floor_out,
                                 struct error *err)
{
    OWNED(run_floor) *floor = NULL;

    TRY(new_floor(set_in_force(decider, query->order), &floor, err));
    if (floor->set != NULL) TRY(compute(floor, query, err));
    *floor_out = GIVE(floor);
    return SUCCESS;
}

struct result run_floor_check(const struct run_floor *floor, const char *what, const char *label, struct error *err)
{
    OWNED_JSON text = label == NULL ? NULL : json_string(label);
    OWNED_STATED_LABEL stated = {.json = NULL};

    if (label == NULL)
        return failure(err, ERROR_INVALID, "the manifest of %.63s has no annotation " LABEL_ANNOTATION ": update the runner",
                       what);
    if (text == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a label");
    TRY(label_annotation_read(text, &stated, err));
    if (label_covers(&stated.label, &floor->label)) return SUCCESS;
    return failure(err, ERROR_INVALID, "the label of the manifest of %.63s lacks a part of what the run has read", what);
}
