/* `sijil policy export`: the set in force, with the event that loaded it and the proof, for somebody that can't ask the registry. `sijil admin hold export`: a legal hold likewise. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/format/policy_load.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "client/commands/audit_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/documents.h"
#include "client/commands/policy_priv.h"
#include "crypto/digest.h"
#include "policy/set_export.h"

/* ---- the last event, where the root's key alone signs ---- */

/* The resource of the event: "#sha256:ENVELOPE EPOCH sha256:SET". */
static struct result resource_of(const struct policy_source *found, char resource_out[1 + POLICY_LOAD_DETAIL_SIZE],
                                 struct error *err)
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

struct loading_event {
    const char *resource;
    bool is_found;
    int64_t number;
};

static struct result look(void *context, const json_t *page, bool *is_enough_out, struct error *err)
{
    struct loading_event *wanted = context;
    const json_t *events = json_object_get(page, "events");

    (void)err;
    for (size_t i = 0; i < json_array_size(events) && !wanted->is_found; i++)
        wanted->is_found = loads(json_array_get(events, i), wanted->resource) &&
                           json_integer_of(json_array_get(events, i), "seq", &wanted->number);
    *is_enough_out = wanted->is_found;
    return SUCCESS;
}

/* Newest first: the set in force was loaded lately. */
static struct result find_event(struct session *session, const char *resource, int64_t *number_out, struct error *err)
{
    struct loading_event wanted = {.resource = resource};
    const struct page_walk walk = {"/audit/events?order=descending&limit=100&action=" POLICY_LOAD_ACTION, look, &wanted};

    TRY(api_walk(session, &walk, err));
    if (!wanted.is_found)
        return failure(err, ERROR_NOT_FOUND,
                       "no event of the log loads the set in force: the search of the log may be behind; try again");
    *number_out = wanted.number;
    return SUCCESS;
}

static struct result fetch_bytes(struct session *session, int64_t number, const char *what, struct http_response *response,
                                 struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(128);

    TRY(buffer_format(&path, err, "/api/v1/audit/events/%lld/%s", (long long)number, what));
    const struct http_request request = {.method = "GET", .path = buffer_text(&path), .wanted = 200};
    return session_call(session, ADMIN_SCOPE, &request, response, err);
}

/* ---- the file ---- */

/* Entry and proof of each document; the texts of `json` are views. */
struct gathered {
    size_t count;
    struct set_export_link *links;
    struct http_response *responses; /* two for each */
};

static void gathered_done(struct gathered *gathered)
{
    for (size_t i = 0; i < 2 * gathered->count; i++) http_response_done(&gathered->responses[i]);
    free(gathered->links);
    free(gathered->responses);
}
#define OWNED_GATHERED __attribute__((cleanup(gathered_done))) struct gathered

static struct result begin(struct gathered *gathered, size_t count, struct error *err)
{
    gathered->links = memory_zeroed(count + 1, sizeof *gathered->links);
    gathered->responses = memory_zeroed(2 * count + 1, sizeof *gathered->responses);
    if (gathered->links == NULL || gathered->responses == NULL) return api_no_memory(err);
    gathered->count = count;
    for (size_t i = 0; i < 2 * count; i++) gathered->responses[i] = RESPONSE;
    return SUCCESS;
}

static struct result gather_one(struct session *session, const json_t *json, struct gathered *gathered, size_t at,
                                struct error *err)
{
    const json_t *texts = json_object_get(json, "envelopes");
    struct set_export_link *link = &gathered->links[at];
    struct http_response *entry = &gathered->responses[2 * at], *proof = &gathered->responses[2 * at + 1];

    link->count = json_array_size(texts);
    if (link->count > DOCUMENT_SIGNATURES_MAX)
        return failure(err, ERROR_INVALID, "the registry answered with too many envelopes");
    for (size_t i = 0; i < link->count; i++) {
        const char *text = json_string_value(json_array_get(texts, i));
        link->envelopes[i] = bytes_of_text(text == NULL ? "" : text);
    }
    TRY(fetch_bytes(session, number_of(json, "event"), "entry", entry, err));
    TRY(fetch_bytes(session, number_of(json, "event"), "proof", proof, err));
    link->entry = buffer_bytes(&entry->body);
    link->proof = buffer_bytes(&proof->body);
    return SUCCESS;
}

static struct result gather_all(struct session *session, const json_t *links, struct gathered *gathered, struct error *err)
{
    TRY(begin(gathered, json_array_size(links), err));
    for (size_t i = 0; i < json_array_size(links); i++) TRY(gather_one(session, json_array_get(links, i), gathered, i, err));
    return SUCCESS;
}

