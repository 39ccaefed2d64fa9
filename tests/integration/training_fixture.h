/*
 * tests/integration/training_fixture.h -- a project with runs, and the log that records each of their changes. The header has
 * definitions, so only one source file of a program may include it.
 */
#pragma once

#include "tests/support/unit.h"

#include <stdio.h>

#include "tests/support/stack.h"
#include "training/checkpoint.h"
#include "training/log.h"
#include "training/order_jobs.h"
#include "training/result.h"

static const struct pg_table *const tables[] = {&run_table,
                                                &run_lease_table,
                                                &run_claim_table,
                                                &run_draft_table,
                                                &run_session_table,
                                                &run_queue_table,
                                                &run_offer_table,
                                                &run_doubt_table,
                                                &run_budget_table,
                                                &run_result_table,
                                                &run_checkpoint_table,
                                                &run_log_table,
                                                &held_manifest_statements,
                                                NULL};
static struct stack *stack;
static struct resource project = {.kind = RESOURCE_PROJECT, .name = "acme/models"};

static int set_up(void **state)
{
    char sql[400], id[UUID_TEXT_SIZE], organisation[UUID_TEXT_SIZE];

    (void)state;
    stack = stack_new(tables);
    project.organisation = uuid_random();
    project.project = uuid_random();
    uuid_format(&project.project, id);
    uuid_format(&project.organisation, organisation);
    execute(
        "INSERT INTO region (region_id, region_tag, driver, location) VALUES ('test/here', substr(sha256('test/here'), 1, 16), 'fs', '/unused')");
    (void)snprintf(sql, sizeof sql, "INSERT INTO organisation (organisation_id, name) VALUES ('%s', 'acme')", organisation);
    execute(sql);
    (void)snprintf(
        sql, sizeof sql,
        "INSERT INTO project (project_id, organisation_id, name, home_region) VALUES ('%s', '%s', 'models', 'test/here')", id,
        organisation);
    execute(sql);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    stack_free(stack);
    return 0;
}

static inline enum error_kind changed(enum action action, struct change *change)
{
    const struct action_pair pair = {.action = action, .resource = project};
    struct error err = {0};

    return stack_record(stack, &pair, 1, change, NULL, &err).ok ? ERROR_NONE : err.kind;
}
