/* Combines rights and policies into one decision; docs/policies.md describes the text that its id is computed over. */
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "policy/decider/decide_priv.h"
#include "policy/decider/place.h"

#define INPUTS_MAX (64 * 1024) /* four pairs of fourteen operations of 100 bytes, and the names */

static enum verdict verdict_of(enum authz_verdict answer)
{
    switch (answer) {
    case AUTHZ_ALLOWED: return VERDICT_ALLOW;
    case AUTHZ_NOT_ALLOWED: return VERDICT_DENY;
    case AUTHZ_INVISIBLE: return VERDICT_HIDE;
    case AUTHZ_NOT_LIVE:
    case AUTHZ_OUT_OF_SCOPE: break;
    }
    return VERDICT_CHALLENGE;
}

static bool has_moved_organisation(const struct tenancy *tenancy, const struct resource *resource)
{
    const struct tenant_organisation *now = tenancy_organisation(tenancy, resource->name);

    if (uuid_is_nil(&resource->organisation) || resource->name[0] == '\0') return false;
    return now == NULL || !uuid_equal(&resource->organisation, &now->id);
}

/* Content comes into the home region alone. Where it was resolved is not the home any more. */
static bool is_of_old_home(const struct decision_draft *draft, const struct pair *pair)
{
    const char *region = pair->pair->resource.region;

    return !draft->context->is_of_server && pair->project != NULL && region[0] != '\0' &&
           (action_operations(pair->pair->action) & (OP_INGEST | OP_MOUNT)) != 0 &&
           strcmp(region, pair->project->home_region) != 0;
}

/* Whether the name was resolved in an older snapshot, and the thing was deleted since. The name may now be that of another
 * thing. */
static bool has_moved(const struct decision_draft *draft, const struct pair *pair)
{
    const struct tenancy *tenancy = &draft->context->snapshot->tenancy;
    const struct resource *resource = &pair->pair->resource;

    if (resource->kind == RESOURCE_SYSTEM) return false;
    if (resource->kind == RESOURCE_ORGANISATION || uuid_is_nil(&resource->project))
        return has_moved_organisation(tenancy, resource);
    if (tenancy_is_deleted(tenancy, &resource->repository)) return true;
    return pair->project == NULL || !uuid_equal(&resource->project, &pair->project->id);
}

/* The region that the bytes are in, or will be. */
static const struct region_refusal *region_refusal(const struct decision_draft *draft, const struct pair *pair)
{
    const struct tenancy *tenancy = &draft->context->snapshot->tenancy;
    const char *named = pair->pair->resource.region;
    const char *region = named[0] != '\0' || pair->project == NULL ? named : pair->project->home_region;
    const struct region_state *state = tenancy->has_closed_region ? tenancy_region(tenancy, region) : NULL;

    const struct region_refusal *refusal = state == NULL ? NULL : region_refusal_of(state, pair->pair->action);

    if (refusal != NULL || draft->context->lacks == NULL || !region_lacks_has(draft->context->lacks, region)) return refusal;
    return region_refusal_without_keys(pair->pair->action);
}

static const char misplaced[] =
    "This content lies where the policies do not let it be any more, so nothing of it is read there. An administrator moves the project "
    "('sijil admin project migrate'), or officers sign an exception for its digest ('sijil policy exception request'); "
    "'sijil admin project show' names the rule.";

static void check_existence(struct decision_draft *draft, const struct pair *pair)
{
    const struct region_refusal *refusal = region_refusal(draft, pair);

    if (has_moved(draft, pair))
        refuse(draft, VERDICT_DENY, "SYS-STALE",
               "The thing of this name was deleted meanwhile, or the name belongs to another thing now; ask again.");
    else if (is_of_old_home(draft, pair))
        refuse(draft, VERDICT_DENY, "SYS-STALE", "The project's home is another region now: push again, and it goes there.");
    else if (pair->pair->resource.kind >= RESOURCE_PROJECT && pair->project == NULL &&
             pair->pair->action != ACTION_PROJECT_CREATE && action_operations(pair->pair->action) != OP_NONE)
        refuse(draft, VERDICT_HIDE, "SYS-NOT-FOUND", "There is no project of this name.");
    else if (refusal != NULL) refuse(draft, VERDICT_DENY, refusal->rule, refusal->message);
    else if (place_refuses(draft->context, pair->pair, pair->digest)) refuse(draft, VERDICT_DENY, PLACE_RULE, misplaced);
}

static void find_digest(struct pair *pair)
{
    static const char prefix[] = "sha256:";
    const char *detail = pair->pair->resource.detail;

    if (strncmp(detail, prefix, sizeof prefix - 1) != 0 || strlen(detail) != SHA_TEXT_SIZE - 1 ||
        !text_consists_of(bytes_of_text(detail + sizeof prefix - 1), "0123456789abcdef"))
        return;
    memcpy(pair->digest, detail, SHA_TEXT_SIZE);
}

