/*
 * tests/integration/lease_fixture.h -- the offers of two runners for the runs of a project. The header has definitions, so only
 * one source file of a program may include it.
 */
#pragma once

#include "tests/support/unit.h"

#include "base/clock.h"
#include "tests/integration/training_fixture.h"
#include "training/lease_jobs.h"
#include "training/work.h"

static const char *const keys[2] = {"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"};

static struct run_offer offer_of(unsigned runner)
{
    struct run_offer offer = {.key = keys[runner],
                              .pool = "default",
                              .region = "local/dxb",
                              .jurisdiction_count = 1,
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

static enum error_kind lease(const struct run_claim *claim, unsigned runner)
{
    const struct run_lease of = {
        .holder = {.key = keys[runner]}, .runner = {{1}}, .session = {1}, .ends_ms = clock_wall_ms() + INT64_C(86400000)};
    struct run_lease change;

    run_lease_prepare(claim, &of, &change);
    return changed(ACTION_RUN_LEASE, &change.change);
}
