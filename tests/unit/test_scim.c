/* What requests of SCIM say: filters, paths, and what bodies and operations make of a person or a group. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "scim/group.h"

#define ID  "5f0c1c1e-0000-4000-8000-000000000001"
#define ID2 "5f0c1c1e-0000-4000-8000-000000000002"

/* ---- filters ---- */

static const struct filter_row {
    const char *name, *text;
    size_t count;                  /* 0: it is refused */
    enum scim_attribute attribute; /* of the first comparison */
    const char *value;
} filters[] = {
    {"a name", "userName eq \"ann\"", 1, SCIM_USER_NAME, "ann"},
    {"in any case", "USERNAME EQ \"Ann\"", 1, SCIM_USER_NAME, "Ann"},
    {"behind a URN", SCIM_USER_URN ":externalId eq \"7\"", 1, SCIM_EXTERNAL_ID, "7"},
    {"escapes", "displayName eq \"a\\\"b\\u00e9\"", 1, SCIM_DISPLAY_NAME, "a\"b\xc3\xa9"},
    {"two", "id eq \"x\" and active eq true", 2, SCIM_ID, "x"},
    {"members", "members[value eq \"m\"]", 1, SCIM_MEMBERS, "m"},
    {"members with a dot", "members.value eq \"m\"", 1, SCIM_MEMBERS, "m"},
    {"blanks", "  id  eq   \"x\"", 1, SCIM_ID, "x"},
    {"four", "id eq \"1\" and id eq \"2\" and id eq \"3\" and id eq \"4\"", 4, SCIM_ID, "1"},
    {"five", "id eq \"1\" and id eq \"2\" and id eq \"3\" and id eq \"4\" and id eq \"5\"", 0, SCIM_ID, NULL},
    {"nothing", "", 0, SCIM_ID, NULL},
    {"another operator", "userName sw \"a\"", 0, SCIM_ID, NULL},
    {"or", "id eq \"a\" or id eq \"b\"", 0, SCIM_ID, NULL},
    {"not", "not (id eq \"a\")", 0, SCIM_ID, NULL},
    {"no quotes", "userName eq ann", 0, SCIM_ID, NULL},
    {"no end", "userName eq \"ann", 0, SCIM_ID, NULL},
    {"an escape at the end", "userName eq \"ann\\", 0, SCIM_ID, NULL},
    {"no value", "userName eq", 0, SCIM_ID, NULL},
    {"a dangling and", "id eq \"a\" and", 0, SCIM_ID, NULL},
    {"no blank before and", "id eq \"a\"and id eq \"b\"", 2, SCIM_ID, "a"},
    {"a number", "active eq 1", 0, SCIM_ID, NULL},
    {"an attribute that is not kept", "emails.value eq \"a\"", 0, SCIM_ID, NULL},
    {"an attribute that is none", "king eq \"a\"", 0, SCIM_ID, NULL},
    {"a bracket of another attribute", "emails[value eq \"a\"]", 0, SCIM_ID, NULL},
    {"a bracket that is not closed", "members[value eq \"a\"", 0, SCIM_ID, NULL},
    {"a part of a part", "members.display eq \"a\"", 0, SCIM_ID, NULL},
    {"NUL", "userName eq \"a\\u0000\"", 0, SCIM_ID, NULL},
};

static void check_filter(void **state)
{
    const struct filter_row *row = *state;
    struct scim_filter filter = {.count = 0};
    struct error err = {0};

    if (row->count == 0) {
        const char *sentence = NULL;
        assert_false(scim_filter_read(row->text, &filter, &err).ok);
        assert_string_equal(scim_error_type(err.message, &sentence), "invalidFilter");
        return;
    }
    must(scim_filter_read(row->text, &filter, &err), &err);
    assert_int_equal(filter.count, row->count);
    assert_int_equal(filter.terms[0].attribute, row->attribute);
    assert_string_equal(filter.terms[0].text, row->value);
}

