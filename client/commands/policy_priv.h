/* client/commands/policy_priv.h -- shared by the commands `sijil policy ...`. */
#pragma once

#include "base/bytes.h"

/** Reads a set as a person writes it, or as `policy show --document` prints it, and appends the payload with this epoch. */
RESULT policy_compose(const char *path, uint64_t epoch, struct buffer *payload, struct error *err);
