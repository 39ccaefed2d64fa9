/* What documents of persons and of officers may say, and whose signatures those of officers need. */
#include "tests/support/unit.h"

#include "base/json.h"
#include "crypto/digest.h"
#include "documents/format/officers.h"
#include "documents/format/persons.h"

#define NOW_MS INT64_C(1795000000000)
#define DAY_MS INT64_C(86400000)

#define HEX16    "0123456789abcdef"
#define SUBJECT  "\"ext:" HEX16 HEX16 HEX16 HEX16 "\""
#define OF(more) "{\"issuer\":\"https://id.example\"" more "}"

static const struct row {
    const char *name, *organisation, *body, *says; /* says NULL: it is accepted */
} rows[] = {
    {"an issuer", "acme", OF(""), NULL},
    {"for all others", PERSONS_REGISTRY, OF(""), NULL},
    {"nobody is separate", "acme", OF(",\"separate\":[]"), NULL},
    {"a separate person", "acme", OF(",\"separate\":[" SUBJECT "]"), NULL},
    {"an organisation with points", "4.acme-uae", OF(""), NULL},
    {"bound tokens", "acme", OF(",\"tokens\":{\"bound_to\":\"any\"}"), NULL},
    {"bound tokens that live for a minute", "acme", OF(",\"tokens\":{\"bound_to\":\"key\",\"lifetime_max\":60}"), NULL},
    {"tokens of a certificate", PERSONS_REGISTRY, OF(",\"tokens\":{\"bound_to\":\"certificate\",\"lifetime_max\":900}"), NULL},
    {"tokens of another kind", "acme", OF(",\"tokens\":{\"bound_to\":\"address\"}"), "tokens.bound_to: any, key"},
    {"tokens that live too short", "acme", OF(",\"tokens\":{\"lifetime_max\":59}"), "tokens.lifetime_max: 60 to 900"},
    {"tokens that live too long", "acme", OF(",\"tokens\":{\"lifetime_max\":901}"), "tokens.lifetime_max: 60 to 900"},
    {"a lifetime of zero", "acme", OF(",\"tokens\":{\"lifetime_max\":0}"), "tokens.lifetime_max: 60 to 900"},
    {"a lifetime as a text", "acme", OF(",\"tokens\":{\"lifetime_max\":\"60\"}"), "tokens"},
    {"another demand", "acme", OF(",\"tokens\":{\"bound\":true}"), "bound"},
    {"tokens that are a text", "acme", OF(",\"tokens\":\"any\""), "tokens"},
    {"a name in large letters", "Acme", OF(""), "the name is that of an organisation"},
    {"a name that begins with a point", ".acme", OF(""), "the name is that of an organisation"},
    {"another name with a line", "_all", OF(""), "the name is that of an organisation"},
    {"no issuer", "acme", "{}", "issuer"},
    {"an issuer without TLS", "acme", "{\"issuer\":\"http://id.example\"}", "issuer: the exact"},
    {"an issuer that is a scheme alone", "acme", "{\"issuer\":\"https://\"}", "issuer: the exact"},
    {"an issuer with a blank", "acme", "{\"issuer\":\"https://id.example x\"}", "issuer: the exact"},
    {"two issuers", "acme", "{\"issuer\":[\"https://id.example\"]}", "issuer"},
    {"a person by its name", "acme", OF(",\"separate\":[\"alice@bank.example\"]"), "separate: ext: and the SHA-256"},
    {"a robot", "acme", OF(",\"separate\":[\"robot:" HEX16 HEX16 HEX16 HEX16 "\"]"), "separate: ext: and the SHA-256"},
    {"half a hash", "acme", OF(",\"separate\":[\"ext:" HEX16 "\"]"), "separate: ext: and the SHA-256"},
    {"a hash in large letters", "acme", OF(",\"separate\":[\"ext:0123456789ABCDEF" HEX16 HEX16 HEX16 "\"]"), "separate: ext:"},
    {"a number", "acme", OF(",\"separate\":[7]"), "separate: ext:"},
    {"no list", "acme", OF(",\"separate\":" SUBJECT), "separate: a list"},
    {"another member", "acme", OF(",\"also\":1"), "also"},
};

static struct document *document_of(const char *name, const char *text, const char *scope, int64_t days)
{
    struct buffer OWNED_BUFFER payload = BUFFER(PERSONS_BYTES_MAX);
    OWNED_JSON body = json_loads(text, 0, NULL);
    const struct document_parts parts = {.kind = DOCUMENT_PERSONS,
                                         .scope = scope,
                                         .name = name,
                                         .version = 1,
                                         .effective_ms = NOW_MS,
                                         .expires_ms = NOW_MS + days * DAY_MS,
                                         .body = body};
    struct document *document = NULL;
    struct error err = {0};

