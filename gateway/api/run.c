/* /api/v1/projects/{name}/runs: training runs; docs/runs.md. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "gateway/api/run_priv.h"
#include "policy/decider/decider.h"
#include "training/checkpoint.h"

#define ENVELOPES_MAX (1 + RUN_APPROVALS_MAX)
#define LISTED_MAX    (ENVELOPES_MAX + 4 + 100) /* with order, refusal, result, admission, and a return of each attempt */

static void runs_free(struct run **runs)
{
    free(*runs);
}
#define OWNED_RUNS __attribute__((cleanup(runs_free))) struct run *

PART(run_envelope, "something that was signed",
     HAS_WORD("kind", REQUIRED, "request approval order refusal return result admission", "what it is (docs/formats/run.md)"),
     HAS_TEXT("digest", REQUIRED, FORM_DIGEST, 71, 71, "SHA-256 of the bytes that are signed"),
     HAS_TEXT("principal", REQUIRED, FORM_FREE, 1, 79, "who has signed"),
     HAS_TEXT("envelope", REQUIRED, FORM_FREE, 1, RUN_ENVELOPE_MAX, "the envelope (DSSE), byte for byte"))

PART(run_doubt, "a runner of the run that was withdrawn from an earlier time on", HAS_ID("runner", REQUIRED, "the runner"),
     HAS_TEXT("key", REQUIRED, FORM_FREE, 43, 43, "the thumbprint of its key"),
     HAS_TIME("since", REQUIRED, "its results do not count from then on"),
     HAS_TEXT("reason", REQUIRED, FORM_FREE, 1, 256, "why it was withdrawn"),
     HAS_TIME("noted", REQUIRED, "when the doubt was noted"))

SCHEMA(run, "a training run", HAS_ID("id", REQUIRED, "names it in paths"),
       HAS_TEXT("state", REQUIRED, FORM_FREE, 1, 32, "where it is, such as running (docs/runs.md)"),
       HAS_TEXT("request", REQUIRED, FORM_DIGEST, 71, 71, "the digest of its request"),
       HAS_TEXT("requester", REQUIRED, FORM_FREE, 1, 79, "who has asked for it"),
       HAS_TEXT("pool", REQUIRED, FORM_FREE, 1, 63, "the runners that it is for"),
       HAS_COUNT("approvals", REQUIRED, "how many persons have approved it"),
       HAS_COUNT("approvals_wanted", REQUIRED,
                 "how many it needs: as many as the policies demanded when it was requested, or one more (docs/runs.md)"),
       HAS_TEXT("command", OPTIONAL, FORM_FREE, 1, RUN_COMMAND_SIZE - 1,
                "the beginning of its command line, for people: what counts is in the signed request"),
       HAS_TIME("requested", OPTIONAL, "when it was requested"), HAS_TIME("expires", OPTIONAL, "when its request expires"),
       HAS_TIME("ended", OPTIONAL, "when it ended"),
       HAS_TEXT("reason", OPTIONAL, FORM_FREE, 1, RUN_REASON_SIZE - 1, "why it ended so"),
       HAS_COUNT("attempt", REQUIRED, "the newest attempt; 0 before the first"),
       HAS_COUNT("attempts", REQUIRED, "how many the order allows; 0 before it"),
       HAS_WORD("phase", OPTIONAL, "leased fetching waiting running finishing",
                "of one run: what its runner does; of several nodes, that of node 0"),
       HAS_NUMBER("progress", OPTIONAL, 0, 100, "of one run: in percent, as its program says"),
       HAS_NUMBER("nodes_wanted", OPTIONAL, 2, 256, "of one ordered run of several nodes: how many"),
       HAS_NUMBER("nodes_kept", OPTIONAL, 0, 256, "of these: for how many a runner waits"),
       HAS_OBJECT("runners", OPTIONAL, schema_run_runners, "of one ordered run: who could take it, and what they lack"),
       HAS_LIST("nodes", OPTIONAL, 256, schema_run_node, "of one run of several nodes: those of its newest attempt"),
       HAS_LIST("doubts", OPTIONAL, 0, schema_run_doubt, "of an admitted run: its result does not count any more (docs/runs.md)"),
       HAS_LIST("outputs", OPTIONAL, 16, schema_run_output, "of one admitted run: what it made"),
       HAS_LIST("checkpoints", OPTIONAL, RUN_CHECKPOINTS_SHOWN, schema_run_checkpoint,
                "of one run: those that are kept, the newest first"),
       HAS_LIST("people", OPTIONAL, 16, schema_run_person, "of one run, for those that may approve it: whose its principals are"),
       HAS_LIST("envelopes", OPTIONAL, LISTED_MAX, schema_run_envelope, "of one run: what was signed, in the order of arrival"))

