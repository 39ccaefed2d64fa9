/*
 * policy/restriction.h -- policies that an organisation adds for itself, joined with those of a set (documents/format/restriction.h).
 *
 * Together they are policies like others: the evaluator knows no difference, but that such a policy satisfies no pin.
 */
#pragma once

#include "policy/set.h"

#define POLICY_RESTRICTIONS_MAX 4 /* of one organisation */

/** `policies` are JSON, of one organisation. ERROR_INVALID, ERROR_LIMIT: more than POLICY_COUNT_MAX with those of the set. */
RESULT policy_restrictions_join(const struct policy_set *set, const json_t *policies, struct policy_documents **documents_out,
                                struct error *err);
/** The set as it counts in the organisation, as one set that nobody has signed, for a reader. The same errors. */
RESULT policy_restrictions_show(const struct policy_set *set, const json_t *policies, struct policy_set **shown_out,
                                struct error *err);
/** The digests of these policies, sorted, as a canonical JSON array. ERROR_INVALID, ERROR_LIMIT. */
RESULT policy_restrictions_digests(const json_t *policies, char **digests_out, struct error *err);
/** Whether a new set has none of these policies, which the officers of their organisations sign (ERROR_INVALID), and leaves them room (ERROR_LIMIT). */
RESULT policy_restrictions_refuse(const struct policy_set *set, struct error *err);
