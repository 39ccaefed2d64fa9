#include "policy/train.h"

#include <string.h>

#include "policy/set_priv.h"

#define REPOSITORIES_MAX (RUN_ARTIFACTS_MAX + 16) /* and outputs */

/* Floors state no lineage. The least strict one is taken, and without a floor the least strict label. */
static struct result least_label(const struct policy_set *set, const char *repository, int64_t now_ms, struct label *label_out,
                                 struct error *err)
{
    const struct label_query labels = {.documents = policy_set_documents(set), .scope = repository, .now_us = now_ms * 1000};
    bool is_floor = false;

    TRY(policy_effective_label(&labels, NULL, label_out, &is_floor, err));
    if (!is_floor) *label_out = label_initial();
    label_out->lineage = LINEAGE_ATTESTED;
    return SUCCESS;
}

struct result policy_train(const struct policy_set *set, const struct train_query *query, struct policy_decision **decision_out,
                           struct error *err)
{
    const struct policy_target *target = policy_set_region(set, query->region, query->now_ms * 1000);
    struct label least;

    if (query->label == NULL) TRY(least_label(set, query->repository, query->now_ms, &least, err));
    const struct policy_facts facts = {.op = OP_TRAIN,
                                       .scope = query->repository,
                                       .policy_epoch = policy_set_epoch(set),
                                       .label = query->label != NULL ? query->label : &least,
                                       .target_id = query->region,
                                       .target = target != NULL ? target : policy_set_unknown(set),
                                       .now_us = query->now_ms * 1000};
    return policy_evaluate(query->documents != NULL ? query->documents : policy_set_documents(set), &facts,
                           policy_set_groups(set), decision_out, err);
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
    const struct policy_target *target = policy_set_region(set, region, INT64_MIN); /* place and regimes never expire */

    if (target == NULL) return false;
    if (target->geo != NULL && geo_lies_in(target->geo, jurisdiction)) return true;
    const struct fact *regimes = &target->facts[FACT_REGIMES];
    for (size_t i = 0; regimes->is_known && i < regimes->texts.count; i++)
        if (strcmp(regimes->texts.texts[i], jurisdiction) == 0) return true;
    return false;
}

/* ---- a whole run ---- */

struct repository {
    const char *name;
    bool is_written; /* an output is there */
};
struct repositories {
    const struct train_run *run;
    struct run_artifacts artifacts;
    size_t count;
    struct repository each[REPOSITORIES_MAX]; /* each name once */
    struct label written;                     /* of all that the run writes */
};

static void add_name(struct repositories *repositories, const json_t *artifact, bool is_written)
{
    const char *name = json_text_of(artifact, "repository");

    for (size_t i = 0; name != NULL && i < repositories->count; i++) {
        struct repository *known = &repositories->each[i];
        if (strcmp(known->name, name) != 0) continue;
        known->is_written = known->is_written || is_written;
        return;
    }
    if (name == NULL || repositories->count == REPOSITORIES_MAX) return; /* the shape has at most that many */
    repositories->each[repositories->count++] = (struct repository){name, is_written};
}

/* A set may lift what content has brought to a repository, and so what the content's manifests state there. */
static bool is_lifted(const struct train_run *run, const char *name)
{
    return policy_set_declassifies(run->set, LABEL_CARRIED_POLICY, name);
}

/* Joins what the manifests of the artifacts in this repository state. */
static struct result join_stated(const struct repositories *repositories, const char *name, struct label *label,
                                 struct error *err)
{
    const struct train_floors *floors = repositories->run->floors;

    if (floors == NULL || is_lifted(repositories->run, name)) return SUCCESS;
    for (size_t i = 0; i < repositories->artifacts.count; i++) {
        const char *of = json_text_of(repositories->artifacts.each[i].json, "repository");
        if (floors->each[i] != NULL && strcmp(of, name) == 0) TRY(label_join(label, floors->each[i], err));
    }
    return SUCCESS;
}

static struct result read_label(const struct repositories *repositories, const char *name, struct label *label_out,
                                struct error *err)
{
    struct label label;

    TRY(least_label(repositories->run->set, name, repositories->run->now_ms, &label, err));
    TRY(join_stated(repositories, name, &label, err));
    *label_out = label;
    return SUCCESS;
}

static struct result join_all(struct repositories *repositories, struct error *err)
{
    struct label joined = {.class = LABEL_OPEN, .lineage = LINEAGE_ATTESTED};

    for (size_t i = 0; i < repositories->count; i++) {
        struct label label;
        TRY(read_label(repositories, repositories->each[i].name, &label, err));
        TRY(label_join(&joined, &label, err));
    }
    repositories->written = joined;
    return SUCCESS;
}

