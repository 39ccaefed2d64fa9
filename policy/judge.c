/* Rights and policies joined into one decision; docs/policies.md says what its id is over. */
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "policy/judge_priv.h"

#define INPUTS_MAX (64 * 1024) /* four pairs, fourteen operations each, at 100 bytes; and the names */

static enum verdict verdict_of(enum judgement judgement)
{
    switch (judgement) {
    case JUDGED_ALLOWED: return VERDICT_ALLOW;
    case JUDGED_NOT_ALLOWED: return VERDICT_DENY;
    case JUDGED_INVISIBLE: return VERDICT_HIDE;
    case JUDGED_NOT_LIVE:
    case JUDGED_OUT_OF_SCOPE: break;
    }
    return VERDICT_CHALLENGE;
}

static bool has_moved_organisation(const struct tenancy *tenancy, const struct resource *resource)
{
    const struct tenant_organisation *now = tenancy_organisation(tenancy, resource->name);

    if (uuid_is_nil(&resource->organisation) || resource->name[0] == '\0') return false;
    return now == NULL || !uuid_equal(&resource->organisation, &now->id);
}

/* The name was resolved from an older snapshot, and means something else now: what it meant was deleted. */
static bool has_moved(const struct making *making, const struct pair *pair)
{
    const struct tenancy *tenancy = &making->judge->snapshot->tenancy;
    const struct resource *resource = &pair->pair->resource;

    if (resource->kind == RESOURCE_SYSTEM) return false;
    if (resource->kind == RESOURCE_ORGANISATION || uuid_is_nil(&resource->project)) return has_moved_organisation(tenancy, resource);
    if (tenancy_is_buried(tenancy, &resource->repository)) return true;
    return pair->project == NULL || !uuid_equal(&resource->project, &pair->project->id);
}

