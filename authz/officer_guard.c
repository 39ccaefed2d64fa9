/* Somebody can always name the next administrator: what would end the last one that counts is refused. */
#include <string.h>

#include "authz/officer_entry.h"
#include "authz/scim_entry.h"
#include "authz/snapshot_priv.h"

/* What the action ends. */
struct loss {
    const struct authz_snapshot *snapshot;
    enum action action;
    const char *detail; /* of the pair: an id, or the name of a document */
    int64_t now_ms;
};

static bool is_detail(const struct loss *loss, const struct uuid *id)
{
    char text[UUID_TEXT_SIZE];

    uuid_format(id, text);
    return strcmp(text, loss->detail) == 0;
}

static bool loses(const struct loss *loss, const struct authz_binding *binding)
{
    if (loss->action == ACTION_BINDING_REVOKE) return is_detail(loss, &binding->id);
    if (loss->action == ACTION_ROBOT_REVOKE) return binding->kind == PRINCIPAL_ROBOT && is_detail(loss, &binding->robot);
    if (loss->action == ACTION_ISSUER_REMOVE) {
        const struct issuer *issuer = authz_snapshot_issuer(loss->snapshot, binding->issuer);
        return issuer != NULL && is_detail(loss, &issuer_record_of(issuer)->id);
    }
    const struct officer_entry *entry = officer_entry_of(loss->snapshot->rules, binding, loss->now_ms);
    return entry != NULL && strcmp(entry->name, loss->detail) == 0;
}

static bool can_log_in(const struct authz_snapshot *snapshot, const struct authz_binding *binding, int64_t now_ms)
{
    if (binding->kind == PRINCIPAL_ROBOT) {
        const struct authz_robot *robot = authz_snapshot_robot(snapshot, &binding->robot);
        return robot != NULL && robot->enabled && now_ms < robot->expires_ms;
    }
    return authz_snapshot_issuer(snapshot, binding->issuer) != NULL &&
           scim_admits(snapshot, binding->issuer, binding->subject, now_ms);
}

static bool is_guarded(enum action action)
{
    return action == ACTION_BINDING_REVOKE || action == ACTION_ROBOT_REVOKE || action == ACTION_ISSUER_REMOVE ||
           action == ACTION_OFFICERS_REVOKE;
}

const struct authz_refusal *last_administrator_refusal(const struct authz_snapshot *snapshot, enum action action,
                                                       const struct resource *resource, int64_t now_ms)
{
    static const struct authz_refusal last = {
        "SYS-LAST-OFFICER",
        "this ends the last registry-admin that a document of officers names, and nobody could name another: sign a document for another one first"};
    static const struct uuid registry;
    const struct loss loss = {snapshot, action, resource->detail, now_ms};
    bool is_lost = false;

    if (!is_guarded(action) || !officers_are_demanded(snapshot->rules)) return NULL;
    const struct rights_part *part = snapshot_part(snapshot, &registry);
    const struct authz_binding *binding = NULL;
    struct part_walk walk = {0};

    while (part != NULL && (binding = part_next_binding(part, &walk)) != NULL) {
        if (binding->role != ROLE_REGISTRY_ADMIN || !binding_is_live(binding, now_ms) || !can_log_in(snapshot, binding, now_ms))
            continue;
        if (!loses(&loss, binding)) return NULL;
        is_lost = true;
    }
    return is_lost ? &last : NULL;
}
