/*
 * tests/unit/policy_cases.h -- policies, labels and the main cases of decisions by name.
 * For one source file of a program only: it defines what it declares.
 */
#pragma once

#include "tests/support/unit.h"

#include "policy/compiled_priv.h"
#include "tests/support/policy.h"

#define NOW     "2026-12-15T00:00:00Z"
#define PROJECT "5f0c8f0e-93a1-4c1a-8a4e-0d8f6d1f2b30"
#define DIGEST  "sha256:1111111111111111111111111111111111111111111111111111111111111111"

struct world {
    json_t *policies, *regions;
    struct policy_documents *documents;
    struct policy_groups *groups;
};

static inline int world_open(void **state)
{
    static struct world world;
    struct error err = {0};

    world.policies = policy_examples();
    world.regions = policy_example("regions");
    assert_true(policy_documents_new(world.policies, &world.documents, &err).ok);
    assert_true(policy_groups_new(json_object_get(world.regions, "groups"), &world.groups, &err).ok);
    *state = &world;
    return 0;
}

static inline int world_close(void **state)
{
    struct world *world = *state;

    policy_documents_free(world->documents);
    policy_groups_free(world->groups);
    json_decref(world->policies);
    json_decref(world->regions);
    return 0;
}

static struct world the_world;

/* Label of a thing of declared lineage in a scope. */
static inline struct label label_in(const struct world *world, const char *scope)
{
    struct label own = label_initial(), label;
    struct label_query query = {.documents = world->documents, .scope = scope};
    bool is_labelled = false;
    struct error err = {0};

    own.lineage = LINEAGE_DECLARED;
    assert_true(policy_time_parse(bytes_of_text(NOW), &query.now_us));
    assert_true(policy_effective_label(&query, &own, &label, &is_labelled, &err).ok);
    assert_true(is_labelled);
    return label;
}

static inline struct policy_target *target_of(const struct world *world, const char *target)
{
    struct policy_target *compiled = NULL;
    struct error err = {0};

    if (target[0] == '{') {
        OWNED_JSON json = policy_json(target);
        assert_true(policy_target_new(json, &compiled, &err).ok);
        return compiled;
    }
    json_t *region = json_object_get(json_object_get(world->regions, "regions"), target);
    assert_non_null(region);
    assert_true(policy_target_new(region, &compiled, &err).ok);
    return compiled;
}

static const struct case_row {
    const char *name;
    enum policy_operation op;
    const char *scope, *target; /* a region of the catalogue, or facts */
    const char *denied;         /* "RULE(unknown|failed) ..."; "" if it is allowed */
} case_rows[] = {
    {"health data stays in the UAE", OP_INGEST, "health/ct", "azure/uaenorth", ""},
    {"health data in a free zone", OP_INGEST, "health/ct", "onprem/difc-dc1", ""},
    {"a region of the same name elsewhere", OP_INGEST, "health/ct", "alibaba/me-central-1",
     "H-STORE-AE(|geo) H-KEY-AE(|key.control,key.geo)"},
    {"keys that the provider holds", OP_INGEST, "health/ct", "aws/me-central-1", "H-KEY-AE(|key.control)"},
    {"a proven client reads health data", OP_READ, "health/ct", "{\"geo\":\"AE/DU\",\"assurance\":2}", ""},
    {"a weakly located client", OP_READ, "health/ct", "{\"geo\":\"AE/DU\",\"assurance\":1}", "H-READ-AE(|assurance)"},
    {"a client of which nothing is known", OP_READ, "health/ct", "{}", "H-READ-AE(assurance,geo|)"},
    {"a client that is elsewhere, and weak", OP_READ, "health/ct", "{\"geo\":\"SA\"}", "H-READ-AE(|geo)"},
    {"DIFC excludes onshore", OP_INGEST, "difcbank/m", "azure/uaenorth", "D-TRANSFER(|regimes)"},
    {"DIFC includes adequate regimes", OP_INGEST, "difcbank/m", "aws/eu-central-1", ""},
    {"public goes anywhere", OP_READ, "public/resnet", "{}", ""},
    {"a scope without any policy that permits", OP_READ, "other/x", "{}", "SYS-CLOSED(|)"},
    {"a backup is a placement too", OP_BACKUP, "health/ct", "gcp/me-central1", "H-STORE-AE(|geo) H-KEY-AE(|key.control,key.geo)"},
};

static inline struct policy_facts facts_of(const struct case_row *row, const struct label *label,
                                           const struct policy_target *target)
{
    struct policy_facts facts = {.op = row->op,
                                 .scope = row->scope,
                                 .policy_epoch = 7,
                                 .label = label,
                                 .digest = DIGEST,
                                 .target_id = row->target[0] == '{' ? "client" : row->target,
                                 .target = target};

    assert_true(uuid_parse(bytes_of_text(PROJECT), &facts.project));
    assert_true(policy_time_parse(bytes_of_text(NOW), &facts.now_us));
    return facts;
}
