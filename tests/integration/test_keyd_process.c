/* The real sijil-keyd, driven through the real client. */
#include "tests/integration/keyd_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/keyd_protocol.h"
#include "tests/support/signal_process.h"

static void restart(int signal)
{
    (void)keyd_daemon_end(&process, signal);
    keyd_daemon_start(&process, NULL);
}

/* ---- data keys ---- */

static struct key_scope scope_of(uint8_t organisation, uint8_t project, const char *region)
{
    struct key_scope scope = {.organisation = {{organisation}}, .project = {{project}}};

    (void)snprintf(scope.region, sizeof scope.region, "%s", region);
    return scope;
}

static struct key_binding binding_of(uint8_t project)
{
    const struct key_scope scope = scope_of(1, project, "r");
    const struct uuid blob = {{3}};
    const uint8_t commitment[32] = {4};

    return key_binding_of(&scope, &blob, commitment);
}

static const struct unwrap_row {
    const char *name;
    uint8_t organisation, project;
    const char *region;
    uint8_t blob, commitment;
    int version, flip; /* the change of the wrapped key; flip -1: none */
    bool opens;
} unwrap_rows[] = {
    {"where it belongs", 1, 2, "azure/uaenorth", 3, 4, 0, -1, true},
    {"another organisation", 9, 2, "azure/uaenorth", 3, 4, 0, -1, false},
    {"another project", 1, 9, "azure/uaenorth", 3, 4, 0, -1, false},
    {"another region", 1, 2, "azure/uaesouth", 3, 4, 0, -1, false},
    {"another blob", 1, 2, "azure/uaenorth", 9, 4, 0, -1, false},
    {"another commitment", 1, 2, "azure/uaenorth", 3, 9, 0, -1, false},
    {"another version", 1, 2, "azure/uaenorth", 3, 4, 1, -1, false},
    {"a bit of the nonce", 1, 2, "azure/uaenorth", 3, 4, 0, 0, false},
    {"a bit of the key", 1, 2, "azure/uaenorth", 3, 4, 0, 30, false},
    {"a bit of the tag", 1, 2, "azure/uaenorth", 3, 4, 0, 71, false},
};

static void unwraps_only_where_it_belongs(void **state)
{
    const struct unwrap_row *row = *state;
    const struct key_scope scope = scope_of(1, 2, "azure/uaenorth");
    const struct key_scope other = scope_of(row->organisation, row->project, row->region);
    const struct uuid blob = {{3}}, other_blob = {{row->blob}};
    const uint8_t commitment[32] = {4}, other_commitment[32] = {row->commitment};
    const struct key_binding binding = key_binding_of(&scope, &blob, commitment);
    const struct key_binding other_binding = key_binding_of(&other, &other_blob, other_commitment);
    OWNED(secret) *key = NULL;
    OWNED(secret) *opened = NULL;
    struct wrapped_key wrapped;
    struct error err = {0};

    (void)start(NULL);
    assert_true(secret_random(DATA_KEY_SIZE, &key, &err).ok);
    assert_true(keyd_wrap(client, &binding, key, &wrapped, &err).ok);
    assert_int_equal(wrapped.version, 1);
    wrapped.version += (uint32_t)row->version;
    if (row->flip >= 0) wrapped.bytes[row->flip] ^= 1;
    const bool ok = keyd_unwrap(client, &other_binding, &wrapped, &opened, &err).ok;
    assert_int_equal(ok, row->opens);
    if (row->opens) assert_true(bytes_equal(secret_bytes(key), secret_bytes(opened)));
    else assert_int_equal(err.kind, ERROR_CORRUPT);
    assert_int_equal(identify().unwrap_count, row->opens ? 1 : 0);
    (void)stop(NULL);
}

