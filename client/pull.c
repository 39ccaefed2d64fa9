/* `sijil pull`: manifest, then each layer with a name into the target folder, verified while receiving. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "client/commands_priv.h"
#include "client/hash.h"
#include "client/jobs.h"
#include "client/layout.h"
#include "client/local.h"
#include "client/reference.h"
#include "client/session.h"
#include "crypto/digest.h"
#include "registry/manifest_names.h"

#define LAYERS_MAX 10000 /* more than any model has files */
#define ATTEMPTS_MAX 6
#define ACCEPTED                                                                                       \
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"

struct pull {
    struct invocation *invocation;
    struct session *session;
    struct remote_reference source;
    char scope[400];
    const json_t *layers;
    int folder;
    atomic_uint written, skipped;
    struct progress_group *group; /* when several layers come at a time, else NULL */
};

/* One layer on its way: into ".<name>.sijil-part" beside its place, hashed as it comes. */
struct incoming {
    struct session *session;
    const char *title, *digest_text;
    char part[1100];
    uint64_t size, offset;
    int fd;
    struct hasher *hasher;
    struct progress progress;
};

static struct result take_piece(void *context, struct bytes piece, struct error *err)
{
    struct incoming *incoming = context;

    if (piece.length > incoming->size - incoming->offset)
        return failure(err, ERROR_CORRUPT, "%.100s: the registry sent more than %" PRIu64 " bytes", incoming->title,
                       incoming->size);
    TRY(local(file_write_at(incoming->fd, piece.data, piece.length, incoming->offset, err), incoming->part, err));
    hasher_add(incoming->hasher, piece);
    incoming->offset += piece.length;
    progress_set(&incoming->progress, incoming->offset);
    return SUCCESS;
}

/* What an earlier pull left is hashed and kept; the digest at the end says whether it was any good. */
static struct result take_over_part(const struct pull *pull, struct incoming *incoming, struct error *err)
{
    struct progress checking;
    uint64_t there = 0;

    TRY(local(file_size(incoming->fd, &there, err), incoming->part, err));
    if (there > incoming->size) there = 0;
    if (ftruncate(incoming->fd, (off_t)there) != 0)
        return failure(err, ERROR_INVALID, "can't cut %.100s: %s", incoming->part, strerror(errno));
    progress_begin(&checking, incoming->title, 0, there,
                   pull->invocation->json || pull->group != NULL || there < ((uint64_t)256 << 20));
    TRY(local(hash_file(incoming->fd, there, incoming->hasher, &checking, &incoming->offset, err), incoming->part, err));
    progress_end(&checking, "were here, and are hashed again");
    return SUCCESS;
}

static struct result receive_rest(struct pull *pull, struct incoming *incoming, struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;
    struct buffer OWNED_BUFFER path = BUFFER(2048);
    char range[64];

    TRY(buffer_format(&path, err, "/v2/%s/blobs/%s", pull->source.repository, incoming->digest_text));
    (void)snprintf(range, sizeof range, "bytes=%" PRIu64 "-", incoming->offset);
    const struct http_request request = {.method = "GET", .path = buffer_text(&path), .take = take_piece,
                                         .range = incoming->offset == 0 ? NULL : range, .context = incoming,
                                         .wanted = incoming->offset == 0 ? 200 : 206};
    return session_call(incoming->session, pull->scope, &request, &response, err);
}

static struct result receive_with_patience(struct pull *pull, struct incoming *incoming, struct error *err)
{
    for (unsigned attempt = 0; incoming->offset < incoming->size || attempt == 0; attempt++) {
        const uint64_t before = incoming->offset;
        if (incoming->offset == incoming->size && incoming->size > 0) return SUCCESS;
        if (receive_rest(pull, incoming, err).ok) return SUCCESS;
        if (err->kind != ERROR_UNAVAILABLE || attempt >= ATTEMPTS_MAX) return (struct result){.ok = false};
        session_pause(incoming->session, 1u << attempt, err);
        if (session_gives_up(incoming->session)) return (struct result){.ok = false};
        if (incoming->offset > before) attempt = 0;
    }
    return SUCCESS;
}

static struct result check_and_place(struct pull *pull, struct incoming *incoming, struct error *err)
{
    struct digest wanted;
    const struct digest got = hasher_digest(incoming->hasher);

