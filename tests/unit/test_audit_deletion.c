/* Certificates of deletion: a written one is read; any other is refused. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "audit/format/deletion.h"
#include "base/text.h"

#define THUMBPRINT "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"

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
        (void)snprintf(deletion.keyd, sizeof deletion.keyd, "%s", stage == 1 ? THUMBPRINT : "");
        write(&deletion, &payload);
        if (!deletion_read(buffer_bytes(&payload), &again, &err).ok) fail_msg("%s", err.message);
        assert_memory_equal(&again.leaf_hash, &deletion.leaf_hash, sizeof again.leaf_hash);
        assert_string_equal(again.digest, deletion.digest);
        assert_string_equal(again.keyd, deletion.keyd);
        assert_true(again.stage == stage && again.destroyed_ms == deletion.destroyed_ms && again.sequence == 4711 &&
                    again.is_stored_again == deletion.is_stored_again && again.key_version == 3 && again.size_bytes == 12345 &&
                    again.forgotten_ms == deletion.forgotten_ms);
    }
}

static const struct change_row {
    const char *name, *from, *to;
} change_rows[] = {
    {"another version", "\"version\":1", "\"version\":2"},
    {"a version before the first", "\"version\":1", "\"version\":0"},
    {"a version that is a text", "\"version\":1", "\"version\":\"1\""},
    {"a stage that is a text", "\"stage\":1", "\"stage\":\"1\""},
    {"no stage", "\"stage\":1", "\"stage\":0"},
    {"a third stage", "\"stage\":1", "\"stage\":3"},
    {"a negative size", "\"size\":12345", "\"size\":-1"},
    {"a size that is a text", "\"size\":12345", "\"size\":\"12345\""},
    {"a negative key version", "\"key_version\":3", "\"key_version\":-3"},
    {"a key version that has no room", "\"key_version\":3", "\"key_version\":4294967296"},
    {"a negative entry", "\"entry\":4711", "\"entry\":-4711"},
    {"no entry", "\"entry\":", "\"entri\":"},
    {"no log", "\"log\":", "\"lot\":"},
    {"no flag", "\"stored_again\":", "\"stored_agait\":"},
    {"no hash", "\"hash\":", "\"hast\":"},
    {"a hash that is none", "\"hash\":\"01", "\"hash\":\"zz"},
    {"no origin", "\"origin\":", "\"origim\":"},
    {"no project", "\"project\":", "\"projecs\":"},
    {"no digest", "\"digest\":", "\"digess\":"},
    {"no organisation", "\"organisation_id\":", "\"organisation_if\":"},
    {"no project's number", "\"project_id\":", "\"project_if\":"},
    {"an id that is none", "\"blob_id\":\"03", "\"blob_id\":\"zz"},
    {"no time of forgetting", "\"forgotten\":", "\"forgottem\":"},
    {"a destruction at no time", "\"digest\"", "\"destroyed\":\"never\",\"digest\""},
    {"a destruction that is no text", "\"digest\"", "\"destroyed\":1,\"digest\""},
    {"a region that has no room", "azure/uaenorth", "azure/uaenorth-azure/uaenorth-azure/uaenorth-azure/uaenorth-azure/uaenorth"},
    {"a flag that is a number", "\"stored_again\":false", "\"stored_again\":0"},
    {"a short hash", "\"hash\":\"01", "\"hash\":\""},
    {"no region", "\"region\":\"azure/uaenorth\",", ""},
    {"a control character", "azure/uaenorth", "azure\\u001buaenorth"},
    {"a member that is not known", "\"stage\":1", "\"more\":1,\"stage\":1"},
    {"a space", "\"stage\":1", "\"stage\": 1"},
    {"no blob", "\"blob_id\":", "\"blob_ib\":"},
    {"a time that is none", "\"issued\":\"2023", "\"issued\":\"yesterday"},
    {"a sijil-keyd without a name", "\"key_version\":3,", "\"key_version\":3,\"keyd\":\"\","},
    {"a sijil-keyd that is no thumbprint", "\"key_version\":3,", "\"key_version\":3,\"keyd\":\"AAEC\","},
    {"a sijil-keyd that is a number", "\"key_version\":3,", "\"key_version\":3,\"keyd\":1,"},
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

static void a_name_that_is_no_text_is_not_stated(void **state)
{
    struct buffer OWNED_BUFFER payload = BUFFER(DELETION_PAYLOAD_MAX);
    struct deletion deletion = sample();
    struct error err = {0};

    (void)state;
    deletion.name[2] = '\xff';
    assert_false(deletion_write(&deletion, &payload, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_non_null(strstr(err.message, "not UTF-8"));
}

/* Nobody here knows what another sijil-keyd has destroyed. */
static void another_one_is_named_at_the_first_stage_alone(void **state)
{
    struct buffer OWNED_BUFFER payload = BUFFER(DELETION_PAYLOAD_MAX);
    struct deletion deletion = sample(), again;
    struct error err = {0};

    (void)state;
    (void)snprintf(deletion.keyd, sizeof deletion.keyd, "%s", THUMBPRINT);
    write(&deletion, &payload);
    assert_true(deletion_read(buffer_bytes(&payload), &again, &err).ok);
    deletion.stage = 2;
    buffer_clear(&payload);
    write(&deletion, &payload);
    assert_false(deletion_read(buffer_bytes(&payload), &again, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
}

static struct result write_and_read(void *deletion, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(DELETION_PAYLOAD_MAX);
    struct deletion again;

    TRY(deletion_write(deletion, &payload, err));
    TRY_UNTOUCHED_BYTES(again, deletion_read(buffer_bytes(&payload), &again, err));
    assert_int_equal(again.sequence, 4711);
    return SUCCESS;
}

static void memory_that_lacks_is_told(void **state)
{
    struct deletion deletion = sample();

    (void)state;
    deletion.destroyed_ms = 1700000002000;
    (void)snprintf(deletion.keyd, sizeof deletion.keyd, "%s", THUMBPRINT);
    fail_each(write_and_read, &deletion, ERROR_NO_MEMORY, 100);
}

int main(void)
{
    struct CMUnitTest tests[COUNT(change_rows) + 4] = {
        cmocka_unit_test(it_comes_back_as_it_went),
        cmocka_unit_test(a_name_that_is_no_text_is_not_stated),
        cmocka_unit_test(another_one_is_named_at_the_first_stage_alone),
        cmocka_unit_test(memory_that_lacks_is_told),
    };

    for (size_t i = 0; i < COUNT(change_rows); i++)
        tests[4 + i] = (struct CMUnitTest){.name = change_rows[i].name,
                                           .test_func = anything_else_is_refused,
                                           .initial_state = (void *)(uintptr_t)&change_rows[i]};
    return cmocka_run_group_tests_name("deletion", tests, NULL, NULL);
}
