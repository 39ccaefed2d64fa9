/* The sijil-keyd of a region: which statements it believes, what it opens and when, and what it refuses whatever a gateway says. */
#include "tests/unit/keyd_folder_fixture.h"

#include <stdio.h>
#include <string.h>

#include "audit/format/deletion.h"
#include "base/clock.h"
#include "crypto/dsse.h"
#include "crypto/keyd_region.h"
#include "keyd/answer.h"

#define ORIGIN "x.example/log"
#define REGION "onprem/dc1"

/* A key ring with its ledger, as one process has them. */
struct ring {
    struct folder folder;
    struct keyring *keyring;
    struct ledger *ledger;
};

static void ring_open(struct ring *ring)
{
    struct error err = {0};

    assert_true(keyring_open(ring->folder.fd, bytes_of_text("secret"), &ring->keyring, &err).ok);
    assert_true(ledger_open(ring->folder.fd, keyring_ledger_key(ring->keyring), &ring->ledger, &err).ok);
}

static void ring_close(struct ring *ring)
{
    ledger_free(ring->ledger);
    keyring_free(ring->keyring);
}

static void ring_make(struct ring *ring, const char *region)
{
    struct buffer OWNED_BUFFER origin = BUFFER(256);
    struct keyring_options options = {.passphrase = bytes_of_text("secret"), .cost = {.passes = 1, .memory_kib = 64}};
    struct error err = {0};

    folder_make(&ring->folder);
    assert_true(region_keyd_origin(ORIGIN, region, &origin, &err).ok);
    options.origin = buffer_text(&origin);
    assert_true(keyring_create(ring->folder.fd, &options, ledger_create, &err).ok);
    ring_open(ring);
}

static struct ring main_ring, region_ring;
static struct region_keyd *region;
static const struct region_keyd_options place = {.ring = "kr-1", .geo = "AE", .control = "customer-hsm"};

static struct result open_region(struct error *err)
{
    return region_keyd_new(region_ring.keyring, region_ring.ledger, &place, &region, err);
}

static int set_up(void **state)
{
    struct error err = {0};

    (void)state;
    region = NULL;
    ring_make(&main_ring, NULL);
    ring_make(&region_ring, REGION);
    assert_string_equal(region_keyd_of(region_ring.keyring), REGION);
    assert_null(region_keyd_of(main_ring.keyring));
    assert_false(open_region(&err).ok); /* it does not know the main one yet */
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_true(region_keyd_trust(region_ring.ledger, keyring_document_key(main_ring.keyring), &err).ok);
    assert_true(open_region(&err).ok);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    region_keyd_free(region);
    ring_close(&main_ring);
    ring_close(&region_ring);
    folder_remove(&main_ring.folder);
    folder_remove(&region_ring.folder);
    return 0;
}

/* ---- statements ---- */

static struct result set_main_pin(const void *context, struct ledger_state *state, struct error *err)
{
    (void)err;
    state->pins[0] = *(const struct document_pin *)context;
    return SUCCESS;
}

static void pin(uint64_t epoch, uint8_t digest)
{
    const struct document_pin pinned = {.epoch = epoch, .digest = {digest}};
    struct error err = {0};

    assert_true(ledger_change(main_ring.ledger, set_main_pin, &pinned, &err).ok);
}

/* What the main one says at a time, taken at another one. */
static struct result tell(int64_t said_ms, int64_t taken_ms, struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(KEYD_ENVELOPE_MAX);
    struct document_pin taken;

    assert_true(current_sign(main_ring.keyring, main_ring.ledger, said_ms, &envelope, err).ok);
    return region_keyd_take(region, buffer_bytes(&envelope), taken_ms, &taken, err);
}

static void tell_now(void)
{
    const int64_t now_ms = clock_wall_ms();
    struct error err = {0};

    if (!tell(now_ms, now_ms, &err).ok) fail_msg("%s", err.message);
}

