/* Which regions have a sijil-keyd of their own: the main one knows it from pinned sets, and certifies nothing about the keys of such a region, whatever a gateway asks. */
#include "tests/unit/keyd_folder_fixture.h"

#include <stdio.h>
#include <string.h>

#include "audit/format/deletion.h"
#include "base/json.h"
#include "crypto/dsse.h"
#include "documents/format/set_change.h"

#define ONE   "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
#define OTHER "_____wQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
#define OWN   "onprem/dc1"
#define PLAIN "onprem/dc2"
#define NAMES "{\"" OWN "\":{\"geo\":\"AE\",\"keyd\":\"" ONE "\"},\"" PLAIN "\":{\"geo\":\"AE\"}}"

static struct folder folder;
static struct keyring *keyring;
static struct ledger *ledger;
static struct region_keyds *regions;

static void open_regions(void)
{
    struct error err = {0};

    region_keyds_free(regions);
    regions = NULL;
    if (!region_keyds_open(folder.fd, keyring_ledger_key(keyring), &regions, &err).ok) fail_msg("%s", err.message);
}

static int set_up(void **state)
{
    const struct keyring_options options = {
        .origin = "x.example/log", .passphrase = bytes_of_text("secret"), .cost = {.passes = 1, .memory_kib = 64}};
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    assert_true(keyring_create(folder.fd, &options, ledger_create, &err).ok);
    assert_true(keyring_open(folder.fd, bytes_of_text("secret"), &keyring, &err).ok);
    assert_true(ledger_open(folder.fd, keyring_ledger_key(keyring), &ledger, &err).ok);
    open_regions();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    region_keyds_free(regions);
    regions = NULL;
    ledger_free(ledger);
    keyring_free(keyring);
    folder_remove(&folder);
    return 0;
}

/* ---- sets ---- */

/* The payload of a set with its right digest, or with that of other regions. */
static void compose(unsigned epoch, const char *names, const char *digest_of, struct buffer *payload)
{
    struct digest digest = {.algorithm = DIGEST_SHA256};
    char text[DIGEST_TEXT_SIZE];
    struct error err = {0};
    OWNED_JSON set = json_pack("{s:i, s:o}", "epoch", (int)epoch, "regions", json_loads(digest_of, 0, NULL));

    assert_true(set_digest_of(set, digest.bytes, &err).ok);
    digest_format(&digest, text);
    assert_int_equal(json_object_set_new(set, "digest", json_string(text)), 0);
    assert_int_equal(json_object_set_new(set, "regions", json_loads(names, 0, NULL)), 0);
    assert_true(json_write_canonical(payload, set, &err).ok);
}

static struct result set_pinned(const void *context, struct ledger_state *state, struct error *err)
{
    const struct document *document = context;

    (void)err;
    state->pins[0].epoch = document->version;
    memcpy(state->pins[0].digest, document->digest, sizeof state->pins[0].digest);
    return SUCCESS;
}

enum { NOTED = 1, PINNED = 2 };

static void bring(unsigned epoch, const char *names, unsigned how)
{
    struct buffer OWNED_BUFFER payload = BUFFER(1 << 20);
    OWNED(document) *document = NULL;
    struct error err = {0};

    compose(epoch, names, names, &payload);
    assert_true(document_read_payload(DOCUMENT_POLICY_SET, buffer_bytes(&payload), &document, &err).ok);
    if ((how & NOTED) != 0) assert_true(region_keyds_note(regions, document, &err).ok);
    if ((how & PINNED) != 0) assert_true(ledger_change(ledger, set_pinned, document, &err).ok);
}

static enum error_kind show_as(const char *type, unsigned epoch, const char *names, const char *digest_of)
{
    struct buffer OWNED_BUFFER payload = BUFFER(1 << 20), envelope = BUFFER(2 << 20);
    const struct ecdsa_key *signer = keyring_runner_key(keyring); /* nobody looks at it */
    struct error err = {0};