static struct result open_pair(struct decision_draft *draft, const struct pair *pair, const char *rights, struct error *err)
{
    const struct resource *resource = &pair->pair->resource;
    char organisation[UUID_TEXT_SIZE], project[UUID_TEXT_SIZE], repository[UUID_TEXT_SIZE];
    struct buffer *inputs = &draft->inputs;
    const bool is_first = inputs->data[inputs->length - 1] == '[';

    uuid_format(&resource->organisation, organisation);
    uuid_format(&resource->project, project);
    uuid_format(&resource->repository, repository);
    TRY(buffer_format(inputs, err, "%s{\"action\":\"%s\",\"detail\":", is_first ? "" : ",", action_name(pair->pair->action)));
    TRY(json_write_string(inputs, bytes_of_text(resource->detail), err));
    TRY(buffer_add_text(inputs, ",\"name\":", err));
    TRY(json_write_string(inputs, bytes_of_text(resource->name), err));
    TRY(buffer_format(inputs, err, ",\"organisation\":\"%s\",\"project\":\"%s\",\"region\":", organisation, project));
    TRY(json_write_string(inputs, bytes_of_text(resource->region), err));
    return buffer_format(inputs, err, ",\"repository\":\"%s\",\"rights\":\"%s\",\"policies\":[", repository, rights);
}

/* A hidden thing is decided and recorded as a name that does not exist, so the answer takes the same time. */
static void conceal(struct resource *resource)
{
    resource->organisation = resource->project = resource->repository = (struct uuid){{0}};
    resource->region[0] = '\0';
}

static struct authz_answer rights_of(const struct decision_context *context, const struct action_pair *asked)
{
    if (context->is_of_server) return (struct authz_answer){.verdict = AUTHZ_ALLOWED};
    return authz_snapshot_authorize(context->snapshot->authz, context->request->principal, asked->action, &asked->resource,
                                    context->request->now_ms);
}

/*
 * Existence and policies are checked only for callers that may know of the thing, because the time of these checks depends
 * on the rules for it.
 */
static struct result decide_pair(struct decision_draft *draft, struct action_pair *asked, struct error *err)
{
    const struct decision_context *context = draft->context;
    const struct authz_answer rights = rights_of(context, asked);
    const enum verdict verdict = verdict_of(rights.verdict);
    const bool is_visible = verdict == VERDICT_ALLOW || verdict == VERDICT_DENY;
    struct pair pair = {.pair = asked, .scope = asked->resource.name};

    pair_facts_begin(&draft->stated, asked->action);
    if (verdict != VERDICT_ALLOW) refuse(draft, verdict, rights.rule, rights.message);
    if (is_visible) pair.project = tenancy_project(&context->snapshot->tenancy, asked->resource.name);
    else conceal(&asked->resource);
    find_digest(&pair);
    draft->stated.knows_digest = pair.digest[0] != '\0';
    if (is_visible) check_existence(draft, &pair);
    TRY(open_pair(draft, &pair, verdict == VERDICT_ALLOW ? "allowed" : rights.rule, err));
    if (is_visible) TRY(evaluate_policies(draft, &pair, err));
    return buffer_add_text(&draft->inputs, "]}", err);
}

/* Only lengths are kept until all pairs are written, because the buffer may move. */
static struct result state_pair(struct decision_draft *draft, size_t index, struct error *err)
{
    const size_t before = draft->facts.length;

    draft->stated.action = draft->parts.pairs[index].action;
    TRY(pair_facts_write(&draft->stated, &draft->facts, err));
    draft->parts.facts[index].length = draft->facts.length - before;
    return SUCCESS;
}

static struct result decide_pairs(struct decision_draft *draft, struct error *err)
{
    for (size_t i = 0; i < draft->parts.pair_count; i++) {
        TRY(decide_pair(draft, &draft->parts.pairs[i], err));
        TRY(state_pair(draft, i, err));
    }
    return SUCCESS;
}

static struct result decide_all(struct decision_draft *draft, struct error *err)
{
    pair_facts_begin(&draft->stated, draft->parts.pairs[0].action);
    if (draft->context->request->principal->kind == PRINCIPAL_NONE && !draft->context->is_of_server)
        refuse(draft, VERDICT_CHALLENGE, "SYS-NO-CREDENTIAL", "Log in first: this needs a credential.");
    else if (draft->context->is_stale)
        refuse(draft, VERDICT_DENY, "SYS-STALE",
               "This gateway can't tell which rights and policies are in force; try again later.");
    else return decide_pairs(draft, err);
    for (size_t i = 0; i < draft->parts.pair_count; i++) TRY(state_pair(draft, i, err));
    return SUCCESS;
}

static struct result write_inputs(struct decision_draft *draft, struct error *err)
{
    static const char *const verdicts[] = {"allow", "deny", "hide", "challenge"};
    char now[CLOCK_TEXT_SIZE];
    uint8_t *reserved = NULL;

