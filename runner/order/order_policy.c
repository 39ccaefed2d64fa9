#include "runner/order/order_policy.h"

#include <string.h>

static struct result find_set(const struct run_envelope *order, const json_t *sets, const struct ecdsa_key *root,
                              struct policy_set **set_out, struct error *err)
{
    for (size_t i = 0; i < json_array_size(sets); i++) {
        OWNED(policy_set) *set = NULL;
        struct error why = {0};
        if (!policy_set_read_named(bytes_of_text(json_string_value(json_array_get(sets, i))), root, &set, &why).ok)
            return failure(err, why.kind == ERROR_NO_MEMORY ? ERROR_NO_MEMORY : ERROR_DENIED, "%.250s", why.message);
        if (strcmp(policy_set_digest(set), run_text(order, "policy.digest")) != 0) continue;
        if ((int64_t)policy_set_epoch(set) != run_integer(order, "policy.epoch"))
            return failure(err, ERROR_DENIED, "the order names another epoch than its policy set has");
        *set_out = GIVE(set);
        return SUCCESS;
    }
    return failure(err, ERROR_DENIED, "the order comes without the policy set %.71s", run_text(order, "policy.digest"));
}

static struct train_run run_of(const struct policy_set *set, const struct run_envelope *order,
                               const struct order_context *context)
{
    return (struct train_run){
        .set = set, .spec = run_member(order, "spec"), .now_ms = context->now_ms, .floors = context->floors};
}

struct result order_policy_check(const struct run_envelope *order, const json_t *sets, const struct ecdsa_key *root,
                                 const struct order_context *context, struct error *err)
{
    OWNED(policy_set) *set = NULL;

    TRY(find_set(order, sets, root, &set, err));
    const struct train_run run = run_of(set, order, context);
    const struct train_terms terms = {.approvals = run_integer(order, "obligations.approvals"),
                                      .signed_request = json_is_true(run_member(order, "obligations.signed_request")),
                                      .jurisdictions = run_member(order, "jurisdictions")};
    TRY(policy_train_check_region(&run, context->region, err));
    return policy_train_check_terms(&run, &terms, err);
}

struct result order_policy_label(const struct run_envelope *order, const json_t *sets, const struct ecdsa_key *root,
                                 const struct order_context *context, struct buffer *label, struct error *err)
{
    OWNED(policy_set) *set = NULL;
    struct label written;

    TRY(find_set(order, sets, root, &set, err));
    const struct train_run run = run_of(set, order, context);
    TRY(policy_train_label(&run, &written, err));
    return label_write(label, &written, err);
}
