/*
 * training/bundle_priv.h -- the documents of a bundle: those that prove the keys of a run and its trust rule, with events and proofs.
 */
#pragma once

#include "documents/prove.h"
#include "training/bundle.h"
#include "training/format/run_keys.h"

/** A key of the run, and when it was used. */
struct key_use {
    enum document_kind kind;
    const char *name; /* its thumbprint */
    const char *project;
    int64_t at_ms; /* 0: at any time */
};

struct key_document {
    uint64_t sequence; /* of its event */
    struct document_proof *envelopes;
    struct document *document;
};
/** Sorted by the number of the event. */
struct key_documents {
    size_t count;
    struct key_document each[RUN_DOCUMENTS_MAX];
    const struct signed_checkpoint *published; /* of the proofs, if it has all events; NULL: the newest is used */
};

/**
 * Adds the enrolment of a key that covers the project, and its withdrawals in all scopes. Nothing is added for an unknown key: the checks of the bundle say that it is missing. ERROR_LIMIT: more documents than a bundle has.
 */
RESULT key_documents_add(const struct permit *permit, const struct run_bundle_source *source, enum action action,
                         const struct key_use *use, struct key_documents *documents, struct error *err) __attribute__((nonnull));
/** Adds the version of the trust rule `subject` ("acme/models:gh-train") before the event `before`. Nothing is added for an unknown rule. */
struct rule_use {
    const char *subject;
    uint64_t before;
};
RESULT key_documents_add_rule(const struct permit *permit, const struct run_bundle_source *source, enum action action,
                              const struct rule_use *use, struct key_documents *documents, struct error *err)
    __attribute__((nonnull));
/** Adds the documents of the approvers that signed those of all keys. Call it once, after these. */
RESULT key_documents_add_signers(const struct permit *permit, const struct run_bundle_source *source, enum action action,
                                 struct key_documents *documents, struct error *err) __attribute__((nonnull));
/** Adds the member `documents` to the bundle. */
RESULT key_documents_write(const struct permit *permit, const struct run_bundle_source *source, enum action action,
                           const struct key_documents *documents, json_t *bundle, struct error *err) __attribute__((nonnull));
void key_documents_done(struct key_documents *documents);

/** The checkpoint of a proof: `published`, if it is there and has the entry; else the newest one, once it has it. */
RESULT bundle_checkpoint(const struct run_bundle_source *source, const struct signed_checkpoint *published, uint64_t entry,
                         struct signed_checkpoint *checkpoint_out, struct error *err);
/** Adds the member `restrictions`: those of the organisations of the specification that are in force, as far as this gateway knows; nothing if there is none. */
RESULT bundle_restrictions_of_day(const struct run_bundle_source *source, const json_t *spec, json_t *bundle, struct error *err)
    __attribute__((nonnull));
/** The same of those of one organisation, of whatever time, that the line of a decision names. */
RESULT bundle_restrictions_named(const struct run_bundle_source *source, const char *project, const char *line, json_t *bundle,
                                 struct error *err) __attribute__((nonnull));
/** Sets a member of an object to a text. ERROR_INVALID: it is not UTF-8. */
RESULT bundle_set_text(json_t *object, const char *member, struct bytes text, struct error *err);
