/* Signed documents of strangers, one to four envelopes each behind a u16 length: read within bounds, and none comes into force. */
#include <assert.h>
#include <string.h>

#include "documents/format/signing_key.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t cut(struct reader *input, struct bytes envelopes[DOCUMENT_SIGNATURES_MAX])
{
    size_t count = 0;

    while (count < DOCUMENT_SIGNATURES_MAX && input->left.length > 2) {
        const size_t length = reader_u16(input);
        envelopes[count++] = reader_take(input, length < input->left.length ? length : input->left.length);
    }
    return count;
}

/* An accepted document is within the bounds of the header, and has the same digest each time. */
static void check_read(const struct document *document)
{
    char detail[DOCUMENT_DETAIL_SIZE];
    struct document_pin pin = {0}, next;
    struct error err = {0};

    assert(document->kind < DOCUMENT_KIND_COUNT && document->version >= 1 && document->name[0] != '\0');
    assert(document->expires_ms == 0 || document->expires_ms > document->effective_ms);
    document_detail(document, detail);
    assert(strlen(detail) < sizeof detail && strncmp(detail, "sha256:", 7) == 0);
    assert(document_pin_next(&pin, document, 1, &next, &err).ok && next.epoch > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ecdsa_key *root; /* a fresh one: no seed can be signed by it */
    static struct document_trust trust;
    struct reader input = reader_of((struct bytes){data, size});
    struct bytes envelopes[DOCUMENT_SIGNATURES_MAX] = {0};
    OWNED(document) *document = NULL;
    struct signing_key key;
    bool is_own = false;
    struct error err = {0};

    if (root == NULL) {
        assert(ecdsa_key_new(&root, &err).ok);
        ecdsa_key_public(root, trust.root);
    }
    if (!document_read(envelopes, cut(&input, envelopes), &document, &err).ok) return 0;
    check_read(document);
    trust.now_ms = document->effective_ms;
    if (document->kind == DOCUMENT_SIGNING_KEY && document->is_withdrawn && signing_key_read(document, &key, &err).ok) {
        assert(document_is_signed_by(document, key.point, &is_own, &err).ok); /* a key may withdraw itself */
        if (!is_own &&
            signing_key_has_old(&key)) /* or the one that it replaces: whose that is, and whether it waits, sijil-keyd knows */
            assert(document_is_signed_by(document, key.replaces, &is_own, &err).ok);
    }
    assert(is_own || !document_check(document, &trust, &err).ok);
    return 0;
}
