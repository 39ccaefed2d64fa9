/* The kinds of documents of the registry: sinks of the log, detection rules, roles of groups, roles, persons, and SCIM services. */
#include <assert.h>
#include <string.h>

#include "authz/group_entry.h"
#include "authz/own_role_entry.h"
#include "authz/persons_entry.h"
#include "authz/scim_user.h"
#include "authz/token_demand.h"
#include "base/clock.h"
#include "base/json.h"
#include "delivery/sink.h"
#include "detection/rules.h"
#include "gateway/api/log_document_priv.h"
#include "gateway/background/delivery.h"

/* ---- sinks ---- */

static bool set_state(json_t *value, const struct sink_state *state)
{
    char moved[CLOCK_TEXT_SIZE], stopped[CLOCK_TEXT_SIZE];

    clock_format(state->moved_ms, moved);
    clock_format(state->stopped_ms, stopped);
    json_t *delivery = json_pack(
        "{s:I, s:I, s:s, s:s*, s:s*, s:o*}", "first", (json_int_t)state->first, "next", (json_int_t)state->next, "moved_at",
        moved, "stopped_at", state->stopped_ms == 0 ? NULL : stopped, "problem",
        state->problem[0] == '\0' ? NULL : state->problem, "key", state->secret == 0 ? NULL : json_integer(state->secret));

    return json_object_set_new(value, "delivery", delivery) == 0;
}

static struct result add_state(struct request *request, struct pg *pg, json_t *value, struct error *err)
{
    struct sink_state state;
    struct error none = {0};

    if (!sink_find(request->permit, pg, json_text_of(value, "name"), &state, &none).ok)
        return none.kind == ERROR_NOT_FOUND ? SUCCESS : failure(err, none.kind, "%s", none.message);
    return set_state(value, &state) ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for a sink");
}

const struct log_documents log_sinks = {.kind = DOCUMENT_AUDIT_SINK,
                                        .draft = ACTION_SINK_DRAFT,
                                        .approve = ACTION_SINK_APPROVE,
                                        .revoke = ACTION_SINK_REVOKE,
                                        .reject = ACTION_SINK_REJECT,
                                        .read = ACTION_SINK_READ,
                                        .list = "sinks",
                                        .what = "sink",
                                        .most = DELIVERY_SINKS_MAX,
                                        .add = add_state};

/* ---- detection rules ---- */

const struct log_documents log_detections = {.kind = DOCUMENT_DETECTION_RULE,
                                             .draft = ACTION_DETECTION_DRAFT,
                                             .approve = ACTION_DETECTION_APPROVE,
                                             .revoke = ACTION_DETECTION_REVOKE,
                                             .reject = ACTION_DETECTION_REJECT,
                                             .read = ACTION_DETECTION_READ,
                                             .list = "detections",
                                             .what = "detection rule",
                                             .most = DETECTION_RULES_MAX - DETECTOR_COUNT};

/* ---- roles of groups ---- */

const struct log_documents log_groups = {.kind = DOCUMENT_GROUP_ROLES,
                                         .draft = ACTION_GROUPS_DRAFT,
                                         .approve = ACTION_GROUPS_APPROVE,
                                         .revoke = ACTION_GROUPS_REVOKE,
                                         .reject = ACTION_GROUPS_REJECT,
                                         .read = ACTION_GROUPS_READ,
                                         .list = "groups",
                                         .what = "document of roles of groups",
                                         .most = GROUP_ENTRIES_MAX,
                                         .gives_roles = true,
                                         .grants = true};

/* ---- roles ---- */

const struct log_documents log_roles = {.kind = DOCUMENT_OWN_ROLE,
                                        .draft = ACTION_ROLE_DRAFT,
                                        .approve = ACTION_ROLE_APPROVE,
                                        .revoke = ACTION_ROLE_REVOKE,
                                        .reject = ACTION_ROLE_REJECT,
                                        .read = ACTION_ROLE_READ,
                                        .list = "roles",
                                        .what = "role",
                                        .most = OWN_ROLES_MAX,
                                        .gives_roles = true,
                                        .grants = true};

/* ---- persons ---- */

