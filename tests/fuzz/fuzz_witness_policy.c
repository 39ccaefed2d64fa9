/* A policy of witnesses that is read has a quorum that all witnesses together meet, that none alone without it meets, and groups in order. */
#include <assert.h>
#include <string.h>

#include "audit/format/witness_policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_groups(const struct witness_policy *policy)
{
    for (size_t i = 0; i < policy->group_count; i++) {
        const struct policy_group *group = &policy->groups[i];
        assert(group->threshold >= 1 && group->threshold <= group->member_count);
        assert(group->member.group == WITNESS_POLICY_NONE || group->member.group > (int)i);
    }
    for (size_t i = 0; i < policy->witness_count; i++) {
        assert(policy->witnesses[i].key.algorithm == NOTE_COSIGNATURE);
        assert(policy->witnesses[i].member.group < (int)policy->group_count);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(witness_policy) *policy = NULL;
    uint64_t times_s[WITNESS_POLICY_WITNESSES_MAX] = {0};
    struct error err;

    if (!witness_policy_read((struct bytes){data, size}, &policy, &err).ok) return 0;
    assert(policy->witness_count <= WITNESS_POLICY_WITNESSES_MAX && policy->group_count <= WITNESS_POLICY_GROUPS_MAX);
    check_groups(policy);
    assert(witness_policy_is_met(policy, times_s, 0) == policy->needs_none);
    bool was_met = false;
    for (size_t i = 0; i < policy->witness_count; i++) { /* a further cosignature never undoes a quorum */
        times_s[i] = i + 1;
        const bool is_met = witness_policy_is_met(policy, times_s, 0);
        assert(is_met || !was_met);
        was_met = is_met;
    }
    assert(was_met || policy->needs_none);
    return 0;
}
