/* /api/v1/issuers: docs/api.md. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "authz/jwk.h"
#include "authz/trusted_issuer.h"
#include "base/clock.h"
#include "gateway/api/api_priv.h"

#define LIFETIME_DEFAULT_S 3600 /* GitLab's job tokens live that long; those of GitHub and Kubernetes are shorter */

#define ALGORITHMS JOSE_ALGORITHMS(SCHEMA_WORD)

PART_WITH(SCHEMA_IS_OPEN, jwk, "a public key (RFC 7517)", HAS_TEXT("kty", OPTIONAL, FORM_FREE, 0, 0, "its kind: RSA, EC or OKP"))
PART_WITH(SCHEMA_IS_OPEN, jwks, "a key set (RFC 7517)", HAS_LIST("keys", REQUIRED, 0, schema_jwk, "public keys"))

SCHEMA(issuer_wanted, "an issuer to be trusted",
       HAS_TEXT("url", REQUIRED, FORM_URL, 1, 255, "what its tokens state as `iss`; https, without a query or a fragment"),
       HAS_TEXTS("algorithms", REQUIRED, 1, 0, ALGORITHMS, "how its tokens may be signed"),
       HAS_OBJECT("jwks", REQUIRED, schema_jwks, "its keys"),
       HAS_TEXT("audience", OPTIONAL, FORM_FREE, 0, 255, "what its tokens must state as `aud`; the public URL if left out"),
       HAS_NUMBER("lifetime_max", OPTIONAL, 1, ISSUER_LIFETIME_MAX_S, "seconds that a token may live; 3600 if left out"))

SCHEMA(issuer, "a trusted issuer", HAS_ID("id", REQUIRED, "names it in paths"),
       HAS_TEXT("url", REQUIRED, FORM_URL, 1, 255, "what its tokens state as `iss`"),
       HAS_TEXT("audience", REQUIRED, FORM_FREE, 0, 255, "what its tokens must state as `aud`"),
       HAS_TEXTS("algorithms", REQUIRED, 1, 0, ALGORITHMS, "how its tokens may be signed"),
       HAS_NUMBER("lifetime_max", REQUIRED, 1, ISSUER_LIFETIME_MAX_S, "seconds that a token may live"))

SCHEMA(issuers, "a page of issuers", HAS_LIST("issuers", REQUIRED, 1000, schema_issuer, "by URL"), HAS_NEXT)

/* The wanted issuer, as views of the document; `record.jwks` is a view of `jwks`, which this struct owns. */
struct wanted_issuer {
    const json_t *algorithms, *keys;
    const char *url, *audience;
    char *jwks;
    struct issuer_record record;
};

static void wanted_done(struct wanted_issuer *wanted)
{
    free(wanted->jwks);
}
#define OWNED_WANTED __attribute__((cleanup(wanted_done))) struct wanted_issuer

static struct result read_algorithms(struct wanted_issuer *wanted, struct error *err)
{
    const json_t *name;
    size_t i;

    json_array_foreach (wanted->algorithms, i, name) {
        enum jose_algorithm algorithm = 0;
        const char *text = json_string_value(name);
        if (text == NULL || !jose_algorithm_find(text, &algorithm))
            return failure(err, ERROR_INVALID, "algorithms are RS256, PS256, ES256, ES384 and EdDSA");
        wanted->record.algorithms |= 1U << algorithm;
    }
    if (wanted->record.algorithms == 0) return failure(err, ERROR_INVALID, "algorithms is a list of at least one");
    return SUCCESS;
}

/* A private key that is pasted here by mistake must not be stored, and shown to readers of the database and of backups. */
static struct result check_public(const json_t *set, struct error *err)
{
    const json_t *key;
    size_t i;

    json_array_foreach (json_object_get(set, "keys"), i, key)
        if (!jwk_is_public(key))
            return failure(
                err, ERROR_INVALID,
                "key %zu of jwks has private members, such as d or k: give the public set, and replace that key, because it was sent",
                i + 1);
    return SUCCESS;
}

static struct result fill_record(struct wanted_issuer *wanted, int64_t lifetime_s, struct error *err)
{
    struct issuer_record *record = &wanted->record;

    if (strlen(wanted->url) >= sizeof record->url || strlen(wanted->audience) >= sizeof record->audience)
        return failure(err, ERROR_INVALID, "url and audience have at most 255 bytes");
    TRY(check_public(wanted->keys, err));
    record->lifetime_max_s = (unsigned)lifetime_s;
    (void)snprintf(record->url, sizeof record->url, "%s", wanted->url);
    (void)snprintf(record->audience, sizeof record->audience, "%s", wanted->audience);
    const unsigned before = json_lacks();
    wanted->jwks = json_dumps(wanted->keys, JSON_COMPACT);
    if (wanted->jwks == NULL || json_lacks() != before) return failure(err, ERROR_NO_MEMORY, "no memory for a key set");
    record->jwks = wanted->jwks;
    return read_algorithms(wanted, err);
}

