/* /api/v1/policies: docs/api.md, docs/policies.md. */
#include <stdio.h>
#include <string.h>

#include "authz/role.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/dsse.h"
#include "gateway/api/document_priv.h"
#include "gateway/api/policy_priv.h"
#include "policy/decider/decider.h"
#include "policy/decider/set_draft.h"
#include "policy/decider/set_load.h"

#define DESCRIPTION_MAX (64 * 1024) /* 64 policies at some 300 bytes */

PART(policy, "a policy of the set", HAS_TEXT("id", REQUIRED, FORM_FREE, 1, 64, "its name"),
     HAS_COUNT("version", REQUIRED, "its version"),
     HAS_TEXT("digest", REQUIRED, FORM_DIGEST, 71, 71, "the digest of its document"),
     HAS_TEXT("review_by", REQUIRED, FORM_FREE, 0, 10, "the day by which it must be reviewed"))

PART(signers, "how many persons must sign", HAS_COUNT("policies", REQUIRED, "a set of policies"),
     HAS_COUNT("root", REQUIRED, "a change of these numbers"), HAS_COUNT("officers", REQUIRED, "the key of an approver"),
     HAS_FLAG("one_person", REQUIRED, "the root's key alone does all of that"))

SCHEMA(policy_set, "a set of policies", HAS_COUNT("epoch", REQUIRED, "its number; each set has a larger one than the set before"),
       HAS_TEXT("digest", REQUIRED, FORM_DIGEST, 71, 71, "the digest of its document"),
       HAS_LIST("policies", REQUIRED, 0, schema_policy, "its policies"),
       HAS_ANY("set", OPTIONAL, "the whole document as it was signed, an object; left out in the answer that loads a set"),
       HAS_TEXT("envelope", OPTIONAL, FORM_FREE, 1, 0,
                "with `envelope=true`: the signed document (DSSE), byte for byte as it was loaded"),
       HAS_OBJECT("signers", OPTIONAL, schema_signers, "how many persons must sign; of the set in force"))

PART(signature, "a signature", HAS_TEXT("sig", REQUIRED, FORM_BASE64, 4, 0, "standard base64, with padding"),
     HAS_TEXT("keyid", OPTIONAL, FORM_FREE, 0, 127,
              "which key made it; of a document, a request or an approval its RFC 7638 thumbprint"))
SCHEMA_WITH(SCHEMA_IS_READ_ELSEWHERE, envelope, "a signed document (DSSE)",
            HAS_TEXT("payloadType", REQUIRED, FORM_FREE, 1, 0, "what the payload is"),
            HAS_TEXT("payload", REQUIRED, FORM_BASE64, 4, 0, "the document in standard base64, with padding"),
            HAS_LIST("signatures", REQUIRED, 0, schema_signature, "of its signers"))

struct result target_policy_read(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    (void)api_pair(request, ACTION_POLICY_READ, RESOURCE_SYSTEM, "");
    return SUCCESS;
}

/* The event names the digest of the envelope, unless the request was denied before the body arrived. The content is read after
 * the decision. */
struct result target_policy_load(struct request *request, struct lookup *lookup, struct error *err)
{
    struct resource *resource = api_pair(request, ACTION_POLICY_LOAD, RESOURCE_SYSTEM, "");
    char text[DIGEST_TEXT_SIZE];

    (void)lookup;
    (void)err;
    if (request->body.length == 0) return SUCCESS;
    const struct digest digest = digest_of(DIGEST_SHA256, request->body);
    digest_format(&digest, text);
    (void)snprintf(resource->detail, sizeof resource->detail, "%s", text);
    return SUCCESS;
}

static struct result answer(struct request *request, unsigned status, const struct buffer *json, struct error *err)
{
    const char *copy = arena_copy_text(request->arena, buffer_bytes(json));