static void judge_existence(struct making *making, const struct pair *pair)
{
    if (has_moved(making, pair))
        refuse(making, VERDICT_DENY, "SYS-STALE", "What had this name was deleted meanwhile, or the name is another's now; ask again.");
    else if (pair->pair->resource.kind >= RESOURCE_PROJECT && pair->project == NULL &&
             pair->pair->action != ACTION_PROJECT_CREATE && action_operations(pair->pair->action) != OP_NONE)
        refuse(making, VERDICT_HIDE, "SYS-NOT-FOUND", "There is no project of this name.");
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

static struct result open_pair(struct making *making, const struct pair *pair, const char *rights, struct error *err)
{
    const struct resource *resource = &pair->pair->resource;
    char organisation[UUID_TEXT_SIZE], project[UUID_TEXT_SIZE], repository[UUID_TEXT_SIZE];
    struct buffer *inputs = &making->inputs;
    const bool is_first = inputs->data[inputs->length - 1] == '[';

    uuid_format(&resource->organisation, organisation);
    uuid_format(&resource->project, project);
    uuid_format(&resource->repository, repository);
    TRY(buffer_format(inputs, err, "%s{\"action\":\"%s\",\"detail\":", is_first ? "" : ",",
                      action_name(pair->pair->action)));
    TRY(json_write_string(inputs, bytes_of_text(resource->detail), err));
    TRY(buffer_add_text(inputs, ",\"name\":", err));
    TRY(json_write_string(inputs, bytes_of_text(resource->name), err));
    TRY(buffer_format(inputs, err, ",\"organisation\":\"%s\",\"project\":\"%s\",\"region\":", organisation, project));
    TRY(json_write_string(inputs, bytes_of_text(resource->region), err));
    return buffer_format(inputs, err, ",\"repository\":\"%s\",\"rights\":\"%s\",\"policies\":[", repository, rights);
}

/* What the caller may not see is judged, and stands in the event, as a name that is nowhere: so the answer takes the same time. */
static void conceal(struct resource *resource)
{
    resource->organisation = resource->project = resource->repository = (struct uuid){{0}};
    resource->region[0] = '\0';
}

/* Policies and what there is are asked only for callers that may know of the thing: asking costs as much as the thing has rules. */
static struct result judge_pair(struct making *making, struct action_pair *asked, struct error *err)
{
    const struct judge *judge = making->judge;
    const struct authz_judgement rights = authz_snapshot_judge(
        judge->snapshot->authz, judge->request->principal, asked->action, &asked->resource, judge->request->now_ms);
    const enum verdict verdict = verdict_of(rights.verdict);
    const bool is_visible = verdict == VERDICT_ALLOW || verdict == VERDICT_DENY;
    struct pair pair = {.pair = asked, .scope = asked->resource.name};

    pair_facts_begin(&making->stated, asked->action);
    if (verdict != VERDICT_ALLOW) refuse(making, verdict, rights.rule, rights.message);
    if (is_visible) pair.project = tenancy_project(&judge->snapshot->tenancy, asked->resource.name);
    else conceal(&asked->resource);
    find_digest(&pair);
    making->stated.knows_digest = pair.digest[0] != '\0';
    if (is_visible) judge_existence(making, &pair);
    TRY(open_pair(making, &pair, verdict == VERDICT_ALLOW ? "allowed" : rights.rule, err));
    if (is_visible) TRY(judge_policies(making, &pair, err));
    return buffer_add_text(&making->inputs, "]}", err);
}

/* Until all are there, lengths alone: the buffer may move. */
static struct result state_pair(struct making *making, size_t place, struct error *err)
{
    const size_t before = making->facts.length;

    making->stated.action = making->parts.pairs[place].action;
    TRY(pair_facts_write(&making->stated, &making->facts, err));
    making->parts.facts[place].length = making->facts.length - before;
    return SUCCESS;
}

static struct result judge_pairs(struct making *making, struct error *err)
{
    for (size_t i = 0; i < making->parts.pair_count; i++) {
        TRY(judge_pair(making, &making->parts.pairs[i], err));
        TRY(state_pair(making, i, err));
    }
    return SUCCESS;
}

static struct result judge_all(struct making *making, struct error *err)
{
    pair_facts_begin(&making->stated, making->parts.pairs[0].action);
    if (making->judge->request->principal->kind == PRINCIPAL_NONE)
        refuse(making, VERDICT_CHALLENGE, "SYS-NO-CREDENTIAL", "Log in first: this needs a credential.");
    else if (making->judge->is_stale)
        refuse(making, VERDICT_DENY, "SYS-STALE",
               "This gateway can't tell which rights and policies are in force; try again later.");
    else
        return judge_pairs(making, err);
    for (size_t i = 0; i < making->parts.pair_count; i++) TRY(state_pair(making, i, err));
    return SUCCESS;
}

static struct result write_inputs(struct making *making, struct error *err)
{
    static const char *const verdicts[] = {"allow", "deny", "hide", "challenge"};
    char now[CLOCK_TEXT_SIZE];
    uint8_t *place = NULL;

    clock_format(making->judge->request->now_ms, now);
    TRY(buffer_reserve(&making->inputs, INPUTS_USUAL, &place, err)); /* grown once, not five times */
    TRY(buffer_format(&making->inputs, err, "{\"authorization_epoch\":%llu,\"evaluator\":\"" POLICY_EVALUATOR
                      "\",\"now\":\"%s\",\"pairs\":[", (unsigned long long)making->parts.epoch, now));
    TRY(judge_all(making, err));
    return buffer_format(&making->inputs, err, "],\"policy_set\":\"%s\",\"verdict\":\"%s\"}",
                         making->parts.policy_digest, verdicts[making->parts.verdict]);
}

static void depend_on(struct decision_parts *parts, const struct uuid *organisation)
{
    if (!uuid_is_nil(organisation)) parts->organisations[parts->organisation_count++] = *organisation;
}

/* A role on the whole registry is judged with all roles that its giver gave anywhere. A robot that is not known may be by now. */
static void note_dependencies(const struct judge *judge, struct decision_parts *parts)
{
    const struct principal *principal = judge->request->principal;
    const struct authz_robot *robot =
        principal->kind == PRINCIPAL_ROBOT ? authz_snapshot_robot(judge->snapshot->authz, &principal->id) : NULL;

    parts->is_partial = principal->kind != PRINCIPAL_ROBOT || robot != NULL;
    if (robot != NULL) depend_on(parts, &robot->organisation);
    for (size_t i = 0; i < parts->pair_count; i++) {
        const struct resource *resource = &parts->pairs[i].resource;
        depend_on(parts, &resource->organisation);
        if (resource->kind == RESOURCE_SYSTEM && parts->pairs[i].action == ACTION_BINDING_CREATE) parts->is_partial = false;
        if (parts->pairs[i].action == ACTION_ROBOT_ROTATE) parts->is_partial = false; /* its roles may be anywhere */
    }
}

static struct result make(struct making *making, struct decision **decision_out, struct error *err)
{
    size_t at = 0;

    for (size_t i = 0; i < making->parts.pair_count; i++) {
        making->parts.facts[i].data = making->facts.data + at;
        at += making->parts.facts[i].length;
    }
    return decision_make(&making->parts, decision_out, err);
}

struct result judge_request(const struct judge *judge, struct decision **decision_out, struct error *err)
{
    struct making making = {.judge = judge, .inputs = BUFFER(INPUTS_MAX), .stated = PAIR_FACTS,
                            .facts = BUFFER(ACTION_PAIRS_MAX * 2 * PAIR_FACTS_MAX)};
    struct decision_parts *parts = &making.parts;

    parts->verdict = VERDICT_ALLOW;
    parts->epoch = judge->snapshot->epoch;
    parts->decided_ms = judge->request->now_ms;
    parts->pair_count = judge->request->pair_count;
    memcpy(parts->pairs, judge->request->pairs, sizeof parts->pairs);
    note_dependencies(judge, parts);
    if (judge->snapshot->set != NULL)
        memcpy(parts->policy_digest, policy_set_digest(judge->snapshot->set), SHA_TEXT_SIZE);
    const struct result written = write_inputs(&making, err);
    if (written.ok) sha_text(buffer_bytes(&making.inputs), parts->id);
    const struct result made = written.ok ? make(&making, decision_out, err) : written;
    buffer_done(&making.inputs);
    buffer_done(&making.stated.places);
    buffer_done(&making.facts);
    return made;
}
