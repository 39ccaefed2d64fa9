/* Another key of a person whose key gives power: what sijil-keyd pins, whatever rows and events a gateway or the owner of the database makes. */
#include "tests/unit/keyd_replacement_fixture.h"

/* ---- the first way ---- */

static void the_key_before_signs_the_new_one(void **state)
{
    struct wanted next = enrolment(second, ALICE);

    (void)state;
    assert_int_equal(enrol(&next), ERROR_DENIED); /* an approver and the new key alone */
    next.replaces = first;
    assert_int_equal(enrol(&next), ERROR_DENIED); /* named, and has not signed */
    next.replaces = stranger;
    next.signers[2] = stranger;
    assert_int_equal(enrol(&next), ERROR_DENIED); /* a key that nobody has enrolled */
    next.replaces = approver;
    next.signers[2] = NULL;
    assert_int_equal(enrol(&next), ERROR_DENIED); /* an enrolled one of another person */
    next.replaces = second;
    assert_int_equal(enrol(&next), ERROR_DENIED); /* itself */
    next.replaces = first;
    next.signers[2] = first;
    const struct wanted alone = {
        .key = second, .signers = {second, first, NULL}, .principal = ALICE, .purpose = SIGNING_SIGN, .replaces = first};
    assert_int_equal(enrol(&alone), ERROR_DENIED); /* another person approves it all the same */
    assert_int_equal(enrol(&next), ERROR_NONE);
    assert_int_equal(wait_for(&next), ERROR_CONFLICT); /* there is nothing to wait for */
    assert_int_equal(appoint(ALICE, second), ERROR_NONE);
}

static void a_withdrawn_key_replaces_nothing(void **state)
{
    const struct wanted lost = {
        .key = first, .signers = {approver, NULL, NULL}, .principal = ALICE, .purpose = SIGNING_SIGN, .withdrawn = "stolen"};
    struct wanted next = enrolment(second, ALICE);

    (void)state;
    assert_int_equal(enrol(&lost), ERROR_NONE); /* at once */
    next.replaces = first;
    next.signers[2] = first;
    assert_int_equal(enrol(&next), ERROR_DENIED);
    next = enrolment(second, ALICE);
    assert_int_equal(enrol(&next), ERROR_DENIED); /* that the key is gone shortens no wait */
    assert_int_equal(wait_for(&next), ERROR_NONE);
    now_ms += 24 * HOUR;
    assert_int_equal(enrol(&next), ERROR_NONE);
}

/* ---- the second way ---- */

static void a_day_passes_by_the_clock_of_keyd(void **state)
{
    const struct wanted next = enrolment(second, ALICE);
    struct wanted forged = next;

    (void)state;
    forged.action = "key.approve";
    assert_int_equal(wait_for(&forged), ERROR_NOT_FOUND); /* no event says that the wait begins */
    forged = (struct wanted){.key = second, .signers = {second, NULL, NULL}, .principal = ALICE, .purpose = SIGNING_SIGN};
    assert_int_equal(wait_for(&forged), ERROR_DENIED); /* nobody has approved it */
    assert_int_equal(wait_for(&next), ERROR_NONE);
    assert_int_equal(counts_ms, NOW_MS + 24 * HOUR);
    assert_int_equal(power_of(ALICE).count, 1);
    now_ms += HOUR;
    assert_int_equal(wait_for(&next), ERROR_NONE);
    assert_int_equal(counts_ms, NOW_MS + 24 * HOUR); /* it has begun already */
    restart();
    now_ms = NOW_MS + 24 * HOUR - 1;
    assert_int_equal(enrol(&next), ERROR_DENIED);
    now_ms++;
    forged = next;
    forged.later_ms = 1;
    assert_int_equal(enrol(&forged), ERROR_DENIED); /* another document of the same key has not waited */
    assert_int_equal(enrol(&next), ERROR_NONE);
    assert_int_equal(power_of(ALICE).count, 0);
}

