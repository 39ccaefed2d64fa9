/* `sijil policy export`: the set in force, with the event that loaded it and the proof, for somebody that can't ask the registry. */
#include <stdio.h>
#include <string.h>

#include "audit/format/policy_load.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/audit_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/policy_priv.h"
#include "crypto/digest.h"
#include "policy/set_export.h"

/* The resource of the event: "#sha256:ENVELOPE EPOCH sha256:SET". */
static struct result resource_of(const struct found_set *found, char resource_out[1 + POLICY_LOAD_DETAIL_SIZE], struct error *err)
{
    uint8_t digest[SHA256_SIZE];

    if (!text_from_hex(bytes_of_text(policy_set_digest(found->set) + strlen("sha256:")), digest, sizeof digest))
        return failure(err, ERROR_CORRUPT, "the set has no digest");
    resource_out[0] = '#';
    policy_load_detail(buffer_bytes(&found->envelope), policy_set_epoch(found->set), digest, resource_out + 1);
    return SUCCESS;
}

static bool loads(const json_t *event, const char *resource)
{
    const json_t *entry = json_object_get(event, "entry");
    const char *res = json_text_of(entry, "res"), *outcome = json_text_of(entry, "out");

    return res != NULL && outcome != NULL && strcmp(res, resource) == 0 && strcmp(outcome, POLICY_LOAD_OUTCOME) == 0;
}

/* Newest first: the set in force was loaded lately. */
static struct result find_event(struct session *session, const char *resource, int64_t *number_out, struct error *err)
{
    OWNED_JSON next = NULL;

    do {
        struct buffer OWNED_BUFFER path = BUFFER(1024);
        OWNED_JSON page = NULL;
        TRY(buffer_add_text(&path, "/audit/events?order=descending&limit=100&action=" POLICY_LOAD_ACTION, err));
        TRY(api_add_after(&path, next, err));
        TRY(api_call_in(session, "GET", buffer_text(&path), NULL, &page, err));
        const json_t *events = json_object_get(page, "events");
        for (size_t i = 0; i < json_array_size(events); i++)
            if (loads(json_array_get(events, i), resource) && json_integer_of(json_array_get(events, i), "seq", number_out))
                return SUCCESS;
        json_decref(next);
        next = json_incref(json_object_get(page, "next"));
    } while (next != NULL);
    return failure(err, ERROR_NOT_FOUND,
                   "no event of the log loads the set in force: the search of the log may be behind; try again");
}

static struct result fetch_bytes(struct session *session, int64_t number, const char *what, struct http_response *response,
                                 struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(128);

    TRY(buffer_format(&path, err, "/api/v1/audit/events/%lld/%s", (long long)number, what));
    const struct http_request request = {.method = "GET", .path = buffer_text(&path), .wanted = 200};
    return session_call(session, ADMIN_SCOPE, &request, response, err);
}

struct result command_policy_export(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(SET_EXPORT_MAX);
    OWNED(session) *session = NULL;
    OWNED_FOUND found = {.set = NULL};
    OWNED_RESPONSE entry = RESPONSE;
    OWNED_RESPONSE proof = RESPONSE;
    char resource[1 + POLICY_LOAD_DETAIL_SIZE];
    int64_t number = 0;

    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(policy_set_fetch(session, &found, err));
    TRY(resource_of(&found, resource, err));
    TRY(find_event(session, resource, &number, err));
    TRY(fetch_bytes(session, number, "entry", &entry, err));
    TRY(fetch_bytes(session, number, "proof", &proof, err));
    const struct set_export_parts parts = {buffer_bytes(&found.envelope), buffer_bytes(&entry.body), buffer_bytes(&proof.body)};
    TRY(set_export_write(&parts, &text, err));
    return api_output(invocation, invocation_option(invocation, 'o'), buffer_bytes(&text), err);
}
