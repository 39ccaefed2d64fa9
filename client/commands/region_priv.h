/* client/commands/region_priv.h -- what the commands `sijil region ...` share. */
#pragma once

#include "client/commands/api_priv.h"

/** The region as the registry shows it. ERROR_NOT_FOUND. */
RESULT region_as_shown(struct session *session, const char *region, json_t **found_out, struct error *err);
