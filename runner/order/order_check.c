#include "runner/order/order_check.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "training/format/form.h"

struct check {
    const struct order_terms *terms;
    const struct run_bundle *bundle;
    const struct run_envelope *order, *lease;
    struct device_grant *grant;
};

void order_lease(const struct run_bundle *bundle, struct taken_lease *lease_out)
{
    const struct run_envelope *lease = bundle->chain.lease;
    const bool is_read = uuid_parse(bytes_of_text(run_text(lease, "run")), &lease_out->run) &&
                         text_from_hex(bytes_of_text(run_text(lease, "nonce")), lease_out->nonce, LEASE_NONCE_SIZE) &&
                         text_from_hex(bytes_of_text(lease->digest + sizeof "sha256:" - 1), lease_out->digest, LEASE_DIGEST_SIZE);

    assert(is_read); /* the shape was checked */
    lease_out->attempt = (uint8_t)run_integer(lease, "attempt");
    lease_out->node = (uint8_t)run_integer(lease, "node");
    lease_out->has_ended = false;
    lease_out->begins_ms = run_time(lease, "not_before");
    lease_out->expires_ms = run_time(lease, "expires");
}

/* ---- the checks, in their order ---- */

static struct result check_lease(const struct check *check, struct error *err)
{
    const struct run_chain *chain = &check->bundle->chain;
    struct uuid id;

    if (chain->lease == NULL) return failure(err, ERROR_DENIED, "the order comes without a lease");
    if (chain->result != NULL || chain->refusal != NULL) return failure(err, ERROR_DENIED, "the lease has a result already");
    if (strcmp(run_text(chain->lease, "runner.key"), check->terms->key) == 0 &&
        uuid_parse(bytes_of_text(run_text(chain->lease, "runner.id")), &id) && uuid_equal(&id, &check->terms->own.runner))
        return SUCCESS;
    return failure(err, ERROR_DENIED, "the lease is for another runner");
}

static struct result check_audience(const struct check *check, struct error *err)
{
    if (strcmp(run_text(check->order, "audience"), check->terms->audience) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "the order is for %.100s, and this runner was enrolled at %.100s",
                   run_text(check->order, "audience"), check->terms->audience);
}

/* A lease that was over stays over, even if the clock is set back. */
static struct result check_time(const struct check *check, struct error *err)
{
    const int64_t latest_ms = lease_journal_latest_ms(check->terms->journal), now_ms = check->terms->now_ms;
    const int64_t at_ms = now_ms > latest_ms ? now_ms : latest_ms;

    if (now_ms + RUN_CLOCK_SKEW_MS < latest_ms)
        return failure(err, ERROR_DENIED, "this machine's clock is behind the time of an earlier lease: set it");
    if (now_ms + RUN_CLOCK_SKEW_MS < run_time(check->lease, "not_before"))
        return failure(err, ERROR_DENIED, "the lease begins at %.30s: is this machine's clock right?",
                       run_text(check->lease, "not_before"));
    if (at_ms < run_time(check->lease, "expires")) return SUCCESS;
    return failure(err, ERROR_DENIED, "the lease was over at %.30s", run_text(check->lease, "expires"));
}

static struct result check_nonce(const struct check *check, struct error *err)
{
    struct taken_lease lease;

    order_lease(check->bundle, &lease);
    return lease_journal_check(check->terms->journal, &lease, err);
}

static struct result check_pool(const struct check *check, struct error *err)
{
    if (strcmp(run_text(check->order, "spec.pool"), check->terms->own.pool) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "the order is for the pool %.63s, and this runner is of %.63s",
                   run_text(check->order, "spec.pool"), check->terms->own.pool);
}

/* If a runner is in several jurisdictions at the same time, each must be allowed, because nobody can tell in which of them a byte
 * lies. */
static struct result check_jurisdiction(const struct check *check, struct error *err)
{
    const json_t *allowed = run_member(check->order, "jurisdictions"), *own = check->terms->own.jurisdictions;

    for (size_t i = 0; i < json_array_size(own); i++) {
        bool is_allowed = false;
        for (size_t j = 0; j < json_array_size(allowed) && !is_allowed; j++)
            is_allowed = json_equal(json_array_get(own, i), json_array_get(allowed, j));
        if (!is_allowed)
            return failure(err, ERROR_DENIED, "this runner is in %.32s, where the order does not allow it",
                           json_string_value(json_array_get(own, i)));
    }
    return json_array_size(own) > 0 ? SUCCESS : failure(err, ERROR_DENIED, "this runner's document names no jurisdiction");
}

static struct result check_isolation(const struct check *check, struct error *err)
{
    const char *least = run_text(check->order, "spec.isolation");
    const int floor = form_isolation_rank(check->terms->own.isolation);