    compose(epoch, names, digest_of, &payload);
    assert_true(dsse_write(type, buffer_bytes(&payload), &signer, 1, &envelope, &err).ok);
    return region_keyds_show(regions, ledger, buffer_bytes(&envelope), &err).ok ? ERROR_NONE : err.kind;
}

static enum error_kind show(unsigned epoch, const char *names, const char *digest_of)
{
    return show_as(document_kind(DOCUMENT_POLICY_SET)->type, epoch, names, digest_of);
}

static enum error_kind check(const char *region)
{
    struct error err = {0};

    return region_keyds_check(regions, ledger, region, &err).ok ? ERROR_NONE : err.kind;
}

static void is_named(const char *region, const char *thumbprint)
{
    char found[ECDSA_THUMBPRINT_SIZE];

    region_keyds_name(regions, region, found);
    assert_string_equal(found, thumbprint);
}

/* ---- cases ---- */

static void a_region_that_was_named_stays(void **state)
{
    (void)state;
    assert_int_equal(check(OWN), ERROR_NONE); /* no set is in force */
    bring(1, NAMES, NOTED | PINNED);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(check(OWN), ERROR_DENIED);
        assert_int_equal(check(PLAIN), ERROR_NONE);
        is_named(OWN, ONE);
        is_named(PLAIN, "");
        open_regions(); /* as after kill -9 */
    }
    bring(2, "{\"" OWN "\":{\"keyd\":\"" OTHER "\"}}", NOTED | PINNED);
    is_named(OWN, OTHER);
    bring(3, "{\"" OWN "\":{}}", NOTED | PINNED);
    assert_int_equal(check(OWN), ERROR_DENIED);
    is_named(OWN, OTHER);
    bring(4, "{}", NOTED | PINNED);
    open_regions();
    assert_int_equal(check(OWN), ERROR_DENIED);
    assert_int_equal(check(PLAIN), ERROR_NONE);
}

/* The note is durable before the pin, and each may be the last thing before the power fails. */
static void a_pin_that_failed_does_no_harm(void **state)
{
    (void)state;
    bring(1, "{}", NOTED | PINNED);
    bring(2, NAMES, NOTED);
    open_regions();
    assert_int_equal(check(PLAIN), ERROR_NONE); /* the first set is known still */
    assert_int_equal(check(OWN), ERROR_DENIED);
    bring(3, "{}", NOTED);
    assert_int_equal(check(PLAIN), ERROR_CONFLICT);
    assert_int_equal(show(1, "{}", "{}"), ERROR_NONE);
    assert_int_equal(check(PLAIN), ERROR_NONE);
}

/* A set that was pinned by an earlier program, or a lost file. */
static void nothing_is_certified_before_the_set_is_shown(void **state)
{
    (void)state;
    bring(1, NAMES, PINNED);
    assert_int_equal(check(PLAIN), ERROR_CONFLICT);
    is_named(OWN, "");
    assert_int_equal(show(2, NAMES, NAMES), ERROR_DENIED);
    assert_int_equal(show(1, "{}", "{}"), ERROR_DENIED);
    assert_int_equal(show(1, "{}", NAMES), ERROR_DENIED); /* it states the digest of the pinned one */
    assert_int_equal(show_as("application/json", 1, NAMES, NAMES), ERROR_INVALID);
    assert_int_equal(check(PLAIN), ERROR_CONFLICT);
    assert_int_equal(show(1, NAMES, NAMES), ERROR_NONE);
    assert_int_equal(check(PLAIN), ERROR_NONE);
    assert_int_equal(check(OWN), ERROR_DENIED);
    bring(2, NAMES, PINNED); /* an older file was put in its place */
    assert_int_equal(check(PLAIN), ERROR_CONFLICT);
    assert_int_equal(show(2, NAMES, NAMES), ERROR_NONE);
    assert_int_equal(check(PLAIN), ERROR_NONE);
}

static void a_record_that_names_no_key_counts(void **state)
{
    (void)state;
    bring(1, "{\"" OWN "\":{\"keyd\":7}}", NOTED | PINNED);
    assert_int_equal(check(OWN), ERROR_DENIED);
    assert_int_equal(check(PLAIN), ERROR_NONE);
}