/* Documents are of the registry. What it demands of tokens counts for the withdrawal, too, so whoever demands it must come with such a token: there may be no way to get one. */
static struct result check_own_token(const struct request *request, const struct document *document, struct error *err)
{
    const struct token_bonds own = {request->principal->is_key_bound, request->principal->confirmation[0] != '\0'};
    struct persons_rule rule;

    TRY(persons_rule_read(document, &rule, err));
    const char *unmet = strcmp(document->name, PERSONS_REGISTRY) == 0 ? token_demand_bonds(&rule.tokens, own) : NULL;
    if (unmet == NULL) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "this request itself would be refused then, so the document could not be withdrawn: %s",
                   unmet);
}

/* Without the document an administrator gives keys to the issuer (gateway/api/issuer.c), and signs tokens of each second person: so the two are two persons. */
static struct result check_withdrawer(const struct request *request, struct error *err)
{
    const struct action_pair pair = {.action = ACTION_ISSUER_TRUST, .resource.kind = RESOURCE_SYSTEM};
    bool may_trust = false;

    TRY(api_may(request, &pair, &may_trust, err));
    if (!may_trust) return SUCCESS;
    return failure(
        err, ERROR_DENIED,
        "who may trust issuers does not also withdraw where persons come from: an approver that is no registry-admin does, "
        "or the root signs it");
}

/* Persons decide who may appoint whom, so decisions from before are made again. */
const struct log_documents log_persons = {.kind = DOCUMENT_PERSONS,
                                          .draft = ACTION_PERSONS_DRAFT,
                                          .approve = ACTION_PERSONS_APPROVE,
                                          .revoke = ACTION_PERSONS_REVOKE,
                                          .reject = ACTION_PERSONS_REJECT,
                                          .read = ACTION_PERSONS_READ,
                                          .list = "persons",
                                          .what = "document of persons",
                                          .most = PERSONS_ENTRIES_MAX,
                                          .gives_roles = true,
                                          .check_request = check_own_token,
                                          .check_end = check_withdrawer};

/* ---- SCIM services ---- */

/* Only for a document that the newest snapshot has, so the numbers are those of its issuer. */
static struct result add_persons(struct request *request, struct pg *pg, json_t *value, struct error *err)
{
    OWNED(authz_snapshot) *snapshot = authz_directory_take(request->gateway->directory);
    const struct trust_rules *rules = snapshot == NULL ? NULL : authz_snapshot_rules(snapshot);
    struct scim_counts counts;

    for (size_t i = 0; i < scim_entries_count(rules); i++) {
        const struct scim_entry *entry = scim_entries_at(rules, i);
        if (strcmp(entry->name, json_text_of(value, "name")) != 0) continue;
        TRY(scim_count(request->permit, pg, entry->service.issuer, entry->pinned.effective_ms, &counts, err));
        json_t *state =
            json_pack("{s:I, s:I, s:I, s:I}", "active", (json_int_t)counts.active, "inactive", (json_int_t)counts.inactive,
                      "groups", (json_int_t)counts.groups, "deactivated", (json_int_t)counts.ended_lately);
        if (json_object_set_new(value, "provisioned", state) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for a SCIM service");
    }
    return SUCCESS;
}

const struct log_documents log_scim = {.kind = DOCUMENT_SCIM_SERVICE,
                                       .draft = ACTION_SCIM_DRAFT,
                                       .approve = ACTION_SCIM_APPROVE,
                                       .revoke = ACTION_SCIM_REVOKE,
                                       .reject = ACTION_SCIM_REJECT,
                                       .read = ACTION_SCIM_READ,
                                       .list = "scim",
                                       .what = "document of a SCIM service",
                                       .most = 1,
                                       .gives_roles = true,
                                       .add = add_persons};

/* ---- all ---- */

static const struct log_documents *const kinds[] = {&log_sinks,   &log_detections,    &log_groups, &log_persons, &log_scim,
                                                    &log_glasses, &log_glass_reviews, &log_roles,  &log_officers};

const struct log_documents *log_documents_of(enum action action)
{
    size_t i = 0;

    for (; i < sizeof kinds / sizeof kinds[0]; i++) {
        const struct log_documents *each = kinds[i];
        if (action == each->draft || action == each->approve || action == each->revoke || action == each->reject ||
            action == each->read)
            break;
    }
    assert(i < sizeof kinds / sizeof kinds[0]);
    return kinds[i];
}
