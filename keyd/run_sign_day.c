/* What counts on the day of a signature: the trust rule behind a request, its key, and the policies. */
#include <assert.h>
#include <string.h>

#include "keyd/run_sign_priv.h"

struct result signing_check_rule(const struct signing *signing, const struct run_bundle *bundle, struct error *err)
{
    const struct run_envelope *request = signing->below.request;
    const struct run_use use = {
        .project = run_text(request, "project"), .sequence = UINT64_MAX, .time_ms = signing->signer->now_ms};
    const struct run_key *rule = NULL;

    TRY(run_keys_rule(&bundle->keys, request, &use, &rule, err));
    return key_register_check_newest(signing->signer->keys, rule->document, rule->sequence, err);
}

/* An enrolment that has ended since the order takes nothing back: a withdrawal does. Approvals are acts of their time. */
static struct result check_requester(const struct signing *signing, const struct run_bundle *bundle, struct error *err)
{
    const struct run_envelope *request = signing->below.request;

    if (run_is_of_rule(request)) return signing_check_rule(signing, bundle, err);
    if (run_member(request, "claims") != NULL) return SUCCESS;
    return key_register_check(signing->signer->keys, request->dsse->signatures[0].keyid, err);
}

static size_t find_restrictions(const void *context, const char *organisation, uint8_t digests[RUN_RESTRICTIONS_MAX][32])
{
    const struct run_signer *signer = context;

    return organisation_restrictions_find(signer->restrictions, organisation, digests, RUN_RESTRICTIONS_MAX);
}

void run_signer_take(struct run_signer *signer, const struct ledger_state *state)
{
    memcpy(signer->root, state->approver, sizeof signer->root);
    signer->policy = state->pins[0];
}

struct result signing_check_day(const struct signing *signing, const struct run_bundle *bundle, struct error *err)
{
    const struct run_signer *signer = signing->signer;
    const struct run_day day = {.root = signer->root,
                                .digest = signer->policy.digest,
                                .now_ms = signer->now_ms,
                                .restrictions = signer->restrictions == NULL ? NULL : find_restrictions,
                                .context = signer};

    assert(signer->check_day != NULL);
    TRY(check_requester(signing, bundle, err));
    return signer->check_day(bundle, &day, err);
}
