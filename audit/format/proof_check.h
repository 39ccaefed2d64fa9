/*
 * audit/format/proof_check.h -- checks whether a file proves that an entry is in a log, and explains the result.
 *
 * It works offline. It trusts only the public key, and not the author of the files.
 */
#pragma once

#include "audit/format/checkpoint.h"
#include "audit/format/leaf.h"
#include "audit/format/note.h"
#include "audit/format/witness_policy.h"

struct proof_report {
    struct note_key key; /* that signed the checkpoint */
    struct checkpoint checkpoint;
    uint64_t index;
    size_t other_signatures;             /* on the checkpoint, by keys that were not given; not checked */
    const struct witness_policy *policy; /* that was demanded; NULL: none */
    struct witness_verdict witnesses;    /* with a policy */
    bool is_event;                       /* the entry is one of Sijil's events, and `event` has its content */
    struct leaf event;
};

/**
 * ERROR_DENIED: the file proves nothing; the message says which check failed. ERROR_INVALID, ERROR_LIMIT: the key or the proof
 * does not have the required form.
 */
RESULT proof_check(struct bytes vkey, struct bytes entry, struct bytes proof, struct proof_report *report_out, struct error *err);
/** What a verifier trusts, from its user alone. */
struct proof_trust {
    struct bytes vkey;                   /* of the log: a key, and what log_keys_read() takes behind it */
    const struct witness_policy *policy; /* which lives as long as the report; NULL: no cosignature is demanded */
};
/** The same; with a policy, its quorum must have cosigned the checkpoint. */
RESULT proof_check_cosigned(const struct proof_trust *trust, struct bytes entry, struct bytes proof,
                            struct proof_report *report_out, struct error *err);

/** Appends what is proven and what is not, in plain words. */
RESULT proof_report_text(const struct proof_report *report, struct buffer *text, struct error *err);
/** Appends the report as one JSON object and a line feed. */
RESULT proof_report_json(const struct proof_report *report, struct buffer *text, struct error *err);
/** Appends what a certificate's reader learns of witnesses: who has cosigned, or that no policy was given. */
RESULT certificate_witnesses_text(const struct proof_report *proof, struct buffer *text, struct error *err);
