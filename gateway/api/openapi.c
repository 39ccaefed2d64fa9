/* GET /api/v1/openapi.json: docs/api.md. */
#include "gateway/api/openapi.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "gateway/api/api_priv.h"
#include "gateway/api/openapi_priv.h"
#include "gateway/http/condition.h"
#include "gateway/pipeline/parameters.h"
#include "gateway/pipeline/repeat.h"

struct document {
    json_t *paths, *schemas, *responses, *parameters;
};

static void set(json_t *object, const char *name, json_t *value)
{
    (void)json_object_set_new(object, name, value);
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool is_of_oci(const struct route *route)
{
    return starts_with(route->pattern, "/v2");
}

/* ---- Paths ---- */

/* The meaning of {reference}, by the segment before it. */
static const struct {
    const char *below;
    struct schema_member member;
} references[] = {
    {"/robots/", HAS_ID("robot", REQUIRED, "the id of a robot")},
    {"/bindings/", HAS_ID("binding", REQUIRED, "the id of a role that was given")},
    {"/issuers/", HAS_ID("issuer", REQUIRED, "the id of an issuer")},
    {"/keys/signing/", HAS_TEXT("key", REQUIRED, FORM_FREE, 43, 43, "the name of a signing key: its RFC 7638 thumbprint")},
    {"/trust-rules/", HAS_TEXT("rule", REQUIRED, FORM_FREE, 1, 63, "the id of a trust rule")},
    {"/runners/invitations/", HAS_ID("runner", REQUIRED, "the id of a runner that was invited")},
    {"/runners/", HAS_TEXT("key", REQUIRED, FORM_FREE, 43, 43, "the name of a runner's key: its RFC 7638 thumbprint")},
    {"/jobs/", HAS_ID("job", REQUIRED, "the id of a job")},
    {"/runs/", HAS_ID("run", REQUIRED, "the id of a training run")},
    {"/events/", HAS_TEXT("sequence", REQUIRED, FORM_NUMBER, 1, 19, "the sequence number of an event")},
    {"/exports/", HAS_TEXT("sequence", REQUIRED, FORM_NUMBER, 1, 19, "the sequence number of its closing entry")},
    {"/deletions/", HAS_TEXT("digest", REQUIRED, FORM_DIGEST, 71, 135, "the digest of the content that was deleted")},
    {"/blobs/uploads/", HAS_TEXT("session", REQUIRED, FORM_FREE, 1, 0, "as the Location of the answer before has it")},
    {"/uploads/", HAS_ID("upload", REQUIRED, "the id of an upload")},
    {"/blobs/", HAS_TEXT("digest", REQUIRED, FORM_DIGEST, 71, 135, "the digest of a blob")},
    {"/manifests/", HAS_TEXT("reference", REQUIRED, FORM_FREE, 1, 135, "a tag, or the digest of a manifest")},
    {"/referrers/", HAS_TEXT("digest", REQUIRED, FORM_DIGEST, 71, 135, "the digest of a manifest")},
    {"", HAS_TEXT("reference", REQUIRED, FORM_FREE, 1, 0, "which one")},
};

/* {name} stands for the first one, two or three of these. */
static const struct schema_member places[] = {
    HAS_TEXT("organisation", REQUIRED, FORM_NAME, 1, 63, "the name of an organisation"),
    HAS_TEXT("project", REQUIRED, FORM_NAME, 1, 63, "the name of a project in the organisation"),
    HAS_TEXT("repository", REQUIRED, FORM_FREE, 1, 191, "the path of a repository below its project; slashes in it stay slashes"),
};
static const struct schema_member encoded_repository = HAS_TEXT(
    "repository", REQUIRED, FORM_FREE, 1, 191, "the path of a repository below its project; a slash in it may also be %2F");

/* {name} of the routes of tiles. */
static const struct schema_member tile_place =
    HAS_TEXT("tile", REQUIRED, FORM_FREE, 3, 48,
             "LEVEL/N, of entries N: in groups of three digits, such as 0/x001/234, with .p/WIDTH if it is partial");

static const struct schema_member *place_of(const struct route *route, size_t i)
{
    if (starts_with(route->pattern, "/audit/")) return &tile_place;
    return i == 2 && !is_of_oci(route) ? &encoded_repository : &places[i];
}

static size_t count_places(const struct route *route)
{
    if (strstr(route->pattern, "{name}") == NULL) return 0;
    if (starts_with(route->pattern, "/api/v1/organisations/") || starts_with(route->pattern, "/audit/")) return 1;
    return starts_with(route->pattern, "/api/v1/projects/") ? 2 : 3;
}

static const struct schema_member *reference_of(const struct route *route)
{
    const char *at = strstr(route->pattern, "{reference}");
    size_t row = 0;

    if (at == NULL) return NULL;
    for (size_t length = 0; (length = strlen(references[row].below)) > 0; row++)
        if ((size_t)(at - route->pattern) >= length && memcmp(at - length, references[row].below, length) == 0) break;
    return &references[row].member;
}

void openapi_path(const struct route *route, char path_out[OPENAPI_PATH_SIZE])
{
    const struct schema_member *reference = reference_of(route);
    size_t length = 0;

    path_out[0] = '\0';
    for (const char *at = route->pattern; *at != '\0';) {
        const bool is_name = starts_with(at, "{name}"), is_reference = starts_with(at, "{reference}");
        if (!is_name && !is_reference) length += (size_t)snprintf(path_out + length, OPENAPI_PATH_SIZE - length, "%c", *at);
        for (size_t i = 0; is_name && i < count_places(route); i++)
            length += (size_t)snprintf(path_out + length, OPENAPI_PATH_SIZE - length, "%s{%s}", i == 0 ? "" : "/",
                                       place_of(route, i)->name);
        if (is_reference) length += (size_t)snprintf(path_out + length, OPENAPI_PATH_SIZE - length, "{%s}", reference->name);
        at += is_name ? strlen("{name}") : is_reference ? strlen("{reference}") : 1;
    }
}

static json_t *path_parameter(const struct schema_member *member)
{
    return json_pack("{s:s, s:s, s:b, s:s, s:o}", "name", member->name, "in", "path", "required", 1, "description",
                     member->meaning, "schema", openapi_value(member));
}

/* Generators of clients make one type of each component, so a parameter may not be called as a schema is. */
static json_t *query_parameter(struct document *document, const struct schema_member *member)
{
    char name[64];

    (void)snprintf(name, sizeof name, "query-%s", member->name);
    if (json_object_get(document->parameters, name) == NULL)
        set(document->parameters, name,
            json_pack("{s:s, s:s, s:s, s:o}", "name", member->name, "in", "query", "description", member->meaning, "schema",
                      openapi_ascii_value(member)));
    return json_pack("{s:o}", "$ref", json_sprintf("#/components/parameters/%s", name));
}

static json_t *parameters_of(struct document *document, const struct route *route)
{
    json_t *list = json_array();
    const struct schema_member *reference = reference_of(route);

    for (size_t i = 0; i < count_places(route); i++) (void)json_array_append_new(list, path_parameter(place_of(route, i)));
    if (reference != NULL) (void)json_array_append_new(list, path_parameter(reference));
    const char *at = route->about->parameters;
    for (struct bytes word; schema_next_word(&at, &word);) {
        const struct schema_member *member = parameter_find((const char *)word.data, word.length);
        if (member != NULL) (void)json_array_append_new(list, query_parameter(document, member));
    }
    openapi_add_headers(document->parameters, route, list);
    return list;
}

/* ---- Answers ---- */

enum needs { ALWAYS, NEEDS_CREDENTIAL, NEEDS_BODY, NEEDS_CHANGE, OWN };

static const struct error_row {
    unsigned status;
    enum needs needs;
    const char *header, *meaning;
} errors[] = {
    {400, ALWAYS, NULL, "The request breaks a rule; `detail` says which."},
    {401, NEEDS_CREDENTIAL, "WWW-Authenticate", "A credential is needed, or this one is not good."},
    {403, NEEDS_CREDENTIAL, NULL, "Not allowed; of a decision, the members say which rule denied it."},
    {404, NEEDS_CREDENTIAL, NULL, "It does not exist, or not for this caller."},
    {409, NEEDS_CHANGE, NULL, "It conflicts with what is there."},
    {410, OWN, NULL, "It was there, and was removed."},
    {412, OWN, NULL, "If-Match or If-None-Match does not hold."},
    {413, NEEDS_BODY, NULL, "The body, or what it holds, is too large."},
    {422, OWN, NULL, "The Idempotency-Key was used for another request."},
    {429, ALWAYS, "Retry-After", "Too many requests."},
    {503, ALWAYS, "Retry-After", "A part of the service is down, and nothing was done; or it is not known whether it was done."},
};

static bool can_be(const struct error_row *row, const struct route *route)
{
    switch (row->needs) {
    case NEEDS_CREDENTIAL: return route->credential != CREDENTIAL_NONE;
    case NEEDS_BODY: return route->body != BODY_NONE;
    case NEEDS_CHANGE: return route->record != RECORD_NONE && (route->methods & METHOD_BIT(METHOD_GET)) == 0;
    case OWN: return false;
    case ALWAYS: break;
    }
    return true;
}

/* Errors that such a route usually has not. */
static bool is_own(const struct route *route, unsigned status)
{
    static const struct {
        const char *route;
        unsigned status;
    } own[] = {{"run_bundle", 409}, {"run_log", 410}};

    if (status == 412) return openapi_has_condition(route);
    if (status == 422) return route_takes_repeats(route);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (own[i].status == status && strcmp(own[i].route, route->name) == 0) return true;
    return false;
}

PART(oauth_error, "an error, as OAuth 2.0 has it", HAS_TEXT("error", REQUIRED, FORM_FREE, 1, 0, "its code"),
     HAS_TEXT("error_description", OPTIONAL, FORM_FREE, 0, 0, "what it means"))

static json_t *error_content(struct document *document, const struct route *route)
{
    if (is_of_oci(route)) return openapi_content(document->schemas, &schema_errors, false);
    json_t *content =
        route->credential == CREDENTIAL_MINT ? openapi_content(document->schemas, &schema_oauth_error, false) : json_object();
    set(content, "application/problem+json",
        json_pack("{s:o}", "schema", openapi_schema(document->schemas, &schema_problem, false)));
    return content;
}

static json_t *header_of(const struct error_row *row)
{
    const bool is_number = strcmp(row->header, "Retry-After") == 0;

    if (row->status == 429)
        return json_pack("{s:{s:s, s:{s:s}}, s:{s:s, s:{s:s}}}", "Retry-After", "description", "seconds to wait", "schema",
                         "type", "integer", "RateLimit", "description", "the limit, what is left of it, and when there is more",
                         "schema", "type", "string");
    return json_pack("{s:{s:s, s:{s:s}}}", row->header, "description", is_number ? "seconds to wait" : "how to get a token",
                     "schema", "type", is_number ? "integer" : "string");
}

/* Makes one shared response for each status and kind of errors; operations refer to it. */
static json_t *error_answer(struct document *document, const struct route *route, const struct error_row *row)
{
    const char *kind = is_of_oci(route) ? "oci" : route->credential == CREDENTIAL_MINT ? "token" : "problem";
    char name[32];

    if (row->status == 0) (void)snprintf(name, sizeof name, "%s-default", kind);
    else (void)snprintf(name, sizeof name, "%s-%u", kind, row->status);
    if (json_object_get(document->responses, name) == NULL) {
        json_t *response = json_pack("{s:s, s:o}", "description", row->meaning, "content", error_content(document, route));
        if (row->header != NULL) set(response, "headers", header_of(row));
        set(document->responses, name, response);
    }
    return json_pack("{s:o}", "$ref", json_sprintf("#/components/responses/%s", name));
}

static json_t *responses_of(struct document *document, const struct route *route, bool is_head)
{
    static const struct error_row other = {0, ALWAYS, NULL, "Any other error."};
    const struct route_about *about = route->about;
    json_t *responses = json_object();
    char status[16];

    for (size_t i = 0; i < ROUTE_STATUSES_MAX && about->statuses[i] != 0; i++) {
        (void)snprintf(status, sizeof status, "%u", about->statuses[i]);
        const bool is_empty = is_head || about->statuses[i] == 204 || about->statuses[i] >= 300;
        json_t *content = is_empty ? NULL : openapi_content(document->schemas, about->answer, false);
        set(responses, status,
            json_pack("{s:s, s:o*, s:o*}", "description", about->answer->meaning, "headers",
                      about->statuses[i] == 200 ? openapi_headers(route) : NULL, "content", content));
    }
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        (void)snprintf(status, sizeof status, "%u", errors[i].status);
        if (can_be(&errors[i], route) || is_own(route, errors[i].status))
            set(responses, status, error_answer(document, route, &errors[i]));
    }
    set(responses, "default", error_answer(document, route, &other));
    return responses;
}

