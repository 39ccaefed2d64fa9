/*
 * client/reference.h -- "HOST[:PORT]/ORGANISATION/PROJECT/REPOSITORY[:TAG|@DIGEST]", as people type it. With both, as
 * other tools write it, the digest counts.
 */
#pragma once

#include "base/bytes.h"

struct remote_reference {
    char host[256], repository[256], reference[160]; /* tag or digest; "latest" if none was given */
    bool is_digest, was_given;
};

/** ERROR_INVALID names the wrong part. */
RESULT remote_reference_parse(const char *text, struct remote_reference *reference_out, struct error *err);
