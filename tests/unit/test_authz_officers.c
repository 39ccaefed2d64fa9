/* Which bindings count by documents of officers, and that the last administrator can't be ended. */
#include "tests/support/unit.h"

#include "authz/scim_persons.h"
#include "authz/snapshot_priv.h"
#include "authz/trust_rules_priv.h"
#include "base/clock.h"
#include "base/json.h"

#define DAY_MS INT64_C(86400000)
#define KEY    "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
#define OTHER  "kNzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9U"

static const struct uuid registry, acme = {{0xac}}, again = {{0xa9}};

static const struct principal alice = {.kind = PRINCIPAL_EXTERNAL, .issuer = "https://i", .subject = "alice"};
static const struct principal namesake = {.kind = PRINCIPAL_EXTERNAL, .issuer = "https://j", .subject = "alice"};
static const struct principal robot = {.kind = PRINCIPAL_ROBOT, .id = {{1}}},
                              robot_again = {.kind = PRINCIPAL_ROBOT, .id = {{2}}},
                              of_namesake = {.kind = PRINCIPAL_ROBOT, .id = {{3}}},
                              of_both = {.kind = PRINCIPAL_ROBOT, .id = {{4}}}; /* alice has seen its secret, too */

struct wanted {
    const char *name;
    const struct principal *who;
    const char *role, *on;
    const char *withdrawn; /* NULL: version 1 */
    int64_t days;
};

static struct document *compose(enum document_kind kind, const struct document_parts *parts)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192);
    struct document *document = NULL;
    struct error err = {0};

    must(document_compose(parts, &payload, &err), &err);
    must(document_read_payload(kind, buffer_bytes(&payload), &document, &err), &err);
    return document;
}

static struct document *document_of(const struct wanted *wanted)
{
    char key[PRINCIPAL_KEY_SIZE];

    principal_key(wanted->who, key);
    const struct officer officer = {key, KEY, wanted->role, wanted->on, 0};
    OWNED_JSON body = wanted->withdrawn == NULL ? officer_body(&officer) : json_object();
    const struct document_parts parts = {.kind = DOCUMENT_OFFICERS,
                                         .scope = "",
                                         .name = wanted->name,
                                         .version = wanted->withdrawn == NULL ? 1 : 2,
                                         .effective_ms = clock_wall_ms() - 1000,
                                         .expires_ms = clock_wall_ms() + wanted->days * DAY_MS,
                                         .withdrawn = wanted->withdrawn,
                                         .body = body};
    return compose(DOCUMENT_OFFICERS, &parts);
}

/* The enrolment of a key, as far as a list of trust rules looks at it. */
static struct document *key_of(const char *name, const char *withdrawn, int64_t days)
{
    OWNED_JSON body = json_object();
    const struct document_parts parts = {.kind = DOCUMENT_SIGNING_KEY,
                                         .scope = "",
                                         .name = name,
                                         .version = withdrawn == NULL ? 1 : 2,
                                         .effective_ms = clock_wall_ms() - 1000,
                                         .expires_ms = clock_wall_ms() + days * DAY_MS,
                                         .withdrawn = withdrawn,
                                         .body = body};
    return compose(DOCUMENT_SIGNING_KEY, &parts);
}

/* An administrator of another name demands documents; the first one is that of the row. */
static struct trust_rules *rules_of(const struct wanted *wanted, const struct document *key)
{
    static const struct wanted demanding = {"registry-admin.other", &robot_again, "registry-admin", "", NULL, 30};
    OWNED(document) *document = document_of(wanted);
    OWNED(document) *other = document_of(&demanding);
    const struct pinned_document pinned[] = {{document, 7}, {other, 8}, {key, 6}};
    struct trust_rules *rules = NULL;
    struct error err = {0};

    must(trust_rules_of(pinned, COUNT(pinned), &rules, &err), &err);
    for (size_t i = 0; i < officer_entries_count(rules); i++)
        if (strcmp(officer_entries_at(rules, i)->officer.on, "acme") == 0)
            entry_place_note(&officer_entries_at(rules, i)->place, &acme);
    return rules;
}

static struct authz_binding binding_of(const struct principal *who, enum role role, const struct uuid *organisation)
{
    struct authz_binding binding = {.kind = who->kind, .robot = who->id, .role = role, .organisation = *organisation};

    memcpy(binding.issuer, who->issuer, sizeof binding.issuer);
    memcpy(binding.subject, who->subject, sizeof binding.subject);
    binding.scope = binding_scope(&binding);
    return binding;
}

#define ALICE_IS(role, on)                        \
    {                                             \
        role ".alice", &alice, role, on, NULL, 30 \
    }

