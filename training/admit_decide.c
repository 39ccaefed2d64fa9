/* Decides a finished run once more. */
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "documents/format/runner_key.h"
#include "policy/set.h"
#include "training/admit_priv.h"
#include "training/format/spec.h"
#include "training/label.h"
#include "training/run_priv.h"
#include "training/standing.h"

#define POLICIES_SIZE 72 /* "sha256:", 64 digits and '\0' */

/* ---- the runner ---- */

struct search {
    struct uuid runner;
    int64_t now_ms;
    char *region;
    unsigned in_force, withdrawn;
};

static struct result note(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct search *search = context;
    struct runner_key key;

    TRY(runner_key_read(pinned->document, &key, err));
    if (pinned->document->is_withdrawn) search->withdrawn++;
    if (!document_is_in_force(pinned->document, search->now_ms) || !uuid_equal(&key.runner, &search->runner)) return SUCCESS;
    runner_key_place(&key, search->region);
    search->in_force++;
    return SUCCESS;
}

/* Two runners with one key: nobody knows which of them has made this. */
static struct result check_key(struct admitting *admitting, const char *key, struct error *err)
{
    char reason[RUN_REASON_SIZE];

    TRY(run_session_suspended(admitting->source->bundle.pg, key, reason, err));
    return reason[0] == '\0' ? SUCCESS : admit_refuse(admitting, "the key of its runner is suspended: %.200s", reason);
}

/* Where the run was, as the approvers of its runner have signed it. */
static struct result find_region(struct admitting *admitting, const struct run_envelope *lease, struct error *err)
{
    const struct run_bundle_source *source = &admitting->source->bundle;
    const struct document_source documents = {source->pg, source->keyd, source->sequencer};
    struct search search = {.now_ms = clock_wall_ms(), .region = admitting->region};

    (void)uuid_parse(bytes_of_text(run_text(lease, "runner.id")), &search.runner); /* its shape was checked */
    TRY(document_view_follow(source->documents, DOCUMENT_RUNNER, &documents, err));
    TRY(document_view_visit_name(source->documents, DOCUMENT_RUNNER, run_text(lease, "runner.key"), note, &search, err));
    if (search.withdrawn > 0) return admit_refuse(admitting, "its runner was withdrawn before the admission");
    if (search.in_force == 0) return admit_refuse(admitting, "the enrolment of its runner ended before the admission");
    return check_key(admitting, run_text(lease, "runner.key"), err);
}

struct ancestor {
    int64_t ended_ms;
    bool is_withdrawn;
};

static struct result note_ancestor(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct ancestor *ancestor = context;
    struct runner_key key;

    if (!pinned->document->is_withdrawn) return SUCCESS;
    TRY(runner_key_read(pinned->document, &key, err));
    if (key.since_ms <= ancestor->ended_ms) ancestor->is_withdrawn = true;
    return SUCCESS;
}

/* What a runner has made whose results do not count lives on in the checkpoint that this run has continued from. */
static struct result check_resumed(struct admitting *admitting, struct error *err)
{
    const struct run_bundle_source *source = &admitting->source->bundle;
    OWNED(pg_rows) *rows = NULL;

    if (admit_is_refused(admitting) || run_member(admitting->papers->chain.order, "spec.resume") == NULL) return SUCCESS;
    TRY(run_ancestors(source->pg, &admitting->run.run, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows) && !admit_is_refused(admitting); i++) {
        struct ancestor ancestor = {.ended_ms = pg_time_ms(rows, i, 1)};
        TRY(document_view_visit_name(source->documents, DOCUMENT_RUNNER, pg_text(rows, i, 0), note_ancestor, &ancestor, err));
        if (ancestor.is_withdrawn)
            TRY(admit_refuse(admitting, "the checkpoint that it continues from is of a runner that was withdrawn: %.60s",
                             pg_text(rows, i, 0)));
    }
    return SUCCESS;
}

/* ---- policies ---- */

/* sijil-keyd names its own set in the admission: the decisions must be of the same one. */
static struct result same_policies(const char *asked, const char *pinned, struct error *err)
{
    if (strcmp(asked, pinned) == 0) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "the policies are changing: the run is decided again");
}

static struct result find_policies(const struct admitting *admitting, char pinned[POLICIES_SIZE], struct error *err)
{
    struct keyd_identity identity;

    TRY(decider_refresh(admitting->source->bundle.decider, err)); /* a label or a set may have come a moment ago */
    TRY(keyd_identify(admitting->source->bundle.keyd, &identity, err));
    (void)snprintf(pinned, POLICIES_SIZE, "sha256:");
    text_hex(identity.policy_digest, sizeof identity.policy_digest, pinned + strlen(pinned));
    return SUCCESS;
}

static struct result check_train(struct admitting *admitting, const json_t *artifact, const char *pinned, struct error *err)
{
    const char *name = json_text_of(artifact, "repository");
    struct train_answer answer;

