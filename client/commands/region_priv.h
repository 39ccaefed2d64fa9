/* client/commands/region_priv.h -- what the commands `sijil region ...` share. */
#pragma once

#include "client/commands/api_priv.h"

/** The region as the registry shows it. ERROR_NOT_FOUND. */
RESULT region_as_shown(struct session *session, const char *region, json_t **found_out, struct error *err);

/** Has each project that is at home in the region (the second operand) move to `to`, and prints which do (copies.c). */
RESULT drain_to(struct invocation *invocation, const char *to, struct error *err);
