/* `sijil push`: hashes the files, sends the blobs that the registry lacks, then the manifest. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/files.h"
#include "client/hash.h"
#include "client/jobs.h"
#include "client/layout.h"
#include "client/local.h"
#include "client/reference.h"
#include "client/session.h"
#include "client/upload.h"
#include "crypto/digest.h"

#define CONFIG_MAX         ((size_t)1 << 20) /* for PUSH_FILES_MAX layers of 90 bytes */
#define HASHED_IN_A_MOMENT ((uint64_t)256 << 20)
#define MANIFEST_MAX       ((size_t)4 << 20) /* limit of registries */

/* The state of one push. */
struct push {
    struct invocation *invocation;
    struct session *session;
    struct remote_reference target;
    const char *notes; /* notes_folder() */
    char scope[400];
    struct file_list list;
    unsigned parallel;
    struct progress_group *group; /* while several transfers run, else NULL */
    atomic_bool wants_sessions;
};

static struct result file_digest(struct push *push, int fd, struct layer_file *file, struct error *err)
{
    OWNED(hasher) *hasher = NULL;
    struct progress progress;
    uint64_t hashed = 0;

    TRY(hasher_new(DIGEST_SHA256, &hasher, err));
    progress_begin_in(&progress, push->group, file->title, 0, file->size,
                      push->invocation->json || file->size < HASHED_IN_A_MOMENT);
    TRY(local(hash_file(fd, file->size, hasher, &progress, &hashed, err), file->path, err));
    if (hashed < file->size) return failure(err, ERROR_INVALID, "%.150s became shorter while it was read", file->path);
    progress_end(&progress, "hashed");
    const struct digest digest = hasher_digest(hasher);
    digest_format(&digest, file->digest);
    return SUCCESS;
}

static struct result list_files(struct push *push, struct error *err)
{
    const bool is_dataset = invocation_option(push->invocation, 'd') != NULL;

    push->list.follows_links = invocation_option(push->invocation, 'L') != NULL;
    for (unsigned i = 0; i + 1 < push->invocation->operand_count; i++)
        TRY(file_list_add(&push->list, push->invocation->operands[i], is_dataset, err));
    return file_list_check(&push->list, err);
}

static struct result hash_one(void *context, size_t index, struct session *session, struct error *err)
{
    struct push *push = context;
    struct layer_file *file = &push->list.files[index];
    OWNED_FD fd = -1;

    (void)session;
    TRY(file_list_open(file, &fd, err));
    return file_digest(push, fd, file, err);
}

/* Two uploads of the same content would share a session. */
static bool is_pushed_under_another_name(const struct push *push, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (strcmp(push->list.files[i].digest, push->list.files[index].digest) == 0) return true;
    return false;
}

static struct result push_one(void *context, size_t index, struct session *session, struct error *err)
{
    struct push *push = context;
    const struct layer_file *file = &push->list.files[index];
    OWNED_FD fd = -1;

    if (is_pushed_under_another_name(push, index)) return SUCCESS;
    TRY(file_list_open(file, &fd, err));
    const struct upload upload = {.session = session,
                                  .host = push->target.host,
                                  .repository = push->target.repository,
                                  .scope = push->scope,
                                  .label = file->title,
                                  .digest = file->digest,
                                  .fd = fd,
                                  .size = file->size,
                                  .notes = push->notes,
                                  .quiet = push->invocation->json,
                                  .group = push->group,
                                  .wants_sessions = &push->wants_sessions};
    const struct result uploaded = upload_blob(&upload, err);
    if (uploaded.ok || err->kind == ERROR_DENIED)
        return uploaded; /* rights are about the repository, so other uploads would fail too */
    failure_name(file->path, err);
    return uploaded;
}

typedef RESULT (*file_work)(void *push, size_t index, struct session *session, struct error *err);

static struct result for_each_file(struct push *push, file_work work, uint64_t worth_a_bar, struct error *err)
{
    const struct jobs jobs = {.count = push->list.count, .parallel = push->parallel, .work = work, .context = push};
    OWNED(progress_group) *group = NULL;
    uint64_t total = 0;

    for (size_t i = 0; i < push->list.count; i++) total += push->list.files[i].size;
    if (push->parallel > 1 && push->list.count > 1)
        TRY(progress_group_new((unsigned)push->list.count, total, push->invocation->json || total < worth_a_bar, &group, err));
    push->group = group;
    const struct result done = jobs_run(&jobs, push->session, err);
    push->group = NULL;
    return done;
}

/* The config is uploaded as files are, from a file in memory. */
static struct result push_config(struct push *push, struct bytes config, struct error *err)
{
    const struct digest digest = digest_of(DIGEST_SHA256, config);
    char digest_text[DIGEST_TEXT_SIZE];
    OWNED_FD fd = -1;

    fd = memfd_create("config", MFD_CLOEXEC);
    if (fd < 0) return failure(err, ERROR_NO_MEMORY, "no memory for the config: %s", strerror(errno));
    TRY(local(file_write_all(fd, config.data, config.length, err), "config", err));
    digest_format(&digest, digest_text);
    const struct upload upload = {.session = push->session,
                                  .host = push->target.host,
                                  .repository = push->target.repository,
                                  .scope = push->scope,
                                  .label = "config",
                                  .digest = digest_text,
                                  .fd = fd,
                                  .size = config.length,
                                  .notes = push->notes,
                                  .quiet = true,
                                  .wants_sessions = &push->wants_sessions};
    return upload_blob(&upload, err);
}

