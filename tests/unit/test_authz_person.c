/* Of which organisation somebody is. */
#include "tests/support/unit.h"

#include <stdio.h>

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

/* An issuer's subject is of the organisation that alone gave it a role; one of several, or of the registry, is of none. */
static void a_subject_has_a_home(void **state)
{
    static const struct {
        const char *organisations;
        int64_t now_ms;
        char home;
    } rows[] = {{"", NOW, '-'}, {"A", NOW, 'A'}, {"AB", NOW, '-'}, {"AB", NOW + 1, 'A'}, {"AA", NOW, 'A'}, {"B", NOW, 'B'}, {"-", NOW, '-'}, {"A-", NOW, '-'}};
    const struct principal subject = subject_of("https://i", "ci"), robot = {.kind = PRINCIPAL_ROBOT, .organisation = id_of('B')};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct authz_binding bindings[2];
        struct authz_parts parts = {.bindings = bindings};
        OWNED(authz_snapshot) *made = NULL;
        struct error err = {0};
        for (const char *each = rows[i].organisations; *each != '\0'; each++) {
            bindings[parts.binding_count] = (struct authz_binding){.id = id_of((char)(1 + parts.binding_count)), .kind = PRINCIPAL_EXTERNAL,
                                                                   .issuer = "https://i", .subject = "ci", .role = ROLE_AUDITOR,
                                                                   .organisation = id_of(*each), .expires_ms = *each == 'B' ? NOW + 1 : 0};
            bindings[parts.binding_count++].scope = *each == '-' ? RESOURCE_SYSTEM : RESOURCE_ORGANISATION;
        }
        assert_true(authz_snapshot_build(&parts, &made, &err).ok);
        const struct uuid home = authz_snapshot_home(made, &subject, rows[i].now_ms), wanted = id_of(rows[i].home);
        if (!uuid_equal(&home, &wanted)) fail_msg("row %zu", i);
        const struct uuid own = authz_snapshot_home(made, &robot, NOW);
        assert_true(uuid_equal(&own, &robot.organisation));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_subject_has_a_home)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
