/* Policy sets and other signed documents that the real sijil-keyd pins, and those that it refuses. */
#include "tests/integration/keyd_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "audit/format/leaf.h"
#include "audit/format/policy_load.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/dsse.h"
#include "crypto/keyd_protocol.h"
#include "documents/format/signing_key.h"

#define POLICY_TYPE         "application/vnd.sijil.policy-set.v1+json"
#define A64                 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B64                 "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define SET(letters, epoch) "{\"digest\":\"sha256:" letters "\",\"epoch\":" epoch "}"

/* ---- a log in memory: keyd signs each entry that is added ---- */

static struct memory_log {
    struct merkle_source source;
    uint64_t size;
    struct merkle_hash leaves[64]; /* more than a case adds */
} the_log;

static struct result node(struct merkle_source *source, unsigned level, uint64_t index, struct merkle_hash *hash_out,
                          struct error *err)
{
    struct merkle_hash left, right;

    if (level == 0) {
        *hash_out = the_log.leaves[index];
        return SUCCESS;
    }
    TRY(node(source, level - 1, 2 * index, &left, err));
    TRY(node(source, level - 1, 2 * index + 1, &right, err));
    merkle_node_hash(&left, &right, hash_out);
    return SUCCESS;
}

static void copy_proof(const struct merkle_proof *proof, uint8_t hashes[][32])
{
    for (size_t i = 0; i < proof->count; i++) memcpy(hashes[i], proof->hashes[i].bytes, 32);
}

/* The number of the new entry. */
static uint64_t add_entry(struct bytes leaf, bool is_signed)
{
    struct checkpoint_request request = {.old_size = identify().log_size, .now_s = time(NULL)};
    struct buffer OWNED_BUFFER note = BUFFER(KEYD_NOTE_MAX);
    struct merkle_proof proof = {0};
    struct merkle_hash root;
    struct error err = {0};

    merkle_leaf_hash(leaf, &the_log.leaves[the_log.size++]);
    request.size = the_log.size;
    if (!is_signed) return the_log.size - 1;
    assert_true(merkle_root_at(&the_log.source, the_log.size, &root, &err).ok);
    memcpy(request.root, root.bytes, sizeof request.root);
    if (request.old_size > 0)
        assert_true(merkle_prove_consistency(&the_log.source, request.old_size, request.size, &proof, &err).ok);
    request.proof_count = proof.count;
    copy_proof(&proof, request.proof);
    if (!keyd_sign_checkpoint(client, &request, &note, &err).ok) fail_msg("%s", err.message);
    return the_log.size - 1;
}

static int begin(void **state)
{
    the_log = (struct memory_log){.source = {.node = node}};
    return start(state);
}

/* ---- the events of a gateway, and those of a liar ---- */

struct telling {
    const char *action, *outcome, *detail; /* detail NULL: that of this set's event */
    size_t targets;
};
static const struct telling truth = {"policy.load", "allowed", NULL, 1};

static void write_event(const struct telling *telling, struct bytes envelope, const char *payload, struct buffer *leaf_text)
{
    static struct leaf leaf;
    struct error err = {0};
    OWNED_JSON set = NULL;
    int64_t epoch = 0;
    uint8_t digest[32] = {0};
    char detail[POLICY_LOAD_DETAIL_SIZE];

    leaf = (struct leaf){.version = LEAF_VERSION,
                         .sequence = the_log.size,
                         .time_ms = 1,
                         .source = {"gw1", 1, the_log.size + 1},
                         .class_uid = 600301,
                         .actor = "system",
                         .target_count = telling->targets};
    assert_true(json_read(bytes_of_text(payload), 4 << 20, &set, &err).ok);
    const char *text = json_text_of(set, "digest");
    (void)json_integer_of(set, "epoch", &epoch);
    if (text != NULL) (void)text_from_hex(bytes_of_text(text + 7), digest, sizeof digest);
    policy_load_detail(envelope, (uint64_t)epoch, digest, detail);
    for (size_t i = 0; i < telling->targets; i++) {
        (void)snprintf(leaf.targets[i].action, sizeof leaf.targets[i].action, "%s", telling->action);
        (void)snprintf(leaf.targets[i].resource, sizeof leaf.targets[i].resource, "#%s",
                       telling->detail == NULL ? detail : telling->detail);
    }
    (void)snprintf(leaf.outcome, sizeof leaf.outcome, "%s", telling->outcome);
    leaf_fill_keys(&leaf);
    for (size_t i = 0; i < leaf.key_count; i++) leaf.keys[i].ordinal = 1;
    if (!leaf_write(&leaf, leaf_text, &err).ok) fail_msg("%s", err.message);
}

