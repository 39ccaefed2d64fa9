/*
 * audit/format/scim_told.h -- what one event tells of the rows of SCIM, and whether it fits what an earlier event has told (docs/formats/audit-dump.md).
 *
 * `sijil-verify fsck` and the verifier of a gateway read events by this. Views live as long as the detail.
 */
#pragma once

#include "audit/format/scim_state.h"
#include "base/bytes.h"
#include "crypto/hmac.h"

#define SCIM_TOLD_GROUP "scim.group"
#define SCIM_TOLD_MINT  "token.mint"

struct scim_told {
    bool is_group, is_deleted;                            /* is_deleted: a group */
    struct bytes id;                                      /* of SCIM */
    unsigned state;                                       /* enum scim_state and 1; 0: not told */
    struct bytes identity, link, members, was, pseudonym; /* in hexadecimal; empty: not told */
};
/** False: the event tells nothing of these rows. `detail` is NULL or what stands behind the '#' of the resource. */
bool scim_told_read(const char *action, const char *detail, struct scim_told *told_out) __attribute__((nonnull(1, 3)));

/** The same as hashes with a secret key: what the event says of the time before it, and of the time from it on. 0: not told. */
struct scim_left {
    uint64_t was, members, identity, person;
};
struct scim_left scim_told_left(const struct scim_told *told, const uint8_t secret[TABLE_KEY_SIZE]) __attribute__((nonnull));
/** What was otherwise before the event than an earlier one had left it; NULL: nothing. */
const char *scim_left_fault(const struct scim_left *earlier, const struct scim_left *event) __attribute__((nonnull));
