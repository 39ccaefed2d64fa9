#include "runner/serve/verdict.h"

#include <stdio.h>
#include <string.h>

#include "runner/order/order_policy.h"
#include "runner/payload/payload.h"

static void refuse(struct verdict *verdict, const char *check, const struct error *why)
{
    verdict->kind = VERDICT_REFUSE;
    verdict->refusal.check = check;
    (void)snprintf(verdict->refusal.reason, sizeof verdict->refusal.reason, "%.256s", why->message);
}

/* The lease alone, so that a refusal of a damaged bundle can name it. Its signature proves nothing here: the registry knows whether it
 * gave such a lease. */
static struct result find_lease(struct bytes text, struct verdict *verdict, struct error *err)
{
    OWNED_JSON json = NULL;
    struct error why = {0};

    if (!json_read(text, RUN_BUNDLE_MAX, &json, &why).ok)
        return why.kind == ERROR_NO_MEMORY ? failure(err, why.kind, "%s", why.message) : SUCCESS;
    const char *lease = json_text_of(json, run_type_name(RUN_LEASE));
    if (lease == NULL || run_envelope_read(bytes_of_text(lease), RUN_LEASE, &verdict->lease, &why).ok) return SUCCESS;
    return why.kind == ERROR_NO_MEMORY ? failure(err, why.kind, "%s", why.message) : SUCCESS;
}

/* A refusal counts only if the key of the lease signs it. */
static struct result name_refusal(struct bytes text, const struct order_terms *terms, struct verdict *verdict, struct error *err)
{
    verdict->kind = VERDICT_REFUSE;
    TRY(find_lease(text, verdict, err));
    if (verdict->lease == NULL || strcmp(run_text(verdict->lease, "runner.key"), terms->key) != 0)
        verdict->kind = VERDICT_UNNAMED;
    else (void)snprintf(verdict->run, sizeof verdict->run, "%s", run_text(verdict->lease, "run"));
    return SUCCESS;
}

/* The registry may give a lease again whose answer was lost. If a worker has it, or had it, it is not refused, because that would end the run. */
static bool was_taken(const struct order_terms *terms, const struct taken_lease *taken)
{
    const struct taken_lease *known = lease_journal_find(terms->journal, taken->nonce);

    return known != NULL && memcmp(known->digest, taken->digest, sizeof taken->digest) == 0;
}

static struct result decide_again(const struct order_terms *terms, const struct ecdsa_key *root, struct verdict *verdict,
                                  struct error *err)
{
    char region[RUNNER_PLACE_SIZE];
    const struct order_context place = {.region = region, .now_ms = terms->now_ms};
    const json_t *sets = json_object_get(verdict->bundle->json, "policy_sets");
    struct error why = {0};

    runner_key_place(&terms->own, region);
    if (order_policy_check(verdict->bundle->chain.order, sets, root, &place, &why).ok) return SUCCESS;
    if (why.kind == ERROR_NO_MEMORY) return failure(err, why.kind, "%s", why.message);
    refuse(verdict, "policy", &why);
    return SUCCESS;
}

static struct result read_spec(struct verdict *verdict, const struct order_terms *terms, struct error *err)
{
    const struct payload_place place = {.in_pod = terms->in_pod, .joins_nodes = terms->joins_nodes};
    struct buffer OWNED_BUFFER text = BUFFER(RUN_SPEC_MAX);
    struct error why = {0};

    TRY(json_write_canonical(&text, run_member(verdict->bundle->chain.order, "spec"), err));
    TRY(run_spec_read(buffer_bytes(&text), &verdict->spec, err));
    if (!payload_check(verdict->spec, &place, &why).ok) refuse(verdict, "limits", &why);
    return SUCCESS;
}

static struct result make(struct bytes text, const struct order_terms *terms, const struct ecdsa_key *root,
                          struct verdict *verdict, struct error *err)
{
    TRY(order_check(text, terms, &verdict->bundle, &verdict->grant, &verdict->refusal, err));
    if (verdict->bundle != NULL && verdict->bundle->chain.lease != NULL) order_lease(verdict->bundle, &verdict->taken);
    if (verdict->refusal.check != NULL) {
        TRY(name_refusal(text, terms, verdict, err));
        if (strcmp(verdict->refusal.check, "nonce") == 0 && was_taken(terms, &verdict->taken)) verdict->kind = VERDICT_TAKEN;
        return SUCCESS;
    }
    (void)snprintf(verdict->run, sizeof verdict->run, "%s", run_text(verdict->bundle->chain.lease, "run"));
    TRY(read_spec(verdict, terms, err));
    if (verdict->kind == VERDICT_RUN) TRY(decide_again(terms, root, verdict, err));
    return verdict->kind == VERDICT_REFUSE ? name_refusal(text, terms, verdict, err) : SUCCESS;
}

struct result verdict_make(struct bytes text, const struct order_terms *terms, const struct ecdsa_key *root,
                           struct verdict *verdict_out, struct error *err)
{
    struct verdict verdict = {.kind = VERDICT_RUN};
    const struct result made = make(text, terms, root, &verdict, err);

    if (made.ok) *verdict_out = verdict;
    else verdict_done(&verdict);
    return made;
}

void verdict_done(struct verdict *verdict)
{
    run_bundle_free(verdict->bundle);
    run_envelope_free(verdict->lease);
    run_spec_free(verdict->spec);
    *verdict = (struct verdict){.kind = VERDICT_RUN};
}