static void it_is_taken_back(void **state)
{
    const struct wanted next = enrolment(second, ALICE);
    struct wanted back = {.key = second, .principal = ALICE, .purpose = SIGNING_SIGN, .withdrawn = "not mine"};

    (void)state;
    back.replaces = first;
    back.signers[0] = first;
    assert_int_equal(enrol(&back), ERROR_DENIED); /* nothing waits: anybody could fill the register */
    assert_int_equal(wait_for(&next), ERROR_NONE);
    back.replaces = stranger;
    back.signers[0] = stranger;
    assert_int_equal(enrol(&back), ERROR_DENIED);
    back.replaces = first;
    back.signers[0] = first;
    assert_int_equal(enrol(&back), ERROR_NONE);
    assert_int_equal(power_of(ALICE).count, 0);
    now_ms += 25 * HOUR;
    assert_int_equal(enrol(&next), ERROR_DENIED);
    now_ms = NOW_MS;
    assert_int_equal(wait_for(&next), ERROR_NONE); /* and that brings nothing */
    now_ms += 25 * HOUR;
    assert_int_equal(enrol(&next), ERROR_DENIED);
}

static void an_officer_takes_it_back(void **state)
{
    const struct wanted next = enrolment(second, ALICE);
    const struct wanted back = {
        .key = second, .signers = {approver, NULL, NULL}, .principal = ALICE, .purpose = SIGNING_SIGN, .withdrawn = "not hers"};

    (void)state;
    assert_int_equal(wait_for(&next), ERROR_NONE);
    assert_int_equal(enrol(&back), ERROR_NONE);
    now_ms += 25 * HOUR;
    assert_int_equal(enrol(&next), ERROR_DENIED);
}

/* ---- whom it is about ---- */

static void an_approver_s_next_key_waits(void **state)
{
    struct wanted next = {.key = second, .signers = {second, root, NULL}, .principal = MARY, .purpose = SIGNING_APPROVE};
    const struct wanted plain = {.key = stranger, .signers = {stranger, root, NULL}, .principal = MARY, .purpose = SIGNING_SIGN};

    (void)state;
    assert_int_equal(enrol(&plain), ERROR_NONE); /* it approves nothing */
    assert_int_equal(enrol(&next), ERROR_DENIED);
    next.replaces = stranger;
    next.signers[2] = stranger;
    assert_int_equal(enrol(&next), ERROR_DENIED); /* and came without a wait, so it makes no key that approves */
    next.replaces = approver;
    next.signers[2] = approver;
    assert_int_equal(enrol(&next), ERROR_NONE);
    const struct wanted third = {
        .key = stranger, .signers = {stranger, root, NULL}, .principal = MARY, .purpose = SIGNING_APPROVE};
    assert_int_equal(enrol(&third), ERROR_DENIED); /* with a key that she has, for another purpose */
    assert_int_equal(wait_for(&third), ERROR_NONE);
}

static void others_may_have_several_keys(void **state)
{
    const struct wanted one = enrolment(second, BOB), other = enrolment(stranger, BOB);

    (void)state;
    assert_int_equal(enrol(&one), ERROR_NONE);
    assert_int_equal(wait_for(&other), ERROR_CONFLICT);
    assert_int_equal(enrol(&other), ERROR_NONE);
    assert_false(power_of(BOB).is_named);
}

/* Bob breaks the glass with this key, and Mary approves it. */
static enum error_kind break_glass(const struct ecdsa_key *key)
{
    struct break_glass glass = {.principal = BOB, .on = "acme/models", .reason = "case 4711"};
    const struct ecdsa_key *const signers[3] = {key, approver, NULL};
    struct buffer OWNED_BUFFER payload = BUFFER(8192);
    struct error err = {0};

    ecdsa_key_public(key, glass.point);
    OWNED_JSON body = break_glass_body(&glass);
    const struct document_parts parts = {.kind = DOCUMENT_BREAK_GLASS,
                                         .scope = "",
                                         .name = "case-4711",
                                         .body = body,
                                         .version = 1,
                                         .effective_ms = now_ms,
                                         .expires_ms = now_ms + HOUR};
    assert_true(document_compose(&parts, &payload, &err).ok);
    return record(DOCUMENT_BREAK_GLASS, buffer_bytes(&payload), signers, "breakglass.approve", pin_it);
}