/* The set in force is the last one. `documents` NULL: no organisation is asked for. */
static struct result write_whole(struct session *session, const json_t *links, const char *organisation, const json_t *documents,
                                 struct buffer *text, struct error *err)
{
    OWNED_GATHERED gathered = {.count = 0};
    OWNED_GATHERED more = {.count = 0};

    TRY(gather_all(session, links, &gathered, err));
    TRY(gather_all(session, documents, &more, err));
    const struct set_export_link *last = &gathered.links[gathered.count - 1];
    const struct set_export_parts parts = {.envelope = last->envelopes[0],
                                           .entry = last->entry,
                                           .proof = last->proof,
                                           .chain = gathered.links,
                                           .chain_count = gathered.count - 1,
                                           .organisation = documents == NULL ? NULL : organisation,
                                           .documents = more.links,
                                           .document_count = more.count};
    return set_export_write(&parts, text, err);
}

static struct result write_bare(struct session *session, const struct policy_source *found, struct buffer *text,
                                struct error *err)
{
    OWNED_RESPONSE entry = RESPONSE;
    OWNED_RESPONSE proof = RESPONSE;
    char resource[1 + POLICY_LOAD_DETAIL_SIZE];
    int64_t number = 0;

    TRY(resource_of(found, resource, err));
    TRY(find_event(session, resource, &number, err));
    TRY(fetch_bytes(session, number, "entry", &entry, err));
    TRY(fetch_bytes(session, number, "proof", &proof, err));
    const struct set_export_parts parts = {
        .envelope = buffer_bytes(&found->envelope), .entry = buffer_bytes(&entry.body), .proof = buffer_bytes(&proof.body)};
    return set_export_write(&parts, text, err);
}

struct result command_policy_export(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(SET_EXPORT_MAX);
    struct policy_source OWNED_SOURCE found = {.name = NULL};
    OWNED(session) *session = NULL;
    const char *organisation = documents_scope(invocation);
    OWNED_JSON documents = NULL;
    OWNED_JSON links = NULL;
    OWNED_JSON rows = NULL;

    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(policy_source_fetch(session, 0, &found, err));
    if (organisation[0] == '\0' && !policy_set_names_others(found.set)) {
        TRY(write_bare(session, &found, &text, err));
    } else {
        TRY(policy_links_fetch(session, &found, &rows, &links, err));
        if (organisation[0] != '\0') TRY(restriction_links_fetch(session, organisation, links, &documents, err));
        TRY(write_whole(session, links, organisation, documents, &text, err));
    }
    return api_output(invocation, invocation_option(invocation, 'o'), buffer_bytes(&text), err);
}

/* ---- legal holds ---- */

/* The newest version in force, as a link: the registry shows envelopes as JSON, and records them in the canonical form. */
static struct result fetch_hold(struct session *session, const char *name, json_t **link_out, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(1024);
    OWNED_JSON texts = json_array();
    OWNED_JSON answer = NULL;

    if (texts == NULL) return api_no_memory(err);
    TRY(documents_path_of("/holds", name, "", NULL, &path, err));
    TRY(api_call_in(session, "GET", buffer_text(&path), NULL, &answer, err));
    const json_t *envelopes = json_object_get(answer, "envelopes");
    for (size_t i = 0; i < json_array_size(envelopes); i++) {
        struct buffer OWNED_BUFFER text = BUFFER(DOCUMENTS_ENVELOPE_ROOM);
        TRY(json_write_canonical(&text, json_array_get(envelopes, i), err));
        if (json_array_append_new(texts, json_stringn((const char *)text.data, text.length)) != 0) return api_no_memory(err);
    }
    *link_out = json_pack("{s:I, s:O}", "event", (json_int_t)number_of(answer, "event"), "envelopes", texts);
    return *link_out == NULL ? api_no_memory(err) : SUCCESS;
}

struct result command_hold_export(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(SET_EXPORT_MAX);
    struct policy_source OWNED_SOURCE found = {.name = NULL};
    OWNED_GATHERED gathered = {.count = 0};
    OWNED(session) *session = NULL;
    OWNED_JSON links = NULL;
    OWNED_JSON hold = NULL;

    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(fetch_hold(session, invocation->operands[1], &hold, err));
    TRY(policy_source_fetch(session, 0, &found, err));
    TRY(policy_links_until(session, &found, hold, &links, err));
    TRY(gather_all(session, links, &gathered, err));
    TRY(hold_export_write(gathered.links, gathered.count, &text, err));
    return api_output(invocation, invocation_option(invocation, 'o'), buffer_bytes(&text), err);
}