    TRY(digest_parse(bytes_of_text(incoming->digest_text), &wanted, err));
    if (incoming->offset != incoming->size || !digest_equal(&wanted, &got)) {
        if (ftruncate(incoming->fd, 0) != 0) /* nothing of it may be taken over by the next pull */
            return failure(err, ERROR_CORRUPT, "%.150s is damaged and can't be emptied: remove it", incoming->part);
        return failure(err, ERROR_CORRUPT, "%.100s does not match its digest %.80s; pull it again", incoming->title,
                       incoming->digest_text);
    }
    TRY(local(file_sync(incoming->fd, err), incoming->part, err));
    return local(title_rename(pull->folder, incoming->part, incoming->title, err), incoming->title, err);
}

static struct result receive(struct pull *pull, struct incoming *incoming, struct error *err)
{
    const char *slash = strrchr(incoming->title, '/');
    const int head = slash == NULL ? 0 : (int)(slash + 1 - incoming->title);

    (void)snprintf(incoming->part, sizeof incoming->part, "%.*s.%s" PART_ENDING, head, incoming->title,
                   incoming->title + head);
    TRY(local(title_open(pull->folder, incoming->part, O_RDWR | O_CREAT, &incoming->fd, err), incoming->part, err));
    TRY(take_over_part(pull, incoming, err));
    progress_begin_in(&incoming->progress, pull->group, incoming->title, incoming->offset, incoming->size,
                      pull->invocation->json);
    TRY(receive_with_patience(pull, incoming, err));
    TRY(check_and_place(pull, incoming, err));
    progress_end(&incoming->progress, "pulled and verified");
    pull->written++;
    return SUCCESS;
}

/* Is the very file there already? */
static bool is_there(const struct pull *pull, const struct incoming *incoming)
{
    OWNED_FD fd = -1;
    OWNED(hasher) *hasher = NULL;
    struct error ignored = {0};
    struct digest wanted;
    uint64_t size = 0, hashed = 0;

    if (!title_open(pull->folder, incoming->title, O_RDONLY, &fd, &ignored).ok) return false;
    if (!file_size(fd, &size, &ignored).ok || size != incoming->size) return false;
    if (!hasher_new(DIGEST_SHA256, &hasher, &ignored).ok) return false;
    if (!hash_file(fd, size, hasher, NULL, &hashed, &ignored).ok) return false;
    const struct digest got = hasher_digest(hasher);
    return digest_parse(bytes_of_text(incoming->digest_text), &wanted, &ignored).ok && digest_equal(&wanted, &got);
}

static const char *layer_name(const json_t *layer)
{
    const json_t *annotations = json_object_get(layer, "annotations");
    const char *title = json_text_of(annotations, "org.opencontainers.image.title");

    return title != NULL ? title : json_text_of(annotations, "org.cncf.model.filepath");
}

static struct result pull_layer(void *context, size_t index, struct session *session, struct error *err)
{
    struct pull *pull = context;
    const json_t *layer = json_array_get(pull->layers, index);
    struct incoming incoming = {.session = session, .title = layer_name(layer), .digest_text = json_text_of(layer, "digest"), .fd = -1};
    struct digest digest;
    int64_t size = -1;

    if (incoming.title == NULL) {
        pull->skipped++;
        return SUCCESS;
    }
    if (!title_is_safe(incoming.title))
        return failure(err, ERROR_INVALID, "refused: the layer called '%.100s' would leave the target folder", incoming.title);
    if (incoming.digest_text == NULL || !json_integer_of(layer, "size", &size) || size < 0)
        return failure(err, ERROR_CORRUPT, "the layer '%.100s' has no digest or size", incoming.title);
    TRY(digest_parse(bytes_of_text(incoming.digest_text), &digest, err));
    incoming.size = (uint64_t)size;
    if (digest.algorithm == DIGEST_SHA256 && is_there(pull, &incoming)) {
        progress_begin_in(&incoming.progress, pull->group, incoming.title, incoming.size, incoming.size,
                          pull->invocation->json);
        progress_end(&incoming.progress, "there already, verified");
        return SUCCESS;
    }
    TRY(hasher_new(digest.algorithm, &incoming.hasher, err));
    const struct result received = receive(pull, &incoming, err);
    if (incoming.fd >= 0) (void)close(incoming.fd);
    hasher_free(incoming.hasher);
    return received;
}

/* All names are judged before the first byte is written. */
static struct result check_layers(const json_t *layers, struct error *err)
{
    OWNED_JSON seen = json_object();