/* ---- Operations ---- */

/* OpenAPI has no name for such a credential; the members of the body say what they are. `{}`: none of the named ones. */
static bool has_credential_in_body(const struct route *route)
{
    return route->credential == CREDENTIAL_CODE || route->credential == CREDENTIAL_KEY;
}

static json_t *security_of(const struct route *route)
{
    if (route->credential == CREDENTIAL_NONE) return json_array();
    if (has_credential_in_body(route)) return json_pack("[{}]");
    if (route->credential == CREDENTIAL_RUNNER) return json_pack("[{s:[]}]", "runner");
    if (is_of_oci(route) || route->credential == CREDENTIAL_MINT) return json_pack("[{s:[]}, {s:[]}]", "bearer", "basic");
    return json_pack("[{s:[]}]", "bearer");
}

static json_t *tag_of(const struct route *route)
{
    static const char api[] = "/api/v1/";

    if (is_of_oci(route)) return json_string("oci");
    if (strcmp(route->pattern, "/token") == 0) return json_string("token");
    if (!starts_with(route->pattern, api)) return json_string("server");
    const char *segment = route->pattern + sizeof api - 1;
    return json_stringn(segment, strcspn(segment, "/."));
}

static json_t *actions_of(const struct route *route)
{
    json_t *list = json_array();

    for (size_t i = 1; i <= route->action_count; i++)
        (void)json_array_append_new(list, json_string(action_name(route->actions[i])));
    return list;
}

