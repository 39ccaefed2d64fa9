#include "audit/job_permit.h"

#include "audit/decision_make.h"
#include "audit/decision_priv.h"

struct result record_prepare_for_job(const struct action_pair *pair, struct change *change, struct record *record_out,
                                     struct error *err)
{
    const struct decision_parts parts = {.verdict = VERDICT_ALLOW, .epoch = EPOCH_OF_JOBS, .pair_count = 1, .pairs = {*pair}};
    struct record record = {.change = change};

    TRY(decision_make(&parts, &record.decision, err));
    *record_out = record;
    return SUCCESS;
}

struct result permit_for_job(struct sequencer *sequencer, const struct action_pair *pair, struct permit **permit_out,
                             struct error *err)
{
    struct record record;

    TRY(record_prepare_for_job(pair, NULL, &record, err));
    sequencer_submit_and_wait(sequencer, &record);
    const struct error error = record.error;
    if (record.status == RECORD_DONE) *permit_out = GIVE(record.permit);
    const enum record_status status = record.status;
    record_done(&record);
    if (status == RECORD_DONE) return SUCCESS;
    if (error.kind == ERROR_FORKED) {
        *err = error;
        return (struct result){.ok = false};
    }
    return failure(err, ERROR_UNAVAILABLE, "%s could not be recorded: %.180s", action_name(pair->action), error.message);
}
