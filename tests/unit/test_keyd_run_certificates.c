/* sijil-keyd admits a result only under the key that the runner has certified for this order and attempt. */
#include "tests/unit/keyd_runs_fixture.h"

static void by_its_runners_own_key(struct world *world)
{
    add_result_by(world, "runner", "runner");
}
static void by_another_key(struct world *world)
{
    add_result_by(world, "runner", "other_attempt");
}
static void certified_by_another_runner(struct world *world)
{
    add_result_by(world, "other_runner", "attempt");
}
static void without_certificate(struct world *world)
{
    add_result(world);
    assert_int_equal(json_object_del(world->bundle, "certificate"), 0);
}
/* As the vectors have it: by this very runner, for another lease. */
static void certified_for_another_lease(struct world *world)
{
    const json_t *other = json_object_get(made_bundle(world->vectors, 0), "certificate");

    add_result(world);
    assert_int_equal(json_object_set_new(world->bundle, "certificate", json_string(json_string_value(other))), 0);
}
/* The second one certifies another key, and the result names the first. */
static void certified_twice(struct world *world)
{
    struct buffer OWNED_BUFFER second = BUFFER(RUN_ENVELOPE_MAX);
    OWNED(run_envelope) *lease = NULL;
    struct error err = {0};

    add_result(world);
    assert_true(run_envelope_read(bytes_of_text(envelope_text(world, RUN_LEASE)), RUN_LEASE, &lease, &err).ok);
    OWNED(run_envelope) *certificate = certify(world, lease, "runner", "other_attempt", &second);
    assert_int_equal(json_object_set_new(world->bundle, "certificate", json_string(buffer_text(&second))), 0);
}

static const struct certified_row {
    const char *name;
    void (*finish)(struct world *world);
    enum error_kind kind;
    const char *says;
} certified_rows[] = {
    {"signed by the runner's own key", by_its_runners_own_key, ERROR_DENIED, "the runner's own key has signed it"},
    {"signed by a key that is not certified", by_another_key, ERROR_DENIED, "the result is signed by the key"},
    {"certified by another runner", certified_by_another_runner, ERROR_DENIED, "the certificate is signed by the key"},
    {"without a certificate", without_certificate, ERROR_INVALID, "the bundle has no certificate"},
    {"certified for another lease", certified_for_another_lease, ERROR_DENIED, "certificate: it names another order"},
    {"certified twice", certified_twice, ERROR_DENIED, "result: it names another certificate"},
};

static void admits_no_result_without_its_certified_key(void **state)
{
    const struct certified_row *row = *state;
    struct buffer OWNED_BUFFER envelope = BUFFER(RUN_ENVELOPE_MAX);
    OWNED_WORLD world;
    struct error err = {0};

    begin_without(&world, NULL);
    sign_order_and_lease(&world, &envelope);
    add(&world, RUN_LEASE, &envelope);
    buffer_clear(&envelope);
    row->finish(&world);
    world.signer.now_ms += 5000;
    const enum error_kind kind = ask(&world, run_sign_admission, &envelope, &err);
    if (kind != row->kind || strstr(err.message, row->says) == NULL) fail_msg("%d %s", (int)kind, err.message);
    assert_int_equal(envelope.length, 0);
}

int main(void)
{
    return RUN_TABLE(certified_rows, admits_no_result_without_its_certified_key);
}