static struct result push_manifest(struct push *push, struct bytes manifest, struct http_response *response, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(2048);

    TRY(buffer_format(&path, err, "/v2/%s/manifests/%s", push->target.repository, push->target.reference));
    const struct http_request request = {
        .method = "PUT", .path = buffer_text(&path), .content_type = IMAGE_MANIFEST_TYPE, .body = manifest, .wanted = 201};
    return session_call(push->session, push->scope, &request, response, err);
}

static struct result read_annotations(const struct invocation *invocation, json_t *annotations, struct error *err)
{
    unsigned at = 0;

    for (const char *text; (text = invocation_next_option(invocation, 'a', &at)) != NULL;) {
        const char *equals = strchr(text, '=');
        if (equals == NULL || equals == text)
            return failure(err, ERROR_INVALID, "--annotation %.80s: KEY=VALUE is expected", text);
        OWNED_STRING key = memory_copy_text(text, (size_t)(equals - text));
        const bool is_set = key != NULL && json_object_set_new(annotations, key, json_string(equals + 1)) == 0;
        if (key == NULL || json_lacks() > 0) return failure(err, ERROR_NO_MEMORY, "no memory for annotations");
        if (!is_set) return failure(err, ERROR_INVALID, "--annotation %.80s is not UTF-8", text);
    }
    return SUCCESS;
}

static struct result report_push(const struct push *push, struct bytes manifest, const struct http_response *response,
                                 struct error *err)
{
    const struct digest digest = digest_of(DIGEST_SHA256, manifest);
    char digest_text[DIGEST_TEXT_SIZE];

    digest_format(&digest, digest_text);
    if (response->digest[0] != '\0' && strcmp(response->digest, digest_text) != 0)
        return failure(err, ERROR_CORRUPT, "the registry stored %s instead of %s", response->digest, digest_text);
    struct buffer OWNED_BUFFER reference = BUFFER(1024);
    TRY(buffer_format(&reference, err, "%s/%s:%s", push->target.host, push->target.repository, push->target.reference));
    if (!push->invocation->json) {
        (void)printf("%s\n%s\n", buffer_text(&reference), digest_text);
        return SUCCESS;
    }
    OWNED_JSON object =
        json_pack("{s:s,s:s,s:s}", "reference", buffer_text(&reference), "digest", digest_text, "audit", response->audit);
    return object == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for an answer") : api_print_json(object, err);
}

static struct result push_all(struct push *push, const json_t *annotations, struct error *err)
{
    struct buffer OWNED_BUFFER config = BUFFER(CONFIG_MAX);
    struct buffer OWNED_BUFFER manifest = BUFFER(MANIFEST_MAX);
    OWNED_RESPONSE response = RESPONSE;

    TRY(list_files(push, err));
    TRY(for_each_file(push, hash_one, HASHED_IN_A_MOMENT, err));
    const char *slash = strrchr(push->target.repository, '/');
    TRY(layout_config(slash == NULL ? push->target.repository : slash + 1, push->list.files, push->list.count, &config, err));
    TRY(layout_manifest(push->list.files, push->list.count, buffer_bytes(&config), annotations, &manifest, err));
    TRY(for_each_file(push, push_one, 0, err));
    TRY(push_config(push, buffer_bytes(&config), err));
    TRY(push_manifest(push, buffer_bytes(&manifest), &response, err));
    return report_push(push, buffer_bytes(&manifest), &response, err);
}

static struct result parse_target(const struct invocation *invocation, struct remote_reference *target_out, struct error *err)
{
    const char *last = invocation->operands[invocation->operand_count - 1];
    struct remote_reference first;
    struct error ignored = {0};
    const struct result parsed = remote_reference_parse(last, target_out, err);

    if (parsed.ok || !remote_reference_parse(invocation->operands[0], &first, &ignored).ok) return parsed;
    return failure(err, ERROR_INVALID, "the reference comes last: sijil push FILE... %.120s", invocation->operands[0]);
}

struct result command_push(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED_JSON annotations = json_object();
    struct push push = {.invocation = invocation};

    if (annotations == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for annotations");
    TRY(line_check(invocation, parse_target(invocation, &push.target, err)));
    if (push.target.is_digest)
        return line_check(invocation, failure(err, ERROR_INVALID, "push to a tag; the digest follows from the content"));
    (void)snprintf(push.scope, sizeof push.scope, "repository:%s:pull,push", push.target.repository);
    TRY(line_check(invocation, jobs_option(invocation, &push.parallel, err)));
    TRY(line_check(invocation, read_annotations(invocation, annotations, err)));
    TRY(command_session(invocation, push.target.host, &session, err));
    push.session = session;
    push.notes = notes_folder(invocation);
    const struct result pushed = push_all(&push, annotations, err);
    file_list_done(&push.list);
    return pushed;
}
