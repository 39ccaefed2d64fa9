/* Documents about erasures and legal holds: their bodies, and whose signatures bring one into force. */
#include "tests/support/unit.h"

#include "base/json.h"
#include "documents/format/erasure.h"

#define NOW_MS              INT64_C(1795000000000)
#define DAY_MS              INT64_C(86400000)
#define PSEUDONYM           "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER               "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define REASON              "\"reason\":\"a request\""
#define LATER               "case-8" /* version 2 */
#define DIGEST              "sha256:" PSEUDONYM
#define CONTENT(name, more) "{" REASON ",\"content\":\"" name "\"" more "}"

enum { ROOT, ONE, TWO, TWO_AGAIN, STRANGER, KEYS };
#define BY(key) (1U << (key))
static struct ecdsa_key *keys[KEYS];

static const struct row {
    const char *name;
    enum document_kind kind;
    unsigned signers;
    const char *of, *body, *withdrawn, *scope;
    int64_t days;
    enum error_kind error;
} rows[] = {
    {"an erasure of two approvers", DOCUMENT_ERASURE, BY(ONE) | BY(TWO), PSEUDONYM, "{" REASON "}", NULL, "", 7, ERROR_NONE},
    {"an erasure of one approver", DOCUMENT_ERASURE, BY(ONE), PSEUDONYM, "{" REASON "}", NULL, "", 7, ERROR_DENIED},
    {"an erasure of the root", DOCUMENT_ERASURE, BY(ROOT), PSEUDONYM, "{" REASON "}", NULL, "", 7, ERROR_DENIED},
    {"an erasure of the root and an approver", DOCUMENT_ERASURE, BY(ROOT) | BY(ONE), PSEUDONYM, "{" REASON "}", NULL, "", 7,
     ERROR_DENIED},
    {"an erasure of one approver with two keys", DOCUMENT_ERASURE, BY(TWO) | BY(TWO_AGAIN), PSEUDONYM, "{" REASON "}", NULL, "",
     7, ERROR_DENIED},
    {"an erasure of a stranger", DOCUMENT_ERASURE, BY(ONE) | BY(STRANGER), PSEUDONYM, "{" REASON "}", NULL, "", 7, ERROR_DENIED},
    {"an erasure of a name", DOCUMENT_ERASURE, BY(ONE) | BY(TWO), "alice", "{" REASON "}", NULL, "", 7, ERROR_INVALID},
    {"an erasure without a reason", DOCUMENT_ERASURE, BY(ONE) | BY(TWO), PSEUDONYM, "{\"reason\":\"\"}", NULL, "", 7,
     ERROR_INVALID},
    {"an erasure with another member", DOCUMENT_ERASURE, BY(ONE) | BY(TWO), PSEUDONYM, "{" REASON ",\"subject\":\"alice\"}", NULL,
     "", 7, ERROR_INVALID},
    {"an erasure of an organisation", DOCUMENT_ERASURE, BY(ONE) | BY(TWO), PSEUDONYM, "{" REASON "}", NULL, "acme", 7,
     ERROR_INVALID},
    {"an erasure that lasts", DOCUMENT_ERASURE, BY(ONE) | BY(TWO), PSEUDONYM, "{" REASON "}", NULL, "", 31, ERROR_INVALID},
    {"a hold of one approver", DOCUMENT_LEGAL_HOLD, BY(TWO), "case-7", "{" REASON ",\"subject\":\"" PSEUDONYM "\"}", NULL, "",
     366, ERROR_NONE},
    {"a hold of the root", DOCUMENT_LEGAL_HOLD, BY(ROOT), "case-7", "{" REASON ",\"subject\":\"*\"}", NULL, "", 366, ERROR_NONE},
    {"a hold of a stranger", DOCUMENT_LEGAL_HOLD, BY(STRANGER), "case-7", "{" REASON ",\"subject\":\"*\"}", NULL, "", 366,
     ERROR_DENIED},
    {"a hold of a name", DOCUMENT_LEGAL_HOLD, BY(ONE), "case-7", "{" REASON ",\"subject\":\"alice\"}", NULL, "", 366,
     ERROR_INVALID},
    {"a hold without an end", DOCUMENT_LEGAL_HOLD, BY(ONE), "case-7", "{" REASON ",\"subject\":\"*\"}", NULL, "", 4000,
     ERROR_INVALID},
    {"a hold of content", DOCUMENT_LEGAL_HOLD, BY(ONE), "case-7", CONTENT("acme/models", ""), NULL, "", 366, ERROR_NONE},
    {"a hold of content of the root", DOCUMENT_LEGAL_HOLD, BY(ROOT), "case-7", CONTENT("acme", ""), NULL, "", 366, ERROR_NONE},
    {"a hold of a manifest", DOCUMENT_LEGAL_HOLD, BY(ONE), "case-7", CONTENT("acme/models/digits", ",\"digest\":\"" DIGEST "\""),
     NULL, "", 366, ERROR_NONE},
    {"a hold of another digest", DOCUMENT_LEGAL_HOLD, BY(ONE), "case-7", CONTENT("acme", ",\"digest\":\"sha256:12\""), NULL, "",
     366, ERROR_INVALID},
    {"a hold of all content", DOCUMENT_LEGAL_HOLD, BY(ONE), "case-7", CONTENT("**", ""), NULL, "", 366, ERROR_INVALID},
    {"a hold of an empty name", DOCUMENT_LEGAL_HOLD, BY(ONE), "case-7", CONTENT("", ""), NULL, "", 366, ERROR_INVALID},
    {"a hold of a name that ends in a slash", DOCUMENT_LEGAL_HOLD, BY(ONE), "case-7", CONTENT("acme/", ""), NULL, "", 366,
     ERROR_INVALID},
    {"a hold of content and of a person", DOCUMENT_LEGAL_HOLD, BY(ONE), "case-7", CONTENT("acme", ",\"subject\":\"*\""), NULL, "",
     366, ERROR_INVALID},
    {"a hold of nothing", DOCUMENT_LEGAL_HOLD, BY(ONE), "case-7", "{" REASON "}", NULL, "", 366, ERROR_INVALID},
    {"a hold of a person's digest", DOCUMENT_LEGAL_HOLD, BY(ONE), "case-7",
     "{" REASON ",\"subject\":\"*\",\"digest\":\"" DIGEST "\"}", NULL, "", 366, ERROR_INVALID},
    {"a later version of one approver", DOCUMENT_LEGAL_HOLD, BY(ONE), LATER, CONTENT("acme", ""), NULL, "", 366, ERROR_DENIED},
    {"a later version of the root", DOCUMENT_LEGAL_HOLD, BY(ROOT), LATER, CONTENT("acme", ""), NULL, "", 366, ERROR_DENIED},
    {"a later version of two approvers", DOCUMENT_LEGAL_HOLD, BY(ONE) | BY(TWO), LATER, CONTENT("acme", ""), NULL, "", 366,
     ERROR_NONE},
    {"a release of one approver", DOCUMENT_LEGAL_HOLD, BY(ONE), "case-7", "{}", "over", "", 366, ERROR_DENIED},
    {"a release of the root", DOCUMENT_LEGAL_HOLD, BY(ROOT), "case-7", "{}", "over", "", 366, ERROR_DENIED},
    {"a release of the root and an approver", DOCUMENT_LEGAL_HOLD, BY(ROOT) | BY(ONE), "case-7", "{}", "over", "", 366,
     ERROR_DENIED},
    {"a release of one approver with two keys", DOCUMENT_LEGAL_HOLD, BY(TWO) | BY(TWO_AGAIN), "case-7", "{}", "over", "", 366,
     ERROR_DENIED},
    {"a release of two approvers", DOCUMENT_LEGAL_HOLD, BY(ONE) | BY(TWO), "case-7", "{}", "over", "", 366, ERROR_NONE},
    {"a release of a stranger", DOCUMENT_LEGAL_HOLD, BY(STRANGER), "case-7", "{}", "over", "", 366, ERROR_DENIED},
    {"a release with a body", DOCUMENT_LEGAL_HOLD, BY(ONE), "case-7", "{" REASON ",\"subject\":\"*\"}", "over", "", 366,
     ERROR_INVALID},
};

