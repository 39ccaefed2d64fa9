/* What each role permits: the table of docs/identity.md. */
#include "authz/role.h"
#include "cmd/manual/manual.h"

static void write_actions(FILE *out, enum role role)
{
    bool is_first = true;

    for (enum action action = 0; action < ACTION_COUNT; action++) {
        if (!role_permits(role, action)) continue;
        (void)fprintf(out, "%s%s", is_first ? "" : ", ", action_name(action));
        is_first = false;
    }
}

void roles_table(FILE *out)
{
    (void)fputs("| role | permits |\n|---|---|\n", out);
    for (enum role role = 0; role < ROLE_COUNT; role++) {
        (void)fprintf(out, "| `%s` | ", role_name(role));
        write_actions(out, role);
        (void)fputs(" |\n", out);
    }
}
