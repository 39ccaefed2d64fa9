/* Signed documents: their form, the signatures that count, and their order. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "base/json.h"
#include "crypto/digest.h"
#include "documents/format/signing_key.h"

#define NOW_MS  INT64_C(1795000000000)
#define DAY_MS  INT64_C(86400000)
#define HOLDER  "robot:00000000-0000-0000-0000-000000000001"
#define OFFICER "robot:00000000-0000-0000-0000-000000000002"

/* The signers: the root, an approver, the holder of the enrolled key, a stranger. */
enum { ROOT, APPROVER, HOLDER_KEY, STRANGER, KEYS };
static struct ecdsa_key *keys[KEYS];

static void make_keys(void)
{
    struct error err = {0};

    for (size_t i = 0; i < KEYS; i++) assert_true(ecdsa_key_new(&keys[i], &err).ok);
}

static void free_keys(void)
{
    for (size_t i = 0; i < KEYS; i++) ecdsa_key_free(keys[i]);
}

/* ---- what is a document ---- */

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HEAD(kind, scope, name, version)                                                                    \
    "{\"body\":{},\"effective_from\":\"2026-11-23T00:00:00Z\",\"kind\":\"" kind "\",\"name\":\"" name "\"," \
    "\"schema\":\"sijil.document/v1\",\"scope\":\"" scope "\",\"version\":" version "}"
#define HEAD_WITH(more)                                              \
    "{\"body\":{},\"effective_from\":\"2026-11-23T00:00:00Z\"," more \
    "\"schema\":\"sijil.document/v1\",\"scope\":\"\",\"version\":1}"

static const struct payload_row {
    const char *name, *payload;
    enum document_kind kind;
    enum error_kind error;
} payload_rows[] = {
    {"one of the registry", HEAD("signing-key", "", "a", "1"), DOCUMENT_SIGNING_KEY, ERROR_NONE},
    {"one of an organisation", HEAD("signing-key", "acme", "a", "7"), DOCUMENT_SIGNING_KEY, ERROR_NONE},
    {"one of a project", HEAD("signing-key", "acme/models", "a", "1"), DOCUMENT_SIGNING_KEY, ERROR_NONE},
    {"a policy set", "{\"digest\":\"sha256:" A64 "\",\"epoch\":1}", DOCUMENT_POLICY_SET, ERROR_NONE},
    {"a policy set of epoch 0", "{\"digest\":\"sha256:" A64 "\",\"epoch\":0}", DOCUMENT_POLICY_SET, ERROR_INVALID},
    {"a policy set without a digest", "{\"epoch\":1}", DOCUMENT_POLICY_SET, ERROR_INVALID},
    {"a policy set with SHA-512", "{\"digest\":\"sha512:" A64 A64 "\",\"epoch\":1}", DOCUMENT_POLICY_SET, ERROR_INVALID},
    {"another kind", HEAD("policy-set", "", "a", "1"), DOCUMENT_SIGNING_KEY, ERROR_INVALID},
    {"a repository as scope", HEAD("signing-key", "acme/models/a", "a", "1"), DOCUMENT_SIGNING_KEY, ERROR_INVALID},
    {"half a project", HEAD("signing-key", "acme/", "a", "1"), DOCUMENT_SIGNING_KEY, ERROR_INVALID},
    {"a project without organisation", HEAD("signing-key", "/models", "a", "1"), DOCUMENT_SIGNING_KEY, ERROR_INVALID},
    {"a '#' in the scope", HEAD("signing-key", "ac#me", "a", "1"), DOCUMENT_SIGNING_KEY, ERROR_INVALID},
    {"no name", HEAD("signing-key", "", "", "1"), DOCUMENT_SIGNING_KEY, ERROR_INVALID},
    {"a blank in the name", HEAD("signing-key", "", "a b", "1"), DOCUMENT_SIGNING_KEY, ERROR_INVALID},
    {"version 0", HEAD("signing-key", "", "a", "0"), DOCUMENT_SIGNING_KEY, ERROR_INVALID},
    {"a version that is text", HEAD("signing-key", "", "a", "\"1\""), DOCUMENT_SIGNING_KEY, ERROR_INVALID},
    {"a member that is not known", HEAD_WITH("\"kind\":\"signing-key\",\"more\":1,\"name\":\"a\","), DOCUMENT_SIGNING_KEY,
     ERROR_INVALID},
    {"an end before the beginning", HEAD_WITH("\"expires\":\"2026-11-22T00:00:00Z\",\"kind\":\"signing-key\",\"name\":\"a\","),
     DOCUMENT_SIGNING_KEY, ERROR_INVALID},
    {"an end that is no time", HEAD_WITH("\"expires\":\"tomorrow\",\"kind\":\"signing-key\",\"name\":\"a\","),
     DOCUMENT_SIGNING_KEY, ERROR_INVALID},
    {"another order of members", "{\"epoch\":1,\"digest\":\"sha256:" A64 "\"}", DOCUMENT_POLICY_SET, ERROR_INVALID},
    {"no JSON", "x", DOCUMENT_POLICY_SET, ERROR_INVALID},
};

