/* Whose signatures bring a policy set into force, which set it replaces, and how many persons must sign from then on; also for officers. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/json.h"
#include "crypto/digest.h"
#include "documents/format/officers.h"
#include "documents/format/set_approval.h"
#include "documents/format/set_exceptions.h"
#include "documents/format/signing_key.h"

#define NOW_MS INT64_C(1795000000000) /* 2026-11-18T10:26:40Z */
#define DAY_MS INT64_C(86400000)
#define A64    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B64    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define HOLDER "ext:1111111111111111111111111111111111111111111111111111111111111111"
#define AGREED "{\"expires\":\"2026-11-20T00:00:00Z\",\"replaces\":{\"digest\":\"sha256:" A64 "\",\"epoch\":7}}"
#define RAISED "{\"holder\":\"" HOLDER "\",\"officers\":3,\"policies\":2,\"root\":3}"
#define LOWER  "{\"officers\":1,\"policies\":1,\"root\":1}"

/* OWN is an approver's key of the person that has the root's key. */
enum { ROOT, ONE, TWO, TWO_AGAIN, THREE, OWN, STRANGER, KEYS };
#define BY(key) (1U << (key))
static struct ecdsa_key *keys[KEYS];

enum terms { NOT_SET, TWO_OF_THREE, ONE_OF_TWO, SINGLE };

static void set_terms(enum terms which, struct root_terms *terms)
{
    *terms = (struct root_terms){0};
    if (which == NOT_SET) return;
    *terms = which == SINGLE       ? (struct root_terms){.policies = 1, .root = 1, .officers = 1}
             : which == ONE_OF_TWO ? (struct root_terms){.policies = 1, .root = 2, .officers = 1}
                                   : (struct root_terms){.policies = 2, .root = 3, .officers = 3};
    if (which != SINGLE) sha256_of(bytes_of_text(HOLDER), terms->holder);
}

static void trust_all(enum terms which, struct document_trust *trust)
{
    static const int approvers[] = {ONE, TWO, TWO_AGAIN, THREE, OWN};

    *trust = (struct document_trust){.now_ms = NOW_MS};
    set_terms(which, &trust->terms);
    ecdsa_key_public(keys[ROOT], trust->root);
    for (size_t i = 0; i < COUNT(approvers); i++) {
        struct document_approver *approver = &trust->approvers[i];
        ecdsa_key_public(keys[approvers[i]], approver->point);
        approver->expires_ms = NOW_MS + DAY_MS;
        approver->principal[0] = (uint8_t)(approvers[i] == TWO_AGAIN ? TWO : approvers[i]);
        if (approvers[i] == OWN) sha256_of(bytes_of_text(HOLDER), approver->principal);
    }
}

static const char *exceptions; /* of the next set: JSON, or NULL */

/* approval, root: JSON, or NULL. */
static void read_set(unsigned signers, const char *approval, const char *root, struct document **document_out)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192), envelope = BUFFER(16384);
    OWNED_JSON set = json_pack("{s:s, s:i}", "digest", "sha256:" B64, "epoch", 8);
    const struct ecdsa_key *by[KEYS];
    struct error err = {0};
    size_t count = 0;

    if (approval != NULL) assert_int_equal(json_object_set_new(set, "approval", json_loads(approval, 0, NULL)), 0);
    if (root != NULL) assert_int_equal(json_object_set_new(set, "root", json_loads(root, 0, NULL)), 0);
    if (exceptions != NULL) assert_int_equal(json_object_set_new(set, "exceptions", json_loads(exceptions, 0, NULL)), 0);
    assert_true(json_write_canonical(&payload, set, &err).ok);
    for (size_t i = 0; i < KEYS; i++)
        if ((signers & BY(i)) != 0) by[count++] = keys[i];
    assert_true(dsse_write(document_kind(DOCUMENT_POLICY_SET)->type, buffer_bytes(&payload), by, count, &envelope, &err).ok);
    const struct bytes view = buffer_bytes(&envelope);
    if (!document_read(&view, 1, document_out, &err).ok) fail_msg("%s", err.message);
}

/* ---- signatures ---- */

