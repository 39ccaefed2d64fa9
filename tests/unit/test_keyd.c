/* The parts of sijil-keyd, one by one: key ring, rate, sandbox, tokens, each with every failure. */
#include "tests/unit/keyd_folder_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit/format/erased.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/sandbox.h"
#include "crypto/dsse.h"
#include "keyd/answer.h"
#include "keyd/erasure_certificate.h"
#include "keyd/keyring.h"
#include "keyd/ledger.h"
#include "keyd/rate.h"
#include "keyd/token.h"
#include "keyd/token_keys.h"

/* Cheap to open, so that every failure can be tried. */
#define CHEAP ((struct password_cost){.passes = 1, .memory_kib = 64})

static struct result create(const struct folder *folder, const char *passphrase, const char *origin, struct error *err)
{
    const struct keyring_options options = {.origin = origin, .passphrase = bytes_of_text(passphrase), .cost = CHEAP};

    return keyring_create(folder->fd, &options, ledger_create, err);
}

/* ---- key ring ---- */

static void key_rings_open_with_their_passphrase(void **state)
{
    OWNED_FOLDER folder;
    OWNED(keyring) *keyring = NULL;
    struct keyring *other = NULL;
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    assert_false(keyring_open(folder.fd, bytes_of_text("secret"), &other, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    assert_true(create(&folder, "secret", "x.example/log", &err).ok);
    assert_true(keyring_open(folder.fd, bytes_of_text("secret"), &keyring, &err).ok);
    assert_string_equal(keyring_origin(keyring), "x.example/log");
    assert_false(keyring_open(folder.fd, bytes_of_text("Secret"), &other, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_false(create(&folder, "secret", "x.example/log", &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    assert_null(other);
}

static const struct bad_origin_row {
    const char *name, *origin, *passphrase;
} bad_origin_rows[] = {
    {"no origin", "", "p"},
    {"a blank", "two words", "p"},
    {"a line feed", "two\nlines", "p"},
    {"a plus", "a+b", "p"},
    {"128 letters",
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
     "p"},
    {"no passphrase", "x.example/log", ""},
};

static void refuses_origins(void **state)
{
    const struct bad_origin_row *row = *state;
    OWNED_FOLDER folder;
    struct error err = {0};

    folder_make(&folder);
    assert_false(create(&folder, row->passphrase, row->origin, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_int_equal(faccessat(folder.fd, KEYRING_FILE, F_OK, 0), -1);
}

/* Every byte of the file counts, and every length but the right one is refused. */
static void damaged_key_rings_do_not_open(void **state)
{
    OWNED_FOLDER folder;
    struct buffer OWNED_BUFFER file = BUFFER(KEYRING_FILE_MAX);
    char path[64];
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    assert_true(create(&folder, "secret", "x.example/log", &err).ok);
    (void)snprintf(path, sizeof path, "%s/%s", folder.path, KEYRING_FILE);
    assert_true(file_read(path, &file, &err).ok);
    for (size_t i = 0; i < file.length; i++) {
        struct keyring *keyring = NULL;
        if (i >= 8 && i < 16) continue; /* the cost: a changed one only makes the failure slower */
        file.data[i] ^= 0x10;
        assert_true(file_replace_at(folder.fd, KEYRING_FILE, buffer_bytes(&file), 0600, &err).ok);
        assert_false(keyring_open(folder.fd, bytes_of_text("secret"), &keyring, &err).ok);
        assert_true(err.kind == (i < 8 ? ERROR_CORRUPT : ERROR_DENIED));
        file.data[i] ^= 0x10;
    }
    for (size_t length = 0; length < file.length; length += 13) {
        struct keyring *keyring = NULL;
        const struct bytes cut = {file.data, length};
        assert_true(file_replace_at(folder.fd, KEYRING_FILE, cut, 0600, &err).ok);
        assert_false(keyring_open(folder.fd, bytes_of_text("secret"), &keyring, &err).ok);
    }
}

static void keys_differ_by_all_that_they_are_for(void **state)
{
    OWNED_FOLDER folder;
    OWNED(keyring) *keyring = NULL;
    struct key_scope scopes[5] = {{.region = "r"}, {.region = "s"}, {.region = "r"}, {.region = "r"}, {.region = "rr"}};
    uint8_t keys[6][32];
    uint32_t added = 0;
    struct error err = {0};

    (void)state;
    scopes[2].organisation.bytes[0] = 1;
    scopes[3].project.bytes[0] = 1;
    folder_make(&folder);
    assert_true(create(&folder, "secret", "x.example/log", &err).ok);
    assert_true(keyring_add_version(folder.fd, bytes_of_text("secret"), NULL, &added, &err).ok);
    assert_int_equal(added, 2);
    assert_true(keyring_open(folder.fd, bytes_of_text("secret"), &keyring, &err).ok);
    assert_int_equal(keyring_version(keyring), 2);
    for (size_t i = 0; i < 5; i++) assert_true(keyring_scope_key(keyring, &scopes[i], 1, keys[i], &err).ok);
    assert_true(keyring_scope_key(keyring, &scopes[0], 2, keys[5], &err).ok);
    for (size_t i = 0; i < 6; i++)
        for (size_t j = 0; j < i; j++) assert_memory_not_equal(keys[i], keys[j], 32);
    assert_false(keyring_scope_key(keyring, &scopes[0], 3, keys[0], &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
}

static void key_rings_have_a_last_version(void **state)
{
    OWNED_FOLDER folder;
    uint32_t added = 0;
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    assert_true(create(&folder, "secret", "x.example/log", &err).ok);
    for (uint32_t i = 2; i <= KEYRING_ROOTS_MAX; i++)
        assert_true(keyring_add_version(folder.fd, bytes_of_text("secret"), NULL, &added, &err).ok);
    assert_int_equal(added, KEYRING_ROOTS_MAX);
    assert_false(keyring_add_version(folder.fd, bytes_of_text("secret"), NULL, &added, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

/* What a gateway has said to be unused, and which epochs are left after the destruction of version 1 and then of version 2. */
static const struct epochs_row {
    const char *name;
    uint32_t unused_below;
    uint32_t after_1, after_2; /* the oldest epoch */
} epochs_rows[] = {
    {"nothing", 1, 1, 1},
    {"version 1", 2, 2, 2},
    {"versions 1 and 2", 3, 2, 3},
};

/* `stage` 0: keyd signs no certificate of an erasure whose key was wrapped under this epoch. */
static void check_stage(const struct keyring *keyring, uint32_t epoch, unsigned stage)
{
    static const char pseudonym[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const struct keyd_erasure request = {
        .pseudonym = bytes_of_text(pseudonym), .asked = 3, .done = 9, .payloads = 7, .erased_ms = 5, .key_version = epoch};
    struct buffer OWNED_BUFFER envelope = BUFFER(ERASED_ENVELOPE_MAX);
    OWNED(dsse) *dsse = NULL;
    struct erased erased;
    struct error err = {0};

    const struct result signed_now = erasure_certificate_sign(&(struct signed_log){keyring, 1}, &request, 9, &envelope, &err);
    assert_int_equal(signed_now.ok, stage != 0);
    if (stage == 0) return;
    must(dsse_read(buffer_bytes(&envelope), ERASED_ENVELOPE_MAX, &dsse, &err), &err);
    must(erased_read(buffer_bytes(&dsse->payload), &erased, &err), &err);
    assert_int_equal(erased.stage, stage);
    assert_int_equal(erased.key_version, epoch);
}

static void epochs_go_with_their_versions(void **state)
{
    const struct epochs_row *row = *state;
    struct keyring_destruction what = {.passphrase = bytes_of_text("secret"), .unused_below = row->unused_below, .now_s = 7};
    OWNED_FOLDER folder;
    uint8_t key[32];
    uint32_t added = 0;
    struct error err = {0};

    folder_make(&folder);
    must(create(&folder, "secret", "x.example/log", &err), &err);
    for (uint32_t i = 2; i <= 3; i++) must(keyring_add_version(folder.fd, bytes_of_text("secret"), NULL, &added, &err), &err);
    for (what.number = 1; what.number <= 2; what.number++) {
        OWNED(keyring) *keyring = NULL;
        const uint32_t oldest = what.number == 1 ? row->after_1 : row->after_2;
        must(keyring_destroy_version(folder.fd, &what, &err), &err);
        must(keyring_open(folder.fd, bytes_of_text("secret"), &keyring, &err), &err);
        assert_int_equal(keyring_epoch(keyring), 3);
        assert_int_equal(keyring_oldest_epoch(keyring), oldest);
        for (uint32_t epoch = 0; epoch <= 4; epoch++)
            check_stage(keyring, epoch, epoch == 0 || epoch == 4 ? 0 : epoch < oldest ? 2 : 1);
        for (uint32_t epoch = 1; epoch <= 3; epoch++)
            assert_int_equal(keyring_subject_key(keyring, epoch, key, &err).ok, epoch >= oldest);
    }
}

/* ---- rate ---- */

static const struct rate_limit unwraps = {"the project's keys are unwrapped", UNWRAP_RATE_PER_S, UNWRAP_BURST};

static void buckets_empty_and_refill(void **state)
{
    OWNED(rate) *rate = NULL;
    const struct uuid project = {{1}}, other = {{2}};
    struct error err = {0};
    int64_t now_ms = 1000;
    int taken = 0;

    (void)state;
    assert_true(rate_new(&unwraps, &rate, &err).ok);
    while (rate_take(rate, &project, now_ms, &err).ok) taken++;
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_int_equal(taken, UNWRAP_BURST);
    assert_true(rate_take(rate, &other, now_ms, &err).ok);
    for (taken = 0, now_ms += 100; rate_take(rate, &project, now_ms, &err).ok; taken++) continue;
    assert_int_equal(taken, UNWRAP_RATE_PER_S / 10);
    assert_false(rate_take(rate, &project, now_ms - 50, &err).ok); /* a thread that comes late */
    assert_false(rate_take(rate, &project, now_ms, &err).ok);      /* and no time was counted twice */
    for (taken = 0, now_ms = INT64_MAX; rate_take(rate, &project, now_ms, &err).ok; taken++) continue;
    assert_int_equal(taken, UNWRAP_BURST);
}

/* More busy projects than the table holds: some are refused, and no empty bucket becomes full. */
static void crowds_of_projects_are_refused_not_forgotten(void **state)
{
    OWNED(rate) *rate = NULL;
    struct error err = {0};
    struct uuid project = {{0}};
    size_t refused = 0;

    (void)state;
    assert_true(rate_new(&unwraps, &rate, &err).ok);
    while (rate_take(rate, &project, 1000, &err).ok) continue;
    for (uint64_t i = 1; i <= 10000; i++) {
        store_u64(project.bytes, i);
        if (!rate_take(rate, &project, 1000, &err).ok) refused++;
    }
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_in_range(refused, 10000 - 4096, 9999);
    project = (struct uuid){{0}};
    assert_false(rate_take(rate, &project, 1000, &err).ok);
    store_u64(project.bytes, 10000); /* half a millisecond later the others are full, and make room */
    assert_true(rate_take(rate, &project, 1001, &err).ok);
}

/* ---- sandbox ---- */

static bool is_refused(long result)
{
    return result == -1 && errno == EPERM;
}

static int try_everything(void)
{
    char *const no_arguments[] = {NULL};
    struct error err = {0};
    uint8_t byte = 1;
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0 || !sandbox_prepare(&err).ok || !sandbox_enter(&err).ok) return 1;
    if (!is_refused(socket(AF_INET, SOCK_STREAM, 0)) || !is_refused(socket(AF_INET6, SOCK_DGRAM, 0))) return 2;
    if (!is_refused(socket(AF_UNIX, SOCK_STREAM, 0)) || !is_refused(socket(AF_NETLINK, SOCK_RAW, 0))) return 3;
    if (!is_refused(open("/etc/passwd", O_RDONLY | O_CLOEXEC)) || !is_refused(unlink("/nowhere"))) return 4;
    if (!is_refused(execve("/bin/true", no_arguments, no_arguments))) return 5;
    if (!is_refused(fork()) || !is_refused(kill(getppid(), 0))) return 6;
    if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) return 7;
    if (mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) return 8;
    if (write(ends[1], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1) return 9;
    return 0;
}

static void the_sandbox_forbids_the_network_and_more(void **state)
{
    int status = 0;

    (void)state;
    const pid_t child = fork();
    if (child == 0) _exit(try_everything());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- everything, with every failure ---- */

static struct result use_all(const struct folder *folder, struct error *err)
{
    OWNED(keyring) *keyring = NULL;
    OWNED(ledger) *ledger = NULL;
    OWNED(rate) *rate = NULL;
    OWNED(log_rotation) *rotation = NULL;

    TRY(create(folder, "secret", "x.example/log", err));
    TRY_UNTOUCHED_BYTES(keyring, keyring_open(folder->fd, bytes_of_text("secret"), &keyring, err));
    TRY_UNTOUCHED_BYTES(ledger, ledger_open(folder->fd, keyring_ledger_key(keyring), &ledger, err));
    TRY_UNTOUCHED_BYTES(rotation, log_rotation_open(folder->fd, keyring, &rotation, err));
    TRY_UNTOUCHED_BYTES(rate, rate_new(&unwraps, &rate, err));
    const struct keyd keyd = {.keyring = keyring, .ledger = ledger, .rate = rate};
    return keyd_self_test(&keyd, err);
}

static void every_failure_is_survived(void **state)
{
    unsigned long nth = 1, failures = 0;

    (void)state;
    for (bool has_fired = true; has_fired; nth++) {
        OWNED_FOLDER folder;
        struct error err = {0};

        folder_make(&folder);
        fault_arm(nth);
        const bool ok = use_all(&folder, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        if (!ok) assert_true(has_fired && err.kind != ERROR_NONE && err.message[0] != '\0');
        failures += !ok; /* a failure that a second try hides does not count */
    }
    assert_failures(failures, 100);
}

static struct result sign_token(void *keyring, struct error *err)
{
    const struct keyd_access access = {.name = bytes_of_text("acme/models/digits"), .pull = true, .push = true};
    const struct keyd_token request = {.issuer = bytes_of_text("https://x.example"),
                                       .audience = bytes_of_text("sijil"),
                                       .subject = bytes_of_text("robot$acme+ci"),
                                       .source = bytes_of_text(""),
                                       .confirmation = bytes_of_text(""),
                                       .lifetime_s = 60,
                                       .access_count = 1,
                                       .access = {access}};
    struct buffer OWNED_BUFFER token = BUFFER(KEYD_TOKEN_MAX);

    TRY_UNTOUCHED(token.length, token_sign(keyring, &request, 1700000000, &token, err));
    return SUCCESS;
}

/* A lack of memory was reported as text that is not UTF-8, so the gateway called a good request bad. */
static bool same(const struct ecdsa_key *one, const struct ecdsa_key *other)
{
    uint8_t first[ECDSA_PUBLIC_SIZE], second[ECDSA_PUBLIC_SIZE];

    ecdsa_key_public(one, first);
    ecdsa_key_public(other, second);
    return memcmp(first, second, sizeof first) == 0;
}

/* Whoever has read the published keys once in the last month knows the key of each valid token. */
static void token_keys_rotate_without_a_gap(void **state)
{
    static const uint8_t secret[32] = {7};
    const int64_t begin = 600 * TOKEN_KEY_PERIOD_S;
    const struct ecdsa_key *published[KEYD_TOKEN_KEYS_MAX], *later[KEYD_TOKEN_KEYS_MAX];
    OWNED(token_keys) *keys = NULL;
    OWNED(token_keys) *copy = NULL;
    struct error err = {0};

    (void)state;
    must(token_keys_new(secret, begin - 1, &keys, &err), &err);
    must(token_keys_new(secret, begin + TOKEN_KEY_PERIOD_S - 1, &copy, &err), &err);
    assert_false(same(token_keys_at(keys, begin - 1), token_keys_at(keys, begin)));
    assert_true(same(token_keys_at(keys, begin), token_keys_at(keys, begin + TOKEN_KEY_PERIOD_S - 1)));
    assert_true(same(token_keys_at(keys, begin), token_keys_at(copy, begin))); /* another copy of the key ring, started later */

    assert_int_equal(token_keys_published(keys, begin - 1, published), 2); /* the present one and the next */
    assert_int_equal(token_keys_published(keys, begin, later), 3);
    assert_ptr_equal(later[0], published[1]);
    assert_ptr_equal(later[2], published[0]);
    assert_int_equal(token_keys_published(keys, begin + TOKEN_KEY_KEPT_S - 1, later), 3);
    assert_int_equal(token_keys_published(keys, begin + TOKEN_KEY_KEPT_S, later), 2);
    assert_true(TOKEN_KEY_KEPT_S > TOKEN_LIFETIME_MAX_S + 86400); /* a session accepts a token a day after its end */

    assert_ptr_equal(token_keys_at(keys, begin + 90 * TOKEN_KEY_PERIOD_S), token_keys_at(keys, begin + 91 * TOKEN_KEY_PERIOD_S));
    assert_int_equal(token_keys_published(keys, begin + 90 * TOKEN_KEY_PERIOD_S, later), 2); /* the last one stays */
    assert_non_null(token_keys_at(keys, 0));                                                 /* a clock that was set back */
}

static void tokens_say_that_memory_lacks(void **state)
{
    OWNED_FOLDER folder;
    OWNED(keyring) *keyring = NULL;
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    assert_true(create(&folder, "secret", "x.example/log", &err).ok);
    assert_true(keyring_open(folder.fd, bytes_of_text("secret"), &keyring, &err).ok);
    fail_each(sign_token, keyring, ERROR_NO_MEMORY, 30);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(token_keys_rotate_without_a_gap),
        cmocka_unit_test(tokens_say_that_memory_lacks),
        cmocka_unit_test(key_rings_open_with_their_passphrase),
        cmocka_unit_test(damaged_key_rings_do_not_open),
        cmocka_unit_test(keys_differ_by_all_that_they_are_for),
        cmocka_unit_test(key_rings_have_a_last_version),
        cmocka_unit_test(buckets_empty_and_refill),
        cmocka_unit_test(crowds_of_projects_are_refused_not_forgotten),
        cmocka_unit_test(the_sandbox_forbids_the_network_and_more),
        cmocka_unit_test(every_failure_is_survived),
    };

    return RUN_TABLE(bad_origin_rows, refuses_origins) + RUN_TABLE(epochs_rows, epochs_go_with_their_versions) +
           cmocka_run_group_tests_name("others", others, NULL, NULL);
}