static void a_filter_is_bounded(void **state)
{
    char text[SCIM_FILTER_MAX + 32];
    struct scim_filter filter;
    struct error err = {0};

    (void)state;
    (void)snprintf(text, sizeof text, "userName eq \"%0*d\"", SCIM_NAME_MAX, 1);
    must(scim_filter_read(text, &filter, &err), &err);
    (void)snprintf(text, sizeof text, "userName eq \"%0*d\"", SCIM_NAME_MAX + 1, 1);
    assert_false(scim_filter_read(text, &filter, &err).ok);
    (void)snprintf(text, sizeof text, "userName eq \"%0*d\"", SCIM_FILTER_MAX, 1);
    assert_false(scim_filter_read(text, &filter, &err).ok);
    assert_non_null(strstr(err.message, "at most 2048"));
}

static struct result read_one(void *context, struct error *err)
{
    struct scim_filter filter;

    (void)context;
    return scim_filter_read("userName eq \"ann\"", &filter, err);
}

static void memory_fails(void **state)
{
    (void)state;
    fail_each(read_one, NULL, ERROR_NO_MEMORY, 2);
}

/* ---- paths ---- */

static const struct path_row {
    const char *name, *text;
    bool is_read;
    enum scim_attribute attribute;
    const char *value; /* NULL: none */
} paths[] = {
    {"an attribute", "active", true, SCIM_ACTIVE, NULL},
    {"behind a URN", SCIM_GROUP_URN ":members", true, SCIM_MEMBERS, NULL},
    {"a member", "members[value eq \"" ID "\"]", true, SCIM_MEMBERS, ID},
    {"not kept", "name.familyName", true, SCIM_NOT_KEPT, NULL},
    {"not kept, chosen", "emails[type eq \"work]\" and primary eq true].value", true, SCIM_NOT_KEPT, NULL},
    {"an extension", "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:manager", true, SCIM_NOT_KEPT, NULL},
    {"read only", "meta.version", true, SCIM_READ_ONLY, NULL},
    {"nothing", "", false, SCIM_ID, NULL},
    {"no attribute", "king", false, SCIM_ID, NULL},
    {"a part of a text", "userName.x", false, SCIM_ID, NULL},
    {"a member by its name", "members[display eq \"ann\"]", false, SCIM_ID, NULL},
    {"a part of a member", "members[value eq \"" ID "\"].display", false, SCIM_ID, NULL},
    {"a choice of a text", "userName[value eq \"a\"]", false, SCIM_ID, NULL},
    {"a bracket that is not closed", "emails[type eq \"work\"", false, SCIM_ID, NULL},
    {"a text that is not closed", "emails[type eq \"work]", false, SCIM_ID, NULL},
    {"more", "active active", false, SCIM_ID, NULL},
};

static void check_path(void **state)
{
    const struct path_row *row = *state;
    struct scim_path path = {.has_value = false};
    struct error err = {0};

    assert_int_equal(scim_path_read(row->text, &path, &err).ok, row->is_read);
    if (!row->is_read) {
        assert_non_null(strstr(err.message, "invalidPath: "));
        return;
    }
    assert_int_equal(path.attribute, row->attribute);
    assert_int_equal(path.has_value, row->value != NULL);
    if (row->value != NULL) assert_string_equal(path.value, row->value);
}

/* ---- persons ---- */

#define USER(more)   "{\"schemas\":[\"" SCIM_USER_URN "\"],\"userName\":\"ann\",\"externalId\":\"7\"" more "}"
#define OPS(list)    "{\"schemas\":[\"" SCIM_PATCH_URN "\"],\"Operations\":[" list "]}"
#define OP(op, more) "{\"op\":\"" op "\"" more "}"

