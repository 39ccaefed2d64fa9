/*
 * keyd/replacement_admin.h -- the documents of administrators among those of officers: one of them stays.
 */
#pragma once

#include "keyd/replacement_format.h"

/** Notes a document of an administrator, or takes it out of the list if it is a withdrawal. ERROR_DENIED: then none would be left that counts. ERROR_LIMIT. */
RESULT replacement_note_admin(struct replacement_state *state, const struct replacement_naming *naming, struct error *err);
