#include "policy/restriction.h"

#include <string.h>

#include "base/memory.h"
#include "policy/compiled_priv.h"
#include "policy/no_memory_priv.h"
#include "policy/set_priv.h"

struct result policy_restrictions_join(const struct policy_set *set, const json_t *policies,
                                       struct policy_documents **documents_out, struct error *err)
{
    OWNED_JSON all = json_copy(json_object_get(set->json, "policies")); /* a shallow copy */

    if (all == NULL || json_array_extend(all, (json_t *)(uintptr_t)policies) != 0) return policy_no_memory(err);
    return policy_documents_new(all, documents_out, err);
}

static json_t *part(const struct policy_set *set, const char *name)
{
    return json_object_get(set->json, name);
}

struct result policy_restrictions_show(const struct policy_set *set, const json_t *policies, struct policy_set **shown_out,
                                       struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED_JSON all = json_copy(part(set, "policies"));

    if (all == NULL || json_array_extend(all, (json_t *)(uintptr_t)policies) != 0) return policy_no_memory(err);
    const struct policy_set_parts parts = {.epoch = set->epoch,
                                           .policies = all,
                                           .regions = part(set, "regions"),
                                           .groups = part(set, "groups"),
                                           .networks = part(set, "networks"),
                                           .exceptions = part(set, "exceptions"),
                                           .declassified = part(set, "declassified")};
    TRY(policy_set_compose(&parts, &payload, err));
    return policy_set_compile(buffer_bytes(&payload), shown_out, err);
}

struct result policy_restrictions_digests(const json_t *policies, char **digests_out, struct error *err)
{
    OWNED(policy_documents) *documents = NULL;

    if (json_array_size(policies) > POLICY_RESTRICTIONS_MAX)
        return failure(err, ERROR_LIMIT, "an organisation has at most %d restrictions", POLICY_RESTRICTIONS_MAX);
    TRY(policy_documents_new(policies, &documents, err));
    *digests_out = memory_copy_text(documents->digests, strlen(documents->digests));
    return *digests_out == NULL ? policy_no_memory(err) : SUCCESS;
}

struct result policy_restrictions_refuse(const struct policy_set *set, struct error *err)
{
    if (set->documents->count > POLICY_COUNT_MAX - POLICY_RESTRICTIONS_MAX)
        return failure(err, ERROR_LIMIT, "%zu policies; a new set has at most %d, because each organisation may add %d",
                       set->documents->count, POLICY_COUNT_MAX - POLICY_RESTRICTIONS_MAX, POLICY_RESTRICTIONS_MAX);
    for (size_t i = 0; i < set->documents->count; i++)
        if (set->documents->documents[i]->organisation != NULL)
            return failure(err, ERROR_INVALID,
                           "policies: %.80s is of an organisation, whose officers sign it (sijil policy restriction draft)",
                           set->documents->documents[i]->name);
    return SUCCESS;
}
