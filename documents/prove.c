#include "documents/prove.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "documents/document_store_priv.h"

void document_proof_free(struct document_proof *proof)
{
    if (proof == NULL) return;
    pg_rows_free(proof->rows);
    buffer_done(&proof->later);
    free(proof);
}

static struct result read_envelopes(struct pg *pg, const struct document_proof_query *query, struct document_proof *proof,
                                    struct error *err)
{
    struct document_chain_request *request = &proof->request;

    TRY(document_events(pg, query->kind, query->sequence, &proof->rows, err));
    if (pg_rows_count(proof->rows) == 0 || (uint64_t)pg_int8(proof->rows, 0, 0) != query->sequence)
        return failure(err, ERROR_CORRUPT, "event %llu of a document is not in the log any more",
                       (unsigned long long)query->sequence);
    for (size_t i = 0; i < DOCUMENT_SIGNATURES_MAX; i++) {
        request->envelopes[i] = pg_bytes(proof->rows, 0, DOCUMENT_EVENT_ENVELOPES + i);
        if (request->envelopes[i].length > 0) request->envelope_count = i + 1;
    }
    return SUCCESS;
}

struct result document_envelopes(const struct permit *permit, struct pg *pg, const struct document_proof_query *query,
                                 struct document_proof **proof_out, struct error *err)
{
    OWNED(document_proof) *proof = memory_zeroed(1, sizeof *proof);

    assert(strcmp(permit_resource(permit, query->action)->name, query->scope) == 0);
    if (proof == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the proof of a document");
    TRY(read_envelopes(pg, query, proof, err));
    *proof_out = GIVE(proof);
    return SUCCESS;
}

struct result document_envelopes_of_key(const struct permit *permit, struct pg *pg, const struct document_proof_query *query,
                                        struct document_proof **proof_out, struct error *err)
{
    OWNED(document_proof) *proof = memory_zeroed(1, sizeof *proof);

    assert(permit_resource(permit, query->action)->kind == RESOURCE_PROJECT);
    assert(query->kind != DOCUMENT_POLICY_SET);
    if (proof == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the document of a key");
    TRY(read_envelopes(pg, query, proof, err));
    *proof_out = GIVE(proof);
    return SUCCESS;
}

struct result document_prove(const struct permit *permit, struct pg *pg, struct document_view *view,
                             const struct document_proof_query *query, struct document_proof **proof_out, struct error *err)
{
    struct buffer OWNED_BUFFER later = BUFFER((size_t)DOCUMENT_LINKS_MAX * DOCUMENT_LINK_SIZE);
    OWNED(document_proof) *proof = NULL;
    struct document_chain chain;

    TRY(document_view_chain(view, query->kind, query->sequence, &chain, &later, err));
    TRY(document_envelopes(permit, pg, query, &proof, err));
    proof->later = later;
    later = BUFFER(0);
    proof->request.sequence = chain.sequence;
    proof->request.later = chain.later;
    memcpy(proof->request.before, chain.before, sizeof proof->request.before);
    *proof_out = GIVE(proof);
    return SUCCESS;
}
