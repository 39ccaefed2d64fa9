/* Restrictions of organisations: what a document may say, and which officers' signatures are enough. */
#include "tests/support/unit.h"

#include "base/json.h"
#include "crypto/digest.h"
#include "documents/format/restriction.h"

#define NOW_MS INT64_C(1795000000000)

#define META(id, scope, more) \
    "\"metadata\":{\"id\":\"" id "\",\"version\":1,\"scope\":[" scope "],\"organisation\":\"acme\"" more "}"
#define RULE(effect)        "{\"id\":\"A\",\"effect\":\"" effect "\",\"ops\":[\"ingest\"]}"
#define POLICY(meta, more)  "{" REST_OF(meta, more)
#define REST_OF(meta, more) "\"policy\":{\"closed\":false," meta more "}}"
#define DIGEST              "sha256:0000000000000000000000000000000000000000000000000000000000000000"
#define GOOD                META("acme.closed", "\"acme/closed/**\"", "")

static const struct row {
    const char *name, *body, *says; /* says NULL: it is accepted */
} rows[] = {
    {"one that requires", POLICY(GOOD, ",\"rules\":[" RULE("require") "]"), NULL},
    {"one that requires and denies", POLICY(GOOD, ",\"rules\":[" RULE("require") "," RULE("deny") "]"), NULL},
    {"a permit", POLICY(GOOD, ",\"rules\":[" RULE("require") "," RULE("permit") "]"), "only restricts"},
    {"a duty", POLICY(GOOD, ",\"rules\":[" RULE("oblige") "]"), "only restricts"},
    {"no rule", POLICY(GOOD, ",\"rules\":[]"), "only restricts"},
    {"no rules", POLICY(GOOD, ""), "only restricts"},
    {"a rule that is none", POLICY(GOOD, ",\"rules\":[7]"), "only restricts"},
    {"closed", "{\"policy\":{\"closed\":true," GOOD ",\"rules\":[" RULE("deny") "]}}", "only restricts"},
    {"closed by default", "{\"policy\":{" GOOD ",\"rules\":[" RULE("deny") "]}}", "only restricts"},
    {"a label", POLICY(GOOD, ",\"labels\":{},\"rules\":[" RULE("deny") "]"), "only restricts"},
    {"types of exceptions", POLICY(GOOD, ",\"exception_types\":{},\"rules\":[" RULE("deny") "]"), "only restricts"},
    {"content elsewhere by its label",
     POLICY(META("acme.closed", "\"acme/closed/**\"", ",\"applies_to_labels\":{}"), ",\"rules\":[" RULE("deny") "]"),
     "only restricts"},
    {"everything", POLICY(META("acme.closed", "\"**\"", ""), ",\"rules\":[" RULE("deny") "]"), "begin with acme/"},
    {"another organisation", POLICY(META("acme.closed", "\"acme/a\",\"beta/a\"", ""), ",\"rules\":[" RULE("deny") "]"),
     "begin with acme/"},
    {"an organisation whose name is longer", POLICY(META("acme.closed", "\"acmes/a\"", ""), ",\"rules\":[" RULE("deny") "]"),
     "begin with acme/"},
    {"the organisation itself", POLICY(META("acme.closed", "\"acme\"", ""), ",\"rules\":[" RULE("deny") "]"), "begin with acme/"},
    {"no scope", POLICY(META("acme.closed", "", ""), ",\"rules\":[" RULE("deny") "]"), "begin with acme/"},
    {"an id of the registry", POLICY(META("closed", "\"acme/a\"", ""), ",\"rules\":[" RULE("deny") "]"), "acme.NAME"},
    {"another id than the name", POLICY(META("acme.other", "\"acme/a\"", ""), ",\"rules\":[" RULE("deny") "]"),
     "is the id of its policy"},
    {"another member", "{\"policy\":{},\"more\":1}", "more"},
    {"a plan", "{\"plan\":\"" DIGEST "\"," REST_OF(GOOD, ",\"rules\":[" RULE("require") "]"), NULL},
    {"a plan that is no digest", "{\"plan\":\"seen\"," REST_OF(GOOD, ",\"rules\":[" RULE("require") "]"), "digest"},
    {"no policy", "{}", "policy"},
};

static struct document *document_of(const char *text, const char *scope, int64_t expires_ms, const char *withdrawn)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192);
    OWNED_JSON body = json_loads(text, 0, NULL);
    const struct document_parts parts = {.kind = DOCUMENT_RESTRICTION,
                                         .scope = scope,
                                         .name = "acme.closed",
                                         .version = withdrawn == NULL ? 1 : 2,
                                         .effective_ms = NOW_MS,
                                         .expires_ms = expires_ms,
                                         .withdrawn = withdrawn,
                                         .body = body};
    struct document *document = NULL;
    struct error err = {0};

    assert_non_null(body);
    must(document_compose(&parts, &payload, &err), &err);
    must(document_read_payload(DOCUMENT_RESTRICTION, buffer_bytes(&payload), &document, &err), &err);
    return document;
}

