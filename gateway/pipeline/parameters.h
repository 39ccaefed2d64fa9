/* gateway/pipeline/parameters.h -- which query parameters a route takes (gateway/parameters.def). */
#pragma once

#include "gateway/pipeline/route.h"

/** Whether a request of /api/v1 has only parameters that its route takes, and each once; other routes may have any. ERROR_INVALID names
 *  the parameter and what there is. */
RESULT parameters_check(const struct route *route, const struct fields *arguments, struct error *err);
