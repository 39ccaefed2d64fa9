/* /api/v1/issuers: docs/api.md. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "authz/jwk.h"
#include "authz/trusted_issuer.h"
#include "base/clock.h"
#include "base/memory.h"
#include "crypto/key_proof.h"
#include "gateway/api/api_priv.h"
#include "policy/decider/decider.h"

#define LIFETIME_DEFAULT_S 3600 /* GitLab's job tokens live that long; those of GitHub and Kubernetes are shorter */

#define ALGORITHMS JOSE_ALGORITHMS(SCHEMA_WORD)

/* Of an issuer whose keys are fetched. */
#define FETCHING                                                                                                     \
    HAS_FLAG("follows", REQUIRED, "its keys are fetched from it and kept current"),                                  \
        HAS_TEXT("keys_url", OPTIONAL, FORM_FREE, 1, 511, "where its keys are, if its metadata does not say it"),    \
        HAS_TIME("confirmed", OPTIONAL, "when it last published its keys; they count for a day from then on"),       \
        HAS_TIME("attempted", OPTIONAL, "the newest attempt to fetch them"), HAS_TIME("ended", OPTIONAL, "its end"), \
        HAS_TIME("due", OPTIONAL, "the next one"), HAS_TEXT("problem", OPTIONAL, FORM_FREE, 1, 400, "of the newest one")

PART_WITH(SCHEMA_IS_OPEN, jwk, "a public key (RFC 7517)", HAS_TEXT("kty", OPTIONAL, FORM_FREE, 0, 0, "its kind: RSA, EC or OKP"))
PART_WITH(SCHEMA_IS_OPEN, jwks, "a key set (RFC 7517)", HAS_LIST("keys", REQUIRED, 0, schema_jwk, "public keys"))

SCHEMA(issuer_wanted, "an issuer to be trusted",
       HAS_TEXT("url", REQUIRED, FORM_URL, 1, 255, "what its tokens state as `iss`; https, without a query or a fragment"),
       HAS_TEXTS("algorithms", REQUIRED, 1, 0, ALGORITHMS, "how its tokens may be signed"),
       HAS_OBJECT("jwks", OPTIONAL, schema_jwks, "its keys; if left out, they are fetched from it and kept current"),
       HAS_TEXT("keys_url", OPTIONAL, FORM_FREE, 1, 511, "without jwks: where its keys are; if left out, its metadata names it"),
       HAS_TEXT("audience", OPTIONAL, FORM_FREE, 0, 255, "what its tokens must state as `aud`; the public URL if left out"),
       HAS_NUMBER("lifetime_max", OPTIONAL, 1, ISSUER_LIFETIME_MAX_S, "seconds that a token may live; 3600 if left out"))

SCHEMA(issuer, "a trusted issuer", HAS_ID("id", REQUIRED, "names it in paths"),
       HAS_TEXT("url", REQUIRED, FORM_URL, 1, 255, "what its tokens state as `iss`"),
       HAS_TEXT("audience", REQUIRED, FORM_FREE, 0, 255, "what its tokens must state as `aud`"),
       HAS_TEXTS("algorithms", REQUIRED, 1, 0, ALGORITHMS, "how its tokens may be signed"),
       HAS_NUMBER("lifetime_max", REQUIRED, 1, ISSUER_LIFETIME_MAX_S, "seconds that a token may live"), FETCHING)

PART(issuer_key, "a key that counts", HAS_TEXT("kid", REQUIRED, FORM_FREE, 1, 128, "its name in tokens"),
     HAS_TEXT("kty", REQUIRED, FORM_FREE, 1, 8, "its kind"))
PART(issuer_call, "a document that was asked for", HAS_TEXT("url", REQUIRED, FORM_FREE, 1, 1023, "where"),
     HAS_ANY("status", OPTIONAL, "the status of the answer; null: there was none"),
     HAS_TEXT("problem", OPTIONAL, FORM_FREE, 1, 400, "why it is not used"))
PART(issuer_seen_key, "a key that the issuer has published", HAS_ANY("kid", OPTIONAL, "its name in tokens"),
     HAS_ANY("kty", OPTIONAL, "its kind"), HAS_ANY("alg", OPTIONAL, "its algorithm"),
     HAS_FLAG("used", REQUIRED, "whether it counts"), HAS_TEXT("why", OPTIONAL, FORM_FREE, 1, 200, "why it does not"))
PART(issuer_report, "what the newest attempt saw", HAS_TEXT("keys_url", OPTIONAL, FORM_FREE, 1, 511, "where the keys are"),
     HAS_LIST("calls", REQUIRED, 3, schema_issuer_call, "in their order"),
     HAS_LIST("keys", OPTIONAL, 64, schema_issuer_seen_key, "of the set that it publishes, the first 64"))

