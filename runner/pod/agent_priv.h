/*
 * runner/pod/agent_priv.h -- the files of a run, for the agent.
 */
#pragma once

#include "runner/talk/talk.h"

/** Takes code and inputs, until all have come. */
RESULT agent_take_inputs(struct talk *talk, struct talk_message *message, struct error *err);
/** Walks the outputs as on any machine (runner/sandbox/outputs.h), and sends them; or says which rule one of them breaks. */
RESULT agent_give_outputs(struct talk *talk, struct talk_message *message, struct error *err);