static void reads_payloads(void **state)
{
    const struct payload_row *row = *state;
    OWNED(document) *document = NULL;
    struct error err = {0};

    const bool ok = document_read_payload(row->kind, bytes_of_text(row->payload), &document, &err).ok;
    if (ok != (row->error == ERROR_NONE)) fail_msg("%s", err.message);
    if (!ok) assert_int_equal(err.kind, row->error);
}

static void large_documents_are_refused(void **state)
{
    static char text[8 * 1024 + 1];
    OWNED(document) *document = NULL;
    struct error err = {0};

    (void)state;
    memset(text, 'x', sizeof text);
    assert_false(document_read_payload(DOCUMENT_SIGNING_KEY, (struct bytes){(uint8_t *)text, sizeof text}, &document, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

/* ---- the key of a person ---- */

struct enrolment {
    enum signing_purpose purpose;
    uint64_t version;
    const char *withdrawn, *principal;
    int64_t effective_ms, expires_ms;
};
#define USUAL                                                              \
    {                                                                      \
        SIGNING_SIGN, 1, NULL, HOLDER, NOW_MS - 1000, NOW_MS + 30 * DAY_MS \
    }
static const struct enrolment usual = USUAL;

static const char *scope = ""; /* of the documents that are made */

static struct result compose(const struct enrolment *enrolment, struct buffer *payload, struct error *err)
{
    struct signing_key key = {.purpose = enrolment->purpose};
    char name[ECDSA_THUMBPRINT_SIZE];

    (void)snprintf(key.principal, sizeof key.principal, "%s", enrolment->principal);
    ecdsa_key_public(keys[HOLDER_KEY], key.point);
    signing_key_name(&key, name);
    OWNED_JSON body = signing_key_body(&key);
    if (body == NULL) return failure(err, ERROR_NO_MEMORY, "no memory");
    const struct document_parts parts = {.kind = DOCUMENT_SIGNING_KEY,
                                         .scope = scope,
                                         .name = name,
                                         .version = enrolment->version,
                                         .effective_ms = enrolment->effective_ms,
                                         .expires_ms = enrolment->expires_ms,
                                         .withdrawn = enrolment->withdrawn,
                                         .body = body};
    return document_compose(&parts, payload, err);
}

static struct result sign_all(struct bytes payload, unsigned signers, struct buffer envelopes[KEYS], struct error *err)
{
    for (size_t i = 0; i < KEYS; i++)
        if ((signers & 1U << i) != 0) TRY(document_sign(DOCUMENT_SIGNING_KEY, payload, keys[i], &envelopes[i], err));
    return SUCCESS;
}

static struct result read_all(const struct buffer envelopes[KEYS], struct document **document_out, struct error *err)
{
    struct bytes views[KEYS];
    size_t count = 0;

    for (size_t i = 0; i < KEYS; i++)
        if (envelopes[i].length > 0) views[count++] = buffer_bytes(&envelopes[i]);
    return document_read(views, count, document_out, err);
}

/* Signed by the keys of `signers`, a bit each. */
static struct result make(const struct enrolment *enrolment, unsigned signers, struct document **document_out, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192);
    struct buffer envelopes[KEYS] = {BUFFER(16384), BUFFER(16384), BUFFER(16384), BUFFER(16384)};

    TRY(compose(enrolment, &payload, err));
    const bool is_signed = sign_all(buffer_bytes(&payload), signers, envelopes, err).ok;
    const bool ok = is_signed && read_all(envelopes, document_out, err).ok;
    for (size_t i = 0; i < KEYS; i++) buffer_done(&envelopes[i]);
    return (struct result){.ok = ok};
}

static struct document_trust trust_of(const char *approver)
{
    struct document_trust trust = {.now_ms = NOW_MS};

    ecdsa_key_public(keys[ROOT], trust.root);
    ecdsa_key_public(keys[APPROVER], trust.approvers[3].point);
    sha256_of(bytes_of_text(approver), trust.approvers[3].principal);
    trust.approvers[3].expires_ms = NOW_MS + DAY_MS;
    return trust;
}

enum { BY_ROOT = 1 << ROOT, BY_APPROVER = 1 << APPROVER, BY_HOLDER = 1 << HOLDER_KEY, BY_STRANGER = 1 << STRANGER };

static const struct signer_row {
    const char *name;
    unsigned signers;
    struct enrolment enrolment;
    enum error_kind error;
} signer_rows[] = {
    {"holder and root", BY_HOLDER | BY_ROOT, USUAL, ERROR_NONE},
    {"holder and approver", BY_HOLDER | BY_APPROVER, USUAL, ERROR_NONE},
    {"holder, approver and a stranger", BY_HOLDER | BY_APPROVER | BY_STRANGER, USUAL, ERROR_NONE},
    {"the holder alone", BY_HOLDER, USUAL, ERROR_DENIED},
    {"without the holder", BY_ROOT | BY_APPROVER, USUAL, ERROR_DENIED},
    {"holder and a stranger", BY_HOLDER | BY_STRANGER, USUAL, ERROR_DENIED},
    {"an approver who approves his own key",
     BY_HOLDER | BY_APPROVER,
     {SIGNING_SIGN, 1, NULL, OFFICER, NOW_MS - 1000, NOW_MS + 30 * DAY_MS},
     ERROR_DENIED},
    {"a new approver, by the root", BY_HOLDER | BY_ROOT, {SIGNING_APPROVE, 1, NULL, HOLDER, NOW_MS, NOW_MS + DAY_MS}, ERROR_NONE},
    {"a new approver, by an approver",
     BY_HOLDER | BY_APPROVER,
     {SIGNING_APPROVE, 1, NULL, HOLDER, NOW_MS, NOW_MS + DAY_MS},
     ERROR_DENIED},
    {"of tomorrow", BY_HOLDER | BY_ROOT, {SIGNING_SIGN, 1, NULL, HOLDER, NOW_MS + DAY_MS, NOW_MS + 2 * DAY_MS}, ERROR_DENIED},
    {"of last week", BY_HOLDER | BY_ROOT, {SIGNING_SIGN, 1, NULL, HOLDER, NOW_MS - 8 * DAY_MS, NOW_MS + DAY_MS}, ERROR_DENIED},
    {"that has expired", BY_HOLDER | BY_ROOT, {SIGNING_SIGN, 1, NULL, HOLDER, NOW_MS - DAY_MS, NOW_MS - 1}, ERROR_DENIED},
    {"for ever", BY_HOLDER | BY_ROOT, {SIGNING_SIGN, 1, NULL, HOLDER, NOW_MS, 0}, ERROR_INVALID},
    {"for three years", BY_HOLDER | BY_ROOT, {SIGNING_SIGN, 1, NULL, HOLDER, NOW_MS, NOW_MS + 1096 * DAY_MS}, ERROR_INVALID},
    {"a second enrolment", BY_HOLDER | BY_ROOT, {SIGNING_SIGN, 2, NULL, HOLDER, NOW_MS, NOW_MS + DAY_MS}, ERROR_INVALID},
    {"nobody's", BY_HOLDER | BY_ROOT, {SIGNING_SIGN, 1, NULL, "alice", NOW_MS, NOW_MS + DAY_MS}, ERROR_INVALID},
    {"withdrawn by its holder", BY_HOLDER, {SIGNING_SIGN, 2, "lost", HOLDER, NOW_MS, NOW_MS + DAY_MS}, ERROR_NONE},
    {"withdrawn by an approver", BY_APPROVER, {SIGNING_APPROVE, 2, "left", HOLDER, NOW_MS, NOW_MS + DAY_MS}, ERROR_NONE},
    {"withdrawn by the root", BY_ROOT, {SIGNING_SIGN, 2, "left", HOLDER, NOW_MS, NOW_MS + DAY_MS}, ERROR_NONE},
    {"withdrawn by a stranger", BY_STRANGER, {SIGNING_SIGN, 2, "haha", HOLDER, NOW_MS, NOW_MS + DAY_MS}, ERROR_DENIED},
};

static void counts_signers(void **state)
{
    const struct signer_row *row = *state;
    const struct document_trust trust = trust_of(OFFICER);
    OWNED(document) *document = NULL;
    struct error err = {0};

    if (!make(&row->enrolment, row->signers, &document, &err).ok) fail_msg("%s", err.message);
    const bool ok = document_check(document, &trust, &err).ok;
    if (ok != (row->error == ERROR_NONE)) fail_msg("%s", err.message);
    if (!ok) assert_int_equal(err.kind, row->error);
}

/* The same signatures do not count if the approver is revoked, has expired, or was never pinned. */
static void approvers_end(void **state)
{
    struct document_trust trust = trust_of(OFFICER);
    OWNED(document) *document = NULL;
    struct error err = {0};

    (void)state;
    assert_true(make(&usual, BY_HOLDER | BY_APPROVER, &document, &err).ok);
    assert_true(document_check(document, &trust, &err).ok);
    trust.approvers[3].is_revoked = true;
    assert_false(document_check(document, &trust, &err).ok);
    trust.approvers[3].is_revoked = false;
    trust.approvers[3].expires_ms = NOW_MS;
    assert_false(document_check(document, &trust, &err).ok);
    trust.approvers[3] = (struct document_approver){0};
    assert_false(document_check(document, &trust, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
}

/* The withdrawn key is an approver's, or is not known as one. */
static const struct withdrawal_row {
    const char *name;
    bool is_approver;
    unsigned signers;
    struct enrolment enrolment;
    enum error_kind error;
} withdrawal_rows[] = {
    {"an approver, by itself", true, BY_HOLDER, {SIGNING_APPROVE, 2, "lost", HOLDER, NOW_MS, NOW_MS + DAY_MS}, ERROR_NONE},
    {"an approver, by the root", true, BY_ROOT, {SIGNING_APPROVE, 2, "lost", HOLDER, NOW_MS, NOW_MS + DAY_MS}, ERROR_NONE},
    {"an approver as a key that only signs",
     true,
     BY_HOLDER,
     {SIGNING_SIGN, 2, "lost", HOLDER, NOW_MS, NOW_MS + DAY_MS},
     ERROR_INVALID},
    {"an approver as one of another principal",
     true,
     BY_ROOT,
     {SIGNING_APPROVE, 2, "lost", OFFICER, NOW_MS, NOW_MS + DAY_MS},
     ERROR_INVALID},
    {"an unknown key as an approver", false, BY_HOLDER, {SIGNING_APPROVE, 2, "x", HOLDER, NOW_MS, NOW_MS + DAY_MS}, ERROR_DENIED},
    {"the same, with a stranger",
     false,
     BY_HOLDER | BY_STRANGER,
     {SIGNING_APPROVE, 2, "x", HOLDER, NOW_MS, NOW_MS + DAY_MS},
     ERROR_DENIED},
    {"a key that only signs", false, BY_HOLDER, {SIGNING_SIGN, 2, "lost", HOLDER, NOW_MS, NOW_MS + DAY_MS}, ERROR_NONE},
};

static void withdrawals_fit_their_enrolments(void **state)
{
    const struct withdrawal_row *row = *state;
    struct document_trust trust = trust_of(OFFICER);
    OWNED(document) *document = NULL;
    struct error err = {0};

    trust.approvers[7].expires_ms = NOW_MS + DAY_MS;
    sha256_of(bytes_of_text(HOLDER), trust.approvers[7].principal);
    if (row->is_approver) ecdsa_key_public(keys[HOLDER_KEY], trust.approvers[7].point);
    if (!make(&row->enrolment, row->signers, &document, &err).ok) fail_msg("%s", err.message);
    const bool ok = document_check(document, &trust, &err).ok;
    if (ok != (row->error == ERROR_NONE)) fail_msg("%s", err.message);
    if (!ok) assert_int_equal(err.kind, row->error);
}

static const struct enrolment approver_in = {SIGNING_APPROVE, 1, NULL, HOLDER, NOW_MS, NOW_MS + DAY_MS},
                              approver_out = {SIGNING_APPROVE, 2, "left", HOLDER, NOW_MS, NOW_MS + DAY_MS};

static void approvers_are_of_the_registry(void **state)
{
    const struct document_trust trust = trust_of(OFFICER);
    OWNED(document) *document = NULL;
    struct signing_key key;
    struct error err = {0};

    (void)state;
    scope = "acme";
    const bool is_made = make(&approver_in, BY_HOLDER | BY_ROOT, &document, &err).ok;
    scope = "";
    assert_true(is_made);
    assert_false(document_check(document, &trust, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_false(signing_key_check_holder(document, NOW_MS, &key, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
}

/* Also if it is withdrawn before it was ever seen: a later document is its old enrolment, sent again. */
static void revoked_approvers_do_not_come_back(void **state)
{
    OWNED(document) *in = NULL;
    OWNED(document) *out = NULL;
    struct error err = {0};

    (void)state;
    assert_true(make(&approver_in, BY_HOLDER | BY_ROOT, &in, &err).ok && make(&approver_out, BY_ROOT, &out, &err).ok);
    for (int was_in = 0; was_in < 2; was_in++) {
        struct document_approver approvers[DOCUMENT_APPROVERS_MAX] = {0};
        if (was_in != 0) assert_true(signing_key_note(in, approvers, NOW_MS, &err).ok);
        if (was_in != 0) assert_true(approvers[0].point[0] == 4 && !approvers[0].is_revoked);
        assert_true(signing_key_note(out, approvers, NOW_MS, &err).ok);
        assert_true(approvers[0].is_revoked && approvers[1].point[0] == 0);
        assert_false(signing_key_note(in, approvers, NOW_MS, &err).ok);
        assert_int_equal(err.kind, ERROR_DENIED);
    }
}

static void approvers_have_places(void **state)
{
    struct document_approver approvers[DOCUMENT_APPROVERS_MAX];
    OWNED(document) *in = NULL;
    OWNED(document) *holder = NULL;
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX; i++)
        approvers[i] = (struct document_approver){.point = {4, (uint8_t)i}, .expires_ms = NOW_MS + 1, .is_revoked = i == 5};
    assert_true(make(&approver_in, BY_HOLDER | BY_ROOT, &in, &err).ok && make(&usual, BY_HOLDER | BY_ROOT, &holder, &err).ok);
    assert_false(signing_key_note(in, approvers, NOW_MS, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_true(signing_key_note(holder, approvers, NOW_MS, &err).ok); /* it approves nothing, and needs no place */
    approvers[7].point[0] = 0;
    assert_true(signing_key_note(in, approvers, NOW_MS + 1, &err).ok); /* who has expired stays: a place is empty */
    assert_int_equal(approvers[7].expires_ms, NOW_MS + DAY_MS);
    approvers[7] = approvers[6];
    assert_true(signing_key_note(in, approvers, NOW_MS + 1, &err).ok); /* no place is empty */
    assert_int_equal(approvers[1].point[1], 1);
    assert_int_equal(approvers[0].expires_ms, NOW_MS + DAY_MS);
}

/* ---- one after the other ---- */

static void pins_follow_each_other(void **state)
{
    struct document_pin pin = {0}, first, second, other;
    OWNED(document) *in = NULL;
    OWNED(document) *out = NULL;
    struct error err = {0};

    (void)state;
    assert_true(make(&approver_in, BY_HOLDER | BY_ROOT, &in, &err).ok && make(&approver_out, BY_ROOT, &out, &err).ok);
    assert_true(document_pin_next(&pin, in, 9, &first, &err).ok);
    assert_int_equal(first.epoch, 9);
    assert_true(document_pin_next(&first, in, 9, &second, &err).ok); /* asked again */
    assert_memory_equal(&first, &second, sizeof first);
    assert_false(document_pin_next(&first, out, 8, &second, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_true(document_pin_next(&first, out, 10, &second, &err).ok);
    assert_true(document_pin_next(&pin, out, 10, &other, &err).ok); /* the first one left out */
    assert_memory_not_equal(second.digest, other.digest, sizeof other.digest);
    assert_false(document_pin_next(&pin, in, 0, &other, &err).ok); /* it would look like no pin */
}

static void envelopes_hold_one_document(void **state)
{
    const struct enrolment other = {SIGNING_SIGN, 1, NULL, OFFICER, NOW_MS - 1000, NOW_MS + 30 * DAY_MS};
    struct buffer OWNED_BUFFER one = BUFFER(8192), two = BUFFER(8192), first = BUFFER(16384), second = BUFFER(16384);
    struct document *document = NULL;
    struct error err = {0};

    (void)state;
    assert_true(compose(&usual, &one, &err).ok && compose(&other, &two, &err).ok);
    assert_true(document_sign(DOCUMENT_SIGNING_KEY, buffer_bytes(&one), keys[HOLDER_KEY], &first, &err).ok);
    assert_true(document_sign(DOCUMENT_SIGNING_KEY, buffer_bytes(&two), keys[ROOT], &second, &err).ok);
    const struct bytes views[] = {buffer_bytes(&first), buffer_bytes(&second)};
    assert_false(document_read(views, 2, &document, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_false(document_read(views, 0, &document, &err).ok);
    assert_false(document_read(views, DOCUMENT_SIGNATURES_MAX + 1, &document, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_null(document);
}

/* ---- memory that is out ---- */

static struct result each_call(void *context, struct error *err)
{
    const struct document_trust trust = trust_of(OFFICER);
    OWNED(document) *document = NULL;

    (void)context;
    TRY(make(&usual, BY_HOLDER | BY_ROOT, &document, err)); /* each of these signatures is needed */
    return document_check(document, &trust, err);
}

static void our_own_failures(void **state)
{
    (void)state;
    fail_each(each_call, NULL, ERROR_NONE, 10);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(large_documents_are_refused),   cmocka_unit_test(approvers_end),
        cmocka_unit_test(approvers_are_of_the_registry), cmocka_unit_test(revoked_approvers_do_not_come_back),
        cmocka_unit_test(approvers_have_places),         cmocka_unit_test(pins_follow_each_other),
        cmocka_unit_test(envelopes_hold_one_document),   cmocka_unit_test(our_own_failures),
    };

    make_keys();
    const int failures = RUN_TABLE(payload_rows, reads_payloads) + RUN_TABLE(signer_rows, counts_signers) +
                         RUN_TABLE(withdrawal_rows, withdrawals_fit_their_enrolments) +
                         cmocka_run_group_tests_name("others", others, NULL, NULL);
    free_keys();
    return failures;
}
