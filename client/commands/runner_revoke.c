/* `sijil runner revoke`: withdraws a runner for good (docs/runner.md). */
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/documents.h"
#include "documents/format/runner_key.h"

#define PATH_ROOM    1024
#define PAYLOAD_ROOM ((size_t)16 * 1024)

/* What the line says. */
struct wanted {
    const char *reason;
    int64_t now_ms, since_ms;
};

static struct result read_wanted(const struct invocation *invocation, struct wanted *wanted, struct error *err)
{
    const char *since = invocation_option(invocation, 'S');

    wanted->reason = invocation_option(invocation, 'r');
    wanted->now_ms = wanted->since_ms = clock_wall_ms();
    if (wanted->reason == NULL) return failure(err, ERROR_INVALID, "--reason is needed: why the runner no longer counts");
    if (since != NULL && !clock_parse(bytes_of_text(since), &wanted->since_ms))
        return failure(err, ERROR_INVALID, "--since %.40s: a time such as 2026-11-26T09:00:00Z", since);
    if (wanted->since_ms <= wanted->now_ms) return SUCCESS;
    return failure(err, ERROR_INVALID, "--since %.40s: it lies in the future", since);
}

/* The enrolment, or an earlier withdrawal, from the envelopes that brought it into force: the body must be repeated as it was signed. */
static struct result read_enrolment(const json_t *answer, const char *name, struct document **document_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(DOCUMENTS_ENVELOPE_ROOM);
    OWNED(document) *document = NULL;

    TRY(json_write_canonical(&text, json_array_get(json_object_get(answer, "envelopes"), 0), err));
    TRY(document_read(&(struct bytes){text.data, text.length}, 1, &document, err));
    if (document->kind != DOCUMENT_RUNNER || strcmp(document->name, name) != 0)
        return failure(err, ERROR_CORRUPT, "the registry answered with another runner");
    *document_out = GIVE(document);
    return SUCCESS;
}

/* A second withdrawal says that the results of an earlier time do not count either. */
static struct result check_earlier(const struct document *known, const struct wanted *wanted, struct error *err)
{
    struct runner_key key;
    char since[CLOCK_TEXT_SIZE];

    if (!known->is_withdrawn) return SUCCESS;
    TRY(runner_key_read(known, &key, err));
    if (wanted->since_ms < key.since_ms) return SUCCESS;
    clock_format(key.since_ms, since);
    return failure(err, ERROR_CONFLICT, "this runner was withdrawn already, since %s: only an earlier --since changes that",
                   since);
}

static struct result compose(const struct document *enrolment, const struct wanted *wanted, struct buffer *payload,
                             struct error *err)
{
    char since[CLOCK_TEXT_SIZE];
    OWNED_JSON body = json_deep_copy(json_object_get(enrolment->json, "body"));

    clock_format(wanted->since_ms, since);
    if (body == NULL || json_object_set_new(body, "since", json_string(since)) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for a withdrawal");
    const struct document_parts parts = {.kind = DOCUMENT_RUNNER,
                                         .scope = enrolment->scope,
                                         .name = enrolment->name,
                                         .version = 2,
                                         .effective_ms = wanted->now_ms,
                                         .expires_ms = enrolment->expires_ms,
                                         .withdrawn = wanted->reason,
                                         .body = body};
    return document_compose(&parts, payload, err);
}

static struct result revoke(struct invocation *invocation, struct session *session, const struct wanted *wanted,
                            const struct ecdsa_key *key, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM), target = BUFFER(PATH_ROOM), payload = BUFFER(PAYLOAD_ROOM);
    OWNED(document) *enrolment = NULL;
    OWNED_JSON known = NULL;
    OWNED_JSON envelope = NULL;
    OWNED_JSON answer = NULL;

    TRY(documents_path(invocation, "/runners", "", &path, err));
    TRY(api_call_in(session, "GET", buffer_text(&path), NULL, &known, err));
    TRY(read_enrolment(known, invocation->operands[1], &enrolment, err));
    TRY(check_earlier(enrolment, wanted, err));
    TRY(compose(enrolment, wanted, &payload, err));
    TRY(documents_sign(DOCUMENT_RUNNER, buffer_bytes(&payload), key, &envelope, err));
    TRY(buffer_format(&target, err, "/runners/%s/withdrawal", enrolment->name));
    TRY(api_call_in(session, "POST", buffer_text(&target), envelope, &answer, err));
    return runner_print(invocation, answer, err);
}

struct result command_runner_revoke(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    struct wanted wanted;

    TRY(line_check(invocation, read_wanted(invocation, &wanted, err)));
    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    return revoke(invocation, session, &wanted, key, err);
}