static void check_row(void **state)
{
    const struct row *row = *state;
    OWNED(document) *document = document_of(row->body, "acme", 0, NULL);
    const json_t *policy = NULL;
    struct error err = {0};

    assert_int_equal(restriction_read(document, &policy, &err).ok, row->says == NULL);
    if (row->says != NULL && strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
}

static void it_is_of_an_organisation_and_has_no_end(void **state)
{
    const struct document_trust trust = {.now_ms = NOW_MS};
    OWNED(document) *of_registry = document_of(rows[0].body, "", 0, NULL);
    OWNED(document) *of_project = document_of(rows[0].body, "acme/closed", 0, NULL);
    OWNED(document) *of_another = document_of(rows[0].body, "beta", 0, NULL);
    OWNED(document) *ending = document_of(rows[0].body, "acme", NOW_MS + 1000, NULL);
    OWNED(document) *withdrawal = document_of("{}", "acme", 0, "opened again");
    OWNED(document) *full = document_of(rows[0].body, "acme", 0, "opened again");
    struct error err = {0};

    (void)state;
    assert_false(document_check(of_registry, &trust, &err).ok);
    assert_false(document_check(of_project, &trust, &err).ok);
    assert_false(document_check(of_another, &trust, &err).ok);
    assert_false(document_check(ending, &trust, &err).ok);
    must(document_check(withdrawal, &trust, &err), &err);
    assert_false(document_check(full, &trust, &err).ok);
}

static void it_is_signed_soon(void **state)
{
    const struct document_trust late = {.now_ms = NOW_MS + 8 * INT64_C(86400000)}, early = {.now_ms = NOW_MS - 61000};
    OWNED(document) *document = document_of(rows[0].body, "acme", 0, NULL);
    OWNED(document) *withdrawal = document_of("{}", "acme", 0, "opened again");
    struct error err = {0};

    (void)state;
    assert_false(document_check(document, &late, &err).ok);
    assert_false(document_check(withdrawal, &late, &err).ok);
    assert_false(document_check(document, &early, &err).ok);
}

/* Several keys of one person are one, and whoever is no officer of this organisation does not count. */
static void persons_are_counted(void **state)
{
    struct restriction_officers officers = {.number = 2, .count = 3};
    struct buffer envelopes[3] = {BUFFER(16384), BUFFER(16384), BUFFER(16384)};
    struct ecdsa_key *keys[4] = {NULL};
    struct buffer OWNED_BUFFER payload = BUFFER(8192);
    OWNED(document) *unsigned_one = document_of(rows[0].body, "acme", 0, NULL);
    OWNED(document) *by_one = NULL;
    OWNED(document) *by_two = NULL;
    struct bytes views[3];
    struct error err = {0};

    (void)state;
    must(json_write_canonical(&payload, unsigned_one->json, &err), &err);
    for (size_t i = 0; i < 4; i++) must(ecdsa_key_new(&keys[i], &err), &err);
    for (size_t i = 0; i < 3; i++) {
        ecdsa_key_public(keys[i], officers.each[i].point);
        officers.each[i].principal[0] = i == 2 ? 2 : 1; /* the first two are of one person */
        must(document_sign(DOCUMENT_RESTRICTION, buffer_bytes(&payload), keys[i == 2 ? 3 : i], &envelopes[i], &err), &err);
        views[i] = buffer_bytes(&envelopes[i]);
    }
    must(document_read(views, 3, &by_one, &err), &err);
    assert_int_equal(restriction_check_signers(by_one, &officers, true, &err).ok, false);
    assert_non_null(strstr(err.message, "needs the signatures of 2 of its security officers, and has 1"));
    officers.number = 1;
    must(restriction_check_signers(by_one, &officers, true, &err), &err);
    assert_false(restriction_check_signers(by_one, &officers, false, &err).ok); /* a later version takes one more */
    envelopes[2].length = 0;
    must(document_sign(DOCUMENT_RESTRICTION, buffer_bytes(&payload), keys[2], &envelopes[2], &err), &err);
    views[2] = buffer_bytes(&envelopes[2]);
    must(document_read(&views[1], 2, &by_two, &err), &err);
    must(restriction_check_signers(by_two, &officers, false, &err), &err);
    officers.number = 2;
    must(restriction_check_signers(by_two, &officers, true, &err), &err);
    assert_false(restriction_check_signers(by_two, &officers, false, &err).ok);
    for (size_t i = 0; i < 4; i++) ecdsa_key_free(keys[i]);
    for (size_t i = 0; i < 3; i++) buffer_done(&envelopes[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_of_an_organisation_and_has_no_end),
        cmocka_unit_test(it_is_signed_soon),
        cmocka_unit_test(persons_are_counted),
    };

    return RUN_TABLE(rows, check_row) + cmocka_run_group_tests_name("restriction", tests, NULL, NULL);
}
