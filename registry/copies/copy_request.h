/*
 * registry/copies/copy_request.h -- what the gateway of one region asks of that of another: the bytes of a blob, for a copy (docs/replication.md).
 *
 * It names the policy set that it was decided under: its epoch and digest must be those of the other end.
 */
#pragma once

#include "base/uuid.h"
#include "crypto/digest.h"

#define COPY_REQUEST_SIZE 512
#define COPY_REGION_MAX   63 /* letters */

struct copy_request {
    struct uuid project;
    char digest[DIGEST_TEXT_SIZE];
    char to[COPY_REGION_MAX + 1]; /* the region that gets the copy */
    uint64_t epoch;               /* of the policy set */
    char set[DIGEST_TEXT_SIZE];   /* its digest */
};
/** The target of the request: "/v1/copies/PROJECT/DIGEST/EPOCH/SET/REGION". */
void copy_request_write(const struct copy_request *request, char target_out[COPY_REQUEST_SIZE]);
/** False for any other spelling than the one above. */
bool copy_request_read(const char *target, struct copy_request *request_out);
