/* The files that a witness is given: its key, and the list of logs. */
#include "tests/unit/witness_fixture.h"

static void a_key_opens_with_its_passphrase_alone(void **state)
{
    const struct password_cost cheap = {.passes = 1, .memory_kib = 8};
    const struct bytes passphrase = bytes_of_text("a passphrase");
    struct buffer OWNED_BUFFER keys = BUFFER(2048), file = BUFFER(2048);
    OWNED(witness_identity) *identity = NULL;
    OWNED(witness_identity) *none = NULL;
    struct fixture fixture;
    struct error err = {0};
    char path[64];

    (void)state;
    make_fixture(&fixture);
    assert_false(witness_identity_open(fixture.directory, passphrase, &none, &err).ok && err.kind == ERROR_NOT_FOUND);
    assert_false(witness_identity_create(fixture.directory, "a name", passphrase, cheap, &err).ok);
    assert_false(witness_identity_create(fixture.directory, "w.example/1", (struct bytes){0}, cheap, &err).ok);
    must(witness_identity_create(fixture.directory, "w.example/1", passphrase, cheap, &err), &err);
    assert_false(witness_identity_create(fixture.directory, "w.example/1", passphrase, cheap, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    assert_false(witness_identity_open(fixture.directory, bytes_of_text("another"), &none, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    must(witness_identity_open(fixture.directory, passphrase, &identity, &err), &err);
    assert_string_equal(identity->key.name, "w.example/1");
    must(witness_identity_print(identity, &keys, &err), &err);
    assert_non_null(strstr(buffer_text(&keys), "w.example/1+"));
    (void)snprintf(path, sizeof path, "%s/key", fixture.folder);
    must(file_read(path, &file, &err), &err);
    for (size_t i = 0; i < file.length; i++) { /* each byte is under the seal, or is a cost that changes the key */
        if (i >= 5 && i < 13) continue;        /* other costs may take long */
        file.data[i] ^= 1;
        must(file_replace(path, buffer_bytes(&file), 0600, &err), &err);
        assert_false(witness_identity_open(fixture.directory, passphrase, &none, &err).ok);
        file.data[i] ^= 1;
    }
    buffer_truncate(&file, 30);
    must(file_replace(path, buffer_bytes(&file), 0600, &err), &err);
    assert_false(witness_identity_open(fixture.directory, passphrase, &none, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    free_fixture(&fixture);
}

static void lists_of_logs_are_read_strictly(void **state)
{
    static const char *const bad[] = {"log",
                                      "log x",
                                      "logs " LOG_VKEY,
                                      "log " LOG_VKEY " a b",
                                      "log " LOG_VKEY "\nlog " LOG_VKEY,
                                      "witness w " LOG_VKEY,
                                      "quorum none",
                                      "log witness.example/w1+20324abe+BCmsuuFBvMrwsi4alNNNC8c2HlJtC/4SyJeUvJMilm3X"};
    OWNED(log_list) *list = NULL;
    OWNED(log_list) *none = NULL;
    struct error err = {0};

    (void)state;
    must(log_list_read(bytes_of_text("# a comment\n\n  \t\nlog " LOG_VKEY " https://sijil.example/audit\n"), &list, &err), &err);
    assert_int_equal(list->count, 1);
    assert_string_equal(list->logs[0].origin, ORIGIN);
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (log_list_read(bytes_of_text(bad[i]), &none, &err).ok) fail_msg("accepted: %s", bad[i]);
        assert_int_equal(err.kind, ERROR_INVALID);
        assert_non_null(strstr(err.message, i == 4 ? "line 2" : "line 1"));
    }
    must(log_list_read(bytes_of_text(""), &none, &err), &err);
    assert_int_equal(none->count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_opens_with_its_passphrase_alone),
        cmocka_unit_test(lists_of_logs_are_read_strictly),
    };

    read_vectors();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    json_decref(vectors);
    return failed;
}
