#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "documents/format/document_priv.h"

#define SCHEMA        "sijil.document/v1"
#define NAME_LETTERS  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
#define SCOPE_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789._-/"
#define WITHDRAWN_MAX 256

/* The members of a payload, as json_unpack_ex() returns them. */
struct head {
    const char *schema, *kind, *scope, *name, *effective, *expires, *withdrawn;
    json_int_t version;
    const json_t *body;
};

#define MEMBERS_MAX 16 /* more than any object of a document has */

/* A member of a format: "s:s", "s?:I" or "s:o". */
struct wanted {
    const char *name;
    char type;
    bool is_optional;
};

/* The members of a format, without the places for their values. */
static size_t list_members(const char *format, va_list arguments, struct wanted members_out[MEMBERS_MAX])
{
    size_t count = 0;

    for (const char *at = strchr(format, 's'); at != NULL;) {
        assert(count < MEMBERS_MAX);
        struct wanted *member = &members_out[count++];
        member->name = va_arg(arguments, const char *);
        member->is_optional = at[1] == '?';
        member->type = at[member->is_optional ? 3 : 2];
        if (member->type == 's') (void)va_arg(arguments, const char **);
        else if (member->type == 'I') (void)va_arg(arguments, json_int_t *);
        else (void)va_arg(arguments, const json_t **);
        at = strchr(at, ',');
        if (at != NULL) at = strchr(at, 's');
    }
    return count;
}

static struct result say_member(const json_t *json, const char *what, const struct wanted *member, struct error *err)
{
    const json_t *value = json_object_get(json, member->name);

    if (value == NULL && !member->is_optional) return failure(err, ERROR_INVALID, "%s: \"%s\" is missing", what, member->name);
    if (value == NULL) return SUCCESS;
    if (member->type == 's' && !json_is_string(value))
        return failure(err, ERROR_INVALID, "%s: \"%s\" has to be a text", what, member->name);
    if (member->type == 'I' && !json_is_integer(value))
        return failure(err, ERROR_INVALID, "%s: \"%s\" has to be a whole number", what, member->name);
    return SUCCESS;
}

/* What json_unpack() did not like, in our own words: those of jansson name its types. */
static struct result say_problem(const json_t *json, const char *what, const struct wanted *members, size_t count,
                                 struct error *err)
{
    const char *name;
    const json_t *value;

    if (!json_is_object(json)) return failure(err, ERROR_INVALID, "%s: an object is expected", what);
    for (size_t i = 0; i < count; i++) TRY(say_member(json, what, &members[i], err));
    json_object_foreach ((json_t *)(uintptr_t)json, name, value) {
        size_t i = 0;
        while (i < count && strcmp(members[i].name, name) != 0) i++;
        if (i == count) return failure(err, ERROR_INVALID, "%s: there is no member \"%.40s\" here", what, name);
    }
    return failure(err, ERROR_INVALID, "%s: its members are not as docs/formats/documents.md says", what);
}

/* If jansson runs out of memory, it does not notice unknown members. */
struct result document_unpack(const json_t *json, const char *what, struct error *err, const char *format, ...)
{
    const unsigned before = json_lacks();
    struct wanted members[MEMBERS_MAX];
    va_list arguments;

    va_start(arguments, format);
    const int unpacked = json_vunpack_ex((json_t *)(uintptr_t)json, NULL, JSON_STRICT, format, arguments);
    va_end(arguments);
    if (json_lacks() != before) return failure(err, ERROR_NO_MEMORY, "no memory for %s", what);
    if (unpacked == 0) return SUCCESS;
    va_start(arguments, format);
    const size_t count = list_members(format, arguments, members);
    va_end(arguments);
    return say_problem(json, what, members, count, err);
}

static struct result unpack(const json_t *json, struct head *head, struct error *err)
{
    TRY(document_unpack(json, "a signed document", err, "{s:s, s:s, s:s, s:s, s:I, s:s, s?:s, s?:s, s:o}", "schema",
                        &head->schema, "kind", &head->kind, "scope", &head->scope, "name", &head->name, "version", &head->version,
                        "effective_from", &head->effective, "expires", &head->expires, "withdrawn", &head->withdrawn, "body",
                        &head->body));
    if (strcmp(head->schema, SCHEMA) != 0 || !json_is_object(head->body))
        return failure(err, ERROR_INVALID, "a signed document has \"schema\":\"" SCHEMA "\" and an object \"body\"");
    return SUCCESS;
}

/* "", "acme" or "acme/models". Only the form is checked here; the rights of the caller are checked elsewhere. */
static bool is_scope(const char *scope)
{
    const char *slash = strchr(scope, '/');
    const size_t length = strlen(scope);

    if (length == 0) return true;
    if (length >= DOCUMENT_SCOPE_SIZE || !text_consists_of(bytes_of_text(scope), SCOPE_LETTERS)) return false;
    return slash == NULL || (slash != scope && slash[1] != '\0' && strchr(slash + 1, '/') == NULL);
}

