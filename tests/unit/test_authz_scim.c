/* SCIM services: what a document may say, whom it lets in, who may provision, and what groups of SCIM give. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "authz/group_place.h"
#include "authz/scim_entry.h"
#include "base/json.h"

#define NOW_MS INT64_C(1795000000000)
#define DAY_MS INT64_C(86400000)
#define ISSUER "https://i"
#define ROBOT  "5f0c1c1e-0000-4000-8000-000000000001"

#define BODY(claim, client, ends, more) \
    "{\"issuer\":\"" ISSUER "\",\"claim\":\"" claim "\",\"client\":\"" client "\",\"deactivations\":" ends more "}"
#define GOOD(claim, more) BODY(claim, "robot:" ROBOT, "5", more)

static struct document *document_of(const char *text, const char *scope, int64_t from_ms, int64_t days)
{
    struct buffer OWNED_BUFFER payload = BUFFER(4096);
    OWNED_JSON body = json_loads(text, 0, NULL);
    const struct document_parts parts = {.kind = DOCUMENT_SCIM_SERVICE,
                                         .scope = scope,
                                         .name = "bank",
                                         .version = 1,
                                         .effective_ms = from_ms,
                                         .expires_ms = from_ms + days * DAY_MS,
                                         .body = body};
    struct document *document = NULL;
    struct error err = {0};

    assert_non_null(body);
    must(document_compose(&parts, &payload, &err), &err);
    must(document_read_payload(DOCUMENT_SCIM_SERVICE, buffer_bytes(&payload), &document, &err), &err);
    return document;
}

static const struct row {
    const char *name, *body, *says; /* says NULL: it is accepted */
} rows[] = {
    {"sub", GOOD("/sub", ""), NULL},
    {"another claim", GOOD("/oid", ",\"others\":\"admit\""), NULL},
    {"others refused", GOOD("/oid", ",\"others\":\"refuse\""), NULL},
    {"a mail address", GOOD("/email", ""), "may change, or be given to another person"},
    {"a mail address, deeper", GOOD("/user/mail", ""), "may change"},
    {"a name", GOOD("/preferred_username", ""), "may change"},
    {"a mail address in a list", GOOD("/emails/0", ""), "may change"},
    {"a mail address in a list of lists", GOOD("/x/eMail/0/1", ""), "may change"},
    {"a mail address whose name is a URL", GOOD("/https:~1~1bank.example~1Email", ""), "may change"},
    {"a mail address whose name is a URN", GOOD("/urn:bank:mail", ""), "may change"},
    {"an id whose name ends like a name", GOOD("/tenantname", ""), NULL},
    {"an id in a list", GOOD("/ids/0", ""), NULL},
    {"an id that is a number", GOOD("/0", ""), NULL},
    {"a claim that is no pointer", GOOD("sub", ""), "a JSON Pointer"},
    {"a person as the client", BODY("/sub", "ext:ann", "5", ""), "robot:ID"},
    {"no id", BODY("/sub", "robot:ann", "5", ""), "robot:ID"},
    {"no bound", BODY("/sub", "robot:" ROBOT, "0", ""), "1 to 10000"},
    {"a large bound", BODY("/sub", "robot:" ROBOT, "10001", ""), "1 to 10000"},
    {"others", GOOD("/sub", ",\"others\":\"some\""), "refuse"},
    {"another member", GOOD("/sub", ",\"priority\":1"), "priority"},
};

