#include "runner/enrolment/enroll.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "client/local.h"
#include "documents/format/runner_code_file.h"
#include "runner/enrolment/registry.h"

#define HTTPS        "https://"
#define PAYLOAD_ROOM ((size_t)16 * 1024)
#define ABOUT_MAX    160 /* a code, a blank, "sha256:" and 64 digits */

/* ---- the file of the code ---- */

static struct result read_all(int fd, struct buffer *text, struct error *err)
{
    for (;;) {
        const ssize_t length = read(fd, text->data + text->length, text->maximum - text->length);
        if (length < 0) return failure(err, ERROR_INVALID, "standard input can't be read");
        if (length == 0) return SUCCESS;
        text->length += (size_t)length;
        if (text->length == text->maximum)
            return failure(err, ERROR_LIMIT, "the file of a code has less than %zu bytes", text->maximum);
    }
}

static struct result read_text(const char *path, struct buffer *text, struct error *err)
{
    uint8_t *reserved = NULL;

    TRY(buffer_reserve(text, text->maximum, &reserved, err)); /* growing would leave copies of the code */
    return strcmp(path, "-") == 0 ? read_all(STDIN_FILENO, text, err) : local(file_read(path, text, err), path, err);
}

static struct result parse(const char *path, struct bytes text, struct runner_code_file **file_out, struct error *err)
{
    return local(runner_code_file_read(text, file_out, err), path, err);
}

/* ---- the keys of the registry ---- */

static struct result compare_point(const char *option, const char *path, const uint8_t point[ECDSA_PUBLIC_SIZE],
                                   struct error *err)
{
    OWNED(ecdsa_key) *key = NULL;
    uint8_t wanted[ECDSA_PUBLIC_SIZE];

    if (path == NULL) return SUCCESS;
    TRY(local(ecdsa_key_load(path, &key, err), path, err));
    ecdsa_key_public(key, wanted);
    if (memcmp(wanted, point, sizeof wanted) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "%s %.150s: the file of the code has another key: who made it?", option, path);
}

static struct result check_pins(const struct enroll_options *options, const struct registry_pins *pins, struct error *err)
{
    TRY(compare_point("--root", options->root_file, pins->root, err));
    TRY(compare_point("--signer", options->signer_file, pins->signer, err));
    if (options->log_key == NULL || strcmp(options->log_key, pins->log_key) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "--log-key: the file of the code has another key: who made it?");
}

static struct result take_url(const char *url, struct registry_pins *pins, struct error *err)
{
    const char *host = url != NULL && strncmp(url, HTTPS, strlen(HTTPS)) == 0 ? url + strlen(HTTPS) : url;

    if (url == NULL) return SUCCESS;
    if (!registry_host_is_valid(host)) return failure(err, ERROR_INVALID, "the URL is https://HOST or https://HOST:PORT");
    (void)snprintf(pins->host, sizeof pins->host, "%s", host);
    return SUCCESS;
}

/* Keeps the pins before anything is sent, so they do not depend on an answer. */
static struct result keep_registry(const struct enroll_options *options, const struct runner_code_file *file,
                                   struct runner_state *state, struct error *err)
{
    struct buffer OWNED_BUFFER ca = BUFFER(RUNNER_CA_MAX);
    struct registry_pins pins = file->registry;

    TRY(check_pins(options, &pins, err));
    TRY(take_url(options->url, &pins, err));
    if (options->ca_file == NULL) return runner_state_keep_registry(state, &pins, buffer_bytes(&file->ca), err);
    TRY(local(file_read(options->ca_file, &ca, err), options->ca_file, err));
    return runner_state_keep_registry(state, &pins, buffer_bytes(&ca), err);
}

/* ---- the document ---- */

static struct result sign_document(const struct runner_state *state, const struct runner_invitation *invitation,
                                   struct buffer *envelope, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(PAYLOAD_ROOM);
    uint8_t point[ECDSA_PUBLIC_SIZE];

    ecdsa_key_public(state->key, point);
    TRY(runner_invitation_document(invitation, point, &payload, err));
    return document_sign(DOCUMENT_RUNNER, buffer_bytes(&payload), state->key, envelope, err);
}

static struct result prove(const struct runner_state *state, const char *code, const struct document *document,
                           const char *issued, char proof_out[RUNNER_PROOF_SIZE], struct error *err)
{
    char about[ABOUT_MAX], digest[2 * DOCUMENT_DIGEST_SIZE + 1];

    text_hex(document->digest, DOCUMENT_DIGEST_SIZE, digest);
    (void)snprintf(about, sizeof about, "%s sha256:%s", code, digest);
    const struct runner_proof proof = {
        .purpose = "enrolment", .audience = state->registry.audience, .issued_at = issued, .about = about};
    const struct result result = runner_proof_sign(&proof, state->key, proof_out, err);
    secret_wipe(about, sizeof about);
    return result;
}

static struct result compose(const struct runner_state *state, const struct runner_code *code, struct bytes envelope,
                             json_t **body_out, struct error *err)
{
    char text[RUNNER_CODE_SIZE], proof[RUNNER_PROOF_SIZE], issued[CLOCK_TEXT_SIZE];
    OWNED(document) *document = NULL;
    OWNED_JSON json = NULL;

    TRY(document_read(&envelope, 1, &document, err));
    TRY(json_read(envelope, envelope.length, &json, err));
    clock_format(clock_wall_ms(), issued);
    runner_code_write(code, text);
    const struct result proven = prove(state, text, document, issued, proof, err);
    if (proven.ok)
        *body_out = json_pack("{s:s, s:O, s:s, s:s}", "code", text, "envelope", json, "issued_at", issued, "proof", proof);
    secret_wipe(text, sizeof text);
    if (!proven.ok) return proven;
    return *body_out != NULL ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for an enrolment");
}

static struct result send_document(struct runner_state *state, const struct runner_code_file *file, struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(DOCUMENT_ENVELOPE_MAX((size_t)8 * 1024));
    OWNED(http) *http = NULL;
    OWNED_JSON body = NULL;
    OWNED_JSON answer = NULL;

    TRY(sign_document(state, file->invitation, &envelope, err));
    TRY(compose(state, &file->code, buffer_bytes(&envelope), &body, err));
    TRY(registry_connect(state, false, &http, err));
    TRY(registry_post(http, "/runner/enrolment", body, &answer, err));
    return runner_state_keep_document(state, buffer_bytes(&envelope), err);
}

static struct result enroll_with(const struct enroll_options *options, struct bytes text, struct runner_state **state_out,
                                 struct error *err)
{
    OWNED(runner_code_file) *file = NULL;
    OWNED(runner_state) *state = NULL;

    TRY(parse(options->code_file, text, &file, err));
    TRY(runner_state_begin(options->state, &state, err));
    TRY(keep_registry(options, file, state, err));
    TRY(send_document(state, file, err));
    *state_out = GIVE(state);
    return SUCCESS;
}

struct result enroll(const struct enroll_options *options, struct runner_state **state_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(RUNNER_CODE_FILE_MAX);
    const struct result read_file = read_text(options->code_file, &text, err);
    const struct result enrolled = read_file.ok ? enroll_with(options, buffer_bytes(&text), state_out, err) : read_file;

    if (text.data != NULL) secret_wipe(text.data, text.capacity);
    return enrolled;
}
