/*
 * A log that is saved into a file, and whether it is what the runner has signed: the result names the digest of the log's manifest, and the manifest names
 * that of the log.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "client/commands/run_priv.h"
#include "client/hash.h"
#include "client/local.h"
#include "crypto/digest.h"

#define MANIFEST_MAX ((size_t)4 << 20) /* of the registry, for any manifest */
#define INTERNAL     "predicate.buildDefinition.internalParameters."

#define UNSIGNED ": without --output the log is shown as far as it is there"

bool run_result_is_of(const struct run_envelope *result, uint64_t attempt, uint64_t node)
{
    return result != NULL && (uint64_t)run_integer(result, INTERNAL "attempt") == attempt &&
           (uint64_t)run_integer(result, INTERNAL "node") == node;
}

/* Why nothing says what the log is. `shown`: the node of this attempt whose result the registry shows; -1: none. */
static struct result not_signed(const json_t *run, uint64_t attempt, uint64_t node, int64_t shown, struct error *err)
{
    char state[CELL_MAX];

    cell_text(json_object_get(run, "state"), state);
    if (!run_has_ended(run))
        return failure(err, ERROR_NOT_FOUND, "the run is %.32s, and its runner signs the log at the end" UNSIGNED, state);
    if (shown >= 0)
        return failure(err, ERROR_NOT_FOUND,
                       "of this attempt the registry shows the result of node %lld, and not that of node %" PRIu64
                       ": --node %lld saves that log" UNSIGNED,
                       (long long)shown, node, (long long)shown);
    return failure(err, ERROR_NOT_FOUND,
                   "the run has ended as %.32s, and no runner has signed a result of attempt %" PRIu64
                   " before, so nothing says what its log is" UNSIGNED,
                   state, attempt);
}

struct result run_saved_result(const json_t *run, uint64_t attempt, uint64_t node, struct run_envelope **result_out,
                               struct error *err)
{
    OWNED(run_envelope) *result = NULL;

    TRY(run_signed(run, RUN_RESULT, &result, err));
    if (run_result_is_of(result, attempt, node)) {
        *result_out = GIVE(result);
        return SUCCESS;
    }
    const int64_t shown = result == NULL ? -1 : run_integer(result, INTERNAL "node");
    return not_signed(run, attempt, node, shown >= 0 && run_result_is_of(result, attempt, (uint64_t)shown) ? shown : -1, err);
}

/* The last subject of each result (docs/formats/run.md). */
static const char *log_digest(const struct run_envelope *result)
{
    const json_t *subjects = run_member(result, "subject"), *log = json_array_get(subjects, json_array_size(subjects) - 1);
    const char *name = json_text_of(log, "name");

    return name != NULL && strcmp(name, "log") == 0 ? json_text_of(json_object_get(log, "digest"), "sha256") : NULL;
}

static struct result get_manifest(struct session *session, const struct run_address *address, const struct run_envelope *result,
                                  struct http_response *response, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(RUN_PATH_MAX);

    TRY(buffer_add_text(&path, "/api/v1", err));
    TRY(run_path(address, "/log/manifest", &path, err));
    TRY(buffer_format(&path, err, "?node=%" PRId64 "&attempt=%" PRId64, run_integer(result, INTERNAL "node"),
                      run_integer(result, INTERNAL "attempt")));
    const struct http_request request = {.method = "GET", .path = buffer_text(&path), .wanted = 200};
    if (session_call(session, ADMIN_SCOPE, &request, response, err).ok) return SUCCESS;
    if (response->status != 404) return (struct result){.ok = false};
    return failure(
        err, ERROR_NOT_FOUND,
        "the registry does not have the manifest of the log, so nothing shows that the log is the one that the runner has "
        "signed; without --output it is shown as far as it is there");
}

/* *layer_out: a view of `manifest`, which must have the signed digest and one layer. */
static struct result read_manifest(struct bytes text, const char *signed_hex, json_t **manifest_out, const json_t **layer_out,
                                   struct error *err)
{
    const struct digest found = digest_of(DIGEST_SHA256, text);
    char digest[DIGEST_TEXT_SIZE];
    OWNED_JSON manifest = NULL;

