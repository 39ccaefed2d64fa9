#include "policy/known_truths_priv.h"

#include "base/memory.h"
#include "policy/rule_index_priv.h"

struct known_truths {
    uint64_t index, groups; /* their serials */
    known_truth truths[];
};

uint64_t known_truths_serial(void)
{
    static atomic_uint_fast64_t last;

    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

/* If two threads are the first ones, the later one drops its own. */
static struct result keep_new(const struct policy_target *target, const struct rule_index *index,
                              const struct policy_groups *groups, struct known_truths **known_out, struct error *err)
{
    struct known_truths *made = memory_zeroed(1, sizeof *made + index->truth_count);
    struct known_truths *present = NULL;

    if (made == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a decision");
    made->index = index->serial;
    made->groups = groups->serial;
    if (atomic_compare_exchange_strong(target->known, &present, made)) {
        *known_out = made;
        return SUCCESS;
    }
    known_truths_free(made);
    *known_out = present;
    return SUCCESS;
}

struct result known_truths_of(const struct policy_target *target, const struct rule_index *index,
                              const struct policy_groups *groups, known_truth **known_out, struct error *err)
{
    struct known_truths *known = atomic_load_explicit(target->known, memory_order_acquire);

    if (known == NULL) TRY(keep_new(target, index, groups, &known, err));
    *known_out = known->index == index->serial && known->groups == groups->serial ? known->truths : NULL;
    return SUCCESS;
}

void known_truths_free(struct known_truths *known)
{
    free(known);
}
