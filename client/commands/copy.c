/* `sijil copy`: copies manifests byte for byte; a blob is mounted, or fetched into an unnamed file and pushed from there. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/fetch.h"
#include "client/jobs.h"
#include "client/local.h"
#include "client/manifest.h"
#include "client/upload.h"

#define DEPTH_MAX 4     /* of indexes in indexes; deeper ones do not occur */
#define PARTS_MAX 10000 /* of one manifest or index */

struct copy {
    struct invocation *invocation;
    struct session *from, *to; /* the same session inside one registry */
    struct remote_reference source, target;
    const char *notes; /* notes_folder() */
    char pull_scope[400], push_scope[400], mount_scope[800];
    unsigned parallel, blobs, manifests;
    const json_t *parts; /* of the manifest that is being copied */
    atomic_bool wants_sessions;
};

static struct result ask_mount(struct copy *copy, struct session *session, const char *digest, bool *is_there_out,
                               struct error *err)
{
    OWNED_RESPONSE response = RESPONSE, ended = RESPONSE;
    struct buffer OWNED_BUFFER path = BUFFER(2048);
    struct error ignored = {0};

    TRY(buffer_format(&path, err, "/v2/%s/blobs/uploads/?mount=", copy->target.repository));
    TRY(http_escape(&path, digest, err));
    TRY(buffer_format(&path, err, "&from=%s", copy->source.repository));
    const struct http_request request = {.method = "POST", .path = buffer_text(&path), .wanted = 201, .also = 202};
    TRY(session_call(session, copy->mount_scope, &request, &response, err));
    *is_there_out = response.status == 201;
    if (*is_there_out || response.location[0] == '\0') return SUCCESS;
    /* A failed mount is answered with an upload session, which this program does not use. */
    const struct http_request end = {.method = "DELETE", .path = response.location, .is_session = true, .wanted = 204};
    (void)session_call(session, copy->push_scope, &end, &ended, &ignored).ok;
    return SUCCESS;
}

static const char *temporary_folder(void)
{
    const char *folder = getenv("TMPDIR");

    return folder != NULL && folder[0] == '/' ? folder : "/var/tmp";
}

static struct result push_fetched(struct copy *copy, struct session *session, const struct fetch *fetch, struct error *err)
{
    const struct upload upload = {.session = session,
                                  .host = copy->target.host,
                                  .repository = copy->target.repository,
                                  .scope = copy->push_scope,
                                  .label = fetch->name,
                                  .digest = fetch->digest,
                                  .fd = fetch->fd,
                                  .size = fetch->size,
                                  .notes = copy->notes,
                                  .quiet = copy->invocation->json,
                                  .wants_sessions = &copy->wants_sessions};
    const struct result pushed = upload_blob(&upload, err);

    if (!pushed.ok) failure_name(fetch->name, err);
    return pushed;
}

static struct result carry(struct copy *copy, struct session *from, struct session *to, const json_t *part, struct error *err)
{
    OWNED_FD fd = -1;
    OWNED(hasher) *hasher = NULL;
    struct digest digest;
    struct progress progress;
    const char *title = json_text_of(json_object_get(part, "annotations"), "org.opencontainers.image.title");
    int64_t size = -1;
    struct fetch fetch = {.session = from,
                          .repository = copy->source.repository,
                          .scope = copy->pull_scope,
                          .digest = json_text_of(part, "digest"),
                          .progress = &progress};

    if (!json_integer_of(part, "size", &size) || size < 0)
        return failure(err, ERROR_CORRUPT, "a part of the manifest has no size");
    fetch.size = (uint64_t)size;
    fetch.name = title != NULL ? title : fetch.digest;
    TRY(digest_parse(bytes_of_text(fetch.digest), &digest, err));
    TRY(hasher_new(digest.algorithm, &hasher, err));
    TRY(local(file_open(temporary_folder(), O_TMPFILE | O_RDWR, 0600, &fd, err), temporary_folder(), err));
    fetch.hasher = hasher;
    fetch.fd = fd;
    progress_begin(&progress, fetch.name, 0, fetch.size, copy->invocation->json);
    TRY(fetch_blob(&fetch, err));
    TRY(fetch_check(&fetch, err));
    progress_end(&progress, "pulled and verified");
    return push_fetched(copy, to, &fetch, err);
}

static struct result copy_part(void *context, size_t index, struct session *session, struct error *err)
{
    struct copy *copy = context;
    const json_t *part = json_array_get(copy->parts, index);
    const char *digest = json_text_of(part, "digest");
    bool is_there = false;

    if (digest == NULL) return failure(err, ERROR_CORRUPT, "a part of the manifest has no digest");
    if (json_array_size(json_object_get(part, "urls")) > 0) return SUCCESS; /* a registry need not hold these bytes */
    const struct upload asked = {
        .session = session, .scope = copy->push_scope, .repository = copy->target.repository, .digest = digest};
    TRY(upload_is_there(&asked, &is_there, err));
    if (!is_there && copy->from == copy->to) TRY(ask_mount(copy, session, digest, &is_there, err));
    if (is_there) return SUCCESS;
    if (copy->from == copy->to) return carry(copy, session, session, part, err);
    OWNED(session) *from = NULL;
    TRY(session_clone(copy->from, session_report(session), &from, err));
    return carry(copy, from, session, part, err);
}

static struct result copy_blobs(struct copy *copy, const struct manifest *manifest, struct error *err)
{
    OWNED_JSON parts = json_array();
    json_t *config = json_object_get(manifest->json, "config");

