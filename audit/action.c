#include "audit/action.h"

#include <assert.h>

static const struct {
    const char *name;
    unsigned ocsf_type, operations;
} actions[] = {
#define X(constant, name, ocsf_type, operations, permitted) [constant] = {name, ocsf_type, operations},
#include "audit/actions.def"
#undef X
};

const char *action_name(enum action action)
{
    assert((unsigned)action < ACTION_COUNT);
    return actions[action].name;
}

unsigned action_ocsf_type(enum action action)
{
    assert((unsigned)action < ACTION_COUNT);
    return actions[action].ocsf_type;
}

unsigned action_operations(enum action action)
{
    assert((unsigned)action < ACTION_COUNT);
    return actions[action].operations;
}

bool action_find(struct bytes name, enum action *action_out)
{
    for (unsigned i = 0; i < ACTION_COUNT; i++) {
        if (!bytes_equal(name, bytes_of_text(actions[i].name))) continue;
        *action_out = (enum action)i;
        return true;
    }
    return false;
}
