/*
 * Envelopes of training runs, of any type: an accepted one has one spelling and known members, and no stranger's key has signed
 * it.
 */
#include <assert.h>
#include <string.h>

#include "training/format/certificate.h"
#include "training/format/chain.h"
#include "training/format/form.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The getters work for all members that the shape demands. */
static void check_read(const struct run_envelope *envelope)
{
    struct buffer OWNED_BUFFER canonical = BUFFER(RUN_PAYLOAD_MAX);
    struct error err = {0};

    assert(json_write_canonical(&canonical, envelope->json, &err).ok);
    assert(bytes_equal(buffer_bytes(&canonical), buffer_bytes(&envelope->dsse->payload)));
    assert(strlen(envelope->digest) == RUN_DIGEST_TEXT - 1 && envelope->dsse->signature_count == 1);
    if (envelope->type == RUN_REQUEST) {
        const struct run_chain alone = {.request = envelope};
        if (run_chain_check(&alone, &err).ok) assert(run_time(envelope, "expires") > run_time(envelope, "issued_at"));
        else assert(err.kind == ERROR_DENIED);
    }
}

/* The keys of a certificate are points, or it is refused where they are used. Nobody but the runner's key has signed it. */
static void check_certificate(const struct run_envelope *certificate)
{
    static const char *const keys[] = {CERTIFICATE_RUNNER, CERTIFICATE_ATTEMPT};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char thumbprint[ECDSA_THUMBPRINT_SIZE];
        OWNED(ecdsa_key) *key = NULL;
        struct error err = {0};
        certificate_thumbprint(certificate, keys[i], thumbprint);
        assert(form_thumbprint(thumbprint));
        assert(certificate_key(certificate, keys[i], &key, &err).ok || err.kind == ERROR_DENIED);
        if (certificate_check_signer(certificate, keys[i], certificate, &err).ok)
            assert(strcmp(thumbprint, certificate->dsse->signatures[0].keyid) == 0);
    }
}

/* Where a node listens: text of a runner. An accepted one is short, and has a port. */
static void check_endpoint(const uint8_t *data, size_t size)
{
    char text[80]; /* more than the longest */

    if (size >= sizeof text) return;
    memcpy(text, data, size);
    text[size] = '\0';
    if (form_endpoint(text)) assert(strlen(text) < 64 && strrchr(text, ':')[1] != '\0' && strpbrk(text, " /%\n") == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ecdsa_key *stranger;
    struct error err = {0};

    if (stranger == NULL) assert(ecdsa_key_new(&stranger, &err).ok);
    check_endpoint(data, size);
    for (enum run_type type = 0; type < RUN_TYPES; type++) {
        OWNED(run_envelope) *envelope = NULL;
        if (!run_envelope_read((struct bytes){data, size}, type, &envelope, &err).ok) continue;
        check_read(envelope);
        if (type == RUN_CERTIFICATE) check_certificate(envelope);
        assert(!run_check_signer(envelope, stranger, &err).ok);
    }
    return 0;
}
