/* /api/v1/policies/approvers: whose signatures on policy sets count, for a reader that counts them itself (docs/policies.md). */
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
    json_t *value = json_pack("{s:I, s:s, s:O}", "event", (json_int_t)key->sequence, "time", time, "envelopes", envelopes);
    return json_array_append_new(list, value) == 0 ? SUCCESS : no_memory(err);
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    OWNED_APPROVER_KEYS keys = {.rows = NULL};
    OWNED_JSON list = json_array();
    char next[API_CURSOR_SIZE] = "";
    struct api_page page;
    int64_t first = 0;

    if (!api_page(request, &page)) return SUCCESS;
    TRY(api_after_number(&page, &first, err));
    keys.most = page.limit < POLICY_APPROVERS_PAGE ? page.limit : POLICY_APPROVERS_PAGE;
    TRY(policy_approver_keys_read(request->permit, pg, (uint64_t)first, &keys, err));
    for (size_t i = 0; i < keys.count; i++) TRY(describe(&keys.each[i], list, err));
    if (keys.next != 0) {
        (void)snprintf(next, sizeof next, "%llu", (unsigned long long)keys.next);
        TRY(api_link_next(request, next, err));
    }
    OWNED_JSON value = json_pack("{s:O, s:s*}", "keys", list, "next", next[0] == '\0' ? NULL : next);
    if (value == NULL) return no_memory(err);
    response_json(request, 200, value);
    return SUCCESS;
}

const struct handler handler_policy_approvers = {.handle = handle};