/* One that keyd refuses names nobody. */
static void who_has_broken_a_glass_is_named(void **state)
{
    const struct wanted one = enrolment(second, BOB);
    struct wanted other = enrolment(stranger, BOB);

    (void)state;
    assert_int_equal(break_glass(second), ERROR_DENIED);
    assert_false(power_of(BOB).is_named);
    assert_int_equal(enrol(&one), ERROR_NONE);
    assert_int_equal(break_glass(second), ERROR_NONE);
    restart();
    now_ms += 2 * HOUR; /* also when it is whole again */
    assert_true(power_of(BOB).is_named);
    assert_int_equal(enrol(&other), ERROR_DENIED);
    other.replaces = second;
    other.signers[2] = second;
    assert_int_equal(enrol(&other), ERROR_NONE);
    assert_int_equal(appoint(ALICE, first), ERROR_NONE); /* the pins of officers are as they were */
    restart();
}

/* ---- the last administrator ---- */

/* Each of two signs the end of the other, and both gateways ask: keyd decides which was first. */
static void two_administrators_do_not_end_each_other(void **state)
{
    const struct wanted of_bob = enrolment(second, BOB);
    const char *alice = OFFICERS_ADMINISTRATORS ".a", *bob = OFFICERS_ADMINISTRATORS ".b";

    (void)state;
    assert_int_equal(appoint_as(alice, ALICE, NULL), ERROR_DENIED); /* there is no other one */
    assert_int_equal(enrol(&of_bob), ERROR_NONE);
    assert_int_equal(appoint_as(bob, BOB, second), ERROR_NONE);
    restart();
    assert_int_equal(appoint_as(alice, ALICE, NULL), ERROR_NONE);
    assert_int_equal(appoint_as(bob, BOB, NULL), ERROR_DENIED);
    assert_int_equal(appoint_as(alice, ALICE, first), ERROR_NONE);
    const struct wanted lost = {
        .key = first, .signers = {approver, NULL, NULL}, .principal = ALICE, .purpose = SIGNING_SIGN, .withdrawn = "stolen"};
    assert_int_equal(enrol(&lost), ERROR_NONE);                   /* a stolen key ends at once, whoever is left */
    assert_int_equal(appoint_as(bob, BOB, NULL), ERROR_DENIED);   /* with a key that was withdrawn nobody counts */
    assert_int_equal(appoint_as(alice, ALICE, NULL), ERROR_NONE); /* it did not count */
}

/* With the signature of an approver that is still good. */
static void an_old_withdrawal_takes_no_administrator_away(void **state)
{
    const struct wanted of_bob = enrolment(second, BOB);

    (void)state;
    assert_int_equal(enrol(&of_bob), ERROR_NONE);
    assert_int_equal(appoint_as(OFFICERS_ADMINISTRATORS ".b", BOB, second), ERROR_NONE);
    old_version = 1;
    assert_int_equal(appoint_as(OFFICERS_ADMINISTRATORS ".a", ALICE, NULL), ERROR_DENIED);
    old_version = 0;
    assert_int_equal(appoint_as(OFFICERS_ADMINISTRATORS ".b", BOB, NULL), ERROR_NONE); /* Alice is left */
}

static struct result set_pins(const void *context, struct ledger_state *state, struct error *err)
{
    (void)err;
    memcpy(state->pins, context, sizeof state->pins);
    return SUCCESS;
}

