/* `sijil key ...`: signing keys of people (docs/documents.md). The key signs on this machine; only the signed document is
 * sent. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/documents.h"
#include "crypto/digest.h"
#include "crypto/dsse.h"
#include "documents/format/signing_key.h"

#define COUNT(array)  (sizeof(array) / sizeof((array)[0]))
#define DAY_MS        INT64_C(86400000)
#define DAYS_DEFAULT  365
#define PATH_ROOM     1024
#define ENVELOPE_ROOM DOCUMENT_ENVELOPE_MAX((size_t)8 * 1024)

static const struct documents_list keys = {"/keys/signing", "keys", "key", false};

/* ---- the document ---- */

struct wanted_document {
    struct signing_key key;
    const char *scope, *withdrawn; /* withdrawn NULL: version 1 */
    int64_t effective_ms, expires_ms;
};

static struct result compose(const struct wanted_document *wanted, struct buffer *payload, struct error *err)
{
    char name[ECDSA_THUMBPRINT_SIZE];
    OWNED_JSON body = signing_key_body(&wanted->key);

    if (body == NULL) return api_no_memory(err);
    signing_key_name(&wanted->key, name);
    const struct document_parts parts = {.kind = DOCUMENT_SIGNING_KEY,
                                         .scope = wanted->scope,
                                         .name = name,
                                         .version = wanted->withdrawn == NULL ? 1 : 2,
                                         .effective_ms = wanted->effective_ms,
                                         .expires_ms = wanted->expires_ms,
                                         .withdrawn = wanted->withdrawn,
                                         .body = body};
    return document_compose(&parts, payload, err);
}

static struct result print_key(const struct invocation *invocation, const json_t *answer, struct error *err)
{
    const json_t *document = json_object_get(answer, "document"), *body = json_object_get(document, "body"),
                 *holder = verified_holder(answer, json_text_of(body, "principal"));
    OWNED_JSON shown =
        json_pack("{s:O?, s:O?, s:O*, s:O?, s:O?, s:O*, s:O*, s:O?, s:O?}", "name", json_object_get(answer, "name"), "state",
                  json_object_get(answer, "state"), "waits_until", json_object_get(answer, "waits_until"), "scope",
                  json_object_get(document, "scope"), "principal", json_object_get(body, "principal"), "subject",
                  json_object_get(holder, "subject"), "issuer", json_object_get(holder, "issuer"), "purpose",
                  json_object_get(body, "purpose"), "expires", json_object_get(document, "expires"));

    if (shown == NULL) return api_no_memory(err);
    return api_print(invocation, shown, err);
}

/* On standard error, as what is signed. */
static void tell_wait(const json_t *answer)
{
    char until[CELL_MAX];

    if (json_object_get(answer, "waits_until") == NULL) return;
    cell_text(json_object_get(answer, "waits_until"), until);
    (void)fprintf(stderr,
                  "Not in force yet: its holder has a key already, so the new one waits until %s.\n"
                  "Approve it again then, with the same command, within a week of its enrolment.\n",
                  until);
}

static struct result send(struct invocation *invocation, struct session *session, const char *path, const json_t *body,
                          struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(api_call_in(session, "POST", path, body, &answer, err));
    tell_wait(answer);
    return print_key(invocation, answer, err);
}

/* ---- enrolling ---- */

static struct result read_wanted(struct invocation *invocation, struct wanted_document *wanted, struct error *err)
{
    const char *purpose = invocation_option(invocation, 'p'), *days_text = invocation_option(invocation, 'e');
    uint64_t days = DAYS_DEFAULT;

    wanted->key.purpose = SIGNING_SIGN;
    wanted->scope = documents_scope(invocation);
    if (purpose != NULL && !signing_purpose_find(purpose, &wanted->key.purpose))
        return failure(err, ERROR_INVALID, "--purpose %.30s: sign or approve", purpose);
    if (days_text != NULL && (!text_to_u64(bytes_of_text(days_text), SIGNING_KEY_DAYS_MAX, &days) || days == 0))
        return failure(err, ERROR_INVALID, "--expires %.30s: a number of days from 1 to %d", days_text, SIGNING_KEY_DAYS_MAX);
    wanted->effective_ms = clock_wall_ms();
    wanted->expires_ms = wanted->effective_ms + (int64_t)days * DAY_MS;
    return SUCCESS;
}

