/* gateway/gateway.h -- the life of a gateway, from start to stop. */
#pragma once

#include "gateway/settings/settings.h"

/**
 * Opens everything, serves until SIGTERM or SIGINT (SIGHUP reloads certificates), finishes what runs, closes
 * everything. Blocks the caller's thread, which must be the only one when it is called. `settings` stays the caller's.
 */
RESULT gateway_run(const struct settings *settings, struct error *err);