static struct result check_names(const struct document *document, const struct head *head, struct error *err)
{
    const size_t length = strlen(head->name);

    if (strcmp(head->kind, document_kind(document->kind)->name) != 0)
        return failure(err, ERROR_INVALID, "a document of the kind %.40s expected", document_kind(document->kind)->name);
    if (!is_scope(head->scope))
        return failure(err, ERROR_INVALID, "scope: \"\", an organisation, or an organisation and a project");
    if (length == 0 || length >= DOCUMENT_NAME_SIZE || !text_consists_of(bytes_of_text(head->name), NAME_LETTERS))
        return failure(err, ERROR_INVALID, "name: 1 to %d letters, digits, dots, underscores and dashes", DOCUMENT_NAME_SIZE - 1);
    if (head->version < 1) return failure(err, ERROR_INVALID, "version: a whole number from 1");
    if (head->withdrawn == NULL) return SUCCESS;
    if (document_kind(document->kind)->withdrawers == 0)
        return failure(err, ERROR_INVALID, "a document of the kind %.40s can't be withdrawn", head->kind);
    if (head->withdrawn[0] == '\0' || strlen(head->withdrawn) > WITHDRAWN_MAX)
        return failure(err, ERROR_INVALID, "withdrawn: the reason, at most %d bytes", WITHDRAWN_MAX);
    return SUCCESS;
}

static struct result read_times(struct document *document, const struct head *head, struct error *err)
{
    if (!clock_parse(bytes_of_text(head->effective), &document->effective_ms))
        return failure(err, ERROR_INVALID, "effective_from: a time in RFC 3339");
    if (head->expires == NULL) return SUCCESS;
    if (!clock_parse(bytes_of_text(head->expires), &document->expires_ms) || document->expires_ms <= document->effective_ms)
        return failure(err, ERROR_INVALID, "expires: a time in RFC 3339, after effective_from");
    return SUCCESS;
}

struct result document_head_common(struct document *document, struct error *err)
{
    struct head head = {0};

    TRY(unpack(document->json, &head, err));
    TRY(check_names(document, &head, err));
    TRY(read_times(document, &head, err));
    (void)snprintf(document->scope, sizeof document->scope, "%s", head.scope);
    (void)snprintf(document->name, sizeof document->name, "%s", head.name);
    document->version = (uint64_t)head.version;
    document->is_withdrawn = head.withdrawn != NULL;
    return SUCCESS;
}

/* The set's digest covers the rest of the set, which policy/ reads. */
struct result document_head_policy_set(struct document *document, struct error *err)
{
    const char *text = json_text_of(document->json, "digest");
    struct digest digest;
    int64_t epoch = 0;

    if (!json_integer_of(document->json, "epoch", &epoch) || epoch < 1 || text == NULL)
        return failure(err, ERROR_INVALID, "a policy set needs \"digest\" and an \"epoch\" of at least 1");
    TRY(digest_parse(bytes_of_text(text), &digest, err));
    if (digest.algorithm != DIGEST_SHA256) return failure(err, ERROR_INVALID, "the digest of a policy set must be SHA-256");
    (void)snprintf(document->name, sizeof document->name, DOCUMENT_POLICY_SET_NAME);
    document->version = (uint64_t)epoch;
    memcpy(document->digest, digest.bytes, sizeof document->digest);
    return SUCCESS;
}

struct result document_compose(const struct document_parts *parts, struct buffer *payload, struct error *err)
{
    char effective[CLOCK_TEXT_SIZE], expires[CLOCK_TEXT_SIZE];
    const size_t before = payload->length;
    struct document *document = NULL;

    clock_format(parts->effective_ms, effective);
    clock_format(parts->expires_ms, expires);
    OWNED_JSON json =
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:s*, s:s*, s:O}", "schema", SCHEMA, "kind", document_kind(parts->kind)->name,
                  "scope", parts->scope, "name", parts->name, "version", (json_int_t)parts->version, "effective_from", effective,
                  "expires", parts->expires_ms == 0 ? NULL : expires, "withdrawn", parts->withdrawn, "body", parts->body);
    if (json == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a document, or text that is not UTF-8");
    TRY(json_write_canonical(payload, json, err));
    TRY(document_read_payload(parts->kind, (struct bytes){payload->data + before, payload->length - before}, &document, err));
    document_free(document);
    return SUCCESS;
}

struct result document_sign(enum document_kind kind, struct bytes payload, const struct ecdsa_key *key, struct buffer *envelope,
                            struct error *err)
{
    return dsse_write(document_kind(kind)->type, payload, &key, 1, envelope, err);
}
