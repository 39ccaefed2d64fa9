/* The admission of a run's result. */
#include "base/text.h"
#include "keyd/run_sign_priv.h"
#include "training/format/compose.h"

/* A policy set, as an admission names it. */
struct named_set {
    uint64_t epoch;
    const uint8_t *digest;
};

/* The runner of a lease must count now, too. Lowers *assurance to its own. */
static struct result check_runner(const struct signing *signing, const struct run_bundle *bundle,
                                  const struct run_envelope *lease, int64_t *assurance, struct error *err)
{
    const struct run_signer *signer = signing->signer;
    const char *key = run_text(lease, "runner.key");
    const struct run_runner_use use = {run_text(signing->below.request, "project"), signer->now_ms, signer->now_ms};
    struct runner_key runner;

    TRY(key_register_check(signer->keys, key, err));
    TRY(run_keys_runner(&bundle->keys, key, &use, &runner, err));
    if (runner.assurance < *assurance) *assurance = runner.assurance;
    return SUCCESS;
}

static struct result write_admission(struct signing *signing, const struct run_bundle *bundle, const struct named_set *set,
                                     struct buffer *payload, struct error *err)
{
    const struct run_chain *below = &signing->below;
    int64_t assurance = INT64_MAX;
    char policy[HEX_32];

    TRY(check_runner(signing, bundle, below->lease, &assurance, err));
    for (size_t i = 0; i < below->peer_count; i++) TRY(check_runner(signing, bundle, below->peers[i].lease, &assurance, err));
    text_hex(set->digest, 32, policy);
    const struct run_admission_parts parts = {
        .verified_ms = signing->promise.from_ms, .epoch = (int64_t)set->epoch, .policy = policy, .assurance = assurance};
    return run_admission_write(&signing->below, &parts, payload, err);
}

static struct result add_admission(struct signing *signing, const struct run_bundle *bundle, const struct named_set *set,
                                   struct buffer *made, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(RUN_PAYLOAD_MAX);

    TRY(write_admission(signing, bundle, set, &payload, err));
    return signing_add(signing, buffer_bytes(&payload), made, err);
}

/*
 * The set in force. If the admission was signed before under an earlier set, the gateway names that set: its word is not believed, because only
 * the very admission of the ledger is signed again.
 */
static struct result admit(struct signing *signing, const struct run_bundle *bundle, struct buffer *made, struct error *err)
{
    const struct keyd_run *wanted = signing->wanted;
    const struct named_set now = {signing->signer->policy.epoch, signing->signer->policy.digest};
    const struct named_set earlier = {wanted->earlier_epoch, wanted->earlier_policies};
    const struct result added = add_admission(signing, bundle, &now, made, err);

    if (added.ok || err->kind != ERROR_CONFLICT || earlier.epoch == 0 || earlier.epoch > now.epoch) return added;
    buffer_clear(made);
    return add_admission(signing, bundle, &earlier, made, err);
}

static struct result check_promised(const struct signing *signing, const struct run_envelope *lease, struct error *err)
{
    return signing_check_promised(signing, lease, signing->below.order->digest, (unsigned)run_integer(lease, "attempt"),
                                  (unsigned)run_integer(lease, "node"), err);
}

static struct result check_leases_promised(const struct signing *signing, struct error *err)
{
    const struct run_chain *below = &signing->below;
    const int64_t ends_ms = run_time(below->order, "expires") + ADMISSION_WAIT_MS;

    if (ends_ms <= signing->signer->now_ms)
        return failure(err, ERROR_DENIED, "the order expired more than a day ago: its result is not admitted any more");
    TRY(signing_check_promised(signing, below->order, below->request->digest, 0, 0, err));
    TRY(check_promised(signing, below->lease, err));
    for (size_t i = 0; i < below->peer_count; i++) TRY(check_promised(signing, below->peers[i].lease, err));
    return SUCCESS;
}

struct result run_sign_admission(const struct run_signer *signer, const struct keyd_run *wanted, struct buffer *envelope,
                                 struct error *err)
{
    OWNED_SIGNING signing = {.signer = signer, .wanted = wanted, .type = RUN_ADMISSION};
    struct buffer OWNED_BUFFER made = BUFFER(RUN_ENVELOPE_MAX);
    OWNED(run_bundle) *below = NULL, *bundle = NULL;

    TRY(signing_begin(&signing, err));
    TRY(check_leases_promised(&signing, err));
    TRY(signing_check_whole(&signing, &below, err));
    signing_subject(&signing, signing.below.order->digest, 0, 0);
    if (!signing.is_again) {
        signing.promise.from_ms = signing.promise.until_ms = signer->now_ms;
        signing.promise.keep_ms = run_time(signing.below.order, "expires") + ADMISSION_WAIT_MS;
    }
    TRY(admit(&signing, below, &made, err));
    TRY(signing_check_whole(&signing, &bundle, err));
    TRY(signing_check_day(&signing, bundle, err));
    return signing_release(&signing, &made, envelope, err);
}
