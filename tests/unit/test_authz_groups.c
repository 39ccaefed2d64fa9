/* Groups of a token compared with signed documents: which count, how many may, and what a snapshot has of a person already. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "authz/group_login.h"
#include "base/json.h"

#define NOW_MS INT64_C(1795000000000)
#define ISSUER "https://i"

/* "g0" to "gN" (from `first`), each with `roles` roles on acme/models/p0... */
static struct document *document_of(const char *name, unsigned first, unsigned groups, unsigned roles)
{
    struct buffer OWNED_BUFFER payload = BUFFER(GROUP_ROLES_BYTES_MAX);
    OWNED_JSON body = json_pack("{s:s, s:s, s:[]}", "issuer", ISSUER, "claim", "/groups", "grant");
    char group[16], on[64];

    for (unsigned i = 0; i < groups * roles; i++) {
        (void)snprintf(group, sizeof group, "g%u", first + i / roles);
        (void)snprintf(on, sizeof on, "acme/models/p%u", i % roles);
        assert_int_equal(json_array_append_new(json_object_get(body, "grant"),
                                               json_pack("{s:s, s:s, s:s}", "group", group, "role", "consumer", "on", on)),
                         0);
    }
    const struct document_parts parts = {.kind = DOCUMENT_GROUP_ROLES,
                                         .scope = "",
                                         .name = name,
                                         .version = 1,
                                         .effective_ms = NOW_MS - 1000,
                                         .expires_ms = NOW_MS + 100000000,
                                         .body = body};
    struct document *document = NULL;
    struct error err = {0};

    must(document_compose(&parts, &payload, &err), &err);
    must(document_read_payload(DOCUMENT_GROUP_ROLES, buffer_bytes(&payload), &document, &err), &err);
    return document;
}

static const struct issuer_record issuer = {
    .url = ISSUER,
    .audience = "us",
    .algorithms = 1U << JOSE_ES256,
    .types = 1,
    .lifetime_max_s = 600,
    .jwks =
        "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\",\"alg\":\"ES256\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
        "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}"};

/* All places were found, unless `placed` is false. The person "ann" has the first `bound` grants of the first document. */
static struct authz_snapshot *snapshot_of(struct document *const *documents, size_t count, bool placed, size_t bound,
                                          int64_t until_ms)
{
    struct pinned_document pinned[8];
    struct authz_binding bindings[GROUP_ROLES_GRANTS_MAX] = {0};
    OWNED(trust_rules) *rules = NULL;
    struct authz_snapshot *snapshot = NULL;
    struct error err = {0};

    for (size_t i = 0; i < count; i++) pinned[i] = (struct pinned_document){documents[i], i + 1};
    must(trust_rules_of(pinned, count, &rules, &err), &err);
    assert_int_equal(group_entries_count(rules), count);
    for (size_t i = 0; placed && i < count; i++)
        for (size_t k = 0; k < group_entries_at(rules, i)->roles.grant_count; k++)
            group_entry_place(group_entries_at(rules, i), k, &(struct uuid){{0xac}});
    for (size_t i = 0; i < bound; i++)
        bindings[i] = (struct authz_binding){.id = group_binding_id(group_entries_at(rules, 0), i, "ann"),
                                             .kind = PRINCIPAL_EXTERNAL,
                                             .issuer = ISSUER,
                                             .subject = "ann",
                                             .role = ROLE_CONSUMER,
                                             .scope = RESOURCE_ORGANISATION,
                                             .organisation = {{0xac}},
                                             .granted_by = GROUP_GIVER "a",
                                             .expires_ms = until_ms};
    const struct authz_parts parts = {
        .bindings = bindings, .binding_count = bound, .issuers = &issuer, .issuer_count = 1, .rules = rules};
    must(authz_snapshot_build(&parts, &snapshot, &err), &err);
    return snapshot;
}

static json_t *token_of(unsigned groups)
{
    json_t *payload = json_pack("{s:[]}", "groups");
    char group[16];

    for (unsigned i = 0; i < groups; i++) {
        (void)snprintf(group, sizeof group, "g%u", i);
        assert_int_equal(json_array_append_new(json_object_get(payload, "groups"), json_string(group)), 0);
    }
    return payload;
}

static struct result log_in(const struct authz_snapshot *snapshot, unsigned groups, int64_t age_ms, struct group_use *use,
                            struct error *err)
{
    OWNED_JSON payload = token_of(groups);
    const struct claims claims = {
        .issuer = ISSUER, .subject = "ann", .issued_s = (NOW_MS - age_ms) / 1000, .expires_s = NOW_MS / 1000 + 300};
    const struct group_login login = {snapshot, payload, &claims, NOW_MS, false};

    return group_login(&login, use, err);
}

