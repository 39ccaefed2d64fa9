/* Roles of groups: what a document may say, and which claims name a group. */
#include "tests/support/unit.h"

#include "base/json.h"
#include "documents/format/group_roles.h"

#define NOW_MS INT64_C(1795000000000)
#define DAY_MS INT64_C(86400000)

#define GRANT               "{\"group\":\"ds\",\"role\":\"publisher\",\"on\":\"acme/models\"}"
#define BODY(grants, more)  "{\"issuer\":\"https://id.example\",\"claim\":\"/groups\",\"grant\":[" grants "]" more "}"
#define OF(group, role, on) BODY("{\"group\":\"" group "\",\"role\":\"" role "\",\"on\":\"" on "\"}", "")

static const struct row {
    const char *name, *body, *says; /* says NULL: it is accepted */
} rows[] = {
    {"a grant", BODY(GRANT, ""), NULL},
    {"two grants", BODY(GRANT "," GRANT, ""), NULL},
    {"a path", OF("CN=ds,OU=bank", "consumer", "acme/models/team/*"), NULL},
    {"a separator", BODY(GRANT, ",\"separator\":\",\""), NULL},
    {"another separator", BODY(GRANT, ",\"separator\":\"a\""), "separator: a comma"},
    {"two separators", BODY(GRANT, ",\"separator\":\",;\""), "separator: a comma"},
    {"no separator", BODY(GRANT, ",\"separator\":\"\""), "separator: a comma"},
    {"no grant", BODY("", ""), "grant: 1 to 64"},
    {"no group", OF("", "consumer", "acme"), "group: 1 to 128"},
    {"a group with a control character", OF("a\\u0007", "consumer", "acme"), "group: 1 to 128"},
    {"an officer", OF("ds", "security-officer", "acme"), "makes no officer"},
    {"an administrator", OF("ds", "registry-admin", "acme"), "makes no officer"},
    {"a project's administrator", OF("ds", "project-admin", "acme"), "makes no officer"},
    {"an auditor", OF("ds", "auditor", "acme"), "makes no officer"},
    {"a role that is none", OF("ds", "king", "acme"), "role: publisher"},
    {"everywhere", OF("ds", "consumer", ""), "on: an organisation"},
    {"an asterisk for a project", OF("ds", "consumer", "acme/*"), "on: an organisation"},
    {"an issuer without TLS", "{\"issuer\":\"http://id.example\",\"claim\":\"/groups\",\"grant\":[" GRANT "]}",
     "issuer: the exact"},
    {"a claim that is no pointer", "{\"issuer\":\"https://id.example\",\"claim\":\"groups\",\"grant\":[" GRANT "]}",
     "claim: a JSON Pointer"},
    {"another member", BODY(GRANT, ",\"priority\":1"), "priority"},
};

static struct document *document_of(const char *text, const char *scope, int64_t days)
{
    struct buffer OWNED_BUFFER payload = BUFFER(GROUP_ROLES_BYTES_MAX);
    OWNED_JSON body = json_loads(text, 0, NULL);
    const struct document_parts parts = {.kind = DOCUMENT_GROUP_ROLES,
                                         .scope = scope,
                                         .name = "bank",
                                         .version = 1,
                                         .effective_ms = NOW_MS,
                                         .expires_ms = NOW_MS + days * DAY_MS,
                                         .body = body};
    struct document *document = NULL;
    struct error err = {0};

    assert_non_null(body);
    must(document_compose(&parts, &payload, &err), &err);
    must(document_read_payload(DOCUMENT_GROUP_ROLES, buffer_bytes(&payload), &document, &err), &err);
    return document;
}

static void check_row(void **state)
{
    const struct row *row = *state;
    OWNED(document) *document = document_of(row->body, "", 30);
    struct group_roles roles;
    struct error err = {0};

    assert_int_equal(group_roles_read(document, &roles, &err).ok, row->says == NULL);
    if (row->says != NULL && strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
}

static void the_head_is_bounded(void **state)
{
    OWNED(document) *scoped = document_of(BODY(GRANT, ""), "acme", 30);
    OWNED(document) *long_one = document_of(BODY(GRANT, ""), "", GROUP_ROLES_DAYS_MAX + 1);
    struct group_roles roles;
    struct error err = {0};

    (void)state;
    assert_false(group_roles_read(scoped, &roles, &err).ok);
    assert_non_null(strstr(err.message, "of the registry"));
    assert_false(group_roles_read(long_one, &roles, &err).ok);
    assert_non_null(strstr(err.message, "within 366 days"));
}

static const struct claim_row {
    const char *name, *claims, *claim;
    char separator;
    bool has;
} claim_rows[] = {
    {"in a list", "{\"groups\":[\"x\",\"ds\"]}", "/groups", '\0', true},
    {"one text", "{\"groups\":\"ds\"}", "/groups", '\0', true},
    {"deeper", "{\"realm_access\":{\"roles\":[\"ds\"]}}", "/realm_access/roles", '\0', true},
    {"in one text with others", "{\"groups\":\"x,ds\"}", "/groups", ',', true},
    {"not without a separator", "{\"groups\":\"x,ds\"}", "/groups", '\0', false},
    {"a list is not divided", "{\"groups\":[\"x,ds\"]}", "/groups", ',', false},
    {"a part of a name", "{\"groups\":\"dsx,xds\"}", "/groups", ',', false},
    {"absent", "{}", "/groups", ',', false},
    {"another claim", "{\"group\":[\"ds\"]}", "/groups", ',', false},
    {"a number", "{\"groups\":[7]}", "/groups", '\0', false},
    {"an object", "{\"groups\":{\"ds\":true}}", "/groups", '\0', false},
    {"in large letters", "{\"groups\":[\"DS\"]}", "/groups", '\0', false},
};

static void check_claim(void **state)
{
    const struct claim_row *row = *state;
    const struct group_roles roles = {.claim = row->claim, .separator = row->separator};
    OWNED_JSON claims = json_loads(row->claims, 0, NULL);

    assert_int_equal(group_roles_has(&roles, claims, "ds"), row->has);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_head_is_bounded)};

    return RUN_TABLE(rows, check_row) + RUN_TABLE(claim_rows, check_claim) +
           cmocka_run_group_tests_name("heads", tests, NULL, NULL);
}
