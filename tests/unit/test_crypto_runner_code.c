/* Codes of runners and proofs of their keys: one spelling, and nothing else is accepted. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "crypto/digest.h"
#include "crypto/runner_code.h"

static const struct row {
    const char *name, *text;
    bool is_code;
} rows[] = {
    {"a code", "sjr_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4v", true},
    {"of zeros", "sjr_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", true},
    {"nothing", "", false},
    {"without its beginning", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4v", false},
    {"another beginning", "sjx_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4v", false},
    {"one character less", "sjr_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4", false},
    {"one character more", "sjr_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vA", false},
    {"a line feed", "sjr_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4\n", false},
    {"the other alphabet", "sjr_+AECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4v", false},
};

static void only_codes_are_read(void **state)
{
    const struct row *row = *state;
    struct runner_code code, before;
    char text[RUNNER_CODE_SIZE];

    memset(&before, UNTOUCHED_BYTE, sizeof before);
    code = before;
    assert_int_equal(runner_code_read(bytes_of_text(row->text), &code), row->is_code);
    if (!row->is_code) {
        assert_memory_equal(&code, &before, sizeof code);
        return;
    }
    runner_code_write(&code, text);
    assert_string_equal(text, row->text);
}

static void a_code_names_its_runner_and_hides_its_secret(void **state)
{
    const struct uuid runner = uuid_random();
    const struct runner_code one = runner_code_new(&runner), other = runner_code_new(&runner);
    uint8_t hash[SHA256_SIZE], wanted[SHA256_SIZE];
    char text[RUNNER_CODE_SIZE];
    struct runner_code read;

    (void)state;
    assert_memory_not_equal(one.secret, other.secret, sizeof one.secret);
    runner_code_write(&one, text);
    assert_true(runner_code_read(bytes_of_text(text), &read));
    assert_true(uuid_equal(&read.runner, &runner));
    runner_code_hash(&read, hash);
    sha256_of((struct bytes){one.secret, sizeof one.secret}, wanted);
    assert_memory_equal(hash, wanted, sizeof hash);
}

#define PROOF ((struct runner_proof){"enrolment", "example/log", "2026-11-26T09:00:00.000Z", "sjr_x sha256:y"})

static void a_proof_is_for_all_that_it_names(void **state)
{
    const struct runner_proof proof = PROOF;
    struct runner_proof others[] = {PROOF, PROOF, PROOF, PROOF};
    OWNED(ecdsa_key) *key = NULL, *stranger = NULL;
    uint8_t point[ECDSA_PUBLIC_SIZE], strange[ECDSA_PUBLIC_SIZE];
    char text[RUNNER_PROOF_SIZE];
    struct error err = {0};

    (void)state;
    others[0].purpose = "certificate";
    others[1].audience = "example/other";
    others[2].issued_at = "2026-11-26T09:00:01.000Z";
    others[3].about = "sjr_x sha256:z";
    must(ecdsa_key_new(&key, &err), &err);
    must(ecdsa_key_new(&stranger, &err), &err);
    ecdsa_key_public(key, point);
    ecdsa_key_public(stranger, strange);
    must(runner_proof_sign(&proof, key, text, &err), &err);
    must(runner_proof_check(&proof, point, text, &err), &err);
    for (size_t i = 0; i < COUNT(others); i++) {
        assert_false(runner_proof_check(&others[i], point, text, &err).ok);
        assert_int_equal(err.kind, ERROR_DENIED);
    }
    assert_false(runner_proof_check(&proof, strange, text, &err).ok);
    for (size_t i = 0; i + 1 < sizeof text; i++) {
        char changed[RUNNER_PROOF_SIZE];
        memcpy(changed, text, sizeof text);
        changed[i] = changed[i] == 'A' ? 'B' : 'A';
        assert_false(runner_proof_check(&proof, point, changed, &err).ok);
    }
    text[strlen(text) - 1] = '\0';
    assert_false(runner_proof_check(&proof, point, text, &err).ok);
}

static struct result prove(void *context, struct error *err)
{
    const struct runner_proof proof = PROOF;
    uint8_t point[ECDSA_PUBLIC_SIZE];
    char text[RUNNER_PROOF_SIZE];

    ecdsa_key_public(context, point);
    TRY(runner_proof_sign(&proof, context, text, err));
    return runner_proof_check(&proof, point, text, err);
}

static void a_lack_of_memory_is_no_proof(void **state)
{
    OWNED(ecdsa_key) *key = NULL;
    struct error err = {0};

    (void)state;
    must(ecdsa_key_new(&key, &err), &err);
    fail_each(prove, key, ERROR_NO_MEMORY, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_code_names_its_runner_and_hides_its_secret),
        cmocka_unit_test(a_proof_is_for_all_that_it_names),
        cmocka_unit_test(a_lack_of_memory_is_no_proof),
    };

    return RUN_TABLE(rows, only_codes_are_read) + cmocka_run_group_tests(tests, NULL, NULL);
}