/* Any failure other than lack of memory is a refusal: no registry decides with such a set or run. */
static struct result refused(const struct error *why, struct error *err)
{
    return failure(err, why->kind == ERROR_NO_MEMORY ? ERROR_NO_MEMORY : ERROR_DENIED, "%.250s", why->message);
}

static struct result open_run(const struct train_run *run, struct repositories *repositories, struct error *err)
{
    const json_t *outputs = json_object_get(run->spec, "outputs");
    struct error why = {0};

    repositories->run = run;
    repositories->artifacts = run_spec_artifacts(run->spec);
    repositories->count = 0;
    for (size_t i = 0; i < repositories->artifacts.count; i++)
        add_name(repositories, repositories->artifacts.each[i].json, false);
    for (size_t i = 0; i < json_array_size(outputs); i++) add_name(repositories, json_array_get(outputs, i), true);
    return join_all(repositories, &why).ok ? SUCCESS : refused(&why, err);
}

struct result policy_train_label(const struct train_run *run, struct label *label_out, struct error *err)
{
    struct repositories repositories;

    TRY(open_run(run, &repositories, err));
    *label_out = repositories.written;
    return SUCCESS;
}

static struct result ask(const struct repositories *repositories, const struct repository *repository, const char *region,
                         struct policy_decision **decision_out, struct error *err)
{
    const struct train_run *run = repositories->run;
    struct label label = repositories->written;

    if (!repository->is_written || is_lifted(run, repository->name)) TRY(read_label(repositories, repository->name, &label, err));
    const struct train_query query = {repository->name, region, run->now_ms, &label,
                                      run_restrictions_documents(run->restrictions, run->set, repository->name)};
    return policy_train(run->set, &query, decision_out, err);
}

/* Region "": nothing is known. */
static struct result decide(const struct repositories *repositories, size_t index, const char *region,
                            struct policy_decision **decision_out, struct error *err)
{
    struct error why = {0};

    return ask(repositories, &repositories->each[index], region, decision_out, &why).ok ? SUCCESS : refused(&why, err);
}

struct result policy_train_check_region(const struct train_run *run, const char *region, struct error *err)
{
    struct repositories repositories;

    TRY(open_run(run, &repositories, err));
    for (size_t i = 0; i < repositories.count; i++) {
        OWNED(policy_decision) *decision = NULL;
        TRY(decide(&repositories, i, region, &decision, err));
        const struct policy_denial *denial = policy_train_denial(decision);
        if (denial != NULL)
            return failure(err, ERROR_DENIED, "%.100s may not be used in %.60s: rule %.50s", repositories.each[i].name, region,
                           denial->rule);
    }
    return SUCCESS;
}

static struct result allows_all(const struct repositories *repositories, const char *region, bool *allows_out, struct error *err)
{
    bool allows = true;

    for (size_t i = 0; allows && i < repositories->count; i++) {
        OWNED(policy_decision) *decision = NULL;
        TRY(decide(repositories, i, region, &decision, err));
        allows = policy_train_denial(decision) == NULL;
    }
    *allows_out = allows;
    return SUCCESS;
}

static struct result check_jurisdiction(const struct repositories *repositories, const char *jurisdiction, struct error *err)
{
    const struct policy_set *set = repositories->run->set;
    bool allows = false;

    TRY(allows_all(repositories, "", &allows, err));
    for (size_t i = 0; !allows && i < policy_set_region_count(set); i++) {
        const char *region = policy_set_region_name(set, i);
        if (!policy_region_lies_in(set, region, jurisdiction)) continue;
        TRY(allows_all(repositories, region, &allows, err));
        if (!allows) TRY(allows_all(repositories, set->regions[i].attested_id, &allows, err));
    }
    if (allows) return SUCCESS;
    return failure(err, ERROR_DENIED, "the policies allow this run in no region of %.32s, and the order allows it there",
                   jurisdiction);
}

/* Duties do not depend on the place. */
static struct result check_duties(const struct repositories *repositories, size_t index, const struct train_terms *terms,
                                  struct error *err)
{
    const char *repository = repositories->each[index].name;
    OWNED(policy_decision) *decision = NULL;

    TRY(decide(repositories, index, "", &decision, err));
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
    struct repositories repositories;

    TRY(open_run(run, &repositories, err));
    for (size_t i = 0; i < repositories.count; i++) TRY(check_duties(&repositories, i, terms, err));
    for (size_t i = 0; i < json_array_size(terms->jurisdictions); i++)
        TRY(check_jurisdiction(&repositories, json_string_value(json_array_get(terms->jurisdictions, i)), err));
    return SUCCESS;
}