    if (parts == NULL || json_array_extend(parts, json_object_get(manifest->json, "layers")) != 0 ||
        json_array_size(parts) > PARTS_MAX || (config != NULL && json_array_append(parts, config) != 0))
        return failure(err, ERROR_INVALID, "%s is no manifest that can be copied", manifest->digest);
    const struct jobs jobs = {.count = json_array_size(parts), .parallel = copy->parallel, .work = copy_part, .context = copy};
    copy->parts = parts;
    copy->blobs += (unsigned)json_array_size(parts);
    return jobs_run(&jobs, copy->to, err);
}

static struct result copy_manifest(struct copy *copy, const struct remote_reference *what, const char *as, unsigned depth,
                                   char digest_out[DIGEST_TEXT_SIZE], struct error *err);

/* NOLINTNEXTLINE(misc-no-recursion): indexes are followed to DEPTH_MAX */
static struct result copy_listed(struct copy *copy, const struct manifest *index, unsigned depth, struct error *err)
{
    const json_t *list = json_object_get(index->json, "manifests");
    char ignored[DIGEST_TEXT_SIZE];

    if (depth == DEPTH_MAX || json_array_size(list) > PARTS_MAX)
        return failure(err, ERROR_LIMIT, "%s lists more than %d manifests, or nests deeper than %d", index->digest, PARTS_MAX,
                       DEPTH_MAX);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *digest = json_text_of(json_array_get(list, i), "digest");
        struct remote_reference listed = copy->source;
        if (digest == NULL || strlen(digest) >= sizeof listed.reference)
            return failure(err, ERROR_CORRUPT, "%s lists a manifest without a digest", index->digest);
        (void)snprintf(listed.reference, sizeof listed.reference, "%s", digest);
        listed.is_digest = true;
        TRY(copy_manifest(copy, &listed, digest, depth + 1, ignored, err));
    }
    return SUCCESS;
}

/* NOLINTNEXTLINE(misc-no-recursion): indexes are followed to DEPTH_MAX */
static struct result copy_manifest(struct copy *copy, const struct remote_reference *what, const char *as, unsigned depth,
                                   char digest_out[DIGEST_TEXT_SIZE], struct error *err)
{
    OWNED_MANIFEST manifest = MANIFEST;

    TRY(manifest_fetch(copy->from, copy->pull_scope, what, ACCEPTED_MANIFESTS ", " ACCEPTED_INDEXES, &manifest, err));
    if (manifest_is_index(&manifest)) TRY(copy_listed(copy, &manifest, depth, err));
    else TRY(copy_blobs(copy, &manifest, err));
    copy->manifests++;
    memcpy(digest_out, manifest.digest, sizeof manifest.digest);
    struct remote_reference target = copy->target;
    (void)snprintf(target.reference, sizeof target.reference, "%s", as == NULL ? manifest.digest : as);
    target.is_digest = as == NULL || strchr(as, ':') != NULL;
    return manifest_put(copy->to, copy->push_scope, &target, &manifest, err);
}

/* The tag at the target: the one given there, else that of the source, else none. */
static const char *name_at_target(const struct copy *copy)
{
    if (copy->target.was_given) return copy->target.reference;
    return copy->source.is_digest ? NULL : copy->source.reference;
}

static struct result copy_all(struct copy *copy, struct error *err)
{
    char digest[DIGEST_TEXT_SIZE];

    TRY(copy_manifest(copy, &copy->source, name_at_target(copy), 0, digest, err));
    if (!copy->invocation->json) {
        (void)printf("%s\n", digest);
        return SUCCESS;
    }
    const char *name = name_at_target(copy);
    char target[700];
    (void)snprintf(target, sizeof target, "%s/%s%c%s", copy->target.host, copy->target.repository, name == NULL ? '@' : ':',
                   name == NULL ? digest : name);
    OWNED_JSON object = json_pack("{s:s,s:s,s:s,s:i,s:i}", "source", copy->invocation->operands[0], "reference", target, "digest",
                                  digest, "manifests", (int)copy->manifests, "blobs", (int)copy->blobs);
    return object == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for an answer") : api_print_json(object, err);
}

struct result command_copy(struct invocation *invocation, struct error *err)
{
    OWNED(session) *from = NULL;
    OWNED(session) *to = NULL;
    struct copy copy = {.invocation = invocation};

    TRY(line_check(invocation, remote_reference_parse(invocation->operands[0], &copy.source, err)));
    TRY(line_check(invocation, remote_reference_parse(invocation->operands[1], &copy.target, err)));
    if (copy.target.is_digest)
        return line_check(invocation, failure(err, ERROR_INVALID, "copy to a tag; the digest stays what it is"));
    TRY(line_check(invocation, jobs_option(invocation, &copy.parallel, err)));
    (void)snprintf(copy.pull_scope, sizeof copy.pull_scope, "repository:%s:pull", copy.source.repository);
    (void)snprintf(copy.push_scope, sizeof copy.push_scope, "repository:%s:pull,push", copy.target.repository);
    (void)snprintf(copy.mount_scope, sizeof copy.mount_scope, "%s %s", copy.push_scope, copy.pull_scope);
    TRY(command_session(invocation, copy.target.host, &to, err));
    copy.from = copy.to = to;
    if (strcmp(copy.source.host, copy.target.host) != 0) {
        TRY(command_session(invocation, copy.source.host, &from, err));
        copy.from = from;
    }
    copy.notes = notes_folder(invocation);
    return copy_all(&copy, err);
}
