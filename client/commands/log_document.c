/* Documents of the registry, from files to being in force (docs/delivery.md, docs/detection.md, docs/identity.md). The key signs on this machine; only the signed document is sent. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/log_document_priv.h"
#include "client/local.h"

#define PATH_ROOM    1024
#define FILE_ROOM    (4 * DOCUMENTS_ENVELOPE_ROOM)
#define PAYLOAD_ROOM ((size_t)16 * 1024)
#define LIFE_MS      ((int64_t)365 * 86400000)

static struct result print_one(const struct invocation *invocation, const json_t *answer, struct error *err)
{
    const json_t *document = json_object_get(answer, "document"), *delivery = json_object_get(answer, "delivery"),
                 *provisioned = json_object_get(answer, "provisioned");
    OWNED_JSON shown =
        json_pack("{s:O?, s:O?, s:O?, s:O?}", "name", json_object_get(answer, "name"), "state", json_object_get(answer, "state"),
                  "version", json_object_get(document, "version"), "expires", json_object_get(document, "expires"));

    if (shown == NULL || json_object_update(shown, json_object_get(document, "body")) != 0) return api_no_memory(err);
    if (delivery != NULL && json_object_update(shown, (json_t *)(uintptr_t)delivery) != 0) return api_no_memory(err);
    if (provisioned != NULL && json_object_update(shown, (json_t *)(uintptr_t)provisioned) != 0) return api_no_memory(err);
    return api_print(invocation, shown, err);
}

static struct result post(struct invocation *invocation, struct session *session, const char *path, const json_t *body,
                          struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(api_call_in(session, "POST", path, body, &answer, err));
    return print_one(invocation, answer, err);
}

struct result log_document_path(const struct log_document_place *kind, const char *name, const char *tail, struct buffer *path,
                                struct error *err)
{
    return documents_path_of(kind->list.base, name, tail, NULL, path, err);
}

/* ---- drafting ---- */

static struct result read_file(const struct log_document_place *kind, const char *path, struct log_document *document_out,
                               struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(FILE_ROOM);

    TRY(local(file_read(path, &text, err), path, err));
    return local(log_document_parse(kind->of, buffer_bytes(&text), document_out, err), path, err);
}

struct result log_document_draft(struct invocation *invocation, const struct log_document_place *kind, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(PAYLOAD_ROOM);
    OWNED_LOG_DOCUMENT document = {.name = NULL};
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON envelope = NULL;
    int64_t version = 0;

    TRY(read_file(kind, invocation->operands[1], &document, err));
    TRY(log_document_compose(kind->of, &document, 1, &payload, err)); /* says what is wrong before it asks for anything */
    buffer_clear(&payload);
    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_newest_version(session, &kind->list, document.name, NULL, &version, err));
    TRY(log_document_compose(kind->of, &document, (uint64_t)version + 1, &payload, err));
    TRY(documents_sign(kind->of->kind, buffer_bytes(&payload), key, &envelope, err));
    return post(invocation, session, kind->list.base, envelope, err);
}

/* ---- approving ---- */

/* Reads the document from the bytes that the first approver has signed. The registry's description of it is not trusted. */
static struct result read_draft(const struct invocation *invocation, const struct log_document_place *kind,
                                const json_t *envelopes, struct document **document_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(DOCUMENTS_ENVELOPE_ROOM);
    OWNED(document) *document = NULL;

    TRY(json_write_canonical(&text, json_array_get(envelopes, 0), err));
    TRY(document_read(&(struct bytes){text.data, text.length}, 1, &document, err));
    if (document->kind != kind->of->kind || document->is_withdrawn || strcmp(document->name, invocation->operands[1]) != 0)
        return failure(err, ERROR_CORRUPT, "the registry answered with the draft of another %s", kind->of->what);
    TRY(document_check_body(document, err));
    *document_out = GIVE(document);
    return SUCCESS;
}

/* `found`: the row of the registry, which may say whose hash the document has; the hash is computed here again. */
static struct result show_document(const struct log_document_place *kind, const struct document *document, const json_t *found,
                                   struct error *err)
{
    const json_t *body = json_object_get(document->json, "body"),
                 *holder = verified_holder(found, json_text_of(body, "principal"));
    const char *name;
    json_t *value;

    (void)fprintf(stderr, "You sign: version %llu of the %s %s\n", (unsigned long long)document->version, kind->of->what,
                  document->name);
    TRY(documents_show_member("expires", json_object_get(document->json, "expires"), err));
    json_object_foreach ((json_t *)(uintptr_t)body, name, value) TRY(documents_show_member(name, value, err));
    if (holder == NULL) return SUCCESS;
    TRY(documents_show_member("subject", json_object_get(holder, "subject"),
                              err)); /* nothing else that the registry says there */
    return documents_show_member("issuer", json_object_get(holder, "issuer"), err);
}

static struct result sign_too(struct invocation *invocation, struct session *session, const struct log_document_place *kind,
                              const json_t *found, const struct ecdsa_key *key, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED(document) *document = NULL;
    OWNED_JSON body = NULL;

    TRY(read_draft(invocation, kind, json_object_get(found, "envelopes"), &document, err));
    TRY(show_document(kind, document, found, err));
    TRY(documents_sign_too(found, document, key, &body, err));
    TRY(log_document_path(kind, document->name, "/approval", &path, err));
    return post(invocation, session, buffer_text(&path), body, err);
}

struct result log_document_approve(struct invocation *invocation, const struct log_document_place *kind, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON found = NULL;

    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_choose(invocation, session, &kind->list, true, &found, err));
    return sign_too(invocation, session, kind, found, key, err);
}

/* ---- withdrawing ---- */

static struct result compose_end(const struct log_document_place *kind, const char *name, int64_t version, const char *reason,
                                 struct buffer *payload, struct error *err)
{
    OWNED_JSON nothing = json_object();
    const struct document_parts parts = {.kind = kind->of->kind,
                                         .scope = "",
                                         .name = name,
                                         .version = (uint64_t)version + 1,
                                         .effective_ms = clock_wall_ms(),
                                         .expires_ms = clock_wall_ms() + LIFE_MS,
                                         .withdrawn = reason,
                                         .body = nothing};

    if (version == 0) return failure(err, ERROR_NOT_FOUND, "there is no %s %.63s", kind->of->what, name);
    return document_compose(&parts, payload, err);
}

struct result log_document_revoke(struct invocation *invocation, const struct log_document_place *kind, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(PAYLOAD_ROOM), path = BUFFER(PATH_ROOM);
    const char *name = invocation->operands[1], *reason = invocation_option(invocation, 'r');
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON envelope = NULL;
    int64_t version = 0;

    if (reason == NULL) return line_check(invocation, failure(err, ERROR_INVALID, "--reason is needed: why it no longer counts"));
    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_newest_version(session, &kind->list, name, NULL, &version, err));
    TRY(compose_end(kind, name, version, reason, &payload, err));
    TRY(documents_sign(kind->of->kind, buffer_bytes(&payload), key, &envelope, err));
    TRY(log_document_path(kind, name, "/withdrawal", &path, err));
    return post(invocation, session, buffer_text(&path), envelope, err);
}

struct result log_document_show(struct invocation *invocation, const struct log_document_place *kind, struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(documents_find(invocation, &kind->list, &answer, err));
    return invocation->json ? api_print_json(answer, err) : print_one(invocation, answer, err);
}
