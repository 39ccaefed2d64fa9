/* /api/v1/policies/approvers and /restrictions: whose signatures on policy sets and on the restrictions of an organisation count, for a reader that counts them itself (docs/policies.md). */
#include <stdio.h>

#include "base/clock.h"
#include "gateway/api/policy_priv.h"
#include "policy/decider/set_draft.h"

PART(approver_key, "a document of an approver's key", HAS_COUNT("event", REQUIRED, "the number of its event in the log"),
     HAS_TIME("time", REQUIRED, "of that event"),
     HAS_TEXTS("envelopes", REQUIRED, 1, DOCUMENT_SIGNATURES_MAX, NULL,
               "its signatures, each with the document (DSSE), byte for byte"))
SCHEMA(policy_approvers, "the keys of approvers, enrolled and withdrawn; sijil-keyd may have refused one",
       HAS_LIST("keys", REQUIRED, POLICY_APPROVERS_PAGE, schema_approver_key, "in the order of the log"), HAS_NEXT)

PART(restriction_link, "a document of the list", HAS_COUNT("event", REQUIRED, "the number of its event in the log"),
     HAS_TIME("time", REQUIRED, "of that event"),
     HAS_TEXT("recorded_by", OPTIONAL, FORM_FREE, 1, 255, "of a restriction: the principal that sent the last signature"),
     HAS_TEXTS("envelopes", REQUIRED, 1, DOCUMENT_SIGNATURES_MAX, NULL,
               "its signatures, each with the document (DSSE), byte for byte"))
SCHEMA(
    policy_restrictions, "what tells who has signed the restrictions of an organisation; sijil-keyd may have refused one",
    HAS_LIST(
        "documents", REQUIRED, POLICY_APPROVERS_PAGE, schema_restriction_link,
        "of its security officers, the keys that these name, keys of approvers, and the restrictions; in the order of the log"),
    HAS_NEXT)

static struct result no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for the keys of approvers");
}

static struct result describe(const struct policy_approver_key *key, json_t *list, struct error *err)
{
    OWNED_JSON envelopes = json_array();
    char time[CLOCK_TEXT_SIZE];

    clock_format(key->time_ms, time);
    for (size_t i = 0; i < key->envelope_count; i++) {
        const struct bytes text = key->envelopes[i];
        if (json_array_append_new(envelopes, json_stringn((const char *)text.data, text.length)) != 0) return no_memory(err);
    }
    json_t *value = json_pack("{s:I, s:s, s:s*, s:O}", "event", (json_int_t)key->sequence, "time", time, "recorded_by",
                              key->recorder, "envelopes", envelopes);
    return json_array_append_new(list, value) == 0 ? SUCCESS : no_memory(err);
}

typedef struct result read_keys(const struct permit *permit, struct pg *pg, uint64_t first, struct policy_approver_keys *keys,
                                struct error *err);

static struct result answer(struct request *request, struct pg *pg, const char *name, read_keys *read, struct error *err)
{
    OWNED_APPROVER_KEYS keys = {.rows = NULL};
    OWNED_JSON list = json_array();
    char next[API_CURSOR_SIZE] = "";
    struct api_page page;
    int64_t first = 0;

    if (!api_page(request, &page)) return SUCCESS;
    TRY(api_after_number(&page, &first, err));
    keys.most = page.limit < POLICY_APPROVERS_PAGE ? page.limit : POLICY_APPROVERS_PAGE;
    TRY(read(request->permit, pg, (uint64_t)first, &keys, err));
    for (size_t i = 0; i < keys.count; i++) TRY(describe(&keys.each[i], list, err));
    if (keys.next != 0) {
        (void)snprintf(next, sizeof next, "%llu", (unsigned long long)keys.next);
        TRY(api_link_next(request, next, err));
    }
    OWNED_JSON value = json_pack("{s:O, s:s*}", name, list, "next", next[0] == '\0' ? NULL : next);
    if (value == NULL) return no_memory(err);
    response_json(request, 200, value);
    return SUCCESS;
}

static struct result handle_approvers(struct request *request, struct pg *pg, struct error *err)
{
    return answer(request, pg, "keys", policy_approver_keys_read, err);
}

static struct result handle_restrictions(struct request *request, struct pg *pg, struct error *err)
{
    return answer(request, pg, "documents", restriction_documents_read, err);
}

const struct handler handler_policy_approvers = {.handle = handle_approvers};
const struct handler handler_policy_restrictions = {.handle = handle_restrictions};
