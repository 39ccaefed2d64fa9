#include "training/standing.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "training/format/chain.h"
#include "training/format/spec.h"

#define OUTPUTS_MAX 16 /* docs/formats/run.md */
#define RIGHTS_MAX  (1 + RUN_ARTIFACTS_MAX + OUTPUTS_MAX)
#define OLD_SECRET  "it was asked for with a secret of the robot that was replaced since: ask for it again"

struct rights {
    size_t count;
    struct held_right each[RIGHTS_MAX];
};

static void add_right(struct rights *rights, enum action action, const char *name)
{
    if (name != NULL && rights->count < RIGHTS_MAX) rights->each[rights->count++] = (struct held_right){action, name};
}

/* As at the order: training/order_decide.c. */
static void find_rights(const struct run_envelope *order, struct rights *rights)
{
    const json_t *spec = run_member(order, "spec"), *outputs = json_object_get(spec, "outputs");
    const struct run_artifacts artifacts = run_spec_artifacts(spec);

    add_right(rights, ACTION_RUN_ORDER, run_text(order, "project"));
    for (size_t i = 0; i < artifacts.count; i++)
        add_right(rights, ACTION_RUN_USE, json_text_of(artifacts.each[i].json, "repository"));
    for (size_t i = 0; i < json_array_size(outputs); i++)
        add_right(rights, ACTION_RUN_REQUEST, json_text_of(json_array_get(outputs, i), "repository"));
}

static void say_missing(const struct rights *rights, size_t missing, char reason_out[RUN_REASON_SIZE])
{
    const struct held_right *right = &rights->each[missing];
    const char *what = right->action == ACTION_RUN_ORDER ? "train in" : right->action == ACTION_RUN_USE ? "use" : "write into";

    (void)snprintf(reason_out, RUN_REASON_SIZE, "the requester has lost the right to %s %.150s since the order", what,
                   right->name);
}

/* A request that a key has signed does not depend on the secret. */
static int64_t asked_ms(const struct run_envelope *request)
{
    return run_member(request, "claims") == NULL ? 0 : run_time(request, "issued_at");
}

struct result run_secret_check(const struct run_asker *asker, char reason_out[RUN_REASON_SIZE], struct error *err)
{
    const struct rights_query query = {.principal = run_text(asker->request, "requester"),
                                       .organisation = asker->organisation,
                                       .asked_ms = asked_ms(asker->request),
                                       .now_ms = clock_wall_ms()};
    struct rights_answer answer;

    TRY(decider_holds(asker->decider, &query, &answer, err));
    if (answer.is_outdated) (void)snprintf(reason_out, RUN_REASON_SIZE, OLD_SECRET);
    return SUCCESS;
}

static struct result check_rights(const struct run_standing *standing, char reason_out[RUN_REASON_SIZE], struct error *err)
{
    struct rights rights = {.count = 0};
    struct rights_answer answer;

    find_rights(standing->order, &rights);
    const struct rights_query query = {.principal = run_text(standing->order, "requester"),
                                       .organisation = standing->organisation,
                                       .rights = rights.each,
                                       .count = rights.count,
                                       .asked_ms = asked_ms(standing->request),
                                       .now_ms = clock_wall_ms()};
    TRY(decider_holds(standing->decider, &query, &answer, err));
    if (answer.is_outdated) (void)snprintf(reason_out, RUN_REASON_SIZE, OLD_SECRET);
    if (answer.is_outdated || answer.has_all) return SUCCESS;
    if (answer.is_somebody) say_missing(&rights, answer.lacks, reason_out);
    else if (run_is_of_rule(standing->request))
        (void)snprintf(reason_out, RUN_REASON_SIZE, "the trust rule that asked was withdrawn, or has ended, since the order");
    else (void)snprintf(reason_out, RUN_REASON_SIZE, "the requester has lost all roles in this organisation since the order");
    return SUCCESS;
}

static struct result note_withdrawal(void *context, const struct pinned_document *pinned, struct error *err)
{
    bool *is_withdrawn = context;

    (void)err;
    if (pinned->document->is_withdrawn) *is_withdrawn = true;
    return SUCCESS;
}

/* An enrolment that has ended takes nothing back: a withdrawal does. */
static struct result check_key(const struct run_standing *standing, char reason_out[RUN_REASON_SIZE], struct error *err)
{
    const char *keyid = standing->request->dsse->signatures[0].keyid;
    bool is_withdrawn = false;

    TRY(document_view_visit_name(standing->documents, DOCUMENT_SIGNING_KEY, keyid, note_withdrawal, &is_withdrawn, err));
    if (is_withdrawn) (void)snprintf(reason_out, RUN_REASON_SIZE, "the key that signed the request, %.43s, was withdrawn", keyid);
    return SUCCESS;
}

struct result run_standing_check(const struct run_standing *standing, char reason_out[RUN_REASON_SIZE], struct error *err)
{
    reason_out[0] = '\0';
    if (strcmp(run_text(standing->order, "request"), standing->request->digest) != 0)
        return failure(err, ERROR_CORRUPT, "the stored request of a run is not the one that its order names");
    TRY(check_rights(standing, reason_out, err));
    if (reason_out[0] != '\0' || run_member(standing->request, "claims") != NULL) return SUCCESS;
    return check_key(standing, reason_out, err);
}

/* ---- duties ---- */

int64_t run_order_approvals(const struct run_envelope *order)
{
    return (int64_t)json_array_size(run_member(order, "approvals"));
}

void run_duties_raise(struct run_duties *duties, const struct train_answer *answer)
{
    if (answer->approvals > duties->approvals) duties->approvals = answer->approvals;
    duties->signed_request = duties->signed_request || answer->signed_request;
}

int64_t run_approvals_wanted(const struct run_asker *asker, int64_t asked)
{
    const int64_t needed = run_approvals_needed(asker->request, asked);

    if (asked == 0 || needed != asked || run_member(asker->request, "claims") == NULL) return needed;
    const struct persons requester =
        decider_persons_of_key(asker->decider, run_text(asker->request, "requester"), asker->organisation);
    const bool is_machine = decider_may_be_machine(asker->decider, run_text(asker->request, "requester"), asker->organisation);
    return is_machine || !persons_are_known(&requester) ? asked + 1 : asked;
}

void run_duties_check(const struct run_asker *asker, int64_t approvals, const struct run_duties *duties,
                      char reason_out[RUN_REASON_SIZE])
{
    const int64_t needed = run_approvals_wanted(asker, duties->approvals);

    reason_out[0] = '\0';
    if (needed > approvals)
        (void)snprintf(reason_out, RUN_REASON_SIZE,
                       "the policies of today ask for %lld approvals%s, and the run has %lld: ask for it again",
                       (long long)duties->approvals, needed > duties->approvals ? " (and this run needs one more)" : "",
                       (long long)approvals);
    else if (duties->signed_request && run_member(asker->request, "claims") != NULL)
        (void)snprintf(reason_out, RUN_REASON_SIZE,
                       "the policies of today ask for a request that its requester has signed with an enrolled key");
}