static const struct row {
    const char *name;
    struct wanted wanted;
    const char *key, *key_withdrawn;
    int64_t key_days;
    const struct principal *who;
    enum role role;
    const struct uuid *organisation;
    bool counts;
} rows[] = {
    {"an administrator", ALICE_IS("registry-admin", ""), KEY, NULL, 30, &alice, ROLE_REGISTRY_ADMIN, &registry, true},
    {"an officer of an organisation", ALICE_IS("security-officer", "acme"), KEY, NULL, 30, &alice, ROLE_SECURITY_OFFICER, &acme,
     true},
    {"an officer of the registry", ALICE_IS("security-officer", ""), KEY, NULL, 30, &alice, ROLE_SECURITY_OFFICER, &registry,
     true},
    {"an administrator of an organisation", ALICE_IS("org-admin", "acme"), KEY, NULL, 30, &alice, ROLE_ORG_ADMIN, &acme, true},
    {"a robot of one machine",
     {"registry-admin.r", &robot, "registry-admin", "", NULL, 30},
     KEY,
     NULL,
     30,
     &robot,
     ROLE_REGISTRY_ADMIN,
     &registry,
     true},
    {"a role that decides over nobody", ALICE_IS("org-admin", "acme"), KEY, NULL, 30, &namesake, ROLE_PROJECT_ADMIN, &acme, true},
    {"a row alone", ALICE_IS("registry-admin", ""), KEY, NULL, 30, &namesake, ROLE_REGISTRY_ADMIN, &registry, false},
    {"the name again, at another issuer", ALICE_IS("org-admin", "acme"), KEY, NULL, 30, &namesake, ROLE_ORG_ADMIN, &acme, false},
    {"the robot's name again",
     {"registry-admin.r", &robot, "registry-admin", "", NULL, 30},
     KEY,
     NULL,
     30,
     &namesake,
     ROLE_REGISTRY_ADMIN,
     &registry,
     false},
    {"another role", ALICE_IS("security-officer", ""), KEY, NULL, 30, &alice, ROLE_REGISTRY_ADMIN, &registry, false},
    {"a wider place", ALICE_IS("security-officer", "acme"), KEY, NULL, 30, &alice, ROLE_SECURITY_OFFICER, &registry, false},
    {"a narrower place", ALICE_IS("security-officer", ""), KEY, NULL, 30, &alice, ROLE_SECURITY_OFFICER, &acme, false},
    {"the organisation's name again", ALICE_IS("org-admin", "acme"), KEY, NULL, 30, &alice, ROLE_ORG_ADMIN, &again, false},
    {"an organisation that is not found", ALICE_IS("org-admin", "gone"), KEY, NULL, 30, &alice, ROLE_ORG_ADMIN, &acme, false},
    {"a withdrawn document",
     {"registry-admin.alice", &alice, "registry-admin", "", "she left", 30},
     KEY,
     NULL,
     30,
     &alice,
     ROLE_REGISTRY_ADMIN,
     &registry,
     false},
    {"one that has ended",
     {"registry-admin.alice", &alice, "registry-admin", "", NULL, 0},
     KEY,
     NULL,
     30,
     &alice,
     ROLE_REGISTRY_ADMIN,
     &registry,
     false},
    {"a withdrawn key", ALICE_IS("registry-admin", ""), KEY, "stolen", 30, &alice, ROLE_REGISTRY_ADMIN, &registry, false},
    {"a key that has ended", ALICE_IS("registry-admin", ""), KEY, NULL, 0, &alice, ROLE_REGISTRY_ADMIN, &registry, false},
    {"a key that is not there", ALICE_IS("registry-admin", ""), OTHER, NULL, 30, &alice, ROLE_REGISTRY_ADMIN, &registry, false},
};

static void check_row(void **state)
{
    const struct row *row = *state;
    OWNED(document) *key = key_of(row->key, row->key_withdrawn, row->key_days);
    OWNED(trust_rules) *rules = rules_of(&row->wanted, key);
    struct authz_binding binding = binding_of(row->who, row->role, row->organisation);
    const int64_t now_ms = clock_wall_ms();

    assert_true(officers_are_demanded(rules));
    officers_judge(rules, &binding, now_ms);
    assert_int_equal(!binding.is_unsigned, row->counts);
    assert_int_equal(binding_given(&binding), row->role);
    assert_int_equal(binding.role, row->counts ? row->role : ROLE_UNSIGNED_OFFICER);
    if (row->counts && role_is_of_officers(row->role))
        assert_true(binding.expires_ms > now_ms && binding.expires_ms <= now_ms + 30 * DAY_MS);
}

