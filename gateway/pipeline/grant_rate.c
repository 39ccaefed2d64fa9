/*
 * How fast rights may be made, and training runs be asked for. Each new robot, secret, role, project or label, and each deletion of an organisation, project or repository,
 * is a change that all gateways load, and that delays concurrent records for a moment. One tenant that makes them in a loop would slow all
 * others. Revoking a robot, a role or an issuer has no such limit: it must work at once, and no more rights can be revoked than were made.
 *
 * A request for a run leaves an envelope of up to 64 KiB in the database for ever. Cancelling runs has no limit.
 */
#include "authz/role.h"
#include "gateway/pipeline/exchange_priv.h"

static bool makes_rights(enum action action)
{
    static const enum action making[] = {
        ACTION_ROBOT_CREATE,        ACTION_BINDING_CREATE,   ACTION_PROJECT_CREATE,    ACTION_ORGANISATION_CREATE,
        ACTION_PROJECT_LABEL,       ACTION_REPOSITORY_LABEL, ACTION_ISSUER_TRUST,      ACTION_POLICY_LOAD,
        ACTION_ORGANISATION_DELETE, ACTION_PROJECT_DELETE,   ACTION_REPOSITORY_DELETE, ACTION_ROBOT_ROTATE,
        ACTION_SCIM_CREATE,         ACTION_SCIM_CHANGE,      ACTION_SCIM_GROUP,        ACTION_ELEVATION_REQUEST};

    for (size_t i = 0; i < sizeof making / sizeof making[0]; i++)
        if (making[i] == action) return true;
    return false;
}

/*
 * What approves a key, a document or a run, ends a hold, erases a person, or changes what binds a project, a region or the log, beside what makes rights. What takes rights
 * away, stops something or keeps it is in neither list (docs/witness.md). The action is that of the route's target: key.confirm and key.replace come with key.approve,
 * audit.erase with erasure.ask.
 */
static bool approves(enum action action)
{
    static const enum action approving[] = {
        ACTION_KEY_ENROLL,          ACTION_KEY_APPROVE,         ACTION_RULE_DRAFT,        ACTION_RULE_APPROVE,
        ACTION_RUNNER_CONFIRM,      ACTION_RUNNER_APPROVE,      ACTION_RUN_REQUEST,       ACTION_RUN_APPROVE,
        ACTION_RUNNER_INVITE,       ACTION_GROUPS_DRAFT,        ACTION_GROUPS_APPROVE,    ACTION_PERSONS_DRAFT,
        ACTION_SCIM_DRAFT,          ACTION_SCIM_APPROVE,        ACTION_PERSONS_APPROVE,   ACTION_BREAK_GLASS_ASK,
        ACTION_BREAK_GLASS_APPROVE, ACTION_BREAK_GLASS_REVIEW,  ACTION_ROLE_DRAFT,        ACTION_ROLE_APPROVE,
        ACTION_POLICY_DRAFT,        ACTION_POLICY_APPROVE,      ACTION_OFFICERS_DRAFT,    ACTION_OFFICERS_APPROVE,
        ACTION_RESTRICTION_DRAFT,   ACTION_RESTRICTION_APPROVE, ACTION_SINK_DRAFT,        ACTION_SINK_APPROVE,
        ACTION_DETECTION_DRAFT,     ACTION_DETECTION_APPROVE,   ACTION_HOLD_ASK,          ACTION_HOLD_RELEASE,
        ACTION_CONTENT_RELEASE,     ACTION_CONTENT_FREE,        ACTION_ERASURE_ASK,       ACTION_LOG_KEY_ROTATE,
        ACTION_PROJECT_QUOTA,       ACTION_PROJECT_RULES,       ACTION_PROJECT_REPLICATE, ACTION_PROJECT_MIGRATE,
        ACTION_REGION_REOPEN,       ACTION_REGION_RETIRE,       ACTION_BINDING_BATCH /* its grants are counted one by one */};

    for (size_t i = 0; i < sizeof approving / sizeof approving[0]; i++)
        if (approving[i] == action) return true;
    return false;
}

bool change_waits_for_witnesses(const struct exchange *exchange)
{
    const struct request *request = &exchange->request;

    return atomic_load(&request->gateway->is_without_quorum) && request->pair_count > 0 &&
           decision_verdict(exchange->decision) == VERDICT_ALLOW &&
           (makes_rights(request->pairs[0].action) || approves(request->pairs[0].action));
}

static bool is_within(struct exchange *exchange, const char *kind, const char *key, const char *realm, int64_t rate)
{
    struct quota *quota = exchange->request.gateway->quota;
    const struct quota_limits limits = {.at_a_time = UINT32_MAX, .rate = (unsigned)rate, .realm = realm};
    struct quota_ticket ticket = {0};
    struct error err = {0};

    const bool is_within = quota_enter(quota, kind, key, &limits, &ticket, &err).ok;
    quota_leave(quota, &ticket);
    return is_within;
}

bool run_rate_is_exceeded(struct exchange *exchange)
{
    const struct request *request = &exchange->request;
    char organisation[UUID_TEXT_SIZE], project[UUID_TEXT_SIZE];

    if (exchange->shares.is_in_run_rate || request->pair_count == 0 || request->pairs[0].action != ACTION_RUN_REQUEST ||
        decision_verdict(exchange->decision) != VERDICT_ALLOW)
        return false;
    exchange->shares.is_in_run_rate = true;
    uuid_format(&request->pairs[0].resource.organisation, organisation);
    uuid_format(&request->pairs[0].resource.project, project);
    return !is_within(exchange, "runs of a project", project, organisation, request->gateway->settings->run_rate_per_project);
}

bool grant_rate_is_exceeded(struct exchange *exchange)
{
    const struct request *request = &exchange->request;
    const struct settings *settings = request->gateway->settings;
    char organisation[UUID_TEXT_SIZE], principal[PRINCIPAL_KEY_SIZE];

    if (exchange->shares.is_in_grant_rate || request->pair_count == 0 || !makes_rights(request->pairs[0].action) ||
        decision_verdict(exchange->decision) != VERDICT_ALLOW)
        return false;
    exchange->shares.is_in_grant_rate = true;
    uuid_format(&request->pairs[0].resource.organisation, organisation);
    principal_key(request->principal, principal);
    return !is_within(exchange, "rights of an organisation", organisation, organisation,
                      settings->rights_rate_per_organisation) ||
           !is_within(exchange, "rights by a principal", principal, organisation, settings->rights_rate_per_principal);
}
