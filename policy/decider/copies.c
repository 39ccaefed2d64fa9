#include "policy/decider/copies.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "policy/decider/copy_decision.h"
#include "policy/decider/decider_priv.h"
#include "policy/evaluate.h"
#include "policy/places.h"

static struct action_pair pair_of(const struct copy_question *question, enum action action, const char *region)
{
    struct action_pair pair = {.action = action, .resource = *question->where};

    (void)snprintf(pair.resource.region, sizeof pair.resource.region, "%s", region);
    (void)snprintf(pair.resource.detail, sizeof pair.resource.detail, "%s", question->digest);
    return pair;
}

struct result decider_decide_copy(struct decider *decider, const struct copy_question *question, struct decision **decision_out,
                                  struct error *err)
{
    static const struct principal nobody = {.kind = PRINCIPAL_NONE};
    const size_t write = question->is_at_source ? 1 : 0;
    struct decision_request request = {.principal = &nobody, .pair_count = 2, .now_ms = question->now_ms};

    request.pairs[write] = pair_of(question, question->action, question->to);
    request.pairs[1 - write] = pair_of(question, ACTION_COPY_READ, question->from);
    OWNED(snapshot) *snapshot = decider_take(decider);
    struct decision_context context = decider_context(decider, snapshot, &request);

    context.is_of_server = true;
    return decide_request(&context, decision_out, err);
}

/* The epochs of the database at which the names were read, and of the set: in one number, because that is what is stored. */
#define NAMES_BITS PLACE_SET_SHIFT
#define NAMES_MASK (((uint64_t)1 << NAMES_BITS) - 1)
#define SET_MASK   (((uint64_t)1 << 23) - 1)

uint64_t copies_version(uint64_t names, uint64_t set)
{
    return (set & SET_MASK) << NAMES_BITS | (names & NAMES_MASK);
}

bool copies_version_has_more(uint64_t version, uint64_t reviewed)
{
    return version >> NAMES_BITS > reviewed >> NAMES_BITS || (version & NAMES_MASK) > (reviewed & NAMES_MASK);
}

uint64_t decider_copies_version(struct decider *decider)
{
    OWNED(snapshot) *snapshot = decider_take(decider);

    return copies_version(snapshot->names->version, snapshot->set == NULL ? 0 : policy_set_epoch(snapshot->set));
}

/* The facts of a decision have SHA-256 alone. */
static const char *digest_of_facts(const char *digest)
{
    return strncmp(digest, "sha256:", strlen("sha256:")) == 0 ? digest : NULL;
}

struct result decider_copy_stays(struct decider *decider, const struct copy_question *question, struct store_answer *answer_out,
                                 struct error *err)
{
    const struct decision_request request = {.now_ms = question->now_ms};
    const struct repository_query query = {.name = question->where->name,
                                           .region = question->to,
                                           .op = (enum policy_operation)action_operations(question->action),
                                           .digest = digest_of_facts(question->digest)};
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct decision_context context = decider_context(decider, snapshot, &request);
    OWNED(policy_decision) *decision = NULL;

    TRY(policies_known(&context, err));
    TRY(evaluate_repository(&context, &query, &decision, err));
    *answer_out = store_answer_of(&context, decision);
    return SUCCESS;
}

/* ---- Sites and anchors ---- */

static const char *site_of(const struct policy_set *set, const char *region)
{
    const char *site = json_text_of(policy_set_region_record(set, region), "site");

    return site == NULL ? region : site;
}

static int64_t count_sites(const struct policy_set *set, const struct placed_query *query)
{
    const struct placed_region *regions = query->regions;
    int64_t sites = 0;

    for (size_t i = 0; i < query->count; i++) {
        bool is_new = regions[i].stale_s == 0;
        for (size_t k = 0; k < i && is_new; k++)
            is_new = regions[k].stale_s > 0 || strcmp(site_of(set, regions[k].region), site_of(set, regions[i].region)) != 0;
        sites += is_new;
    }
    return sites;
}

static bool is_in_one(const char *geo, const json_t *places)
{
    for (size_t i = 0; geo != NULL && i < json_array_size(places); i++)
        if (place_is_within(geo, json_string_value(json_array_get(places, i)))) return true;
    return false;
}

static struct result is_met(const struct policy_set *set, const char *anchor, const struct placed_query *query, bool *is_met_out,
                            struct error *err)
{
    OWNED_JSON json = NULL;
    int64_t most_s = 0;

