#include "training/state.h"

#include <assert.h>
#include <string.h>

static const struct {
    const char *name;
    bool is_end;
} states[RUN_STATE_COUNT] = {
#define STATE(constant, name, is_end) [constant] = {name, is_end},
#include "training/states.def"
};

static const struct {
    enum run_state from;
    enum action action;
    enum run_state to;
} transitions[] = {
#define TRANSITION(from, action, to) {from, action, to},
#include "training/states.def"
};

const char *run_state_name(enum run_state state)
{
    assert(state < RUN_STATE_COUNT);
    return states[state].name;
}

bool run_state_find(const char *name, enum run_state *state_out)
{
    for (enum run_state state = 0; state < RUN_STATE_COUNT; state++)
        if (strcmp(states[state].name, name) == 0) {
            *state_out = state;
            return true;
        }
    return false;
}

bool run_state_is_end(enum run_state state)
{
    assert(state < RUN_STATE_COUNT);
    return states[state].is_end;
}

enum run_state run_state_first(int64_t approvals_wanted)
{
    return approvals_wanted > 0 ? RUN_STATE_AWAITING_APPROVAL : RUN_STATE_REQUESTED;
}

size_t run_states_before(enum action action, enum run_state to, struct bytes names_out[RUN_STATE_COUNT])
{
    size_t count = 0;

    for (size_t i = 0; i < sizeof transitions / sizeof transitions[0]; i++)
        if (transitions[i].action == action && transitions[i].to == to)
            names_out[count++] = bytes_of_text(states[transitions[i].from].name);
    assert(count > 0); /* the table has such a transition */
    return count;
}