SCHEMA(runs, "a page of runs", HAS_LIST("runs", REQUIRED, API_LIMIT_MAX, schema_run, "newest first"), HAS_NEXT)

/* ---- targets ---- */

static struct result target_project(struct request *request, enum action action)
{
    api_pair_of_project(request, action);
    return SUCCESS;
}

struct result target_run_list(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return target_project(request, ACTION_RUN_READ);
}

static struct result target_run(struct request *request, enum action action)
{
    struct uuid id;

    if (!api_is_project_name(request->name) || !uuid_parse(bytes_of_text(request->reference), &id)) {
        response_unknown(request);
        return SUCCESS;
    }
    uuid_format(&id, api_pair(request, action, RESOURCE_PROJECT, request->name)->detail);
    return SUCCESS;
}

struct result target_run_read(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return target_run(request, ACTION_RUN_READ);
}

struct result target_run_approve(struct request *request, struct lookup *lookup, struct error *err)
{
    OWNED(run_envelope) *envelope = NULL;
    struct uuid id;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_RUN_APPROVE)) return SUCCESS;
    if (!api_is_project_name(request->name) || !uuid_parse(bytes_of_text(request->reference), &id))
        return target_run(request, ACTION_RUN_APPROVE);
    TRY(run_body_read(request, RUN_APPROVAL, &envelope, err));
    struct resource *where = api_pair(request, ACTION_RUN_APPROVE, RESOURCE_PROJECT, request->name);
    (void)snprintf(where->detail, sizeof where->detail, "%s %s", envelope->digest, request->reference);
    return SUCCESS;
}

struct result target_run_cancel(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return target_run(request, ACTION_RUN_CANCEL);
}

/* ---- answers ---- */

static void digest_text(const uint8_t digest[SHA256_SIZE], char text_out[RUN_DIGEST_TEXT])
{
    (void)snprintf(text_out, RUN_DIGEST_TEXT, "sha256:");
    text_hex(digest, SHA256_SIZE, text_out + strlen(text_out));
}

static struct result describe(const struct run *run, json_t **value_out, struct error *err)
{
    char id[UUID_TEXT_SIZE], request[RUN_DIGEST_TEXT];

    uuid_format(&run->id, id);
    digest_text(run->request, request);
    OWNED_JSON value = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "id", id, "state", run_state_name(run->state),
                                 "request", request, "requester", run->requester, "pool", run->pool, "approvals",
                                 (json_int_t)run->approvals, "approvals_wanted", (json_int_t)run->approvals_wanted, "attempt",
                                 (json_int_t)run->attempt, "attempts", (json_int_t)run->attempts);
    if (value != NULL && ((run->reason[0] != '\0' && json_object_set_new(value, "reason", json_string(run->reason)) != 0) ||
                          (run->command[0] != '\0' && json_object_set_new(value, "command", json_string(run->command)) != 0)))
        return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    if (value == NULL || !api_set_time(value, "requested", run->requested_ms) ||
        !api_set_time(value, "expires", run->expires_ms) || !api_set_time(value, "ended", run->ended_ms))
        return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    *value_out = GIVE(value);
    return SUCCESS;
}

static struct result add_envelopes(const struct pg_rows *rows, json_t *list, struct error *err)
{
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        char digest[RUN_DIGEST_TEXT];
        digest_text(pg_bytes(rows, i, RUN_ENVELOPE_DIGEST).data, digest);
        json_t *row =
            json_pack("{s:s, s:s, s:s, s:s}", "kind", pg_text(rows, i, RUN_ENVELOPE_KIND), "digest", digest, "principal",
                      pg_text(rows, i, RUN_ENVELOPE_PRINCIPAL), "envelope", pg_text(rows, i, RUN_ENVELOPE_TEXT));
        if (row == NULL || json_array_append_new(list, row) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    }
    return SUCCESS;
}

/* What a run of several nodes waits for. */
static struct result add_kept(const struct request *request, struct pg *pg, const struct uuid *id, json_t *value,
                              struct error *err)
{
    struct run_kept kept;

    TRY(run_read_kept(request->permit, pg, ACTION_RUN_READ, id, &kept, err));
    if (kept.nodes == 0 || (json_object_set_new(value, "nodes_wanted", json_integer(kept.nodes)) == 0 &&
                            json_object_set_new(value, "nodes_kept", json_integer(kept.kept)) == 0))
        return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
}

