/*
 * tests/integration/forks_fixture.h -- a log that is changed without the gateway, and the parts that must notice it. For one
 * source file of a program only: it defines what it declares.
 */
#pragma once

#include "tests/support/unit.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/erasure.h"
#include "audit/log_check_priv.h"
#include "audit/log_verifier.h"
#include "audit/query.h"
#include "audit/search.h"
#include "audit/search_index.h"
#include "base/clock.h"
#include "tests/support/audit_log.h"

static inline struct keyd_identity identify(const struct audit_log *log)
{
    struct keyd_identity identity;
    struct error err = {0};

    if (!keyd_identify(keyd_process_client(log->keyd), &identity, &err).ok) fail_msg("%s", err.message);
    return identity;
}

static inline void wait_until_keyd_signed(const struct audit_log *log, uint64_t size)
{
    const int64_t until_ms = clock_monotonic_ms() + 20000;

    while (identify(log).log_size < size) {
        if (clock_monotonic_ms() > until_ms) fail_msg("sijil-keyd has not signed %llu events", (unsigned long long)size);
        (void)usleep(20000);
    }
}

static inline void stop(struct audit_log *log)
{
    sequencer_free(log->sequencer);
    log->sequencer = NULL;
}

static inline void start_is_refused(struct audit_log *log, const char *because)
{
    struct sequencer *sequencer = NULL;
    struct error err = {0};

    assert_false(audit_log_try_start(log, "gw1", &sequencer, &err).ok);
    assert_int_equal(err.kind, ERROR_FORKED);
    if (strstr(err.message, because) == NULL) fail_msg("\"%s\" does not say \"%s\"", err.message, because);
}

static atomic_uint notices;

static inline void count_notice(const char *what, const struct error *why)
{
    assert_non_null(what);
    assert_int_not_equal(why->kind, ERROR_NONE);
    atomic_fetch_add(&notices, 1);
}

static inline struct sequencer *start_with_notice(const struct audit_log *log)
{
    struct sequencer_options options = {.conninfo = database_app(log->database),
                                        .keyd = keyd_process_client(log->keyd),
                                        .origin = TEST_ORIGIN,
                                        .instance = "gw1",
                                        .notice = count_notice};
    struct sequencer *sequencer = NULL;
    struct error err = {0};

    if (!sequencer_start(&options, &sequencer, &err).ok) fail_msg("%s", err.message);
    return sequencer;
}

static inline struct pg *checker(const struct audit_log *log)
{
    static const struct pg_table *const tables[] = {&audit_check_table, &audit_tree_table, &audit_query_table,
                                                    &audit_erasure_table, NULL};
    struct pg *pg = NULL;
    struct error err = {0};

    if (!pg_open(database_app(log->database), tables, &pg, &err).ok) fail_msg("%s", err.message);
    return pg;
}

static inline struct log_verifier *start_verifier(const struct audit_log *log, unsigned patience_s)
{
    const struct log_verifier_options options = {.conninfo = database_app(log->database),
                                                 .sequencer = log->sequencer,
                                                 .rate = 1000000,
                                                 .rest_s = 0,
                                                 .patience_s = patience_s};
    struct log_verifier *started = NULL;
    struct error err = {0};

    if (!log_verifier_start(&options, &started, &err).ok) fail_msg("%s", err.message);
    return started;
}

/*
 * The linker replaces priority_background() by this, so the verifier keeps the test's priority. At the lowest one, a busy machine
 * hardly ever runs it.
 */
__attribute__((used)) void __wrap_priority_background(void);
void __wrap_priority_background(void)
{
}

static inline void wait_until_forked(const struct audit_log *log, const char *says)
{
    const int64_t until_ms = clock_monotonic_ms() + 180000;
    struct error err = {0};

    while (sequencer_is_ready(log->sequencer, &err)) {
        if (clock_monotonic_ms() > until_ms) fail_msg("nobody noticed");
        (void)usleep(20000);
    }
    assert_int_equal(err.kind, ERROR_FORKED);
    if (strstr(err.message, says) == NULL) fail_msg("%s", err.message);
}

/* Until the index of searches has the whole log. */
static inline void index_all(const struct audit_log *log)
{
    static const struct pg_table *const tables[] = {&audit_query_table, &audit_subject_table, &audit_search_index_table, NULL};
    OWNED(search_index) *index = NULL;
    struct search_index_state state = {.size = 1};
    OWNED(pg) *pg = NULL;
    struct error err = {0};

    must(pg_open(database_app(log->database), tables, &pg, &err), &err);
    must(search_index_new(pg, keyd_process_client(log->keyd), TEST_ORIGIN, &index, &err), &err);
    while (state.indexed < state.size) must(search_index_step(index, &state, &err), &err);
}