static void unwraps_are_counted_for_ever(void **state)
{
    const struct key_binding binding = binding_of(2);
    OWNED(secret) *key = NULL;
    struct wrapped_key wrapped;
    struct error err = {0};

    (void)state;
    assert_true(secret_random(DATA_KEY_SIZE, &key, &err).ok);
    assert_true(keyd_wrap(client, &binding, key, &wrapped, &err).ok);
    for (int i = 0; i < 5; i++) {
        OWNED(secret) *opened = NULL;
        assert_true(keyd_unwrap(client, &binding, &wrapped, &opened, &err).ok);
    }
    const struct keyd_identity before = identify();
    assert_int_equal(before.unwrap_count, 5);
    restart(SIGKILL); /* a reported value survives even this */
    const struct keyd_identity after = identify();
    assert_int_equal(after.unwrap_count, 5);
    assert_memory_equal(before.unwrap_chain, after.unwrap_chain, 32);
    assert_string_equal(before.token_kid, after.token_kid);
    assert_string_equal(before.log_vkey, after.log_vkey);

    OWNED(secret) *opened = NULL; /* by the key ring before the change */
    assert_true(keyd_unwrap(client, &binding, &wrapped, &opened, &err).ok);
    assert_true(bytes_equal(secret_bytes(key), secret_bytes(opened)));
}

static void one_project_has_a_limit(void **state)
{
    const struct key_binding binding = binding_of(2), other_binding = binding_of(3);
    struct wrapped_key wrapped = {.version = 1, .length = 72};
    OWNED(secret) *key = NULL;
    bool limited = false;
    struct error err = {0};

    (void)state;
    for (int i = 0; i < 200000 && !limited; i++) {
        assert_false(keyd_unwrap(client, &binding, &wrapped, &key, &err).ok);
        limited = err.kind == ERROR_LIMIT;
    }
    assert_true(limited);
    assert_false(keyd_unwrap(client, &other_binding, &wrapped, &key, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
}

/* More threads than the client has connections, each with its own key: no reply may reach another thread. */
static void *wrap_and_unwrap(void *argument)
{
    uint8_t *failures = argument;
    struct error err = {0};

    for (int i = 0; i < 50; i++) {
        const struct uuid blob = uuid_random();
        const struct key_scope scope = scope_of(1, 2, "r");
        const uint8_t commitment[32] = {4};
        const struct key_binding binding = key_binding_of(&scope, &blob, commitment);
        OWNED(secret) *key = NULL;
        OWNED(secret) *opened = NULL;
        struct wrapped_key wrapped;
        const bool ok = secret_random(DATA_KEY_SIZE, &key, &err).ok && keyd_wrap(client, &binding, key, &wrapped, &err).ok &&
                        keyd_unwrap(client, &binding, &wrapped, &opened, &err).ok &&
                        bytes_equal(secret_bytes(key), secret_bytes(opened));
        if (!ok) (*failures)++;
    }
    return NULL;
}

static void threads_share_a_client(void **state)
{
    pthread_t threads[20];
    uint8_t failures[COUNT(threads)] = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wrap_and_unwrap, &failures[i]), 0);
    for (size_t i = 0; i < COUNT(threads); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(failures[i], 0);
    }
    assert_int_equal(identify().unwrap_count, 50 * COUNT(threads));
}

struct wrapping {
    struct key_binding binding;
    struct secret *key;
};

static struct result wrap_anew(const struct wrapping *wrapping, struct error *err)
{
    OWNED(keyd_client) *fresh = NULL;
    OWNED(secret) *opened = NULL;
    struct wrapped_key wrapped, again;

    TRY_UNTOUCHED_BYTES(fresh, keyd_client_new(process.socket, CALL_MS, &fresh, err));
    TRY_UNTOUCHED_BYTES(wrapped, keyd_wrap(fresh, &wrapping->binding, wrapping->key, &wrapped, err));
    TRY_UNTOUCHED_BYTES(again, keyd_rewrap(fresh, &wrapping->binding, &wrapped, &again, err));
    TRY_UNTOUCHED_BYTES(opened, keyd_unwrap(fresh, &wrapping->binding, &again, &opened, err));
    assert_true(bytes_equal(secret_bytes(wrapping->key), secret_bytes(opened)));
    return SUCCESS;
}

