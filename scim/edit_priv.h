/* scim/edit_priv.h -- what edits of persons and of groups have in common. */
#pragma once

#include "scim/filter.h"

enum scim_operator { SCIM_ADD, SCIM_REPLACE, SCIM_REMOVE };

/** One change of one attribute. */
struct scim_operation {
    enum scim_operator operator;
    struct scim_path path;
    const json_t *value; /* NULL: none */
};
typedef struct result scim_apply(void *edit, const struct scim_operation *operation, struct error *err);

/** Reads the operations of a PATCH, and applies each in its order; one without a path is one of each member of its value. */
RESULT scim_patch_read(const json_t *body, void *edit, scim_apply *apply, struct error *err);

/** Each member of a body of POST or PUT, as a replacement. */
RESULT scim_body_read(const json_t *body, const char *urn, void *edit, scim_apply *apply, struct error *err);

/** A text without control characters. `least`: 0 lets it be null or "". */
RESULT scim_text_read(const json_t *value, const char *name, size_t least, size_t most, char *text_out, struct error *err);
/** true, false, or these as a text, as some clients write them. */
RESULT scim_flag_read(const json_t *value, const char *name, bool *flag_out, struct error *err);
