#include "policy/decider/decider.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "policy/decider/decider_priv.h"
#include "policy/decider/metrics.h"

struct snapshot *decider_take(struct decider *decider)
{
    (void)pthread_mutex_lock(&decider->lock);
    struct snapshot *snapshot = snapshot_keep(decider->snapshot);
    (void)pthread_mutex_unlock(&decider->lock);
    return snapshot;
}

bool decider_is_stale(const struct decider *decider, struct snapshot *snapshot)
{
    return clock_monotonic_ms() - atomic_load(&snapshot->checked_ms) > decider->stale_ms;
}

static void count(const struct decision_context *context, const struct decision *decision, int64_t started_us)
{
    static const enum policy_metric metrics[] = {[VERDICT_ALLOW] = POLICY_METRIC_ALLOWED,
                                                 [VERDICT_DENY] = POLICY_METRIC_DENIED,
                                                 [VERDICT_HIDE] = POLICY_METRIC_HIDDEN,
                                                 [VERDICT_CHALLENGE] = POLICY_METRIC_CHALLENGED};

    metric_add(&policy_metrics_rows[metrics[decision_verdict(decision)]], 1);
    if (context->is_stale) metric_add(&policy_metrics_rows[POLICY_METRIC_STALE], 1);
    metric_observe_us(&policy_metrics_rows[POLICY_METRIC_DECIDING], clock_monotonic_us() - started_us);
}

struct decision_context decider_context(const struct decider *decider, struct snapshot *snapshot,
                                        const struct decision_request *request)
{
    return (struct decision_context){.snapshot = snapshot,
                                     .request = request,
                                     .metadata_region = decider->metadata_region,
                                     .is_stale = decider_is_stale(decider, snapshot),
                                     .lacks = decider->lacks};
}

struct result decider_decide(struct decider *decider, const struct decision_request *request, struct decision **decision_out,
                             struct error *err)
{
    assert(request->principal != NULL && request->pair_count >= 1 && request->pair_count <= ACTION_PAIRS_MAX);
    const int64_t started_us = clock_monotonic_us();
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct decision_context context = decider_context(decider, snapshot, request);

    TRY(decide_request(&context, decision_out, err));
    count(&context, *decision_out, started_us);
    return SUCCESS;
}

struct result decider_may_list(struct decider *decider, const char *name, const struct policy_client *client, int64_t now_ms,
                               bool *may_out, struct error *err)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct decision_request request = {.client = *client, .now_ms = now_ms};
    const struct decision_context context = decider_context(decider, snapshot, &request);

    return evaluate_listing(&context, name, may_out, err);
}

struct result decider_retention(struct decider *decider, const char *name, int64_t now_ms, struct policy_retention *retention_out,
                                struct error *err)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct decision_request request = {.now_ms = now_ms};
    const struct decision_context context = decider_context(decider, snapshot, &request);

    return evaluate_retention(&context, name, retention_out, err);
}

struct result decider_run_duties(struct decider *decider, const char *name, int64_t now_ms, struct run_duties *duties,
                                 struct error *err)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct decision_request request = {.now_ms = now_ms};
    const struct decision_context context = decider_context(decider, snapshot, &request);

    return evaluate_run_duties(&context, name, duties, err);
}

struct result decider_train(struct decider *decider, const char *name, const char *region, int64_t now_ms,
                            struct train_answer *answer_out, struct error *err)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct decision_request request = {.now_ms = now_ms};
    const struct decision_context context = decider_context(decider, snapshot, &request);

    return evaluate_train(&context, name, region, answer_out, err);
}

struct result decider_store(struct decider *decider, const char *name, int64_t now_ms, struct store_answer *answer_out,
                            struct error *err)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct decision_request request = {.now_ms = now_ms};
    const struct decision_context context = decider_context(decider, snapshot, &request);

    return evaluate_store(&context, name, answer_out, err);
}

struct result decider_carried_label(struct decider *decider, const struct carried_query *query, struct carried_label *answer,
                                    struct error *err)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct decision_request request = {.now_ms = query->now_ms};
    const struct decision_context context = decider_context(decider, snapshot, &request);

    return evaluate_carried(&context, query, answer, err);
}

struct result decider_label_lacks(struct decider *decider, const char *name, const char *other, int64_t now_ms, bool *lacks_out,
                                  struct error *err)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct decision_request request = {.now_ms = now_ms};
    const struct decision_context context = decider_context(decider, snapshot, &request);

    return evaluate_label_lacks(&context, name, other, lacks_out, err);
}

struct result decider_evidence(struct decider *decider, const struct push_query *query, struct buffer *names, struct error *err)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct decision_request request = {.now_ms = query->now_ms};
    const struct decision_context context = decider_context(decider, snapshot, &request);

    return evaluate_evidence(&context, query, names, err);
}

struct result decider_promotes(struct decider *decider, const struct push_query *query, struct store_answer *answer_out,
                               struct error *err)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct decision_request request = {.now_ms = query->now_ms};
    const struct decision_context context = decider_context(decider, snapshot, &request);

    return evaluate_promotion(&context, query, answer_out, err);
}

