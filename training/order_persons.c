/* Whether the approvals of a run, as they are stored, are those of other persons. sijil-keyd checks their signatures and keys, and knows no persons. */
#include <stdio.h>
#include <string.h>

#include "policy/decider/decider.h"
#include "training/format/chain.h"
#include "training/order_priv.h"
#include "training/run.h"

#define NOT_COUNTED "an approval that is stored does not count: %.180s"

struct approvals {
    size_t count;
    struct run_envelope *each[RUN_APPROVALS_MAX]; /* owned */
};

static void approvals_done(struct approvals *approvals)
{
    for (size_t i = 0; i < approvals->count; i++) run_envelope_free(approvals->each[i]);
}
#define OWNED_APPROVALS __attribute__((cleanup(approvals_done))) struct approvals

static struct result read_all(struct pg *pg, const struct uuid *run, struct approvals *approvals, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(run_rows_approvals(pg, run, &rows, err));
    if (pg_rows_count(rows) > RUN_APPROVALS_MAX) return failure(err, ERROR_DENIED, "there are more than %d", RUN_APPROVALS_MAX);
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        TRY(run_envelope_read(pg_bytes(rows, i, 0), RUN_APPROVAL, &approvals->each[i], err));
        approvals->count++;
    }
    return SUCCESS;
}

static struct result check_content(const struct run_wish *wish, const struct approvals *approvals, struct error *err)
{
    struct run_chain chain = {.request = wish->request, .approval_count = approvals->count};

    if (strcmp(run_text(wish->request, "requester"), wish->requester) != 0)
        return failure(err, ERROR_DENIED, "the request is another requester's");
    for (size_t i = 0; i < approvals->count; i++) chain.approvals[i] = approvals->each[i];
    return run_chain_check(&chain, err);
}

bool run_is_approved_by_another(const struct run_envelope *request, const struct persons *requester,
                                const struct persons *approver)
{
    if (run_member(request, "claims") == NULL) return persons_are_others(approver, requester);
    if (run_is_of_rule(request) && !requester->has_unknown)
        return persons_are_known(approver); /* the rule has ended: no order follows */
    return persons_are_none_of(approver, requester);
}

/* Robots of one person are not two persons; and nobody approves for himself. */
static struct result check_persons(struct decider *decider, const struct run_wish *wish, const struct approvals *approvals,
                                   struct error *err)
{
    const struct uuid *organisation = &wish->where.organisation;
    const struct persons requester = decider_persons_of_key(decider, wish->requester, organisation);
    struct persons persons[RUN_APPROVALS_MAX];

    for (size_t i = 0; i < approvals->count; i++) {
        persons[i] = decider_persons_of_key(decider, run_text(approvals->each[i], "approver"), organisation);
        if (!run_is_approved_by_another(wish->request, &requester, &persons[i]))
            return failure(err, ERROR_DENIED, "another person than the requester approves (docs/identity.md, \"Persons\")");
        for (size_t j = 0; j < i; j++)
            if (!persons_are_others(&persons[i], &persons[j])) return failure(err, ERROR_DENIED, "one person has approved twice");
    }
    return SUCCESS;
}

static struct result check(struct pg *pg, struct decider *decider, const struct run_wish *wish, struct error *err)
{
    OWNED_APPROVALS approvals = {.count = 0};

    TRY(read_all(pg, &wish->run, &approvals, err));
    TRY(check_content(wish, &approvals, err));
    return check_persons(decider, wish, &approvals, err);
}

struct result run_wish_check_approvals(struct pg *pg, struct decider *decider, const struct run_wish *wish,
                                       char reason_out[RUN_REASON_SIZE], struct error *err)
{
    struct error why = {0};

    reason_out[0] = '\0';
    if (check(pg, decider, wish, &why).ok) return SUCCESS;
    if (why.kind != ERROR_DENIED && why.kind != ERROR_INVALID) return failure(err, why.kind, "%s", why.message);
    (void)snprintf(reason_out, RUN_REASON_SIZE, NOT_COUNTED, why.message);
    return SUCCESS;
}
