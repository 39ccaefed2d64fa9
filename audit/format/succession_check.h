/*
 * audit/format/succession_check.h -- whether a log follows another one: for somebody that has the key of the log that ended, and the keys of two officers.
 *
 * It works offline, and trusts only these keys. The key of the new log is in the statement, and is the newest one of the log that ended.
 */
#pragma once

#include "audit/format/proof_check.h"
#include "audit/format/succession.h"
#include "crypto/dsse.h"

/** The statement, as each officer has signed it. */
struct succession_plans {
    size_t count;
    struct dsse *each[SUCCESSION_OFFICERS_MAX];
};
/** `file` has their envelopes, one a line. ERROR_INVALID, ERROR_LIMIT: it is no statement that as many officers have signed as it demands. Checks no signature. */
RESULT succession_plans_read(struct bytes file, struct succession_plans *plans, struct error *err);
/** Legal for plans that begin as {0}, and after a failure. */
void succession_plans_done(struct succession_plans *plans);

struct succession_report {
    struct succession plan;         /* its checkpoint is a view into the plans */
    struct witness_verdict verdict; /* of the log that ended; with a policy */
    const struct witness_policy *policy;
    bool has_entry; /* the entry log.succeed was given, and fits */
};
struct succession_trust {
    struct proof_trust log; /* of the log that ended: all its keys, if one has followed another (audit/format/log_keys.h) */
    const struct ecdsa_key *officers[SUCCESSION_OFFICERS_MAX]; /* as many as are enough for this verifier, then NULL */
    unsigned root; /* persons that the root is by its policy set, as the verifier knows it; 0: it does not */
};
/** ERROR_DENIED: another number of officers must sign than are given, or fewer than the root is, an officer has not signed, the checkpoint is not of the log that ended or names a newer key, or the policy's quorum has not cosigned it. ERROR_INVALID: a key has no good form. */
RESULT succession_check(const struct succession_trust *trust, const struct succession_plans *plans,
                        struct succession_report *report_out, struct error *err);
/** The first own entry of the new log, and its proof under the new key: ERROR_DENIED unless it names this statement. */
RESULT succession_check_entry(struct succession_report *report, const struct succession_plans *plans, struct bytes entry,
                              struct bytes proof, struct error *err);
RESULT succession_report_text(const struct succession_report *report, struct buffer *text, struct error *err);
RESULT succession_report_json(const struct succession_report *report, struct buffer *text, struct error *err);