static const struct row {
    const char *name;
    enum terms before;
    const char *approval, *root;
    unsigned signers;
    enum error_kind kind;
    enum set_change change;
} rows[] = {
    {"the root alone, as ever", NOT_SET, NULL, NULL, BY(ROOT), ERROR_NONE, SET_CHANGES},
    {"an approver in its place", NOT_SET, NULL, NULL, BY(ONE) | BY(TWO), ERROR_DENIED, SET_CHANGES},
    {"an approver in its place, drafted", SINGLE, AGREED, NULL, BY(ONE) | BY(TWO) | BY(THREE), ERROR_DENIED, SET_CHANGES},
    {"the root alone, drafted", SINGLE, AGREED, NULL, BY(ROOT), ERROR_NONE, SET_CHANGES},
    {"raised without a draft", NOT_SET, NULL, RAISED, BY(ROOT) | BY(ONE) | BY(TWO), ERROR_DENIED, SET_CHANGES},
    {"raised by three persons", NOT_SET, AGREED, RAISED, BY(ROOT) | BY(ONE) | BY(TWO), ERROR_NONE, SET_CHANGES},
    {"raised by the root alone", NOT_SET, AGREED, RAISED, BY(ROOT), ERROR_DENIED, SET_CHANGES},
    {"raised by two persons", NOT_SET, AGREED, RAISED, BY(ROOT) | BY(ONE), ERROR_DENIED, SET_CHANGES},
    {"raised by the root, its holder and another", NOT_SET, AGREED, RAISED, BY(ROOT) | BY(OWN) | BY(ONE), ERROR_DENIED,
     SET_CHANGES},
    {"raised without the root", NOT_SET, AGREED, RAISED, BY(ONE) | BY(TWO) | BY(THREE), ERROR_DENIED, SET_CHANGES},
    {"a set without a draft", TWO_OF_THREE, NULL, NULL, BY(ROOT) | BY(ONE), ERROR_DENIED, SET_CHANGES},
    {"two approvers", TWO_OF_THREE, AGREED, NULL, BY(ONE) | BY(TWO), ERROR_NONE, SET_CHANGES},
    {"the root and an approver", TWO_OF_THREE, AGREED, NULL, BY(ROOT) | BY(ONE), ERROR_NONE, SET_CHANGES},
    {"the root alone", TWO_OF_THREE, AGREED, NULL, BY(ROOT), ERROR_DENIED, SET_CHANGES},
    {"two keys of one person", TWO_OF_THREE, AGREED, NULL, BY(TWO) | BY(TWO_AGAIN), ERROR_DENIED, SET_CHANGES},
    {"the root and its holder", TWO_OF_THREE, AGREED, NULL, BY(ROOT) | BY(OWN), ERROR_DENIED, SET_CHANGES},
    {"an approver and a stranger", TWO_OF_THREE, AGREED, NULL, BY(ONE) | BY(STRANGER), ERROR_DENIED, SET_CHANGES},
    {"lowered by two", TWO_OF_THREE, AGREED, LOWER, BY(ONE) | BY(TWO), ERROR_DENIED, SET_CHANGES},
    {"lowered by three", TWO_OF_THREE, AGREED, LOWER, BY(ONE) | BY(TWO) | BY(THREE), ERROR_NONE, SET_CHANGES},
    {"lowered by the root", TWO_OF_THREE, AGREED, LOWER, BY(ROOT), ERROR_DENIED, SET_CHANGES},
    {"one of two, without a draft", ONE_OF_TWO, NULL, NULL, BY(ONE), ERROR_DENIED, SET_CHANGES},
    {"the root for one of two, without a draft", ONE_OF_TWO, NULL, NULL, BY(ROOT), ERROR_NONE, SET_CHANGES},
    {"one of two", ONE_OF_TWO, AGREED, NULL, BY(ONE), ERROR_NONE, SET_CHANGES},
    {"the same numbers by two", TWO_OF_THREE, AGREED, RAISED, BY(ONE) | BY(TWO), ERROR_NONE, SET_CHANGES},
    {"a loosening by two", TWO_OF_THREE, AGREED, NULL, BY(ONE) | BY(TWO), ERROR_DENIED, SET_LOOSENS},
    {"a loosening by three", TWO_OF_THREE, AGREED, NULL, BY(ONE) | BY(TWO) | BY(THREE), ERROR_NONE, SET_LOOSENS},
    {"a loosening by two with three keys", TWO_OF_THREE, AGREED, NULL, BY(ONE) | BY(TWO) | BY(TWO_AGAIN), ERROR_DENIED,
     SET_LOOSENS},
    {"a loosening by the root, its holder and another", TWO_OF_THREE, AGREED, NULL, BY(ROOT) | BY(OWN) | BY(ONE), ERROR_DENIED,
     SET_LOOSENS},
    {"a loosening by two where one is enough", ONE_OF_TWO, AGREED, NULL, BY(ONE) | BY(TWO), ERROR_NONE, SET_LOOSENS},
    {"a loosening by one where one is enough", ONE_OF_TWO, AGREED, NULL, BY(ONE), ERROR_DENIED, SET_LOOSENS},
    {"a loosening by the root, which is one", SINGLE, AGREED, NULL, BY(ROOT), ERROR_NONE, SET_LOOSENS},
    {"lowered by three, and loosened", TWO_OF_THREE, AGREED, LOWER, BY(ONE) | BY(TWO) | BY(THREE), ERROR_NONE, SET_LOOSENS},
    {"lowered by two, and loosened", TWO_OF_THREE, AGREED, LOWER, BY(ONE) | BY(TWO), ERROR_DENIED, SET_LOOSENS},
    {"what restricts by one", TWO_OF_THREE, AGREED, NULL, BY(ONE), ERROR_NONE, SET_RESTRICTS},
    {"what restricts by the root", TWO_OF_THREE, AGREED, NULL, BY(ROOT), ERROR_NONE, SET_RESTRICTS},
    {"what restricts by a stranger", TWO_OF_THREE, AGREED, NULL, BY(STRANGER), ERROR_DENIED, SET_RESTRICTS},
    {"what restricts without a draft", TWO_OF_THREE, NULL, NULL, BY(ROOT) | BY(ONE), ERROR_DENIED, SET_RESTRICTS},
    {"what restricts, and lowers", TWO_OF_THREE, AGREED, LOWER, BY(ONE) | BY(TWO), ERROR_DENIED, SET_RESTRICTS},
    {"what restricts by an approver, where the root is one", SINGLE, AGREED, NULL, BY(ONE), ERROR_DENIED, SET_RESTRICTS},
};