/* Both keys of TWO are of one principal. */
static void trust_all(struct document_trust *trust)
{
    *trust = (struct document_trust){.now_ms = NOW_MS};
    ecdsa_key_public(keys[ROOT], trust->root);
    for (int key = ONE; key <= TWO_AGAIN; key++) {
        struct document_approver *approver = &trust->approvers[key - ONE];
        ecdsa_key_public(keys[key], approver->point);
        approver->expires_ms = NOW_MS + DAY_MS;
        approver->principal[0] = key == ONE ? 1 : 2;
    }
}

static void sign_all(const struct row *row, struct document **document_out)
{
    struct buffer OWNED_BUFFER payload = BUFFER(ERASURE_BYTES_MAX);
    struct buffer texts[KEYS] = {{0}};
    struct bytes views[DOCUMENT_SIGNATURES_MAX];
    OWNED_JSON body = json_loads(row->body, 0, NULL);
    const struct document_parts parts = {.kind = row->kind,
                                         .scope = row->scope,
                                         .name = row->of,
                                         .version = row->withdrawn == NULL && strcmp(row->of, LATER) != 0 ? 1 : 2,
                                         .effective_ms = NOW_MS - 1000,
                                         .expires_ms = NOW_MS + row->days * DAY_MS,
                                         .withdrawn = row->withdrawn,
                                         .body = body};
    struct error err = {0};
    size_t count = 0;

    assert_non_null(body);
    must(document_compose(&parts, &payload, &err), &err);
    for (size_t i = 0; i < KEYS; i++) {
        texts[i] = BUFFER(2 * ERASURE_BYTES_MAX);
        if ((row->signers & BY(i)) == 0) continue;
        must(document_sign(row->kind, buffer_bytes(&payload), keys[i], &texts[i], &err), &err);
        views[count++] = buffer_bytes(&texts[i]);
    }
    must(document_read(views, count, document_out, &err), &err);
    for (size_t i = 0; i < KEYS; i++) buffer_done(&texts[i]);
}

