#include "policy/train.h"

#include <string.h>

#include "policy/set_priv.h"
#include "training/format/artifacts.h"

#define REPOSITORIES_MAX (RUN_ARTIFACTS_MAX + 16) /* and outputs */

/* Floors state no lineage. The least strict one is taken, and without a floor the least strict label. */
static struct result least_label(const struct policy_set *set, const struct train_query *query, struct label *label_out,
                                 struct error *err)
{
    const struct label_query labels = {
        .documents = policy_set_documents(set), .scope = query->repository, .now_us = query->now_ms * 1000};
    bool is_floor = false;

    TRY(policy_effective_label(&labels, NULL, label_out, &is_floor, err));
    if (!is_floor) *label_out = label_initial();
    label_out->lineage = LINEAGE_ATTESTED;
    return SUCCESS;
}

struct result policy_train(const struct policy_set *set, const struct train_query *query, struct policy_decision **decision_out,
                           struct error *err)
{
    const struct policy_target *target = policy_set_region(set, query->region);
    struct label label;

    TRY(least_label(set, query, &label, err));
    const struct policy_facts facts = {.op = OP_TRAIN,
                                       .scope = query->repository,
                                       .policy_epoch = policy_set_epoch(set),
                                       .label = &label,
                                       .target_id = query->region,
                                       .target = target != NULL ? target : policy_set_unknown(set),
                                       .now_us = query->now_ms * 1000};
    return policy_evaluate(policy_set_documents(set), &facts, policy_set_groups(set), decision_out, err);
}

const struct policy_denial *policy_train_denial(const struct policy_decision *decision)
{
    return policy_decision_denial_count(decision) == 0 ? NULL : policy_decision_denial(decision, 0);
}

/* "AE/DU" lies in AE and in AE-DU. */
static bool geo_lies_in(const char *geo, const char *jurisdiction)
{
    const size_t country = strcspn(geo, "/");
    size_t i = 0;

    if (strlen(jurisdiction) == country && memcmp(geo, jurisdiction, country) == 0) return true;
    while (geo[i] != '\0' && (geo[i] == '/' ? '-' : geo[i]) == jurisdiction[i]) i++;
    return geo[i] == '\0' && jurisdiction[i] == '\0';
}

bool policy_region_lies_in(const struct policy_set *set, const char *region, const char *jurisdiction)
{
    const struct policy_target *target = policy_set_region(set, region);

    if (target == NULL) return false;
    if (target->geo != NULL && geo_lies_in(target->geo, jurisdiction)) return true;
    const struct fact *regimes = &target->facts[FACT_REGIMES];
    for (size_t i = 0; regimes->is_known && i < regimes->texts.count; i++)
        if (strcmp(regimes->texts.texts[i], jurisdiction) == 0) return true;
    return false;
}

/* ---- a whole run ---- */

struct repositories {
    size_t count;
    const char *names[REPOSITORIES_MAX]; /* each once */
};

static void add_name(struct repositories *repositories, const json_t *artifact)
{
    const char *name = json_text_of(artifact, "repository");

    if (name == NULL || repositories->count == REPOSITORIES_MAX) return; /* the shape has at most that many */
    for (size_t i = 0; i < repositories->count; i++)
        if (strcmp(repositories->names[i], name) == 0) return;
    repositories->names[repositories->count++] = name;
}

static struct repositories repositories_of(const json_t *spec)
{
    const struct run_artifacts artifacts = run_spec_artifacts(spec);
    const json_t *outputs = json_object_get(spec, "outputs");
    struct repositories repositories = {.count = 0};

    for (size_t i = 0; i < artifacts.count; i++) add_name(&repositories, artifacts.each[i].json);
    for (size_t i = 0; i < json_array_size(outputs); i++) add_name(&repositories, json_array_get(outputs, i));
    return repositories;
}

/* Any failure other than lack of memory is a refusal: no registry decides with such a set or run. Region "": nothing is known. */
static struct result decide(const struct train_run *run, const char *repository, const char *region,
                            struct policy_decision **decision_out, struct error *err)
{
    const struct train_query query = {repository, region, run->now_ms};
    struct error why = {0};

    if (policy_train(run->set, &query, decision_out, &why).ok) return SUCCESS;
    return failure(err, why.kind == ERROR_NO_MEMORY ? ERROR_NO_MEMORY : ERROR_DENIED, "%.250s", why.message);
}

struct result policy_train_check_region(const struct train_run *run, const char *region, struct error *err)
{
    const struct repositories repositories = repositories_of(run->spec);

    for (size_t i = 0; i < repositories.count; i++) {
        OWNED(policy_decision) *decision = NULL;
        TRY(decide(run, repositories.names[i], region, &decision, err));
        const struct policy_denial *denial = policy_train_denial(decision);
        if (denial != NULL)
            return failure(err, ERROR_DENIED, "%.100s may not be used in %.60s: rule %.50s", repositories.names[i], region,
                           denial->rule);
    }
    return SUCCESS;
}

static struct result allows_all(const struct train_run *run, const struct repositories *repositories, const char *region,
                                bool *allows_out, struct error *err)
{
    bool allows = true;

    for (size_t i = 0; allows && i < repositories->count; i++) {
        OWNED(policy_decision) *decision = NULL;
        TRY(decide(run, repositories->names[i], region, &decision, err));
        allows = policy_train_denial(decision) == NULL;
    }
    *allows_out = allows;
    return SUCCESS;
}

static struct result check_jurisdiction(const struct train_run *run, const struct repositories *repositories,
                                        const char *jurisdiction, struct error *err)
{
    bool allows = false;

    TRY(allows_all(run, repositories, "", &allows, err));
    for (size_t i = 0; !allows && i < policy_set_region_count(run->set); i++) {
        const char *region = policy_set_region_name(run->set, i);
        if (policy_region_lies_in(run->set, region, jurisdiction)) TRY(allows_all(run, repositories, region, &allows, err));
    }
    if (allows) return SUCCESS;
    return failure(err, ERROR_DENIED, "the policies allow this run in no region of %.32s, and the order allows it there",
                   jurisdiction);
}

/* Duties do not depend on the place. */
static struct result check_duties(const struct train_run *run, const char *repository, const struct train_terms *terms,
                                  struct error *err)
{
    OWNED(policy_decision) *decision = NULL;

    TRY(decide(run, repository, "", &decision, err));
    const int64_t asked = policy_decision_approvals(decision);
    if (asked > terms->approvals)
        return failure(err, ERROR_DENIED, "the policies ask for %lld approvals of a run with %.100s, and the order for %lld",
                       (long long)asked, repository, (long long)terms->approvals);
    if (!policy_decision_signed_request(decision) || terms->signed_request) return SUCCESS;
    return failure(err, ERROR_DENIED,
                   "for a run with %.100s the policies ask for a request that its requester has signed, and the order does not",
                   repository);
}

struct result policy_train_check_terms(const struct train_run *run, const struct train_terms *terms, struct error *err)
{
    const struct repositories repositories = repositories_of(run->spec);

    for (size_t i = 0; i < repositories.count; i++) TRY(check_duties(run, repositories.names[i], terms, err));
    for (size_t i = 0; i < json_array_size(terms->jurisdictions); i++)
        TRY(check_jurisdiction(run, &repositories, json_string_value(json_array_get(terms->jurisdictions, i)), err));
    return SUCCESS;
}