static void counts_persons(void **state)
{
    const struct row *row = *state;
    OWNED(document) *document = NULL;
    struct document_trust trust;
    struct error err = {0};

    read_set(row->signers, row->approval, row->root, &document);
    trust_all(row->before, &trust);
    trust.change = row->change;
    const bool ok = document_check(document, &trust, &err).ok;
    if (ok != (row->kind == ERROR_NONE)) fail_msg("%s", ok ? "it is accepted" : err.message);
    if (!ok) assert_int_equal(err.kind, row->kind);
}

static void an_approver_that_has_left_counts_no_more(void **state)
{
    OWNED(document) *document = NULL;
    struct document_trust trust;
    struct error err = {0};

    (void)state;
    read_set(BY(ONE) | BY(TWO), AGREED, NULL, &document);
    trust_all(TWO_OF_THREE, &trust);
    trust.approvers[0].is_revoked = true;
    assert_false(document_check(document, &trust, &err).ok);
    trust.approvers[0].is_revoked = false;
    trust.approvers[1].expires_ms = NOW_MS;
    assert_false(document_check(document, &trust, &err).ok);
}

/* ---- the set that is replaced, and the time ---- */

#define AT(expires, more) "{\"expires\":\"" expires "\"," more "\"replaces\":{\"digest\":\"sha256:" A64 "\",\"epoch\":7}}"
static const struct base_row {
    const char *name, *approval;
    uint64_t epoch;
    uint8_t digest;
    enum error_kind kind;
    const char *says;
} base_rows[] = {
    {"the set in force", AGREED, 7, 0xaa, ERROR_NONE, ""},
    {"without an approval", NULL, 3, 0, ERROR_NONE, ""},
    {"an older set", AGREED, 8, 0xaa, ERROR_DENIED, "replaces that of epoch 7"},
    {"another set of the epoch", AGREED, 7, 0xab, ERROR_DENIED, "draft it anew"},
    {"too late", AT("2026-11-18T00:00:00Z", ""), 7, 0xaa, ERROR_DENIED, "has expired"},
    {"in force later", AT("2026-11-24T00:00:00Z", "\"effective_from\":\"2026-11-20T00:00:00Z\","), 7, 0xaa, ERROR_DENIED,
     "not to be in force yet"},
    {"a year to wait", AT("2027-11-18T00:00:00Z", ""), 7, 0xaa, ERROR_DENIED, "at most 7 days"},
};

