/* Requests about the keys and the origin of the log, about what policy sets demand, and about replaced keys. */
#include "keyd/answer_priv.h"

#include "base/clock.h"
#include "keyd/document_pin.h"
#include "keyd/recovery.h"

struct result answer_log_rotate(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                struct scratch *scratch, struct error *err)
{
    (void)reply, (void)scratch;
    return log_rotation_follow(keyd->rotation, keyd->ledger, request->as.log_order, clock_wall_ms(), err);
}

/* The keys, and behind them the next one. */
struct result answer_log_keys(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                              struct scratch *scratch, struct error *err)
{
    struct log_rotation_state state;

    (void)request;
    log_rotation_state(keyd->rotation, &state);
    TRY(log_rotation_text(keyd->rotation, &scratch->text, err));
    const size_t length = scratch->text.length;
    if (state.has_next) TRY(note_key_write(&state.next, &scratch->text, err));
    reply->as.log_keys.keys = (struct bytes){scratch->text.data, length};
    reply->as.log_keys.next = (struct bytes){scratch->text.data + length, scratch->text.length - length};
    reply->as.log_keys.retires_s = state.retires_s;
    return SUCCESS;
}

struct result answer_recover(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                             struct scratch *scratch, struct error *err)
{
    const struct recovery_place place = {
        {keyd->keyring, keyd->ledger, keyd->rotation}, keyd->keys, keyd->replacements, keyd->one_officer};

    (void)reply, (void)scratch;
    TRY(recovery_take(&place, &request->as.recovery, clock_wall_ms(), err));
    quorum_close(keyd->quorum); /* the witnesses have not seen the new log yet */
    return SUCCESS;
}

struct result answer_last_checkpoint(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                     struct scratch *scratch, struct error *err)
{
    const struct checkpoint_signer signer = {keyd->keyring, keyd->ledger, keyd->rotation};

    (void)request;
    TRY(recovery_last_checkpoint(&signer, clock_wall_ms(), &scratch->text, err));
    reply->as.note = buffer_bytes(&scratch->text);
    return SUCCESS;
}

struct result answer_root_terms(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                struct scratch *scratch, struct error *err)
{
    struct ledger_state state;

    (void)request, (void)scratch, (void)err;
    ledger_read(keyd->ledger, &state);
    reply->as.root_terms = state.terms;
    return SUCCESS;
}

struct result answer_policy_ids(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                struct scratch *scratch, struct error *err)
{
    (void)scratch, (void)err;
    if (keyd->ids != NULL) reply->as.unused_ids = policy_ids_unused(keyd->ids, &request->as.policy_ids);
    return SUCCESS;
}

struct result answer_replace_key(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                 struct scratch *scratch, struct error *err)
{
    const struct replacement_place place = {keyd->replacements, keyd->ledger, keyd->keys};

    (void)scratch;
    return document_replace(&place, &request->as.pin, clock_wall_ms(), &reply->as.counts_ms, err);
}

struct result answer_key_power(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                               struct scratch *scratch, struct error *err)
{
    const struct replacement_place place = {keyd->replacements, keyd->ledger, keyd->keys};

    (void)scratch, (void)err;
    replacements_power(&place, request->as.principal, &reply->as.key_power);
    return SUCCESS;
}
