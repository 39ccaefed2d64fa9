/* /api/v1/reports/residency: the policy sets that a residency report stands on (docs/formats/residency-report.md). Its events are an export of the log. */
#include <stdio.h>
#include <string.h>

#include "audit/query.h"
#include "base/text.h"
#include "gateway/api/audit_priv.h"
#include "policy/decider/set_draft.h"
#include "policy/set_export.h"

#define ENTRY_MAX ((size_t)64 << 10) /* a leaf, or a proof with its checkpoint */

PART(report_past_set, "a set that was loaded", HAS_COUNT("epoch", REQUIRED, "its number"),
     HAS_TEXT("digest", REQUIRED, FORM_DIGEST, 71, 71, "its digest"),
     HAS_COUNT("event", REQUIRED, "the number of its event in the log, which names it in paths"),
     HAS_TIME("loaded", REQUIRED, "when"))
SCHEMA(report_sets, "sets of policies that were loaded",
       HAS_LIST("sets", REQUIRED, POLICY_HISTORY_PAGE, schema_report_past_set, "the oldest first"), HAS_NEXT)
SCHEMA(report_set, "a set of policies for somebody outside",
       HAS_TEXT("apiVersion", REQUIRED, FORM_FREE, 1, 32, "sijil.policy/v1"),
       HAS_TEXT("kind", REQUIRED, FORM_FREE, 1, 32, "PolicySetExport"),
       HAS_ANY("envelopes", REQUIRED, "a list of one text: the signed document (DSSE), byte for byte as it was loaded"),
       HAS_TEXT("entry", REQUIRED, FORM_FREE, 1, 0, "the event of the log that loaded it, byte for byte"),
       HAS_TEXT("proof", REQUIRED, FORM_FREE, 1, 0, "that the log has this entry (C2SP tlog-proof)"))

/* The right is that to report about the project, or about all. The sets themselves are of the whole registry. */
struct result target_report_sets(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    audit_pair_within(request, ACTION_REPORT_RESIDENCY, request_argument(request, "within"));
    return SUCCESS;
}

static struct result describe(struct request *request, const void *rows, size_t index, json_t **row_out, struct error *err)
{
    const struct policy_past_set *past = (const struct policy_past_set *)rows + index;
    OWNED_JSON value = json_pack("{s:I, s:s, s:I}", "epoch", (json_int_t)past->epoch, "digest", past->digest, "event",
                                 (json_int_t)past->sequence);

    (void)request;
    if (value == NULL || !api_set_time(value, "loaded", past->loaded_ms))
        return failure(err, ERROR_NO_MEMORY, "no memory for the policy sets of a report");
    *row_out = GIVE(value);
    return SUCCESS;
}

static void cursor_of(const void *rows, size_t index, char next_out[API_CURSOR_SIZE])
{
    (void)snprintf(next_out, API_CURSOR_SIZE, "%lld", (long long)((const struct policy_past_set *)rows)[index].sequence);
}

static struct result handle_sets(struct request *request, struct pg *pg, struct error *err)
{
    struct policy_history history = {.count = 0};
    struct api_page page;
    int64_t after = -1;

    if (!api_page(request, &page)) return SUCCESS;
    TRY(api_scope_exists(&request->pairs[0].resource, err));
    TRY(api_after_number(&page, &after, err));
    const size_t limit = page.limit < POLICY_HISTORY_PAGE ? page.limit : POLICY_HISTORY_PAGE;
    history.most = limit + 1;
    TRY(policy_history_report(request->permit, pg, (uint64_t)(after + 1), &history, err));
    const bool has_more = history.count > limit;
    const struct api_list list = {"sets", history.each, has_more ? limit : history.count, has_more, describe, cursor_of};
    return api_answer_list(request, &list, err);
}

static struct result fill_set(struct request *request, struct pg *pg, struct buffer *text, struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX), entry = BUFFER(ENTRY_MAX), proof = BUFFER(ENTRY_MAX);
    const struct proven_entry proven = {.entry = &entry, .proof = &proof};
    struct signed_checkpoint checkpoint;
    uint64_t number = 0;

    TRY(api_scope_exists(&request->pairs[0].resource, err));
    if (!text_to_u64(bytes_of_text(request->reference), INT64_MAX - 1, &number))
        return failure(err, ERROR_NOT_FOUND, "there is no such event");
    TRY(policy_set_report(request->permit, pg, number, &envelope, err));
    TRY(api_newest(request, number + 1, &checkpoint, err));
    TRY(audit_prove_set(request->permit, pg, number, &checkpoint, &proven, err));
    const struct set_export_parts parts = {
        .envelope = buffer_bytes(&envelope), .entry = buffer_bytes(&entry), .proof = buffer_bytes(&proof)};
    return set_export_write(&parts, text, err);
}

static struct result handle_set(struct request *request, struct pg *pg, struct error *err)
{
    static const struct api_large kind = {
        .what = "policy sets of reports", .type = "application/json", .maximum = SET_EXPORT_BARE_MAX, .fill = fill_set};
    const struct result answered = api_answer_large(request, pg, &kind, err);

    if (!answered.ok && api_proves_later(request, pg, err)) return SUCCESS;
    TRY(answered);
    if (request->response != NULL) response_header(request, "Cache-Control", "no-store");
    return SUCCESS;
}

const struct handler handler_report_sets = {.handle = handle_sets};
const struct handler handler_report_set = {.handle = handle_set};