static const struct row {
    const char *name;
    unsigned documents, groups_each, roles_each, token_groups; /* documents of different groups */
    bool is_placed;
    size_t bound;
    int64_t until_ms;
    size_t count, grants;
    bool is_new;
    const char *says; /* NULL: success */
    int64_t age_ms;   /* of the token */
} rows[] = {
    {"one group", 1, 1, 1, 1, true, 0, 0, 1, 1, true, NULL, 0},
    {"a group of no document", 1, 1, 1, 0, true, 0, 0, 0, 0, false, NULL, 0},
    {"more groups than the documents have", 1, 2, 1, 9, true, 0, 0, 2, 2, true, NULL, 0},
    {"a place that does not exist", 1, 1, 1, 1, false, 0, 0, 0, 0, false, NULL, 0},
    {"known already", 1, 2, 2, 2, true, 4, NOW_MS + GROUP_LOGIN_MS, 2, 4, false, NULL, 0},
    {"known, and not for long", 1, 2, 2, 2, true, 4, NOW_MS + GROUP_LOGIN_HALF - 1, 2, 4, true, NULL, 0},
    {"known, and not for long, by a newer token", 1, 2, 2, 2, true, 4, NOW_MS + GROUP_LOGIN_HALF - 1, 2, 4, false, NULL,
     GROUP_LOGIN_HALF + 1},
    {"one group more", 1, 2, 2, 2, true, 2, NOW_MS + GROUP_LOGIN_MS, 2, 4, true, NULL, 0},
    {"a group was left", 1, 2, 2, 1, true, 4, NOW_MS + GROUP_LOGIN_MS, 1, 2, true, NULL, 0},
    {"all groups were left", 1, 2, 2, 0, true, 4, NOW_MS + GROUP_LOGIN_MS, 0, 0, true, NULL, 0},
    {"as many groups as may be", 1, 64, 1, 64, true, 0, 0, 64, 64, true, NULL, 0},
    {"too many groups", 2, 64, 1, 65, true, 0, 0, 0, 0, false, "more than 64 groups", 0},
    {"as many roles as may be", 2, 2, 32, 4, true, 0, 0, 4, 128, true, NULL, 0},
    {"too many roles", 3, 2, 32, 5, true, 0, 0, 0, 0, false, "more than 128 roles", 0},
};

static void check_row(void **state)
{
    const struct row *row = *state;
    struct document *documents[8];
    struct group_use use = {.is_new = false};
    struct error err = {0};

    for (unsigned i = 0; i < row->documents; i++) {
        const char name[] = {(char)('a' + i), '\0'};
        documents[i] = document_of(name, i * row->groups_each, row->groups_each, row->roles_each);
    }
    OWNED(authz_snapshot) *snapshot = snapshot_of(documents, row->documents, row->is_placed, row->bound, row->until_ms);
    assert_int_equal(log_in(snapshot, row->token_groups, row->age_ms, &use, &err).ok, row->says == NULL);
    if (row->says == NULL) {
        assert_int_equal(use.count, row->count);
        assert_int_equal(use.grants, row->grants);
        assert_int_equal(use.is_new, row->is_new);
    } else {
        assert_int_equal(err.kind, ERROR_DENIED);
        assert_non_null(strstr(err.message, row->says));
    }
    for (unsigned i = 0; i < row->documents; i++) document_free(documents[i]);
}

/* A person has at most GROUP_GRANTS_MAX bindings by groups, whatever the rows say. */
static void bindings_are_bounded(void **state)
{
    struct document *documents[3];
    struct group_place places[3 * GROUP_ROLES_GRANTS_MAX] = {0};
    struct authz_binding bindings[GROUP_GRANTS_MAX];
    struct group_member ann = {ISSUER, "ann", false, NOW_MS, 0}, other = {"https://j", "ann", false, NOW_MS, 0},
                        bob = {ISSUER, "bob", false, INT64_MAX, 0};
    size_t count = 0, found = 0;

    (void)state;
    for (unsigned i = 0; i < 3; i++) documents[i] = document_of(i == 0 ? "a" : i == 1 ? "b" : "c", 0, 1, 64);
    OWNED(authz_snapshot) *snapshot = snapshot_of(documents, 3, true, 0, 0);
    const struct trust_rules *rules = authz_snapshot_rules(snapshot);
    for (size_t i = 0; i < group_entries_count(rules); i++)
        for (size_t k = 0; k < 64; k++)
            places[count++] = (struct group_place){
                .entry = group_entries_at(rules, i), .grant = k, .binding = {.expires_ms = NOW_MS + 100000000}};
    group_places_sort(places, count);
    assert_int_equal(group_bindings_of(places, count, &other, "g0", NULL), 0);
    assert_int_equal(group_bindings_of(places, count, &ann, "g1", NULL), 0);
    found = group_bindings_of(places, count, &ann, "g0", bindings);
    assert_int_equal(found, GROUP_GRANTS_MAX);
    assert_int_equal(group_bindings_of(places, count, &ann, "g0", NULL), 0);
    for (size_t i = 0; i < found; i++)
        for (size_t k = 0; k < i; k++) assert_false(uuid_equal(&bindings[i].id, &bindings[k].id));
    assert_string_equal(bindings[0].granted_by, GROUP_GIVER "a");
    assert_true(bindings[0].is_brief && bindings[0].expires_ms == NOW_MS); /* it ends with the login, and no one is warned */
    assert_int_equal(group_bindings_of(places, count, &bob, "g0", bindings), GROUP_GRANTS_MAX);
    assert_true(!bindings[0].is_brief && bindings[0].expires_ms == NOW_MS + 100000000);
    for (unsigned i = 0; i < 3; i++) document_free(documents[i]);
}

static struct document *given;

static struct result make_rules(void *context, struct error *err)
{
    const struct pinned_document pinned = {given, 1};
    OWNED(trust_rules) *rules = NULL;

    (void)context;
    TRY(trust_rules_of(&pinned, 1, &rules, err));
    assert_int_equal(group_entries_count(rules), 1);
    return SUCCESS;
}

static void memory_fails(void **state)
{
    (void)state;
    given = document_of("a", 0, 1, 1);
    fail_each(make_rules, NULL, ERROR_NO_MEMORY, 2);
    document_free(given);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bindings_are_bounded), cmocka_unit_test(memory_fails)};

    return RUN_TABLE(rows, check_row) + cmocka_run_group_tests_name("groups", tests, NULL, NULL);
}