SCHEMA(issuer_state, "a trusted issuer, with its keys", HAS_ID("id", REQUIRED, "names it in paths"),
       HAS_TEXT("url", REQUIRED, FORM_URL, 1, 255, "what its tokens state as `iss`"),
       HAS_TEXT("audience", REQUIRED, FORM_FREE, 0, 255, "what its tokens must state as `aud`"),
       HAS_TEXTS("algorithms", REQUIRED, 1, 0, ALGORITHMS, "how its tokens may be signed"),
       HAS_NUMBER("lifetime_max", REQUIRED, 1, ISSUER_LIFETIME_MAX_S, "seconds that a token may live"), FETCHING,
       HAS_LIST("keys", REQUIRED, 0, schema_issuer_key, "the keys that count"),
       HAS_OBJECT("report", OPTIONAL, schema_issuer_report, "of an issuer that is followed"))

SCHEMA(issuers, "a page of issuers", HAS_LIST("issuers", REQUIRED, 1000, schema_issuer, "by URL"), HAS_NEXT)

/* The wanted issuer, as views of the document; `record.jwks` is a view of `jwks`, which this struct owns. */
struct wanted_issuer {
    const json_t *algorithms, *keys;
    const char *url, *audience, *keys_url; /* keys_url NULL: not given */
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
    record->follows = wanted->keys == NULL;
    const unsigned before = json_lacks();
    wanted->jwks = record->follows ? memory_copy_text("", 0) : json_dumps(wanted->keys, JSON_COMPACT);
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
    wanted->keys_url = json_text_of(body, "keys_url");
    if (wanted->keys_url != NULL && wanted->keys != NULL)
        return failure(err, ERROR_INVALID, "give jwks, or keys_url to have the keys fetched, and not both");
    if (wanted->keys_url != NULL && !issuer_keys_url_is_valid(wanted->keys_url))
        return failure(err, ERROR_INVALID, "keys_url is an https URL of at most %d characters, without a fragment",
                       ISSUER_KEYS_URL_SIZE - 1);
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

static struct result target_of_one(struct request *request, enum action action)
{
    struct uuid id;

    if (!uuid_parse(bytes_of_text(request->reference), &id)) {
        response_unknown(request);
        return SUCCESS;
    }
    struct resource *resource = api_pair(request, action, RESOURCE_SYSTEM, "");
    (void)snprintf(resource->detail, sizeof resource->detail, "%s", request->reference);
    return SUCCESS;
}

struct result target_issuer_read(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return target_of_one(request, ACTION_ISSUER_READ);
}

struct result target_issuer_remove(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return target_of_one(request, ACTION_ISSUER_REMOVE);
}

struct result target_issuer_check(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return target_of_one(request, ACTION_ISSUER_CHECK);
}

/* False: out of memory. */
static bool add_fetching(json_t *value, const struct issuer_row *row)
{
    if (json_object_set_new(value, "follows", json_boolean(row->record.follows)) != 0) return false;
    if (row->keys_url[0] != '\0' && json_object_set_new(value, "keys_url", json_string(row->keys_url)) != 0) return false;
    if (row->problem[0] != '\0' && json_object_set_new(value, "problem", json_string(row->problem)) != 0) return false;
    return api_set_time(value, "confirmed", row->record.confirmed_ms) && api_set_time(value, "attempted", row->attempted_ms) &&
           api_set_time(value, "ended", row->ended_ms) && api_set_time(value, "due", row->due_ms);
}

/* NULL: out of memory. */
static json_t *describe(const struct issuer_row *row)
{
    const struct issuer_record *record = &row->record;
    OWNED_JSON algorithms = json_array();
    char id[UUID_TEXT_SIZE];

    uuid_format(&record->id, id);
    for (enum jose_algorithm i = 0; i < JOSE_ALGORITHM_COUNT; i++)
        if ((record->algorithms & 1U << i) != 0 && json_array_append_new(algorithms, json_string(jose_algorithm_name(i))) != 0)
            return NULL;
    OWNED_JSON value = json_pack("{s:s, s:s, s:s, s:O, s:i}", "id", id, "url", record->url, "audience", record->audience,
                                 "algorithms", algorithms, "lifetime_max", (int)record->lifetime_max_s);
    return value != NULL && add_fetching(value, row) ? GIVE(value) : NULL;
}

static bool add_keys(json_t *value, const json_t *set)
{
    OWNED_JSON keys = json_array();
    const json_t *key;
    size_t i;

    json_array_foreach (json_object_get(set, "keys"), i, key) {
        const char *kid = json_text_of(key, "kid"), *type = json_text_of(key, "kty");
        if (kid != NULL && type != NULL && json_array_append_new(keys, json_pack("{s:s, s:s}", "kid", kid, "kty", type)) != 0)
            return false;
    }
    return json_object_set(value, "keys", keys) == 0;
}

static struct result describe_found(const struct issuer_found *found, json_t **value_out, struct error *err)
{
    OWNED_JSON value = describe(&found->row);
    OWNED_JSON set = NULL;
    OWNED_JSON report = NULL;