static const struct user_row {
    const char *name, *body;
    bool is_patch;
    const char *says;         /* NULL: it is read */
    int active;               /* -1: it stays */
    const char *display_name; /* NULL: it stays */
} users[] = {
    {"the least", USER(""), false, NULL, -1, ""},
    {"active as a text", USER(",\"active\":\"False\""), false, NULL, 0, ""},
    {"attributes that are not kept",
     USER(",\"emails\":[{\"value\":\"a@b\"}],\"roles\":[\"admin\"],\"password\":\"x\",\"displayName\":\"A\""), false, NULL, -1,
     "A"},
    {"no schemas", "{\"userName\":\"ann\",\"externalId\":\"7\"}", false, "invalidSyntax: schemas", 0, NULL},
    {"no name", "{\"schemas\":[\"" SCIM_USER_URN "\"],\"externalId\":\"7\"}", false, "invalidValue: userName", 0, NULL},
    {"no id", "{\"schemas\":[\"" SCIM_USER_URN "\"],\"userName\":\"ann\"}", false, "invalidValue: externalId", 0, NULL},
    {"an empty id", "{\"schemas\":[\"" SCIM_USER_URN "\"],\"userName\":\"ann\",\"externalId\":\"\"}", false,
     "invalidValue: externalId", 0, NULL},
    {"a name twice", USER(",\"USERNAME\":\"eve\""), false, "invalidSyntax", 0, NULL},
    {"an attribute that is none", USER(",\"king\":true"), false, "invalidPath", 0, NULL},
    {"members", USER(",\"members\":[]"), false, "invalidPath", 0, NULL},
    {"active as a number", USER(",\"active\":1"), false, "invalidValue: active", 0, NULL},
    {"an operation", OPS(OP("replace", ",\"path\":\"active\",\"value\":false")), true, NULL, 0, NULL},
    {"the later one counts",
     OPS(OP("replace", ",\"path\":\"active\",\"value\":false") "," OP("Add", ",\"value\":{\"active\":true}")), true, NULL, 1,
     NULL},
    {"a name is removed", OPS(OP("remove", ",\"path\":\"displayName\"")), true, NULL, -1, ""},
    {"nothing that is kept", OPS(OP("add", ",\"path\":\"title\",\"value\":\"x\"")), true, NULL, -1, NULL},
    {"no operation", OPS(""), true, "invalidSyntax: Operations", 0, NULL},
    {"an operation that is none", OPS(OP("move", "")), true, "invalidSyntax: op", 0, NULL},
    {"removal of everything", OPS(OP("remove", "")), true, "noTarget", 0, NULL},
    {"removal of the id", OPS(OP("remove", ",\"path\":\"externalId\"")), true, "mutability", 0, NULL},
    {"no value", OPS(OP("add", ",\"path\":\"active\"")), true, "invalidValue", 0, NULL},
    {"a value that is no object", OPS(OP("add", ",\"value\":1")), true, "invalidValue", 0, NULL},
    {"a path that is no text", OPS(OP("add", ",\"path\":1,\"value\":1")), true, "invalidPath", 0, NULL},
    {"an operation that is no object", OPS("1"), true, "invalidSyntax", 0, NULL},
};

