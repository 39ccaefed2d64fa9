#include "client/manifest.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "client/local.h"

void manifest_done(struct manifest *manifest)
{
    buffer_done(&manifest->bytes);
    json_decref(manifest->json);
    manifest->json = NULL;
}

/* Adds the reference to a failure, and how to list what exists. */
static struct result about(struct session *session, const struct remote_reference *reference, struct result result,
                           struct error *err)
{
    char text[800];

    if (result.ok) return result;
    (void)snprintf(text, sizeof text, "%s/%s%c%s", reference->host, reference->repository, reference->is_digest ? '@' : ':',
                   reference->reference);
    report_explain(session_report(session), "reference", text);
    failure_name(text, err);
    if (err->kind != ERROR_NOT_FOUND) return result;
    (void)snprintf(text, sizeof text, "sijil tags %s/%s, or sijil ls %s", reference->host, reference->repository,
                   reference->host);
    report_explain(session_report(session), "try", text);
    return result;
}

struct result manifest_fetch(struct session *session, const char *scope, const struct remote_reference *reference,
                             const char *accept, struct manifest *manifest, struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;
    struct buffer OWNED_BUFFER path = BUFFER(2048);
    struct digest wanted;

    TRY(buffer_format(&path, err, "/v2/%s/manifests/%s", reference->repository, reference->reference));
    const struct http_request request = {.method = "GET", .path = buffer_text(&path), .accept = accept, .wanted = 200};
    TRY(about(session, reference, session_call(session, scope, &request, &response, err), err));
    const char *claimed = reference->is_digest ? reference->reference : response.digest;
    TRY(digest_parse(bytes_of_text(claimed), &wanted, err));
    const struct digest got = digest_of(wanted.algorithm, buffer_bytes(&response.body));
    digest_format(&got, manifest->digest);
    if (!digest_equal(&wanted, &got)) return failure(err, ERROR_CORRUPT, "the manifest does not match its digest %.80s", claimed);
    TRY(json_read(buffer_bytes(&response.body), HTTP_ANSWER_MAX, &manifest->json, err));
    (void)snprintf(manifest->media_type, sizeof manifest->media_type, "%.*s", (int)strcspn(response.content_type, "; "),
                   response.content_type);
    return buffer_add(&manifest->bytes, response.body.data, response.body.length, err);
}

struct result manifest_put(struct session *session, const char *scope, const struct remote_reference *target,
                           const struct manifest *manifest, struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;
    struct buffer OWNED_BUFFER path = BUFFER(2048);

    TRY(buffer_format(&path, err, "/v2/%s/manifests/%s", target->repository, target->reference));
    const struct http_request request = {.method = "PUT",
                                         .path = buffer_text(&path),
                                         .content_type = manifest->media_type,
                                         .body = buffer_bytes(&manifest->bytes),
                                         .wanted = 201};
    return about(session, target, session_call(session, scope, &request, &response, err), err);
}

bool manifest_is_index(const struct manifest *manifest)
{
    return strstr(ACCEPTED_INDEXES, manifest->media_type) != NULL && manifest->media_type[0] != '\0';
}
