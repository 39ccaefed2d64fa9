/*
 * training/state.h -- the states of a training run, from training/states.def. Pure.
 */
#pragma once

#include "audit/action.h"

enum run_state {
#define STATE(constant, name, is_end) constant,
#include "training/states.def"
    RUN_STATE_COUNT
};

/** "awaiting approval", as in the table. */
const char *run_state_name(enum run_state state);
bool run_state_find(const char *name, enum run_state *state_out);
bool run_state_is_end(enum run_state state);
/** The state of a new run. */
enum run_state run_state_first(int64_t approvals_wanted);
/** The names of the states from which `action` leads to `to`, as views of static texts; their number. */
size_t run_states_before(enum action action, enum run_state to, struct bytes names_out[RUN_STATE_COUNT]);