    if (found->jwks.length > 0) TRY(json_read(buffer_bytes(&found->jwks), ISSUER_JWKS_MAX, &set, err));
    if (found->report.length > 0) TRY(json_read(buffer_bytes(&found->report), ISSUER_REPORT_MAX, &report, err));
    if (value == NULL || !add_keys(value, set) || (report != NULL && json_object_set(value, "report", report) != 0))
        return failure(err, ERROR_NO_MEMORY, "no memory for an issuer");
    *value_out = GIVE(value);
    return SUCCESS;
}

static struct result answer_state(struct request *request, enum action action, struct pg *pg, unsigned status, struct error *err)
{
    struct issuer_found found = {.report = BUFFER(ISSUER_REPORT_MAX), .jwks = BUFFER(ISSUER_JWKS_MAX)};
    OWNED_JSON value = NULL;
    struct uuid id;

    TRY(api_id(request, "issuer", &id, err));
    struct result result = issuer_find(request->permit, action, pg, &id, &found, err);
    if (result.ok) result = describe_found(&found, &value, err);
    buffer_done(&found.report);
    buffer_done(&found.jwks);
    if (result.ok) response_json(request, status, value);
    return result;
}

static struct result handle_issuer_read(struct request *request, struct pg *pg, struct error *err)
{
    return answer_state(request, ACTION_ISSUER_READ, pg, 200, err);
}

/* The issuer is asked in the background, so that a slow one holds no worker: the client looks again until `ended` is there. */
static struct result handle_issuer_check(struct request *request, struct pg *pg, struct error *err)
{
    struct issuer_check check;
    struct uuid id;

    TRY(api_id(request, "issuer", &id, err));
    issuer_check_init(&check, &id);
    TRY(request_record(request, &check.change, err));
    return answer_state(request, ACTION_ISSUER_CHECK, pg, 200, err);
}

/* Whoever gives the keys of an issuer can sign tokens of everybody there, so it would be each second person. */
static struct result check_keys(const struct request *request, const struct wanted_issuer *wanted, struct error *err)
{
    const bool are_its_own = wanted->keys == NULL && wanted->keys_url == NULL;

    if (are_its_own || !decider_persons_come_from(request->gateway->decider, wanted->url)) return SUCCESS;
    return failure(
        err, ERROR_DENIED,
        "persons come from this issuer by a signed document, so its keys come from its own metadata: leave jwks and keys_url out, "
        "or have the document withdrawn first");
}

/* Nor does one administrator say which tokens of it count: those for another audience are of another service, whose owner has them. Fewer may count. */
static struct result check_tokens(const struct request *request, const struct wanted_issuer *wanted, struct error *err)
{
    OWNED(authz_snapshot) *snapshot = authz_directory_take(request->gateway->directory);
    const struct issuer *known = snapshot == NULL ? NULL : authz_snapshot_issuer(snapshot, wanted->url);
    const struct issuer_record *before = known == NULL ? NULL : issuer_record_of(known);
    const char *audience = before == NULL ? request->gateway->settings->public_url : before->audience;
    const unsigned lifetime_s = before == NULL ? LIFETIME_DEFAULT_S : before->lifetime_max_s;

    if (!decider_persons_come_from(request->gateway->decider, wanted->url) ||
        (strcmp(wanted->record.audience, audience) == 0 && wanted->record.lifetime_max_s <= lifetime_s))
        return SUCCESS;
    return failure(
        err, ERROR_DENIED,
        "persons come from this issuer by a signed document, so its tokens count for %.200s, and for at most %u s: have the document "
        "withdrawn first",
        audience, lifetime_s);
}

static struct result handle_issuer_trust(struct request *request, struct pg *pg, struct error *err)
{
    struct issuer_trust trust;
    OWNED_WANTED wanted = {0};

    (void)pg;
    TRY(read_wanted(request, &wanted, err));
    TRY(check_keys(request, &wanted, err));
    TRY(check_tokens(request, &wanted, err));
    TRY(issuer_trust_init(&trust, &wanted.record, err));
    trust.keys_url = wanted.keys_url;
    TRY(request_record(request, &trust.change, err));
    struct issuer_row row = {.record = wanted.record};
    row.record.id = trust.id;
    if (wanted.keys_url != NULL) (void)snprintf(row.keys_url, sizeof row.keys_url, "%s", wanted.keys_url);
    OWNED_JSON value = describe(&row);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer; the issuer is trusted");
    response_json(request, 201, value);
    return SUCCESS;
}

static json_t *describe_row(const void *row)
{
    return describe(row);
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
    issuer_remove_init(&gone, &id, request->principal);
    return api_remove(request, &gone.change, err);
}

const struct handler handler_issuer_trust = {.handle = handle_issuer_trust};
const struct handler handler_issuer_read = {.handle = handle_issuer_read};
const struct handler handler_issuer_check = {.handle = handle_issuer_check};
const struct handler handler_issuer_list = {.handle = handle_issuer_list};
const struct handler handler_issuer_remove = {.handle = handle_issuer_remove};
