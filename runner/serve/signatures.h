/*
 * runner/serve/signatures.h -- what the serving process signs with the runner's own key: certificates and refusals, and nothing else.
 *
 * The questions come from a worker. Each signature is over a payload that this process has composed itself.
 */
#pragma once

#include "runner/serve/channel.h"
#include "runner/state/runner_state.h"

/** Certifies the key of `question` for a lease that the asking worker has taken, from now to the lease's end. ERROR_INVALID: it is no key. */
RESULT signatures_certify(const struct runner_state *state, const struct taken_lease *lease,
                          const struct channel_question *question, char envelope_out[CHANNEL_ENVELOPE_SIZE], struct error *err);
/** A refusal of the lease that `question` names, at this time. ERROR_INVALID: a text has not its form. */
RESULT signatures_refuse(const struct runner_state *state, const struct channel_question *question,
                         char envelope_out[CHANNEL_ENVELOPE_SIZE], struct error *err);
