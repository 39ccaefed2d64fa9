/*
 * tests/integration/lease_fixture.h -- runs of a project, and the offers of two runners for them. The header has definitions, so only
 * one source file of a program may include it.
 */
#pragma once

#include "tests/support/unit.h"

#include "base/clock.h"
#include "tests/integration/training_fixture.h"
#include "tests/support/made_run.h"
#include "training/lease_jobs.h"
#include "training/work.h"

#define DAY_MS INT64_C(86400000)

static const char *const keys[2] = {"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"};

static inline struct run_offer offer_of(unsigned runner)
{
    struct run_offer offer = {.key = keys[runner],
                              .pool = "default",
                              .region = "local/dxb",
                              .jurisdiction_count = 1,
                              .nodes = 1,
                              .isolation = 2,
                              .assurance = 3,
                              .cpus = 64,
                              .memory_bytes = INT64_C(1) << 40,
                              .devices_most = 1,
                              .enrolled_until_ms = clock_wall_ms() + INT64_C(365) * 86400000,
                              .device_count = 1,
                              .device_memory = {INT64_C(1) << 40}};

    offer.jurisdictions[0] = bytes_of_text("AE");
    offer.device_types[0] = bytes_of_text("H200");
    offer.device_migs[0] = bytes_of_text("");
    return offer;
}

static inline enum error_kind lease(const struct run_claim *claim, unsigned runner)
{
    const struct run_lease of = {
        .holder = {.key = keys[runner]}, .runner = {{1}}, .session = {1}, .ends_ms = clock_wall_ms() + INT64_C(86400000)};
    struct run_lease change;

    run_lease_prepare(claim, &of, &change);
    return changed(ACTION_RUN_LEASE, &change.change);
}

/* A run, as a test expects it. */
struct model {
    struct uuid id;
    const char *state; /* NULL: it does not exist */
    int nodes;         /* of the spec */
    int attempt, leased;
    bool is_open[2];     /* the node of the attempt goes on */
    bool is_finished[2]; /* it has sent its result */
    unsigned who[2];     /* its runner */
};

static inline struct run_signed signed_as(const struct model *model, unsigned kind)
{
    struct run_signed made = {.principal = "keyd", .envelope = bytes_of_text("{}")};

    memcpy(made.digest, model->id.bytes, sizeof model->id.bytes);
    made.digest[31] = (uint8_t)kind;
    return made;
}

static inline void request(const struct model *model, const char *pool)
{
    struct run run = {.id = model->id, .expires_ms = clock_wall_ms() + DAY_MS};
    const struct run_signed made = signed_as(model, 0);
    struct run_request change;

    (void)snprintf(run.pool, sizeof run.pool, "%s", pool);
    run_request_prepare(&project, &run, &made, &change);
    assert_int_equal(changed(ACTION_RUN_REQUEST, &change.change), ERROR_NONE);
}

static inline enum error_kind order(const struct model *model, int attempts)
{
    OWNED_JSON vectors = made_vectors();
    OWNED(run_envelope) *envelope = NULL;
    struct error err = {0};
    const struct run_signed made = signed_as(model, 1);
    struct run_order change;

    if (!run_envelope_read(bytes_of_text(json_text_of(made_bundle(vectors, 0), "order")), RUN_ORDER, &envelope, &err).ok)
        fail_msg("%s", err.message);
    run_order_prepare(&project, envelope, &made, &change);
    change.run = model->id;
    change.need.nodes = model->nodes;
    change.need.devices = 0;
    change.need.attempts = attempts;
    change.regions = "local/dxb local/auh";
    change.need.expires_ms = clock_wall_ms() + DAY_MS;
    return changed(ACTION_RUN_ORDER, &change.change);
}

/** Both runners ask for a run of several nodes. */
static inline void gather(void)
{
    for (unsigned runner = 0; runner < 2; runner++) {
        const struct run_offer offer = offer_of(runner);
        struct run_gather kept;
        struct error err = {0};
        enum run_keeping keeping = RUN_KEEPS_NOT;
        bool found = false;
        if (!run_gather_find(lookup_of(stack->pg), &offer, &kept, &found, &err).ok) fail_msg("%s", err.message);
        if (found && !kept.is_gathered && !run_gather_join(stack->pg, &offer, &kept, &keeping, &err).ok)
            fail_msg("%s", err.message);
    }
}

/** What a runner gets that asks now. */
static inline bool claims(const struct run_offer *offer, struct run_claim *claim_out)
{
    struct run_gather kept;
    struct error err = {0};
    bool is_kept = false, found = false;

    if (!run_gather_find(lookup_of(stack->pg), offer, &kept, &is_kept, &err).ok) fail_msg("%s", err.message);
    if (!run_claim(stack->pg, offer, is_kept ? &kept : NULL, claim_out, &found, &err).ok) fail_msg("%s", err.message);
    if (found && is_kept && !uuid_equal(&claim_out->run, &kept.claim.run) && !run_gather_note(stack->pg, offer, &kept, &err).ok)
        fail_msg("%s", err.message);
    return found;
}
