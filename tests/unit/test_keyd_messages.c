/* The messages of sijil-keyd: each type is written and read; a cut or longer one, one without room, and one with a bad field are refused. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crypto/keyd_protocol.h"

static const uint8_t bytes_32[32] = {1, 2, 3};
static char long_text[KEYD_NAME_MAX + 2];

static struct key_binding binding(void)
{
    return (struct key_binding){.scope = {.region = "azure/uaenorth"}};
}

static struct wrapped_key wrapped(void)
{
    return (struct wrapped_key){.version = 3, .length = 80, .bytes = {9}};
}

static void fill_token(enum keyd_type type, struct keyd_token *token)
{
    if (type == KEYD_BOUND_TOKEN) token->key = token->acr = bytes_of_text("x"), token->auth_time_s = 9;
    token->issuer = bytes_of_text("https://registry.example");
    token->audience = bytes_of_text("registry.example");
    token->subject = bytes_of_text("robot:1");
    token->source = bytes_of_text("credential");
    token->confirmation = bytes_of_text("x5t");
    token->request = bytes_of_text("5f0c8f0e-93a1-4c1a-8a4e-0d8f6d1f2b30");
    token->organisation = (struct uuid){{4, 2}};
    token->lifetime_s = 900, token->catalog = true;
    token->access[token->access_count++] = (struct keyd_access){.name = bytes_of_text("acme/m/a"), .pull = true};
    token->access[token->access_count++] = (struct keyd_access){.name = bytes_of_text("acme/m/b"), .push = true, .remove = true};
}

static struct document_chain_request chain(void)
{
    static const uint8_t links[2 * DOCUMENT_LINK_SIZE] = {7};

    return (struct document_chain_request){.envelope_count = 2,
                                           .envelopes = {bytes_of_text("{}"), bytes_of_text("[]")},
                                           .sequence = 3,
                                           .later = {links, sizeof links}};
}

static struct keyd_run run(void)
{
    return (struct keyd_run){.bundle = bytes_of_text("{}"),
                             .jurisdiction_count = 2,
                             .jurisdictions = {bytes_of_text("AE"), bytes_of_text("DIFC")},
                             .approvals = 1,
                             .attempts = 3,
                             .key = bytes_of_text("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
                             .attempt = 1};
}

static struct keyd_run_request by_token(void)
{
    return (struct keyd_run_request){.token = bytes_of_text("a.b.c"),
                                     .issuer = bytes_of_text("https://registry.example"),
                                     .audience = bytes_of_text("registry.example"),
                                     .subject_issuer = bytes_of_text("sijil:rule"),
                                     .run = {.bytes = {1}},
                                     .project = bytes_of_text("acme/models"),
                                     .spec = bytes_of_text("{}"),
                                     .is_rerun = true,
                                     .rerun_run = {.bytes = {2}},
                                     .rerun_order = {3},
                                     .lifetime_s = 3600};
}

static void fill_of_log(struct keyd_request *request)
{
    const struct bytes policy = bytes_of_text("quorum none"), other = bytes_of_text("{}");

    if (request->type == KEYD_LOG_FORKED) (void)snprintf(request->as.finding, sizeof request->as.finding, "entry 5");
    if (request->type == KEYD_LOG_ROTATE) request->as.log_order = other;
    if (request->type == KEYD_TAKE_CURRENT || request->type == KEYD_SHOW_SET) request->as.current = other;
    if (request->type == KEYD_PIN_WITNESSES) request->as.witness_policy = (struct keyd_witness_policy){policy, other};
    if (request->type == KEYD_RECOVER) request->as.recovery = (struct keyd_recovery){other, policy, 2, {other, policy}};
    if (request->type == KEYD_COSIGNED) request->as.cosigned = (struct keyd_cosigned){policy, other};
}

static struct document_pin_request pin_of(enum keyd_type type)
{
    struct document_pin_request pin = {.sequence = 3, .size = 9};

    pin.envelope_count = type == KEYD_PIN_DOCUMENT || type == KEYD_REPLACE_KEY || type == KEYD_PIN_RESTRICTION ? 2 : 1;
    pin.envelopes[0] = pin.leaf = bytes_of_text("{}"), pin.envelopes[1] = bytes_of_text("[]"), pin.proof_count = 3;
    if (type == KEYD_PIN_SET) pin.base = bytes_of_text("{}");
    if (type == KEYD_PIN_RESTRICTION) pin.base = (struct bytes){(const uint8_t *)long_text, ECDSA_PUBLIC_SIZE};
    return pin;
}

static struct keyd_request request_of(enum keyd_type type)
{
    struct keyd_request request = {.type = type, .id = 7};

    if (type == KEYD_WRAP) {
        request.as.wrap.binding = binding(), request.as.wrap.data_key = (struct bytes){bytes_32, sizeof bytes_32};
    } else if (type == KEYD_UNWRAP || type == KEYD_REWRAP) {
        request.as.unwrap.binding = binding(), request.as.unwrap.wrapped = wrapped();
    } else if (type == KEYD_TOKEN || type == KEYD_BOUND_TOKEN) {
        fill_token(type, &request.as.token);
    } else if (type == KEYD_CHECKPOINT) {
        request.as.checkpoint = (struct checkpoint_request){.old_size = 1, .size = 9, .now_s = 5, .proof_count = 3};
    } else if (type == KEYD_SUBJECT_INDEX) {
        request.as.subject_index.issuer = bytes_of_text("issuer"), request.as.subject_index.subject = bytes_of_text("subject");
    } else if (type == KEYD_SUBJECT_KEY_OPEN || type == KEYD_SUBJECT_REWRAP) {
        request.as.subject_key.wrapped = wrapped();
    } else if (type == KEYD_CERTIFY_DELETION || type == KEYD_CERTIFY_ELSEWHERE) {
        request.as.deletion = (struct keyd_deletion){.scope = {.region = "azure/uaenorth"},
                                                     .name = bytes_of_text("acme/models"),
                                                     .digest = bytes_of_text("sha256:00"),
                                                     .is_stored_again = true};
    } else if (type == KEYD_CERTIFY_ERASURE) {
        request.as.erasure = (struct keyd_erasure){.pseudonym = bytes_of_text("0f0f"), .asked = 3, .done = 9, .payloads = 7};
    } else if (type == KEYD_POLICY_IDS) {
        request.as.policy_ids = (struct keyd_policy_ids){.digest = {7}, .count = 2, .each = {{1}, {2}}};
    } else if (type == KEYD_PIN_POLICY || type == KEYD_PIN_SET || type == KEYD_PIN_DOCUMENT || type == KEYD_REPLACE_KEY ||
               type == KEYD_PIN_RESTRICTION) {
        request.as.pin = pin_of(type);
    } else if (type == KEYD_CERTIFY_RUNNER) {
        request.as.chain = chain();
    } else if (type == KEYD_RUN_ORDER || type == KEYD_RUN_LEASE || type == KEYD_RUN_ADMISSION) {
        request.as.run = run();
    } else if (type == KEYD_RUN_REQUEST) {
        request.as.run_request = by_token();
    } else {
        fill_of_log(&request);
    }
    return request;
}

static struct keyd_reply reply_of(enum keyd_type type)
{
    struct keyd_reply reply = {.type = type, .id = 7};

    if (type == KEYD_IDENTIFY) {
        reply.as.identity = (struct keyd_identity){.origin = "o",
                                                   .log_vkey = "v",
                                                   .token_kid = "k",
                                                   .log_size = 4,
                                                   .version_count = 2,
                                                   .mints = {1, 2, 3, 4, 5, 6},
                                                   .mints_lost = 7,
                                                   .minter_count = 1,
                                                   .minters = {{{8}, 9}}};
    } else if (type == KEYD_WRAP || type == KEYD_REWRAP || type == KEYD_SUBJECT_REWRAP) {
        reply.as.wrapped = wrapped();
    } else if (type == KEYD_UNWRAP) {
        reply.as.data_key = (struct bytes){bytes_32, sizeof bytes_32};
    } else if (type == KEYD_TOKEN || type == KEYD_BOUND_TOKEN) {
        reply.as.token.text = bytes_of_text("a.b.c");
    } else if (type == KEYD_CHECKPOINT || type == KEYD_LAST_CHECKPOINT) {
        reply.as.note = bytes_of_text("note");
    } else if (type == KEYD_SUBJECT_KEY_NEW || type == KEYD_SUBJECT_KEY_OPEN) {
        reply.as.subject_key.key = (struct bytes){bytes_32, sizeof bytes_32};
        reply.as.subject_key.wrapped = wrapped();
    } else if (type == KEYD_CERTIFY_RUNNER) {
        reply.as.certificate = bytes_of_text("der");
    } else if (type == KEYD_WITNESSES) {
        reply.as.witnesses = (struct keyd_witnesses){.is_pinned = true, .is_without = true, .epoch = 3, .log_size = 9};
    } else if (type == KEYD_LOG_KEYS) {
        reply.as.log_keys.keys = reply.as.log_keys.next = bytes_of_text("k"), reply.as.log_keys.retires_s = 5;
    } else if (type == KEYD_TOKEN_KEYS) {
        reply.as.token_keys = (struct keyd_token_keys){.count = 2, .each = {{4, 1}, {4, 2}}};
    } else if (type == KEYD_NONCES) {
        reply.as.nonces = (struct keyd_nonces){.first = 5, .each = {{1}, {2}, {3}, {4}, {5}}};
    } else if (type == KEYD_KEY_POWER) {
        reply.as.key_power.count = 2;
    } else if (type == KEYD_ERROR) {
        reply.as.error.kind = ERROR_LIMIT;
        reply.as.error.message = bytes_of_text("no");
    }
    return reply;
}

static const struct type_row {
    const char *name;
    enum keyd_type type;
} type_rows[] = {
#define X(number, type, name) {#name, type},
    KEYD_TYPES(X)
#undef X
        {"an error", KEYD_ERROR},
};

static struct result write_either(bool is_reply, enum keyd_type type, struct buffer *frame, struct error *err)
{
    const struct keyd_request request = request_of(type);
    const struct keyd_reply reply = reply_of(type);

    return is_reply ? keyd_reply_write(frame, &reply, err) : keyd_request_write(frame, &request, err);
}

static bool reads(bool is_reply, struct bytes message)
{
    struct keyd_request request = {.id = 99};
    struct keyd_reply reply = {.id = 99};
    struct error err = {0};

    const bool ok = is_reply ? keyd_reply_read(message, &reply, &err).ok : keyd_request_read(message, &request, &err).ok;
    assert_true(ok || (err.kind == ERROR_INVALID && request.id == 99 && reply.id == 99));
    return ok;
}

/* With a header that says so, as a peer would send it. */
static bool reads_cut(bool is_reply, struct bytes message, size_t length)
{
    uint8_t *copy = malloc(length); /* of that size, so that the sanitizer sees one byte too far */

    assert_non_null(copy);
    memcpy(copy, message.data, length < message.length ? length : message.length);
    if (length > message.length) copy[message.length] = 0;
    store_u32(copy, (uint32_t)(length - 4));
    const bool ok = reads(is_reply, (struct bytes){copy, length});
    free(copy);
    return ok;
}