static void a_full_file_certifies_nothing_that_it_does_not_know(void **state)
{
    struct buffer OWNED_BUFFER names = BUFFER(1 << 20);
    struct error err = {0};

    (void)state;
    for (unsigned set = 0; set < 3; set++) {
        buffer_clear(&names);
        for (unsigned i = 0; i < REGION_KEYDS_MAX / 2; i++)
            assert_true(buffer_format(&names, &err, "%s\"p/r%u\":{\"keyd\":\"" ONE "\"}", i == 0 ? "{" : ",",
                                      set * REGION_KEYDS_MAX / 2 + i)
                            .ok);
        assert_true(buffer_add_text(&names, "}", &err).ok);
        assert_int_equal(check(PLAIN), ERROR_NONE);
        bring(set + 1, buffer_text(&names), NOTED | PINNED);
    }
    for (int again = 0; again < 2; again++) {
        assert_int_equal(check(PLAIN), ERROR_DENIED);
        is_named("p/r0", ONE);
        is_named("p/r1030", "");
        open_regions();
    }
}

/* ---- as messages ---- */

static void certify(enum keyd_type type, const char *region, struct keyd_reply *reply_out, struct deletion *deletion_out)
{
    const struct keyd keyd = {.keyring = keyring, .ledger = ledger, .regions = regions};
    struct buffer OWNED_BUFFER message = BUFFER(KEYD_MESSAGE_MAX), frame = BUFFER(KEYD_MESSAGE_MAX);
    struct keyd_request request = {.type = type, .id = 1};
    OWNED(dsse) *dsse = NULL;
    struct error err = {0};

    request.as.deletion =
        (struct keyd_deletion){.name = bytes_of_text("acme/models"), .digest = bytes_of_text("sha256:00"), .key_version = 1};
    (void)snprintf(request.as.deletion.scope.region, sizeof request.as.deletion.scope.region, "%s", region);
    assert_true(keyd_request_write(&message, &request, &err).ok);
    assert_true(keyd_answer(&keyd, buffer_bytes(&message), &frame, &err).ok);
    assert_true(keyd_reply_read(buffer_bytes(&frame), reply_out, &err).ok);
    if (reply_out->type == KEYD_ERROR) return;
    assert_true(dsse_read(reply_out->as.envelope, KEYD_ENVELOPE_MAX, &dsse, &err).ok);
    assert_true(deletion_read(buffer_bytes(&dsse->payload), deletion_out, &err).ok);
}

static void a_certificate_names_who_held_the_key(void **state)
{
    struct deletion deletion;
    struct keyd_reply reply;

    (void)state;
    bring(1, NAMES, NOTED | PINNED);
    certify(KEYD_CERTIFY_DELETION, OWN, &reply, &deletion);
    assert_true(reply.type == KEYD_ERROR && reply.as.error.kind == ERROR_DENIED);
    certify(KEYD_CERTIFY_ELSEWHERE, OWN, &reply, &deletion);
    assert_int_equal(deletion.stage, 1);
    assert_string_equal(deletion.keyd, ONE);
    certify(KEYD_CERTIFY_DELETION, PLAIN, &reply, &deletion);
    assert_string_equal(deletion.keyd, "");
    assert_string_equal(deletion.region, PLAIN);
    certify(KEYD_CERTIFY_ELSEWHERE, PLAIN, &reply, &deletion);
    assert_string_equal(deletion.keyd, "");
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int keyd_region_file_cases(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_region_that_was_named_stays),
        CASE(a_pin_that_failed_does_no_harm),
        CASE(nothing_is_certified_before_the_set_is_shown),
        CASE(a_record_that_names_no_key_counts),
        CASE(a_full_file_certifies_nothing_that_it_does_not_know),
        CASE(a_certificate_names_who_held_the_key),
    };

    return cmocka_run_group_tests_name("regions with a sijil-keyd", tests, NULL, NULL);
}
