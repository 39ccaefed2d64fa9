/*
 * cmd/sijil_verify_export.h -- `sijil-verify export`.
 */
#pragma once

#include "audit/format/witness_policy.h"
#include "base/bytes.h"

struct export_request {
    const char *key;                     /* of the log */
    const char *nonce;                   /* that the export must have; NULL: any */
    const char *file;                    /* "-" is standard input */
    const struct witness_policy *policy; /* NULL: none was given */
    const char *auditor;                 /* key of an auditor that has replayed the log; NULL: none */
    const char *heads,
        *heads_proofs[2]; /* files: its statement, and the proofs that lead to the export's checkpoint, which may be NULL */
    bool json;
};
/** Appends the results. ERROR_DENIED: the file is no complete export. Reads the file once, with constant memory. */
RESULT export_verify_file(const struct export_request *request, struct buffer *answer, struct error *err);