static void check_message(bool is_reply, enum keyd_type type)
{
    struct buffer OWNED_BUFFER whole = BUFFER(KEYD_MESSAGE_LARGE);
    struct error err = {0};

    assert_true(write_either(is_reply, type, &whole, &err).ok);
    const struct bytes message = buffer_bytes(&whole);
    assert_true(reads(is_reply, message));
    for (size_t room = 1; room < message.length; room++) {
        struct buffer OWNED_BUFFER narrow = BUFFER(room);

        err.kind = ERROR_NONE;
        assert_false(write_either(is_reply, type, &narrow, &err).ok);
        assert_int_equal(err.kind, ERROR_LIMIT);
        assert_false(reads(is_reply, (struct bytes){message.data, room}));
        if (room >= KEYD_HEADER_SIZE) assert_false(reads_cut(is_reply, message, room));
    }
    assert_false(reads(is_reply, (struct bytes){message.data, 0}));
    assert_false(reads_cut(is_reply, message, message.length + 1));
    whole.data[4] ^= 1; /* the version */
    assert_false(reads(is_reply, message));
}

static void messages_travel(void **state)
{
    const struct type_row *row = *state;

    check_message(true, row->type);
    if (row->type != KEYD_ERROR) check_message(false, row->type);
}

/* Requests that our own encoder refuses, each with its message. */
static void spoil_region(struct keyd_request *request)
{
    request->as.wrap.binding.scope.region[0] = '\0';
}
static void spoil_data_key(struct keyd_request *request)
{
    request->as.wrap.data_key.length = 31;
}
static void spoil_wrapped(struct keyd_request *request)
{
    request->as.unwrap.wrapped.length = WRAPPED_KEY_MAX + 1;
}
static void spoil_access(struct keyd_request *request)
{
    request->as.token.access_count = TOKEN_ACCESS_MAX + 1;
}
static void spoil_issuer(struct keyd_request *request)
{
    request->as.token.issuer.length = 0;
}
static void spoil_name(struct keyd_request *request)
{
    request->as.token.access[1].name = (struct bytes){(const uint8_t *)long_text, KEYD_NAME_MAX + 1};
}
static void spoil_proof(struct keyd_request *request)
{
    request->as.checkpoint.proof_count = KEYD_PROOF_MAX + 1;
}
static void spoil_envelope(struct keyd_request *request)
{
    request->as.pin.envelopes[0].length = KEYD_POLICY_MAX + 1;
}
static void spoil_no_envelope(struct keyd_request *request)
{
    request->as.pin.envelope_count = 0;
}
static void spoil_envelopes(struct keyd_request *request)
{
    request->as.pin.envelope_count = DOCUMENT_SIGNATURES_MAX + 1;
}
static void spoil_leaf(struct keyd_request *request)
{
    request->as.pin.leaf.length = KEYD_LEAF_MAX + 1;
}
static void spoil_inclusion(struct keyd_request *request)
{
    request->as.pin.proof_count = KEYD_PROOF_MAX + 1;
}
static void spoil_chain(struct keyd_request *request)
{
    request->as.chain.later.length = (DOCUMENT_LINKS_MAX + 1) * DOCUMENT_LINK_SIZE;
}
static void spoil_link(struct keyd_request *request)
{
    request->as.chain.later.length--;
}
static void spoil_chain_envelopes(struct keyd_request *request)
{
    request->as.chain.envelope_count = 0;
}

