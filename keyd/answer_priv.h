/*
 * keyd/answer_priv.h -- the answers that have a source of their own.
 */
#pragma once

#include "keyd/answer.h"

/* Data that a reply points at until it is encoded. */
struct scratch {
    uint8_t key[32];
    struct buffer text;
};

/* answer_log.c */
#define ANSWER(name)                                                                                                   \
    struct result answer_##name(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply, \
                                struct scratch *scratch, struct error *err)
ANSWER(log_rotate);
ANSWER(log_keys);
ANSWER(recover);
ANSWER(last_checkpoint);
ANSWER(root_terms);
ANSWER(policy_ids);
ANSWER(replace_key);
ANSWER(key_power);
/* answer_region.c */
ANSWER(current);
ANSWER(place);
ANSWER(take_current);
ANSWER(certify_deletion);
ANSWER(certify_elsewhere);
ANSWER(show_set);
#undef ANSWER
/** Whether this sijil-keyd answers such a request at all, and now. */
struct result answer_allowed(const struct keyd *keyd, const struct quorum_place *place, const struct keyd_request *request,
                             struct error *err);
