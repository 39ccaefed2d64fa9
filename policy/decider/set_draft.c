#include "policy/decider/set_draft.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "audit/format/leaf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/dsse.h"
#include "documents/format/set_approval.h"
#include "documents/format/signing_key.h"
#include "policy/decider/set_store.h"
#include "policy/set_exceptions.h"

static const struct resource the_system = {.kind = RESOURCE_SYSTEM};

void policy_draft_name(struct bytes payload, char name_out[POLICY_DRAFT_NAME_SIZE])
{
    uint8_t digest[SHA256_SIZE];

    sha256_of(payload, digest);
    text_hex(digest, (POLICY_DRAFT_NAME_SIZE - 1) / 2, name_out);
}

/* ---- reading ---- */

static void fill(struct policy_draft *draft, const struct pg_rows *rows, size_t row)
{
    draft->name = pg_text(rows, row, 0);
    draft->payload = pg_bytes(rows, row, 1);
    draft->envelope = pg_bytes(rows, row, 2);
    draft->drafted_by = pg_text(rows, row, 3);
    draft->expires_ms = pg_int8(rows, row, 4);
    draft->change = (enum set_change)pg_int8(rows, row, 5);
    draft->why = pg_text(rows, row, 6);
}

void policy_draft_done(struct policy_draft *draft)
{
    pg_rows_free(draft->rows);
    draft->rows = NULL;
}

/* Takes `rows`. */
static struct result take(struct pg_rows *rows, struct policy_draft *draft_out, struct error *err)
{
    if (pg_rows_count(rows) == 0) {
        pg_rows_free(rows);
        return failure(err, ERROR_NOT_FOUND, "no such draft waits: it has come into force, was discarded, or has expired");
    }
    fill(draft_out, rows, 0);
    draft_out->rows = rows;
    return SUCCESS;
}

struct result policy_draft_find(const struct permit *permit, enum action action, struct pg *pg, const char *name,
                                struct policy_draft *draft_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, action, &the_system);
    TRY(policy_drafts_read(pg, name, &rows, err));
    return take(GIVE(rows), draft_out, err);
}

struct result policy_draft_lookup(struct lookup *lookup, const char *name, struct policy_draft *draft_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(policy_drafts_lookup(lookup, name, &rows, err));
    return take(GIVE(rows), draft_out, err);
}

struct result policy_draft_visit(const struct permit *permit, enum action action, struct pg *pg, policy_draft_visitor *visit,
                                 void *context, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, action, &the_system);
    TRY(policy_drafts_read(pg, NULL, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        struct policy_draft draft = {.rows = NULL};
        fill(&draft, rows, i);
        TRY(visit(context, &draft, err));
    }
    return SUCCESS;
}

/* ---- changing ---- */

static struct result run_add(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct policy_draft_change *draft = (const struct policy_draft_change *)change; /* its first member */
    struct policy_drafts_waiting waiting;

    permit_require(permit, draft->action, &the_system);
    TRY(policy_drafts_count(pg, draft->name, draft->drafted_by, &waiting, err));
    if (waiting.is_there) return failure(err, ERROR_CONFLICT, "this draft waits already: %s", draft->name);
    if (waiting.of_principal >= POLICY_DRAFTS_EACH || waiting.all >= POLICY_DRAFTS_MAX)
        return failure(err, ERROR_LIMIT, "too many drafts of policy sets wait already (%d, of them %d of yours): discard one",
                       (int)waiting.all, (int)waiting.of_principal);
    const struct policy_draft_row row = {draft->name,       draft->drafted_by,   draft->payload,
                                         draft->expires_ms, draft->found.change, draft->found.why};
    return policy_draft_insert(pg, &row, err);
}

static struct result run_sign(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct policy_draft_change *draft = (const struct policy_draft_change *)change; /* its first member */
    bool is_signed = false;

    permit_require(permit, draft->action, &the_system);
    TRY(policy_draft_sign(pg, draft->name, draft->before, draft->envelope, &is_signed, err));
    return is_signed ? SUCCESS : failure(err, ERROR_CONFLICT, "somebody has signed this draft meanwhile, or ended it: try again");
}

static struct result run_end(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct policy_draft_change *draft = (const struct policy_draft_change *)change; /* its first member */
    bool was_there = false;

    permit_require(permit, draft->action, &the_system);
    TRY(policy_draft_remove(pg, draft->name, &was_there, err));
    return was_there ? SUCCESS : failure(err, ERROR_NOT_FOUND, "no such draft waits");
}

