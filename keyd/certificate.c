#include "keyd/certificate.h"

#include <stdio.h>
#include <string.h>

#include "audit/format/deletion.h"
#include "audit/format/succession.h"
#include "crypto/dsse.h"

/* Sets the stage, and the time at which it was reached. */
static void set_stage(const struct keyring_roots *versions, struct deletion *deletion)
{
    deletion->stage = 2;
    for (uint32_t i = 0; i < versions->count && versions->each[i].number <= deletion->key_version; i++) {
        const struct keyring_root *root = &versions->each[i];
        if (root->kind != KEYRING_DESTROYED) {
            deletion->stage = 1;
            deletion->destroyed_ms = 0;
            return;
        }
        const int64_t destroyed_ms = keyring_root_destroyed_s(root) * 1000;
        if (destroyed_ms > deletion->destroyed_ms) deletion->destroyed_ms = destroyed_ms;
    }
}

static struct result copy(struct bytes text, char *into, size_t size, struct error *err)
{
    if (text.length >= size || memchr(text.data, '\0', text.length) != NULL)
        return failure(err, ERROR_INVALID, "a name in a certificate of deletion is too long");
    memcpy(into, text.data, text.length);
    into[text.length] = '\0';
    return SUCCESS;
}

static struct result fill(const struct signed_log *log, const struct keyd_deletion *request, struct deletion *deletion,
                          struct error *err)
{
    TRY(succession_origin(keyring_origin(log->keyring), log->number, deletion->origin, err));
    deletion->sequence = request->sequence;
    memcpy(deletion->leaf_hash, request->leaf_hash, sizeof deletion->leaf_hash);
    deletion->organisation = request->scope.organisation;
    deletion->project = request->scope.project;
    deletion->blob = request->blob;
    (void)snprintf(deletion->region, sizeof deletion->region, "%s", request->scope.region);
    TRY(copy(request->name, deletion->name, sizeof deletion->name, err));
    TRY(copy(request->digest, deletion->digest, sizeof deletion->digest, err));
    deletion->size_bytes = request->size_bytes;
    deletion->forgotten_ms = request->forgotten_ms;
    deletion->key_version = request->key_version;
    deletion->is_stored_again = request->is_stored_again;
    return SUCCESS;
}

static struct result sign(const struct signed_log *log, const struct keyd_deletion *request, struct deletion *deletion,
                          struct buffer *envelope, struct error *err)
{
    const struct ecdsa_key *signer = keyring_document_key(log->keyring);
    struct buffer OWNED_BUFFER payload = BUFFER(DELETION_PAYLOAD_MAX);

    if (request->size_bytes > INT64_MAX || request->sequence > INT64_MAX || request->forgotten_ms < 0 ||
        request->forgotten_ms > deletion->issued_ms + 60000)
        return failure(err, ERROR_INVALID, "a certificate of deletion with an impossible number");
    TRY(fill(log, request, deletion, err));
    if (deletion->stage == 0) set_stage(keyring_versions(log->keyring), deletion);
    TRY(deletion_write(deletion, &payload, err));
    return dsse_write(DELETION_TYPE, buffer_bytes(&payload), &signer, 1, envelope, err);
}

struct result certificate_sign(const struct signed_log *log, const struct keyd_deletion *request, int64_t now_ms,
                               struct buffer *envelope, struct error *err)
{
    struct deletion deletion = {.issued_ms = now_ms};

    if (request->key_version == 0 || request->key_version > keyring_version(log->keyring))
        return failure(err, ERROR_INVALID, "version %u of the key-encryption key is not there yet", request->key_version);
    return sign(log, request, &deletion, envelope, err);
}

struct result certificate_sign_elsewhere(const struct signed_log *log, const struct keyd_deletion *request, const char *holder,
                                         int64_t now_ms, struct buffer *envelope, struct error *err)
{
    struct deletion deletion = {.issued_ms = now_ms, .stage = 1};

    (void)snprintf(deletion.keyd, sizeof deletion.keyd, "%s", holder);
    return sign(log, request, &deletion, envelope, err);
}
