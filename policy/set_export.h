/*
 * policy/set_export.h -- a policy set for somebody outside: the signed set, the event of the log that loaded it, and the event's proof
 * (docs/formats/policy-export.md).
 *
 * The file is one JSON object. It is checked offline, with the log's key and the root's public key. It proves that the root signed the
 * set and that the registry loaded it at that time. It does not prove that no later set is in force.
 */
#pragma once

#include "audit/format/proof_check.h"
#include "policy/set.h"

#define SET_EXPORT_KIND "PolicySetExport"
/* An envelope, an entry and a proof of 1 MiB, as JSON strings; only quotes and line ends are escaped in them. */
#define SET_EXPORT_MAX ((size_t)4 * POLICY_SET_ENVELOPE_MAX)

struct set_export_parts {
    struct bytes envelope, entry, proof;
};
/** Appends the file. ERROR_LIMIT, ERROR_INVALID for bytes that are no UTF-8. */
RESULT set_export_write(const struct set_export_parts *parts, struct buffer *text, struct error *err);

struct set_export_report {
    struct proof_report proof;
    struct policy_set *set; /* owned */
};
void set_export_report_done(struct set_export_report *report);
/** ERROR_DENIED: it does not prove that; ERROR_INVALID, ERROR_LIMIT: it has not the form. `report_out` is empty then. */
RESULT set_export_check(struct bytes text, const struct proof_trust *trust, const struct ecdsa_key *root,
                        struct set_export_report *report_out, struct error *err);
/** Appends what is proven and what is not, and the set as a person reads it at that time. */
RESULT set_export_report_text(const struct set_export_report *report, struct buffer *text, struct error *err);
/** Appends {"verified", "origin", "entry", "loaded_at", "epoch", "digest", "policies"} and a line feed. */
RESULT set_export_report_json(const struct set_export_report *report, struct buffer *text, struct error *err);