    if (admit_is_refused(admitting)) return SUCCESS;
    TRY(decider_train(admitting->source->bundle.decider, name, admitting->region, clock_wall_ms(), &answer, err));
    TRY(same_policies(answer.policies, pinned, err));
    run_duties_raise(&admitting->duties, &answer);
    if (answer.is_allowed) return SUCCESS;
    return admit_refuse(admitting, "the policies of the admission do not allow a run with %.90s in %.63s: rule %.50s", name,
                        admitting->region, answer.rule);
}

static struct result check_trains(struct admitting *admitting, const char *pinned, struct error *err)
{
    const json_t *spec = run_member(admitting->papers->chain.order, "spec"), *outputs = json_object_get(spec, "outputs");
    const struct run_artifacts artifacts = run_spec_artifacts(spec);

    for (size_t i = 0; i < artifacts.count; i++) TRY(check_train(admitting, artifacts.each[i].json, pinned, err));
    for (size_t i = 0; i < json_array_size(outputs); i++) TRY(check_train(admitting, json_array_get(outputs, i), pinned, err));
    return SUCCESS;
}

static struct result check_output(struct admitting *admitting, const char *name, const char *pinned, struct error *err)
{
    struct store_answer answer;

    if (admit_is_refused(admitting)) return SUCCESS;
    TRY(decider_store(admitting->source->bundle.decider, name, clock_wall_ms(), &answer, err));
    TRY(same_policies(answer.policies, pinned, err));
    if (answer.is_allowed) return SUCCESS;
    return admit_refuse(admitting, "the policies of the admission do not let an output be stored in %.120s: rule %.50s", name,
                        answer.rule);
}

struct result admit_check_stated(struct admitting *admitting, const struct held_manifest *held, struct error *err)
{
    const struct carried_query query = {
        .output = held->where.name, .stated = held->manifest->label, .now_ms = clock_wall_ms(), .only_checks = true};
    struct carried_label answer;
    struct error why = {0};

    if (admit_is_refused(admitting)) return SUCCESS;
    const struct result asked = decider_carried_label(admitting->source->bundle.decider, &query, &answer, &why);
    if (!asked.ok && why.kind != ERROR_LIMIT) return failure(err, why.kind, "%s", why.message);
    if (asked.ok && answer.is_carried) return SUCCESS;
    return admit_refuse(admitting, "the manifest of %.63s states a label that %.120s does not have", held->name,
                        held->where.name);
}

/* The outputs' repositories got the label of the run at its order. An input may have a stricter one since. */
static struct result check_labels(struct admitting *admitting, struct error *err)
{
    if (admit_is_refused(admitting)) return SUCCESS;
    TRY(run_label_check(admitting->source->bundle.decider, admitting->papers->chain.order, clock_wall_ms(), admitting->reason,
                        err));
    for (size_t i = 0; i < admitting->held.count; i++) TRY(admit_check_stated(admitting, &admitting->held.each[i], err));
    return SUCCESS;
}

/* Each node was where its own runner is. */
static struct result check_node(struct admitting *admitting, const struct run_envelope *lease, const char *pinned,
                                struct error *err)
{
    char before[sizeof admitting->region];

    if (admit_is_refused(admitting)) return SUCCESS;
    memcpy(before, admitting->region, sizeof before);
    TRY(find_region(admitting, lease, err));
    if (admit_is_refused(admitting) || strcmp(before, admitting->region) == 0) return SUCCESS; /* decided for the node before */
    return check_trains(admitting, pinned, err);
}

/* What the order did may be too little by now, and who asked may have lost the right to. */
static struct result check_standing(struct admitting *admitting, struct error *err)
{
    const struct run_bundle_source *source = &admitting->source->bundle;
    const struct document_source documents = {source->pg, source->keyd, source->sequencer};
    const struct run_chain *chain = &admitting->papers->chain;
    const struct run_standing standing = {source->decider, source->documents, &admitting->run.where.organisation, chain->order,
                                          chain->request};
    const struct run_asker asker = {source->decider, &admitting->run.where.organisation, chain->request};

    if (admit_is_refused(admitting)) return SUCCESS;
    TRY(document_view_follow(source->documents, DOCUMENT_SIGNING_KEY, &documents, err));
    TRY(run_standing_check(&standing, admitting->reason, err));
    if (!admit_is_refused(admitting))
        run_duties_check(&asker, run_order_approvals(chain->order), &admitting->duties, admitting->reason);
    return SUCCESS;
}

struct result admit_decide(struct admitting *admitting, struct error *err)
{
    const struct run_chain *chain = &admitting->papers->chain;
    char pinned[POLICIES_SIZE];

    TRY(find_policies(admitting, pinned, err));
    TRY(check_node(admitting, chain->lease, pinned, err));
    for (size_t i = 0; i < chain->peer_count; i++) TRY(check_node(admitting, chain->peers[i].lease, pinned, err));
    TRY(check_standing(admitting, err));
    TRY(check_resumed(admitting, err));
    TRY(check_labels(admitting, err));
    for (size_t i = 0; i < admitting->makes.count; i++)
        TRY(check_output(admitting, admitting->makes.each[i].repository, pinned, err));
    return SUCCESS;
}
