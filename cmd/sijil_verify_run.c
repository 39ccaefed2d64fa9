/* sijil-verify run: checks the bundle of a training run, makes its decisions again, and finds a file among the outputs. */
#include "cmd/sijil_verify_run.h"

#include "cmd/sijil_verify_replay.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/terminal_text.h"
#include "crypto/digest.h"
#include "policy/run_verify.h"
#include "registry/names/titles.h"

#define MANIFEST_MAX ((size_t)4 << 20) /* as a registry takes them */
#define TITLE        "org.opencontainers.image.title"

/* What a manifest and a file were found to be. */
struct found {
    json_t *manifest;
    const char *output;             /* its name in the run; NULL: nothing was asked */
    const char *title;              /* the name of the file in the output */
    char digest[DIGEST_TEXT_SIZE];  /* of the manifest */
    char content[DIGEST_TEXT_SIZE]; /* of the file; "" */
};

static void found_done(struct found *found)
{
    json_decref(found->manifest);
}
#define OWNED_FOUND __attribute__((cleanup(found_done))) struct found

static const char *output_with(const struct run_envelope *admission, const char *digest)
{
    const json_t *subjects = run_member(admission, "subject"), *subject;
    size_t i;

    json_array_foreach (subjects, i, subject) {
        const char *hex = json_text_of(json_object_get(subject, "digest"), "sha256");
        if (hex != NULL && strcmp(digest + strlen("sha256:"), hex) == 0) return json_text_of(subject, "name");
    }
    return NULL;
}

/* It was admitted, but its digest stands for no certain files. */
static struct result not_one_reading(const char *path, struct error *err)
{
    const struct error why = *err;

    return failure(err, ERROR_DENIED,
                   "%.100s is the manifest of an admitted output, but clients may make different files of it: %.160s", path,
                   why.message);
}

static struct result find_output(const struct run_bundle *bundle, const char *path, struct found *found, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(MANIFEST_MAX);

    TRY(file_read(path, &text, err));
    const struct digest digest = digest_of(DIGEST_SHA256, buffer_bytes(&text));
    digest_format(&digest, found->digest);
    found->output = output_with(bundle->chain.admission, found->digest);
    if (found->output == NULL)
        return failure(err, ERROR_DENIED, "%.100s is the manifest of no output that was admitted: its digest is %s", path,
                       found->digest);
    TRY(json_read(buffer_bytes(&text), MANIFEST_MAX, &found->manifest, err));
    const struct result checked = titles_check_files(json_object_get(found->manifest, "layers"), err);
    if (!checked.ok && err->kind == ERROR_INVALID) return not_one_reading(path, err);
    return checked;
}

static struct result hash_content(const char *path, char digest_out[DIGEST_TEXT_SIZE], struct error *err)
{
    OWNED(hasher) *hasher = NULL;
    OWNED_FD fd = -1;
    uint8_t piece[16384]; /* a few pages */
    size_t got = 0;

    TRY(hasher_new(DIGEST_SHA256, &hasher, err));
    TRY(file_open(path, O_RDONLY, 0, &fd, err));
    for (uint64_t at = 0;; at += got) {
        TRY(file_read_some(fd, piece, sizeof piece, at, &got, err));
        if (got == 0) break;
        hasher_add(hasher, (struct bytes){piece, got});
    }
    const struct digest digest = hasher_digest(hasher);
    digest_format(&digest, digest_out);
    return SUCCESS;
}

static struct result find_file(const char *path, struct found *found, struct error *err)
{
    const json_t *layers = json_object_get(found->manifest, "layers"), *layer;
    size_t i;

    TRY(hash_content(path, found->content, err));
    json_array_foreach (layers, i, layer) {
        const char *digest = json_text_of(layer, "digest");
        if (digest == NULL || strcmp(digest, found->content) != 0) continue;
        found->title = json_text_of(json_object_get(layer, "annotations"), TITLE);
        return SUCCESS;
    }
    return failure(err, ERROR_DENIED, "%.80s is not in the output %.60s: its digest is %s", path, found->output, found->content);
}

static struct result find(const struct run_request *request, const struct run_bundle *bundle, struct found *found,
                          struct error *err)
{
    const char *run = run_text(bundle->chain.request, "run");

    if (request->run != NULL && strcmp(request->run, run) != 0)
        return failure(err, ERROR_DENIED, "it is the bundle of another run, %.40s", run);
    if (!request->admitted && request->manifest == NULL) return SUCCESS;
    if (bundle->chain.admission == NULL)
        return failure(err, ERROR_DENIED, "the run was not admitted (%.40s)", run_bundle_outcome(bundle));
    if (request->manifest != NULL) TRY(find_output(bundle, request->manifest, found, err));
    return request->file == NULL ? SUCCESS : find_file(request->file, found, err);
}

/* Names are another person's. */
static struct result write_found(const struct run_request *request, const struct found *found, struct buffer *answer,
                                 struct error *err)
{
    char line[1024]; /* two paths and two names are cut */

    if (found->output == NULL) return SUCCESS;
    (void)snprintf(line, sizeof line, "The manifest %.300s is that of the admitted output %.100s: %s", request->manifest,
                   found->output, found->digest);
    terminal_sanitize(line);
    TRY(buffer_format(answer, err, "\nFound:\n  - %s%s\n", line, found->title == NULL ? "." : ";"));
    if (found->title == NULL) return SUCCESS;
    (void)snprintf(line, sizeof line, "the file %.300s is %.300s of this output: %s.", request->file, found->title,
                   found->content);
    terminal_sanitize(line);
    return buffer_format(answer, err, "  - %s\n", line);
}

static struct result write_found_json(const struct found *found, struct bytes report, struct buffer *answer, struct error *err)
{
    OWNED_JSON json = NULL;
    OWNED_JSON said = json_pack("{s:s, s:s, s:s*, s:s*}", "output", found->output, "manifest", found->digest, "file",
                                found->title, "digest", found->title == NULL ? NULL : found->content);

    TRY(json_read(report, report.length, &json, err));
    if (said == NULL || json_object_set(json, "found", said) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for a report");
    TRY(json_write_canonical(answer, json, err));
    return buffer_add_u8(answer, '\n', err);
}

struct result run_verify_answer(const struct run_request *request, struct bytes text, struct buffer *answer, struct error *err)
{
    OWNED(ecdsa_key) *signer = NULL, *root = NULL;
    OWNED(run_bundle) *bundle = NULL;
    struct buffer OWNED_BUFFER report = BUFFER(answer->maximum);
    struct run_repeated repeated = {.decisions = 0};
    OWNED(replay_restrictions) *restrictions = NULL;
    OWNED_FOUND found = {.output = NULL};

    TRY(ecdsa_key_load(request->signer, &signer, err));
    TRY(ecdsa_key_load(request->root, &root, err));
    TRY(replay_read_restrictions(request->sets, root, &restrictions, err));
    const struct run_verify_keys keys = {request->key, signer, root, request->policy, restrictions};
    TRY(run_verify(text, &keys, &bundle, &repeated, err));
    TRY(find(request, bundle, &found, err));
    if (!request->json) {
        TRY(run_bundle_text(bundle, &repeated, answer, err));
        return write_found(request, &found, answer, err);
    }
    if (found.output == NULL) return run_bundle_json(bundle, &repeated, answer, err);
    TRY(run_bundle_json(bundle, &repeated, &report, err));
    return write_found_json(&found, buffer_bytes(&report), answer, err);
}