    assert_non_null(body);
    must(document_compose(&parts, &payload, &err), &err);
    must(document_read_payload(DOCUMENT_PERSONS, buffer_bytes(&payload), &document, &err), &err);
    return document;
}

static void check_row(void **state)
{
    const struct row *row = *state;
    OWNED(document) *document = document_of(row->organisation, row->body, "", 30);
    struct persons_rule rule;
    struct error err = {0};

    assert_int_equal(persons_rule_read(document, &rule, &err).ok, row->says == NULL);
    if (row->says != NULL && strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
}

static void the_head_is_bounded(void **state)
{
    OWNED(document) *scoped = document_of("acme", OF(""), "acme", 30);
    OWNED(document) *long_one = document_of("acme", OF(""), "", PERSONS_DAYS_MAX + 1);
    struct persons_rule rule;
    struct error err = {0};

    (void)state;
    assert_false(persons_rule_read(scoped, &rule, &err).ok);
    assert_non_null(strstr(err.message, "of the registry"));
    assert_false(persons_rule_read(long_one, &rule, &err).ok);
    assert_non_null(strstr(err.message, "within 732 days"));
}

static void separate_persons_are_bounded(void **state)
{
    (void)state;
    for (size_t count = PERSONS_SEPARATE_MAX; count <= PERSONS_SEPARATE_MAX + 1; count++) {
        struct buffer OWNED_BUFFER text = BUFFER(PERSONS_BYTES_MAX);
        struct persons_rule rule;
        struct error err = {0};
        must(buffer_add_text(&text, "{\"issuer\":\"https://i\",\"separate\":[", &err), &err);
        for (size_t i = 0; i < count; i++) must(buffer_format(&text, &err, "%s" SUBJECT, i == 0 ? "" : ","), &err);
        must(buffer_add_text(&text, "]}", &err), &err);
        OWNED(document) *document = document_of("acme", buffer_text(&text), "", 30);
        assert_int_equal(persons_rule_read(document, &rule, &err).ok, count == PERSONS_SEPARATE_MAX);
        if (count == PERSONS_SEPARATE_MAX) assert_int_equal(rule.separate_count, count);
    }
}

/* ---- officers ---- */

#define ALICE "ext:" HEX16 HEX16 HEX16 HEX16
#define ROBOT "robot:01234567-89ab-cdef-0123-456789abcdef"
#define KEY   "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
#define OFFICER(principal, key, role, on) \
    "{\"principal\":\"" principal "\",\"key\":\"" key "\",\"role\":\"" role "\",\"on\":\"" on "\"}"
#define ADMIN OFFICER(ALICE, KEY, "registry-admin", "")

static const struct officer_row {
    const char *name, *of;
    int days;
    const char *withdrawn, *scope, *body, *says; /* says NULL: it is accepted */
} officer_rows[] = {
    {"an administrator", "registry-admin.alice", 365, NULL, "", ADMIN, NULL},
    {"of an organisation", "org-admin.acme.alice", 365, NULL, "", OFFICER(ALICE, KEY, "org-admin", "acme"), NULL},
    {"an officer of an organisation", "security-officer.alice", 732, NULL, "", OFFICER(ALICE, KEY, "security-officer", "acme"),
     NULL},
    {"an officer of the registry", "security-officer.a", 1, NULL, "", OFFICER(ALICE, KEY, "security-officer", ""), NULL},
    {"the administrator of one machine", "registry-admin.administrator", 730, NULL, "", OFFICER(ROBOT, KEY, "registry-admin", ""),
     NULL},
    {"its end", "registry-admin.alice", 365, "she left", "", "{}", NULL},
    {"a name without its role", "alice", 365, NULL, "", ADMIN, "the name is the role"},
    {"a role alone", "registry-admin.", 365, NULL, "", ADMIN, "the name is the role"},
    {"a role that goes on", "registry-administrator", 365, NULL, "", ADMIN, "the name is the role"},
    {"another role than its name", "org-admin.alice", 365, NULL, "", ADMIN, "role: the one"},
    {"large letters", "registry-admin.Alice", 365, NULL, "", ADMIN, "the name is the role"},
    {"a role that decides nothing", "publisher.alice", 365, NULL, "", OFFICER(ALICE, KEY, "publisher", "acme"),
     "the name is the role"},
    {"in an organisation's scope", "registry-admin.alice", 365, NULL, "acme", ADMIN, "the scope is"},
    {"more than two years", "registry-admin.alice", 733, NULL, "", ADMIN, "within 732 days"},
    {"an administrator of an organisation", "registry-admin.alice", 365, NULL, "", OFFICER(ALICE, KEY, "registry-admin", "acme"),
     "on:"},
    {"an organisation's of the registry", "org-admin.alice", 365, NULL, "", OFFICER(ALICE, KEY, "org-admin", ""), "on:"},
    {"a project", "org-admin.alice", 365, NULL, "", OFFICER(ALICE, KEY, "org-admin", "acme/models"), "on:"},
    {"a name for a person", "registry-admin.alice", 365, NULL, "", OFFICER("alice@bank.example", KEY, "registry-admin", ""),
     "principal:"},
    {"half a hash", "registry-admin.alice", 365, NULL, "", OFFICER("ext:" HEX16, KEY, "registry-admin", ""), "principal:"},
    {"a robot without its id", "registry-admin.alice", 365, NULL, "", OFFICER("robot:admin", KEY, "registry-admin", ""),
     "principal:"},
    {"no key", "registry-admin.alice", 365, NULL, "", OFFICER(ALICE, "", "registry-admin", ""), "key:"},
    {"the name of a key", "registry-admin.alice", 365, NULL, "", OFFICER(ALICE, "alice.pem", "registry-admin", ""), "key:"},
    {"a member too many", "registry-admin.alice", 365, NULL, "",
     "{\"principal\":\"" ALICE "\",\"key\":\"" KEY "\",\"role\":\"registry-admin\",\"on\":\"\",\"not_after\":\"\"}", "no member"},
    {"a member too few", "registry-admin.alice", 365, NULL, "", "{\"principal\":\"" ALICE "\",\"key\":\"" KEY "\",\"on\":\"\"}",
     "role"},
};

static struct ecdsa_key *new_key(void)
{
    struct ecdsa_key *key = NULL;
    struct error err = {0};

    must(ecdsa_key_new(&key, &err), &err);
    return key;
}

static struct document_parts officer_parts(const struct officer_row *row, json_t *body)
{
    return (struct document_parts){.kind = DOCUMENT_OFFICERS,
                                   .scope = row->scope,
                                   .name = row->of,
                                   .version = row->withdrawn == NULL ? 1 : 2,
                                   .effective_ms = NOW_MS,
                                   .expires_ms = NOW_MS + row->days * DAY_MS,
                                   .withdrawn = row->withdrawn,
                                   .body = body};
}

/* Signed by each of these keys. */
static struct document *signed_officer(const struct officer_row *row, const struct ecdsa_key *const *signers, size_t count)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192);
    struct buffer envelopes[DOCUMENT_SIGNATURES_MAX] = {BUFFER(16384), BUFFER(16384), BUFFER(16384), BUFFER(16384)};
    struct bytes views[DOCUMENT_SIGNATURES_MAX];
    OWNED_JSON body = json_loads(row->body, 0, NULL);
    const struct document_parts parts = officer_parts(row, body);
    struct document *document = NULL;
    struct error err = {0};

    must(document_compose(&parts, &payload, &err), &err);
    for (size_t i = 0; i < count; i++) {
        must(document_sign(parts.kind, buffer_bytes(&payload), signers[i], &envelopes[i], &err), &err);
        views[i] = buffer_bytes(&envelopes[i]);
    }
    must(document_read(views, count, &document, &err), &err);
    for (size_t i = 0; i < DOCUMENT_SIGNATURES_MAX; i++) buffer_done(&envelopes[i]);
    return document;
}

