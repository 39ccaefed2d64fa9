#include "documents/format/own_role.h"

#include <string.h>

#include "base/text.h"
#include "documents/format/document_priv.h"

#define DAY_MS               ((int64_t)86400000)
#define PART_LETTERS         "abcdefghijklmnopqrstuvwxyz0123456789_-"
#define ORGANISATION_LETTERS PART_LETTERS "."

static const char *const own_actions[] = {
#define OWN(action) action,
#include "documents/format/own_actions.def"
#undef OWN
};

bool own_role_name_is_valid(const char *name)
{
    struct bytes left = bytes_of_text(name);
    unsigned parts = 0;

    if (left.length == 0 || left.length > OWN_ROLE_NAME_MAX || name[left.length - 1] == '.') return false;
    while (left.length > 0) {
        const struct bytes part = text_cut(&left, '.');
        if (part.length == 0 || part.data[0] == '-' || !text_consists_of(part, PART_LETTERS)) return false;
        parts++;
    }
    return parts >= 2;
}

static struct result check_head(const struct document *document, struct error *err)
{
    if (!own_role_name_is_valid(document->name))
        return failure(
            err, ERROR_INVALID,
            "the name of a role has small letters, digits, - and _ with dots between, such as acme.curator, and at most "
            "%d of them: built-in roles have no dot",
            OWN_ROLE_NAME_MAX);
    if (document->scope[0] != '\0')
        return failure(err, ERROR_INVALID,
                       "a role is of the registry: its scope is \"\", and \"organisation\" says where it counts");
    if (document->expires_ms == 0 || document->expires_ms - document->effective_ms > OWN_ROLE_DAYS_MAX * DAY_MS)
        return failure(err, ERROR_INVALID, "a role expires, within %d days", OWN_ROLE_DAYS_MAX);
    return SUCCESS;
}

static bool is_own_action(const char *action)
{
    for (size_t i = 0; i < sizeof own_actions / sizeof own_actions[0]; i++)
        if (strcmp(own_actions[i], action) == 0) return true;
    return false;
}

static bool has_action(const struct own_role *role, const char *action)
{
    for (size_t i = 0; i < role->action_count; i++)
        if (strcmp(role->actions[i], action) == 0) return true;
    return false;
}

static struct result read_actions(const json_t *list, struct own_role *role, struct error *err)
{
    const size_t count = json_array_size(list);

    if (!json_is_array(list) || count == 0 || count > OWN_ROLE_ACTIONS_MAX)
        return failure(err, ERROR_INVALID, "actions: 1 to %d names of actions", OWN_ROLE_ACTIONS_MAX);
    for (size_t i = 0; i < count; i++) {
        const char *action = json_string_value(json_array_get(list, i));
        if (action == NULL || !is_own_action(action))
            return failure(
                err, ERROR_INVALID,
                "actions: \"%.40s\" is no action that a role of your own may permit: none that officers, approvers and "
                "administrators have, and no right to grant",
                action == NULL ? "" : action);
        if (has_action(role, action)) return failure(err, ERROR_INVALID, "actions: \"%.40s\" is there twice", action);
        role->actions[role->action_count++] = action;
    }
    return SUCCESS;
}

static struct result check_organisation(const char *name, struct error *err)
{
    if (name == NULL) return SUCCESS;
    const bool begins = (name[0] >= 'a' && name[0] <= 'z') || (name[0] >= '0' && name[0] <= '9');
    if (begins && strlen(name) < OWN_ORGANISATION_SIZE && text_consists_of(bytes_of_text(name), ORGANISATION_LETTERS))
        return SUCCESS;
    return failure(err, ERROR_INVALID, "organisation: the name of one, in which alone the role counts");
}

struct result own_role_read(const struct document *document, struct own_role *role_out, struct error *err)
{
    struct own_role role = {.organisation = NULL};
    const json_t *actions = NULL;

    TRY(check_head(document, err));
    TRY(document_unpack(json_object_get(document->json, "body"), "the body of a role", err, "{s:s, s?:s, s:o}", "meaning",
                        &role.meaning, "organisation", &role.organisation, "actions", &actions));
    const struct bytes meaning = bytes_of_text(role.meaning);
    if (meaning.length == 0 || meaning.length > OWN_ROLE_MEANING_MAX || !text_is_visible(meaning))
        return failure(err, ERROR_INVALID, "meaning: one line of 1 to %d bytes for whoever gives the role", OWN_ROLE_MEANING_MAX);
    TRY(check_organisation(role.organisation, err));
    TRY(read_actions(actions, &role, err));
    *role_out = role;
    return SUCCESS;
}

struct result document_check_own_role(const struct document *document, const struct document_trust *trust, struct error *err)
{
    struct own_role role;

    if (document->is_withdrawn) {
        TRY(check_head(document, err));
        TRY(document_check_empty(document, "a role", err));
    } else {
        TRY(own_role_read(document, &role, err));
    }
    return document_check_persons(document, trust, "a role", err);
}
