/* The tokens that sijil-keyd signs are limited, and counted before they are signed; and the bytes of its ledger. */
#include "tests/unit/keyd_folder_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/hmac.h"
#include "keyd/ledger.h"
#include "keyd/ledger_format.h"
#include "keyd/mint_limits.h"
#include "keyd/rate.h"

static const uint8_t ledger_key[LEDGER_KEY_SIZE] = {7};

static const uint8_t alice[MINTER_ID_SIZE] = {1}, bob[MINTER_ID_SIZE] = {2};

static void count_mints_of(struct ledger *ledger, enum mint_scope scope, const uint8_t credential[MINTER_ID_SIZE], unsigned times)
{
    struct error err = {0};

    for (unsigned i = 0; i < times; i++) assert_true(ledger_count_mint(ledger, scope, credential, &err).ok);
}

static struct ledger *open_ledger(const struct folder *folder)
{
    struct ledger *ledger = NULL;
    struct error err = {0};

    assert_true(ledger_open(folder->fd, ledger_key, &ledger, &err).ok);
    return ledger;
}

/* A kill leaves a ledger that is not settled. It then reports at least the number of signed tokens. */
static void mints_are_never_counted_too_low(void **state)
{
    OWNED_FOLDER folder;
    struct ledger_state now;
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    assert_true(ledger_create(folder.fd, ledger_key, &err).ok);
    struct ledger *ledger = open_ledger(&folder);
    count_mints_of(ledger, MINT_PULL, bob, 2 * MINTS_RESERVED + 10);
    count_mints_of(ledger, MINT_ADMINISTRATION, alice, 3);
    ledger_read(ledger, &now);
    assert_int_equal(now.mints[MINT_PULL], 2 * MINTS_RESERVED + 10);
    ledger_free(ledger); /* killed */

    ledger = open_ledger(&folder);
    ledger_read(ledger, &now);
    const uint64_t told = now.mints[MINT_PULL] + now.mints[MINT_ADMINISTRATION];
    assert_true(told <= 2 * MINTS_RESERVED + 13 && told + now.mints_lost >= 2 * MINTS_RESERVED + 13);
    assert_true(now.mints_lost <= MINTS_RESERVED);
    count_mints_of(ledger, MINT_ADMINISTRATION, alice, 2);
    count_mints_of(ledger, MINT_ADMINISTRATION, bob, 1);
    assert_true(ledger_settle(ledger, &err).ok);
    const uint64_t lost = now.mints_lost;
    ledger_read(ledger, &now);
    const struct ledger_state settled = now;
    ledger_free(ledger);

    ledger = open_ledger(&folder); /* nothing is lost at an orderly end */
    ledger_read(ledger, &now);
    assert_memory_equal(now.mints, settled.mints, sizeof now.mints);
    assert_memory_equal(now.minters, settled.minters, sizeof now.minters);
    assert_int_equal(now.mints_lost, lost);
    assert_int_equal(now.minters[0].count + now.minters[1].count, now.mints[MINT_ADMINISTRATION]);
    ledger_free(ledger);
}

static unsigned tokens_until_refused(struct mint_limits *limits, struct ledger *ledger, const struct keyd_token *token)
{
    struct error err = {0};
    unsigned count = 0;

    while (mint_take(limits, ledger, token, 1000, &err).ok) count++;
    assert_int_equal(err.kind, ERROR_LIMIT);
    return count;
}

static void tokens_are_limited_by_credential_and_scope(void **state)
{
    OWNED_FOLDER folder;
    OWNED(mint_limits) *limits = NULL;
    struct keyd_token token = {.source = bytes_of_text("robot:1"), .subject = bytes_of_text("robot:1"), .administration = true};
    struct ledger_state now;
    struct error err = {0};
    unsigned all = 0;
    char source[32];

    (void)state;
    folder_make(&folder);
    assert_true(ledger_create(folder.fd, ledger_key, &err).ok);
    OWNED(ledger) *ledger = open_ledger(&folder);
    assert_true(mint_limits_new(&limits, &err).ok);
    assert_int_equal(all += tokens_until_refused(limits, ledger, &token), ADMINISTRATION_BURST);
    for (unsigned i = 0; i < 40; i++) { /* with any name, and of any organisation */
        (void)snprintf(source, sizeof source, "robot:%u", i + 2);
        token.source = bytes_of_text(source);
        store_u64(token.organisation.bytes, i / 2);
        all += tokens_until_refused(limits, ledger, &token);
    }
    /* The registry has three robots: two use all but the last quarter, the third gets its share of that. */
    assert_int_equal(all, ADMINISTRATION_TENANTS_BURST + ADMINISTRATION_REGISTRY_BURST * 3 / 4 + ADMINISTRATION_BURST / 4);
    token.administration = false;
    token.access_count = 1;
    token.access[0].pull = true;
    assert_int_equal(tokens_until_refused(limits, ledger, &token), MINT_BURST);
    ledger_read(ledger, &now);
    assert_int_equal(now.mints[MINT_ADMINISTRATION], all);
    assert_int_equal(now.mints[MINT_PULL], MINT_BURST);
    assert_int_equal(now.minters[0].count, ADMINISTRATION_BURST);
}