void policy_draft_add_init(struct policy_draft_change *change)
{
    change->change = (struct change){.run = run_add, .invalidates = CHANGE_INVALIDATES_NOTHING};
}

void policy_draft_sign_init(struct policy_draft_change *change)
{
    change->change = (struct change){.run = run_sign, .invalidates = CHANGE_INVALIDATES_NOTHING};
}

void policy_draft_end_init(struct policy_draft_change *change)
{
    change->change = (struct change){.run = run_end, .invalidates = CHANGE_INVALIDATES_NOTHING};
}

/* ---- exceptions ---- */

static struct policy_exception_use use_of(const struct pg_rows *rows, const uint8_t *key)
{
    for (size_t i = 0; i < pg_rows_count(rows); i++)
        if (bytes_equal(pg_bytes(rows, i, 0), (struct bytes){key, SHA256_SIZE}))
            return (struct policy_exception_use){pg_int8(rows, i, 1), pg_int8(rows, i, 2)};
    return (struct policy_exception_use){0, 0};
}

struct result policy_exception_visit(const struct permit *permit, struct pg *pg, const struct policy_set *set,
                                     policy_exception_visitor *visit, void *context, struct error *err)
{
    const int64_t now_us = clock_wall_ms() * 1000;
    const size_t count = policy_set_exception_count(set);
    struct policy_exception_view views[POLICY_LIST_MAX];
    struct bytes keys[POLICY_LIST_MAX];
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, ACTION_POLICY_READ, &the_system);
    assert(count <= POLICY_LIST_MAX);
    for (size_t i = 0; i < count; i++) {
        policy_set_exception(set, i, now_us, &views[i]);
        keys[i] = (struct bytes){views[i].key, SHA256_SIZE};
    }
    TRY(policy_exception_uses(pg, keys, count, &rows, err));
    for (size_t i = 0; i < count; i++) {
        const struct policy_exception_use use = use_of(rows, views[i].key);
        TRY(visit(context, &views[i], &use, err));
    }
    return SUCCESS;
}

/* ---- the past ---- */

static void take_comment(struct bytes envelope, struct policy_past_set *past)
{
    struct set_approval approval;
    OWNED(dsse) *dsse = NULL;
    OWNED_JSON set = NULL;
    struct error ignored = {0};

    if (!dsse_read(envelope, POLICY_SET_ENVELOPE_MAX, &dsse, &ignored).ok) return;
    if (!json_read(buffer_bytes(&dsse->payload), POLICY_SET_BYTES_MAX, &set, &ignored).ok) return;
    if (!set_approval_read(set, &approval, &ignored).ok || approval.comment == NULL) return;
    (void)snprintf(past->comment, sizeof past->comment, "%s", approval.comment);
}

static struct result read_history(struct pg *pg, uint64_t first, struct policy_history *history, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(policy_sets_loaded(pg, first, history->most, &rows, err));
    history->count = pg_rows_count(rows);
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        struct policy_past_set past = {
            .sequence = pg_int8(rows, i, 0), .epoch = pg_int8(rows, i, 1), .loaded_ms = pg_int8(rows, i, 4)};
        (void)snprintf(past.digest, sizeof past.digest, "sha256:%s", pg_text(rows, i, 2));
        (void)snprintf(past.loaded_by, sizeof past.loaded_by, "%s", pg_text(rows, i, 3));
        take_comment(pg_bytes(rows, i, 5), &past);
        history->each[i] = past;
    }
    return SUCCESS;
}

struct result policy_history_read(const struct permit *permit, struct pg *pg, uint64_t first, struct policy_history *history,
                                  struct error *err)
{
    permit_require(permit, ACTION_POLICY_READ, &the_system);
    return read_history(pg, first, history, err);
}

struct result policy_history_report(const struct permit *permit, struct pg *pg, uint64_t first, struct policy_history *history,
                                    struct error *err)
{
    (void)permit_resource(permit, ACTION_REPORT_RESIDENCY);
    return read_history(pg, first, history, err);
}

