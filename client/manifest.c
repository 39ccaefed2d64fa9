#include "client/manifest.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"

void manifest_done(struct manifest *manifest)
{
    buffer_done(&manifest->bytes);
    json_decref(manifest->json);
    manifest->json = NULL;
}

struct result manifest_fetch(struct session *session, const char *scope, const struct remote_reference *reference, const char *accept,
                             struct manifest *manifest, struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;
    struct buffer OWNED_BUFFER path = BUFFER(2048);
    struct digest wanted;

    TRY(buffer_format(&path, err, "/v2/%s/manifests/%s", reference->repository, reference->reference));
    const struct http_request request = {.method = "GET", .path = buffer_text(&path), .accept = accept, .wanted = 200};
    TRY(session_call(session, scope, &request, &response, err));
    const char *claimed = reference->is_digest ? reference->reference : response.digest;
    TRY(digest_parse(bytes_of_text(claimed), &wanted, err));
    const struct digest got = digest_of(wanted.algorithm, buffer_bytes(&response.body));
    digest_format(&got, manifest->digest);
    if (!digest_equal(&wanted, &got))
        return failure(err, ERROR_CORRUPT, "the manifest does not match its digest %.80s", claimed);
    TRY(json_read(buffer_bytes(&response.body), HTTP_ANSWER_MAX, &manifest->json, err));
    (void)snprintf(manifest->media_type, sizeof manifest->media_type, "%.*s", (int)strcspn(response.content_type, "; "),
                   response.content_type);
    return buffer_add(&manifest->bytes, response.body.data, response.body.length, err);
}

struct result manifest_put(struct session *session, const char *scope, const char *repository, const char *reference,
                           const struct manifest *manifest, struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;
    struct buffer OWNED_BUFFER path = BUFFER(2048);

    TRY(buffer_format(&path, err, "/v2/%s/manifests/%s", repository, reference));
    const struct http_request request = {.method = "PUT", .path = buffer_text(&path), .content_type = manifest->media_type,
                                         .body = buffer_bytes(&manifest->bytes), .wanted = 201};
    return session_call(session, scope, &request, &response, err);
}

bool manifest_is_index(const struct manifest *manifest)
{
    return strstr(ACCEPTED_INDEXES, manifest->media_type) != NULL && manifest->media_type[0] != '\0';
}