static struct keyd_request key_of(enum keyd_type type, const char *name)
{
    struct keyd_request request = {.type = type};
    struct key_scope *scope = type == KEYD_WRAP ? &request.as.wrap.binding.scope : &request.as.unwrap.binding.scope;

    (void)snprintf(scope->region, sizeof scope->region, "%s", name);
    return request;
}

static bool opens(struct error *err)
{
    const struct keyd_request request = key_of(KEYD_UNWRAP, REGION);

    return region_keyd_check(region, &request, err).ok;
}

static void keys_are_opened_after_a_statement(void **state)
{
    static const enum keyd_type types[] = {KEYD_WRAP, KEYD_UNWRAP, KEYD_REWRAP};
    struct error err = {0};

    (void)state;
    assert_false(opens(&err));
    assert_int_equal(err.kind, ERROR_UNAVAILABLE); /* never "no such blob", and no refusal for ever */
    assert_non_null(strstr(err.message, KEYD_REGION_REFUSED REGION));
    pin(3, 7);
    tell_now();
    for (size_t i = 0; i < COUNT(types); i++) {
        const struct keyd_request own = key_of(types[i], REGION), other = key_of(types[i], "onprem/dc2");
        assert_true(region_keyd_check(region, &own, &err).ok);
        assert_false(region_keyd_check(region, &other, &err).ok);
        assert_int_equal(err.kind, ERROR_DENIED);
    }
}

