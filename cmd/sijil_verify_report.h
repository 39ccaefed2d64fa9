/*
 * cmd/sijil_verify_report.h -- checks a residency report against its evidence (docs/formats/residency-report.md).
 */
#pragma once

#include "audit/format/witness_policy.h"
#include "base/bytes.h"

struct report_request {
    const char *key; /* of the log */
    const char
        *set; /* file of 'sijil policy export': who has signed sets that several persons sign, and restrictions; NULL: none */
    const char *root;     /* file: the root of approvers; NULL: signatures of policy sets are not checked */
    const char *file;     /* the report */
    const char *page;     /* a page or a CSV of it; NULL: none */
    const char *evidence; /* NULL: beside the report */
    const struct witness_policy *policy;
    bool json;
};
/** ERROR_DENIED: report, page and evidence do not fit together; the message names the first wrong row. *is_sound_out false: a decision
 * differs, or the evidence lacks what events commit to. */
RESULT report_verify(const struct report_request *request, struct buffer *answer, bool *is_sound_out, struct error *err);