    if ((int)check->terms->isolation < form_isolation_rank(least))
        return failure(err, ERROR_DENIED, "the order demands the isolation %.16s, and this machine gives %.16s", least,
                       isolation_name(check->terms->isolation));
    if ((int)check->terms->isolation < floor)
        return failure(err, ERROR_DENIED, "this runner was enrolled with the isolation %.16s, and its machine gives %.16s",
                       check->terms->own.isolation, isolation_name(check->terms->isolation));
    if (check->terms->own.assurance >= run_integer(check->order, "spec.assurance")) return SUCCESS;
    return failure(err, ERROR_DENIED, "the order demands the assurance %lld, and this runner has %lld",
                   (long long)run_integer(check->order, "spec.assurance"), (long long)check->terms->own.assurance);
}

static struct result check_devices(const struct check *check, struct error *err)
{
    const json_t *asked = run_member(check->order, "spec.devices");
    struct run_devices request = {.count = 0};

    if (asked == NULL) return SUCCESS;
    const char *mig = json_text_of(asked, "mig");
    request.count = run_integer(check->order, "spec.devices.count");
    request.memory_bytes = run_integer(check->order, "spec.devices.memory_bytes");
    (void)snprintf(request.type, sizeof request.type, "%.63s", run_text(check->order, "spec.devices.type"));
    (void)snprintf(request.mig, sizeof request.mig, "%.31s", mig == NULL ? "" : mig);
    if (request.count > check->terms->own.devices)
        return failure(err, ERROR_DENIED, "the order asks for %lld devices, and this runner was enrolled with %lld",
                       (long long)request.count, (long long)check->terms->own.devices);
    if (check->terms->devices == NULL) return failure(err, ERROR_DENIED, "the order asks for devices, and this machine has none");
    return devices_grant(check->terms->devices, &request, check->terms->device_folder, check->grant, err);
}

static struct result check_limits(const struct check *check, struct error *err)
{
#define X(name, least, most_of_all, initial, what)                                                             \
    if (run_integer(check->order, "spec.limits." #name) > check->terms->most.name)                             \
        return failure(err, ERROR_DENIED, "the order's %s is %lld, and this runner gives at most %lld", #name, \
                       (long long)run_integer(check->order, "spec.limits." #name), (long long)check->terms->most.name);
#include "training/format/limits.def"
#undef X
    return SUCCESS;
}

static const struct row {
    const char *name;
    struct result (*holds)(const struct check *check, struct error *err);
} rows[] = {{"lease", check_lease},         {"audience", check_audience}, {"time", check_time},
            {"nonce", check_nonce},         {"pool", check_pool},         {"jurisdiction", check_jurisdiction},
            {"isolation", check_isolation}, {"devices", check_devices},   {"limits", check_limits}};

/* ---- */

static struct result refuse(const char *check, const struct error *why, struct order_refusal *refusal, struct error *err)
{
    if (why->kind == ERROR_NO_MEMORY) return failure(err, why->kind, "%.200s", why->message);
    refusal->check = check;
    (void)snprintf(refusal->reason, sizeof refusal->reason, "%.256s", why->message);
    return SUCCESS;
}

/* A full journal says nothing against the order: other runners may run it. */
static const char *name_of_check(const struct row *row, const struct error *why)
{
    return row->holds == check_nonce && why->kind == ERROR_LIMIT ? RUN_CHECK_MACHINE : row->name;
}

static const char *name_of_failure(struct bytes text, const struct error *why)
{
    if (text.length > RUN_BUNDLE_MAX) return "size";
    return why->kind == ERROR_INVALID || why->kind == ERROR_LIMIT ? "form" : "proof";
}

struct result order_check(struct bytes text, const struct order_terms *terms, struct run_bundle **bundle_out,
                          struct device_grant *grant_out, struct order_refusal *refusal_out, struct error *err)
{
    OWNED(run_bundle) *bundle = NULL;
    struct error why = {0};

    *bundle_out = NULL;
    *grant_out = (struct device_grant){.count = 0};
    *refusal_out = (struct order_refusal){.check = NULL};
    if (!run_bundle_check(text, terms->trust, &bundle, &why).ok)
        return refuse(name_of_failure(text, &why), &why, refusal_out, err);
    const struct check check = {
        .terms = terms, .bundle = bundle, .order = bundle->chain.order, .lease = bundle->chain.lease, .grant = grant_out};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && refusal_out->check == NULL; i++)
        if (!rows[i].holds(&check, &why).ok) TRY(refuse(name_of_check(&rows[i], &why), &why, refusal_out, err));
    *bundle_out = GIVE(bundle);
    return SUCCESS;
}
