/* `sijil pull`: fetches the manifest, then each named layer into the target folder, and verifies it while it arrives. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/fetch.h"
#include "client/hash.h"
#include "client/jobs.h"
#include "client/layers.h"
#include "client/layout.h"
#include "client/local.h"
#include "client/manifest.h"
#include "client/session.h"
#include "crypto/digest.h"
#include "registry/names/manifest_members.h"

struct pull {
    struct invocation *invocation;
    struct session *session;
    struct remote_reference source;
    char scope[400];
    const json_t *layers;
    const char *target; /* the folder's path */
    int folder;
    unsigned parallel;
    atomic_uint written, skipped;
    struct progress_group *group; /* when several layers are fetched at a time, else NULL */
};

/* One layer in transfer: written to ".<name>.sijil-part" beside its final name, and hashed as it arrives. */
struct incoming {
    struct fetch fetch;
    const char *title;
    char part[1100];
    struct progress progress;
};

/* Hashes and keeps the part of an earlier pull; the digest at the end verifies it too. */
static struct result hash_kept_part(const struct pull *pull, struct incoming *incoming, struct error *err)
{
    struct progress checking;
    uint64_t there = 0;

    TRY(local(file_size(incoming->fetch.fd, &there, err), incoming->part, err));
    if (there > incoming->fetch.size) there = 0;
    if (ftruncate(incoming->fetch.fd, (off_t)there) != 0)
        return failure(err, ERROR_INVALID, "can't cut %.100s: %s", incoming->part, strerror(errno));
    progress_begin(&checking, incoming->title, 0, there,
                   pull->invocation->json || pull->group != NULL || there < ((uint64_t)256 << 20));
    TRY(local(hash_file(incoming->fetch.fd, there, incoming->fetch.hasher, &checking, &incoming->fetch.offset, err),
              incoming->part, err));
    progress_end(&checking, "were here, and are hashed again");
    return SUCCESS;
}

static struct result check_and_place(struct pull *pull, struct incoming *incoming, struct error *err)
{
    const struct result checked = fetch_check(&incoming->fetch, err);

    if (!checked.ok && ftruncate(incoming->fetch.fd, 0) != 0) /* the next pull must not keep the bad part */
        return failure(err, ERROR_CORRUPT, "%.150s is damaged and can't be emptied: remove it", incoming->part);
    TRY(checked);
    TRY(local(file_sync(incoming->fetch.fd, err), incoming->part, err));
    return local_output(title_rename(pull->folder, incoming->part, incoming->title, err), incoming->title, err);
}

static void explain_resume(const struct pull *pull, const struct incoming *incoming)
{
    struct report *report = session_report(incoming->fetch.session);

    report_explain(report, "folder", pull->target);
    report_explain(report, "kept", incoming->part);
    report_explain(report, "try", "make room and repeat the command: it goes on from what is kept");
}

static struct result receive(struct pull *pull, struct incoming *incoming, struct error *err)
{
    const char *slash = strrchr(incoming->title, '/');
    const int head = slash == NULL ? 0 : (int)(slash + 1 - incoming->title);

    (void)snprintf(incoming->part, sizeof incoming->part, "%.*s.%s" PART_ENDING, head, incoming->title, incoming->title + head);
    TRY(local_output(title_open(pull->folder, incoming->part, O_RDWR | O_CREAT, &incoming->fetch.fd, err), incoming->part, err));
    TRY(hash_kept_part(pull, incoming, err));
    progress_begin_in(&incoming->progress, pull->group, incoming->title, incoming->fetch.offset, incoming->fetch.size,
                      pull->invocation->json);
    incoming->fetch.progress = &incoming->progress;
    const struct result fetched = fetch_blob(&incoming->fetch, err);
    if (!fetched.ok && err->kind == ERROR_FULL) explain_resume(pull, incoming);
    TRY(fetched);
    TRY(check_and_place(pull, incoming, err));
    progress_end(&incoming->progress, "pulled and verified");
    pull->written++;
    return SUCCESS;
}

/* Whether the same file is there already. */
static bool is_there(const struct pull *pull, const struct incoming *incoming)
{
    OWNED_FD fd = -1;
    OWNED(hasher) *hasher = NULL;
    struct error ignored = {0};
    struct digest wanted;
    uint64_t size = 0, hashed = 0;

    if (!title_open(pull->folder, incoming->title, O_RDONLY, &fd, &ignored).ok) return false;
    if (!file_size(fd, &size, &ignored).ok || size != incoming->fetch.size) return false;
    if (!hasher_new(DIGEST_SHA256, &hasher, &ignored).ok) return false;
    if (!hash_file(fd, size, hasher, NULL, &hashed, &ignored).ok) return false;
    const struct digest got = hasher_digest(hasher);
    return digest_parse(bytes_of_text(incoming->fetch.digest), &wanted, &ignored).ok && digest_equal(&wanted, &got);
}

static struct result pull_layer(void *context, size_t index, struct session *session, struct error *err)
{
    struct pull *pull = context;
    const json_t *json = json_array_get(pull->layers, index);
    struct layer layer;
    struct digest digest;