static void replaces_the_set_in_force(void **state)
{
    const struct base_row *row = *state;
    OWNED(document) *document = NULL;
    struct document_pin pinned = {.epoch = row->epoch};
    struct error err = {0};

    memset(pinned.digest, row->digest, sizeof pinned.digest);
    read_set(BY(ROOT), row->approval, NULL, &document);
    const bool ok = set_check_base(document, &pinned, NOW_MS, &err).ok;
    if (ok != (row->kind == ERROR_NONE)) fail_msg("%s", ok ? "it is accepted" : err.message);
    if (!ok && (err.kind != row->kind || strstr(err.message, row->says) == NULL)) fail_msg("%s", err.message);
}

/* ---- forms ---- */

static const struct form_row {
    const char *name, *approval, *root, *says;
} form_rows[] = {
    {"an approval that is a text", "{\"expires\":\"x\"}", NULL, "\"replaces\" is missing"},
    {"an end that is no time", AT("soon", ""), NULL, "approval.expires"},
    {"a beginning behind the end", AT("2026-11-20T00:00:00Z", "\"effective_from\":\"2026-11-21T00:00:00Z\","), NULL,
     "effective_from"},
    {"a plan that is no digest", AT("2026-11-20T00:00:00Z", "\"plan\":\"good\","), NULL, ""},
    {"an empty comment", AT("2026-11-20T00:00:00Z", "\"comment\":\"\","), NULL, "comment"},
    {"a member that is not known", AT("2026-11-20T00:00:00Z", "\"more\":\"1\","), NULL, "no member \"more\""},
    {"epoch 0 with a digest", "{\"expires\":\"2026-11-20T00:00:00Z\",\"replaces\":{\"digest\":\"sha256:" A64 "\",\"epoch\":0}}",
     NULL, "approval.replaces"},
    {"nobody", NULL, "{\"officers\":0,\"policies\":0,\"root\":0}", "root: "},
    {"more for policies than for the root", NULL, "{\"holder\":\"" HOLDER "\",\"officers\":1,\"policies\":3,\"root\":2}",
     "root: "},
    {"more than an envelope has room for", NULL, "{\"holder\":\"" HOLDER "\",\"officers\":1,\"policies\":1,\"root\":9}",
     "root: "},
    {"four officers", NULL, "{\"holder\":\"" HOLDER "\",\"officers\":4,\"policies\":1,\"root\":4}", "root: "},
    {"a root of two without a holder", NULL, "{\"officers\":1,\"policies\":1,\"root\":2}", "root.holder"},
    {"a holder that is no principal", NULL, "{\"holder\":\"alice\",\"officers\":1,\"policies\":1,\"root\":2}", "root.holder"},
};

