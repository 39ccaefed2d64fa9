#include "runner/state/runner_state.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "crypto/certificate.h"

#define KEY_FILE         "key.pem"
#define REGISTRY_FILE    "registry.json"
#define CA_FILE          "ca.pem"
#define DOCUMENT_FILE    "document.json"
#define CERTIFICATE_FILE "certificate.pem"
#define DOCUMENT_MAX     DOCUMENT_ENVELOPE_MAX((size_t)8 * 1024)
#define NAME_ROOM        20 /* the longest name of a file, and '/' */

/* ---- the folder ---- */

static struct result check_private(int fd, const char *path, struct error *err)
{
    struct stat status;

    TRY(file_status(fd, &status, err));
    if (status.st_uid != geteuid())
        return failure(err, ERROR_DENIED, "%.200s belongs to another user: the runner's own user must own it", path);
    if ((status.st_mode & 077) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "%.200s: others may use it: chmod %s it", path, S_ISDIR(status.st_mode) ? "700" : "600");
}

static void name_file(const struct runner_state *state, const char *name, char path_out[RUNNER_PATH_SIZE])
{
    (void)snprintf(path_out, RUNNER_PATH_SIZE, "%.*s/%s", RUNNER_PATH_SIZE - NAME_ROOM, state->path, name);
}

static struct result open_folder(const char *path, struct runner_state **state_out, struct error *err)
{
    OWNED(runner_state) *state = memory_zeroed(1, sizeof *state);

    if (state == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a runner");
    state->folder = -1;
    if (strlen(path) >= RUNNER_PATH_SIZE - NAME_ROOM)
        return failure(err, ERROR_INVALID, "the path of the state folder is too long");
    (void)snprintf(state->path, sizeof state->path, "%s", path);
    name_file(state, KEY_FILE, state->key_file);
    name_file(state, CERTIFICATE_FILE, state->certificate_file);
    TRY(file_open(path, O_RDONLY | O_DIRECTORY, 0, &state->folder, err));
    TRY(check_private(state->folder, path, err));
    *state_out = GIVE(state);
    return SUCCESS;
}

/* Appends the file of the folder. *is_there_out false: there is none. */
static struct result read_file(const struct runner_state *state, const char *name, struct buffer *text, bool *is_there_out,
                               struct error *err)
{
    char path[RUNNER_PATH_SIZE];

    name_file(state, name, path);
    const struct result read = file_read(path, text, err);
    *is_there_out = read.ok;
    return read.ok || err->kind == ERROR_NOT_FOUND ? SUCCESS : read;
}

/* The failure for a file that can't be right. It says what a person must do. */
static struct result damaged(const struct runner_state *state, const char *name, struct error *err)
{
    const struct error why = *err;

    if (why.kind == ERROR_NO_MEMORY || why.kind == ERROR_UNAVAILABLE) return (struct result){.ok = false};
    return failure(err, ERROR_CORRUPT, "%.120s/%s: %.200s; restore it, or enrol the runner anew in another folder", state->path,
                   name, why.message);
}

/* ---- the key ---- */

static struct result load_key(struct runner_state *state, struct error *err)
{
    uint8_t point[ECDSA_PUBLIC_SIZE];
    OWNED_FD fd = -1;

    TRY(file_open(state->key_file, O_RDONLY, 0, &fd, err));
    TRY(check_private(fd, state->key_file, err));
    if (!ecdsa_key_load(state->key_file, &state->key, err).ok) return damaged(state, KEY_FILE, err);
    if (!ecdsa_key_is_private(state->key))
        return failure(err, ERROR_CORRUPT, "%.200s: a public key; the runner needs the private one", state->key_file);
    ecdsa_key_public(state->key, point);
    ecdsa_thumbprint(point, state->name);
    return SUCCESS;
}

/* ---- the registry ---- */

static struct result take_pins(struct runner_state *state, const struct registry_pins *pins, struct error *err)
{
    OWNED(ecdsa_key) *keyd = NULL, *root = NULL;