    if (copy == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    response_bytes(request, status, "application/json", bytes_of_text(copy));
    return SUCCESS;
}

static struct result add_envelope(struct buffer *json, struct bytes envelope, struct error *err)
{
    TRY(buffer_add_text(json, ",\"envelope\":", err));
    return json_write_string(json, envelope, err);
}

/* One that was loaded before. Whoever signs it again compares it with the one in force. */
static struct result answer_past(struct request *request, struct pg *pg, const char *epoch_text, bool has_envelope,
                                 struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    struct buffer OWNED_BUFFER json = BUFFER(DESCRIPTION_MAX + POLICY_SET_BYTES_MAX + 2 * POLICY_SET_ENVELOPE_MAX);
    OWNED(policy_set) *set = NULL;
    OWNED(dsse) *dsse = NULL;
    uint64_t epoch = 0;

    if (!text_to_u64(bytes_of_text(epoch_text), INT64_MAX, &epoch)) return failure(err, ERROR_INVALID, "epoch: a whole number");
    TRY(policy_set_of_epoch(request->permit, pg, epoch, &envelope, err));
    TRY(dsse_read(buffer_bytes(&envelope), POLICY_SET_ENVELOPE_MAX, &dsse, err));
    TRY(policy_set_compile(buffer_bytes(&dsse->payload), &set, err));
    TRY(policy_set_describe(set, &json, err));
    json.length--; /* removes the last brace, to add one more member */
    TRY(buffer_add_text(&json, ",\"set\":", err));
    TRY(policy_set_write(set, &json, err));
    if (has_envelope) TRY(add_envelope(&json, buffer_bytes(&envelope), err));
    TRY(buffer_add_text(&json, "}", err));
    return answer(request, 200, &json, err);
}

static struct result add_signers(const struct request *request, struct buffer *json, struct error *err)
{
    struct root_terms terms;

    TRY(keyd_root_terms(request->gateway->keyd, &terms, err));
    if (terms.root == 0) terms = (struct root_terms){.policies = 1, .root = 1, .officers = 1};
    return buffer_format(json, err, ",\"signers\":{\"officers\":%u,\"one_person\":%s,\"policies\":%u,\"root\":%u}",
                         terms.officers, terms.root == 1 ? "true" : "false", terms.policies, terms.root);
}

static struct result answer_present(struct request *request, bool has_envelope, struct error *err)
{
    struct buffer OWNED_BUFFER json = BUFFER(DESCRIPTION_MAX + POLICY_SET_BYTES_MAX + 2 * POLICY_SET_ENVELOPE_MAX);
    OWNED(policy_set) *set = decider_policy_set(request->gateway->decider);

    if (set == NULL) return failure(err, ERROR_NOT_FOUND, "no policy set is loaded yet");
    TRY(policy_set_describe(set, &json, err));
    json.length--; /* removes the last brace, to add more members */
    TRY(add_signers(request, &json, err));
    TRY(buffer_add_text(&json, ",\"set\":", err));
    TRY(policy_set_write(set, &json, err));
    if (has_envelope) TRY(add_envelope(&json, policy_set_envelope(set), err));
    TRY(buffer_add_text(&json, "}", err));
    return answer(request, 200, &json, err);
}

static struct result handle_policy_read(struct request *request, struct pg *pg, struct error *err)
{
    const char *with_envelope = request_argument(request, "envelope"), *epoch = request_argument(request, "epoch");

    if (with_envelope != NULL && strcmp(with_envelope, "true") != 0)
        return failure(err, ERROR_INVALID, "envelope is true, or left out");
    return epoch == NULL ? answer_present(request, with_envelope != NULL, err)
                         : answer_past(request, pg, epoch, with_envelope != NULL, err);
}

/* 202: the set is recorded, but keyd could not pin it yet. Until keyd does, this gateway makes no decisions. */
static unsigned put_in_force(struct request *request, const struct policy_set *set)
{
    struct error err = {0};

    if (decider_refresh(request->gateway->decider, &err).ok) {
        OWNED(policy_set) *now = decider_policy_set(request->gateway->decider);
        if (now != NULL && policy_set_epoch(now) >= policy_set_epoch(set)) return 201;
        (void)failure(&err, ERROR_UNAVAILABLE, "an earlier set is still in force");
    }
    log_error("a policy set is recorded, but not in force yet", &err);
    return 202;
}

struct result policy_load_set(struct request *request, const struct policy_loading *loading, unsigned *status_out,
                              struct error *err)
{
    OWNED(policy_set) *before = decider_policy_set(request->gateway->decider);
    struct action_pair pair = request->pairs[0];
    struct policy_set_change change;
    char loader[PRINCIPAL_KEY_SIZE];

