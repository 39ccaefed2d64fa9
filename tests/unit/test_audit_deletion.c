/* Certificates of deletion: what is written is read; anything else is refused. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "audit/format/deletion.h"
#include "base/text.h"
#include "crypto/dsse.h"

static struct deletion sample(void)
{
    struct deletion deletion = {.origin = "registry.example/audit",
                                .sequence = 4711,
                                .leaf_hash = {1, 2, 3},
                                .organisation = {{1}},
                                .project = {{2}},
                                .blob = {{3}},
                                .name = "acme/models",
                                .region = "azure/uaenorth",
                                .size_bytes = 12345,
                                .forgotten_ms = 1700000000000,
                                .key_version = 3,
                                .stage = 1,
                                .issued_ms = 1700000001000};

    (void)snprintf(deletion.digest, sizeof deletion.digest, "sha256:%064d", 7);
    return deletion;
}

static void write(const struct deletion *deletion, struct buffer *payload)
{
    struct error err = {0};

    if (!deletion_write(deletion, payload, &err).ok) fail_msg("%s", err.message);
}

static void it_comes_back_as_it_went(void **state)
{
    struct deletion deletion = sample();

    (void)state;
    for (unsigned stage = 1; stage <= 2; stage++) {
        struct buffer OWNED_BUFFER payload = BUFFER(DELETION_PAYLOAD_MAX);
        struct deletion again = {.sequence = 0};
        struct error err = {0};
        deletion.stage = stage;
        deletion.destroyed_ms = stage == 2 ? 1700000002000 : 0;
        deletion.is_stored_again = stage == 2;
        write(&deletion, &payload);
        if (!deletion_read(buffer_bytes(&payload), &again, &err).ok) fail_msg("%s", err.message);
        assert_memory_equal(&again.leaf_hash, &deletion.leaf_hash, sizeof again.leaf_hash);
        assert_string_equal(again.digest, deletion.digest);
        assert_true(again.stage == stage && again.destroyed_ms == deletion.destroyed_ms && again.sequence == 4711 &&
                    again.is_stored_again == deletion.is_stored_again && again.key_version == 3 &&
                    again.size_bytes == 12345 && again.forgotten_ms == deletion.forgotten_ms);
    }
}

static const struct change_row {
    const char *name, *from, *to;
} change_rows[] = {
    {"another version", "\"version\":1", "\"version\":2"},
    {"no stage", "\"stage\":1", "\"stage\":0"},
    {"a third stage", "\"stage\":1", "\"stage\":3"},
    {"a negative size", "\"size\":12345", "\"size\":-1"},
    {"a size that is a text", "\"size\":12345", "\"size\":\"12345\""},
    {"a flag that is a number", "\"stored_again\":false", "\"stored_again\":0"},
    {"a short hash", "\"hash\":\"01", "\"hash\":\""},
    {"no region", "\"region\":\"azure/uaenorth\",", ""},
    {"a control character", "azure/uaenorth", "azure\\u001buaenorth"},
    {"a member that is not known", "\"stage\":1", "\"more\":1,\"stage\":1"},
    {"a space", "\"stage\":1", "\"stage\": 1"},
    {"no blob", "\"blob_id\":", "\"blob_ib\":"},
    {"a time that is none", "\"issued\":\"2023", "\"issued\":\"yesterday"},
    {"not an object", "{", "["},
};

static void anything_else_is_refused(void **state)
{
    const struct change_row *row = *state;
    const struct deletion deletion = sample();
    struct buffer OWNED_BUFFER payload = BUFFER(DELETION_PAYLOAD_MAX);
    struct buffer OWNED_BUFFER changed = BUFFER(DELETION_PAYLOAD_MAX);
    struct deletion untouched = {.sequence = 99};
    struct error err = {0};

    write(&deletion, &payload);
    const char *text = buffer_text(&payload), *at = strstr(text, row->from);
    assert_non_null(at);
    assert_true(buffer_add(&changed, text, (size_t)(at - text), &err).ok);
    assert_true(buffer_add_text(&changed, row->to, &err).ok);
    assert_true(buffer_add_text(&changed, at + strlen(row->from), &err).ok);
    assert_false(deletion_read(buffer_bytes(&changed), &untouched, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_true(untouched.sequence == 99);
}

/* A bundle whose certificate is signed by `signer`; entry and proof are none. */
static void bundle_of(const char *type, const struct ecdsa_key *signer, struct buffer *bundle)
{
    const struct deletion deletion = sample();
    struct buffer OWNED_BUFFER payload = BUFFER(DELETION_PAYLOAD_MAX);
    struct error err = {0};

    write(&deletion, &payload);
    assert_true(buffer_add_text(bundle, "{\"entry\":\"{}\",\"proof\":\"none\",\"certificate\":", &err).ok);
    assert_true(dsse_write(type, buffer_bytes(&payload), &signer, 1, bundle, &err).ok);
    assert_true(buffer_add_u8(bundle, '}', &err).ok);
}

static void the_signer_and_the_type_count(void **state)
{
    OWNED(ecdsa_key) *signer = NULL;
    OWNED(ecdsa_key) *other = NULL;
    struct buffer OWNED_BUFFER bundle = BUFFER(DELETION_BUNDLE_MAX);
    struct buffer OWNED_BUFFER typed = BUFFER(DELETION_BUNDLE_MAX);
    struct deletion_report report;
    const struct bytes vkey = bytes_of_text("no key");
    struct error err = {0};

    (void)state;
    assert_true(ecdsa_key_new(&signer, &err).ok && ecdsa_key_new(&other, &err).ok);
    bundle_of(DELETION_TYPE, signer, &bundle);
    bundle_of("application/json", signer, &typed);
    assert_false(deletion_check(vkey, other, buffer_bytes(&bundle), &report, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_false(deletion_check(vkey, signer, buffer_bytes(&typed), &report, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_false(deletion_check(vkey, signer, buffer_bytes(&bundle), &report, &err).ok); /* then the log's key is asked for */
    assert_int_equal(err.kind, ERROR_INVALID);
}

static void memory_that_lacks_is_told(void **state)
{
    const struct deletion deletion = sample();
    unsigned long nth = 1;

    (void)state;
    for (bool failed = true; failed; nth++) {
        struct buffer OWNED_BUFFER payload = BUFFER(DELETION_PAYLOAD_MAX);
        struct deletion again = {.sequence = 99};
        struct error err = {0};
        fault_arm(nth);
        failed = !deletion_write(&deletion, &payload, &err).ok || !deletion_read(buffer_bytes(&payload), &again, &err).ok;
        fault_arm(0);
        if (failed) assert_int_equal(err.kind, ERROR_NO_MEMORY);
        assert_true(failed || again.sequence == 4711);
    }
    assert_true(nth > 2);
}

int main(void)
{
    struct CMUnitTest tests[COUNT(change_rows) + 3] = {
        cmocka_unit_test(it_comes_back_as_it_went),
        cmocka_unit_test(the_signer_and_the_type_count),
        cmocka_unit_test(memory_that_lacks_is_told),
    };

    for (size_t i = 0; i < COUNT(change_rows); i++)
        tests[3 + i] = (struct CMUnitTest){.name = change_rows[i].name,
                                           .test_func = anything_else_is_refused,
                                           .initial_state = (void *)(uintptr_t)&change_rows[i]};
    return cmocka_run_group_tests_name("deletion", tests, NULL, NULL);
}
