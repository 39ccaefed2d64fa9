/*
 * audit/cosigned.h -- checkpoints of our log with the cosignatures of witnesses (docs/formats/audit-log.md sections 8 and 11;
 * docs/witness.md).
 *
 * Rule: a row counts only if the key of the log has signed it and the policy's quorum has cosigned it.
 */
#pragma once

#include "audit/format/witness_policy.h"
#include "audit/permit.h"
#include "audit/published.h"
#include "audit/signed_checkpoint.h"
#include "storage/pg.h"

extern const struct pg_table cosigned_table;

struct cosigned {
    struct signed_checkpoint checkpoint; /* its note has the cosignatures */
    struct witness_verdict verdict;      /* is_met */
};

/** ERROR_DENIED unless `note` is a checkpoint by `keys` that the quorum of `policy` has cosigned. */
RESULT cosigned_read(const struct log_keys *keys, const struct witness_policy *policy, struct bytes note,
                     struct cosigned *cosigned_out, struct error *err);

/** The last that was stored of this size, under the permit for query->action. ERROR_NOT_FOUND: none counts. */
RESULT cosigned_of_size(const struct permit *permit, struct pg *pg, const struct published_query *query,
                        const struct witness_policy *policy, struct cosigned *cosigned_out, struct error *err)
    __attribute__((nonnull));
