/* The person behind a principal, and its organisation. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "authz/person.h"
#include "authz/snapshot.h"

#define NOW INT64_C(1800000000000)

static struct uuid id_of(char letter)
{
    struct uuid id = {{0}};

    if (letter != '-') id.bytes[0] = (uint8_t)letter;
    return id;
}

static struct principal subject_of(const char *issuer, const char *subject)
{
    struct principal principal = {.kind = PRINCIPAL_EXTERNAL};

    (void)snprintf(principal.issuer, sizeof principal.issuer, "%s", issuer);
    (void)snprintf(principal.subject, sizeof principal.subject, "%s", subject);
    return principal;
}

/*
 * An issuer's subject belongs to the only organisation that gave it a role; with roles of several, or of the registry, to none.
 */
static void a_subject_has_a_home(void **state)
{
    static const struct {
        const char *organisations;
        int64_t now_ms;
        char home;
    } rows[] = {{"", NOW, '-'},   {"A", NOW, 'A'}, {"AB", NOW, '-'}, {"AB", NOW + 1, 'A'},
                {"AA", NOW, 'A'}, {"B", NOW, 'B'}, {"-", NOW, '-'},  {"A-", NOW, '-'}};
    const struct principal subject = subject_of("https://i", "ci"), robot = {.kind = PRINCIPAL_ROBOT, .organisation = id_of('B')};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct authz_binding bindings[2];
        struct authz_parts parts = {.bindings = bindings};
        OWNED(authz_snapshot) *made = NULL;
        struct error err = {0};
        for (const char *each = rows[i].organisations; *each != '\0'; each++) {
            bindings[parts.binding_count] = (struct authz_binding){.id = id_of((char)(1 + parts.binding_count)),
                                                                   .kind = PRINCIPAL_EXTERNAL,
                                                                   .issuer = "https://i",
                                                                   .subject = "ci",
                                                                   .role = ROLE_AUDITOR,
                                                                   .organisation = id_of(*each),
                                                                   .expires_ms = *each == 'B' ? NOW + 1 : 0};
            bindings[parts.binding_count++].scope = *each == '-' ? RESOURCE_SYSTEM : RESOURCE_ORGANISATION;
        }
        assert_true(authz_snapshot_build(&parts, &made, &err).ok);
        const struct uuid home = authz_snapshot_home(made, &subject, rows[i].now_ms), wanted = id_of(rows[i].home);
        if (!uuid_equal(&home, &wanted)) fail_msg("row %zu", i);
        const struct uuid own = authz_snapshot_home(made, &robot, NOW);
        assert_true(uuid_equal(&own, &robot.organisation));
    }
}

/*
 * Registry-admins by one letter each. A and B are subjects of one issuer, C is the subject of another that has the name of A. The robots 1
 * and 2 are A's, 3 is B's, 4 is the embedded administrator and 5 a robot of it; 6, 7 and 8 are nobody's, and 8 has no role.
 */
static struct principal principal_of(char letter)
{
    if (letter == 'A') return subject_of("https://i", "alice");
    if (letter == 'B') return subject_of("https://i", "bob");
    if (letter == 'C') return subject_of("https://j", "alice");
    return (struct principal){.kind = PRINCIPAL_ROBOT, .id = id_of(letter)};
}

static struct persons persons_behind(char letter)
{
    const struct principal maker = principal_of(letter == '3' ? 'B' : 'A');
    struct persons persons = {.count = 0};
    char key[PRINCIPAL_KEY_SIZE];

    principal_key(&maker, key);
    const bool is_made = letter >= '1' && letter <= '3', is_administrators = letter == '4' || letter == '5';
    const struct person person = is_made ? person_new(key, maker.issuer) : person_new(PERSON_ADMINISTRATOR, NULL);
    if (is_made || is_administrators) persons_add(&persons, &person);
    else persons.has_unknown = true;
    return persons;
}

static struct authz_binding binding_to(char letter, enum role role)
{
    const struct principal principal = principal_of(letter);
    struct authz_binding binding = {.kind = principal.kind, .robot = principal.id, .role = role, .scope = RESOURCE_SYSTEM};

    memcpy(binding.issuer, principal.issuer, sizeof binding.issuer);
    memcpy(binding.subject, principal.subject, sizeof binding.subject);
    binding.id = id_of(letter);
    binding.id.bytes[1] = (uint8_t)(1 + role);
    return binding;
}