static const char *record_of(const struct route *route)
{
    switch (route->record) {
    case RECORD_FIRST: return "before the answer";
    case RECORD_WITH_CHANGE: return "with the change";
    case RECORD_OF_CHANGES: return "if something changes";
    case RECORD_NONE: break;
    }
    return "not";
}

static void add_body(struct document *document, const struct route *route, json_t *operation)
{
    const struct schema *body = route->about->body;
    json_t *content = openapi_content(document->schemas, body, true);

    if (content == NULL) return;
    const bool is_required = (body->flags & SCHEMA_MAY_BE_LEFT_OUT) == 0 && route->body != BODY_STREAMED;
    set(operation, "requestBody", json_pack("{s:b, s:o}", "required", is_required ? 1 : 0, "content", content));
    if (route->body_limit > 0) set(operation, "x-sijil-body-bytes-max", json_integer((json_int_t)route->body_limit));
}

static json_t *describe(struct document *document, const struct route *route, bool is_head)
{
    json_t *operation = json_pack("{s:o, s:s, s:[o]}", "operationId", json_sprintf("%s%s", route->name, is_head ? "_head" : ""),
                                  "summary", route->about->summary, "tags", tag_of(route));

    set(operation, "parameters", parameters_of(document, route));
    add_body(document, route, operation);
    set(operation, "responses", responses_of(document, route, is_head));
    set(operation, "security", security_of(route));
    set(operation, "x-sijil-actions", actions_of(route));
    set(operation, "x-sijil-recorded", json_string(record_of(route)));
    return operation;
}

