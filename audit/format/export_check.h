/*
 * audit/format/export_check.h -- checks line by line whether a file is a complete export, and explains the result. It needs constant memory.
 *
 * It works offline. It trusts only the public key, and not the author of the file.
 */
#pragma once

#include "audit/format/export.h"
#include "audit/format/heads.h"
#include "audit/format/proof_check.h"

/** How the edge of an export is proven. */
enum export_edge {
    EXPORT_EDGE_FIRST, /* left: nothing was before, because the first event has the number 1 under the key */
    EXPORT_EDGE_BEGINNING, /* left: the first event is the beginning of the organisation or project; an earlier one had the same name */
    EXPORT_EDGE_NEIGHBOUR, /* the neighbour is outside the range */
    EXPORT_EDGE_CLOSING    /* right: nothing came before the closing entry */
};

struct export_report {
    struct note_key key; /* that signed the checkpoint */
    bool is_signed;      /* false: no key was given, so no signature was checked */
    struct checkpoint checkpoint;
    struct export_terms terms;
    enum export_format format;
    uint64_t closing;
    int64_t closing_ms;
    char auditor[65];       /* the actor of the closing entry */
    uint64_t events;        /* in the range */
    uint64_t first, last;   /* their sequence numbers, if there is one */
    uint64_t opened;        /* events with what was sealed */
    uint64_t acts;          /* of these, requests with a good signature of the person that asked */
    uint64_t first_ordinal; /* of the first entry of the file, under the key */
    enum export_edge left, right;
    size_t other_signatures;             /* on the checkpoint, by keys that were not given; not checked */
    const struct witness_policy *policy; /* that was demanded; NULL: none */
    struct witness_verdict witnesses;    /* with a policy */
    struct heads_report heads;           /* set by the caller; size 0: no statement was shown */
    bool has_own_nonce;                  /* whoever asks has given the nonce, and it is this one. Set by the caller */
};

struct export_check;
/** trust->vkey: of the log; empty: the signature is not checked, which proves nothing to anybody else. trust->policy needs a key.
 *  ERROR_INVALID for another key. */
RESULT export_check_new(const struct proof_trust *trust, struct export_check **check_out, struct error *err);
/**
 * Takes the next bytes of the file: each line is checked once it is whole. ERROR_DENIED: the file is no complete export; the message says why, and in
 * which line. ERROR_INVALID, ERROR_LIMIT: a line does not have the form. After a failure the check is over.
 */
RESULT export_check_bytes(struct export_check *check, struct bytes piece, struct error *err);
/** Bytes that were taken behind the last whole line. */
size_t export_check_pending(const struct export_check *check);
/** Whether the closing entry was taken. */
bool export_check_is_complete(const struct export_check *check);
/** The head, once there is one; else NULL. Its views live as long as the check. */
const struct export_head *export_check_head(const struct export_check *check);
/** The number of the last entry; false: there is none. */
bool export_check_last(const struct export_check *check, uint64_t *sequence_out);
uint64_t export_check_size(const struct export_check *check);
uint64_t export_check_events(const struct export_check *check);
/** ERROR_DENIED: the file ends before its closing entry. */
RESULT export_check_end(const struct export_check *check, struct export_report *report_out, struct error *err);
void export_check_free(struct export_check *check);
DEFINE_OWNED(export_check);

/** Appends what is proven and what is not, in plain words. */
RESULT export_report_text(const struct export_report *report, struct buffer *text, struct error *err);
/** Appends the report as one JSON object and a line feed. */
RESULT export_report_json(const struct export_report *report, struct buffer *text, struct error *err);
