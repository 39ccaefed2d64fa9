/*
 * keyd/checkpoint.h -- signs the state of the log, if it continues what keyd signed before
 * (docs/formats/audit-log.md sections 5 to 7 and 15).
 *
 * keyd composes the text itself and signs nothing else with the log key. Its own last (size, root) is durable before
 * the signature leaves. ERROR_CORRUPT: the log shrank or forked. ERROR_CONFLICT: the proof starts from another size
 * than keyd's last; ask keyd_identify() and prove again. ERROR_INVALID: a clock more than 60 s off.
 */
#pragma once

#include "keyd/keyring.h"
#include "keyd/ledger.h"

#define CHECKPOINT_CLOCK_MAX_S 60

/** `now_ms` is keyd's own wall clock. Appends the note. */
RESULT checkpoint_sign(const struct keyring *keyring, struct ledger *ledger,
                       const struct checkpoint_request *request, int64_t now_ms, struct buffer *note,
                       struct error *err);