static struct result add_activity(const struct request *request, struct pg *pg, const struct uuid *id, json_t *value,
                                  struct error *err)
{
    struct run_activity activity;

    TRY(add_kept(request, pg, id, value, err));
    TRY(run_add_runners(request, pg, id, value, err));
    TRY(run_read_activity(request->permit, pg, ACTION_RUN_READ, id, &activity, err));
    if (activity.phase[0] == '\0') return SUCCESS;
    if (json_object_set_new(value, "phase", json_string(activity.phase)) != 0 ||
        (activity.progress >= 0 && json_object_set_new(value, "progress", json_integer(activity.progress)) != 0))
        return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    return SUCCESS;
}

struct result run_answer(struct request *request, struct pg *pg, enum action action, const struct uuid *id, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    OWNED_JSON envelopes = json_array();
    OWNED_JSON value = NULL;
    struct run run;

    if (envelopes == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    TRY(run_find(request->permit, pg, action, id, &run, err));
    TRY(run_envelopes(request->permit, pg, action, id, &rows, err));
    TRY(describe(&run, &value, err));
    TRY(add_envelopes(rows, envelopes, err));
    if (action == ACTION_RUN_READ) {
        TRY(add_activity(request, pg, id, value, err));
        TRY(run_add_lists(request, pg, id, value, err));
        TRY(run_add_people(request, pg, envelopes, value, err));
    }
    if (json_object_set(value, "envelopes", envelopes) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    response_json(request, action == ACTION_RUN_READ ? 200 : 201, value);
    return SUCCESS;
}

/* ---- reading ---- */

struct listed {
    const struct run *runs;
    struct pg *pg;
};

/* Few runs are doubted, so each of these is looked up for itself. */
static struct result describe_row(struct request *request, const void *rows, size_t index, json_t **row_out, struct error *err)
{
    const struct listed *listed = rows;
    const struct run *run = &listed->runs[index];
    OWNED_JSON row = NULL;

    TRY(describe(run, &row, err));
    if (run->may_be_doubted) TRY(run_add_doubts(request, listed->pg, &run->id, row, err));
    *row_out = GIVE(row);
    return SUCCESS;
}

static void cursor_of(const void *rows, size_t index, char next_out[API_CURSOR_SIZE])
{
    (void)snprintf(next_out, API_CURSOR_SIZE, "%lld", (long long)((const struct listed *)rows)->runs[index].number);
}

static struct result handle_list(struct request *request, struct pg *pg, struct error *err)
{
    struct run_page page = {.before = INT64_MAX, .state = request_argument(request, "state")};
    enum run_state state;
    struct api_page asked;
    OWNED_RUNS runs = NULL;
    size_t count = 0;

    if (!api_page(request, &asked)) return SUCCESS;
    if (page.state != NULL && !run_state_find(page.state, &state))
        return failure(err, ERROR_INVALID, "state is a state of a run, such as \"awaiting approval\" (docs/runs.md)");
    TRY(api_after_number(&asked, &page.before, err));
    page.limit = asked.limit + 1;
    TRY(run_list(request->permit, pg, &page, &runs, &count, err));
    const struct listed listed = {runs, pg};
    const struct api_list list = {.name = "runs",
                                  .rows = &listed,
                                  .count = count < asked.limit ? count : asked.limit,
                                  .has_more = count > asked.limit,
                                  .describe = describe_row,
                                  .cursor = cursor_of};
    return api_answer_list(request, &list, err);
}

static struct result handle_read(struct request *request, struct pg *pg, struct error *err)
{
    struct uuid id;

    TRY(api_id(request, "run", &id, err));
    return run_answer(request, pg, ACTION_RUN_READ, &id, err);
}

/* ---- approving ---- */

/* The envelopes of a run, read back. */
struct signed_run {
    struct run_envelope *envelopes[ENVELOPES_MAX];
    size_t count;
    struct run_chain chain;
};

static void signed_run_done(struct signed_run *whole)
{
    for (size_t i = 0; i < whole->count; i++) run_envelope_free(whole->envelopes[i]);
}
#define OWNED_SIGNED_RUN __attribute__((cleanup(signed_run_done))) struct signed_run

static struct result read_back(const struct pg_rows *rows, struct signed_run *whole, struct error *err)
{
    for (size_t i = 0; i < pg_rows_count(rows) && whole->count < ENVELOPES_MAX; i++) {
        const bool is_request = strcmp(pg_text(rows, i, RUN_ENVELOPE_KIND), "request") == 0;
        if (!is_request && strcmp(pg_text(rows, i, RUN_ENVELOPE_KIND), "approval") != 0) continue;
        struct run_envelope **place = &whole->envelopes[whole->count];
        TRY(run_envelope_read(bytes_of_text(pg_text(rows, i, RUN_ENVELOPE_TEXT)), is_request ? RUN_REQUEST : RUN_APPROVAL, place,
                              err));
        whole->count++;
        if (is_request) whole->chain.request = *place;
        else whole->chain.approvals[whole->chain.approval_count++] = *place;
    }
    if (whole->chain.request != NULL) return SUCCESS;
    return failure(err, ERROR_CORRUPT, "the run has no request");
}

/* Only persons_of() says whether two principals are different persons. */
static struct result check_persons(const struct request *request, const struct run_chain *chain, struct error *err)
{
    struct decider *decider = request->gateway->decider;
    const struct uuid *organisation = &request->pairs[0].resource.organisation;
    const struct persons approver = decider_persons(decider, request->principal, organisation);
    const struct persons requester = decider_persons_of_key(decider, run_text(chain->request, "requester"), organisation);

    if (!persons_are_known(&approver))
        return failure(err, ERROR_DENIED,
                       "a person must approve a run, and nobody is behind this robot (docs/identity.md, \"Persons\")");
    if (!run_is_approved_by_another(chain->request, &requester, &approver))
        return failure(err, ERROR_DENIED, "another person than the requester must approve");
    for (size_t i = 0; i < chain->approval_count; i++) {
        const struct persons earlier = decider_persons_of_key(decider, run_text(chain->approvals[i], "approver"), organisation);
        if (!persons_are_others(&approver, &earlier))
            return failure(err, ERROR_CONFLICT, "this person has approved the run already");
    }
    return SUCCESS;
}

static struct result check_approval(struct request *request, struct pg *pg, const struct uuid *id,
                                    const struct run_envelope *approval, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    OWNED_SIGNED_RUN whole = {.count = 0};

    TRY(run_envelopes(request->permit, pg, ACTION_RUN_APPROVE, id, &rows, err));
    TRY(read_back(rows, &whole, err));
    TRY(check_persons(request, &whole.chain, err));
    if (whole.chain.approval_count == RUN_APPROVALS_MAX)
        return failure(err, ERROR_CONFLICT, "the run has %d approvals, and needs no more", RUN_APPROVALS_MAX);
    whole.chain.approvals[whole.chain.approval_count++] = approval;
    return run_chain_check(&whole.chain, err);
}

/* The event of the right to approve comes first: only then may the run be read. */
static struct result handle_approve(struct request *request, struct pg *pg, struct error *err)
{
    OWNED(run_envelope) *approval = NULL;
    struct run_signed signature = {.envelope = request->body};
    struct run_approve change;
    struct run run;
    struct uuid id;

    TRY(api_id(request, "run", &id, err));
    TRY(run_body_read(request, RUN_APPROVAL, &approval, err));
    TRY(run_check_life(approval, err));
    TRY(run_check_caller(request, pg, approval, "approver", err));
    TRY(request_record(request, NULL, err));
    TRY(run_find(request->permit, pg, ACTION_RUN_APPROVE, &id, &run, err));
    TRY(check_approval(request, pg, &id, approval, err));
    run_digest_bytes(approval, signature.digest);
    signature.principal = run_text(approval, "approver");
    run_approve_prepare(&request->pairs[0].resource, &run, &signature, &change);
    TRY(request_record(request, &change.change, err));
    return run_answer(request, pg, ACTION_RUN_APPROVE, &id, err);
}

/* ---- cancelling ---- */

static struct result handle_cancel(struct request *request, struct pg *pg, struct error *err)
{
    struct run_end change;
    char principal[PRINCIPAL_KEY_SIZE];
    struct uuid id;

    (void)pg;
    TRY(api_id(request, "run", &id, err));
    run_cancel_prepare(&request->pairs[0].resource, &id, &change);
    principal_key(request->principal, principal);
    (void)snprintf(change.reason, sizeof change.reason, "%s asked for it", principal);
    return api_remove(request, &change.change, err);
}

const struct handler handler_run_list = {.handle = handle_list};
const struct handler handler_run_read = {.handle = handle_read};
const struct handler handler_run_approve = {.handle = handle_approve};
const struct handler handler_run_cancel = {.handle = handle_cancel};