static void forms_are_refused(void **state)
{
    const struct form_row *row = *state;
    OWNED_JSON set = json_object();
    const struct root_terms none = {0};
    struct set_approval approval;
    struct root_terms terms;
    struct error err = {0};

    if (row->approval != NULL) assert_int_equal(json_object_set_new(set, "approval", json_loads(row->approval, 0, NULL)), 0);
    if (row->root != NULL) assert_int_equal(json_object_set_new(set, "root", json_loads(row->root, 0, NULL)), 0);
    struct result read = set_approval_read(set, &approval, &err);
    if (read.ok) read = set_terms_read(set, &none, &terms, &err);
    assert_false(read.ok);
    if (strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
}

/* What is written is read, and means the same. */
static void an_approval_comes_back(void **state)
{
    struct set_approval approval = {.is_there = true,
                                    .base = {.epoch = 7, .digest = {1, 2, 3}},
                                    .effective_ms = NOW_MS,
                                    .expires_ms = NOW_MS + DAY_MS,
                                    .comment = "why",
                                    .plan = "sha256:" A64};
    OWNED_JSON set = json_pack("{s:o}", "approval", set_approval_json(&approval));
    struct set_approval again;
    struct error err = {0};

    (void)state;
    if (!set_approval_read(set, &again, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(again.base.epoch, 7);
    assert_memory_equal(again.base.digest, approval.base.digest, sizeof again.base.digest);
    assert_int_equal(again.effective_ms, NOW_MS);
    assert_int_equal(again.expires_ms, NOW_MS + DAY_MS);
    assert_string_equal(again.comment, "why");
    assert_string_equal(again.plan, approval.plan);
}

/* ---- what else the root does alone, as long as it is one ---- */

static const struct enrol_row {
    const char *name;
    enum terms terms;
    enum signing_purpose purpose;
    unsigned signers;
    bool is_good;
} enrol_rows[] = {
    {"an approver by the root", NOT_SET, SIGNING_APPROVE, BY(ROOT), true},
    {"an approver by the root, which is three persons", TWO_OF_THREE, SIGNING_APPROVE, BY(ROOT), false},
    {"an approver by the root and one other", TWO_OF_THREE, SIGNING_APPROVE, BY(ROOT) | BY(ONE), false},
    {"an approver by the root and two keys of one person", TWO_OF_THREE, SIGNING_APPROVE, BY(ROOT) | BY(TWO) | BY(TWO_AGAIN),
     false},
    {"an approver by the root and two others", TWO_OF_THREE, SIGNING_APPROVE, BY(ROOT) | BY(ONE) | BY(TWO), true},
    {"an approver without the root", TWO_OF_THREE, SIGNING_APPROVE, BY(ONE) | BY(TWO) | BY(THREE), false},
    {"a key by an approver", TWO_OF_THREE, SIGNING_SIGN, BY(ONE), true},
};

static void appoints_approvers(void **state)
{
    const struct enrol_row *row = *state;
    struct buffer OWNED_BUFFER payload = BUFFER(8192);
    struct buffer texts[KEYS] = {{0}};
    struct bytes views[DOCUMENT_SIGNATURES_MAX];
    struct signing_key key = {.purpose = row->purpose, .principal = "ext:" B64};
    OWNED(document) *document = NULL;
    struct document_trust trust;
    char name[ECDSA_THUMBPRINT_SIZE];
    struct error err = {0};
    size_t count = 0;

    ecdsa_key_public(keys[STRANGER], key.point);
    signing_key_name(&key, name);
    OWNED_JSON body = signing_key_body(&key);
    const struct document_parts parts = {.kind = DOCUMENT_SIGNING_KEY,
                                         .scope = "",
                                         .name = name,
                                         .version = 1,
                                         .effective_ms = NOW_MS - 1000,
                                         .expires_ms = NOW_MS + 30 * DAY_MS,
                                         .body = body};
    assert_true(document_compose(&parts, &payload, &err).ok);
    for (size_t i = 0; i < KEYS; i++) {
        texts[i] = BUFFER(16384);
        if (((row->signers | BY(STRANGER)) & BY(i)) == 0) continue;
        assert_true(document_sign(DOCUMENT_SIGNING_KEY, buffer_bytes(&payload), keys[i], &texts[i], &err).ok);
        views[count++] = buffer_bytes(&texts[i]);
    }
    assert_true(document_read(views, count, &document, &err).ok);
    for (size_t i = 0; i < KEYS; i++) buffer_done(&texts[i]);
    trust_all(row->terms, &trust);
    if (document_check(document, &trust, &err).ok != row->is_good) fail_msg("%s", row->is_good ? err.message : "it is accepted");
}

/* ---- officers ---- */

static const struct officer_row {
    const char *name;
    enum terms terms;
    bool is_holder; /* the officer has the root's key */
    unsigned signers;
    bool is_good;
} officer_rows[] = {
    {"the root, which is one", NOT_SET, false, BY(ROOT), true},
    {"the root, which is one of several", TWO_OF_THREE, false, BY(ROOT), false},
    {"the root and its holder", TWO_OF_THREE, false, BY(ROOT) | BY(OWN), false},
    {"the root and an approver", TWO_OF_THREE, false, BY(ROOT) | BY(ONE), true},
    {"two approvers", TWO_OF_THREE, false, BY(ONE) | BY(TWO), true},
    {"the holder of the root for itself", TWO_OF_THREE, true, BY(ROOT) | BY(ONE), false},
    {"two others for the holder of the root", TWO_OF_THREE, true, BY(ONE) | BY(TWO), true},
};

static void makes_officers(void **state)
{
    const struct officer_row *row = *state;
    const struct officer officer = {row->is_holder ? HOLDER : "ext:" B64, "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs",
                                    OFFICERS_ADMINISTRATORS, "", 0};
    OWNED_JSON body = officer_body(&officer);
    const struct document_parts parts = {.kind = DOCUMENT_OFFICERS,
                                         .scope = "",
                                         .name = OFFICERS_ADMINISTRATORS ".a",
                                         .version = 1,
                                         .effective_ms = NOW_MS - 1000,
                                         .expires_ms = NOW_MS + DAY_MS,
                                         .body = body};
    struct buffer OWNED_BUFFER payload = BUFFER(8192), envelope = BUFFER(16384);
    const struct ecdsa_key *by[KEYS];
    OWNED(document) *document = NULL;
    struct document_trust trust;
    struct error err = {0};
    size_t count = 0;

    if (!document_compose(&parts, &payload, &err).ok) fail_msg("%s", err.message);
    for (size_t i = 0; i < KEYS; i++)
        if ((row->signers & BY(i)) != 0) by[count++] = keys[i];
    assert_true(dsse_write(document_kind(DOCUMENT_OFFICERS)->type, buffer_bytes(&payload), by, count, &envelope, &err).ok);
    const struct bytes view = buffer_bytes(&envelope);
    if (!document_read(&view, 1, &document, &err).ok) fail_msg("%s", err.message);
    trust_all(row->terms, &trust);
    if (document_check(document, &trust, &err).ok != row->is_good) fail_msg("%s", row->is_good ? err.message : "it is accepted");
}

/* ---- exceptions ---- */

#define PERSON(name) "{\"iss\":\"https://people\",\"sub\":\"" name "\"}"
#define EXCEPTION(by, one, two, grounds)                                                                                      \
    "[{\"id\":\"x-1\",\"requested_by\":" PERSON(by) ",\"approvals\":[" PERSON(one) "," PERSON(two) "],\"evidence\":{" grounds \
                                                                                                   "}}]"
#define FOUR(text) text "," text "," text "," text
#define CROWD      "one\"}," FOUR(PERSON("one")) "," FOUR(PERSON("two")) ",{\"iss\":\"https://people\",\"sub\":\"two"
#define FILED      "\"letter\":\"sha256:" A64 "\""

#define BOTH    EXCEPTION("guest", "one", "two", FILED)
#define BY_BOTH (BY(ONE) | BY(TWO))
#define BY_ALL  (BY(ONE) | BY(TWO) | BY(THREE))

/* The persons of the keys are one, two, three and own, which has the root's key, too. */
static const struct exception_row {
    const char *name;
    enum terms before;
    unsigned signers;
    enum set_change change;        /* SET_RESTRICTS: the set before has it, too */
    const char *exceptions, *says; /* says NULL: it may come into force */
} exception_rows[] = {
    {"both and a third person", TWO_OF_THREE, BY_ALL, SET_LOOSENS, BOTH, NULL},
    {"one is only named", TWO_OF_THREE, BY(ONE) | BY(THREE) | BY(OWN), SET_LOOSENS, BOTH, "not signed the set: two"},
    {"by another key", TWO_OF_THREE, BY(ONE) | BY(TWO_AGAIN) | BY(THREE), SET_LOOSENS, BOTH, NULL},
    {"two keys of one", TWO_OF_THREE, BY_BOTH | BY(TWO_AGAIN), SET_CHANGES, EXCEPTION("one", "two", "two", FILED), "beside"},
    {"asked by an approver", TWO_OF_THREE, BY_ALL, SET_LOOSENS, EXCEPTION("two", "one", "two", FILED), "as an approver"},
    {"asked by the third", TWO_OF_THREE, BY_ALL, SET_LOOSENS, EXCEPTION("three", "one", "two", FILED), "3 persons beside"},
    {"by the root", TWO_OF_THREE, BY_BOTH | BY(ROOT), SET_LOOSENS, EXCEPTION("own", "one", "two", FILED), "3 persons beside"},
    {"the root's holder", TWO_OF_THREE, BY_BOTH | BY(ROOT), SET_LOOSENS, EXCEPTION("guest", "one", "own", FILED), NULL},
    {"a stranger", TWO_OF_THREE, BY_ALL, SET_LOOSENS, EXCEPTION("guest", "one", "mallory", FILED), "the set: mallory"},
    {"no file", TWO_OF_THREE, BY_ALL, SET_LOOSENS, EXCEPTION("guest", "one", "two", "\"ticket\":\"7\""), "no evidence"},
    {"the set before has it", TWO_OF_THREE, BY(THREE), SET_RESTRICTS, BOTH, NULL},
    {"the root alone", SINGLE, BY(ROOT), SET_LOOSENS, BOTH, "not signed the set: one"},
    {"the root and both", SINGLE, BY(ROOT) | BY_BOTH, SET_LOOSENS, BOTH, NULL},
    {"ten names", SINGLE, BY(ROOT) | BY_BOTH, SET_LOOSENS, EXCEPTION("guest", "one", CROWD, FILED), "more approvers than"},
    {"more than a set has", SINGLE, BY(ROOT) | BY_BOTH, SET_LOOSENS, "[" FOUR(FOUR(FOUR(FOUR("{}")))) ",{}]", "at most 256"},
    {"nobody is named", SINGLE, BY(ROOT), SET_LOOSENS, "[{\"id\":\"x-1\",\"evidence\":{" FILED "}}]", "does not say who asks"},
};

static void be_persons(struct document_trust *trust)
{
    static const char *const names[] = {"one", "two", "two", "three", "own"};

    for (size_t i = 0; i < COUNT(names); i++) {
        char principal[SET_PERSON_SIZE];
        OWNED_JSON person = json_pack("{s:s, s:s}", "iss", "https://people", "sub", names[i]);
        assert_true(set_person_principal(person, principal));
        sha256_of(bytes_of_text(principal), trust->approvers[i].principal);
    }
    if (trust->terms.root > 1) memcpy(trust->terms.holder, trust->approvers[4].principal, sizeof trust->terms.holder);
}

static void an_exception_takes_its_approvers(void **state)
{
    const struct exception_row *row = *state;
    OWNED(document) *document = NULL;
    struct document_trust trust;
    struct error err = {0};

    exceptions = row->exceptions;
    read_set(row->signers, AGREED, NULL, &document);
    exceptions = NULL;
    trust_all(row->before, &trust);
    be_persons(&trust);
    trust.change = row->change;
    if (row->change == SET_RESTRICTS) set_exception_keep(trust.kept, 0);
    const bool ok = document_check(document, &trust, &err).ok;
    if (ok != (row->says == NULL)) fail_msg("%s", ok ? "it is accepted" : err.message);
    if (!ok && (err.kind != ERROR_DENIED || strstr(err.message, row->says) == NULL)) fail_msg("%s", err.message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_approver_that_has_left_counts_no_more),
                                       cmocka_unit_test(an_approval_comes_back)};
    struct error err = {0};

    for (size_t i = 0; i < KEYS; i++) assert_true(ecdsa_key_new(&keys[i], &err).ok);
    const int failed = RUN_TABLE(rows, counts_persons) + RUN_TABLE(base_rows, replaces_the_set_in_force) +
                       RUN_TABLE(exception_rows, an_exception_takes_its_approvers) + RUN_TABLE(form_rows, forms_are_refused) +
                       RUN_TABLE(enrol_rows, appoints_approvers) + RUN_TABLE(officer_rows, makes_officers) +
                       cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < KEYS; i++) ecdsa_key_free(keys[i]);
    return failed;
}
