/*
 * documents/prove.h -- a document in force as a proof for sijil-keyd: its envelopes, and the chain of pins that contains it.
 */
#pragma once

#include "audit/permit.h"
#include "documents/view.h"

struct document_proof_query {
    enum action action; /* that the permit allows */
    const char *scope;  /* of the document */
    enum document_kind kind;
    uint64_t sequence; /* of the event that put it into force */
};
/** The views in `request` live as long as the proof. */
struct document_proof {
    struct document_chain_request request;
    struct pg_rows *rows;
    struct buffer later;
};
/** ERROR_NOT_FOUND: keyd has pinned no such document. ERROR_LIMIT: more than DOCUMENT_LINKS_MAX were pinned later. ERROR_CORRUPT. */
RESULT document_prove(const struct permit *permit, struct pg *pg, struct document_view *view,
                      const struct document_proof_query *query, struct document_proof **proof_out, struct error *err)
    __attribute__((nonnull));
/** Only the envelopes, for a reader: `request` has nothing else. ERROR_CORRUPT. */
RESULT document_envelopes(const struct permit *permit, struct pg *pg, const struct document_proof_query *query,
                          struct document_proof **proof_out, struct error *err) __attribute__((nonnull));
/**
 * The same for the bundle of a training run: a document of a key, or of a trust rule, in any scope. The permit is of `query->action` on the run's project;
 * query->scope is not used.
 */
RESULT document_envelopes_of_key(const struct permit *permit, struct pg *pg, const struct document_proof_query *query,
                                 struct document_proof **proof_out, struct error *err) __attribute__((nonnull));
void document_proof_free(struct document_proof *proof);
DEFINE_OWNED(document_proof);
