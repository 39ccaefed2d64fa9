/*
 * cmd/sijil_verify_fsck.h -- `sijil-verify fsck` and `sijil-verify replay-keys`.
 */
#pragma once

#include "base/bytes.h"

struct fsck_request {
    const char *key;     /* of the log */
    const char *file;    /* "-" is standard input */
    const char *memory;  /* "256M"; NULL: the default */
    const char *threads; /* NULL: one for each processor */
    bool json;
    bool heads; /* the statement about the heads of all keys, and not the report */
};
/** Appends the results. *is_sound_out: there is no finding. ERROR_DENIED: the file is no whole dump of this log, or its heads are not proven. */
RESULT fsck_file(const struct fsck_request *request, struct buffer *answer, bool *is_sound_out, struct error *err);
