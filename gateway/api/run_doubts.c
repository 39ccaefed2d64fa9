/* The doubts about a run. A row of the database says only where to look: what a reader gets is what a withdrawal says that is in force,
 * of a key for which sijil-keyd has signed a lease. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "crypto/keyd_client.h"
#include "documents/format/runner_key.h"
#include "documents/view.h"
#include "gateway/api/run_priv.h"

struct doubt {
    struct runner_key key;
    bool is_withdrawn;
    char reason[RUN_REASON_SIZE];
};

/* In several scopes: the earliest time. */
static struct result note(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct doubt *doubt = context;
    struct runner_key key;

    if (!pinned->document->is_withdrawn) return SUCCESS;
    TRY(runner_key_read(pinned->document, &key, err));
    if (doubt->is_withdrawn && key.since_ms >= doubt->key.since_ms) return SUCCESS;
    doubt->is_withdrawn = true;
    doubt->key = key;
    doubt->key.jurisdictions = doubt->key.nodes = NULL;
    (void)snprintf(doubt->reason, sizeof doubt->reason, "%s", json_text_of(pinned->document->json, "withdrawn"));
    return SUCCESS;
}

/* A key with two results is suspended, and nobody has withdrawn it yet: then the row has the reason of the suspension. */
static void take_suspension(const struct pg_rows *rows, size_t row, struct doubt *doubt)
{
    doubt->key.runner = pg_uuid(rows, row, RUN_DOUBT_RUNNER);
    doubt->key.since_ms = pg_time_ms(rows, row, RUN_DOUBT_SINCE);
    (void)snprintf(doubt->reason, sizeof doubt->reason, "%s", pg_text(rows, row, RUN_DOUBT_REASON));
}

/* False: nothing in force says what the row says. */
static bool is_founded(const struct pg_rows *rows, size_t row, struct doubt *doubt)
{
    const bool has_end = !pg_is_null(rows, row, RUN_DOUBT_ENDED); /* of the key's own attempt at this run */

    if (doubt->is_withdrawn && has_end && doubt->key.since_ms <= pg_time_ms(rows, row, RUN_DOUBT_ENDED)) return true;
    if (doubt->is_withdrawn && !has_end && pg_bool(rows, row, RUN_DOUBT_RESUMES))
        return true; /* of a run that it continues from */
    if (!has_end || !pg_bool(rows, row, RUN_DOUBT_SUSPENDED)) return false;
    take_suspension(rows, row, doubt);
    return true;
}

static json_t *describe(const struct pg_rows *rows, size_t row, const struct doubt *doubt)
{
    char runner[UUID_TEXT_SIZE];

    uuid_format(&doubt->key.runner, runner);
    json_t *value =
        json_pack("{s:s, s:s, s:s}", "runner", runner, "key", pg_text(rows, row, RUN_DOUBT_KEY), "reason", doubt->reason);
    if (value != NULL && api_set_time(value, "since", doubt->key.since_ms) &&
        api_set_time(value, "noted", pg_time_ms(rows, row, RUN_DOUBT_NOTED)))
        return value;
    json_decref(value);
    return NULL;
}

/* What the rows say of a run's attempts is believed only of a key for which sijil-keyd has signed a lease. */
struct listing {
    const struct request *request;
    struct pg *pg;
    const struct uuid *run;
    const struct ecdsa_key *signer;
    json_t *list;
};

static struct result add(const struct listing *listing, const struct pg_rows *rows, size_t row, struct error *err)
{
    const char *key = pg_text(rows, row, RUN_DOUBT_KEY);
    struct doubt doubt = {.is_withdrawn = false};
    bool was_leased = false;

    TRY(document_view_visit_name(listing->request->gateway->documents, DOCUMENT_RUNNER, key, note, &doubt, err));
    if (!is_founded(rows, row, &doubt)) return SUCCESS;
    const struct run_part asked = {listing->run, key, doubt.key.since_ms, listing->signer};
    TRY(run_was_leased(listing->request->permit, listing->pg, ACTION_RUN_READ, &asked, &was_leased, err));
    if (!was_leased || json_array_append_new(listing->list, describe(rows, row, &doubt)) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
}

struct result run_add_doubts(const struct request *request, struct pg *pg, const struct uuid *id, json_t *value,
                             struct error *err)
{
    const struct document_source source = {pg, request->gateway->keyd, request->gateway->sequencer};
    OWNED(pg_rows) *rows = NULL;
    OWNED(ecdsa_key) *signer = NULL;
    OWNED_JSON list = json_array();

    TRY(run_doubts(request->permit, pg, ACTION_RUN_READ, id, &rows, err));
    if (pg_rows_count(rows) == 0) return SUCCESS;
    TRY(document_view_follow(request->gateway->documents, DOCUMENT_RUNNER, &source, err));
    TRY(keyd_signer(request->gateway->keyd, &signer, err));
    const struct listing listing = {request, pg, id, signer, list};
    for (size_t i = 0; i < pg_rows_count(rows); i++) TRY(add(&listing, rows, i, err));
    if (json_array_size(list) == 0 || json_object_set(value, "doubts", list) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
}