    TRY(ecdsa_key_from_public(pins->signer, &keyd, err));
    TRY(ecdsa_key_from_public(pins->root, &root, err));
    ecdsa_key_free(state->keyd);
    ecdsa_key_free(state->root);
    state->keyd = GIVE(keyd);
    state->root = GIVE(root);
    state->registry = *pins;
    state->ca_file[0] = '\0';
    if (pins->has_ca) name_file(state, CA_FILE, state->ca_file);
    return SUCCESS;
}

static struct result load_registry(struct runner_state *state, bool *is_there_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(REGISTRY_PINS_MAX);
    struct registry_pins pins;

    TRY(read_file(state, REGISTRY_FILE, &text, is_there_out, err));
    if (!*is_there_out) return SUCCESS;
    if (!registry_pins_read(buffer_bytes(&text), &pins, err).ok) return damaged(state, REGISTRY_FILE, err);
    return take_pins(state, &pins, err);
}

struct result runner_state_keep_registry(struct runner_state *state, const struct registry_pins *pins, struct bytes ca,
                                         struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(REGISTRY_PINS_MAX);
    struct registry_pins kept = *pins;

    kept.has_ca = ca.length > 0;
    TRY(registry_pins_write(&kept, &text, err));
    if (kept.has_ca) TRY(file_replace_at(state->folder, CA_FILE, ca, 0600, err));
    TRY(file_replace_at(state->folder, REGISTRY_FILE, buffer_bytes(&text), 0600, err));
    return take_pins(state, &kept, err);
}

/* ---- the document ---- */

static struct result check_document(const struct runner_state *state, const struct document *document, struct runner_key *own_out,
                                    struct error *err)
{
    uint8_t point[ECDSA_PUBLIC_SIZE];
    bool is_signed = false;

    if (document->kind != DOCUMENT_RUNNER || document->is_withdrawn)
        return failure(err, ERROR_INVALID, "it is no enrolment of a runner");
    TRY(runner_key_read(document, own_out, err));
    ecdsa_key_public(state->key, point);
    if (strcmp(document->name, state->name) != 0) return failure(err, ERROR_INVALID, "it enrols another key than key.pem");
    TRY(document_is_signed_by(document, point, &is_signed, err));
    return is_signed ? SUCCESS : failure(err, ERROR_INVALID, "key.pem has not signed it");
}

static struct result take_document(struct runner_state *state, struct bytes envelope, struct error *err)
{
    OWNED(document) *document = NULL;
    struct runner_key own;

    TRY(document_read(&envelope, 1, &document, err));
    TRY(check_document(state, document, &own, err));
    document_free(state->document);
    state->document = GIVE(document);
    state->own = own;
    return SUCCESS;
}

static struct result load_document(struct runner_state *state, bool *is_there_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(DOCUMENT_MAX);

    TRY(read_file(state, DOCUMENT_FILE, &text, is_there_out, err));
    if (!*is_there_out) return SUCCESS;
    return take_document(state, buffer_bytes(&text), err).ok ? SUCCESS : damaged(state, DOCUMENT_FILE, err);
}

struct result runner_state_keep_document(struct runner_state *state, struct bytes envelope, struct error *err)
{
    TRY(take_document(state, envelope, err));
    return file_replace_at(state->folder, DOCUMENT_FILE, envelope, 0600, err);
}

/* ---- the certificate ---- */

static struct result take_certificate(struct runner_state *state, struct bytes pem, struct error *err)
{
    struct buffer OWNED_BUFFER key = BUFFER(ECDSA_PEM_MAX);
    struct certificate_facts facts;
    uint8_t *ignored = NULL;