/* All are registry-admins, and `officer`, if it is one, is a security officer whom `giver` appointed. */
static struct authz_snapshot *snapshot_with(char officer, char giver)
{
    static const char jwks[] = "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\",\"alg\":\"ES256\","
                               "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
                               "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}";
    const struct issuer_record issuers[] = {
        {.url = "https://i", .audience = "us", .algorithms = 1U << JOSE_ES256, .types = 1, .lifetime_max_s = 60, .jwks = jwks},
        {.url = "https://j", .audience = "us", .algorithms = 1U << JOSE_ES256, .types = 1, .lifetime_max_s = 60, .jwks = jwks}};
    static const char admins[] = "1234567ABC", robots[] = "12345678";
    struct authz_robot rows[sizeof robots - 1];
    struct authz_binding bindings[sizeof admins];
    struct authz_snapshot *made = NULL;
    struct error err = {0};
    size_t count = 0;

    for (size_t i = 0; i < COUNT(rows); i++) {
        rows[i] = (struct authz_robot){
            .id = id_of(robots[i]), .persons = persons_behind(robots[i]), .enabled = true, .expires_ms = NOW + 1};
        (void)snprintf(rows[i].name, sizeof rows[i].name, "robot$r%c", robots[i]);
    }
    for (; count < sizeof admins - 1; count++) bindings[count] = binding_to(admins[count], ROLE_REGISTRY_ADMIN);
    if (officer != '-') {
        const struct principal by = principal_of(giver);
        bindings[count] = binding_to(officer, ROLE_SECURITY_OFFICER);
        principal_key(&by, bindings[count].granted_by);
        bindings[count].granting_person = persons_behind(giver).each[0];
        if (by.kind == PRINCIPAL_EXTERNAL) bindings[count].granting_person = person_new(bindings[count].granted_by, by.issuer);
        count++;
    }
    const struct authz_parts parts = {.robots = rows,
                                      .robot_count = COUNT(rows),
                                      .bindings = bindings,
                                      .binding_count = count,
                                      .issuers = issuers,
                                      .issuer_count = COUNT(issuers)};
    assert_true(authz_snapshot_build(&parts, &made, &err).ok);
    return made;
}

static void robots_count_as_who_made_them(void **state)
{
    static const struct {
        char one, other;
        bool is_another, is_same;
    } rows[] = {
        {'A', 'B', true, false},  {'A', 'A', false, true},  {'A', 'C', false, false}, {'A', '1', false, true},
        {'1', '2', false, true},  {'1', '3', true, false},  {'1', 'B', true, false},  {'4', '5', false, true},
        {'4', '1', true, false},  {'4', 'A', true, false},  {'6', 'A', false, false}, {'6', '7', false, false},
        {'6', '6', false, false}, {'6', '4', false, false}, {'9', 'A', false, false},
    };
    OWNED(authz_snapshot) *snapshot = snapshot_with('-', '-');
    const struct uuid registry = {{0}};
    const struct persons_scope scope = {snapshot, &registry, NOW};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct principal one = principal_of(rows[i].one), other = principal_of(rows[i].other);
        const struct persons first = persons_of(&scope, &one), second = persons_of(&scope, &other);
        if (persons_are_others(&first, &second) != rows[i].is_another ||
            persons_are_others(&second, &first) != rows[i].is_another || persons_meet(&first, &second) != rows[i].is_same ||
            persons_meet(&second, &first) != rows[i].is_same)
            fail_msg("%c and %c", rows[i].one, rows[i].other);
    }
    const struct persons server = persons_of(&scope, &(struct principal){.kind = PRINCIPAL_SYSTEM});
    assert_false(persons_are_known(&server));
}

static void principals_are_found_by_their_key(void **state)
{
    static const struct uuid registry = {{0}}, acme = {{'A'}};
    OWNED(authz_snapshot) *snapshot = snapshot_with('B', '4'); /* B has two bindings */
    struct principal found;
    char key[PRINCIPAL_KEY_SIZE], again[PRINCIPAL_KEY_SIZE];

    (void)state;
    for (const char *each = "ABC18"; *each != '\0'; each++) {
        const struct principal wanted = principal_of(*each);
        principal_key(&wanted, key);
        if (!authz_snapshot_principal(snapshot, key, &acme, &found)) fail_msg("%c is not found", *each);
        principal_key(&found, again);
        assert_string_equal(again, key);
    }
    const struct principal others[] = {subject_of("https://i", "carol"), subject_of("https://j", "bob"), principal_of('9')};
    for (size_t i = 0; i < COUNT(others); i++) {
        principal_key(&others[i], key);
        assert_false(authz_snapshot_principal(snapshot, key, &registry, &found));
    }
    assert_false(authz_snapshot_principal(snapshot, "", &registry, &found));
}