static struct document_pin_request prove(struct bytes envelope, struct bytes leaf, uint64_t sequence)
{
    struct document_pin_request request = {
        .envelope_count = 1, .envelopes = {envelope}, .leaf = leaf, .sequence = sequence, .size = identify().log_size};
    struct merkle_proof proof = {0};
    struct error err = {0};

    if (sequence < request.size) assert_true(merkle_prove_inclusion(&the_log.source, sequence, request.size, &proof, &err).ok);
    request.proof_count = proof.count;
    copy_proof(&proof, request.proof);
    return request;
}

static enum error_kind ask(const struct document_pin_request *request)
{
    struct document_pin pinned;
    struct error err = {0};

    return keyd_pin_policy(client, request, &pinned, &err).ok ? ERROR_NONE : err.kind;
}

static void seal(const struct ecdsa_key *signer, const char *type, const char *payload, struct buffer *envelope)
{
    struct error err = {0};

    assert_true(dsse_write(type, bytes_of_text(payload), &signer, 1, envelope, &err).ok);
}

/* With a separate event with these values. */
static enum error_kind pin_told(const struct ecdsa_key *signer, const char *type, const char *payload,
                                const struct telling *telling)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(2 << 20), leaf = BUFFER(LEAF_MAX);

    seal(signer, type, payload, &envelope);
    write_event(telling, buffer_bytes(&envelope), payload, &leaf);
    const uint64_t sequence = add_entry(buffer_bytes(&leaf), true);
    const struct document_pin_request request = prove(buffer_bytes(&envelope), buffer_bytes(&leaf), sequence);
    return ask(&request);
}

static enum error_kind pin(const struct ecdsa_key *signer, const char *type, const char *payload)
{
    return pin_told(signer, type, payload, &truth);
}

static struct ecdsa_key *approve(void)
{
    struct ecdsa_key *approver = NULL;
    uint8_t point[65];
    struct error err = {0};

    assert_true(ecdsa_key_new(&approver, &err).ok);
    ecdsa_key_public(approver, point);
    assert_true(keyd_pin_approver(client, point, &err).ok);
    return approver;
}

static const struct telling_row {
    const char *name;
    struct telling telling;
} telling_rows[] = {
    {"a load that was denied", {"policy.load", "denied", NULL, 1}},
    {"a load that failed", {"policy.load", "failed", NULL, 1}},
    {"another action", {"policy.read", "allowed", NULL, 1}},
    {"the envelope alone, as of a load without a change", {"policy.load", "allowed", "sha256:" A64, 1}},
    {"another set", {"policy.load", "allowed", "sha256:" A64 " 1 sha256:" A64, 1}},
    {"two targets", {"policy.load", "allowed", NULL, 2}},
};

/* A set that the approver signed and nobody loaded came into force with the next look at the database. */
static void a_set_needs_the_event_of_its_loading(void **state)
{
    OWNED(ecdsa_key) *approver = approve();

    (void)state;
    for (size_t i = 0; i < COUNT(telling_rows); i++)
        if (pin_told(approver, POLICY_TYPE, SET(A64, "1"), &telling_rows[i].telling) != ERROR_NOT_FOUND)
            fail_msg("%s", telling_rows[i].name);
    assert_int_equal(identify().policy_epoch, 0);
    assert_int_equal(pin(approver, POLICY_TYPE, SET(A64, "1")), ERROR_NONE);
}

