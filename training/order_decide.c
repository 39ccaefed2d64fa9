/* Decides a requested run again: with today's rights of its requester, and today's policies. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "policy/train.h"
#include "training/format/spec.h"
#include "training/lease.h"
#include "training/order_priv.h"
#include "training/standing.h"

#define ATTEMPTS         3             /* that an order allows: an attempt may be lost with its machine */
#define REPOSITORIES_MAX (3 + 64 + 16) /* code, image, checkpoint; inputs; outputs */

struct use {
    enum action action;
    const char *repository;
};

struct asking {
    struct decider *decider;
    const struct run_wish *wish;
    struct run_draft *draft;
    struct run_verdict *verdict;
    struct policy_set *set;
    int64_t now_ms;
    struct use uses[REPOSITORIES_MAX];
    size_t count;
    struct buffer jurisdictions, regions;
    char rule[65];                      /* that denied a region; "" */
    char denied[RESOURCE_NAME_MAX + 1]; /* the repository there */
};

void run_verdict_done(struct run_verdict *verdict)
{
    decision_free(verdict->decision);
    verdict->decision = NULL;
}

/* The run ends with this reason. */
static struct result __attribute__((format(printf, 2, 3))) end(struct asking *asking, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(asking->verdict->reason, sizeof asking->verdict->reason, format, arguments);
    va_end(arguments);
    return SUCCESS;
}

static bool has_ended(const struct asking *asking)
{
    return asking->verdict->reason[0] != '\0';
}

/* ---- the repositories ---- */

static void add_use(struct asking *asking, enum action action, const json_t *artifact)
{
    const char *name = json_text_of(artifact, "repository");

    for (size_t i = 0; i < asking->count; i++)
        if (asking->uses[i].action == action && strcmp(asking->uses[i].repository, name) == 0) return;
    if (asking->count < REPOSITORIES_MAX) asking->uses[asking->count++] = (struct use){action, name};
}

static void add_uses(struct asking *asking)
{
    const json_t *spec = run_member(asking->wish->request, "spec"), *outputs = json_object_get(spec, "outputs");
    const struct run_artifacts artifacts = run_spec_artifacts(spec);

    for (size_t i = 0; i < artifacts.count; i++) add_use(asking, ACTION_RUN_USE, artifacts.each[i].json);
    for (size_t i = 0; i < json_array_size(outputs); i++) add_use(asking, ACTION_RUN_REQUEST, json_array_get(outputs, i));
}

/* ---- rights ---- */

static struct result decide_pair(struct asking *asking, const struct action_pair *pair, struct decision **decision_out,
                                 struct error *err)
{
    struct decision_request question = {
        .principal = &asking->verdict->requester, .pair_count = 1, .pairs = {*pair}, .now_ms = asking->now_ms};

    return decider_decide(asking->decider, &question, decision_out, err);
}

static struct result check_right(struct asking *asking, const struct use *use, struct error *err)
{
    struct action_pair pair = {.action = use->action, .resource.kind = RESOURCE_REPOSITORY};
    OWNED(decision) *decision = NULL;

    decider_resolve(asking->decider, use->repository, &pair.resource);
    TRY(decide_pair(asking, &pair, &decision, err));
    if (decision_verdict(decision) == VERDICT_ALLOW) return SUCCESS;
    (void)snprintf(asking->verdict->reason, sizeof asking->verdict->reason, "today the requester may not %s %.130s: rule %.50s",
                   use->action == ACTION_RUN_USE ? "use" : "write into", use->repository, decision_denial(decision, 0)->rule);
    asking->verdict->decision = GIVE(decision);
    return SUCCESS;
}

static struct result check_rights(struct asking *asking, struct error *err)
{
    const struct run_wish *wish = asking->wish;

    if (!decider_principal(asking->decider, wish->requester, &wish->where.organisation, &asking->verdict->requester))
        return end(asking, "the requester has no role in this organisation any more");
    const struct run_asker asker = {asking->decider, &wish->where.organisation, wish->request};
    TRY(run_secret_check(&asker, asking->verdict->reason, err));
    for (size_t i = 0; i < asking->count && !has_ended(asking); i++) TRY(check_right(asking, &asking->uses[i], err));
    return SUCCESS;
}

/* ---- places ---- */

static struct result ask_repository(struct asking *asking, const char *repository, const char *region, bool *may,
                                    struct error *err)
{
    struct train_answer answer;

    TRY(decider_train(asking->decider, repository, region, asking->now_ms, &answer, err));
    if (strcmp(answer.policies, policy_set_digest(asking->set)) != 0)
        return failure(err, ERROR_CONFLICT, "the policies changed meanwhile");
    if (answer.approvals > asking->draft->approvals) asking->draft->approvals = answer.approvals;
    asking->draft->signed_request = asking->draft->signed_request || answer.signed_request;
    if (answer.is_allowed) return SUCCESS;
    *may = false;
    (void)snprintf(asking->rule, sizeof asking->rule, "%s", answer.rule);
    (void)snprintf(asking->denied, sizeof asking->denied, "%s", repository);
    return SUCCESS;
}

/* Duties count only where the run may be. */
static struct result ask_region(struct asking *asking, const char *region, bool *may_out, struct error *err)
{
    const int64_t approvals = asking->draft->approvals;
    const bool signed_request = asking->draft->signed_request;
    bool may = true;

    for (size_t i = 0; i < asking->count && may; i++) TRY(ask_repository(asking, asking->uses[i].repository, region, &may, err));
    if (!may) asking->draft->approvals = approvals;
    if (!may) asking->draft->signed_request = signed_request;
    *may_out = may;
    return SUCCESS;
}