static struct keyd_token token_of(const char *source, const struct uuid *organisation)
{
    return (struct keyd_token){
        .source = bytes_of_text(source), .subject = bytes_of_text(source), .organisation = *organisation, .administration = true};
}

/* With any number of robots or subjects of one tenant, others get their tokens, and the registry's own robots always do. */
static void tenants_do_not_use_up_what_others_have(void **state)
{
    static const char *const of_issuer[] = {"ext:00112233445566778899aabbccddeeff:a", "ext:00112233445566778899aabbccddeeff:b",
                                            "ext:00112233445566778899aabbccddeeff:c", "ext:00112233445566778899aabbccddeeff:d"};
    const struct uuid acme = {{1}}, globex = {{2}}, registry = {{0}};
    OWNED_FOLDER folder;
    OWNED(mint_limits) *limits = NULL;
    struct error err = {0};
    char source[32];
    unsigned all = 0;

    (void)state;
    folder_make(&folder);
    assert_true(ledger_create(folder.fd, ledger_key, &err).ok);
    OWNED(ledger) *ledger = open_ledger(&folder);
    assert_true(mint_limits_new(&limits, &err).ok);
    for (unsigned i = 0; i < 6; i++) {
        (void)snprintf(source, sizeof source, "robot:%u", i);
        const struct keyd_token token = token_of(source, &acme);
        all += tokens_until_refused(limits, ledger, &token);
    }
    assert_int_equal(all, ADMINISTRATION_REALM_BURST);
    for (size_t i = 0; i < COUNT(of_issuer); i++) {
        const struct keyd_token subject = token_of(of_issuer[i], &registry); /* it is no robot of the registry */
        all += tokens_until_refused(limits, ledger, &subject);
    }
    assert_int_equal(all, 2 * ADMINISTRATION_REALM_BURST);
    const struct keyd_token other = token_of("robot:other", &globex), admin = token_of("robot:admin", &registry);
    assert_int_equal(tokens_until_refused(limits, ledger, &other), ADMINISTRATION_REALM_BURST / 4);
    assert_int_equal(tokens_until_refused(limits, ledger, &admin), ADMINISTRATION_BURST);
}

/*
 * Subjects of one issuer shared its limit, even if they work for different organisations: those of one tenant kept those of
 * another out.
 */
static void subjects_of_an_issuer_count_for_their_organisations(void **state)
{
    const struct uuid acme = {{1}}, globex = {{2}};
    OWNED_FOLDER folder;
    OWNED(mint_limits) *limits = NULL;
    struct error err = {0};
    unsigned all = 0;

    (void)state;
    folder_make(&folder);
    assert_true(ledger_create(folder.fd, ledger_key, &err).ok);
    OWNED(ledger) *ledger = open_ledger(&folder);
    assert_true(mint_limits_new(&limits, &err).ok);
    for (char each = 'a'; each <= 'f'; each++) {
        const char subject[] = {'e', 'x', 't', ':', '0', '0', ':', each, '\0'};
        const struct keyd_token busy = token_of(subject, &acme);
        all += tokens_until_refused(limits, ledger, &busy);
    }
    assert_int_equal(all, ADMINISTRATION_REALM_BURST);
    const struct keyd_token robot = token_of("robot:acme", &acme), other = token_of("ext:00:z", &globex);
    assert_int_equal(tokens_until_refused(limits, ledger, &robot), 0);
    assert_int_equal(tokens_until_refused(limits, ledger, &other), ADMINISTRATION_BURST);
}

/* The times at which an administrator needs a token: a script of sixty commands, then one each five seconds. */
static bool is_due(int64_t now_ms)
{
    const int64_t ms = now_ms - INT64_C(3600) * 1000;

    return ms >= 0 && ms % (ms < 60000 ? 1000 : 5000) == 0;
}