/* The event is right, but the signed log does not have it, or has it at another place. */
static void the_event_must_stand_in_the_log_that_was_signed(void **state)
{
    OWNED(ecdsa_key) *approver = approve();
    struct buffer OWNED_BUFFER envelope = BUFFER(4096), again = BUFFER(4096), leaf = BUFFER(LEAF_MAX);

    (void)state;
    (void)add_entry(bytes_of_text("something else"), true);
    seal(approver, POLICY_TYPE, SET(A64, "1"), &envelope);
    seal(approver, POLICY_TYPE, SET(A64, "1"), &again); /* the same set under another signature */
    write_event(&truth, buffer_bytes(&envelope), SET(A64, "1"), &leaf);
    const uint64_t sequence = add_entry(buffer_bytes(&leaf), false);

    struct document_pin_request request = prove(buffer_bytes(&envelope), buffer_bytes(&leaf), sequence);
    assert_int_equal(ask(&request), ERROR_NOT_FOUND); /* not signed yet */
    request.size = the_log.size;
    assert_int_equal(ask(&request), ERROR_CONFLICT);
    (void)add_entry(bytes_of_text("one more"), true);
    request = prove(buffer_bytes(&envelope), buffer_bytes(&leaf), sequence);
    request.proof[0][0] ^= 1;
    assert_int_equal(ask(&request), ERROR_NOT_FOUND);
    request.proof[0][0] ^= 1;
    request.sequence = 0;
    assert_int_equal(ask(&request), ERROR_NOT_FOUND);
    request.sequence = sequence;
    request.envelopes[0] = buffer_bytes(&again);
    assert_int_equal(ask(&request), ERROR_NOT_FOUND);
    request.envelopes[0] = buffer_bytes(&envelope);
    request.leaf = bytes_of_text("{}");
    assert_int_equal(ask(&request), ERROR_INVALID);
    request.leaf = buffer_bytes(&leaf);
    assert_int_equal(identify().policy_epoch, 0);
    assert_int_equal(ask(&request), ERROR_NONE);
    assert_int_equal(ask(&request), ERROR_NONE); /* the same again */
    assert_int_equal(identify().policy_epoch, 1);
}

