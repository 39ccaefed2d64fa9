/* sijil-keyd signs an order for the request of a trust rule, if the rule is the newest that it has pinned, and in force; with one approval more. */
#include "tests/unit/keyd_runs_fixture.h"

static struct document *rule_of(const struct world *world)
{
    for (size_t i = 0;; i++) {
        struct document *document = document_number(world, i);
        if (document->kind == DOCUMENT_TRUST_RULE) return document;
        document_free(document);
    }
}

static void nothing(struct world *world)
{
    (void)world;
}
static void withdrawn(struct world *world)
{
    OWNED(document) *rule = rule_of(world);

    make_withdrawal(rule);
    note(world, rule, 100);
}
static void newer(struct world *world)
{
    OWNED(document) *rule = rule_of(world);

    rule->version = 2;
    note(world, rule, 100);
}
static void withdrawn_and_back(struct world *world)
{
    withdrawn(world);
    OWNED(document) *rule = rule_of(world);
    rule->version = 3;
    note(world, rule, 101);
}
static void another_rule(struct world *world)
{
    OWNED(document) *rule = rule_of(world);

    make_withdrawal(rule);
    (void)snprintf(rule->scope, sizeof rule->scope, "globex"); /* the name belongs to its scope */
    note(world, rule, 100);
}
static void not_in_the_bundle(struct world *world)
{
    json_t *documents = json_object_get(world->bundle, "documents");

    assert_int_equal(json_array_remove(documents, json_array_size(documents) - 1), 0);
}
static void over(struct world *world)
{
    world->signer.now_ms += INT64_C(100) * 86400000;
}
static void one_approval(struct world *world)
{
    assert_int_equal(json_array_remove(json_object_get(world->bundle, "approvals"), 0), 0);
}
static void no_approval_wanted(struct world *world)
{
    assert_int_equal(json_array_clear(json_object_get(world->bundle, "approvals")), 0);
    world->wanted.approvals = 0;
}
static void two_wanted(struct world *world)
{
    world->wanted.approvals = 2;
}
static void signed_wanted(struct world *world)
{
    world->wanted.signed_request = true;
}

static const struct order_row {
    const char *name;
    void (*spoil)(struct world *world);
    const char *unpinned, *says; /* says NULL: it is ordered */
} order_rows[] = {
    {"a rule in force, with two approvals for one", nothing, NULL, NULL},
    {"a rule of the same name elsewhere is withdrawn", another_rule, NULL, NULL},
    {"nobody must approve", no_approval_wanted, NULL, NULL},
    {"one approval, where the policies ask for one", one_approval, NULL, "needs one approval more than the policies ask for"},
    {"two approvals, where they ask for two", two_wanted, NULL, "needs one approval more than the policies ask for"},
    {"the policies ask for a signed request", signed_wanted, NULL, "that its requester has signed"},
    {"a rule that keyd has not pinned", nothing, RULE, "has not pinned event 5"},
    {"a rule that was withdrawn since", withdrawn, NULL, "was withdrawn, or has a newer version"},
    {"a rule with a newer version", newer, NULL, "was withdrawn, or has a newer version"},
    {"a rule that came back with another version", withdrawn_and_back, NULL, "was withdrawn, or has a newer version"},
    {"a rule that the gateway leaves out", not_in_the_bundle, NULL, "no document of the bundle is the trust rule"},
    {"a rule that is over", over, NULL, "expired"},
};

static void an_order_needs_the_rule_in_force(void **state)
{
    const struct order_row *row = *state;
    struct buffer OWNED_BUFFER envelope = BUFFER(RUN_ENVELOPE_MAX);
    OWNED_WORLD world;
    struct error err = {0};

    begin_without(&world, row->unpinned);
    world.wanted.signed_request = false;
    row->spoil(&world);
    const enum error_kind kind = ask(&world, run_sign_order, &envelope, &err);
    if (kind != (row->says == NULL ? ERROR_NONE : ERROR_DENIED)) fail_msg("%s", err.message);
    if (row->says != NULL && strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
}

static const struct lease_row {
    const char *name;
    void (*spoil)(struct world *world);
    const char *says; /* NULL: the run goes on */
} lease_rows[] = {
    {"the rule of the order", nothing, NULL},
    {"a rule of the same name elsewhere is withdrawn", another_rule, NULL},
    {"a rule that was withdrawn since the order", withdrawn, "was withdrawn, or has a newer version"},
    {"a rule with a newer version, which the gateway leaves out", newer, "was withdrawn, or has a newer version"},
    {"a rule that came back with another version", withdrawn_and_back, "was withdrawn, or has a newer version"},
};

/* After the order: the next lease, the same one again, and the admission. */
static void a_run_goes_on_under_the_newest_rule(void **state)
{
    const struct lease_row *row = *state;
    struct buffer OWNED_BUFFER lease = BUFFER(RUN_ENVELOPE_MAX), envelope = BUFFER(RUN_ENVELOPE_MAX);
    const enum error_kind expected = row->says == NULL ? ERROR_NONE : ERROR_DENIED;
    char runner[ECDSA_THUMBPRINT_SIZE];
    OWNED_WORLD world;
    struct error err = {0};

    begin_without(&world, NULL);
    world.wanted.signed_request = false;
    sign_order_and_lease(&world, &lease);
    row->spoil(&world);
    name_of(&world, "runner", runner);
    world.wanted.key = bytes_of_text(runner);
    for (unsigned attempt = 1; attempt <= 2; attempt++) {
        world.wanted.attempt = (uint8_t)attempt;
        if (ask(&world, run_sign_lease, &envelope, &err) != expected) fail_msg("%u: %s", attempt, err.message);
        if (row->says != NULL) assert_non_null(strstr(err.message, row->says));
    }
    add(&world, RUN_LEASE, &lease);
    add_result(&world);
    if (ask(&world, run_sign_admission, &envelope, &err) != expected) fail_msg("%s", err.message);
    if (row->says != NULL) assert_non_null(strstr(err.message, row->says));
}

int main(void)
{
    bundle_number = MADE_RULE;
    return RUN_TABLE(order_rows, an_order_needs_the_rule_in_force) + RUN_TABLE(lease_rows, a_run_goes_on_under_the_newest_rule);
}