static void the_first_document_of_an_administrator_ends_that_bindings_count_alone(void **state)
{
    static const struct wanted officer = {"security-officer.alice", &alice, "security-officer", "", NULL, 30},
                               administrator = {"registry-admin.alice", &alice, "registry-admin", "", "over", 30};
    OWNED(document) *first = document_of(&officer);
    OWNED(document) *second = document_of(&administrator);
    const struct pinned_document before[] = {{first, 1}}, after[] = {{first, 1}, {second, 2}};
    struct authz_binding binding = binding_of(&namesake, ROLE_REGISTRY_ADMIN, &registry);
    OWNED(trust_rules) *early = NULL;
    OWNED(trust_rules) *late = NULL;
    struct error err = {0};

    (void)state;
    must(trust_rules_of(before, 1, &early, &err), &err);
    must(trust_rules_of(after, 2, &late, &err), &err);
    assert_false(officers_are_demanded(NULL) || officers_are_demanded(early));
    officers_judge(early, &binding, clock_wall_ms());
    assert_false(binding.is_unsigned);
    assert_true(officers_are_demanded(late)); /* also when it was withdrawn */
    officers_judge(late, &binding, clock_wall_ms());
    assert_true(binding.is_unsigned);
}

/* The database differs from what sijil-keyd has pinned: a document may be missing, and none can be trusted. */
static void no_binding_counts_while_documents_are_not_sound(void **state)
{
    OWNED(trust_rules) *rules = NULL;
    struct error err = {0};

    (void)state;
    must(trust_rules_of(NULL, 0, &rules, &err), &err);
    rules->kinds[DOCUMENT_OFFICERS].is_sound = false;
    assert_false(officers_are_demanded(rules)); /* sijil-keyd has pinned none */
    rules->officers_pinned = 9;
    assert_true(officers_are_demanded(rules));
}

/* What a row gives that no document makes count. */
static void an_unsigned_officer_posts_what_others_have_signed(void **state)
{
    static const enum action all[] = {ACTION_KEY_ENROLL,  ACTION_KEY_APPROVE,    ACTION_KEY_REPLACE,     ACTION_KEY_REVOKE,
                                      ACTION_KEY_DISCARD, ACTION_OFFICERS_DRAFT, ACTION_OFFICERS_APPROVE};
    size_t permitted = 0;

    (void)state;
    for (enum action action = 0; action < ACTION_COUNT; action++) permitted += role_permits(ROLE_UNSIGNED_OFFICER, action);
    assert_int_equal(permitted, COUNT(all));
    for (size_t i = 0; i < COUNT(all); i++) assert_true(role_permits(ROLE_UNSIGNED_OFFICER, all[i]));
    for (enum resource_kind kind = RESOURCE_SYSTEM; kind <= RESOURCE_REPOSITORY; kind++)
        assert_false(role_allows_scope(ROLE_UNSIGNED_OFFICER, kind));
    assert_false(role_may_know_existence(ROLE_UNSIGNED_OFFICER));
}

/* ---- the last administrator ---- */

enum { ALICES, ROBOTS, OWN_BINDINGS };

static struct person person_of(const struct principal *principal)
{
    char key[PRINCIPAL_KEY_SIZE];

    principal_key(principal, key);
    return person_new(key, principal->issuer);
}

static struct authz_snapshot *snapshot_of(const struct trust_rules *rules, enum role role, const struct uuid *place)
{
    const struct person first = person_of(&namesake), second = person_of(&alice);
    const struct authz_robot robots[] = {
        {.id = robot.id, .name = "robot$admin", .enabled = true, .expires_ms = INT64_MAX},
        {.id = of_namesake.id, .name = "robot$one", .enabled = true, .expires_ms = INT64_MAX, .persons = {1, .each = {first}}},
        {.id = of_both.id,
         .name = "robot$both",
         .enabled = true,
         .expires_ms = INT64_MAX,
         .persons = {2, .each = {first, second}}}};
    struct authz_binding bindings[OWN_BINDINGS] = {binding_of(&alice, role, place), binding_of(&robot, role, place)};
    struct authz_snapshot *snapshot = NULL;
    struct error err = {0};

    principal_key(&namesake, bindings[ROBOTS].granted_by);
    bindings[ROBOTS].granting_person = first;
    bindings[ALICES].id.bytes[0] = 0xa1;
    bindings[ROBOTS].id.bytes[0] = 0xb0;
    for (size_t i = 0; i < OWN_BINDINGS; i++) officers_judge(rules, &bindings[i], clock_wall_ms());
    const struct authz_parts parts = {
        .robots = robots, .robot_count = COUNT(robots), .bindings = bindings, .binding_count = OWN_BINDINGS, .rules = rules};
    must(authz_snapshot_build(&parts, &snapshot, &err), &err);
    return snapshot;
}

