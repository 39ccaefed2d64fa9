/*
 * client/commands/log_key_priv.h -- follows the keys of a log in a file of the user.
 */
#pragma once

#include <jansson.h>

#include "base/result.h"

/** `answer` is that of /api/v1/audit/key. The file has the key that the user trusts; the handovers that lead to the newest key are put behind it.
 *  ERROR_DENIED: none does; the file is as it was. Prints the newest key. */
RESULT log_key_follow(const char *path, const json_t *answer, struct error *err);
