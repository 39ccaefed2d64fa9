/*
 * tests/integration/nodes_fixture.h -- runs of two nodes, and runners that ask for them. The header has definitions, so only one source
 * file of a program may include it.
 */
#pragma once

#include "tests/integration/lease_fixture.h"

static inline struct model ordered(int nodes)
{
    const struct model model = {.id = uuid_random(), .nodes = nodes};

    request(&model, "default");
    assert_int_equal(order(&model, 3), ERROR_NONE);
    return model;
}

/* The end of a case: no run is in the way of the next. */
static inline void clear(void)
{
    execute("UPDATE run_attempt SET ended_at = now(), outcome = 'stopped' WHERE ended_at IS NULL");
    execute("DELETE FROM run_share; DELETE FROM run_kept");
    execute("UPDATE run SET state = 'cancelled', ended_at = now() WHERE ended_at IS NULL");
}

static inline const char *ask_of(const struct model *model, const char *column)
{
    char sql[400], id[UUID_TEXT_SIZE];

    uuid_format(&model->id, id);
    (void)snprintf(sql, sizeof sql, "SELECT (%s)::text FROM run WHERE run_id = '%s'", column, id);
    return ask(sql);
}

/* One question of a runner for work. */
enum found { NOTHING, KEPT, GATHERED, CLAIMED };
static inline enum found asks_as(const struct run_offer *offer, struct run_claim *claim_out)
{
    struct run_gather kept;
    struct error err = {0};
    enum run_keeping keeping = RUN_KEEPS_NOT;
    bool found = false;

    if (claims(offer, claim_out)) return CLAIMED;
    if (!run_gather_find(lookup_of(stack->pg), offer, &kept, &found, &err).ok) fail_msg("%s", err.message);
    if (!found) return NOTHING;
    if (kept.is_gathered) return GATHERED;
    if (!run_gather_join(stack->pg, offer, &kept, &keeping, &err).ok) fail_msg("%s", err.message);
    *claim_out = kept.claim;
    return keeping == RUN_KEEPS_ENOUGH ? GATHERED : keeping == RUN_KEEPS ? KEPT : NOTHING;
}

static inline enum found asks(unsigned runner, struct run_claim *claim_out)
{
    const struct run_offer offer = offer_of(runner);

    return asks_as(&offer, claim_out);
}

static inline struct run_holder holder_of(const struct run_claim *claim, unsigned runner)
{
    return (struct run_holder){.run = claim->run, .attempt = claim->attempt, .node = claim->node, .key = keys[runner]};
}

/* Both runners have a lease of a run of two nodes. */
static inline void lease_both(struct model *model, struct run_holder holders_out[2])
{
    struct run_claim claim;

    assert_int_equal(asks(0, &claim), KEPT);
    assert_int_equal(asks(1, &claim), GATHERED);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(asks(i, &claim), CLAIMED);
        assert_true(uuid_equal(&claim.run, &model->id));
        assert_int_equal(lease(&claim, i), ERROR_NONE);
        holders_out[i] = holder_of(&claim, i);
    }
    assert_string_equal(ask_of(model, "state"), "leased");
    model->attempt = (int)holders_out[0].attempt;
}

static inline struct run_held held_of(const struct run_holder *holder)
{
    struct run_held held;
    struct error err = {0};

    if (!run_held_find(lookup_of(stack->pg), holder, &held, &err).ok) fail_msg("%s", err.message);
    return held;
}

static inline size_t lose_due(void)
{
    struct error err = {0};
    size_t count = 0;

    if (!run_lose_due(stack->sequencer, stack->pg, &count, &err).ok) fail_msg("%s", err.message);
    return count;
}
