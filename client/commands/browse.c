/* `sijil ls`, `inspect` and `tag`: the content of a registry, without blobs. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "client/address.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/manifest.h"
#include "client/progress.h"
#include "client/terminal.h"
#include "registry/names/reference.h"

#define COUNT(array)  (sizeof(array) / sizeof((array)[0]))
#define CATALOG_SCOPE "registry:catalog:*"
#define PAGES_MAX     10000 /* of a thousand repositories each */

/* ---- ls ---- */

static bool is_below(const char *name, const char *folder)
{
    const size_t length = strlen(folder);

    return length == 0 || (strncmp(name, folder, length) == 0 && (name[length] == '/' || name[length] == '\0'));
}

static struct result take_repositories(const struct http_response *response, const char *host, const char *folder, json_t *rows,
                                       struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(json_read(buffer_bytes(&response->body), HTTP_ANSWER_MAX, &answer, err));
    const json_t *names = json_object_get(answer, "repositories");
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        struct repository_name split;
        if (name == NULL) return failure(err, ERROR_INVALID, "the registry's list of repositories has something else in it");
        TRY(repository_name_split(bytes_of_text(name), &split, err));
        if (is_below(name, folder) && json_array_append_new(rows, json_pack("{s:s,s:s}", "host", host, "repository", name)) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    }
    return SUCCESS;
}

struct result command_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"REPOSITORY", "repository"}};
    const char *operand = invocation->operands[0], *slash = strchr(operand, '/');
    OWNED(session) *session = NULL;
    OWNED_JSON rows = json_array();
    char host[256], folder[256] = "", path[2048] = "/v2/_catalog?n=1000";
    const size_t length = slash == NULL ? strlen(operand) : (size_t)(slash - operand);

    if (rows == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    TRY(line_check(invocation, address_check(operand, err)));
    if (length == 0 || length >= sizeof host)
        return line_check(invocation, failure(err, ERROR_INVALID, "'%.80s' is not HOST[:PORT][/NAME]", operand));
    (void)snprintf(host, sizeof host, "%.*s", (int)length, operand);
    if (slash != NULL) (void)snprintf(folder, sizeof folder, "%.*s", (int)(sizeof folder - 1), slash + 1);
    for (size_t last = strlen(folder); last > 0 && folder[last - 1] == '/'; last--) folder[last - 1] = '\0';
    TRY(command_session(invocation, host, &session, err));
    for (unsigned page = 0; page < PAGES_MAX && path[0] != '\0'; page++) {
        OWNED_RESPONSE response = RESPONSE;
        const struct http_request request = {.method = "GET", .path = path, .wanted = 200};
        TRY(session_call(session, CATALOG_SCOPE, &request, &response, err));
        TRY(take_repositories(&response, host, folder, rows, err));
        next_page(&response, path, sizeof path);
    }
    if (folder[0] != '\0' && json_array_size(rows) == 0)
        return failure(err, ERROR_NOT_FOUND, "%s: no repository that you may see is called %.150s or lies below it", host,
                       folder);
    return api_print_rows(invocation, rows, columns, COUNT(columns), err);
}

/* ---- inspect ---- */

static struct result add_part(const json_t *descriptor, json_t *rows, uint64_t *total, struct error *err)
{
    const json_t *annotations = json_object_get(descriptor, "annotations"), *platform = json_object_get(descriptor, "platform");
    const char *title = json_text_of(annotations, "org.opencontainers.image.title");
    int64_t size = 0;
    char size_text[24], platform_text[80] = "";

    (void)json_integer_of(descriptor, "size", &size);
    if (size > 0) *total += (uint64_t)size;
    format_size(size > 0 ? (uint64_t)size : 0, size_text);
    if (json_text_of(platform, "os") != NULL)
        (void)snprintf(platform_text, sizeof platform_text, "%.30s/%.30s", json_text_of(platform, "os"),
                       json_text_of(platform, "architecture") == NULL ? "?" : json_text_of(platform, "architecture"));
    OWNED_JSON row = json_pack("{s:O?, s:s, s:O?, s:s}", "digest", json_object_get(descriptor, "digest"), "size", size_text,
                               "type", json_object_get(descriptor, "mediaType"), "name", title != NULL ? title : platform_text);
    return row != NULL && json_array_append(rows, row) == 0 ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for a list");
}

static void print_member(const char *label, const char *value)
{
    char cell[CELL_MAX];

    if (value == NULL || value[0] == '\0') return;
    (void)snprintf(cell, sizeof cell, "%s", value);
    terminal_sanitize(cell);
    (void)printf("%-13s %s\n", label, cell);
}

