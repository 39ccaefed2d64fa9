/* policy/no_memory_priv.h -- what the sources of this folder say when there is no memory. */
#pragma once

#include "base/result.h"

static inline struct result policy_no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for policies");
}
