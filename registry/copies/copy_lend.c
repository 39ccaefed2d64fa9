#include "registry/copies/copy_lend.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/job_permit.h"
#include "base/memory.h"
#include "policy/set.h"
#include "registry/copies/copies_priv.h"
#include "registry/copies/copy_source.h"
#include "registry/metrics.h"
#include "registry/registry_priv.h"

struct copy_lending {
    struct registry *registry;
    struct decider *decider;
    struct copy_request request;
    struct copy_way way;
    struct copy_links links;
    struct permit *permits[COPY_LINKS_MAX];
    struct copy_source *source;
};

static void refuse(struct lend_refusal *refusal, unsigned status, const char *rule, const char *why)
{
    *refusal = (struct lend_refusal){.status = status, .why = why};
    (void)snprintf(refusal->rule, sizeof refusal->rule, "%s", rule);
}

static bool has_same_set(const struct copy_lending *lending)
{
    OWNED(policy_set) *set = decider_policy_set(lending->decider);

    return set != NULL && policy_set_epoch(set) == lending->request.epoch &&
           strcmp(policy_set_digest(set), lending->request.set) == 0;
}

static struct copy_question question_of(const struct copy_lending *lending, const struct resource *where)
{
    struct copy_question question = copy_question_of(&lending->way, where);

    question.is_at_source = true;
    return question;
}

/* In memory. "" if the link may be read for the other region. */
static struct result ask(const struct copy_lending *lending, size_t link, char rule[65], struct error *err)
{
    const struct copy_way *way = &lending->way;
    const struct resource where = copy_where(way, &lending->links.links[link], way->from, lending->request.digest);
    const struct copy_question question = question_of(lending, &where);
    OWNED(decision) *decision = NULL;

    TRY(decider_decide_copy(lending->decider, &question, &decision, err));
    const bool is_denied = decision_verdict(decision) != VERDICT_ALLOW;
    (void)snprintf(rule, 65, "%s", is_denied ? decision_denial(decision, 0)->rule : "");
    return SUCCESS;
}

/* Each repository has its own event, also of a denial. */
static struct result record_link(struct copy_lending *lending, struct pg *pg, size_t link, struct lend_refusal *refusal,
                                 struct error *err)
{
    const struct copier_options options = {.decider = lending->decider};
    struct copy_round round = {.registry = lending->registry, .pg = pg, .options = &options};
    const struct copy_way *way = &lending->way;
    const struct resource where = copy_where(way, &lending->links.links[link], way->from, lending->request.digest);
    const struct copy_question question = question_of(lending, &where);
    uint64_t epoch = 0;
    char rule[65];

    TRY(ask(lending, link, rule, err));
    TRY(copy_decide(&round, &question, NULL, &lending->permits[link], &epoch, err));
    if (lending->permits[link] == NULL)
        refuse(refusal, 403, rule[0] == '\0' ? "SYS-STALE" : rule, "the copy is denied at this end");
    return SUCCESS;
}

static struct result find(struct copy_lending *lending, struct pg *pg, struct copy_item *item, struct lend_refusal *refusal,
                          struct error *err)
{
    bool is_found = false;

    TRY(copy_lent_find(pg, &lending->request, &lending->way, item, &is_found, err));
    if (is_found) TRY(copy_links_find(pg, &lending->way, lending->request.digest, &lending->links, err));
    if (!is_found || lending->links.count == 0)
        refuse(refusal, 404, "SYS-NOT-FOUND", "no copies of this content are wanted in the region");
    else if (lending->links.count > COPY_LINKS_MAX)
        refuse(refusal, 403, "SYS-TOO-MANY", "the blob is in more repositories than one copy is decided for");
    else if (item->is_damaged) refuse(refusal, 422, "SYS-DAMAGED", "what is stored of the blob does not verify");
    else if (!registry_region_is_readable(lending->registry, lending->way.from))
        refuse(refusal, 503, "SYS-NOT-SERVED", "this gateway can't read the home region of the content now");
    return SUCCESS;
}

static void compare_sets(const struct copy_lending *lending, struct lend_refusal *refusal)
{
    if (refusal->status == 0 && !has_same_set(lending))
        refuse(refusal, 409, LEND_RULE_SET, "the policy set in force at this end is another one");
}

static struct result lend(struct copy_lending *lending, struct pg *pg, struct lend_refusal *refusal, struct error *err)
{
    struct copy_item item;

    compare_sets(lending, refusal);
    if (refusal->status != 0) return SUCCESS;
    TRY(find(lending, pg, &item, refusal, err));
    for (size_t i = 0; i < lending->links.count && refusal->status == 0; i++) TRY(record_link(lending, pg, i, refusal, err));
    compare_sets(lending, refusal); /* a newer one may have come since */
    if (refusal->status != 0) return SUCCESS;
    const struct copy_way *way = &lending->way;
    const struct resource from = copy_where(way, &lending->links.links[0], way->from, lending->request.digest);
    return copy_source_open(lending->permits[0], lending->registry, &from, &item.row, &lending->source, err);
}

struct result copy_lend(const struct copy_lender *lender, const struct copy_request *request, struct copy_lending **lending_out,
                        struct lend_refusal *refusal_out, struct error *err)
{
    OWNED(copy_lending) *lending = memory_zeroed(1, sizeof *lending);

    *lending_out = NULL;
    *refusal_out = (struct lend_refusal){.status = 0};
    if (lending == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a copy");
    lending->registry = lender->registry;
    lending->decider = lender->decider;
    lending->request = *request;
    TRY(lend(lending, lender->pg, refusal_out, err));
    if (refusal_out->status != 0) return SUCCESS;
    metric_add(&registry_metrics_rows[METRIC_LENT], 1);
    *lending_out = GIVE(lending);
    return SUCCESS;
}

uint64_t copy_lending_length(const struct copy_lending *lending)
{
    return copy_source_length(lending->source);
}

struct result copy_lending_read(struct copy_lending *lending, uint64_t offset, uint8_t *into, size_t length, struct error *err)
{
    return copy_source_read(lending->source, offset, into, length, err);
}

void copy_lending_right(const struct copy_lending *lending, char rule_out[65])
{
    struct error ignored = {0};

    (void)snprintf(rule_out, 65, "%s", has_same_set(lending) ? "" : LEND_RULE_SET);
    for (size_t i = 0; i < lending->links.count && rule_out[0] == '\0'; i++)
        if (!ask(lending, i, rule_out, &ignored).ok) (void)snprintf(rule_out, 65, "SYS-UNKNOWN");
}

void copy_lending_lost(struct copy_lending *lending, const char *rule, uint64_t sent_bytes)
{
    for (size_t i = 0; i < lending->links.count; i++) {
        struct record record = {.under = lending->permits[i], .outcome = OUTCOME_FAILED};
        (void)snprintf(record.note, sizeof record.note, "%" PRIu64 " bytes, %.40s", sent_bytes, rule);
        sequencer_submit_and_wait(lending->registry->sequencer, &record);
        record_done(&record);
    }
}

void copy_lending_free(struct copy_lending *lending)
{
    if (lending == NULL) return;
    copy_source_free(lending->source);
    for (size_t i = 0; i < COPY_LINKS_MAX; i++) permit_free(lending->permits[i]);
    free(lending);
}
