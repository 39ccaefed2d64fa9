/*
 * gateway/api/self_priv.h -- what other files add to the answer about the caller itself.
 */
#pragma once

#include "gateway/api/api_priv.h"

/** Without sijil-keyd the answer lacks `member`, and says so: `unknown`. Other failures than those of memory become success. */
static inline RESULT self_cannot_tell(json_t *self, const char *member, const struct error *why, struct error *err)
{
    json_t *unknown = json_object_get(self, "unknown");

    if (why->kind == ERROR_NO_MEMORY) return failure(err, ERROR_NO_MEMORY, "%s", why->message);
    if (unknown == NULL && json_object_set_new(self, "unknown", unknown = json_array()) != 0) unknown = NULL;
    if (unknown != NULL && json_array_append_new(unknown, json_string(member)) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
}

/** Adds `waiting_keys`, the keys of the caller that wait, if there are any: so a person learns that somebody replaces its key. */
RESULT self_add_waiting_keys(const struct request *request, json_t *self, struct error *err);