static void check_user(void **state)
{
    const struct user_row *row = *state;
    OWNED_JSON body = json_loads(row->body, 0, NULL);
    struct scim_user_edit edit = {.is_whole = false};
    struct error err = {0};

    assert_non_null(body);
    const struct result result = row->is_patch ? scim_user_patch(body, &edit, &err) : scim_user_read(body, &edit, &err);
    assert_int_equal(result.ok, row->says == NULL);
    if (row->says != NULL) {
        if (strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
        return;
    }
    assert_int_equal(edit.has_active, row->active >= 0);
    assert_int_equal(scim_user_ends(&edit), row->active == 0);
    assert_int_equal(edit.has_display_name, row->display_name != NULL);
    if (row->display_name != NULL) assert_string_equal(edit.display_name, row->display_name);
    if (edit.is_whole && row->active < 0) assert_true(edit.active);
}

/* ---- groups ---- */

#define GROUP(more) "{\"schemas\":[\"" SCIM_GROUP_URN "\"],\"displayName\":\"all\"" more "}"
#define MEMBER(id)  "{\"value\":\"" id "\"}"

static const struct group_row {
    const char *name, *body;
    bool is_patch;
    const char *says;
    bool replaces;
    size_t added, removed;
} groups[] = {
    {"without members", GROUP(""), false, NULL, true, 0, 0},
    {"with members", GROUP(",\"members\":[" MEMBER(ID) "," MEMBER(ID2) "," MEMBER(ID) "]"), false, NULL, true, 2, 0},
    {"added", OPS(OP("add", ",\"path\":\"members\",\"value\":[" MEMBER(ID) "]")), true, NULL, false, 1, 0},
    {"added and removed",
     OPS(OP("add", ",\"path\":\"members\",\"value\":" MEMBER(ID)) "," OP("remove",
                                                                         ",\"path\":\"members[value eq \\\"" ID "\\\"]\"")),
     true, NULL, false, 0, 1},
    {"removed by a value", OPS(OP("remove", ",\"path\":\"members\",\"value\":[" MEMBER(ID) "]")), true, NULL, false, 0, 1},
    {"all removed", OPS(OP("add", ",\"path\":\"members\",\"value\":[" MEMBER(ID) "]") "," OP("remove", ",\"path\":\"members\"")),
     true, NULL, true, 0, 0},
    {"replaced, then added",
     OPS(OP("replace", ",\"path\":\"members\",\"value\":[" MEMBER(ID) "]") "," OP("add",
                                                                                  ",\"value\":{\"members\":[" MEMBER(ID2) "]}")),
     true, NULL, true, 2, 0},
    {"no name", "{\"schemas\":[\"" SCIM_GROUP_URN "\"]}", false, "displayName is required", false, 0, 0},
    {"a member that is no id", GROUP(",\"members\":[{\"value\":\"ann\"}]"), false, "invalidValue: a member", false, 0, 0},
    {"a group in it", GROUP(",\"members\":[{\"value\":\"" ID "\",\"type\":\"Group\"}]"), false, "groups in groups", false, 0, 0},
    {"members that are no list", GROUP(",\"members\":7"), false, "members is a list", false, 0, 0},
    {"a person's attribute", GROUP(",\"active\":true"), false, "invalidPath", false, 0, 0},
    {"one member is replaced", OPS(OP("replace", ",\"path\":\"members[value eq \\\"" ID "\\\"]\",\"value\":1")), true,
     "invalidPath", false, 0, 0},
    {"the name is removed", OPS(OP("remove", ",\"path\":\"displayName\"")), true, "mutability", false, 0, 0},
};

static void check_group(void **state)
{
    const struct group_row *row = *state;
    OWNED_JSON body = json_loads(row->body, 0, NULL);
    struct scim_group_edit edit = {.members = NULL};
    struct uuid ids[4];
    struct error err = {0};

    assert_non_null(body);
    const struct result result = row->is_patch ? scim_group_patch(body, &edit, &err) : scim_group_read(body, &edit, &err);
    assert_int_equal(result.ok, row->says == NULL);
    if (row->says != NULL && strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
    if (row->says == NULL) {
        assert_int_equal(edit.replaces_members, row->replaces);
        assert_int_equal(scim_group_ids(&edit, true, ids), row->added);
        assert_int_equal(scim_group_ids(&edit, false, ids), row->removed);
    }
    scim_group_edit_done(&edit);
}

static void many_operations_are_refused(void **state)
{
    OWNED_JSON body = json_pack("{s:[s], s:[]}", "schemas", SCIM_PATCH_URN, "Operations");
    struct scim_user_edit edit;
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < SCIM_OPERATIONS_MAX; i++)
        assert_int_equal(json_array_append_new(json_object_get(body, "Operations"),
                                               json_pack("{s:s, s:s, s:b}", "op", "add", "path", "active", "value", 1)),
                         0);
    must(scim_user_patch(body, &edit, &err), &err);
    assert_int_equal(json_array_append_new(json_object_get(body, "Operations"), json_object()), 0);
    assert_false(scim_user_patch(body, &edit, &err).ok);
    assert_non_null(strstr(err.message, "tooMany: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_filter_is_bounded), cmocka_unit_test(many_operations_are_refused),
                                       cmocka_unit_test(memory_fails)};

    return RUN_TABLE(filters, check_filter) + RUN_TABLE(paths, check_path) + RUN_TABLE(users, check_user) +
           RUN_TABLE(groups, check_group) + cmocka_run_group_tests_name("bounds", tests, NULL, NULL);
}