/* Asks with each of `busy` ten times a second for two hours; in the second, `other` is never refused. */
static void stays_free_for(struct mint_limits *limits, struct ledger *ledger, const struct keyd_token *busy, size_t count,
                           const struct keyd_token *other)
{
    struct error err = {0};
    unsigned refused = 0;

    for (int64_t now_ms = 1000; now_ms < INT64_C(7200) * 1000; now_ms += 100) {
        for (size_t i = 0; i < count; i++) refused += !mint_take(limits, ledger, &busy[i], now_ms, &err).ok;
        if (!is_due(now_ms)) continue;
        if (!mint_take(limits, ledger, other, now_ms, &err).ok)
            fail_msg("after %lld s: %s", (long long)(now_ms / 1000), err.message);
    }
    assert_true(refused > 0);
}

/*
 * Credentials that asked at their full rate for a long time used up all tokens of their organisation: nobody could revoke them.
 */
static void credentials_do_not_use_up_what_their_organisation_has(void **state)
{
    const struct uuid acme = {{1}}, registry = {{0}};
    const struct keyd_token busy[][4] = {
        {token_of("robot:1", &acme), token_of("robot:2", &acme), token_of("robot:3", &acme), token_of("ext:00:a", &acme)},
        {token_of("robot:5", &registry), token_of("robot:6", &registry), token_of("robot:7", &registry),
         token_of("robot:8", &registry)}};
    const struct keyd_token other[] = {token_of("robot:admin", &acme), token_of("robot:registry-admin", &registry)};
    OWNED_FOLDER folder;
    OWNED(mint_limits) *limits = NULL;
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    assert_true(ledger_create(folder.fd, ledger_key, &err).ok);
    OWNED(ledger) *ledger = open_ledger(&folder);
    assert_true(mint_limits_new(&limits, &err).ok);
    for (size_t i = 0; i < COUNT(other); i++) stays_free_for(limits, ledger, busy[i], COUNT(busy[i]), &other[i]);
}

/* Three organisations with such robots used up the tokens of all. */
static void organisations_do_not_use_up_what_all_have(void **state)
{
    static const char *const names[] = {"robot:1a", "robot:1b", "robot:2a", "robot:2b",
                                        "robot:3a", "robot:3b", "robot:4a", "robot:4b"};
    const struct keyd_token other = token_of("robot:admin", &(struct uuid){{9}});
    struct keyd_token busy[COUNT(names)];
    OWNED_FOLDER folder;
    OWNED(mint_limits) *limits = NULL;
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) busy[i] = token_of(names[i], &(struct uuid){{(uint8_t)(1 + i / 2)}});
    folder_make(&folder);
    assert_true(ledger_create(folder.fd, ledger_key, &err).ok);
    OWNED(ledger) *ledger = open_ledger(&folder);
    assert_true(mint_limits_new(&limits, &err).ok);
    stays_free_for(limits, ledger, busy, COUNT(busy), &other);
}

/* A refusal by the shared limit does not use up one's own limit: the shared bucket fills faster than that of one organisation. */
static void a_refused_token_costs_its_organisation_nothing(void **state)
{
    const struct uuid globex = {{9}};
    OWNED_FOLDER folder;
    OWNED(mint_limits) *limits = NULL;
    struct error err = {0};
    const unsigned seconds = 10;
    unsigned all = 0;

    (void)state;
    folder_make(&folder);
    assert_true(ledger_create(folder.fd, ledger_key, &err).ok);
    OWNED(ledger) *ledger = open_ledger(&folder);
    assert_true(mint_limits_new(&limits, &err).ok);
    for (uint8_t i = 1; i <= 6; i++) {
        for (char second = 'a'; second <= 'c'; second++) {
            const char source[] = {'r', (char)('0' + i), second, '\0'};
            const struct keyd_token busy = token_of(source, &(struct uuid){{i}});
            all += tokens_until_refused(limits, ledger, &busy);
        }
    }
    assert_int_equal(all, ADMINISTRATION_TENANTS_BURST);
    const struct keyd_token other = token_of("robot:other", &globex);
    for (unsigned i = 0; i < 2 * ADMINISTRATION_BURST; i++) assert_false(mint_take(limits, ledger, &other, 1000, &err).ok);
    unsigned got = 0;
    while (mint_take(limits, ledger, &other, 1000 + 1000 * seconds, &err).ok) got++;
    assert_int_equal(got, seconds * ADMINISTRATION_TENANTS_RATE_PER_S);
}