static const struct appointment_row {
    const char *name;
    char first, by;    /* the present officer, and its granter */
    char second, then; /* the next officer, and its granter */
    bool is_refused;
} appointment_rows[] = {
    {"the first is anybody's to appoint", '-', '-', '8', '6', false},
    {"the second is another person's", 'B', 'A', '1', 'B', false},
    {"not that of the same subject", 'B', 'A', '1', 'A', true},
    {"nor that of a robot of his", 'B', 'A', 'A', '1', true},
    {"nor of two robots of his", 'B', '1', 'A', '2', true},
    {"nor of a robot and its maker", 'B', '1', 'A', 'A', true},
    {"the administrator and a robot of his are one", 'B', '4', '1', '5', true},
    {"the administrator and a subject are two", 'B', '4', '1', 'A', false},
    {"nobody appoints no second one", 'B', 'A', '1', '6', true},
    {"nor does anybody after nobody", 'B', '6', '1', 'A', true},
    {"one person's two robots are no two officers", '1', '4', '2', 'B', true},
    {"nor are a subject and its robot", 'A', '4', '1', 'B', true},
    {"two persons' robots are", '1', '4', '3', 'B', false},
    {"nobody is no second officer", '1', '4', '8', 'B', true},
    {"nor is there one beside nobody", '8', '4', '1', 'B', true},
    {"whoever it is, while that is not known yet", '1', '4', '-', 'B', false},
    {"the subject of another issuer may be the same person", 'B', 'A', '1', 'C', true},
    {"also as the one that is appointed", 'C', '4', '1', 'B', true},
};

static void officers_are_two_persons(void **state)
{
    const struct appointment_row *row = *state;
    OWNED(authz_snapshot) *snapshot = snapshot_with(row->first, row->by);
    const struct principal granter = principal_of(row->then);
    const struct authz_binding second = binding_to(row->second, ROLE_SECURITY_OFFICER);
    struct resource scope = {.kind = RESOURCE_SYSTEM};

    authz_grant_detail(&second, scope.detail);
    const struct authz_answer found = authz_snapshot_authorize(snapshot, &granter, ACTION_BINDING_CREATE, &scope, NOW);
    assert_int_equal(found.verdict, row->is_refused ? AUTHZ_NOT_ALLOWED : AUTHZ_ALLOWED);
    if (row->is_refused) assert_string_equal(found.rule, "SYS-BOTH-OFFICERS");
}

/* The person that appointed an officer may give it a new secret, also through a robot; others can only revoke it. */
static void an_officers_secret_is_for_the_person_who_appointed(void **state)
{
    static const struct {
        char by, then;
        bool is_refused;
    } rows[] = {{'A', 'A', false}, {'A', '1', false}, {'1', '2', false}, {'A', '3', true},
                {'A', 'B', true},  {'6', '6', false}, {'6', '7', true}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        OWNED(authz_snapshot) *snapshot = snapshot_with('8', rows[i].by);
        const struct principal principal = principal_of(rows[i].then);
        const struct uuid robot = id_of('8');
        struct resource where = {.kind = RESOURCE_SYSTEM};
        uuid_format(&robot, where.detail);
        const struct authz_answer found = authz_snapshot_authorize(snapshot, &principal, ACTION_ROBOT_ROTATE, &where, NOW);
        if ((found.verdict != AUTHZ_ALLOWED) != rows[i].is_refused) fail_msg("row %zu: %s", i, found.message);
        if (rows[i].is_refused) assert_string_equal(found.rule, "SYS-BOTH-OFFICERS");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_subject_has_a_home), cmocka_unit_test(robots_count_as_who_made_them),
                                       cmocka_unit_test(principals_are_found_by_their_key),
                                       cmocka_unit_test(an_officers_secret_is_for_the_person_who_appointed)};

    return RUN_TABLE(appointment_rows, officers_are_two_persons) + cmocka_run_group_tests(tests, NULL, NULL);
}
