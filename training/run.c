#include "training/run.h"

#include <stdio.h>
#include <string.h>

#include "audit/job_permit.h"
#include "base/memory.h"
#include "base/text.h"
#include "training/expire.h"
#include "training/run_priv.h"

#define DUE_MAX 100 /* runs in one round: a second of work */

static struct result run_request(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct run_request *request = (const struct run_request *)(const void *)change; /* its first member */

    permit_require(permit, ACTION_RUN_REQUEST, &request->where);
    return run_row_request(pg, request, err);
}

void run_request_prepare(const struct resource *where, const struct run *run, const struct run_signed *request,
                         struct run_request *request_out)
{
    *request_out = (struct run_request){.change = {.run = run_request, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                        .where = *where,
                                        .run = *run,
                                        .request = *request,
                                        .bytes_max = RUN_PROJECT_BYTES};
}

/* Whole characters only. */
static void cut_text(char *text, size_t most)
{
    size_t length = strlen(text);

    if (length <= most) return;
    for (length = most - strlen("..."); length > 0 && ((uint8_t)text[length] & 0xc0) == 0x80; length--) continue;
    (void)memcpy(text + length, "...", sizeof "...");
}

void run_command_text(const struct run_envelope *request, char text_out[RUN_COMMAND_SIZE])
{
    char text[RUN_COMMAND_SIZE + 8]; /* room to see that it is longer, also in the middle of a character */
    const json_t *argv = run_member(request, "spec.argv"), *word;
    size_t used = 0, i;

    text[0] = '\0';
    json_array_foreach (argv, i, word)
        if (used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i == 0 ? "" : " ", json_string_value(word));
    for (char *at = text; *at != '\0'; at++)
        if ((uint8_t)*at < 0x20 || *at == 0x7f) *at = ' ';
    cut_text(text, RUN_COMMAND_SIZE - 1);
    memcpy(text_out, text, strlen(text) + 1); /* it was cut */
}

struct run_rerun run_rerun_of(const struct run_envelope *request)
{
    struct run_rerun repeated = {.is_named = run_member(request, "rerun") != NULL};

    if (!repeated.is_named) return repeated;
    (void)uuid_parse(bytes_of_text(run_text(request, "rerun.run")), &repeated.run); /* the shape was checked */
    (void)text_from_hex(bytes_of_text(run_text(request, "rerun.order") + strlen("sha256:")), repeated.order,
                        sizeof repeated.order);
    return repeated;
}

static struct result run_approve(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct run_approve *approve = (const struct run_approve *)(const void *)change; /* its first member */

    permit_require(permit, ACTION_RUN_APPROVE, &approve->where);
    return run_row_approve(pg, approve, err);
}

void run_approve_prepare(const struct resource *where, const struct run *run, const struct run_signed *approval,
                         struct run_approve *approve_out)
{
    *approve_out = (struct run_approve){.change = {.run = run_approve, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                        .where = *where,
                                        .run = *run,
                                        .approval = *approval};
}

static struct result run_end(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct run_end *end = (const struct run_end *)(const void *)change; /* its first member */
    const struct run_move move = {&end->run, &end->where.project, end->action, end->state,
                                  end->reason[0] == '\0' ? NULL : end->reason};

    permit_require(permit, end->action, &end->where);
    return run_row_move(pg, &move, err);
}

/* A person asks for it: the answer names what is there. */
static struct result cancel(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct run_end *end = (const struct run_end *)(const void *)change; /* its first member */
    const struct result ended = run_end(permit, change, pg, err);

    return ended.ok || err->kind != ERROR_CONFLICT ? ended : run_row_why_not(pg, &end->run, &end->where.project, err);
}

void run_cancel_prepare(const struct resource *where, const struct uuid *run, struct run_end *end_out)
{
    *end_out = (struct run_end){.change = {.run = cancel, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                .where = *where,
                                .run = *run,
                                .action = ACTION_RUN_CANCEL,
                                .state = RUN_STATE_CANCELLED};
}

struct result run_record(struct sequencer *sequencer, const struct action_pair *pair, struct change *change, struct error *err)
{
    struct record record;

    TRY(record_prepare_for_job(pair, change, &record, err));
    sequencer_submit_and_wait(sequencer, &record);
    const enum record_status status = record.status;
    const struct error why = record.error;
    record_done(&record);
    if (status == RECORD_DONE) return SUCCESS;
    return failure(err, status == RECORD_REFUSED ? why.kind : ERROR_UNAVAILABLE, "%s", why.message);
}

struct result run_record_once(struct sequencer *sequencer, const struct action_pair *pair, struct change *change,
                              bool *is_new_out, struct error *err)
{
    const struct result recorded = run_record(sequencer, pair, change, err);

    *is_new_out = recorded.ok;
    return recorded.ok || err->kind == ERROR_CONFLICT ? SUCCESS : recorded;
}

void run_round_note(struct run_round *round, struct result one, bool is_changed, const struct error *err)
{
    round->changed += one.ok && is_changed;
    if (!one.ok && round->failed.kind == ERROR_NONE) round->failed = *err;
}

struct result run_round_end(const struct run_round *round, size_t *changed_out, struct error *err)
{
    if (round->failed.kind != ERROR_NONE) return failure(err, round->failed.kind, "%s", round->failed.message);
    *changed_out = round->changed;
    return SUCCESS;
}

/* ERROR_CONFLICT: it has ended meanwhile, so there is nothing to do. */
static struct result expire(struct sequencer *sequencer, const struct due_run *due, bool *ended_out, struct error *err)
{
    struct action_pair pair = {.action = ACTION_RUN_EXPIRE, .resource = due->where};
    struct run_end end = {.change = {.run = run_end, .invalidates = CHANGE_INVALIDATES_NOTHING},
                          .run = due->run,
                          .action = ACTION_RUN_EXPIRE,
                          .state = RUN_STATE_EXPIRED};

    uuid_format(&due->run, pair.resource.detail);
    end.where = pair.resource;
    return run_record_once(sequencer, &pair, &end.change, ended_out, err);
}

struct result run_expire_due(struct sequencer *sequencer, struct pg *pg, size_t *count_out, struct error *err)
{
    struct due_run *due = memory_zeroed(DUE_MAX, sizeof *due);
    struct run_round round = {.changed = 0};
    size_t count = 0;

    if (due == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for expired runs");
    const struct result result = run_rows_due(pg, due, DUE_MAX, &count, err);
    for (size_t i = 0; i < count && result.ok; i++) {
        bool is_ended = false;
        const struct result one = expire(sequencer, &due[i], &is_ended, err);
        run_round_note(&round, one, is_ended, err);
    }
    free(due);
    return result.ok ? run_round_end(&round, count_out, err) : result;
}