/* Whether the URL is our own issuer's. If keys could be set for it, their owner could forge our tokens. */
static bool is_our_own(const struct request *request, const char *url)
{
    const char *own = request->gateway->settings->public_url;
    const size_t length = strlen(own);

    return strncasecmp(url, own, length) == 0 && (url[length] == '\0' || url[length] == '/');
}

static struct result read_wanted(struct request *request, struct wanted_issuer *wanted, struct error *err)
{
    int64_t lifetime_s = LIFETIME_DEFAULT_S;
    const json_t *body = NULL;

    TRY(request_document(request, &body, err));
    (void)json_integer_of(body, "lifetime_max", &lifetime_s);
    const char *audience = json_text_of(body, "audience");
    wanted->audience = audience == NULL ? request->gateway->settings->public_url : audience;
    wanted->url = json_text_of(body, "url");
    wanted->algorithms = json_object_get(body, "algorithms");
    wanted->keys = json_object_get(body, "jwks");
    if (is_our_own(request, wanted->url))
        return failure(err, ERROR_INVALID, "this registry's own URL can't be an issuer that it trusts besides");
    return fill_record(wanted, lifetime_s, err);
}

struct result target_issuer_trust(struct request *request, struct lookup *lookup, struct error *err)
{
    OWNED_WANTED wanted = {0};

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_ISSUER_TRUST)) return SUCCESS;
    TRY(read_wanted(request, &wanted, err));
    struct resource *resource = api_pair(request, ACTION_ISSUER_TRUST, RESOURCE_SYSTEM, "");
    (void)snprintf(resource->detail, sizeof resource->detail, "%.*s", RESOURCE_DETAIL_MAX, wanted.url);
    return SUCCESS;
}

struct result target_issuer_list(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    (void)api_pair(request, ACTION_ISSUER_READ, RESOURCE_SYSTEM, "");
    return SUCCESS;
}

struct result target_issuer_remove(struct request *request, struct lookup *lookup, struct error *err)
{
    struct uuid id;

    (void)lookup;
    (void)err;
    if (!uuid_parse(bytes_of_text(request->reference), &id)) {
        response_unknown(request);
        return SUCCESS;
    }
    struct resource *resource = api_pair(request, ACTION_ISSUER_REMOVE, RESOURCE_SYSTEM, "");
    (void)snprintf(resource->detail, sizeof resource->detail, "%s", request->reference);
    return SUCCESS;
}

/* NULL: out of memory. */
static json_t *describe(const struct issuer_record *record)
{
    OWNED_JSON algorithms = json_array();
    char id[UUID_TEXT_SIZE];

    uuid_format(&record->id, id);
    for (enum jose_algorithm i = 0; i < JOSE_ALGORITHM_COUNT; i++)
        if ((record->algorithms & 1U << i) != 0 && json_array_append_new(algorithms, json_string(jose_algorithm_name(i))) != 0)
            return NULL;
    return json_pack("{s:s, s:s, s:s, s:O, s:i}", "id", id, "url", record->url, "audience", record->audience, "algorithms",
                     algorithms, "lifetime_max", (int)record->lifetime_max_s);
}

static struct result handle_issuer_trust(struct request *request, struct pg *pg, struct error *err)
{
    struct issuer_trust trust;
    OWNED_WANTED wanted = {0};

    (void)pg;
    TRY(read_wanted(request, &wanted, err));
    TRY(issuer_trust_init(&trust, &wanted.record, err));
    TRY(request_record(request, &trust.change, err));
    wanted.record.id = trust.id;
    OWNED_JSON value = describe(&wanted.record);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer; the issuer is trusted");
    response_json(request, 201, value);
    return SUCCESS;
}

static json_t *describe_row(const void *row)
{
    const struct issuer_row *issuer = row;

    return describe(&issuer->record);
}

static struct result handle_issuer_list(struct request *request, struct pg *pg, struct error *err)
{
    struct issuer_page found = {0};
    struct api_page page;

    if (!api_page(request, &page)) return SUCCESS;
    TRY(issuer_list(request->permit, pg, page.after, page.limit + 1, &found, err));
    const struct api_rows rows = {.name = "issuers",
                                  .rows = found.rows,
                                  .row_size = sizeof *found.rows,
                                  .count = found.count,
                                  .describe = describe_row,
                                  .cursor = "url"};
    const struct result result = api_answer_rows(request, &page, &rows, err);
    free(found.rows);
    return result;
}

static struct result handle_issuer_remove(struct request *request, struct pg *pg, struct error *err)
{
    struct issuer_remove gone;
    struct uuid id;

    (void)pg;
    TRY(api_id(request, "issuer", &id, err));
    issuer_remove_init(&gone, &id);
    return api_remove(request, &gone.change, err);
}

const struct handler handler_issuer_trust = {.handle = handle_issuer_trust};
const struct handler handler_issuer_list = {.handle = handle_issuer_list};
const struct handler handler_issuer_remove = {.handle = handle_issuer_remove};