    if (title_of_layer(json) == NULL) {
        pull->skipped++;
        return SUCCESS;
    }
    TRY(layer_read(json, &layer, err));
    TRY(digest_parse(bytes_of_text(layer.digest), &digest, err));
    struct incoming incoming = {.title = layer.title,
                                .fetch = {.session = session,
                                          .repository = pull->source.repository,
                                          .scope = pull->scope,
                                          .digest = layer.digest,
                                          .name = layer.title,
                                          .size = layer.size,
                                          .fd = -1}};
    if (digest.algorithm == DIGEST_SHA256 && is_there(pull, &incoming)) {
        progress_begin_in(&incoming.progress, pull->group, incoming.title, incoming.fetch.size, incoming.fetch.size,
                          pull->invocation->json);
        progress_end(&incoming.progress, "there already, verified");
        return SUCCESS;
    }
    TRY(hasher_new(digest.algorithm, &incoming.fetch.hasher, err));
    const struct result received = receive(pull, &incoming, err);
    if (incoming.fetch.fd >= 0) (void)close(incoming.fetch.fd);
    hasher_free(incoming.fetch.hasher);
    return received;
}

/* All destinations are checked before the first byte is fetched. */
static struct result check_places(const struct pull *pull, struct error *err)
{
    for (size_t i = 0; i < json_array_size(pull->layers); i++) {
        const char *title = title_of_layer(json_array_get(pull->layers, i));
        if (title != NULL) TRY(local(title_check_place(pull->folder, title, err), title, err));
    }
    return SUCCESS;
}

static struct result pull_layers(struct pull *pull, struct error *err)
{
    const size_t count = json_array_size(pull->layers);
    const struct jobs jobs = {.count = count, .parallel = pull->parallel, .work = pull_layer, .context = pull};
    OWNED(progress_group) *group = NULL;
    uint64_t total = 0;
    int64_t size = 0;

    for (size_t i = 0; i < count; i++)
        if (json_integer_of(json_array_get(pull->layers, i), "size", &size) && size > 0) total += (uint64_t)size;
    if (jobs.parallel > 1 && count > 1) TRY(progress_group_new((unsigned)count, total, pull->invocation->json, &group, err));
    pull->group = group;
    const struct result pulled = jobs_run(&jobs, pull->session, err);
    pull->group = NULL;
    return pulled;
}

static struct result report(const struct pull *pull, const char *digest, struct error *err)
{
    OWNED_JSON list = json_array();
    int64_t size = 0, total = 0;

    for (size_t i = 0; i < json_array_size(pull->layers); i++) {
        const json_t *layer = json_array_get(pull->layers, i);
        if (title_of_layer(layer) == NULL || !json_integer_of(layer, "size", &size)) continue;
        total += size;
        if (json_array_append_new(list, json_pack("{s:s,s:O,s:O}", "name", title_of_layer(layer), "digest",
                                                  json_object_get(layer, "digest"), "size", json_object_get(layer, "size"))) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for an answer");
    }
    OWNED_JSON object = json_pack("{s:s,s:s,s:s,s:i,s:i,s:I,s:O}", "reference", pull->invocation->operands[0], "digest", digest,
                                  "output", pull->target, "files", (int)pull->written, "skipped", (int)pull->skipped, "bytes",
                                  (json_int_t)total, "layers", list);
    return object == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for an answer, or a folder that is not UTF-8")
                          : api_print_json(object, err);
}

static struct result pull_all(struct pull *pull, struct error *err)
{
    OWNED_MANIFEST manifest = MANIFEST;

    TRY(manifest_fetch(pull->session, pull->scope, &pull->source, ACCEPTED_MANIFESTS, &manifest, err));
    pull->layers = json_object_get(manifest.json, "layers");
    TRY(layers_check(pull->layers, err));
    TRY(check_places(pull, err));
    TRY(pull_layers(pull, err));
    if (pull->skipped > 0 && !pull->invocation->json)
        (void)fprintf(stderr, "%u layers have no name and were left out\n", pull->skipped);
    if (pull->invocation->json) return report(pull, manifest.digest, err);
    (void)printf("%s\n", manifest.digest);
    return SUCCESS;
}

/* Makes a folder and its parents. */
static struct result make_folders(const char *path, struct error *err)
{
    char above[PATH_MAX];
    bool is_there = false;

    if (strlen(path) >= sizeof above) return failure(err, ERROR_INVALID, "a path of %zu letters", strlen(path));
    for (const char *slash = strchr(path + strspn(path, "/"), '/'); slash != NULL;
         slash = strchr(slash + strspn(slash, "/"), '/')) {
        (void)snprintf(above, sizeof above, "%.*s", (int)(slash - path), path);
        TRY(file_is_there(above, &is_there, err));
        if (!is_there) TRY(file_make_directory(above, 0777, err));
    }
    return file_make_directory(path, 0777, err);
}

static struct result open_target(struct pull *pull, int *folder_out, struct error *err)
{
    const char *target = invocation_option(pull->invocation, 'o');
    struct stat status;

    pull->target = target == NULL ? "." : target;
    if (target != NULL && stat(target, &status) == 0 && !S_ISDIR(status.st_mode))
        return failure(err, ERROR_INVALID, "%.150s is no folder: --output names the folder that the files go into", target);
    if (target != NULL) TRY(local_output(make_folders(target, err), target, err));
    return local_output(file_open(pull->target, O_RDONLY | O_DIRECTORY, 0, folder_out, err), pull->target, err);
}

struct result command_pull(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED_FD folder = -1;
    struct pull pull = {.invocation = invocation};

    TRY(line_check(invocation, remote_reference_parse(invocation->operands[0], &pull.source, err)));
    TRY(line_check(invocation, jobs_option(invocation, &pull.parallel, err)));
    (void)snprintf(pull.scope, sizeof pull.scope, "repository:%s:pull", pull.source.repository);
    TRY(open_target(&pull, &folder, err));
    TRY(command_session(invocation, pull.source.host, &session, err));
    pull.session = session;
    pull.folder = folder;
    return pull_all(&pull, err);
}