    digest_format(&found, digest);
    if (signed_hex == NULL || strcmp(digest + strlen("sha256:"), signed_hex) != 0)
        return failure(err, ERROR_CORRUPT, "the registry answered with another manifest of the log than the runner has signed");
    TRY(json_read(text, MANIFEST_MAX, &manifest, err));
    const json_t *layers = json_object_get(manifest, "layers");
    if (json_array_size(layers) != 1) return failure(err, ERROR_CORRUPT, "the signed manifest of the log has not one layer");
    *layer_out = json_array_get(layers, 0);
    *manifest_out = GIVE(manifest);
    return SUCCESS;
}

static struct result digest_of_file(int fd, char digest_out[DIGEST_TEXT_SIZE], uint64_t *size_out, struct error *err)
{
    OWNED(hasher) *hasher = NULL;

    TRY(hasher_new(DIGEST_SHA256, &hasher, err));
    TRY(hash_file(fd, UINT64_MAX, hasher, NULL, size_out, err));
    const struct digest digest = hasher_digest(hasher);
    digest_format(&digest, digest_out);
    return SUCCESS;
}

struct result run_saved_check(struct session *session, const struct run_address *address, const struct run_envelope *result,
                              int fd, struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;
    OWNED_JSON manifest = NULL;
    const json_t *layer = NULL;
    char written[DIGEST_TEXT_SIZE];
    uint64_t size = 0;

    TRY(get_manifest(session, address, result, &response, err));
    TRY(read_manifest(buffer_bytes(&response.body), log_digest(result), &manifest, &layer, err));
    TRY(digest_of_file(fd, written, &size, err));
    const char *wanted = json_text_of(layer, "digest");
    if (wanted != NULL && strcmp(wanted, written) == 0 && (uint64_t)number_of(layer, "size") == size) return SUCCESS;
    return failure(err, ERROR_CORRUPT,
                   "the registry has another log than the runner has signed: %" PRIu64
                   " bytes with %s, and %.80s is signed; nothing was "
                   "saved",
                   size, written, wanted == NULL ? "no digest" : wanted);
}

/* ---- the file ---- */

/* The file that does not have its name yet; NULL: there is none. */
static const char *volatile unfinished;

static void end_by(int number)
{
    const struct sigaction as_usual = {.sa_handler = SIG_DFL};

    if (unfinished != NULL) (void)unlink(unfinished);
    (void)sigaction(number, &as_usual, NULL);
    (void)raise(number); /* it comes when this handler ends */
}

/* Whoever started this program may have it ignore a signal, as nohup does. */
static void remove_at_end(const char *part)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction action = {.sa_handler = end_by};
    struct sigaction before;

    unfinished = part;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) (void)sigaction(numbers[i], &action, NULL);
}

/* A new file: nothing that was there is lost. */
static struct result open_part(const char *part, FILE **out, struct error *err)
{
    int fd = -1;

    TRY(file_open(part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0666, &fd, err));
    *out = fdopen(fd, "w+");
    if (*out != NULL) return SUCCESS;
    (void)close(fd);
    (void)unlink(part);
    return failure(err, ERROR_NO_MEMORY, "no memory for a file");
}

/* Only the name of a plain file changes hands: a folder, a link and a device stay what they are. */
struct result run_saved_allowed(const char *path, struct error *err)
{
    struct stat status;

    if (lstat(path, &status) != 0 || S_ISREG(status.st_mode)) return SUCCESS;
    return failure(err, ERROR_INVALID,
                   S_ISDIR(status.st_mode)
                       ? "%.180s is a folder: name a file in it"
                       : "%.180s is no plain file, and a log replaces nothing else: name a file, or - for standard output",
                   path);
}

struct result run_saved_copy(int fd, struct error *err)
{
    uint8_t block[(size_t)64 << 10];
    size_t length = sizeof block;

    for (uint64_t at = 0; length == sizeof block; at += length) {
        TRY(file_read_some(fd, block, sizeof block, at, &length, err));
        TRY(local_output(file_write_all(STDOUT_FILENO, block, length, err), "standard output", err));
    }
    return SUCCESS;
}

struct result run_saved_begin(const char *part, FILE **out, struct error *err)
{
    remove_at_end(part);
    const struct result opened = local(open_part(part, out, err), part, err);
    if (!opened.ok) unfinished = NULL;
    return opened;
}

struct result run_saved_end(const char *part, const char *path, struct result saved, struct error *err)
{
    if (saved.ok) saved = local(file_rename(part, path, err), path, err);
    if (!saved.ok) (void)unlink(part);
    unfinished = NULL;
    return saved;
}
