/* docs/identity.md and authz/roles.def say the same of each role. */
#include "tests/support/unit.h"

#include <string.h>

#include "authz/role.h"
#include "base/file.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_role_is_described)};
    struct error err = {0};

    if (!file_read(IDENTITY_PAGE, &page, &err).ok) return 1;
    const int failed = cmocka_run_group_tests_name("docs", tests, NULL, NULL);
    buffer_done(&page);
    return failed;
}
