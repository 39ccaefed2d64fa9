/* Invitations of strangers: none is by a key that may approve, and from each that is read a runner's document follows. */
#include <assert.h>

#include "documents/format/runner_invitation.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_document(const struct runner_invitation *invitation, const uint8_t point[ECDSA_PUBLIC_SIZE])
{
    struct buffer OWNED_BUFFER payload = BUFFER(2 * RUNNER_INVITATION_MAX);
    OWNED(document) *document = NULL;
    struct runner_key key;
    struct error err = {0};

    assert(runner_invitation_document(invitation, point, &payload, &err).ok);
    assert(document_read_payload(DOCUMENT_RUNNER, buffer_bytes(&payload), &document, &err).ok);
    assert(runner_key_read(document, &key, &err).ok && uuid_equal(&key.runner, &invitation->runner));
    assert(document->effective_ms == invitation->issued_ms && document->expires_ms == invitation->runner_expires_ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ecdsa_key *root; /* a fresh one: no seed can be signed by it */
    static struct document_trust trust;
    OWNED(runner_invitation) *invitation = NULL;
    uint8_t signer[ECDSA_PUBLIC_SIZE];
    struct error err = {0};

    if (root == NULL) {
        assert(ecdsa_key_new(&root, &err).ok);
        ecdsa_key_public(root, trust.root);
    }
    if (!runner_invitation_read((struct bytes){data, size}, &invitation, &err).ok) return 0;
    assert(!runner_invitation_signer(invitation, &trust, signer, &err).ok && err.kind == ERROR_DENIED);
    check_document(invitation, trust.root);
    return 0;
}
