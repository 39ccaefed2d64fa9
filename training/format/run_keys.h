/*
 * training/format/run_keys.h -- the keys of persons and runners, and the trust rule, that a bundle's documents prove, each with its place in
 * the log.
 *
 * A key counts from the event of its document on. Documents are checked in the order of the log; each is checked with the keys of
 * the documents before it.
 */
#pragma once

#include "documents/format/runner_key.h"
#include "documents/format/signing_key.h"

#define RUN_DOCUMENTS_MAX 640 /* two of each of 256 runners, and those of persons and approvers */

/** What the verifier trusts. The bundle provides none of it. */
struct run_trust {
    struct bytes log_key;                /* as log_keys_read() takes it */
    const struct witness_policy *policy; /* whose quorum must have cosigned each checkpoint; NULL: none is demanded */
    const struct ecdsa_key *keyd;        /* public key of documents of sijil-keyd */
    uint8_t root[ECDSA_PUBLIC_SIZE];     /* of approvers */
};

struct run_key {
    struct document *document; /* owned */
    uint64_t sequence;         /* of its event */
    int64_t time_ms;           /* of its event */
};
struct run_keys {
    size_t count;
    struct run_key each[RUN_DOCUMENTS_MAX];
};

/** "" covers every project, "acme" covers the projects of the organisation acme. */
bool run_scope_covers(const char *scope, const char *project);

/** Checks `documents`, a list of the bundle's shape. ERROR_DENIED, ERROR_INVALID, ERROR_LIMIT, ERROR_NO_MEMORY. */
RESULT run_keys_read(const json_t *documents, const struct run_trust *trust, struct run_keys *keys, struct error *err);

/** The use for which a person's key must have been in force. */
struct run_use {
    const char *principal, *project;
    uint64_t sequence; /* before this entry of the log */
    int64_t time_ms;
    bool is_approval; /* a key that approves documents counts, too */
};
/** The key `keyid`, if it is one for that use. ERROR_DENIED says what is missing. */
RESULT run_keys_person(const struct run_keys *keys, const char *keyid, const struct run_use *use, struct ecdsa_key **key_out,
                       struct error *err);
/** A runner's key must have been in force for a project during this time (keyd's clock). */
struct run_runner_use {
    const char *project;
    int64_t from_ms, until_ms;
};
/** The document of the runner with this key, if it is one for that use. ERROR_DENIED. */
RESULT run_keys_runner(const struct run_keys *keys, const char *keyid, const struct run_runner_use *use,
                       struct runner_key *runner_out, struct error *err);

/**
 * The trust rule that asked for the run (run_is_of_rule()), as it was in force for this use: the newest document of its name before it. Its grants
 * must let it train with all repositories of the request. use->principal is not used. ERROR_DENIED. (run_rule.c)
 */
struct run_envelope;
RESULT run_keys_rule(const struct run_keys *keys, const struct run_envelope *request, const struct run_use *use,
                     const struct run_key **rule_out, struct error *err);

void run_keys_done(struct run_keys *keys);
