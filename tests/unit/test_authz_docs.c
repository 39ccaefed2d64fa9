/* docs/identity.md says the same as authz/roles.def of each role, and as authz/step_up.def of each action that needs a fresh login. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "authz/role.h"
#include "base/file.h"

#define ACTION_WORD 64 /* the name of an action between backquotes */

static struct buffer page = {.maximum = 1 << 20};

static void add(struct buffer *text, bool *is_first, const char *word)
{
    struct error err = {0};

    assert_true(buffer_format(text, &err, "%s%s", *is_first ? "" : ", ", word).ok);
    *is_first = false;
}

static void add_places(struct buffer *row, enum role role)
{
    static const char *const places[] = {"registry", "organisation", "project", "repository"};
    bool is_first = true;

    for (enum resource_kind kind = RESOURCE_SYSTEM; kind <= RESOURCE_REPOSITORY; kind++)
        if (role_allows_scope(role, kind)) add(row, &is_first, places[kind]);
}

static void add_grants(struct buffer *row, enum role role)
{
    bool is_first = true;

    for (enum role granted = 0; granted < ROLE_COUNT; granted++)
        if (role_may_grant(role, granted)) add(row, &is_first, role_name(granted));
    if (is_first) add(row, &is_first, "nothing");
}

static void add_actions(struct buffer *row, enum role role)
{
    bool is_first = true;

    for (enum action action = 0; action < ACTION_COUNT; action++)
        if (role_permits(role, action)) add(row, &is_first, action_name(action));
}

static void the_page_has_the_row(const struct buffer *row)
{
    if (strstr(buffer_text(&page), buffer_text(row)) == NULL) fail_msg("docs/identity.md lacks: %s", buffer_text(row));
}

static void every_role_is_described(void **state)
{
    (void)state;
    for (enum role role = 0; role < ROLE_COUNT; role++) {
        struct buffer row = BUFFER(4096), actions = BUFFER(4096);
        struct error err = {0};
        assert_true(buffer_format(&row, &err, "| `%s` | %s | ", role_name(role), role_meaning(role)).ok);
        add_places(&row, role);
        assert_true(buffer_add_text(&row, " | ", &err).ok);
        add_grants(&row, role);
        assert_true(buffer_add_text(&row, role_may_know_existence(role) ? " | yes |\n" : " | no |\n", &err).ok);
        the_page_has_the_row(&row);
        assert_true(buffer_format(&actions, &err, "| `%s` | ", role_name(role)).ok);
        add_actions(&actions, role);
        assert_true(buffer_add_text(&actions, " |\n", &err).ok);
        the_page_has_the_row(&actions);
        buffer_done(&row);
        buffer_done(&actions);
    }
}

static void the_actions_that_need_a_fresh_login_are_listed(void **state)
{
    static const struct {
        enum action action;
        unsigned age_s;
    } rows[] = {
#define STEP_UP(action, seconds) {action, seconds},
#include "authz/step_up.def"
#undef STEP_UP
    };
    static const unsigned ages[] = {300, 900};
    size_t listed = 0;

    (void)state;
    for (size_t i = 0; i < COUNT(ages); i++) {
        struct buffer row = BUFFER(4096);
        struct error err = {0};
        bool is_first = true;
        assert_true(buffer_format(&row, &err, "| %u s | ", ages[i]).ok);
        for (size_t k = 0; k < COUNT(rows); k++) {
            char word[ACTION_WORD];
            if (rows[k].age_s != ages[i]) continue;
            (void)snprintf(word, sizeof word, "`%s`", action_name(rows[k].action));
            add(&row, &is_first, word);
            listed++;
        }
        assert_true(buffer_add_text(&row, " |\n", &err).ok);
        the_page_has_the_row(&row);
        buffer_done(&row);
    }
    assert_int_equal(listed, COUNT(rows));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_role_is_described),
                                       cmocka_unit_test(the_actions_that_need_a_fresh_login_are_listed)};
    struct error err = {0};

    if (!file_read(IDENTITY_PAGE, &page, &err).ok) return 1;
    const int failed = cmocka_run_group_tests_name("docs", tests, NULL, NULL);
    buffer_done(&page);
    return failed;
}