/* The new key, and the one that it replaces if that is there. */
static struct result sign_enrolment(struct bytes payload, const struct ecdsa_key *key, const struct ecdsa_key *old,
                                    json_t **envelope_out, struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(ENVELOPE_ROOM);
    const struct ecdsa_key *const signers[] = {key, old};

    TRY(dsse_write(document_kind(DOCUMENT_SIGNING_KEY)->type, payload, signers, old == NULL ? 1 : 2, &envelope, err));
    return json_read(buffer_bytes(&envelope), ENVELOPE_ROOM, envelope_out, err);
}

struct result command_key_enroll(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER((size_t)8 * 1024);
    struct wanted_document wanted = {0};
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED(ecdsa_key) *old = NULL;
    OWNED_JSON envelope = NULL;

    TRY(line_check(invocation, read_wanted(invocation, &wanted, err)));
    TRY(command_signer(invocation, &key, err));
    TRY(command_other_signer(invocation, 'O', &old, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(command_principal(session, wanted.key.principal, err));
    ecdsa_key_public(key, wanted.key.point);
    if (old != NULL) ecdsa_key_public(old, wanted.key.replaces);
    TRY(compose(&wanted, &payload, err));
    TRY(sign_enrolment(buffer_bytes(&payload), key, old, &envelope, err));
    return send(invocation, session, "/keys/signing", envelope, err);
}

/* ---- approving ---- */

/* Reads the document from the bytes that the key's holder has signed. The registry's description of it is not trusted. */
static struct result read_draft(const struct invocation *invocation, const json_t *envelope, struct document **document_out,
                                struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(ENVELOPE_ROOM);
    OWNED(document) *document = NULL;
    struct signing_key key;

    TRY(json_write_canonical(&text, envelope, err));
    TRY(document_read(&(struct bytes){text.data, text.length}, 1, &document, err));
    TRY(signing_key_check_holder(document, clock_wall_ms(), &key, err));
    if (strcmp(document->name, invocation->operands[1]) != 0 || strcmp(document->scope, documents_scope(invocation)) != 0)
        return failure(err, ERROR_CORRUPT, "the registry answered with the draft of another key");
    *document_out = GIVE(document);
    return SUCCESS;
}

/* On standard error, because the answer goes to standard output. */
static void show_document(const struct document *document, const json_t *holder)
{
    const json_t *body = json_object_get(document->json, "body");
    const char *expires = json_text_of(document->json, "expires");
    char subject[CELL_MAX], issuer[CELL_MAX];

    cell_text(json_object_get(holder, "subject"), subject);
    cell_text(json_object_get(holder, "issuer"), issuer);
    (void)fprintf(stderr, "You sign: the key %s\n  purpose    %s\n  principal  %s\n", document->name,
                  json_text_of(body, "purpose"), json_text_of(body, "principal"));
    if (json_is_object(holder)) (void)fprintf(stderr, "  subject    %s\n  issuer     %s\n", subject, issuer);
    (void)fprintf(stderr, "  scope      %s\n  expires    %s\n", document->scope[0] == '\0' ? "the registry" : document->scope,
                  expires == NULL ? "never" : expires);
}

static struct result approve(struct invocation *invocation, struct session *session, const json_t *draft,
                             const struct ecdsa_key *key, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED(document) *document = NULL;
    OWNED_JSON approval = NULL;
    json_t *envelope = json_object_get(draft, "envelope");
    struct signing_key signed_key;

    TRY(read_draft(invocation, envelope, &document, err));
    TRY(signing_key_read(document, &signed_key, err));
    show_document(document, verified_holder(draft, signed_key.principal));
    TRY(documents_sign(DOCUMENT_SIGNING_KEY, document_payload(document), key, &approval, err));
    OWNED_JSON envelopes = json_copy(json_object_get(draft, "envelopes")); /* others may have signed already */
    OWNED_JSON body = NULL;
    if (json_array_size(envelopes) < 2) body = json_pack("{s:[O, O]}", "envelopes", envelope, approval);
    else if (json_array_append(envelopes, approval) == 0) body = json_pack("{s:O}", "envelopes", envelopes);
    if (body == NULL) return api_no_memory(err);
    TRY(buffer_format(&path, err, "/keys/signing/%s/approval", document->name));
    return send(invocation, session, buffer_text(&path), body, err);
}

struct result command_key_approve(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON draft = NULL;

    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_choose(invocation, session, &keys, true, &draft, err));
    return approve(invocation, session, draft, key, err);
}

/* ---- withdrawing ---- */

static struct result read_enrolment(const json_t *row, struct wanted_document *wanted, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER((size_t)8 * 1024);
    OWNED(document) *document = NULL;

    TRY(json_write_canonical(&payload, json_object_get(row, "document"), err));
    TRY(document_read_payload(DOCUMENT_SIGNING_KEY, buffer_bytes(&payload), &document, err));
    wanted->expires_ms = document->expires_ms;
    return signing_key_read(document, &wanted->key, err);
}

/* A key of one's own that waits is taken back with the key that one has. */
static struct result name_old(struct session *session, const struct ecdsa_key *signer, struct signing_key *key, struct error *err)
{
    uint8_t point[ECDSA_PUBLIC_SIZE];
    char own[SIGNING_PRINCIPAL_SIZE];

    memset(key->replaces, 0, sizeof key->replaces);
    TRY(command_principal(session, own, err));
    ecdsa_key_public(signer, point);
    if (strcmp(own, key->principal) == 0 && memcmp(point, key->point, sizeof point) != 0)
        memcpy(key->replaces, point, sizeof key->replaces);
    return SUCCESS;
}

static struct result revoke(struct invocation *invocation, struct session *session, const json_t *row,
                            const struct ecdsa_key *key, struct error *err)
{
    struct wanted_document wanted = {
        .scope = documents_scope(invocation), .withdrawn = invocation_option(invocation, 'r'), .effective_ms = clock_wall_ms()};
    struct buffer OWNED_BUFFER payload = BUFFER((size_t)8 * 1024);
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED_JSON envelope = NULL;

    TRY(read_enrolment(row, &wanted, err));
    memset(wanted.key.replaces, 0, sizeof wanted.key.replaces);
    if (json_object_get(row, "envelope") != NULL) TRY(name_old(session, key, &wanted.key, err));
    TRY(compose(&wanted, &payload, err));
    TRY(documents_sign(DOCUMENT_SIGNING_KEY, buffer_bytes(&payload), key, &envelope, err));
    TRY(buffer_format(&path, err, "/keys/signing/%s/withdrawal", invocation->operands[1]));
    return send(invocation, session, buffer_text(&path), envelope, err);
}

struct result command_key_revoke(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON row = NULL;

    if (invocation_option(invocation, 'r') == NULL)
        return line_check(invocation, failure(err, ERROR_INVALID, "--reason is needed: why the key no longer counts"));
    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    struct error none = {0};
    if (!documents_choose(invocation, session, &keys, true, &row, &none).ok || json_object_get(row, "waits_until") == NULL) {
        json_decref(row);
        row = NULL;
        TRY(documents_choose(invocation, session, &keys, false, &row, err));
    }
    return revoke(invocation, session, row, key, err);
}

/* ---- one key, and its drafts ---- */

struct result command_key_show(struct invocation *invocation, struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(documents_find(invocation, &keys, &answer, err));
    return invocation->json ? api_print_json(answer, err) : print_key(invocation, answer, err);
}

struct result command_key_discard(struct invocation *invocation, struct error *err)
{
    return documents_end(invocation, keys.base, "/draft", err);
}

struct result command_key_reject(struct invocation *invocation, struct error *err)
{
    return documents_end(invocation, keys.base, "/drafts", err);
}

/* ---- the list ---- */

static struct result flatten(const json_t *rows, json_t *flat, struct error *err)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *document = json_object_get(row, "document"),
                     *body = json_object_get(document, "body"), *holder = verified_holder(row, json_text_of(body, "principal"));
        json_t *shown = json_pack("{s:O?, s:O?, s:O?, s:O?, s:O?, s:O*, s:O*, s:O*, s:O*}", "name", json_object_get(row, "name"),
                                  "state", json_object_get(row, "state"), "purpose", json_object_get(body, "purpose"), "expires",
                                  json_object_get(document, "expires"), "principal", json_object_get(body, "principal"),
                                  "missing", json_object_get(row, "missing"), "waits_until", json_object_get(row, "waits_until"),
                                  "subject", json_object_get(holder, "subject"), "issuer", json_object_get(holder, "issuer"));
        if (shown == NULL || json_array_append_new(flat, shown) != 0) return api_no_memory(err);
    }
    return SUCCESS;
}

struct result command_key_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"KEY", "name"},        {"STATE", "state"},         {"PURPOSE", "purpose"},
                                            {"EXPIRES", "expires"}, {"MISSING", "missing"},     {"WAITS UNTIL", "waits_until"},
                                            {"SUBJECT", "subject"}, {"PRINCIPAL", "principal"}, {"ISSUER", "issuer"}};
    OWNED(session) *session = NULL;
    OWNED_JSON rows = json_array();
    OWNED_JSON flat = json_array();

    if (rows == NULL || flat == NULL) return api_no_memory(err);
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_get_all(invocation, session, &keys, rows, err));
    TRY(flatten(rows, flat, err));
    return api_print_rows(invocation, flat, columns, COUNT(columns), err);
}