struct result policy_set_report(const struct permit *permit, struct pg *pg, uint64_t number, struct buffer *envelope,
                                struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    (void)permit_resource(permit, ACTION_REPORT_RESIDENCY);
    TRY(policy_sets_loaded(pg, number, 1, &rows, err));
    if (pg_rows_count(rows) == 0 || pg_int8(rows, 0, 0) != (int64_t)number)
        return failure(err, ERROR_NOT_FOUND, "event %llu loads no policy set", (unsigned long long)number);
    const struct bytes stored = pg_bytes(rows, 0, 5);
    return buffer_add(envelope, stored.data, stored.length, err);
}

struct result policy_set_of_epoch(const struct permit *permit, struct pg *pg, uint64_t epoch, struct buffer *envelope,
                                  struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, ACTION_POLICY_READ, &the_system);
    TRY(policy_set_loaded(pg, epoch, &rows, err));
    if (pg_rows_count(rows) == 0)
        return failure(err, ERROR_NOT_FOUND, "no policy set of epoch %llu was loaded", (unsigned long long)epoch);
    const struct bytes found = pg_bytes(rows, 0, 0);
    return buffer_add(envelope, found.data, found.length, err);
}

/* ---- keys ---- */

void policy_approver_keys_done(struct policy_approver_keys *keys)
{
    pg_rows_free(keys->rows);
    keys->rows = NULL;
}

/* What can't be read was refused. */
static bool approves(const struct policy_approver_key *key)
{
    OWNED(document) *document = NULL;
    struct signing_key read;
    struct error refused = {0};

    return document_read(key->envelopes, key->envelope_count, &document, &refused).ok && document->kind == DOCUMENT_SIGNING_KEY &&
           signing_key_read(document, &read, &refused).ok && read.purpose == SIGNING_APPROVE;
}

static struct result read_key(const struct policy_approver_keys *keys, size_t row, struct policy_approver_key *key_out,
                              struct error *err)
{
    struct policy_approver_key key = {.sequence = (uint64_t)pg_int8(keys->rows, row, 0)};
    struct leaf leaf;

    TRY(leaf_read(pg_bytes(keys->rows, row, 1), &leaf, err));
    key.time_ms = leaf.time_ms;
    for (size_t i = 0; i < DOCUMENT_SIGNATURES_MAX; i++) {
        key.envelopes[i] = pg_bytes(keys->rows, row, 2 + i);
        if (key.envelopes[i].length > 0) key.envelope_count = i + 1;
    }
    *key_out = key;
    return SUCCESS;
}

static struct result take_key(struct policy_approver_keys *keys, size_t row, struct error *err)
{
    struct policy_approver_key key;

    TRY(read_key(keys, row, &key, err));
    if (approves(&key)) keys->each[keys->count++] = key;
    return SUCCESS;
}

static void begin_keys(struct policy_approver_keys *keys)
{
    keys->count = 0;
    keys->next = 0;
}

static void end_keys(struct policy_approver_keys *keys)
{
    const size_t count = pg_rows_count(keys->rows);

    if (count == keys->most) keys->next = (uint64_t)pg_int8(keys->rows, count - 1, 0) + 1;
}

struct result policy_approver_keys_read(const struct permit *permit, struct pg *pg, uint64_t first,
                                        struct policy_approver_keys *keys, struct error *err)
{
    permit_require(permit, ACTION_POLICY_READ, &the_system);
    begin_keys(keys);
    TRY(policy_approvers(pg, first, keys->most, &keys->rows, err));
    const size_t count = pg_rows_count(keys->rows);
    for (size_t i = 0; i < count; i++) TRY(take_key(keys, i, err));
    end_keys(keys);
    return SUCCESS;
}

struct result restriction_documents_read(const struct permit *permit, struct pg *pg, uint64_t first,
                                         struct policy_approver_keys *keys, struct error *err)
{
    const struct resource *where = permit_resource(permit, ACTION_RESTRICTION_READ);
    struct leaf leaf;

    begin_keys(keys);
    TRY(restriction_documents(pg, where->name, first, keys->most, &keys->rows, err));
    for (size_t i = 0; i < pg_rows_count(keys->rows); i++) {
        struct policy_approver_key *key = &keys->each[keys->count];
        TRY(read_key(keys, i, key, err));
        TRY(leaf_read(pg_bytes(keys->rows, i, 1), &leaf, err));
        if (strncmp(leaf.targets[0].action, "restriction.", strlen("restriction.")) == 0)
            key->recorder = pg_text(keys->rows, i, 6);
        keys->count++;
    }
    end_keys(keys);
    return SUCCESS;
}