static const struct guard_row {
    const char *name;
    enum action action;
    const char *detail;
    bool is_refused;
} guard_rows[] = {
    {"its binding", ACTION_BINDING_REVOKE, "b0000000-0000-0000-0000-000000000000", true},
    {"its robot", ACTION_ROBOT_REVOKE, "01000000-0000-0000-0000-000000000000", true},
    {"its document", ACTION_OFFICERS_REVOKE, "registry-admin.r", true},
    {"another binding", ACTION_BINDING_REVOKE, "a1000000-0000-0000-0000-000000000000", false},
    {"another document", ACTION_OFFICERS_REVOKE, "registry-admin.other", false},
    {"another robot", ACTION_ROBOT_REVOKE, "02000000-0000-0000-0000-000000000000", false},
    {"what ends nobody", ACTION_OFFICERS_APPROVE, "registry-admin.r", false},
};

/* Alice has a binding and no document, so she is not left. */
static void check_guard(void **state)
{
    static const struct wanted of_robot = {"registry-admin.r", &robot, "registry-admin", "", NULL, 30};
    const struct guard_row *row = *state;
    OWNED(document) *key = key_of(KEY, NULL, 30);
    OWNED(trust_rules) *rules = rules_of(&of_robot, key);
    OWNED(authz_snapshot) *snapshot = snapshot_of(rules, ROLE_REGISTRY_ADMIN, &registry);
    struct resource resource = {.kind = RESOURCE_SYSTEM};

    (void)snprintf(resource.detail, sizeof resource.detail, "%s", row->detail);
    const struct authz_refusal *why = last_officer_refusal(snapshot, &alice, row->action, &resource, clock_wall_ms());
    assert_int_equal(why != NULL, row->is_refused);
    if (why != NULL) assert_string_equal(why->rule, "SYS-LAST-OFFICER");
}

static const struct issuer_record issuer = {
    .id = {{5}},
    .url = "https://i",
    .audience = "us",
    .algorithms = 1U << JOSE_ES256,
    .types = 1,
    .lifetime_max_s = 600,
    .jwks =
        "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\",\"alg\":\"ES256\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
        "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}"};

/* A directory ends alice. The robot's binding is a row, unless its document is the one that is there. */
static void a_row_is_no_administrator_that_is_left(void **state)
{
    static const struct wanted of_alice = ALICE_IS("registry-admin", "");
    static const struct wanted of_robot = {"registry-admin.r", &robot, "registry-admin", "", NULL, 30};
    static const struct {
        const struct wanted *signed_one;
        const char *issuer, *external_id;
        bool is_active, is_last;
    } ends[] = {{&of_alice, "https://i", "4711", true, true},
                {&of_alice, "https://i", "4712", true, false},
                {&of_alice, "https://j", "4711", true, false},
                {&of_alice, "https://i", "4711", false, false},
                {&of_robot, "https://i", "4711", true, false}};
    OWNED(document) *key = key_of(KEY, NULL, 30);
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(ends); i++) {
        const struct scim_person person = {
            .issuer = "https://i", .external_id = "4711", .subject = "alice", .is_active = ends[i].is_active, false};
        OWNED(trust_rules) *rules = rules_of(ends[i].signed_one, key);
        OWNED(scim_persons) *persons = NULL;
        OWNED(authz_snapshot) *snapshot = NULL;
        struct authz_binding bindings[] = {binding_of(&alice, ROLE_REGISTRY_ADMIN, &registry),
                                           binding_of(&robot, ROLE_REGISTRY_ADMIN, &registry)};
        const struct authz_robot robots[] = {{.id = robot.id, .name = "robot$admin", .enabled = true, .expires_ms = INT64_MAX}};
        must(scim_persons_new(&person, 1, &persons, &err), &err);
        for (size_t k = 0; k < COUNT(bindings); k++) {
            bindings[k].id.bytes[0] = (uint8_t)(k + 1);
            officers_judge(rules, &bindings[k], clock_wall_ms());
        }
        const struct authz_parts parts = {.robots = robots,
                                          .robot_count = COUNT(robots),
                                          .bindings = bindings,
                                          .binding_count = COUNT(bindings),
                                          .issuers = &issuer,
                                          .issuer_count = 1,
                                          .rules = rules,
                                          .persons = persons};
        must(authz_snapshot_build(&parts, &snapshot, &err), &err);
        assert_int_equal(authz_scim_ends_administrators(snapshot, ends[i].issuer, ends[i].external_id, clock_wall_ms()),
                         ends[i].is_last);
    }
}