static void add_route(struct document *document, const struct route *route)
{
    char path[OPENAPI_PATH_SIZE], verb[16];

    openapi_path(route, path);
    if (json_object_get(document->paths, path) == NULL) set(document->paths, path, json_object());
    json_t *item = json_object_get(document->paths, path);
    for (enum method method = 0; method < METHOD_COUNT; method++) {
        if ((route->methods & METHOD_BIT(method)) == 0) continue;
        size_t length = 0;
        for (const char *name = method_name(method); name[length] != '\0' && length + 1 < sizeof verb; length++)
            verb[length] = (char)tolower((unsigned char)name[length]);
        verb[length] = '\0';
        set(item, verb, describe(document, route, method == METHOD_HEAD));
    }
}

/* Request bodies first: a schema of both requests and answers allows no other members. */
static void add_routes(struct document *document, const struct route_table *table)
{
    for (size_t i = 0; i < table->count; i++) json_decref(openapi_content(document->schemas, table->rows[i].about->body, true));
    for (size_t i = 0; i < table->count; i++) add_route(document, &table->rows[i]);
}

static const char introduction[] =
    "A registry for machine-learning artifacts that can show where every byte is, who touched it, and that the record of it is complete. "
    "Below /v2 it is OCI Distribution; below /api/v1 it is administered. Get a token for the scope registry:admin:* at /token, with the "
    "name and the secret of a robot. The scope only says that the token may be used here: rights are decided for each request, by the "
    "actions in x-sijil-actions. Bodies have no unknown members, and queries no unknown or repeated parameters. Lists page by key, with a Link to the next page. "
    "Times are RFC 3339 in UTC, except in signed documents, which are shown as they were signed.";