    principal_key(request->principal, loader);
    policy_set_load_change(&change, loading->envelope, loading->set, before, loader);
    change.draft = loading->draft;
    pair.action = ACTION_POLICY_LOAD;
    if (loading->is_other_pair) TRY(request_record_instead(request, &pair, 1, &change.change, err));
    else TRY(request_record(request, &change.change, err));
    *status_out = put_in_force(request, loading->set);
    return SUCCESS;
}

static struct result handle_policy_load(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER json = BUFFER(DESCRIPTION_MAX);
    OWNED(policy_set) *base = decider_policy_set(request->gateway->decider);
    OWNED(policy_set) *set = NULL;
    unsigned status = 0;

    (void)pg;
    TRY(policy_set_check(request->gateway->keyd, base, request->body, &set, err));
    TRY(policy_load_set(request, &(struct policy_loading){.envelope = request->body, .set = set}, &status, err));
    TRY(policy_set_describe(set, &json, err));
    return answer(request, status, &json, err);
}

/* ---- what was loaded before ---- */

PART(past_set, "a set that was loaded", HAS_COUNT("epoch", REQUIRED, "its number"),
     HAS_TEXT("digest", REQUIRED, FORM_DIGEST, 71, 71, "its digest"),
     HAS_COUNT("event", REQUIRED, "the number of its event in the log"), HAS_TIME("loaded", REQUIRED, "when"),
     HAS_TEXT("loaded_by", REQUIRED, FORM_FREE, 1, 255, "the principal whose request brought it"),
     HAS_TEXT("comment", OPTIONAL, FORM_FREE, 1, 256, "what its signers said it is for"),
     HAS_FLAG("in_force", REQUIRED, "whether it is the one in force"))
SCHEMA(policy_history, "sets of policies that were loaded; sijil-keyd may have refused one",
       HAS_LIST("sets", REQUIRED, POLICY_HISTORY_PAGE, schema_past_set, "the oldest first"), HAS_NEXT)

struct result target_policy_history(struct request *request, struct lookup *lookup, struct error *err)
{
    return target_policy_read(request, lookup, err);
}

static struct result describe_past(struct request *request, const void *rows, size_t index, json_t **row_out, struct error *err)
{
    const struct policy_past_set *past = (const struct policy_past_set *)rows + index;
    OWNED(policy_set) *set = decider_policy_set(request->gateway->decider);
    OWNED_JSON value = json_pack("{s:I, s:s, s:I, s:s, s:s*, s:b}", "epoch", (json_int_t)past->epoch, "digest", past->digest,
                                 "event", (json_int_t)past->sequence, "loaded_by", past->loaded_by, "comment",
                                 past->comment[0] == '\0' ? NULL : past->comment, "in_force",
                                 set != NULL && strcmp(policy_set_digest(set), past->digest) == 0 ? 1 : 0);

    if (value == NULL || !api_set_time(value, "loaded", past->loaded_ms))
        return failure(err, ERROR_NO_MEMORY, "no memory for the history of policy sets");
    *row_out = GIVE(value);
    return SUCCESS;
}

static void cursor_of_past(const void *rows, size_t index, char next_out[API_CURSOR_SIZE])
{
    (void)snprintf(next_out, API_CURSOR_SIZE, "%lld", (long long)((const struct policy_past_set *)rows)[index].sequence);
}

static struct result handle_policy_history(struct request *request, struct pg *pg, struct error *err)
{
    struct policy_history history = {.count = 0};
    struct api_page page;
    int64_t after = -1;

    if (!api_page(request, &page)) return SUCCESS;
    TRY(api_after_number(&page, &after, err));
    const size_t limit = page.limit < POLICY_HISTORY_PAGE ? page.limit : POLICY_HISTORY_PAGE;
    history.most = limit + 1;
    TRY(policy_history_read(request->permit, pg, (uint64_t)(after + 1), &history, err));
    const bool has_more = history.count > limit;
    const struct api_list list = {"sets",   history.each,  has_more ? limit : history.count,
                                  has_more, describe_past, cursor_of_past};
    return api_answer_list(request, &list, err);
}

const struct handler handler_policy_history = {.handle = handle_policy_history};
const struct handler handler_policy_read = {.handle = handle_policy_read};
const struct handler handler_policy_load = {.handle = handle_policy_load};