static void is_checked(void **state)
{
    const struct row *row = *state;
    OWNED(document) *document = NULL;
    struct document_trust trust;
    struct error err = {0};

    sign_all(row, &document);
    trust_all(&trust);
    const bool ok = document_check(document, &trust, &err).ok;
    if (ok != (row->error == ERROR_NONE)) fail_msg("%s", ok ? "it is accepted" : err.message);
    assert_int_equal(err.kind, row->error);
}

static void a_hold_covers_its_person_or_all(void **state)
{
    const struct legal_hold one = {.subject = PSEUDONYM}, all = {.subject = HOLD_OF_ALL}, content = {.content = "acme"};

    (void)state;
    assert_true(legal_hold_covers(&one, PSEUDONYM));
    assert_false(legal_hold_covers(&one, OTHER));
    assert_true(legal_hold_covers(&all, OTHER));
    assert_false(legal_hold_covers(&content, PSEUDONYM));
}

static void an_erasure_can_not_be_withdrawn(void **state)
{
    struct buffer OWNED_BUFFER payload = BUFFER(ERASURE_BYTES_MAX);
    OWNED_JSON body = json_object();
    const struct document_parts parts = {.kind = DOCUMENT_ERASURE,
                                         .scope = "",
                                         .name = PSEUDONYM,
                                         .version = 2,
                                         .effective_ms = NOW_MS,
                                         .expires_ms = NOW_MS + DAY_MS,
                                         .withdrawn = "no",
                                         .body = body};
    struct error err = {0};

    (void)state;
    assert_false(document_compose(&parts, &payload, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_hold_covers_its_person_or_all),
        cmocka_unit_test(an_erasure_can_not_be_withdrawn),
    };
    struct error err = {0};

    for (size_t i = 0; i < KEYS; i++) must(ecdsa_key_new(&keys[i], &err), &err);
    int failed = RUN_TABLE(rows, is_checked);
    failed += cmocka_run_group_tests(others, NULL, NULL);
    for (size_t i = 0; i < KEYS; i++) ecdsa_key_free(keys[i]);
    return failed;
}
