/*
 * tests/unit/keyd_run_ledger_fixture.h -- promises of keyd's ledger of runs. The header has definitions, so only one source file of a program may
 * include it.
 */
#pragma once

#include "tests/unit/keyd_folder_fixture.h"

#include <string.h>

#include "keyd/run_ledger.h"

static const uint8_t ledger_key[JOURNAL_KEY_SIZE] = {7};

enum { NOON_MS = 1000000 };

static inline struct run_promise promise_of(uint8_t subject, uint8_t digest)
{
    return (struct run_promise){
        .subject = {subject}, .digest = {digest}, .nonce = {9}, .from_ms = 1, .until_ms = 2, .keep_ms = NOON_MS + 10};
}

static inline bool is_kept(const struct folder *folder, uint8_t subject, uint8_t digest, int64_t now_ms)
{
    OWNED(run_ledger) *runs = NULL;
    struct run_promise found, wanted = promise_of(subject, digest);
    struct error err = {0};

    if (!run_ledger_open(folder->fd, ledger_key, NOON_MS, &runs, &err).ok) return false;
    return run_ledger_find(runs, wanted.subject, now_ms, &found) &&
           memcmp(found.digest, wanted.digest, sizeof found.digest) == 0 && found.nonce[0] == 9 && found.from_ms == 1 &&
           found.until_ms == 2;
}

/* An order, and what follows from it. */
static inline struct run_promise order_of(uint16_t subject, uint32_t reserves, uint64_t organisation, uint64_t project)
{
    struct run_promise promise = promise_of((uint8_t)subject, (uint8_t)subject);

    promise.subject[1] = (uint8_t)(subject >> 8);
    promise.subject[2] = 1;
    promise.reserves = reserves;
    promise.is_request = reserves == 0;
    promise.organisation = organisation;
    promise.project = project;
    return promise;
}

static inline enum error_kind keep(struct run_ledger *runs, const struct run_promise *promise, const struct run_follows *follows,
                                   int64_t now_ms)
{
    struct error err = {0};

    return run_ledger_keep(runs, promise, follows, now_ms, &err).ok ? ERROR_NONE : err.kind;
}

static inline void reopen_runs(const struct folder *folder, struct run_ledger **runs)
{
    struct error err = {0};

    run_ledger_free(*runs);
    *runs = NULL;
    assert_true(run_ledger_open(folder->fd, ledger_key, NOON_MS, runs, &err).ok);
}
