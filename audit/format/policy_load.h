/*
 * audit/format/policy_load.h -- the text by which an event names a loaded policy set (docs/formats/audit-log.md section
 * 13).
 *
 * The gateway writes it as the detail of a policy.load. sijil-keyd pins a set only with an entry of the signed log that has
 * exactly this text for it. An event without a change, such as one of a load that failed, does not have it.
 */
#pragma once

#include "base/bytes.h"

#define POLICY_LOAD_ACTION      "policy.load"
#define POLICY_LOAD_OUTCOME     "allowed"
#define POLICY_LOAD_DETAIL_SIZE 168 /* two digests of 71, 20 digits, two spaces and '\0' */

/** "sha256:ENVELOPE EPOCH sha256:SET": the envelope's own digest, then the epoch and the digest that the set in it states. */
void policy_load_detail(struct bytes envelope, uint64_t epoch, const uint8_t digest[32],
                        char detail_out[POLICY_LOAD_DETAIL_SIZE]);
