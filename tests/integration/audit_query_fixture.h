/*
 * tests/integration/audit_query_fixture.h -- auditors, and a log for them to read.
 * For one source file of a program only: it defines what it declares.
 */
#pragma once

#include "tests/support/unit.h"

#include <stdio.h>

#include "audit/permit_priv.h"
#include "audit/query.h"
#include "tests/support/audit_log.h"

#ifndef READER_TABLES /* more of them, each with a comma */
#define READER_TABLES
#else
#include "audit/published.h"
#endif
static const struct pg_table *const reader_tables[] = {&audit_query_table, &audit_tree_table, READER_TABLES NULL};

static inline struct permit *permitted(enum action action, enum resource_kind kind, const char *name)
{
    struct decision_parts parts = {.verdict = VERDICT_ALLOW, .epoch = TEST_EPOCH, .pair_count = 1};
    OWNED(decision) *decision = NULL;
    struct permit *permit = NULL;
    struct error err = {0};

    parts.pairs[0].action = action;
    parts.pairs[0].resource.kind = kind;
    (void)snprintf(parts.pairs[0].resource.name, sizeof parts.pairs[0].resource.name, "%s", name);
    assert_true(decision_make(&parts, &decision, &err).ok && permit_make(decision, &permit, &err).ok);
    return permit;
}

static inline struct permit *auditor(enum resource_kind kind, const char *name)
{
    return permitted(ACTION_AUDIT_READ, kind, name);
}

static inline struct pg *reader(const struct audit_log *log)
{
    struct pg *pg = NULL;
    struct error err = {0};

    if (!pg_open(database_app(log->database), reader_tables, &pg, &err).ok) fail_msg("%s", err.message);
    return pg;
}

static inline void record_of(struct audit_log *log, enum action action, const char *name, const char *subject,
                             enum verdict verdict)
{
    struct decision_parts parts = {.verdict = verdict,
                                   .epoch = TEST_EPOCH,
                                   .pair_count = 1,
                                   .denial_count = verdict == VERDICT_ALLOW ? 0 : 1,
                                   .denials = {{.rule = "R"}}};
    struct record record = {.context = {.issuer = "https://issuer.example",
                                        .subject = subject,
                                        .client_address = "192.0.2.7",
                                        .user_agent = "a \"quoted\" agent",
                                        .request_id = "r"}};
    struct error err = {0};

    parts.pairs[0] = (struct action_pair){action, {.kind = RESOURCE_REPOSITORY}};
    (void)snprintf(parts.pairs[0].resource.name, sizeof parts.pairs[0].resource.name, "%s", name);
    assert_true(decision_make(&parts, &record.decision, &err).ok);
    sequencer_submit_and_wait(log->sequencer, &record);
    assert_int_equal(record.status, RECORD_DONE);
    record_done(&record);
}

static inline void record_about(struct audit_log *log, const char *name, const char *subject, enum verdict verdict)
{
    record_of(log, ACTION_BLOB_READ, name, subject, verdict);
}

/* Events 0 to 9: two organisations, three projects, two subjects. */
static inline void fill(struct audit_log *log)
{
    static const char *const names[] = {"acme/models/digits", "acme/models/fraud", "acme/data/scans", "beta/models/other"};

    audit_log_open(log);
    for (unsigned i = 0; i < 10; i++)
        record_about(log, names[i % 4], i % 2 == 0 ? "alice@example" : "bob@example", i == 7 ? VERDICT_HIDE : VERDICT_ALLOW);
}
