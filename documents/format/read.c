#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "crypto/digest.h"
#include "documents/format/document_priv.h"

static struct result no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for a signed document");
}

static document_head *const heads[DOCUMENT_KIND_COUNT] = {
#define KIND(constant, number, name, type, bytes, signers, action, withdrawers, withdrawal, head, check) [constant] = head,
#include "documents/format/kinds.def"
#undef KIND
};

/* Only one spelling is accepted: otherwise two payloads with the same content would have two digests. */
struct result document_read_canonical(struct bytes payload, size_t maximum, json_t **json_out, struct error *err)
{
    struct buffer OWNED_BUFFER canonical = BUFFER(maximum);
    OWNED_JSON json = NULL;

    if (payload.length > maximum) return failure(err, ERROR_LIMIT, "a document of this kind has at most %zu bytes", maximum);
    TRY(json_read(payload, maximum, &json, err));
    TRY(json_write_canonical(&canonical, json, err));
    if (!bytes_equal(buffer_bytes(&canonical), payload))
        return failure(err, ERROR_INVALID, "a signed document must be canonical JSON (RFC 8785)");
    *json_out = GIVE(json);
    return SUCCESS;
}

static struct result fill(struct document *document, struct bytes payload, struct error *err)
{
    TRY(document_read_canonical(payload, document_kind(document->kind)->bytes_max, &document->json, err));
    sha256_of(payload, document->digest);
    return heads[document->kind](document, err);
}

struct result document_read_payload(enum document_kind kind, struct bytes payload, struct document **document_out,
                                    struct error *err)
{
    OWNED(document) *document = memory_zeroed(1, sizeof *document);

    if (document == NULL) return no_memory(err);
    document->kind = kind;
    TRY(fill(document, payload, err));
    *document_out = GIVE(document);
    return SUCCESS;
}

static bool is_same(const struct dsse *a, const struct dsse *b)
{
    return strcmp(a->payload_type, b->payload_type) == 0 && bytes_equal(buffer_bytes(&a->payload), buffer_bytes(&b->payload));
}

static struct result read_envelopes(struct document *document, const struct bytes *envelopes, size_t count, struct error *err)
{
    const size_t largest = DOCUMENT_ENVELOPE_MAX(document_kind(DOCUMENT_POLICY_SET)->bytes_max);

    for (size_t i = 0; i < count; i++) {
        TRY(dsse_read(envelopes[i], largest, &document->signatures[i], err));
        document->signature_count++;
        if (!is_same(document->signatures[i], document->signatures[0]))
            return failure(err, ERROR_INVALID, "the envelopes hold different documents");
    }
    if (document_kind_of_type(document->signatures[0]->payload_type, &document->kind)) return SUCCESS;
    return failure(err, ERROR_INVALID, "no kind of document has the payload type %.100s", document->signatures[0]->payload_type);
}

static void digest_envelopes(struct document *document, const struct bytes *envelopes, size_t count)
{
    uint8_t each[DOCUMENT_SIGNATURES_MAX][DOCUMENT_DIGEST_SIZE];

    for (size_t i = 0; i < count; i++) sha256_of(envelopes[i], each[i]);
    if (count == 1) memcpy(document->envelopes_digest, each[0], sizeof each[0]);
    else sha256_of((struct bytes){each[0], count * sizeof each[0]}, document->envelopes_digest);
}

struct result document_read(const struct bytes *envelopes, size_t count, struct document **document_out, struct error *err)
{
    if (count == 0 || count > DOCUMENT_SIGNATURES_MAX)
        return failure(err, ERROR_LIMIT, "a document has 1 to %d envelopes", DOCUMENT_SIGNATURES_MAX);
    OWNED(document) *document = memory_zeroed(1, sizeof *document);
    if (document == NULL) return no_memory(err);
    TRY(read_envelopes(document, envelopes, count, err));
    TRY(fill(document, buffer_bytes(&document->signatures[0]->payload), err));
    digest_envelopes(document, envelopes, count);
    *document_out = GIVE(document);
    return SUCCESS;
}

/* A signature that could not be verified, for lack of memory, is an error and not a "no". */
static struct result no_unless_lacking(const struct error *refused, struct error *err)
{
    return refused->kind == ERROR_NO_MEMORY ? failure(err, ERROR_NO_MEMORY, "%s", refused->message) : SUCCESS;
}

struct result document_is_signed_by(const struct document *document, const uint8_t point[ECDSA_PUBLIC_SIZE], bool *is_signed_out,
                                    struct error *err)
{
    OWNED(ecdsa_key) *key = NULL;
    struct error refused = {0};
    bool is_signed = false;

    *is_signed_out = false;
    if (!ecdsa_key_from_public(point, &key, &refused).ok) return no_unless_lacking(&refused, err);
    for (size_t i = 0; i < document->signature_count && !is_signed; i++) {
        is_signed = dsse_check_signer(document->signatures[i], key, &refused).ok;
        if (!is_signed) TRY(no_unless_lacking(&refused, err));
    }
    *is_signed_out = is_signed;
    return SUCCESS;
}

struct bytes document_payload(const struct document *document)
{
    return buffer_bytes(&document->signatures[0]->payload);
}

const char *document_action(const struct document *document)
{
    const struct document_kind_row *row = document_kind(document->kind);

    return document->is_withdrawn ? row->withdrawal : row->action;
}

void document_free(struct document *document)
{
    if (document == NULL) return;
    for (size_t i = 0; i < DOCUMENT_SIGNATURES_MAX; i++) dsse_free(document->signatures[i]);
    json_decref(document->json);
    free(document);
}