struct result decider_shows(struct decider *decider, const char *name, const char *region, int64_t now_ms, bool *shows_out,
                            struct error *err)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct decision_request request = {.now_ms = now_ms};
    const struct decision_context context = decider_context(decider, snapshot, &request);

    return evaluate_metadata(&context, name, region, shows_out, err);
}

struct result decider_delivers(struct decider *decider, const char *name, const char *region, int64_t now_ms, bool *delivers_out,
                               struct error *err)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct decision_request request = {.now_ms = now_ms};
    const struct decision_context context = decider_context(decider, snapshot, &request);

    return evaluate_delivery(&context, name, region, delivers_out, err);
}

bool decider_principal(struct decider *decider, const char *key, const struct uuid *organisation, struct principal *principal_out)
{
    OWNED(snapshot) *snapshot = decider_take(decider);

    return authz_snapshot_principal(snapshot->authz, key, organisation, principal_out);
}

uint64_t decider_names_version(struct decider *decider)
{
    OWNED(snapshot) *snapshot = decider_take(decider);

    return snapshot->names->version;
}

void decider_resolve(struct decider *decider, const char *name, struct resource *resource_out)
{
    OWNED(snapshot) *snapshot = decider_take(decider);

    tenancy_resolve(&snapshot->tenancy, name, resource_out);
}

void decider_live_access(struct decider *decider, const struct principal *principal, const char *name, int64_t now_ms,
                         struct principal_access *access_out)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    struct resource resource;

    tenancy_resolve(&snapshot->tenancy, name, &resource);
    if (resource.kind == RESOURCE_REPOSITORY && !decider_is_stale(decider, snapshot)) {
        authz_snapshot_access(snapshot->authz, principal, &resource, now_ms, access_out);
        return;
    }
    memset(access_out, 0, sizeof *access_out);
    memcpy(access_out->name, resource.name, sizeof access_out->name);
}

bool decider_is_live(struct decider *decider, const struct principal *principal, int64_t now_ms)
{
    OWNED(snapshot) *snapshot = decider_take(decider);

    return !decider_is_stale(decider, snapshot) && authz_snapshot_is_live(snapshot->authz, principal, now_ms);
}

bool decider_has_role(struct decider *decider, const struct principal *principal, int64_t now_ms)
{
    OWNED(snapshot) *snapshot = decider_take(decider);

    return decider_is_stale(decider, snapshot) || authz_snapshot_has_role(snapshot->authz, principal, now_ms);
}

struct uuid decider_home(struct decider *decider, const struct principal *principal, int64_t now_ms)
{
    OWNED(snapshot) *snapshot = decider_take(decider);

    return authz_snapshot_home(snapshot->authz, principal, now_ms);
}

int64_t decider_robot_expires(struct decider *decider, const struct principal *principal)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct authz_robot *robot =
        principal->kind == PRINCIPAL_ROBOT ? authz_snapshot_robot(snapshot->authz, &principal->id) : NULL;

    return robot == NULL ? 0 : robot->expires_ms;
}

int64_t decider_previous_until(struct decider *decider, const struct principal *principal, int64_t now_ms)
{
    static const uint8_t none[ROBOT_SECRET_HASH];
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct authz_robot *robot =
        principal->kind == PRINCIPAL_ROBOT ? authz_snapshot_robot(snapshot->authz, &principal->id) : NULL;

    if (robot == NULL || memcmp(robot->previous_hash, none, sizeof none) == 0 || now_ms >= robot->previous_until_ms) return 0;
    return robot->previous_until_ms;
}

uint64_t decider_epoch(const struct decider *decider)
{
    OWNED(snapshot) *snapshot = decider_take((struct decider *)(uintptr_t)decider); /* changes nothing but the lock */

    return snapshot->epoch;
}

bool decider_is_ready(const struct decider *decider, struct error *err)
{
    struct decider *self = (struct decider *)(uintptr_t)decider; /* changes nothing but the lock */
    OWNED(snapshot) *snapshot = decider_take(self);
    struct error problem;

    if (!decider_is_stale(decider, snapshot)) return true;
    (void)pthread_mutex_lock(&self->lock);
    problem = self->problem;
    (void)pthread_mutex_unlock(&self->lock);
    const struct result late =
        failure(err, ERROR_UNAVAILABLE, "rights and policies were last checked more than %u s ago: %.160s",
                decider->stale_ms / 1000, problem.kind == ERROR_NONE ? "the loader is late" : problem.message);
    return late.ok;
}

bool decider_places_authorities(const struct decider *decider)
{
    OWNED(snapshot) *snapshot = decider_take((struct decider *)(uintptr_t)decider); /* changes nothing but the lock */

    return snapshot->set != NULL && policy_set_places_authorities(snapshot->set);
}

struct policy_set *decider_policy_set(struct decider *decider)
{
    OWNED(snapshot) *snapshot = decider_take(decider);

    return policy_set_keep(snapshot->set);
}