static void older_policy_sets_never_come_back(void **state)
{
    OWNED(ecdsa_key) *approver = NULL;
    OWNED(ecdsa_key) *other = NULL;
    uint8_t point[65], other_point[65];
    struct error err = {0};

    (void)state;
    assert_true(ecdsa_key_new(&approver, &err).ok && ecdsa_key_new(&other, &err).ok);
    ecdsa_key_public(approver, point);
    ecdsa_key_public(other, other_point);
    assert_int_equal(pin(approver, POLICY_TYPE, SET(A64, "5")), ERROR_DENIED);
    memset(other_point + 1, 0, 64);
    assert_false(keyd_pin_approver(client, other_point, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_true(keyd_pin_approver(client, point, &err).ok);
    assert_true(keyd_pin_approver(client, point, &err).ok);
    ecdsa_key_public(other, other_point);
    assert_false(keyd_pin_approver(client, other_point, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);

    assert_int_equal(pin(approver, POLICY_TYPE, SET(A64, "5")), ERROR_NONE);
    assert_int_equal(pin(approver, POLICY_TYPE, SET(A64, "5")), ERROR_NONE);
    assert_int_equal(pin(approver, POLICY_TYPE, SET(B64, "5")), ERROR_DENIED);
    assert_int_equal(pin(approver, POLICY_TYPE, SET(B64, "4")), ERROR_DENIED);
    assert_int_equal(pin(other, POLICY_TYPE, SET(B64, "6")), ERROR_DENIED);
    assert_int_equal(pin(approver, "text/plain", SET(B64, "6")), ERROR_INVALID);
    assert_int_equal(pin(approver, POLICY_TYPE, "{\"epoch\":6,\"digest\":\"sha256:" B64 "\"}"), ERROR_INVALID);
    assert_int_equal(pin(approver, POLICY_TYPE, SET(B64, "0")), ERROR_INVALID);
    assert_int_equal(pin(approver, POLICY_TYPE, "{\"epoch\":6}"), ERROR_INVALID);
    (void)keyd_daemon_end(&process, SIGKILL);
    keyd_daemon_start(&process, NULL);
    assert_int_equal(pin(approver, POLICY_TYPE, SET(B64, "4")), ERROR_DENIED);
    assert_int_equal(pin(approver, POLICY_TYPE, SET(B64, "6")), ERROR_NONE);
    assert_int_equal(identify().policy_epoch, 6);
    assert_memory_equal(identify().approver_root, point, 65);
}

static void large_policy_sets_fit(void **state)
{
    OWNED(ecdsa_key) *approver = approve();
    struct buffer OWNED_BUFFER payload = BUFFER(2 << 20);
    uint8_t *place = NULL;
    struct error err = {0};

    (void)state;
    assert_true(buffer_add_text(&payload, "{\"digest\":\"sha256:" A64 "\",\"epoch\":1,\"x\":\"", &err).ok);
    const size_t room = (1 << 20) - 2 - payload.length; /* the largest set that a gateway reads */
    assert_true(buffer_reserve(&payload, room, &place, &err).ok);
    memset(place, 'x', room);
    payload.length += room;
    assert_true(buffer_add_text(&payload, "\"}", &err).ok);
    assert_int_equal(pin(approver, POLICY_TYPE, buffer_text(&payload)), ERROR_NONE);
    payload.length -= 2;
    assert_true(buffer_add_text(&payload, "x\"}", &err).ok);
    assert_int_equal(pin(approver, POLICY_TYPE, buffer_text(&payload)), ERROR_LIMIT);
    assert_int_equal(identify().policy_epoch, 1);
}

/* ---- documents of other kinds ---- */

/* An enrolment or a withdrawal, signed by these keys, with this event. */
struct enrolment {
    const struct ecdsa_key *key, *signers[2];
    enum signing_purpose purpose;
    const char *principal, *withdrawn, *action, *scope;
};

static void compose_enrolment(const struct enrolment *enrolment, struct buffer *payload)
{
    struct signing_key key = {.purpose = enrolment->purpose};
    const int64_t now_ms = (int64_t)time(NULL) * 1000;
    char name[ECDSA_THUMBPRINT_SIZE];
    struct error err = {0};

    ecdsa_key_public(enrolment->key, key.point);
    (void)snprintf(key.principal, sizeof key.principal, "%s", enrolment->principal);
    signing_key_name(&key, name);
    OWNED_JSON body = signing_key_body(&key);
    const struct document_parts parts = {.kind = DOCUMENT_SIGNING_KEY,
                                         .scope = enrolment->scope,
                                         .name = name,
                                         .body = body,
                                         .version = enrolment->withdrawn == NULL ? 1 : 2,
                                         .withdrawn = enrolment->withdrawn,
                                         .effective_ms = now_ms - 1000,
                                         .expires_ms = now_ms + 86400000};
    if (!document_compose(&parts, payload, &err).ok) fail_msg("%s", err.message);
}

static uint64_t add_event(const struct document *document, const char *action, struct buffer *leaf_text)
{
    static struct leaf leaf;
    char detail[DOCUMENT_DETAIL_SIZE];
    struct error err = {0};

    leaf = (struct leaf){.version = 1,
                         .sequence = the_log.size,
                         .time_ms = 1,
                         .source = {"gw1", 1, the_log.size + 1},
                         .class_uid = 600301,
                         .actor = "system",
                         .target_count = 1,
                         .outcome = "allowed"};
    document_detail(document, detail);
    (void)snprintf(leaf.targets[0].action, sizeof leaf.targets[0].action, "%s", action);
    (void)snprintf(leaf.targets[0].resource, sizeof leaf.targets[0].resource, "%s#%s", document->scope, detail);
    leaf_fill_keys(&leaf);
    for (size_t i = 0; i < leaf.key_count; i++) leaf.keys[i].ordinal = 1;
    if (!leaf_write(&leaf, leaf_text, &err).ok) fail_msg("%s", err.message);
    return add_entry(buffer_bytes(leaf_text), true);
}

static enum error_kind enrol(const struct enrolment *enrolment)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192), first = BUFFER(16384), second = BUFFER(16384), leaf = BUFFER(LEAF_MAX);
    struct buffer *const envelopes[] = {&first, &second};
    OWNED(document) *document = NULL;
    struct bytes views[2];
    struct document_pin pinned;
    struct error err = {0};
    size_t count = 0;

    compose_enrolment(enrolment, &payload);
    for (size_t i = 0; i < 2 && enrolment->signers[i] != NULL; i++) {
        assert_true(document_sign(DOCUMENT_SIGNING_KEY, buffer_bytes(&payload), enrolment->signers[i], envelopes[i], &err).ok);
        views[count++] = buffer_bytes(envelopes[i]);
    }
    if (!document_read(views, count, &document, &err).ok) fail_msg("%s", err.message);
    const uint64_t sequence = add_event(document, enrolment->action, &leaf);
    struct document_pin_request request = prove(views[0], buffer_bytes(&leaf), sequence);
    request.envelope_count = count;
    request.envelopes[1] = views[1];
    if (!keyd_pin_document(client, &request, &pinned, &err).ok) return err.kind;
    assert_int_equal(pinned.epoch, sequence);
    return ERROR_NONE;
}

static struct keyd_documents ask_documents(void)
{
    struct keyd_documents documents;
    struct error err = {0};

    if (!keyd_ask_documents(client, &documents, &err).ok) fail_msg("%s", err.message);
    return documents;
}

/* keyd itself counts the signatures, without trust in gateway and database, and keeps the result over a kill. */
static void keyd_counts_signatures(void **state)
{
    OWNED(ecdsa_key) *root = approve();
    OWNED(ecdsa_key) *officer = NULL;
    OWNED(ecdsa_key) *holder = NULL;
    struct error err = {0};

    (void)state;
    assert_true(ecdsa_key_new(&officer, &err).ok && ecdsa_key_new(&holder, &err).ok);
    const struct enrolment by_officer = {holder, {holder, officer}, SIGNING_SIGN, "robot:1", NULL, "key.approve", "acme"};
    const struct enrolment alone = {holder, {holder, NULL}, SIGNING_SIGN, "robot:1", NULL, "key.approve", "acme"};
    const struct enrolment unheld = {holder, {root, officer}, SIGNING_SIGN, "robot:1", NULL, "key.approve", "acme"};
    const struct enrolment of_officer = {officer, {officer, root}, SIGNING_APPROVE, "robot:2", NULL, "key.approve", ""};
    const struct enrolment own = {holder, {holder, officer}, SIGNING_SIGN, "robot:2", NULL, "key.approve", "acme"};
    const struct enrolment told_otherwise = {holder, {holder, officer}, SIGNING_SIGN, "robot:1", NULL, "key.revoke", "acme"};
    const struct enrolment officer_out = {officer, {root, NULL}, SIGNING_APPROVE, "robot:2", "left", "key.revoke", ""};
    const struct enrolment out_as_signer = {officer, {officer, NULL}, SIGNING_SIGN, "robot:2", "left", "key.revoke", ""};
    const struct enrolment other_owner = {holder, {holder, officer}, SIGNING_SIGN, "robot:3", NULL, "key.approve", "globex"};
    const struct enrolment other_scope = {holder, {holder, officer}, SIGNING_SIGN, "robot:1", NULL, "key.approve", "globex"};
    const struct enrolment lost = {holder, {holder, NULL}, SIGNING_SIGN, "robot:1", "lost", "key.revoke", "globex"};

    assert_int_equal(enrol(&by_officer), ERROR_DENIED); /* nobody has enrolled the officer yet */
    assert_int_equal(enrol(&alone), ERROR_DENIED);
    assert_int_equal(enrol(&of_officer), ERROR_NONE);
    assert_int_equal(enrol(&unheld), ERROR_DENIED);
    assert_int_equal(enrol(&own), ERROR_DENIED);
    assert_int_equal(enrol(&told_otherwise), ERROR_NOT_FOUND);
    assert_int_equal(enrol(&by_officer), ERROR_NONE);
    const struct document_pin before = ask_documents().pins[1];
    (void)keyd_daemon_end(&process, SIGKILL);
    keyd_daemon_start(&process, NULL);
    assert_memory_equal(ask_documents().pins[1].digest, before.digest, sizeof before.digest);
    assert_int_equal(enrol(&other_owner), ERROR_DENIED); /* the first owner keeps the key, over a kill */
    assert_int_equal(enrol(&other_scope), ERROR_NONE);
    assert_int_equal(enrol(&lost), ERROR_NONE);
    (void)keyd_daemon_end(&process, SIGKILL);
    keyd_daemon_start(&process, NULL);
    assert_int_equal(enrol(&by_officer), ERROR_DENIED);     /* withdrawn in another scope */
    assert_int_equal(enrol(&out_as_signer), ERROR_INVALID); /* it would leave the officer an approver */
    assert_int_equal(enrol(&officer_out), ERROR_NONE);
    assert_int_equal(enrol(&by_officer), ERROR_DENIED); /* revoked */
    assert_int_equal(enrol(&of_officer), ERROR_DENIED); /* its old enrolment does not bring it back */
    assert_int_equal(identify().policy_epoch, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_set_needs_the_event_of_its_loading, begin, stop),
        cmocka_unit_test_setup_teardown(the_event_must_stand_in_the_log_that_was_signed, begin, stop),
        cmocka_unit_test_setup_teardown(older_policy_sets_never_come_back, begin, stop),
        cmocka_unit_test_setup_teardown(large_policy_sets_fit, begin, stop),
        cmocka_unit_test_setup_teardown(keyd_counts_signatures, begin, stop),
    };

    return cmocka_run_group_tests_name("policy sets", tests, NULL, NULL);
}
