/* The changes of a run from its order to its end. */
#include "training/lease.h"

#include "authz/lease_name.h"
#include "training/run_priv.h"

/* ---- permits ---- */

void run_require_lease(const struct permit *permit, enum action action, const struct run_holder *holder)
{
    char detail[RESOURCE_DETAIL_MAX + 1];

    lease_name(&holder->run, holder->attempt, holder->node, detail);
    permit_require_detail(permit, action, detail);
}

void run_require_run(const struct permit *permit, enum action action, const struct resource *where, const struct uuid *run)
{
    char id[UUID_TEXT_SIZE];

    uuid_format(run, id);
    permit_require(permit, action, where);
    permit_require_detail(permit, action, id);
}

/* ---- changes ---- */

static struct result run_order(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct run_order *order = (const struct run_order *)(const void *)change; /* its first member */

    permit_require(permit, ACTION_RUN_ORDER, &order->where);
    return run_row_order(pg, order, err);
}

void run_order_prepare(const struct resource *where, const struct run_envelope *order, const struct run_signed *stored,
                       struct run_order *order_out)
{
    *order_out = (struct run_order){.change = {.run = run_order, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                    .where = *where,
                                    .need = run_need_of(order),
                                    .order = *stored};
    (void)uuid_parse(bytes_of_text(run_text(order, "run")), &order_out->run); /* its shape was checked */
}

static struct result run_lease(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct run_lease *lease = (const struct run_lease *)(const void *)change; /* its first member */

    permit_require(permit, ACTION_RUN_LEASE, &lease->where);
    return run_row_lease(pg, lease, err);
}

void run_lease_prepare(const struct run_claim *claim, const struct run_lease *of, struct run_lease *lease_out)
{
    *lease_out = *of;
    lease_out->change = (struct change){.run = run_lease, .invalidates = CHANGE_INVALIDATES_NOTHING};
    lease_out->where = claim->where;
    lease_out->claim = *claim;
    lease_out->holder.run = claim->run;
    lease_out->holder.attempt = claim->attempt;
    lease_out->holder.node = claim->node;
}

/* ---- steps of the holder ---- */

static struct result keep(struct pg *pg, const struct run_step *step, struct error *err)
{
    if (step->stored.envelope.length == 0) return SUCCESS;
    return run_row_add_envelope(pg, &step->holder.run, step->kind, &step->stored, err);
}

/* The last heartbeat was some seconds before the end, and the budget of the project counts what was used. */
static struct result note_use(struct pg *pg, const struct run_step *step, struct error *err)
{
    const struct run_outcome *outcome = step->outcome;

    if (outcome == NULL) return SUCCESS;
    const struct run_heard last = {.phase = "finishing",
                                   .progress = -1,
                                   .cpu_ms = outcome->cpu_ms,
                                   .device_ms = outcome->device_ms,
                                   .memory_bytes = outcome->memory_bytes};
    return run_heartbeat(pg, &step->holder, &last, err);
}

static struct result run_step(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct run_step *step = (const struct run_step *)(const void *)change; /* its first member */
    const struct run_move move = {&step->holder.run, &step->where.project, step->action, step->to, step->reason};
    int64_t left = 0;

    permit_require(permit, step->action, &step->where);
    if (step->to == RUN_STATE_RUNNING) {
        TRY(run_heartbeat(pg, &step->holder, &(struct run_heard){.phase = "running", .progress = -1}, err));
        return run_row_move(pg, &move, err);
    }
    TRY(note_use(pg, step, err));
    if (step->certificate.length > 0) TRY(run_certify(pg, &step->holder, step->certificate, err));
    TRY(run_attempt_end(pg, &step->holder, step->outcome_name, err));
    TRY(keep(pg, step, err));
    if (step->held != NULL) TRY(held_manifests_insert(permit, pg, step->action, step->held, err));
    if (step->to == RUN_STATE_FINISHING) TRY(run_nodes_left(pg, &step->holder, &left, err));
    if (left > 0) return SUCCESS; /* the run goes on until the result of its last node */
    TRY(run_row_move(pg, &move, err));
    return run_state_is_end(step->to) ? SUCCESS : run_attempts_end(pg, &step->holder.run, "stopped", step->why, err);
}

static void prepare(const struct resource *where, const struct run_holder *holder, struct run_step *step_out)
{
    *step_out = (struct run_step){
        .change = {.run = run_step, .invalidates = CHANGE_INVALIDATES_NOTHING}, .where = *where, .holder = *holder};
}

void run_start_prepare(const struct resource *where, const struct run_holder *holder, struct run_step *step_out)
{
    prepare(where, holder, step_out);
    step_out->action = ACTION_RUN_START;
    step_out->to = RUN_STATE_RUNNING;
}

void run_refuse_prepare(const struct resource *where, const struct run_holder *holder, const struct run_signed *refusal,
                        const char *reason, struct run_step *step_out)
{
    prepare(where, holder, step_out);
    step_out->action = ACTION_RUN_REFUSE;
    step_out->to = RUN_STATE_REFUSED;
    step_out->kind = "refusal";
    step_out->outcome_name = "refused";
    step_out->reason = reason;
    step_out->stored = *refusal;
}

void run_return_prepare(const struct resource *where, const struct run_holder *holder, const struct run_signed *refusal,
                        bool is_last, const char *reason, struct run_step *step_out)
{
    run_refuse_prepare(where, holder, refusal, is_last ? reason : NULL, step_out);
    step_out->why = reason;
    step_out->to = is_last ? RUN_STATE_FAILED : RUN_STATE_ORDERED;
    step_out->kind = "return";
    step_out->outcome_name = "returned";
}

void run_finish_prepare(const struct resource *where, const struct run_holder *holder, const struct run_signed *result,
                        const struct run_outcome *outcome, struct run_step *step_out)
{
    prepare(where, holder, step_out);
    step_out->action = ACTION_RUN_FINISH;
    step_out->to = outcome->state;
    step_out->outcome = outcome;
    step_out->outcome_name = "finished";
    step_out->kind = holder->node == 0 ? "result" : "node result";
    step_out->reason = outcome->reason[0] == '\0' ? NULL : outcome->reason;
    step_out->stored = *result;
    step_out->stored.attempt = holder->attempt;
    step_out->stored.node = holder->node;
}