static const struct bad_request_row {
    const char *name;
    enum keyd_type type;
    void (*spoil)(struct keyd_request *request);
    enum error_kind kind;
} bad_request_rows[] = {
    {"no region", KEYD_WRAP, spoil_region, ERROR_INVALID},
    {"a short data key", KEYD_WRAP, spoil_data_key, ERROR_INVALID},
    {"a wrapped key that is too long", KEYD_UNWRAP, spoil_wrapped, ERROR_INVALID},
    {"too many repositories", KEYD_TOKEN, spoil_access, ERROR_LIMIT},
    {"no issuer", KEYD_TOKEN, spoil_issuer, ERROR_INVALID},
    {"a long name", KEYD_TOKEN, spoil_name, ERROR_INVALID},
    {"a long proof", KEYD_CHECKPOINT, spoil_proof, ERROR_INVALID},
    {"a large policy set", KEYD_PIN_POLICY, spoil_envelope, ERROR_LIMIT},
    {"a set with a large one before it", KEYD_PIN_SET, spoil_envelope, ERROR_LIMIT},
    {"a policy set without an envelope", KEYD_PIN_POLICY, spoil_no_envelope, ERROR_INVALID},
    {"a document without an envelope", KEYD_PIN_DOCUMENT, spoil_no_envelope, ERROR_INVALID},
    {"a document with too many envelopes", KEYD_PIN_DOCUMENT, spoil_envelopes, ERROR_INVALID},
    {"a document with a large entry", KEYD_PIN_DOCUMENT, spoil_leaf, ERROR_LIMIT},
    {"a long chain", KEYD_CERTIFY_RUNNER, spoil_chain, ERROR_LIMIT},
    {"a cut link", KEYD_CERTIFY_RUNNER, spoil_link, ERROR_LIMIT},
    {"a runner without an envelope", KEYD_CERTIFY_RUNNER, spoil_chain_envelopes, ERROR_INVALID},
    {"a large entry", KEYD_PIN_POLICY, spoil_leaf, ERROR_LIMIT},
    {"a long proof of inclusion", KEYD_PIN_POLICY, spoil_inclusion, ERROR_INVALID},
};

