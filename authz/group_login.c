#include "authz/group_login.h"

#include <string.h>

#include "base/text.h"

static bool concerns(const struct group_entry *entry, const struct group_login *login)
{
    return !entry->roles.is_provisioned && pinned_entry_is_in_force(&entry->pinned, login->now_ms) &&
           strcmp(entry->roles.issuer, login->claims->issuer) == 0;
}

static bool has_entries(const struct group_login *login)
{
    const struct trust_rules *rules = authz_snapshot_rules(login->snapshot);

    for (size_t i = 0; i < group_entries_count(rules); i++)
        if (concerns(group_entries_at(rules, i), login)) return true;
    return false;
}

static struct result add_group(struct group_use *use, const char *group, struct error *err)
{
    for (size_t i = 0; i < use->count; i++)
        if (strcmp(use->groups[i], group) == 0) return SUCCESS;
    if (use->count == GROUP_LOGIN_MAX || !text_copy(use->groups[use->count], sizeof use->groups[0], group))
        return failure(err, ERROR_DENIED, "the token names more than %d groups that have roles here", GROUP_LOGIN_MAX);
    use->count++;
    return SUCCESS;
}

/* The bindings that the person has by groups, in all organisations. */
struct bound {
    size_t count;
    const struct authz_binding *bindings[GROUP_GRANTS_MAX];
};

static void collect(const struct group_login *login, const struct uuid *organisation, const struct principal *principal,
                    struct bound *bound)
{
    const struct authz_binding *bindings[BINDINGS_PER_PRINCIPAL_MAX];
    const size_t count = authz_snapshot_held(login->snapshot, organisation, principal, login->now_ms, bindings);

    for (size_t i = 0; i < count && bound->count < GROUP_GRANTS_MAX; i++)
        if (strncmp(bindings[i]->granted_by, GROUP_GIVER, sizeof GROUP_GIVER - 1) == 0)
            bound->bindings[bound->count++] = bindings[i];
}

static void collect_all(const struct group_login *login, struct bound *bound)
{
    struct principal principal = {.kind = PRINCIPAL_EXTERNAL};
    const struct uuid *organisation = NULL;

    (void)text_copy(principal.issuer, sizeof principal.issuer, login->claims->issuer);
    (void)text_copy(principal.subject, sizeof principal.subject, login->claims->subject);
    for (size_t number = 0; (organisation = authz_snapshot_organisation(login->snapshot, number)) != NULL; number++)
        collect(login, organisation, &principal, bound);
}

/*
 * Whether the person has the binding of a grant, for long enough. A row that was written after the token was made outlives the token. Without this, an older
 * token with the same groups would have the rights read again each time, and would not be written.
 */
static bool is_bound(const struct group_login *login, const struct bound *bound, const struct group_entry *entry, size_t grant)
{
    const struct uuid id = group_binding_id(entry, grant, login->claims->subject);
    const int64_t half_ms = login->now_ms + GROUP_LOGIN_HALF,
                  least_ms = half_ms < entry->pinned.expires_ms ? half_ms : entry->pinned.expires_ms;

    for (size_t i = 0; i < bound->count; i++) {
        const int64_t until_ms = bound->bindings[i]->expires_ms;
        if (uuid_equal(&bound->bindings[i]->id, &id))
            return until_ms >= least_ms || login->claims->issued_s * 1000 <= until_ms - GROUP_LOGIN_MS;
    }
    return false;
}

static void note_organisation(struct group_use *use, const char *on)
{
    const size_t length = strcspn(on, "/");
    char name[sizeof use->organisations[0]];

    if (length >= sizeof name) return; /* no organisation has such a name */
    memcpy(name, on, length);
    name[length] = '\0';
    for (size_t i = 0; i < use->organisation_count; i++)
        if (strcmp(use->organisations[i], name) == 0) return;
    use->is_everywhere = use->is_everywhere || use->organisation_count == GROUP_ORGANISATIONS_MAX;
    if (!use->is_everywhere) memcpy(use->organisations[use->organisation_count++], name, length + 1);
}

/* Adds the groups of one document that the token names. */
static struct result match(const struct group_login *login, const struct group_entry *entry, const struct bound *bound,
                           struct group_use *use, struct error *err)
{
    for (size_t i = 0; i < entry->roles.grant_count; i++) {
        const struct group_grant *grant = &entry->roles.grants[i];
        if (!group_entry_is_placed(entry, i) || !group_roles_has(&entry->roles, login->payload, grant->group)) continue;
        if (use->grants == GROUP_GRANTS_MAX)
            return failure(err, ERROR_DENIED, "the groups of the token have more than %d roles here", GROUP_GRANTS_MAX);
        use->grants++;
        TRY(add_group(use, grant->group, err));
        note_organisation(use, grant->on);
        use->is_new = use->is_new || !is_bound(login, bound, entry, i);
    }
    return SUCCESS;
}

static void note_left(struct group_use *use, const struct uuid *organisation)
{
    for (size_t i = 0; i < use->left_count; i++)
        if (uuid_equal(&use->left[i], organisation)) return;
    use->is_everywhere = use->is_everywhere || use->left_count == GROUP_ORGANISATIONS_MAX;
    if (!use->is_everywhere) use->left[use->left_count++] = *organisation;
}

static void begin(const struct group_login *login, const struct bound *bound, struct group_use *use)
{
    *use = (struct group_use){.issued_ms = login->claims->issued_s * 1000};
    (void)text_copy(use->issuer, sizeof use->issuer, login->claims->issuer);
    (void)text_copy(use->subject, sizeof use->subject, login->claims->subject);
    for (size_t i = 0; i < bound->count; i++) note_left(use, &bound->bindings[i]->organisation);
}

bool group_use_changes(const struct group_use *use)
{
    return use->is_new || use->external_id[0] != '\0';
}

void group_login_link(const struct group_login *login, const char *external_id, struct group_use *use)
{
    const struct trust_rules *rules = authz_snapshot_rules(login->snapshot);

    (void)text_copy(use->external_id, sizeof use->external_id, external_id);
    if (external_id[0] == '\0') return;
    (void)text_copy(use->issuer, sizeof use->issuer, login->claims->issuer);
    (void)text_copy(use->subject, sizeof use->subject, login->claims->subject);
    for (size_t i = 0; i < group_entries_count(rules); i++) {
        const struct group_roles *roles = &group_entries_at(rules, i)->roles;
        if (!roles->is_provisioned || strcmp(roles->issuer, login->claims->issuer) != 0) continue;
        for (size_t number = 0; number < roles->grant_count; number++) note_organisation(use, roles->grants[number].on);
    }
}

struct result group_login(const struct group_login *login, struct group_use *use, struct error *err)
{
    const struct trust_rules *rules = authz_snapshot_rules(login->snapshot);
    struct bound bound = {.count = 0};

    if (!has_entries(login)) return SUCCESS;
    if (use == NULL)
        return failure(err, ERROR_DENIED, "a token of this issuer, whose groups give roles, is accepted at /token only");
    if (login->is_undated)
        return failure(err, ERROR_DENIED,
                       "the token's issuer does not say when it made the token (iat), so its groups may be old ones");
    collect_all(login, &bound);
    begin(login, &bound, use);
    for (size_t i = 0; i < group_entries_count(rules); i++)
        if (concerns(group_entries_at(rules, i), login)) TRY(match(login, group_entries_at(rules, i), &bound, use, err));
    use->is_new = use->is_new || bound.count != use->grants; /* the person has left a group */
    return SUCCESS;
}
