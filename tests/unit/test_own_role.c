/* Roles of an organisation's own: what a document may say. */
#include "tests/support/unit.h"

#include "base/json.h"
#include "documents/format/own_role.h"

#define NOW_MS INT64_C(1795000000000)
#define DAY_MS INT64_C(86400000)

#define BODY(actions, more) "{\"meaning\":\"labels and reads\",\"actions\":[" actions "]" more "}"
#define READS               "\"manifest.read\",\"blob.read\""

static const struct row {
    const char *name, *body, *says; /* says NULL: it is accepted */
} rows[] = {
    {"two actions", BODY(READS, ""), NULL},
    {"in one organisation", BODY(READS, ",\"organisation\":\"acme\""), NULL},
    {"in an organisation with all letters", BODY(READS, ",\"organisation\":\"0.a_b-c\""), NULL},
    {"no organisation", BODY(READS, ",\"organisation\":\"\""), "organisation: the name"},
    {"a project", BODY(READS, ",\"organisation\":\"acme/models\""), "organisation: the name"},
    {"the registry's own documents", BODY(READS, ",\"organisation\":\"_registry\""), "organisation: the name"},
    {"no action", BODY("", ""), "actions: 1 to 64"},
    {"an action that is none", BODY("\"model.read\"", ""), "\"model.read\" is no action"},
    {"a number", BODY("7", ""), "is no action"},
    {"an action twice", BODY("\"blob.read\",\"blob.read\"", ""), "is there twice"},
    {"the right to grant", BODY("\"binding.create\"", ""), "no right to grant"},
    {"the right to take", BODY("\"binding.revoke\"", ""), "no right to grant"},
    {"an approver's", BODY("\"key.approve\"", ""), "none that officers"},
    {"an officer's", BODY("\"policy.load\"", ""), "none that officers"},
    {"an officer's label", BODY("\"project.label\"", ""), "none that officers"},
    {"an erasure", BODY("\"audit.erase\"", ""), "none that officers"},
    {"a role's own", BODY("\"role.approve\"", ""), "none that officers"},
    {"an administrator's of an organisation", BODY("\"robot.create\"", ""), "none that officers"},
    {"an administrator's of the registry", BODY("\"issuer.trust\"", ""), "none that officers"},
    {"no meaning", "{\"meaning\":\"\",\"actions\":[" READS "]}", "meaning: one line"},
    {"a meaning with a line feed", "{\"meaning\":\"a\\nb\",\"actions\":[" READS "]}", "meaning: one line"},
    {"another member", BODY(READS, ",\"grants\":[]"), "grants"},
};

static struct document *document_of(const char *name, const char *text, const char *scope, int64_t days)
{
    struct buffer OWNED_BUFFER payload = BUFFER(OWN_ROLE_BYTES_MAX);
    OWNED_JSON body = json_loads(text, 0, NULL);
    const struct document_parts parts = {.kind = DOCUMENT_OWN_ROLE,
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
    must(document_read_payload(DOCUMENT_OWN_ROLE, buffer_bytes(&payload), &document, &err), &err);
    return document;
}

static void check_row(void **state)
{
    const struct row *row = *state;
    OWNED(document) *document = document_of("acme.curator", row->body, "", 30);
    struct own_role role;
    struct error err = {0};

    assert_int_equal(own_role_read(document, &role, &err).ok, row->says == NULL);
    if (row->says != NULL && strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
}

static void the_head_is_bounded(void **state)
{
    OWNED(document) *scoped = document_of("acme.curator", BODY(READS, ""), "acme", 30);
    OWNED(document) *long_one = document_of("acme.curator", BODY(READS, ""), "", OWN_ROLE_DAYS_MAX + 1);
    OWNED(document) *built_in = document_of("publisher", BODY(READS, ""), "", 30);
    struct own_role role;
    struct error err = {0};

    (void)state;
    assert_false(own_role_read(scoped, &role, &err).ok);
    assert_non_null(strstr(err.message, "of the registry"));
    assert_false(own_role_read(long_one, &role, &err).ok);
    assert_non_null(strstr(err.message, "within 732 days"));
    assert_false(own_role_read(built_in, &role, &err).ok);
    assert_non_null(strstr(err.message, "built-in roles have no dot"));
}

#define LETTERS_31 "abcdefghijklmnopqrstuvwxyz01234"

static const struct name_row {
    const char *name, *role;
    bool is_valid;
} name_rows[] = {
    {"two parts", "acme.curator", true},
    {"three parts", "acme.team-1.read_only", true},
    {"the longest", LETTERS_31 "." LETTERS_31, true},
    {"too long", LETTERS_31 "." LETTERS_31 "x", false},
    {"no dot, as built-in roles", "publisher", false},
    {"nothing", "", false},
    {"a dot alone", ".", false},
    {"nothing before the dot", ".curator", false},
    {"nothing behind the dot", "acme.", false},
    {"nothing between dots", "acme..curator", false},
    {"large letters", "acme.Curator", false},
    {"a blank, which ends a role in the log", "acme.cur ator", false},
    {"a slash", "acme/x.curator", false},
    {"an option", "-acme.curator", false},
};

static void check_name(void **state)
{
    const struct name_row *row = *state;

    assert_int_equal(own_role_name_is_valid(row->role), row->is_valid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_head_is_bounded)};

    return RUN_TABLE(rows, check_row) + RUN_TABLE(name_rows, check_name) +
           cmocka_run_group_tests_name("heads", tests, NULL, NULL);
}