static void a_token_counts_under_its_widest_scope(void **state)
{
    struct keyd_token token = {.access_count = 0};

    (void)state;
    assert_int_equal(mint_scope_of(&token), MINT_NOTHING);
    token.access_count = 2;
    token.access[1].pull = true;
    assert_int_equal(mint_scope_of(&token), MINT_PULL);
    token.access[0].push = true;
    assert_int_equal(mint_scope_of(&token), MINT_PUSH);
    token.access[1].remove = true;
    assert_int_equal(mint_scope_of(&token), MINT_DELETE);
    token.catalog = true;
    assert_int_equal(mint_scope_of(&token), MINT_CATALOG);
    token.administration = true;
    assert_int_equal(mint_scope_of(&token), MINT_ADMINISTRATION);
}

/* As earlier versions of the program left it: it ends with the number of the log, the events that were asked for, the approvers, or the finding. */
static void the_ledger_before_documents_is_read(void **state)
{
    enum {
        BODY_7 = LEDGER_BODY_SIZE - LEDGER_TERMS_SIZE - LEDGER_NUMBER_SIZE,
        BODY_6 = BODY_7 - LEDGER_WITNESSES_SIZE,
        BODY_5 = BODY_6 - LEDGER_ASKED_SIZE,
        BODY_4 = BODY_5 - LEDGER_DOCUMENTS_SIZE
    };
    struct ledger_state written = {.log_size = 7, .pins = {{.epoch = 3, .digest = {9}}, {.epoch = 5}}, .finding = "entry 4"},
                        read;
    uint8_t copy[LEDGER_COPY_SIZE];
    uint64_t sequence = 0;

    (void)state;
    written.approvers[11] = (struct document_approver){.point = {4, 1}, .principal = {2}, .expires_ms = 99, .is_revoked = true};
    written.asked[15] = 8;
    written.witness_epoch = 6;
    written.witness_digest[31] = 1;
    written.log_number = 4;
    journal_copy_write(&ledger_format, ledger_key, &written, 12, copy);
    assert_true(journal_copy_read(&ledger_format, ledger_key, copy, &read, &sequence));
    assert_memory_equal(&read.pins, &written.pins, sizeof read.pins);
    assert_memory_equal(&read.approvers, &written.approvers, sizeof read.approvers);
    assert_true(read.asked[15] == 8 && read.witness_epoch == 6 && read.witness_digest[31] == 1);
    assert_int_equal(read.log_number, 4);

    copy[4] = 7;
    hmac_sha256((struct bytes){ledger_key, sizeof ledger_key}, (struct bytes){copy, BODY_7}, copy + BODY_7);
    assert_true(journal_copy_read(&ledger_format, ledger_key, copy, &read, &sequence));
    assert_true(read.log_number == 1 && read.witness_epoch == 6); /* there was no recovery before */

    copy[4] = 6;
    hmac_sha256((struct bytes){ledger_key, sizeof ledger_key}, (struct bytes){copy, BODY_6}, copy + BODY_6);
    assert_true(journal_copy_read(&ledger_format, ledger_key, copy, &read, &sequence));
    assert_true(read.asked[15] == 8 && read.witness_epoch == 0 && read.witness_digest[31] == 0);

    copy[4] = 5;
    hmac_sha256((struct bytes){ledger_key, sizeof ledger_key}, (struct bytes){copy, BODY_5}, copy + BODY_5);
    assert_true(journal_copy_read(&ledger_format, ledger_key, copy, &read, &sequence));
    assert_memory_equal(&read.approvers, &written.approvers, sizeof read.approvers);
    assert_true(read.asked[15] == 0);

    copy[4] = 4;
    assert_false(journal_copy_read(&ledger_format, ledger_key, copy, &read, &sequence)); /* the format is under the HMAC, too */
    hmac_sha256((struct bytes){ledger_key, sizeof ledger_key}, (struct bytes){copy, BODY_4}, copy + BODY_4);
    assert_true(journal_copy_read(&ledger_format, ledger_key, copy, &read, &sequence));
    assert_true(sequence == 12 && read.log_size == 7 && read.pins[0].epoch == 3 && read.pins[0].digest[0] == 9);
    assert_string_equal(read.finding, "entry 4");
    assert_true(read.pins[1].epoch == 0 && read.approvers[11].point[0] == 0);
}