/* Every allocation and every transfer of the client fails once: an error says so, or another try succeeds. */
static void broken_connections_are_survived(void **state)
{
    struct wrapping wrapping = {.binding = binding_of(2)};
    struct error err = {0};
    unsigned long nth = 1, failures = 0;

    (void)state;
    assert_true(secret_random(DATA_KEY_SIZE, &wrapping.key, &err).ok);
    for (bool has_fired = true; has_fired; nth++) {
        fault_arm(nth);
        const bool ok = wrap_anew(&wrapping, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        failures += !ok;
        if (!ok) assert_true(has_fired && (err.kind == ERROR_UNAVAILABLE || err.kind == ERROR_NO_MEMORY));
        (void)identify(); /* and other connections are not affected */
    }
    secret_free(wrapping.key);
    assert_failures(failures, 5);
}

/* The kill of a sijil-keyd that had not started again ended ctest with all of its tests. The child is in a group of its own. */
static void what_does_not_run_is_not_signalled(void **state)
{
    int status = 0;

    (void)state;
    const pid_t child = fork();
    if (child == 0) _exit(setsid() == getpid() && !signal_process(0, SIGKILL) && !signal_process(-getpid(), SIGKILL) ? 7 : 1);
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void new_versions_keep_the_old(void **state)
{
    const struct key_binding binding = binding_of(2);
    const char *const options[] = {"--add-version", "--passphrase-file", process.passphrase, NULL};
    OWNED(secret) *key = NULL;
    OWNED(secret) *opened = NULL;
    OWNED(secret) *again = NULL;
    struct wrapped_key old, new;
    struct error err = {0};
    char said[512];

    (void)state;
    assert_true(secret_random(DATA_KEY_SIZE, &key, &err).ok);
    assert_true(keyd_wrap(client, &binding, key, &old, &err).ok);
    (void)keyd_daemon_end(&process, SIGTERM);
    assert_int_equal(keyd_daemon_run(&process, options, said, sizeof said), 0);
    keyd_daemon_start(&process, NULL);
    assert_true(keyd_wrap(client, &binding, key, &new, &err).ok);
    assert_int_equal(new.version, 2);
    assert_true(keyd_unwrap(client, &binding, &old, &opened, &err).ok);
    assert_true(keyd_unwrap(client, &binding, &new, &again, &err).ok);
    assert_true(bytes_equal(secret_bytes(opened), secret_bytes(again)));
}

static void subjects_have_keys(void **state)
{
    OWNED(secret) *key = NULL;
    OWNED(secret) *again = NULL;
    struct wrapped_key wrapped;
    uint8_t index[32], same[32], other[32], moved[32];
    struct error err = {0};

    (void)state;
    assert_true(keyd_subject_index(client, "https://issuer", "alice", index, &err).ok);
    assert_true(keyd_subject_index(client, "https://issuer", "alice", same, &err).ok);
    assert_true(keyd_subject_index(client, "https://issuer", "bob", other, &err).ok);
    assert_true(keyd_subject_index(client, "https://issue", "ralice", moved, &err).ok);
    assert_memory_equal(index, same, 32);
    assert_memory_not_equal(index, other, 32);
    assert_memory_not_equal(index, moved, 32);
    assert_true(keyd_subject_key_new(client, index, &key, &wrapped, &err).ok);
    assert_true(keyd_subject_key_open(client, index, &wrapped, &again, &err).ok);
    assert_true(bytes_equal(secret_bytes(key), secret_bytes(again)));
    secret_free(GIVE(again));
    assert_false(keyd_subject_key_open(client, other, &wrapped, &again, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
}

/* ---- tokens ---- */

static struct bytes part_of(const char *token, int which)
{
    for (; which > 0; which--) token = strchr(token, '.') + 1;
    return (struct bytes){(const uint8_t *)token, strcspn(token, ".")};
}

static json_t *decode(const char *token, int which)
{
    struct buffer OWNED_BUFFER text = BUFFER(KEYD_TOKEN_MAX);
    json_t *value = NULL;
    struct error err = {0};

    assert_true(text_from_base64(&text, BASE64_URL, part_of(token, which), &err).ok);
    assert_true(json_read(buffer_bytes(&text), KEYD_TOKEN_MAX, &value, &err).ok);
    return value;
}

static void tokens_are_composed_and_signed(void **state)
{
    const struct token_request request = {
        .issuer = "https://registry.example",
        .audience = "registry.example",
        .subject = "robot:7",
        .source = "robot:7:1",
        .lifetime_s = 86400,
        .confirmation = "0123456789012345678901234567890123456789012",
        .catalog = true,
        .access_count = 2,
        .access = {{.name = "acme/models/digits", .repository = {{0xaa}}, .pull = true, .push = true},
                   {.name = "acme/new", .pull = true, .remove = true}}};
    struct buffer OWNED_BUFFER token = BUFFER(KEYD_TOKEN_MAX);
    struct buffer OWNED_BUFFER signature = BUFFER(64);
    struct buffer OWNED_BUFFER access = BUFFER(1024);
    OWNED(ecdsa_key) *key = NULL;
    struct error err = {0};
    int64_t issued_s = 0, value = 0;

    (void)state;
    const struct keyd_identity identity = identify();
    assert_true(keyd_sign_token(client, &request, &token, &issued_s, &err).ok);
    OWNED_JSON header = decode(buffer_text(&token), 0);
    OWNED_JSON payload = decode(buffer_text(&token), 1);
    assert_string_equal(json_text_of(header, "alg"), "ES256");
    assert_string_equal(json_text_of(header, "typ"), "sijil-reg+jwt");
    assert_string_equal(json_text_of(header, "kid"), identity.token_kid);
    assert_int_equal(json_object_size(header), 3);
    assert_string_equal(json_text_of(payload, "sub"), "robot:7");
    assert_true(json_integer_of(payload, "iat", &value) && value == issued_s && labs(time(NULL) - value) < 5);
    assert_true(json_integer_of(payload, "exp", &value) && value == issued_s + 900);
    assert_true(json_write_canonical(&access, json_object_get(payload, "access"), &err).ok);
    assert_string_equal(buffer_text(&access),
                        "[{\"actions\":[\"pull\",\"push\"],\"id\":\"aa000000-0000-0000-0000-000000000000\","
                        "\"name\":\"acme/models/digits\",\"type\":\"repository\"},"
                        "{\"actions\":[\"pull\",\"delete\"],\"name\":\"acme/new\",\"type\":\"repository\"}]");
    assert_true(json_is_true(json_object_get(payload, "catalog")));
    assert_null(json_object_get(payload, "admin"));
    assert_string_equal(json_text_of(json_object_get(payload, "cnf"), "x5t#S256"), request.confirmation);

    const struct bytes tail = part_of(buffer_text(&token), 2);
    const struct bytes head = {token.data, (size_t)(tail.data - token.data) - 1};
    assert_true(text_from_base64(&signature, BASE64_URL, tail, &err).ok);
    assert_true(ecdsa_key_from_public(identity.token_public, &key, &err).ok);
    assert_true(ecdsa_verify_jose(key, head, buffer_bytes(&signature)));
}

static void tokens_never_repeat_and_must_be_text(void **state)
{
    struct token_request request = {.issuer = "i", .audience = "a", .subject = "s", .source = "c", .lifetime_s = 60};
    struct buffer OWNED_BUFFER first = BUFFER(KEYD_TOKEN_MAX);
    struct buffer OWNED_BUFFER second = BUFFER(KEYD_TOKEN_MAX);
    struct error err = {0};
    int64_t issued_s = 0;

    (void)state;
    assert_true(keyd_sign_token(client, &request, &first, &issued_s, &err).ok);
    assert_true(keyd_sign_token(client, &request, &second, &issued_s, &err).ok);
    OWNED_JSON one = decode(buffer_text(&first), 1);
    OWNED_JSON two = decode(buffer_text(&second), 1);
    assert_string_not_equal(json_text_of(one, "jti"), json_text_of(two, "jti"));
    request.subject = "\xff";
    assert_false(keyd_sign_token(client, &request, &first, &issued_s, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    request.subject = "";
    assert_false(keyd_sign_token(client, &request, &first, &issued_s, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    request.subject = "s";
    request.lifetime_s = 0;
    assert_false(keyd_sign_token(client, &request, &first, &issued_s, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test_setup_teardown(unwraps_are_counted_for_ever, start, stop),
        cmocka_unit_test_setup_teardown(one_project_has_a_limit, start, stop),
        cmocka_unit_test_setup_teardown(threads_share_a_client, start, stop),
        cmocka_unit_test_setup_teardown(broken_connections_are_survived, start, stop),
        cmocka_unit_test(what_does_not_run_is_not_signalled),
        cmocka_unit_test_setup_teardown(new_versions_keep_the_old, start, stop),
        cmocka_unit_test_setup_teardown(subjects_have_keys, start, stop),
        cmocka_unit_test_setup_teardown(tokens_are_composed_and_signed, start, stop),
        cmocka_unit_test_setup_teardown(tokens_never_repeat_and_must_be_text, start, stop),
    };

    return RUN_TABLE(unwrap_rows, unwraps_only_where_it_belongs) +
           cmocka_run_group_tests_name("keys and tokens", others, NULL, NULL);
}