static void check_row(void **state)
{
    const struct row *row = *state;
    OWNED(document) *document = document_of(row->body, "", NOW_MS, 30);
    struct scim_service service;
    struct error err = {0};

    assert_int_equal(scim_service_read(document, &service, &err).ok, row->says == NULL);
    if (row->says != NULL && strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
}

static void the_head_is_bounded(void **state)
{
    OWNED(document) *scoped = document_of(GOOD("/sub", ""), "acme", NOW_MS, 30);
    OWNED(document) *long_one = document_of(GOOD("/sub", ""), "", NOW_MS, SCIM_SERVICE_DAYS_MAX + 1);
    struct scim_service service;
    struct error err = {0};

    (void)state;
    assert_false(scim_service_read(scoped, &service, &err).ok);
    assert_non_null(strstr(err.message, "of the registry"));
    assert_false(scim_service_read(long_one, &service, &err).ok);
    assert_non_null(strstr(err.message, "within 366 days"));
}

/* ---- who may come in ---- */

static const struct issuer_record issuer = {
    .url = ISSUER,
    .audience = "us",
    .algorithms = 1U << JOSE_ES256,
    .types = 1,
    .lifetime_max_s = 600,
    .jwks =
        "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\",\"alg\":\"ES256\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
        "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}"};

static const struct scim_person people[] = {
    {ISSUER, "e-ann", "ann", true, false},      {ISSUER, "e-ben", "ben", false, false},  {ISSUER, "e-cyd", "", true, true},
    {ISSUER, "e-dan", "dan", true, false},      {ISSUER, "e-dan", "dan-2", true, false}, {ISSUER, "e-eve", "eve", false, false},
    {"https://j", "e-ann", "fay", true, false}, {ISSUER, "e-gil", "gil", true, true},
};

/* `document` NULL: there is no service. */
static struct authz_snapshot *snapshot_of(const struct document *document)
{
    const struct pinned_document pinned = {document, 7};
    struct authz_snapshot *snapshot = NULL;
    OWNED(scim_persons) *persons = NULL;
    OWNED(trust_rules) *rules = NULL;
    struct error err = {0};

    must(trust_rules_of(&pinned, document == NULL ? 0 : 1, &rules, &err), &err);
    must(scim_persons_new(people, COUNT(people), &persons, &err), &err);
    const struct authz_parts parts = {.issuers = &issuer, .issuer_count = 1, .rules = rules, .persons = persons};
    must(authz_snapshot_build(&parts, &snapshot, &err), &err);
    return snapshot;
}

static const struct login_row {
    const char *name, *body; /* NULL: no service */
    int64_t from_ms, days;
    const char *subject, *claims;
    bool is_at_token;
    const char *says, *links; /* NULL: it comes in; whom it is joined with */
    bool admitted;            /* a token of the registry */
} logins[] = {
    {"active", GOOD("/sub", ""), NOW_MS, 1, "ann", "{\"sub\":\"e-ann\"}", true, NULL, "", true},
    {"not active", GOOD("/oid", ""), NOW_MS, 1, "ben", "{\"oid\":\"e-ben\"}", true, "has deactivated this person", "", false},
    {"a stranger", GOOD("/oid", ""), NOW_MS, 1, "zoe", "{\"oid\":\"e-zoe\"}", true, "has not provisioned", "", false},
    {"a stranger who is admitted", GOOD("/oid", ",\"others\":\"admit\""), NOW_MS, 1, "zoe", "{\"oid\":\"e-zoe\"}", true, NULL, "",
     true},
    {"deactivated, where strangers are admitted", GOOD("/oid", ",\"others\":\"admit\""), NOW_MS, 1, "ben", "{}", true,
     "has deactivated this person", "", false},
    {"for the first time", GOOD("/oid", ""), NOW_MS, 1, "cyd-sub", "{\"oid\":\"e-cyd\"}", true, NULL, "e-cyd", false},
    {"with a second subject", GOOD("/oid", ""), NOW_MS, 1, "dan-2", "{\"oid\":\"e-dan\"}", true, NULL, "", true},
    {"with what no event tells", GOOD("/oid", ""), NOW_MS, 1, "gil", "{\"oid\":\"e-gil\"}", true, NULL, "e-gil", true},
    {"with what no event tells, without the claim", GOOD("/oid", ""), NOW_MS, 1, "gil", "{}", true, NULL, "", true},
    {"with a third subject", GOOD("/oid", ""), NOW_MS, 1, "dan-3", "{\"oid\":\"e-dan\"}", true, NULL, "e-dan", false},
    {"a subject of another person", GOOD("/oid", ""), NOW_MS, 1, "ann", "{\"oid\":\"e-dan\"}", true, "belonged to another person",
     "", true},
    {"a subject of a deleted person", GOOD("/oid", ""), NOW_MS, 1, "eve", "{\"oid\":\"e-ann\"}", true,
     "belonged to another person", "", false},
    {"without the claim", GOOD("/oid", ""), NOW_MS, 1, "zoe", "{}", true, "the token has no /oid", "", false},
    {"without the claim, where strangers are admitted", GOOD("/oid", ",\"others\":\"admit\""), NOW_MS, 1, "zoe", "{}", true,
     "the token has no /oid", "", true},
    {"without the claim, known", GOOD("/oid", ""), NOW_MS, 1, "ann", "{}", true, NULL, "", true},
    {"a claim that is no text", GOOD("/oid", ""), NOW_MS, 1, "cyd-sub", "{\"oid\":7}", true, "the token has no /oid", "", false},
    {"elsewhere than at /token", GOOD("/oid", ""), NOW_MS, 1, "ann", "{\"oid\":\"e-ann\"}", false, "/token only", "", true},
    {"the document has expired", GOOD("/oid", ""), NOW_MS - 9 * DAY_MS, 1, "zoe", "{\"oid\":\"e-zoe\"}", true,
     "has not provisioned", "", false},
    {"the document is to come", GOOD("/oid", ""), NOW_MS + DAY_MS, 1, "zoe", "{\"oid\":\"e-zoe\"}", true, NULL, "", true},
    {"no document, a stranger", NULL, 0, 0, "zoe", "{}", false, NULL, "", true},
    {"no document, deactivated", NULL, 0, 0, "ben", "{}", true, "has deactivated this person: ask who keeps the directory", "",
     false},
};

static void check_login(void **state)
{
    const struct login_row *row = *state;
    OWNED(document) *document = row->body == NULL ? NULL : document_of(row->body, "", row->from_ms, row->days);
    OWNED(authz_snapshot) *snapshot = snapshot_of(document);
    OWNED_JSON payload = json_loads(row->claims, 0, NULL);
    const struct claims claims = {.issuer = ISSUER, .subject = row->subject};
    const struct scim_login login = {snapshot, payload, &claims, NOW_MS, row->is_at_token};
    char external_id[SCIM_SERVICE_TEXT_SIZE];
    struct error err = {0};

    assert_int_equal(scim_login(&login, external_id, &err).ok, row->says == NULL);
    if (row->says != NULL && strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
    if (row->says == NULL) assert_string_equal(external_id, row->links);
    assert_int_equal(scim_admits(snapshot, ISSUER, row->subject, NOW_MS), row->admitted);
    const struct principal principal = {.kind = PRINCIPAL_EXTERNAL, .issuer = ISSUER};
    struct principal named = principal;
    (void)snprintf(named.subject, sizeof named.subject, "%s", row->subject);
    assert_int_equal(authz_snapshot_is_live(snapshot, &named, NOW_MS), row->admitted);
}

static void persons_are_found(void **state)
{
    OWNED(document) *document = document_of(GOOD("/sub", ""), "", NOW_MS, 1);
    OWNED(authz_snapshot) *snapshot = snapshot_of(document);
    const struct scim_persons *persons = authz_snapshot_persons(snapshot);

    (void)state;
    assert_string_equal(scim_persons_of_external(persons, "https://j", "e-ann")->subject, "fay");
    assert_null(scim_persons_of_subject(persons, "https://j", "ann"));
    assert_null(scim_persons_of_subject(NULL, ISSUER, "ann"));
}

/* ---- who may provision ---- */

static void only_the_named_robot_provisions(void **state)
{
    OWNED(document) *document = document_of(GOOD("/sub", ""), "", NOW_MS, 1);
    struct principal robot = {.kind = PRINCIPAL_ROBOT}, other = {.kind = PRINCIPAL_ROBOT, .id = {{9}}};
    OWNED(authz_snapshot) *snapshot = snapshot_of(document);
    const struct trust_rules *rules = authz_snapshot_rules(snapshot);

    (void)state;
    assert_true(uuid_parse(bytes_of_text(ROBOT), &robot.id));
    assert_non_null(scim_entry_of_client(rules, &robot, NOW_MS));
    assert_null(scim_entry_of_client(rules, &other, NOW_MS));
    assert_null(scim_entry_of_client(rules, &robot, NOW_MS + 2 * DAY_MS));
    assert_null(scim_entry_of_client(rules, &robot, NOW_MS - 60001));
    assert_non_null(scim_entry_of_client(rules, &robot, NOW_MS - 60000)); /* the version before has ended already */
    assert_null(scim_entry_of_client(NULL, &robot, NOW_MS));
    assert_true(scim_entry_names(rules, &robot, NOW_MS) &&
                scim_entry_names(rules, &robot, NOW_MS - 9 * DAY_MS)); /* also before */
    assert_false(scim_entry_names(rules, &robot, NOW_MS + 2 * DAY_MS) || scim_entry_names(rules, &other, NOW_MS));
    assert_true(authz_snapshot_has_role(snapshot, &robot, NOW_MS));
    assert_false(authz_snapshot_has_role(snapshot, &other, NOW_MS));
}

static struct document *given;

static struct result make_rules(void *context, struct error *err)
{
    const struct pinned_document pinned = {given, 1};
    OWNED(scim_persons) *persons = NULL;
    OWNED(trust_rules) *rules = NULL;

    (void)context;
    TRY(scim_persons_new(people, COUNT(people), &persons, err));
    TRY(trust_rules_of(&pinned, 1, &rules, err));
    assert_int_equal(scim_entries_count(rules), 1);
    return SUCCESS;
}

static void memory_fails(void **state)
{
    (void)state;
    given = document_of(GOOD("/sub", ""), "", NOW_MS, 1);
    fail_each(make_rules, NULL, ERROR_NO_MEMORY, 6);
    document_free(given);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_head_is_bounded), cmocka_unit_test(persons_are_found),
                                       cmocka_unit_test(only_the_named_robot_provisions), cmocka_unit_test(memory_fails)};

    return RUN_TABLE(rows, check_row) + RUN_TABLE(logins, check_login) +
           cmocka_run_group_tests_name("services", tests, NULL, NULL);
}