static void a_statement_counts_for_ten_minutes(void **state)
{
    const int64_t now_ms = clock_wall_ms(), edge_ms = now_ms - now_ms % CURRENT_EVERY_MS; /* what is said at that time says so */
    struct error err = {0};

    (void)state;
    pin(3, 7);
    assert_false(tell(edge_ms, edge_ms + 1000 * KEYD_CURRENT_S, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_false(opens(&err));
    assert_true(tell(edge_ms, edge_ms + 1000 * KEYD_CURRENT_S - 200, &err).ok);
    assert_true(opens(&err));
    const int64_t until_ms = clock_monotonic_ms() + 10000;
    while (opens(&err) && clock_monotonic_ms() < until_ms) (void)usleep(5000);
    assert_false(opens(&err)); /* 200 ms later */
    assert_true(tell(edge_ms + CURRENT_EVERY_MS, edge_ms + CURRENT_EVERY_MS, &err).ok);
    assert_true(opens(&err));
    assert_false(tell(edge_ms + 62000, edge_ms, &err).ok); /* the future */
    assert_true(tell(edge_ms + 60000, edge_ms, &err).ok);
}

/* A statement that was heard before makes nothing younger. */
static void an_older_statement_does_not_lengthen_the_time(void **state)
{
    const int64_t now_ms = clock_wall_ms(), edge_ms = now_ms - now_ms % CURRENT_EVERY_MS;
    struct error err = {0};

    (void)state;
    pin(3, 7);
    assert_true(tell(edge_ms, edge_ms + 1000 * KEYD_CURRENT_S - 200, &err).ok);
    assert_true(tell(edge_ms - CURRENT_EVERY_MS, edge_ms, &err).ok);
    const int64_t until_ms = clock_monotonic_ms() + 10000;
    while (opens(&err) && clock_monotonic_ms() < until_ms) (void)usleep(5000);
    assert_false(opens(&err));
}

static void no_older_set_comes_back(void **state)
{
    struct error err = {0};
    const int64_t now_ms = clock_wall_ms();

    (void)state;
    pin(3, 7), tell_now();
    pin(3, 8);
    assert_false(tell(now_ms, now_ms, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    pin(4, 9), tell_now();
    pin(3, 7);
    assert_false(tell(now_ms, now_ms, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    region_keyd_free(region);
    ring_close(&region_ring); /* as kill -9 would: nothing is written at the end */
    ring_open(&region_ring);
    assert_true(open_region(&err).ok);
    assert_false(opens(&err)); /* what it was told was about its life before */
    assert_false(tell(now_ms, now_ms, &err).ok);
    pin(4, 9), tell_now();
    assert_true(opens(&err));
}

static const struct forged_row {
    const char *name, *type, *origin;
    bool by_main;
} forged_rows[] = {
    {"of another key", KEYD_CURRENT_TYPE, ORIGIN, false},
    {"of another type", KEYD_PLACE_TYPE, ORIGIN, true},
    {"of another registry", KEYD_CURRENT_TYPE, "y.example/log", true},
};

static void forged_statements_are_refused(void **state)
{
    const struct forged_row *row = *state;
    struct keyd_current current = {.epoch = 9, .at_ms = clock_wall_ms()};
    struct buffer OWNED_BUFFER payload = BUFFER(KEYD_ENVELOPE_MAX);
    struct buffer OWNED_BUFFER envelope = BUFFER(KEYD_ENVELOPE_MAX);
    const struct ecdsa_key *signer = keyring_document_key(row->by_main ? main_ring.keyring : region_ring.keyring);
    struct document_pin taken;
    struct ledger_state kept;
    struct error err = {0};

    (void)snprintf(current.origin, sizeof current.origin, "%s", row->origin);
    assert_true(keyd_current_write(&current, &payload, &err).ok);
    assert_true(dsse_write(row->type, buffer_bytes(&payload), &signer, 1, &envelope, &err).ok);
    assert_false(region_keyd_take(region, buffer_bytes(&envelope), current.at_ms, &taken, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    ledger_read(region_ring.ledger, &kept);
    assert_int_equal(kept.pins[0].epoch, 0);
    assert_false(opens(&err));
}

static void statements_are_read_in_one_wording(void **state)
{
    static const char *const bad[] = {
        "", "{}", "[]", "{\"version\":1}",
        "{\"at\":\"2026-11-28T00:00:00.000Z\",\"digest\":\"00\",\"epoch\":1,\"origin\":\"o\",\"version\":1}"};
    struct keyd_current current = {.origin = ORIGIN, .epoch = 7, .digest = {1}, .at_ms = 1000}, again;
    struct keyd_place where = {.region = REGION, .geo = "AE", .origin = ORIGIN, .main_key = "k", .is_current = true}, back;
    struct buffer OWNED_BUFFER text = BUFFER(4096);
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_false(keyd_current_read(bytes_of_text(bad[i]), &again, &err).ok);
        assert_false(keyd_place_read(bytes_of_text(bad[i]), &back, &err).ok);
    }
    assert_true(keyd_current_write(&current, &text, &err).ok);
    assert_true(keyd_current_read(buffer_bytes(&text), &again, &err).ok);
    assert_memory_equal(&again, &current, sizeof current);
    text.data[text.length - 1] = ',';
    assert_true(buffer_add_text(&text, "\"x\":1}", &err).ok);
    assert_false(keyd_current_read(buffer_bytes(&text), &again, &err).ok);
    buffer_clear(&text);
    assert_true(keyd_place_write(&where, &text, &err).ok);
    assert_true(keyd_place_read(buffer_bytes(&text), &back, &err).ok);
    assert_string_equal(back.region, REGION);
    assert_true(back.is_current && back.ring[0] == '\0');
    where.region[0] = '\0';
    buffer_clear(&text);
    assert_true(keyd_place_write(&where, &text, &err).ok);
    assert_false(keyd_place_read(buffer_bytes(&text), &back, &err).ok);
}

/* ---- what it is for ---- */

static const struct type_row {
    const char *name;
    enum keyd_type type;
} type_rows[] = {
#define X(number, type, name) {#name, type},
    KEYD_TYPES(X)
#undef X
};

static void it_does_nothing_else(void **state)
{
    const struct type_row *row = *state;
    const struct keyd_request request = {.type = row->type};
    struct error err = {0};
    const bool is_of_region = row->type == KEYD_PLACE || row->type == KEYD_TAKE_CURRENT;

    pin(3, 7), tell_now();
    assert_int_equal(region_keyd_check(region, &request, &err).ok, is_of_region || row->type == KEYD_VERSIONS_UNUSED);
    if (!is_of_region && row->type != KEYD_VERSIONS_UNUSED) assert_int_equal(err.kind, ERROR_DENIED);
    assert_int_equal(region_keyd_check(NULL, &request, &err).ok, !is_of_region);
}

static void it_says_where_it_is(void **state)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(KEYD_ENVELOPE_MAX);
    const uint8_t nonce[32] = {5};
    struct keyd_place said;
    OWNED(dsse) *dsse = NULL;
    struct error err = {0};

    (void)state;
    pin(3, 7), tell_now();
    assert_true(region_keyd_place(region, nonce, 1000, &envelope, &err).ok);
    assert_true(dsse_read(buffer_bytes(&envelope), KEYD_ENVELOPE_MAX, &dsse, &err).ok);
    assert_true(dsse_check_signer(dsse, keyring_document_key(region_ring.keyring), &err).ok);
    assert_true(keyd_place_read(buffer_bytes(&dsse->payload), &said, &err).ok);
    assert_string_equal(said.region, REGION);
    assert_string_equal(said.origin, ORIGIN);
    assert_string_equal(said.ring, "kr-1");
    assert_string_equal(said.geo, "AE");
    assert_string_equal(said.control, "customer-hsm");
    assert_memory_equal(said.nonce, nonce, sizeof nonce);
    assert_true(said.is_current && said.epoch == 3 && said.digest[0] == 7 && said.key_version == 1);
}

static void names_and_options_have_a_form(void **state)
{
    static const char *const names[] = {"", "dc1", "/dc1", "onprem/", "onprem/DC1", "on/prem/dc1", "onprem/d c"};
    static const struct region_keyd_options long_ring = {.ring =
                                                             "0123456789012345678901234567890123456789012345678901234567890123"};
    struct buffer OWNED_BUFFER text = BUFFER(512);
    struct region_keyd *none = NULL;
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) assert_false(region_keyd_origin(ORIGIN, names[i], &text, &err).ok);
    assert_false(region_keyd_origin(ORIGIN "#region=a/b", NULL, &text, &err).ok);
    assert_false(region_keyd_new(region_ring.keyring, region_ring.ledger, &long_ring, &none, &err).ok);
    assert_false(region_keyd_new(main_ring.keyring, main_ring.ledger, &place, &none, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_true(
        region_keyd_new(main_ring.keyring, main_ring.ledger, &(struct region_keyd_options){.patience_s = 0}, &none, &err).ok);
    assert_null(none);
}

/* ---- as messages ---- */

static void ask(const struct keyd *keyd, const struct keyd_request *request, struct buffer *frame, struct keyd_reply *reply_out)
{
    struct buffer OWNED_BUFFER message = BUFFER(KEYD_MESSAGE_MAX);
    struct error err = {0};

    assert_true(keyd_request_write(&message, request, &err).ok);
    buffer_clear(frame);
    assert_true(keyd_answer(keyd, buffer_bytes(&message), frame, &err).ok);
    assert_true(keyd_reply_read(buffer_bytes(frame), reply_out, &err).ok);
}

static void a_hostile_gateway_gets_no_signature_from_it(void **state)
{
    const struct keyd other = {.keyring = region_ring.keyring, .ledger = region_ring.ledger, .region = region};
    const struct keyd main_one = {.keyring = main_ring.keyring, .ledger = main_ring.ledger};
    struct keyd_request request = {.type = KEYD_CHECKPOINT, .id = 1, .as.checkpoint = {.size = 9}};
    struct buffer OWNED_BUFFER frame = BUFFER(KEYD_MESSAGE_MAX);
    struct buffer OWNED_BUFFER said = BUFFER(KEYD_ENVELOPE_MAX);
    struct keyd_reply reply;
    struct ledger_state kept;
    struct error err = {0};

    (void)state;
    ask(&other, &request, &frame, &reply);
    assert_true(reply.type == KEYD_ERROR && reply.as.error.kind == ERROR_DENIED);
    ledger_read(region_ring.ledger, &kept);
    assert_int_equal(kept.log_size, 0);
    pin(3, 7);
    request = (struct keyd_request){.type = KEYD_CURRENT, .id = 2};
    ask(&other, &request, &frame, &reply); /* it says nothing about sets itself */
    assert_true(reply.type == KEYD_ERROR && reply.as.error.kind == ERROR_DENIED);
    ask(&main_one, &request, &frame, &reply);
    assert_int_equal(reply.type, KEYD_CURRENT);
    assert_true(buffer_add(&said, reply.as.envelope.data, reply.as.envelope.length, &err).ok);
    request = (struct keyd_request){.type = KEYD_TAKE_CURRENT, .id = 3, .as.current = buffer_bytes(&said)};
    ask(&main_one, &request, &frame, &reply);
    assert_true(reply.type == KEYD_ERROR && reply.as.error.kind == ERROR_DENIED);
    ask(&other, &request, &frame, &reply);
    assert_true(reply.type == KEYD_TAKE_CURRENT && reply.as.pin.epoch == 3);
}

/* The main one does not know which versions the other one holds, so it never says that one is destroyed. */
static void a_deletion_elsewhere_is_of_the_first_stage(void **state)
{
    const struct keyd main_one = {.keyring = main_ring.keyring, .ledger = main_ring.ledger};
    struct keyd_request request = {.type = KEYD_CERTIFY_ELSEWHERE, .id = 1};
    struct buffer OWNED_BUFFER frame = BUFFER(KEYD_MESSAGE_MAX);
    struct deletion deletion;
    struct keyd_reply reply;
    OWNED(dsse) *dsse = NULL;
    struct error err = {0};

    (void)state;
    request.as.deletion = (struct keyd_deletion){.scope = {.region = REGION},
                                                 .name = bytes_of_text("acme/models"),
                                                 .digest = bytes_of_text("sha256:00"),
                                                 .key_version = 12};
    ask(&main_one, &request, &frame, &reply);
    assert_int_equal(reply.type, KEYD_CERTIFY_ELSEWHERE);
    assert_true(dsse_read(reply.as.envelope, KEYD_ENVELOPE_MAX, &dsse, &err).ok);
    assert_true(deletion_read(buffer_bytes(&dsse->payload), &deletion, &err).ok);
    assert_true(deletion.stage == 1 && deletion.key_version == 12);
    request.type = KEYD_CERTIFY_DELETION;
    ask(&main_one, &request, &frame, &reply);
    assert_int_equal(reply.type, KEYD_ERROR);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    struct CMUnitTest tests[16 + COUNT(forged_rows) + COUNT(type_rows)] = {
        CASE(keys_are_opened_after_a_statement),
        CASE(a_statement_counts_for_ten_minutes),
        CASE(an_older_statement_does_not_lengthen_the_time),
        CASE(no_older_set_comes_back),
        CASE(statements_are_read_in_one_wording),
        CASE(it_says_where_it_is),
        CASE(names_and_options_have_a_form),
        CASE(a_hostile_gateway_gets_no_signature_from_it),
        CASE(a_deletion_elsewhere_is_of_the_first_stage),
    };
    size_t count = 9;

    for (size_t i = 0; i < COUNT(forged_rows); i++)
        tests[count++] = (struct CMUnitTest){forged_rows[i].name, forged_statements_are_refused, set_up, tear_down,
                                             (void *)(uintptr_t)&forged_rows[i]};
    for (size_t i = 0; i < COUNT(type_rows); i++)
        tests[count++] =
            (struct CMUnitTest){type_rows[i].name, it_does_nothing_else, set_up, tear_down, (void *)(uintptr_t)&type_rows[i]};
    return _cmocka_run_group_tests("keyd_region", tests, count, NULL, NULL) + keyd_region_file_cases();
}
