/* Which logins are good enough for dangerous actions. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "authz/step_up.h"
#include "authz/trust_rules.h"
#include "base/text.h"

#define NOW_S INT64_C(1700000000)

static const struct row {
    const char *name, *wanted;
    enum action action;
    enum principal_kind kind;
    const char *issuer, *acr;
    int64_t auth_time_s;
    bool is_met;
} rows[] = {
    {"it is not asked for", "", ACTION_ISSUER_TRUST, PRINCIPAL_EXTERNAL, "https://a.example", "", 0, true},
    {"an action that is not dangerous", "phr", ACTION_TAG_LIST, PRINCIPAL_EXTERNAL, "https://a.example", "", 0, true},
    {"a robot", "phr", ACTION_ISSUER_TRUST, PRINCIPAL_ROBOT, "", "", 0, true},
    {"a job of a trust rule", "phr", ACTION_ISSUER_TRUST, PRINCIPAL_EXTERNAL, TRUST_ISSUER, "", 0, true},
    {"a fresh login", "phr", ACTION_ISSUER_TRUST, PRINCIPAL_EXTERNAL, "https://a.example", "phr", NOW_S - 300, true},
    {"a login of a second too long ago", "phr", ACTION_ISSUER_TRUST, PRINCIPAL_EXTERNAL, "https://a.example", "phr", NOW_S - 301,
     false},
    {"an action with more time", "phr", ACTION_ROBOT_CREATE, PRINCIPAL_EXTERNAL, "https://a.example", "phr", NOW_S - 900, true},
    {"with more time, and over", "phr", ACTION_ROBOT_CREATE, PRINCIPAL_EXTERNAL, "https://a.example", "phr", NOW_S - 901, false},
    {"an issuer whose clock is ahead", "phr", ACTION_ISSUER_TRUST, PRINCIPAL_EXTERNAL, "https://a.example", "phr", NOW_S + 60,
     true},
    {"a login in the future", "phr", ACTION_ISSUER_TRUST, PRINCIPAL_EXTERNAL, "https://a.example", "phr", NOW_S + 61, false},
    {"a login without a time", "phr", ACTION_ISSUER_TRUST, PRINCIPAL_EXTERNAL, "https://a.example", "phr", 0, false},
    {"another acr", "phr", ACTION_ISSUER_TRUST, PRINCIPAL_EXTERNAL, "https://a.example", "pwd", NOW_S, false},
    {"a longer acr", "phr", ACTION_ISSUER_TRUST, PRINCIPAL_EXTERNAL, "https://a.example", "phrh", NOW_S, false},
    {"no acr", "phr", ACTION_ISSUER_TRUST, PRINCIPAL_EXTERNAL, "https://a.example", "", NOW_S, false},
    {"no acr, and two blanks in the setting", "phr  mfa", ACTION_ISSUER_TRUST, PRINCIPAL_EXTERNAL, "https://a.example", "", NOW_S,
     false},
    {"the second of two", "phr mfa", ACTION_ISSUER_TRUST, PRINCIPAL_EXTERNAL, "https://a.example", "mfa", NOW_S, true},
    {"what is kept from erasure", "phr", ACTION_HOLD_RELEASE, PRINCIPAL_EXTERNAL, "https://a.example", "phr", NOW_S - 301, false},
    {"an alarm that is turned off", "phr", ACTION_DETECTION_REVOKE, PRINCIPAL_EXTERNAL, "https://a.example", "phr", NOW_S - 901,
     false},
    {"a delivery that is turned off", "phr", ACTION_SINK_REVOKE, PRINCIPAL_EXTERNAL, "https://a.example", "phr", NOW_S - 901,
     false},
    {"any", STEP_UP_ANY, ACTION_ISSUER_TRUST, PRINCIPAL_EXTERNAL, "https://a.example", "", NOW_S, true},
    {"any, but long ago", STEP_UP_ANY, ACTION_ISSUER_TRUST, PRINCIPAL_EXTERNAL, "https://a.example", "", NOW_S - 3600, false},
};

static void a_login(void **state)
{
    const struct row *row = *state;
    struct principal principal = {.kind = row->kind, .auth_time_s = row->auth_time_s};
    unsigned age_s = 0;

    assert_true(text_copy(principal.issuer, sizeof principal.issuer, row->issuer));
    assert_true(text_copy(principal.acr, sizeof principal.acr, row->acr));
    assert_int_equal(step_up_is_met(&principal, row->action, row->wanted, NOW_S * 1000, &age_s), row->is_met);
    if (!row->is_met) assert_true(age_s == 300 || age_s == 900);
}

static const struct client_row {
    const char *name, *clients, *client;
    bool is_own, is_kept;
} client_rows[] = {
    {"any client", "", "", false, true},
    {"one that asks with a browser", "sijil", "sijil", false, true},
    {"the second one", "web sijil", "sijil", false, true},
    {"one for codes of devices", "sijil", "sijil-device", false, false},
    {"part of a name", "sijil-browser", "sijil", false, false},
    {"no client", "sijil", "", false, false},
    {"no client, and two blanks", "web  sijil", "", false, false},
    {"a token of ours", "sijil", "", true, true},
};

static void a_client(void **state)
{
    const struct client_row *row = *state;
    struct principal principal = {.kind = PRINCIPAL_EXTERNAL, .acr = "phr", .auth_time_s = NOW_S, .is_limited = row->is_own};

    assert_true(text_copy(principal.client, sizeof principal.client, row->client));
    step_up_forget(&principal, row->clients);
    assert_int_equal(principal.auth_time_s == NOW_S, row->is_kept);
    assert_int_equal(principal.acr[0] != '\0', row->is_kept);
}

/* A new kind of document is not forgotten. Whoever approves a run needs a key for each, which is more than a login. */
static void the_approval_of_each_document_is_dangerous(void **state)
{
    const struct principal principal = {.kind = PRINCIPAL_EXTERNAL, .issuer = "https://a.example"};
    unsigned approvals = 0, age_s = 0;

    (void)state;
    for (enum action action = 0; action < ACTION_COUNT; action++) {
        const char *what = strchr(action_name(action), '.');
        if (what == NULL || strcmp(what, ".approve") != 0 || action == ACTION_RUN_APPROVE || action == ACTION_RUNNER_APPROVE)
            continue;
        approvals++;
        if (step_up_is_met(&principal, action, STEP_UP_ANY, NOW_S * 1000, &age_s)) fail_msg("%s", action_name(action));
    }
    assert_true(approvals >= 7);
    /* Without such a document other subjects are persons, and deactivated ones come in again. */
    assert_false(step_up_is_met(&principal, ACTION_PERSONS_REVOKE, STEP_UP_ANY, NOW_S * 1000, &age_s));
    assert_false(step_up_is_met(&principal, ACTION_SCIM_REVOKE, STEP_UP_ANY, NOW_S * 1000, &age_s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_approval_of_each_document_is_dangerous)};

    return RUN_TABLE(rows, a_login) + RUN_TABLE(client_rows, a_client) + cmocka_run_group_tests(tests, NULL, NULL);
}