/* An administrator whose document's event is lost counted on, and the last one left could be withdrawn. */
static void after_a_recovery_lost_documents_make_no_administrator(void **state)
{
    const struct wanted of_bob = enrolment(second, BOB);
    const size_t officers = document_kind(DOCUMENT_OFFICERS)->number - 1U;
    struct ledger_state then, now;
    struct error err = {0};

    (void)state;
    assert_int_equal(enrol(&of_bob), ERROR_NONE);
    ledger_read(world.ledger, &then);
    assert_int_equal(appoint_as(OFFICERS_ADMINISTRATORS ".b", BOB, second), ERROR_NONE);
    ledger_read(world.ledger, &now);
    const struct key_register_past past = {now.pins, then.pins, size - 1};
    assert_true(replacements_set_back(replacements, &now.pins[officers], &then.pins[officers], &err).ok);
    assert_true(key_register_set_back(world.keys, &past, &err).ok);
    assert_true(ledger_change(world.ledger, set_pins, then.pins, &err).ok);
    restart();
    assert_int_equal(appoint_as(OFFICERS_ADMINISTRATORS ".a", ALICE, NULL), ERROR_DENIED);
    assert_int_equal(appoint_as(OFFICERS_ADMINISTRATORS ".b", BOB, second), ERROR_NONE);
    assert_int_equal(appoint_as(OFFICERS_ADMINISTRATORS ".a", ALICE, NULL), ERROR_NONE);
}

/* ---- the file ---- */

static void a_lost_file_lets_nothing_in(void **state)
{
    const struct wanted next = enrolment(second, ALICE), of_bob = enrolment(stranger, BOB);

    (void)state;
    assert_int_equal(wait_for(&next), ERROR_NONE);
    assert_int_equal(unlinkat(world.folder.fd, REPLACEMENT_FILE, 0), 0);
    restart();
    assert_true(power_of(ALICE).is_named); /* whom the documents name is not known, so everybody with a key counts */
    now_ms += 24 * HOUR;
    assert_int_equal(enrol(&next), ERROR_DENIED);
    assert_int_equal(enrol(&of_bob), ERROR_NONE); /* a first key is not another one */
}

static void another_file_is_refused(void **state)
{
    const struct document_pin other = {.epoch = 99}, now = {.epoch = 100};
    struct error err = {0};

    (void)state;
    assert_true(replacements_set_back(replacements, &other, &now, &err).ok);
    assert_int_equal(open_replacements(), ERROR_CORRUPT);
}

static void no_wait_outlives_the_log(void **state)
{
    const struct wanted next = enrolment(second, ALICE);
    struct ledger_state pinned;
    struct error err = {0};

    (void)state;
    assert_int_equal(wait_for(&next), ERROR_NONE);
    ledger_read(world.ledger, &pinned);
    const struct document_pin *pin = &pinned.pins[document_kind(DOCUMENT_OFFICERS)->number - 1];
    assert_true(replacements_set_back(replacements, pin, pin, &err).ok);
    restart();
    now_ms += 24 * HOUR;
    assert_int_equal(enrol(&next), ERROR_DENIED);
    assert_true(power_of(ALICE).is_named);
}

static void so_many_wait_and_no_more(void **state)
{
    (void)state;
    for (size_t i = 0; i <= KEY_WAITING_MAX; i++) {
        OWNED(ecdsa_key) *key = NULL;
        struct error err = {0};
        assert_true(ecdsa_key_new(&key, &err).ok);
        const struct wanted next = enrolment(key, ALICE);
        assert_int_equal(wait_for(&next), i < KEY_WAITING_MAX ? ERROR_NONE : ERROR_LIMIT);
    }
    assert_int_equal(power_of(ALICE).count, KEY_WAITING_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_key_before_signs_the_new_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_withdrawn_key_replaces_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_day_passes_by_the_clock_of_keyd, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_is_taken_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_officer_takes_it_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_approver_s_next_key_waits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(others_may_have_several_keys, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_has_broken_a_glass_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_administrators_do_not_end_each_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_old_withdrawal_takes_no_administrator_away, set_up, tear_down),
        cmocka_unit_test_setup_teardown(after_a_recovery_lost_documents_make_no_administrator, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lost_file_lets_nothing_in, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_file_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_wait_outlives_the_log, set_up, tear_down),
        cmocka_unit_test_setup_teardown(so_many_wait_and_no_more, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("replacement", tests, NULL, NULL);
}