static void bad_requests_are_not_sent(void **state)
{
    const struct bad_request_row *row = *state;
    struct keyd_request request = request_of(row->type);
    struct buffer OWNED_BUFFER frame = BUFFER(KEYD_MESSAGE_LARGE);
    struct error err = {0};

    row->spoil(&request);
    assert_false(keyd_request_write(&frame, &request, &err).ok);
    assert_int_equal(err.kind, row->kind);
}

/* Bytes that no message of ours has; a negative `at` counts from the end. */
static const struct bad_bytes_row {
    const char *name;
    bool is_reply;
    enum keyd_type type;
    long at;
    uint8_t value;
} bad_bytes_rows[] = {
    {"a request of an unknown type", false, KEYD_IDENTIFY, 5, 11},
    {"a request of type 0", false, KEYD_IDENTIFY, 5, 0},
    {"a request that is an error", false, KEYD_IDENTIFY, 5, 255},
    {"a reply of an unknown type", true, KEYD_PIN_APPROVER, 5, 77},
    {"a flag that is 2", false, KEYD_TOKEN, -1, 2},
    {"too many repositories", false, KEYD_TOKEN, 156, TOKEN_ACCESS_MAX + 1},
    {"a long proof", false, KEYD_CHECKPOINT, KEYD_HEADER_SIZE + 8 + 8 + 32 + 8, KEYD_PROOF_MAX + 1},
    {"a NUL in a region", false, KEYD_WRAP, KEYD_HEADER_SIZE + 16 + 16 + 4, 0},
    {"an error of kind 0", true, KEYD_ERROR, KEYD_HEADER_SIZE, 0},
    {"an error of an unknown kind", true, KEYD_ERROR, KEYD_HEADER_SIZE, ERROR_FORKED + 1},
};