static void print_annotations(json_t *annotations)
{
    char cell[CELL_MAX], name[CELL_MAX];
    const char *key;
    json_t *value;

    json_object_foreach (annotations, key, value) {
        cell_text(value, cell);
        (void)snprintf(name, sizeof name, "%s", key);
        terminal_sanitize(name);
        (void)printf("annotation    %s=%s\n", name, cell);
    }
}

static struct result print_summary(const struct invocation *invocation, const char *reference, const struct manifest *manifest,
                                   struct error *err)
{
    static const struct column columns[] = {{"DIGEST", "digest"}, {"SIZE", "size"}, {"TYPE", "type"}, {"NAME", "name"}};
    const json_t *list = json_object_get(manifest->json, manifest_is_index(manifest) ? "manifests" : "layers");
    const json_t *config = json_object_get(manifest->json, "config");
    OWNED_JSON rows = json_array();
    uint64_t total = 0;
    char total_text[24];

    for (size_t i = 0; i < json_array_size(list); i++) TRY(add_part(json_array_get(list, i), rows, &total, err));
    format_size(total, total_text);
    print_member("reference", reference);
    print_member("digest", manifest->digest);
    print_member("type", manifest->media_type);
    print_member("artifact", json_text_of(manifest->json, "artifactType"));
    print_member("config", json_text_of(config, "mediaType"));
    print_member("subject", json_text_of(json_object_get(manifest->json, "subject"), "digest"));
    print_member("size", total_text);
    print_annotations(json_object_get(manifest->json, "annotations"));
    (void)putchar('\n');
    return api_print_rows(invocation, rows, columns, COUNT(columns), err);
}

struct result command_inspect(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED_MANIFEST manifest = MANIFEST;
    struct remote_reference target;
    char scope[400];

    TRY(line_check(invocation, remote_reference_parse(invocation->operands[0], &target, err)));
    (void)snprintf(scope, sizeof scope, "repository:%s:pull", target.repository);
    TRY(command_session(invocation, target.host, &session, err));
    TRY(manifest_fetch(session, scope, &target, ACCEPTED_MANIFESTS ", " ACCEPTED_INDEXES, &manifest, err));
    if (invocation_option(invocation, 'r') != NULL)
        return fwrite(manifest.bytes.data, 1, manifest.bytes.length, stdout) == manifest.bytes.length
                   ? SUCCESS
                   : failure(err, ERROR_INVALID, "can't write to standard output");
    if (!invocation->json) return print_summary(invocation, invocation->operands[0], &manifest, err);
    OWNED_JSON object = json_pack("{s:s,s:s,s:s,s:O}", "reference", invocation->operands[0], "digest", manifest.digest,
                                  "mediaType", manifest.media_type, "manifest", manifest.json);
    return object == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for an answer") : api_print_json(object, err);
}

/* ---- tag ---- */

struct result command_tag(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED_MANIFEST manifest = MANIFEST;
    OWNED_JSON tags = json_array();
    struct remote_reference source;
    char scope[400];

    TRY(line_check(invocation, remote_reference_parse(invocation->operands[0], &source, err)));
    for (unsigned i = 1; i < invocation->operand_count; i++) {
        if (!tag_is_valid(bytes_of_text(invocation->operands[i])))
            return line_check(invocation,
                              failure(err, ERROR_INVALID, "'%.60s' is no tag: letters, digits, '_', '.' and '-', at most %d",
                                      invocation->operands[i], TAG_MAX));
        if (json_array_append_new(tags, json_string(invocation->operands[i])) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for tags");
    }
    (void)snprintf(scope, sizeof scope, "repository:%s:pull,push", source.repository);
    TRY(command_session(invocation, source.host, &session, err));
    TRY(manifest_fetch(session, scope, &source, ACCEPTED_MANIFESTS ", " ACCEPTED_INDEXES, &manifest, err));
    for (unsigned i = 1; i < invocation->operand_count; i++) {
        struct remote_reference target = source;
        target.is_digest = false;
        (void)snprintf(target.reference, sizeof target.reference, "%s", invocation->operands[i]); /* a tag: TAG_MAX letters */
        TRY(manifest_put(session, scope, &target, &manifest, err));
    }
    if (!invocation->json) {
        (void)printf("%s\n", manifest.digest);
        return SUCCESS;
    }
    OWNED_JSON object = json_pack("{s:s,s:s,s:O}", "reference", invocation->operands[0], "digest", manifest.digest, "tags", tags);
    return object == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for an answer") : api_print_json(object, err);
}