static json_t *whole(const struct document *document)
{
    json_t *schemes = json_pack("{s:{s:s, s:s, s:s, s:s}, s:{s:s, s:s}, s:{s:s, s:s, s:s}}", "bearer", "type", "http", "scheme",
                                "bearer", "bearerFormat", "JWT", "description", "a token of /token, or of a trusted issuer",
                                "runner", "type", "mutualTLS", "description", "the client certificate of an enrolled runner",
                                "basic", "type", "http", "scheme", "basic", "description", "the name and the secret of a robot");

    return json_pack("{s:s, s:{s:s, s:s, s:s}, s:[{s:s}], s:O, s:{s:O, s:O, s:O, s:o}}", "openapi", "3.1.0", "info", "title",
                     "Sijil", "version", "1", "description", introduction, "servers", "url", "/", "paths", document->paths,
                     "components", "schemas", document->schemas, "responses", document->responses, "parameters",
                     document->parameters, "securitySchemes", schemes);
}

struct result openapi_write(const struct route_table *table, struct buffer *text, struct error *err)
{
    const unsigned before = json_lacks();
    OWNED_JSON paths = json_object();
    OWNED_JSON schemas = json_object();
    OWNED_JSON responses = json_object();
    OWNED_JSON parameters = json_object();
    struct document document = {paths, schemas, responses, parameters};

    add_routes(&document, table);
    OWNED_JSON value = whole(&document);
    char *dump = value == NULL ? NULL : json_dumps(value, JSON_COMPACT);
    const bool is_whole = dump != NULL && json_lacks() == before;
    const struct result result =
        is_whole ? buffer_add_text(text, dump, err) : failure(err, ERROR_NO_MEMORY, "no memory for the description");
    free(dump);
    return result;
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    const struct gateway *gateway = request->gateway;
    const enum condition condition = condition_of_request(&request->headers, gateway->description_etag);

    (void)pg, (void)err;
    if (condition == CONDITION_NO_MATCH)
        response_problem(request, 412, "The precondition failed", "the description is not the one that If-Match names");
    else if (condition == CONDITION_A_MATCH) response_not_modified(request, gateway->description.length);
    else response_bytes(request, 200, "application/json", buffer_bytes(&gateway->description));
    response_header(request, "ETag", "%s", gateway->description_etag);
    return SUCCESS;
}

const struct handler handler_openapi = {.handle = handle};
