/* gateway/gateway.h -- runs a gateway, from start to stop. */
#pragma once

#include "gateway/settings/settings.h"

/**
 * Opens all parts, serves until SIGTERM or SIGINT (SIGHUP reloads certificates), finishes the requests in progress, and closes all parts.
 * Blocks the caller's thread, which must be the only one when it is called. `settings` belongs to the caller.
 */
RESULT gateway_run(const struct settings *settings, struct error *err);
