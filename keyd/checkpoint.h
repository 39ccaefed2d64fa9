/*
 * keyd/checkpoint.h -- signs the state of the log, if it continues the state that keyd signed last
 * (docs/formats/audit-log.md sections 5 to 7 and 15).
 *
 * keyd composes the text itself and signs nothing else with the log key. Its new last (size, root) is durable before the
 * signature leaves. ERROR_FORKED: the log shrank or forked, or a gateway reported that it was changed. ERROR_CONFLICT: the
 * proof starts from another size than keyd's last; call keyd_identify() and make a new proof. ERROR_INVALID: the
 * gateway's clock differs from keyd's by more than 60 s.
 */
#pragma once

#include "keyd/keyring.h"
#include "keyd/ledger.h"
#include "keyd/log_rotation.h"

#define CHECKPOINT_CLOCK_MAX_S 60

struct checkpoint_signer {
    const struct keyring *keyring;
    struct ledger *ledger;
    struct log_rotation *rotation;
};
/** Appends the signed checkpoint of the registry's log `number`, over the request's size and root. The caller has checked them, or drops the note; and it holds the rotation. */
RESULT checkpoint_compose(const struct checkpoint_signer *signer, uint32_t number, const struct checkpoint_request *request,
                          int64_t now_ms, struct buffer *note, struct error *err);

/** `now_ms` is keyd's own wall clock. Appends the note. */
RESULT checkpoint_sign(const struct checkpoint_signer *signer, const struct checkpoint_request *request, int64_t now_ms,
                       struct buffer *note, struct error *err);