static struct result add_word(struct buffer *list, const char *word, struct error *err)
{
    return buffer_format(list, err, "%s%s", list->length == 0 ? "" : " ", word);
}

static bool lies_in_any(const struct asking *asking, const char *region, const json_t *jurisdictions)
{
    for (size_t i = 0; i < json_array_size(jurisdictions); i++)
        if (policy_region_lies_in(asking->set, region, json_string_value(json_array_get(jurisdictions, i)))) return true;
    return false;
}

static struct result add_place(struct asking *asking, const char *place, struct error *err)
{
    bool may = false;

    TRY(ask_region(asking, place, &may, err));
    return may ? add_word(&asking->regions, place, err) : SUCCESS;
}

/* An attested runner in a region is a place of its own. */
static struct result find_regions(struct asking *asking, const json_t *jurisdictions, struct error *err)
{
    char attested[POLICY_ATTESTED_SIZE];

    for (size_t i = 0; i < policy_set_region_count(asking->set); i++) {
        const char *region = policy_set_region_name(asking->set, i);
        if (!lies_in_any(asking, region, jurisdictions)) continue;
        (void)snprintf(attested, sizeof attested, POLICY_ATTESTED_MARK "%s", region);
        TRY(add_place(asking, region, err));
        TRY(add_place(asking, attested, err));
    }
    return SUCCESS;
}

static bool is_allowed_in(const struct asking *asking, const char *jurisdiction)
{
    struct bytes rest = buffer_bytes(&asking->regions);
    char region[POLICY_ATTESTED_SIZE];

    while (rest.length > 0) {
        const struct bytes word = text_cut(&rest, ' ');
        (void)snprintf(region, sizeof region, "%.*s", (int)word.length, (const char *)word.data);
        if (policy_region_lies_in(asking->set, region, jurisdiction)) return true;
    }
    return false;
}

/* A place is allowed if a region lies in it where the policies allow the run. */
static struct result find_jurisdictions(struct asking *asking, struct error *err)
{
    const json_t *wanted = run_member(asking->wish->request, "spec.jurisdictions");

    TRY(find_regions(asking, wanted, err));
    for (size_t i = 0; i < json_array_size(wanted); i++) {
        const char *jurisdiction = json_string_value(json_array_get(wanted, i));
        if (is_allowed_in(asking, jurisdiction)) TRY(add_word(&asking->jurisdictions, jurisdiction, err));
    }
    if (asking->jurisdictions.length > 0) return SUCCESS;
    if (asking->rule[0] == '\0') return end(asking, "no region of the policies' catalogue lies in a jurisdiction of the request");
    return end(asking, "the policies do not allow a run with %.130s in any jurisdiction of the request: rule %.50s",
               asking->denied, asking->rule);
}

/* ---- */

static struct result decide_order(struct asking *asking, struct error *err)
{
    const struct run_wish *wish = asking->wish;
    const struct action_pair pair = {ACTION_RUN_ORDER, wish->where};
    OWNED(decision) *decision = NULL;

    const struct run_duties duties = {asking->draft->approvals, asking->draft->signed_request};
    const struct run_asker asker = {asking->decider, &wish->where.organisation, wish->request};

    run_duties_check(&asker, wish->approvals, &duties, asking->verdict->reason);
    if (has_ended(asking)) return SUCCESS;
    TRY(decide_pair(asking, &pair, &decision, err));
    if (decision_verdict(decision) != VERDICT_ALLOW)
        (void)snprintf(asking->verdict->reason, sizeof asking->verdict->reason,
                       "today the requester may not train here: rule %.50s", decision_denial(decision, 0)->rule);
    else if (strcmp(decision_policy_digest(decision), policy_set_digest(asking->set)) != 0)
        return failure(err, ERROR_CONFLICT, "the policies changed meanwhile");
    asking->verdict->may = !has_ended(asking);
    asking->verdict->decision = GIVE(decision);
    return SUCCESS;
}

static struct result decide(struct asking *asking, struct error *err)
{
    add_uses(asking);
    TRY(check_rights(asking, err));
    if (!has_ended(asking)) TRY(find_jurisdictions(asking, err));
    return has_ended(asking) ? SUCCESS : decide_order(asking, err);
}

static struct result keep(struct asking *asking, struct error *err)
{
    struct run_draft *draft = asking->draft;

    (void)snprintf(draft->policies, sizeof draft->policies, "%s", policy_set_digest(asking->set));
    (void)snprintf(draft->jurisdictions, sizeof draft->jurisdictions, "%s", buffer_text(&asking->jurisdictions));
    free(draft->regions);
    draft->regions = memory_copy_text(buffer_text(&asking->regions), asking->regions.length);
    draft->attempts = ATTEMPTS;
    return draft->regions != NULL ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for an order");
}

struct result run_wish_decide(struct decider *decider, const struct run_wish *wish, struct run_draft *draft,
                              struct run_verdict *verdict_out, struct error *err)
{
    OWNED(policy_set) *set = decider_policy_set(decider);
    struct asking *asking = memory_zeroed(1, sizeof *asking);

    if (asking == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a decision");
    *asking = (struct asking){.decider = decider,
                              .wish = wish,
                              .draft = draft,
                              .verdict = verdict_out,
                              .set = set,
                              .now_ms = clock_wall_ms(),
                              .jurisdictions = BUFFER(DRAFT_JURISDICTIONS_SIZE - 1),
                              .regions = BUFFER(DRAFT_REGIONS_SIZE - 1)};
    struct result result = set == NULL ? failure(err, ERROR_UNAVAILABLE, "no policy set is loaded yet") : decide(asking, err);
    if (result.ok && verdict_out->may) result = keep(asking, err);
    buffer_done(&asking->jurisdictions);
    buffer_done(&asking->regions);
    free(asking);
    return result;
}
