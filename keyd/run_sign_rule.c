/* The trust rule behind a request, when its order is signed. */
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