static void check_officer(void **state)
{
    const struct officer_row *row = *state;
    OWNED(ecdsa_key) *root = new_key();
    struct document_trust trust = {.now_ms = NOW_MS};
    struct officer officer;
    struct error err = {0};

    ecdsa_key_public(root, trust.root);
    OWNED(document) *document = signed_officer(row, (const struct ecdsa_key *const[]){root}, 1);
    assert_int_equal(document_check(document, &trust, &err).ok, row->says == NULL);
    if (row->says != NULL && strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
    if (row->says != NULL || row->withdrawn != NULL) return;
    must(officer_read(document, &officer, &err), &err);
    OWNED_JSON body = officer_body(&officer);
    assert_true(json_equal(body, json_object_get(document->json, "body")));
    assert_true(officer_document_is_of(document, officer.role));
}

/* ---- whose signatures ---- */

enum signer { ROOT, ANN, BOB, ALICES_OWN_APPROVER, ANNS_OTHER_KEY, STRANGER, SIGNERS };

static const struct signing_row {
    const char *name;
    const struct officer_row *row;
    size_t count;
    enum signer signers[3];
    int64_t later_ms; /* until keyd sees it */
    bool counts;
    const char *holder; /* of the root's key, if the root is several persons */
} officer_signing_rows[] = {
    {"the root alone", &officer_rows[0], 1, {ROOT}, 0, true, NULL},
    {"two approvers", &officer_rows[0], 2, {ANN, BOB}, 0, true, NULL},
    {"one approver", &officer_rows[0], 1, {ANN}, 0, false, NULL},
    {"one person with two keys", &officer_rows[0], 2, {ANN, ANNS_OTHER_KEY}, 0, false, NULL},
    {"the officer is no approver of itself", &officer_rows[0], 2, {ANN, ALICES_OWN_APPROVER}, 0, false, NULL},
    {"nor beside two others, who are enough", &officer_rows[0], 3, {ANN, BOB, ALICES_OWN_APPROVER}, 0, true, NULL},
    {"a stranger", &officer_rows[0], 2, {ANN, STRANGER}, 0, false, NULL},
    {"nobody who counts", &officer_rows[0], 1, {STRANGER}, 0, false, NULL},
    {"when it has expired", &officer_rows[0], 1, {ROOT}, 365 * DAY_MS, false, NULL},
    {"an approver ends it", &officer_rows[5], 1, {BOB}, 0, true, NULL},
    {"the root ends it", &officer_rows[5], 1, {ROOT}, 0, true, NULL},
    {"the officer, an approver, ends its own", &officer_rows[5], 1, {ALICES_OWN_APPROVER}, 0, true, NULL},
    {"a stranger ends nothing", &officer_rows[5], 1, {STRANGER}, 0, false, NULL},
    {"the root alone, which is several persons", &officer_rows[0], 1, {ROOT}, 0, false, "ext:cem"},
    {"the root's holder and an approver", &officer_rows[0], 2, {ROOT, ANN}, 0, true, "ext:cem"},
    {"the root's holder twice", &officer_rows[0], 2, {ROOT, ANN}, 0, false, "ext:ann"},
    {"the root's holder as the officer", &officer_rows[0], 2, {ROOT, ANN}, 0, false, ALICE},
    {"two approvers beside such a root", &officer_rows[0], 2, {ANN, BOB}, 0, true, "ext:cem"},
    {"the root's holder ends it", &officer_rows[5], 1, {ROOT}, 0, true, "ext:cem"},
};

static void approve(struct document_approver *approver, const struct ecdsa_key *key, const char *principal)
{
    ecdsa_key_public(key, approver->point);
    sha256_of(bytes_of_text(principal), approver->principal);
    approver->expires_ms = NOW_MS + 1000 * DAY_MS;
}

static void check_officer_signing(void **state)
{
    const struct signing_row *row = *state;
    struct ecdsa_key *keys[SIGNERS];
    const struct ecdsa_key *signers[3] = {NULL};
    struct document_trust trust = {.now_ms = NOW_MS + row->later_ms};
    struct error err = {0};

    if (row->holder != NULL) trust.terms = (struct root_terms){.policies = 2, .root = 2, .officers = 2};
    if (row->holder != NULL) sha256_of(bytes_of_text(row->holder), trust.terms.holder);
    for (size_t i = 0; i < SIGNERS; i++) keys[i] = new_key();
    ecdsa_key_public(keys[ROOT], trust.root);
    approve(&trust.approvers[0], keys[ANN], "ext:ann");
    approve(&trust.approvers[1], keys[BOB], "ext:bob");
    approve(&trust.approvers[2], keys[ALICES_OWN_APPROVER], ALICE);
    approve(&trust.approvers[3], keys[ANNS_OTHER_KEY], "ext:ann");
    for (size_t i = 0; i < row->count; i++) signers[i] = keys[row->signers[i]];
    OWNED(document) *document = signed_officer(row->row, signers, row->count);
    assert_int_equal(document_check(document, &trust, &err).ok, row->counts);
    if (!row->counts) assert_int_equal(err.kind, ERROR_DENIED);
    for (size_t i = 0; i < SIGNERS; i++) ecdsa_key_free(keys[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_head_is_bounded), cmocka_unit_test(separate_persons_are_bounded)};

    return RUN_TABLE(rows, check_row) + RUN_TABLE(officer_rows, check_officer) +
           RUN_TABLE(officer_signing_rows, check_officer_signing) + cmocka_run_group_tests(tests, NULL, NULL);
}
