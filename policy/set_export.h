/*
 * policy/set_export.h -- a policy set for somebody outside: the signed set, the event of the log that loaded it, and the event's proof
 * (docs/formats/policy-export.md).
 *
 * The file is one JSON object. It is checked offline, with the log's key and the root's public key. It proves who signed the set, and that the registry
 * loaded it at that time. It does not prove that no later set is in force.
 *
 * Where several persons sign, or exceptions name persons that must have, the file has a chain: the sets before it, and the documents of the approvers' keys, each with its event and proof.
 * With the restrictions of an organisation it has these, and the documents of the officers that sign them.
 *
 * A legal hold, or its release, is exported in the same form, with such a chain.
 */
#pragma once

#include "audit/format/proof_check.h"
#include "documents/format/erasure.h"
#include "policy/restriction_chain.h"

#define SET_EXPORT_KIND  "PolicySetExport"
#define HOLD_EXPORT_KIND "LegalHoldExport"
/* An envelope, an entry and a proof of 1 MiB, as JSON strings, of which only quotes and line ends are escaped; and the sets before it, which are mostly small. */
#define SET_EXPORT_MAX      ((size_t)64 * 1024 * 1024)
#define SET_EXPORT_BARE_MAX ((size_t)4 * POLICY_SET_ENVELOPE_MAX) /* of a file without the sets before it */

struct set_export_link {
    struct bytes envelopes[DOCUMENT_SIGNATURES_MAX];
    size_t count;
    struct bytes entry, proof;
};
struct set_export_parts {
    struct bytes envelope, entry, proof;
    const struct set_export_link *chain; /* in the order of the log */
    size_t chain_count;                  /* 0: the file has none, and the root must have signed a set without exceptions */
    const char *organisation;            /* whose restrictions the file has; NULL: nobody's */
    const struct set_export_link
        *documents; /* of officers, of keys that `chain` does not have, and restrictions, in the order of the log */
    size_t document_count;
};
/** Appends the file. ERROR_LIMIT, ERROR_INVALID for bytes that are no UTF-8. */
RESULT set_export_write(const struct set_export_parts *parts, struct buffer *text, struct error *err);

struct set_export_report {
    struct proof_report proof;
    struct set_chain *chain; /* owned; NULL: the root has signed the set, and nobody knows how many must have */
    struct policy_set *set;  /* owned */
    struct restriction_chain *
        restrictions; /* owned; NULL: the file is about no organisation. They are of the end of the file, which may be later than the set */
};
void set_export_report_done(struct set_export_report *report);
/** Whether this is such a file, by its members. */
bool set_export_is(const json_t *json);
/**
 * For who has no key of the log: the signatures are checked, and times and order of the events are taken from the file. ERROR_DENIED, ERROR_INVALID, ERROR_LIMIT. The report has no proof.
 */
RESULT set_export_open(struct bytes text, const struct ecdsa_key *root, struct set_export_report *report_out, struct error *err);
/** ERROR_DENIED: it does not prove that; ERROR_INVALID, ERROR_LIMIT: it has not the form. `report_out` is empty then. */
RESULT set_export_check(struct bytes text, const struct proof_trust *trust, const struct ecdsa_key *root,
                        struct set_export_report *report_out, struct error *err);
/** Appends what is proven and what is not, and the set as a person reads it at that time. */
RESULT set_export_report_text(const struct set_export_report *report, struct buffer *text, struct error *err);
/** Appends {"verified", "entry", "loaded_at", "origin", "set", "signers", "restrictions"} and a line feed. */
RESULT set_export_report_json(const struct set_export_report *report, struct buffer *text, struct error *err);

/* --- legal holds --- */

/** Appends the file of a hold: the last one of `links`, behind its chain. ERROR_LIMIT, ERROR_INVALID. */
RESULT hold_export_write(const struct set_export_link *links, size_t count, struct buffer *text, struct error *err);
bool hold_export_is(const json_t *json);
struct hold_export_report {
    struct proof_report proof;
    struct document *document; /* owned */
};
void hold_export_report_done(struct hold_export_report *report);
/** As set_export_check(). */
RESULT hold_export_check(struct bytes text, const struct proof_trust *trust, const struct ecdsa_key *root,
                         struct hold_export_report *report_out, struct error *err);
/** Appends what is proven and what is not. */
RESULT hold_export_report_text(const struct hold_export_report *report, struct buffer *text, struct error *err);
/** Appends {"verified", "entry", "recorded_at", "origin", "persons", "document"} and a line feed. */
RESULT hold_export_report_json(const struct hold_export_report *report, struct buffer *text, struct error *err);
