#include "documents/format/grant.h"

#include <string.h>

#include "base/text.h"
#include "documents/format/own_role.h"

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789._-"

static bool is_role(const char *role)
{
    static const char *const roles[] = {"publisher", "promoter", "consumer", "trainer"};

    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (strcmp(roles[i], role) == 0) return true;
    return own_role_name_is_valid(role); /* what such a role may permit, its own document says */
}

/* Names with "/" between; an asterisk may be the last one, behind a project or a longer name. */
static bool is_place(const char *on)
{
    struct bytes left = bytes_of_text(on);
    const size_t length = left.length;
    unsigned names = 0;

    if (length == 0 || length > GRANT_PLACE_MAX || on[length - 1] == '/') return false;
    while (left.length > 0) {
        const struct bytes name = text_cut(&left, '/');
        const bool is_star = left.length == 0 && names >= 2 && name.length == 1 && name.data[0] == '*';
        if (!is_star && (name.length == 0 || !text_consists_of(name, NAME_LETTERS))) return false;
        names++;
    }
    return true;
}

static bool is_inside(const char *on, const char *scope)
{
    const size_t length = strlen(scope);

    return length == 0 || (strncmp(on, scope, length) == 0 && (on[length] == '\0' || on[length] == '/'));
}

struct result grant_check(const char *role, const char *on, const char *scope, struct error *err)
{
    if (!is_role(role))
        return failure(
            err, ERROR_INVALID,
            "role: publisher, promoter, consumer, trainer, or a role of your own, such as acme.curator; a document makes no officer, "
            "approver or administrator");
    if (!is_place(on))
        return failure(err, ERROR_INVALID, "on: an organisation, a project, a repository, or a project or path and /*");
    if (!is_inside(on, scope))
        return failure(err, ERROR_INVALID, "on: \"%.100s\" is outside the rule's scope \"%.60s\"", on, scope);
    return SUCCESS;
}