    TRY(buffer_reserve(&key, ECDSA_PEM_MAX, &ignored, err)); /* growing would leave a copy of the key */
    struct result result = file_read(state->key_file, &key, err);
    if (result.ok) result = certificate_check_pair(pem, buffer_bytes(&key), &facts, err);
    secret_wipe(key.data, key.capacity);
    if (!result.ok) return result;
    state->certificate_from_ms = facts.not_before_s * 1000;
    state->certificate_until_ms = facts.not_after_s * 1000;
    return SUCCESS;
}

static struct result load_certificate(struct runner_state *state, struct error *err)
{
    struct buffer OWNED_BUFFER pem = BUFFER(RUNNER_PEM_MAX);
    bool is_there = false;

    TRY(read_file(state, CERTIFICATE_FILE, &pem, &is_there, err));
    if (!is_there) return SUCCESS;
    return take_certificate(state, buffer_bytes(&pem), err).ok ? SUCCESS : damaged(state, CERTIFICATE_FILE, err);
}

struct result runner_state_keep_certificate(struct runner_state *state, struct bytes pem, struct error *err)
{
    if (pem.length > RUNNER_PEM_MAX) return failure(err, ERROR_INVALID, "a certificate has at most %d bytes", RUNNER_PEM_MAX);
    TRY(take_certificate(state, pem, err));
    return file_replace_at(state->folder, CERTIFICATE_FILE, pem, 0600, err);
}

/* ---- opening ---- */

static struct result not_enrolled(const char *path, struct error *err)
{
    return failure(err, ERROR_NOT_FOUND,
                   "%.200s: no runner was enrolled there: sijil-runner enroll URL --code-file FILE --state DIR", path);
}

struct result runner_state_open(const char *path, struct runner_state **state_out, struct error *err)
{
    OWNED(runner_state) *state = NULL;
    bool has_registry = false, has_document = false;

    const struct result opened = open_folder(path, &state, err);
    if (!opened.ok) return err->kind == ERROR_NOT_FOUND ? not_enrolled(path, err) : opened;
    const struct result loaded = load_key(state, err);
    if (!loaded.ok) return err->kind == ERROR_NOT_FOUND ? not_enrolled(path, err) : loaded;
    TRY(load_registry(state, &has_registry, err));
    TRY(load_document(state, &has_document, err));
    if (!has_registry || !has_document) return not_enrolled(path, err);
    TRY(load_certificate(state, err));
    *state_out = GIVE(state);
    return SUCCESS;
}

static struct result make_key(struct runner_state *state, struct error *err)
{
    OWNED(ecdsa_key) *key = NULL;

    const struct result loaded = load_key(state, err);
    if (loaded.ok || err->kind != ERROR_NOT_FOUND) return loaded;
    TRY(ecdsa_key_new(&key, err));
    TRY(ecdsa_key_save(key, state->key_file, err));
    return load_key(state, err);
}

struct result runner_state_begin(const char *path, struct runner_state **state_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(DOCUMENT_MAX);
    OWNED(runner_state) *state = NULL;
    bool has_document = false;

    TRY(file_make_directory(path, 0700, err));
    TRY(open_folder(path, &state, err));
    TRY(read_file(state, DOCUMENT_FILE, &text, &has_document, err));
    if (has_document)
        return failure(err, ERROR_CONFLICT,
                       "%.150s has a runner already: name another folder with --state, or show it with sijil-runner show", path);
    TRY(make_key(state, err));
    *state_out = GIVE(state);
    return SUCCESS;
}

struct run_trust runner_state_trust(const struct runner_state *state)
{
    struct run_trust trust = {.log_key = bytes_of_text(state->registry.log_key), .keyd = state->keyd};

    memcpy(trust.root, state->registry.root, sizeof trust.root);
    return trust;
}

void runner_state_free(struct runner_state *state)
{
    if (state == NULL) return;
    if (state->folder >= 0) (void)close(state->folder);
    document_free(state->document);
    ecdsa_key_free(state->key);
    ecdsa_key_free(state->keyd);
    ecdsa_key_free(state->root);
    free(state);
}
