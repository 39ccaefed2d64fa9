#include "documents/pin_event.h"

#include <string.h>

#include "audit/own_reads.h"
#include "audit/query.h"

static struct result fill_proof(const struct document_source *source, struct document_pin_request *request, struct error *err)
{
    struct merkle_proof proof = {0};

    TRY(audit_prove_inclusion(source->pg, request->sequence, request->size, &proof, err));
    request->proof_count = proof.count;
    for (size_t i = 0; i < proof.count; i++) memcpy(request->proof[i], proof.hashes[i].bytes, MERKLE_HASH_SIZE);
    return SUCCESS;
}

struct result document_pin_event(const struct document_source *source, uint64_t log_size, struct document_pin_request *request,
                                 document_pinner *pinner, struct document_pin *pin_out, struct error *err)
{
    request->size = log_size;
    if (request->sequence >= request->size) {
        TRY(sequencer_await_signed(source->sequencer, request->sequence, err));
        return failure(err, ERROR_CONFLICT, "the log was signed meanwhile");
    }
    TRY(fill_proof(source, request, err));
    return pinner(source->keyd, request, pin_out, err);
}

bool document_is_unconvincing(enum error_kind kind)
{
    return kind == ERROR_NOT_FOUND || kind == ERROR_INVALID;
}
