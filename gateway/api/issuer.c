/* /api/v1/issuers: docs/api.md. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "authz/trusted_issuer.h"
#include "base/clock.h"
#include "gateway/api/api_priv.h"

#define LIFETIME_DEFAULT_S 3600 /* GitLab's job tokens; GitHub's and Kubernetes' are shorter */

/* What a body asks for; `record.jwks` is `jwks`, which is ours. */
struct wanted_issuer {
    json_t *json, *algorithms, *keys;
    const char *url, *audience;
    char *jwks;
    struct issuer_record record;
};

static void wanted_done(struct wanted_issuer *wanted)
{
    json_decref(wanted->json);
    free(wanted->jwks);
}
#define OWNED_WANTED __attribute__((cleanup(wanted_done))) struct wanted_issuer

static struct result read_algorithms(struct wanted_issuer *wanted, struct error *err)
{
    const json_t *name;
    size_t i;

    json_array_foreach(wanted->algorithms, i, name) {
        enum jose_algorithm algorithm = 0;
        const char *text = json_string_value(name);
        if (text == NULL || !jose_algorithm_find(text, &algorithm))
            return failure(err, ERROR_INVALID, "algorithms are RS256, PS256, ES256 and ES384");
        wanted->record.algorithms |= 1U << algorithm;
    }
    if (wanted->record.algorithms == 0) return failure(err, ERROR_INVALID, "algorithms is a list of at least one");
    return SUCCESS;
}

static struct result fill_record(struct wanted_issuer *wanted, json_int_t lifetime_s, struct error *err)
{
    struct issuer_record *record = &wanted->record;

    if (strlen(wanted->url) >= sizeof record->url || strlen(wanted->audience) >= sizeof record->audience)
        return failure(err, ERROR_INVALID, "url and audience have at most 255 bytes");
    if (lifetime_s < 1 || lifetime_s > ISSUER_LIFETIME_MAX_S)
        return failure(err, ERROR_INVALID, "lifetime_max is a number of seconds from 1 to %d", ISSUER_LIFETIME_MAX_S);
    record->lifetime_max_s = (unsigned)lifetime_s;
    (void)snprintf(record->url, sizeof record->url, "%s", wanted->url);
    (void)snprintf(record->audience, sizeof record->audience, "%s", wanted->audience);
    if (!json_is_object(wanted->keys)) return failure(err, ERROR_INVALID, "jwks is a key set: {\"keys\":[...]}");
    const unsigned before = json_lacks();
    wanted->jwks = json_dumps(wanted->keys, JSON_COMPACT);
    if (wanted->jwks == NULL || json_lacks() != before) return failure(err, ERROR_NO_MEMORY, "no memory for a key set");
    record->jwks = wanted->jwks;
    return read_algorithms(wanted, err);
}

/* Our own tokens say this one: whoever could put its keys here would make them. */
static bool is_our_own(const struct request *request, const char *url)
{
    const char *own = request->gateway->settings->public_url;
    const size_t length = strlen(own);

    return strncasecmp(url, own, length) == 0 && (url[length] == '\0' || url[length] == '/');
}

static struct result read_wanted(const struct request *request, struct wanted_issuer *wanted, struct error *err)
{
    json_int_t lifetime_s = LIFETIME_DEFAULT_S;

    wanted->audience = request->gateway->settings->public_url;
    TRY(api_body(request, &wanted->json, err));
    TRY(api_unpack(wanted->json, err, "{s:s, s?:s, s:o, s?:I, s:o}", "url", &wanted->url, "audience",
                   &wanted->audience, "algorithms", &wanted->algorithms, "lifetime_max", &lifetime_s, "jwks",
                   &wanted->keys));
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

/* NULL if memory is out. */
static json_t *describe(const struct issuer_record *record)
{
    OWNED_JSON algorithms = json_array();
    char id[UUID_TEXT_SIZE];

    uuid_format(&record->id, id);
    for (enum jose_algorithm i = 0; i < JOSE_ALGORITHM_COUNT; i++)
        if ((record->algorithms & 1U << i) != 0 &&
            json_array_append_new(algorithms, json_string(jose_algorithm_name(i))) != 0)
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

static struct result answer_issuers(struct request *request, const struct issuer_page *page, size_t limit,
                                    struct error *err)
{
    const size_t count = page->count < limit ? page->count : limit;
    OWNED_JSON issuers = json_array();

    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(issuers, describe(&page->rows[i].record)) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    OWNED_JSON value = json_pack("{s:O}", "issuers", issuers);
    if (value == NULL ||
        (page->count > limit && json_object_set_new(value, "next", json_string(page->rows[count - 1].record.url)) != 0))
        return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    response_json(request, 200, value);
    return SUCCESS;
}

static struct result handle_issuer_list(struct request *request, struct pg *pg, struct error *err)
{
    struct issuer_page page = {0};
    const char *after = NULL;
    unsigned limit = 0;

    if (!api_page(request, &limit, &after)) return SUCCESS;
    TRY(issuer_list(request->permit, pg, after, limit + 1, &page, err));
    const struct result result = answer_issuers(request, &page, limit, err);
    free(page.rows);
    return result;
}

static struct result handle_issuer_remove(struct request *request, struct pg *pg, struct error *err)
{
    struct issuer_remove gone;
    struct uuid id;

    (void)pg;
    if (!uuid_parse(bytes_of_text(request->reference), &id))
        return failure(err, ERROR_NOT_FOUND, "there is no such issuer");
    issuer_remove_init(&gone, &id);
    TRY(request_record(request, &gone.change, err));
    response_empty(request, 204);
    return SUCCESS;
}

const struct handler handler_issuer_trust = {.handle = handle_issuer_trust};
const struct handler handler_issuer_list = {.handle = handle_issuer_list};
const struct handler handler_issuer_remove = {.handle = handle_issuer_remove};