/* Format 8 ends with the number of the log: the root was its key alone. */
static void the_ledger_before_the_persons_of_the_root_is_read(void **state)
{
    enum { BODY_8 = LEDGER_BODY_SIZE - LEDGER_TERMS_SIZE };
    const struct ledger_state written = {.log_number = 4,
                                         .terms = {.policies = 2, .root = 3, .officers = 1, .holder = {[31] = 8}}};
    struct ledger_state read;
    uint8_t copy[LEDGER_COPY_SIZE];
    uint64_t sequence = 0;

    (void)state;
    journal_copy_write(&ledger_format, ledger_key, &written, 12, copy);
    assert_true(journal_copy_read(&ledger_format, ledger_key, copy, &read, &sequence));
    assert_memory_equal(&read.terms, &written.terms, sizeof read.terms);
    copy[4] = 8;
    hmac_sha256((struct bytes){ledger_key, sizeof ledger_key}, (struct bytes){copy, BODY_8}, copy + BODY_8);
    assert_true(journal_copy_read(&ledger_format, ledger_key, copy, &read, &sequence));
    assert_true(read.log_number == 4 && read.terms.root == 0 && read.terms.holder[31] == 0);
}

static struct result fill_in(const void *context, struct ledger_state *state, struct error *err)
{
    (void)context;
    (void)err;
    state->log_size = 9;
    state->log_root[3] = 5;
    state->pins[2].epoch = 4;
    state->unused_below = 3;
    state->approvers[1].expires_ms = 77;
    (void)snprintf(state->finding, sizeof state->finding, "entry 4");
    return SUCCESS;
}

/* Makes a file of format 5 out of a newer one that says nothing more. */
static void age(struct buffer *file)
{
    enum { BODY_5 = LEDGER_BODY_SIZE - LEDGER_TERMS_SIZE - LEDGER_NUMBER_SIZE - LEDGER_WITNESSES_SIZE - LEDGER_ASKED_SIZE };

    assert_int_equal(file->length, 2 * LEDGER_COPY_SIZE);
    for (uint8_t *copy = file->data; copy < file->data + file->length; copy += LEDGER_COPY_SIZE) {
        copy[4] = 5;
        memset(copy + BODY_5, 0, LEDGER_COPY_SIZE - BODY_5);
        hmac_sha256((struct bytes){ledger_key, sizeof ledger_key}, (struct bytes){copy, BODY_5}, copy + BODY_5);
    }
}

/* The digest is that of a file which the ledger wrote before it was kept in a journal. */
static void the_file_has_the_bytes_that_it_had_before_journals(void **state)
{
    static const uint8_t credential[MINTER_ID_SIZE] = {1, 2};
    struct buffer OWNED_BUFFER file = BUFFER(2 * LEDGER_COPY_SIZE);
    uint8_t digest[SHA256_SIZE];
    char path[PATH_MAX], hex[2 * SHA256_SIZE + 1];
    OWNED_FOLDER folder;
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    assert_true(ledger_create(folder.fd, ledger_key, &err).ok);
    struct ledger *ledger = open_ledger(&folder);
    assert_true(ledger_change(ledger, fill_in, NULL, &err).ok);
    assert_true(ledger_count_mint(ledger, MINT_ADMINISTRATION, credential, &err).ok);
    assert_true(ledger_settle(ledger, &err).ok);
    ledger_free(ledger);
    (void)snprintf(path, sizeof path, "%s/" LEDGER_FILE, folder.path);
    assert_true(file_read(path, &file, &err).ok);
    age(&file);
    sha256_of(buffer_bytes(&file), digest);
    text_hex(digest, sizeof digest, hex);
    assert_string_equal(hex, "2a4d65a472b75a45c195f93211de72dfab600b44c87564986f72b3951d0dedd7");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mints_are_never_counted_too_low),
        cmocka_unit_test(tokens_are_limited_by_credential_and_scope),
        cmocka_unit_test(tenants_do_not_use_up_what_others_have),
        cmocka_unit_test(subjects_of_an_issuer_count_for_their_organisations),
        cmocka_unit_test(credentials_do_not_use_up_what_their_organisation_has),
        cmocka_unit_test(organisations_do_not_use_up_what_all_have),
        cmocka_unit_test(a_refused_token_costs_its_organisation_nothing),
        cmocka_unit_test(the_file_has_the_bytes_that_it_had_before_journals),
        cmocka_unit_test(the_ledger_before_documents_is_read),
        cmocka_unit_test(the_ledger_before_the_persons_of_the_root_is_read),
        cmocka_unit_test(a_token_counts_under_its_widest_scope),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
