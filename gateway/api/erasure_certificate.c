/* GET /api/v1/erasures/PSEUDONYM/certificate: the certificate of an erasure (docs/erasure.md). */
#include <string.h>

#include "audit/format/erased.h"
#include "audit/format/merkle.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/keyd_client.h"
#include "gateway/api/erasure_priv.h"

#define ENTRY_MAX ((size_t)8 << 10)
#define PROOF_MAX ((size_t)64 << 10)

SCHEMA(erasure_certificate, "a certificate that a person was erased from the log",
       HAS_OBJECT("certificate", REQUIRED, schema_envelope, "the signed certificate"),
       HAS_TEXT("document", REQUIRED, FORM_FREE, 1, 0, "what two persons have signed"),
       HAS_TEXT("asked", REQUIRED, FORM_FREE, 1, 0, "the leaf audit.erase of the log"),
       HAS_TEXT("asked_proof", REQUIRED, FORM_FREE, 1, 0, "the proof that it is in the log (C2SP tlog-proof)"),
       HAS_TEXT("erased", REQUIRED, FORM_FREE, 1, 0, "the leaf subject.erase of the log, completed"),
       HAS_TEXT("erased_proof", REQUIRED, FORM_FREE, 1, 0, "the proof that it is in the log"))

/* The parts of a bundle; `document` is a text. */
struct parts {
    struct buffer envelope, document, asked, asked_proof, done, done_proof;
};

static void parts_done(struct parts *parts)
{
    buffer_done(&parts->envelope);
    buffer_done(&parts->document);
    buffer_done(&parts->asked);
    buffer_done(&parts->asked_proof);
    buffer_done(&parts->done);
    buffer_done(&parts->done_proof);
}
#define OWNED_PARTS __attribute__((cleanup(parts_done))) struct parts

struct result target_erasure_certificate(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return erasure_target_named(request, ACTION_ERASURE_READ);
}

static struct result prove(const struct request *request, struct pg *pg, const struct erasure_row *row, struct parts *parts,
                           struct error *err)
{
    struct signed_checkpoint checkpoint;

    TRY(sequencer_checkpoint(request->gateway->sequencer, &checkpoint, err));
    TRY(audit_prove_erasure(request->permit, pg, row->asked, &checkpoint,
                            &(struct proven_entry){&parts->asked, &parts->asked_proof}, err));
    return audit_prove_erasure(request->permit, pg, row->ended, &checkpoint,
                               &(struct proven_entry){&parts->done, &parts->done_proof}, err);
}

static struct result read_document(const struct request *request, struct pg *pg, const struct erasure_row *row,
                                   struct buffer *text, struct error *err)
{
    const struct document_proof_query query = {ACTION_ERASURE_READ, "", DOCUMENT_ERASURE, row->asked};
    OWNED(document_proof) *proof = NULL;
    OWNED(document) *document = NULL;

    TRY(document_envelopes(request->permit, pg, &query, &proof, err));
    TRY(document_read(proof->request.envelopes, proof->request.envelope_count, &document, err));
    const struct bytes payload = document_payload(document);
    return buffer_add(text, payload.data, payload.length, err);
}

static void hash_of(const struct buffer *entry, uint8_t hash_out[32])
{
    struct merkle_hash hash;

    merkle_leaf_hash(buffer_bytes(entry), &hash);
    memcpy(hash_out, hash.bytes, sizeof hash.bytes);
}

static struct result certify(const struct request *request, const struct erasure_row *row, struct parts *parts, struct error *err)
{
    struct erasure_certificate_request wanted = {.pseudonym = row->pseudonym,
                                                 .asked = row->asked,
                                                 .done = row->ended,
                                                 .payloads = row->payloads,
                                                 .erased_ms = row->erased_ms,
                                                 .key_version = row->key_version};

    hash_of(&parts->asked, wanted.asked_hash);
    hash_of(&parts->done, wanted.done_hash);
    return keyd_certify_erasure(request->gateway->keyd, &wanted, &parts->envelope, err);
}

static struct result answer(struct request *request, const struct parts *parts, struct error *err)
{
    OWNED_JSON certificate = NULL;

    TRY(json_read(buffer_bytes(&parts->envelope), ERASED_ENVELOPE_MAX, &certificate, err));
    OWNED_JSON bundle =
        json_pack("{s:O, s:s, s:s, s:s, s:s, s:s}", "certificate", certificate, "document", buffer_text(&parts->document),
                  "asked", buffer_text(&parts->asked), "asked_proof", buffer_text(&parts->asked_proof), "erased",
                  buffer_text(&parts->done), "erased_proof", buffer_text(&parts->done_proof));
    if (bundle == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a certificate");
    response_json(request, 200, bundle);
    response_header(request, "Cache-Control", "no-store");
    return SUCCESS;
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    OWNED_PARTS parts = {BUFFER(ERASED_ENVELOPE_MAX), BUFFER(ERASED_DOCUMENT_MAX), BUFFER(ENTRY_MAX),
                         BUFFER(PROOF_MAX),           BUFFER(ENTRY_MAX),           BUFFER(PROOF_MAX)};
    struct erasure_row row;

    TRY(erasure_row_find(request->permit, ACTION_ERASURE_READ, pg, request->reference, &row, err));
    if (row.ended == 0) return failure(err, ERROR_CONFLICT, "the erasure has begun and is not done yet: ask again in a minute");
    const struct result proven = prove(request, pg, &row, &parts, err);
    if (!proven.ok && api_proves_later(request, pg, err)) return SUCCESS;
    TRY(proven);
    TRY(read_document(request, pg, &row, &parts.document, err));
    TRY(certify(request, &row, &parts, err));
    return answer(request, &parts, err);
}

const struct handler handler_erasure_certificate = {.handle = handle};