    if (!json_is_array(layers) || json_array_size(layers) > LAYERS_MAX)
        return failure(err, ERROR_INVALID, "this is no manifest with layers (an index?); pull one of its manifests by digest");
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const char *title = layer_name(json_array_get(layers, i));
        if (title == NULL) continue;
        if (!title_is_safe(title))
            return failure(err, ERROR_INVALID, "refused: the layer called '%.100s' would leave the target folder", title);
        if (json_object_get(seen, title) != NULL)
            return failure(err, ERROR_INVALID, "refused: two layers are called '%.100s'", title);
        if (json_object_set_new(seen, title, json_true()) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for names");
    }
    return SUCCESS;
}

static struct result fetch_manifest(struct pull *pull, char digest_text[DIGEST_TEXT_SIZE], json_t **manifest_out,
                                    struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;
    struct buffer OWNED_BUFFER path = BUFFER(2048);
    struct digest wanted;

    TRY(buffer_format(&path, err, "/v2/%s/manifests/%s", pull->source.repository, pull->source.reference));
    const struct http_request request = {.method = "GET", .path = buffer_text(&path), .accept = ACCEPTED,
                                         .wanted = 200};
    TRY(session_call(pull->session, pull->scope, &request, &response, err));
    const char *claimed = pull->source.is_digest ? pull->source.reference : response.digest;
    TRY(digest_parse(bytes_of_text(claimed), &wanted, err));
    const struct digest got = digest_of(wanted.algorithm, buffer_bytes(&response.body));
    digest_format(&got, digest_text);
    if (!digest_equal(&wanted, &got))
        return failure(err, ERROR_CORRUPT, "the manifest does not match its digest %.80s", claimed);
    OWNED_JSON manifest = NULL;
    TRY(json_read_any_number(buffer_bytes(&response.body), HTTP_ANSWER_MAX, &manifest, err));
    TRY(manifest_check_names(manifest, err));
    *manifest_out = GIVE(manifest);
    return SUCCESS;
}

static struct result pull_layers(struct pull *pull, struct error *err)
{
    const size_t count = json_array_size(pull->layers);
    struct jobs jobs = {.count = count, .work = pull_layer, .context = pull};
    OWNED(progress_group) *group = NULL;
    uint64_t total = 0;
    int64_t size = 0;

    TRY(jobs_option(pull->invocation, &jobs.at_once, err));
    for (size_t i = 0; i < count; i++)
        if (json_integer_of(json_array_get(pull->layers, i), "size", &size) && size > 0) total += (uint64_t)size;
    if (jobs.at_once > 1 && count > 1) TRY(progress_group_new((unsigned)count, total, pull->invocation->json, &group, err));
    pull->group = group;
    const struct result pulled = jobs_run(&jobs, pull->session, err);
    pull->group = NULL;
    return pulled;
}

static struct result pull_all(struct pull *pull, struct error *err)
{
    OWNED_JSON manifest = NULL;
    char digest_text[DIGEST_TEXT_SIZE];

    TRY(fetch_manifest(pull, digest_text, &manifest, err));
    pull->layers = json_object_get(manifest, "layers");
    TRY(check_layers(pull->layers, err));
    TRY(pull_layers(pull, err));
    if (pull->skipped > 0 && !pull->invocation->json)
        (void)fprintf(stderr, "%u layers have no name and were left out\n", pull->skipped);
    if (pull->invocation->json)
        (void)printf("{\"digest\":\"%s\",\"files\":%u,\"skipped\":%u}\n", digest_text, pull->written, pull->skipped);
    else
        (void)printf("%s\n", digest_text);
    return SUCCESS;
}

struct result command_pull(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED_FD folder = -1;
    struct pull pull = {.invocation = invocation};
    const char *target = invocation_option(invocation, 'o');

    TRY(remote_reference_parse(invocation->operands[0], &pull.source, err));
    (void)snprintf(pull.scope, sizeof pull.scope, "repository:%s:pull", pull.source.repository);
    if (target == NULL) target = ".";
    else TRY(local(file_make_directory(target, 0777, err), target, err));
    TRY(local(file_open(target, O_RDONLY | O_DIRECTORY, 0, &folder, err), target, err));
    TRY(session_open(invocation, pull.source.host, &session, err));
    pull.session = session;
    pull.folder = folder;
    return pull_all(&pull, err);
}