    clock_format(draft->context->request->now_ms, now);
    TRY(buffer_reserve(&draft->inputs, INPUTS_USUAL, &reserved, err)); /* one allocation instead of five */
    TRY(buffer_format(&draft->inputs, err,
                      "{\"authorization_epoch\":%llu,\"evaluator\":\"" POLICY_EVALUATOR "\",\"now\":\"%s\",\"pairs\":[",
                      (unsigned long long)draft->parts.epoch, now));
    TRY(decide_all(draft, err));
    return buffer_format(&draft->inputs, err, "],\"policy_set\":\"%s\",\"verdict\":\"%s\"}", draft->parts.policy_digest,
                         verdicts[draft->parts.verdict]);
}

static void depend_on(struct decision_parts *parts, const struct uuid *organisation)
{
    if (!uuid_is_nil(organisation)) parts->organisations[parts->organisation_count++] = *organisation;
}

/*
 * The decision about a role on the whole registry depends on all roles that its granter gave anywhere. A robot that
 * is unknown in this snapshot may exist by now.
 */
static void note_dependencies(const struct decision_context *context, struct decision_parts *parts)
{
    const struct principal *principal = context->request->principal;
    const struct authz_robot *robot =
        principal->kind == PRINCIPAL_ROBOT ? authz_snapshot_robot(context->snapshot->authz, &principal->id) : NULL;

    parts->is_partial = principal->kind != PRINCIPAL_ROBOT || robot != NULL;
    if (robot != NULL) depend_on(parts, &robot->organisation);
    for (size_t i = 0; i < parts->pair_count; i++) {
        const struct resource *resource = &parts->pairs[i].resource;
        depend_on(parts, &resource->organisation);
        if (resource->kind == RESOURCE_SYSTEM && parts->pairs[i].action == ACTION_BINDING_CREATE) parts->is_partial = false;
        if (parts->pairs[i].action == ACTION_ROBOT_ROTATE)
            parts->is_partial = false; /* the robot may have roles in any organisation */
        if (authz_ends_officer_elsewhere(context->snapshot->authz, parts->pairs[i].action, resource, context->request->now_ms))
            parts->is_partial = false;
    }
}

/* Whether what is allowed here stays allowed when somebody gets a role. The other actions may have answers that say what one may do besides. */
static bool outlasts_grants(const struct action_pair *pair)
{
    static const enum action reading[] = {ACTION_MANIFEST_READ, ACTION_MANIFEST_STAT, ACTION_BLOB_READ, ACTION_BLOB_STAT};

    for (size_t i = 0; i < sizeof reading / sizeof reading[0]; i++)
        if (pair->action == reading[i]) return true;
    return pair->action == ACTION_BINDING_CREATE && authz_grant_stands_alone(pair->resource.detail);
}

/* A refusal must not outlast the grant that ends it: who has been given a role is allowed at all gateways. */
static void note_outlasting(struct decision_parts *parts)
{
    parts->outlasts_grants = parts->verdict == VERDICT_ALLOW && parts->is_partial;
    for (size_t i = 0; i < parts->pair_count; i++)
        parts->outlasts_grants = parts->outlasts_grants && outlasts_grants(&parts->pairs[i]);
}

static struct result make(struct decision_draft *draft, struct decision **decision_out, struct error *err)
{
    size_t at = 0;

    note_outlasting(&draft->parts);

    for (size_t i = 0; i < draft->parts.pair_count; i++) {
        draft->parts.facts[i].data = draft->facts.data + at;
        at += draft->parts.facts[i].length;
    }
    return decision_make(&draft->parts, decision_out, err);
}

struct result decide_request(const struct decision_context *context, struct decision **decision_out, struct error *err)
{
    struct decision_draft draft = {.context = context,
                                   .inputs = BUFFER(INPUTS_MAX),
                                   .stated = PAIR_FACTS,
                                   .facts = BUFFER(ACTION_PAIRS_MAX * 2 * PAIR_FACTS_MAX)};
    struct decision_parts *parts = &draft.parts;

    parts->verdict = VERDICT_ALLOW;
    parts->epoch = context->snapshot->epoch;
    parts->decided_ms = context->request->now_ms;
    parts->is_of_server = context->is_of_server;
    parts->pair_count = context->request->pair_count;
    memcpy(parts->pairs, context->request->pairs, sizeof parts->pairs);
    note_dependencies(context, parts);
    if (context->snapshot->set != NULL) memcpy(parts->policy_digest, policy_set_digest(context->snapshot->set), SHA_TEXT_SIZE);
    const struct result written = write_inputs(&draft, err);
    if (written.ok) sha_text(buffer_bytes(&draft.inputs), parts->id);
    const struct result made = written.ok ? make(&draft, decision_out, err) : written;
    buffer_done(&draft.inputs);
    buffer_done(&draft.stated.entries);
    buffer_done(&draft.facts);
    return made;
}