/* ---- the last security officer ---- */

static const struct officer_row {
    const char *name;
    enum action action;
    const char *detail;
    const struct principal *by;
    bool is_refused;
} officer_rows[] = {
    {"its binding, by another", ACTION_BINDING_REVOKE, "b0000000-0000-0000-0000-000000000000", &alice, true},
    {"its binding, by who appointed it", ACTION_BINDING_REVOKE, "b0000000-0000-0000-0000-000000000000", &namesake, false},
    {"its binding, by a robot of who appointed it", ACTION_BINDING_REVOKE, "b0000000-0000-0000-0000-000000000000", &of_namesake,
     false},
    {"its binding, by a robot that may be another's hand", ACTION_BINDING_REVOKE, "b0000000-0000-0000-0000-000000000000",
     &of_both, true},
    {"its robot, by another", ACTION_ROBOT_REVOKE, "01000000-0000-0000-0000-000000000000", &alice, true},
    {"a row without a document", ACTION_BINDING_REVOKE, "a1000000-0000-0000-0000-000000000000", &alice, false},
    {"its document", ACTION_OFFICERS_REVOKE, "security-officer.r", &alice, false},
};

/* A row of alice without a document was one that was left, so the officer could be ended. */
static void check_officer(void **state)
{
    static const struct wanted of_robot = {"security-officer.r", &robot, "security-officer", "acme", NULL, 30};
    const struct officer_row *row = *state;
    OWNED(document) *key = key_of(KEY, NULL, 30);
    OWNED(trust_rules) *rules = rules_of(&of_robot, key);
    OWNED(authz_snapshot) *snapshot = snapshot_of(rules, ROLE_SECURITY_OFFICER, &acme);
    struct resource resource = {.kind = RESOURCE_ORGANISATION, .organisation = acme};

    (void)snprintf(resource.detail, sizeof resource.detail, "%s", row->detail);
    const struct authz_refusal *why = last_officer_refusal(snapshot, row->by, row->action, &resource, clock_wall_ms());
    assert_int_equal(why != NULL, row->is_refused);
    if (why != NULL) assert_non_null(strstr(why->message, "last security officer"));
}

/* Two administrators could end the two officers of an organisation at once, one of them by a change that was compared with changes of the registry alone. */
static void an_end_depends_on_the_officers_of_other_places(void **state)
{
    static const struct wanted of_robot = {"security-officer.r", &robot, "security-officer", "acme", NULL, 30};
    static const char its_robot[] = "01000000-0000-0000-0000-000000000000", other[] = "02000000-0000-0000-0000-000000000000";
    static const struct {
        enum action action;
        const struct uuid *organisation;
        const char *detail;
        bool depends;
    } ends[] = {{ACTION_ROBOT_REVOKE, &registry, its_robot, true},   {ACTION_ROBOT_REVOKE, &acme, its_robot, false},
                {ACTION_ROBOT_REVOKE, &again, its_robot, false},     {ACTION_ROBOT_REVOKE, &registry, other, false},
                {ACTION_ISSUER_REMOVE, &registry, its_robot, false}, {ACTION_ROBOT_CREATE, &registry, its_robot, false}};
    OWNED(document) *key = key_of(KEY, NULL, 30);
    OWNED(trust_rules) *rules = rules_of(&of_robot, key);
    OWNED(authz_snapshot) *snapshot = snapshot_of(rules, ROLE_SECURITY_OFFICER, &acme);

    (void)state;
    for (size_t i = 0; i < COUNT(ends); i++) {
        struct resource resource = {.organisation = *ends[i].organisation};
        (void)snprintf(resource.detail, sizeof resource.detail, "%s", ends[i].detail);
        assert_int_equal(authz_ends_officer_elsewhere(snapshot, ends[i].action, &resource, clock_wall_ms()), ends[i].depends);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_no_administrator_that_is_left),
        cmocka_unit_test(an_end_depends_on_the_officers_of_other_places),
        cmocka_unit_test(the_first_document_of_an_administrator_ends_that_bindings_count_alone),
        cmocka_unit_test(no_binding_counts_while_documents_are_not_sound),
        cmocka_unit_test(an_unsigned_officer_posts_what_others_have_signed),
    };
    const int failed = RUN_TABLE(rows, check_row) + RUN_TABLE(guard_rows, check_guard) + RUN_TABLE(officer_rows, check_officer);

    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