static void bad_bytes_are_refused(void **state)
{
    const struct bad_bytes_row *row = *state;
    struct buffer OWNED_BUFFER frame = BUFFER(KEYD_MESSAGE_LARGE);
    struct error err = {0};

    assert_true(write_either(row->is_reply, row->type, &frame, &err).ok);
    const size_t at = row->at < 0 ? frame.length - (size_t)-row->at : (size_t)row->at;
    assert_true(at < frame.length && frame.data[at] != row->value);
    frame.data[at] = row->value;
    assert_false(reads(row->is_reply, buffer_bytes(&frame)));
}

/* Lengths of nothing: an empty text where there must be one, and an empty wrapped key, which is left to keyd. */
static void empty_fields(void **state)
{
    struct keyd_reply reply = reply_of(KEYD_WRAP), again;
    struct buffer OWNED_BUFFER frame = BUFFER(KEYD_MESSAGE_MAX);
    struct error err = {0};

    (void)state;
    reply.as.wrapped.length = 0;
    assert_true(keyd_reply_write(&frame, &reply, &err).ok);
    assert_true(keyd_reply_read(buffer_bytes(&frame), &again, &err).ok);
    assert_int_equal(again.as.wrapped.length, 0);

    reply = reply_of(KEYD_IDENTIFY);
    reply.as.identity.origin[0] = '\0';
    buffer_clear(&frame);
    assert_true(keyd_reply_write(&frame, &reply, &err).ok);
    assert_false(reads(true, buffer_bytes(&frame)));
}

/* Only as many versions as there is room for are read; one more is refused, although the message is complete. */
static void versions_have_a_limit(void **state)
{
    const struct keyd_reply reply = reply_of(KEYD_IDENTIFY);
    struct error err = {0};

    (void)state;
    for (unsigned count = KEYD_VERSIONS_MAX; count <= KEYD_VERSIONS_MAX + 1; count++) {
        struct buffer OWNED_BUFFER frame = BUFFER(KEYD_MESSAGE_MAX);
        assert_true(keyd_reply_write(&frame, &reply, &err).ok);
        frame.length -= 4 * reply.as.identity.version_count;
        frame.data[frame.length - 1] = (uint8_t)count;
        for (unsigned i = 0; i < count; i++) assert_true(buffer_add_u32(&frame, i, &err).ok);
        store_u32(frame.data, (uint32_t)(frame.length - 4));
        assert_int_equal(reads(true, buffer_bytes(&frame)), count == KEYD_VERSIONS_MAX);
    }
}

/* The frame has a limit of its own: a token of keyd's that is longer than a message never leaves. */
static void large_replies_do_not_leave(void **state)
{
    static char text[KEYD_MESSAGE_MAX + 1];
    struct keyd_reply reply = {.type = KEYD_TOKEN, .as.token.text = {(const uint8_t *)text, sizeof text}};
    struct buffer OWNED_BUFFER frame = BUFFER(KEYD_MESSAGE_LARGE);
    struct error err = {0};

    (void)state;
    assert_false(keyd_reply_write(&frame, &reply, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(empty_fields),
        cmocka_unit_test(versions_have_a_limit),
        cmocka_unit_test(large_replies_do_not_leave),
    };

    memset(long_text, 'a', sizeof long_text);
    return RUN_TABLE(type_rows, messages_travel) + RUN_TABLE(bad_request_rows, bad_requests_are_not_sent) +
           RUN_TABLE(bad_bytes_rows, bad_bytes_are_refused) + cmocka_run_group_tests_name("others", others, NULL, NULL);
}