    *is_met_out = false;
    TRY(json_read(bytes_of_text(anchor), POLICY_DOCUMENT_BYTES_MAX, &json, err));
    if (!json_integer_of(json, "max_staleness_s", &most_s)) most_s = INT64_MAX;
    for (size_t i = 0; i < query->count && !*is_met_out; i++) {
        const struct placed_region *placed = &query->regions[i];
        const char *geo = json_text_of(policy_set_region_record(set, placed->region), "geo");
        *is_met_out = placed->stale_s <= most_s && is_in_one(geo, json_object_get(json, "geo_within"));
    }
    return SUCCESS;
}

static struct result count_anchors(const struct policy_set *set, const struct policy_decision *decision,
                                   const struct placed_query *query, size_t *met_out, struct error *err)
{
    *met_out = 0;
    for (size_t i = 0; i < policy_decision_anchors(decision); i++) {
        bool met = false;
        TRY(is_met(set, policy_decision_anchor(decision, i), query, &met, err));
        *met_out += met;
    }
    return SUCCESS;
}

/* The operation of a push that lacks the most is what is reported. */
static struct result add_demand(const struct decision_context *context, const struct placed_query *query,
                                enum policy_operation op, struct placed_copies *copies, struct error *err)
{
    const struct repository_query asked = {.name = query->name, .op = op};
    OWNED(policy_decision) *decision = NULL;
    size_t met = 0;

    TRY(evaluate_repository(context, &asked, &decision, err));
    if (policy_decision_sites(decision) > copies->min_sites) copies->min_sites = policy_decision_sites(decision);
    TRY(count_anchors(context->snapshot->set, decision, query, &met, err));
    if (copies->anchors > 0 && policy_decision_anchors(decision) - met <= copies->anchors - copies->met) return SUCCESS;
    copies->anchors = policy_decision_anchors(decision);
    copies->met = met;
    return SUCCESS;
}

struct result decider_placed(struct decider *decider, const struct placed_query *query, struct placed_copies *copies_out,
                             struct error *err)
{
    static const enum policy_operation operations[] = {OP_INGEST, OP_METADATA, OP_LOG};
    const struct decision_request request = {.now_ms = clock_wall_ms()};
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct decision_context context = decider_context(decider, snapshot, &request);
    struct placed_copies copies = {.min_sites = 0};

    TRY(policies_known(&context, err));
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
        TRY(add_demand(&context, query, operations[i], &copies, err));
    copies.sites = count_sites(snapshot->set, query);
    *copies_out = copies;
    return SUCCESS;
}

/* ---- Reading ---- */

/* A region without keys has no bytes to give: its own sijil-keyd is not current. */
static bool has_keys(const struct decider *decider, const char *region)
{
    return decider->lacks == NULL || !region_lacks_has(decider->lacks, region);
}

static bool is_readable(const struct tenancy *tenancy, const struct reading_region *reading, const char *region)
{
    const struct region_state *state = tenancy->has_closed_region ? tenancy_region(tenancy, region) : NULL;

    return (state == NULL || region_refusal_of(state, ACTION_COPY_READ) == NULL) && reading->can_use(reading->context, region);
}

/* What may not rest at home is read from a copy where it may be. */
static bool is_readable_at_home(const struct tenancy *tenancy, const struct reading_region *reading,
                                const struct tenant_project *project, const char *name)
{
    const struct tenant_misplaced *misplaced = tenancy_misplaced(tenancy, name);
    const bool is_closed =
        misplaced != NULL && !misplaced->is_of_database && strcmp(misplaced->region, project->home_region) == 0;

    return !is_closed && is_readable(tenancy, reading, project->home_region);
}

bool decider_reads_elsewhere(struct decider *decider, const char *name, struct reading_region *reading)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct tenancy *tenancy = &snapshot->tenancy;
    const struct tenant_project *project = tenancy_project(tenancy, name);

    if (project == NULL || project->copy_regions == NULL || is_readable_at_home(tenancy, reading, project, name)) return false;
    for (const char *at = project->copy_regions; *at != '\0'; at += strcspn(at, "\n") + 1) {
        (void)snprintf(reading->region, sizeof reading->region, "%.*s", (int)strcspn(at, "\n"), at);
        if (has_keys(decider, reading->region) && is_readable(tenancy, reading, reading->region)) return true;
    }
    return false;
}
