/* The labels of a leased run: those that its artifacts' manifests state, and that of what it writes. */
#include "base/clock.h"
#include "runner/order/order_policy.h"
#include "runner/serve/artifacts.h"
#include "runner/serve/leased_priv.h"

static struct result fetch(struct leased *leased, struct error *err)
{
    const struct artifacts artifacts = {
        .session = leased->session, .host = leased->worker->options->state->registry.host, .spec = leased->verdict->spec};

    for (unsigned attempt = 0; !artifacts_floors(&artifacts, &leased->floors, err).ok; attempt++)
        if (!worker_tries_again(err, attempt, leased->ends_ms)) return (struct result){.ok = false};
    return SUCCESS;
}

static struct result decide(struct leased *leased, struct error *err)
{
    const struct runner_state *state = leased->worker->options->state;
    const struct run_bundle *bundle = leased->verdict->bundle;
    const json_t *sets = json_object_get(bundle->json, "policy_sets");
    char region[RUNNER_PLACE_SIZE];
    const struct order_context place = {.region = region, .now_ms = clock_wall_ms(), .floors = &leased->floors->views};

    runner_key_place(&state->own, region);
    TRY(order_policy_check(bundle->chain.order, sets, state->root, &place, err));
    buffer_clear(&leased->label);
    return order_policy_label(bundle->chain.order, sets, state->root, &place, &leased->label, err);
}

struct result leased_check_labels(struct leased *leased, struct error *err)
{
    TRY(fetch(leased, err));
    const struct result decided = decide(leased, err);
    leased->is_forbidden = !decided.ok && err->kind == ERROR_DENIED;
    return decided;
}
