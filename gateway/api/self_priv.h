/*
 * gateway/api/self_priv.h -- what other files add to the answer about the caller itself.
 */
#pragma once

#include "gateway/api/api_priv.h"

/** Adds `waiting_keys`, the keys of the caller that wait, if there are any: so a person learns that somebody replaces its key. */
RESULT self_add_waiting_keys(const struct request *request, json_t *self, struct error *err);
