/*
 * scim/filter.h -- filters of SCIM (RFC 7644, 3.4.2.2) and paths of PATCH (3.5.2), as far as provisioning needs them: comparisons with `eq`, joined by `and`.
 *
 * Reading needs memory for the texts that are compared. A filter has at most SCIM_FILTER_MAX bytes and SCIM_TERMS_MAX comparisons; there are no parentheses, so no depth.
 */
#pragma once

#include "scim/attribute.h"

#define SCIM_FILTER_MAX 2048
#define SCIM_TERMS_MAX  4

struct scim_term {
    enum scim_attribute attribute;
    char text[SCIM_NAME_MAX + 1]; /* of all attributes but active */
    bool flag;                    /* of active */
};
struct scim_filter {
    size_t count;
    struct scim_term terms[SCIM_TERMS_MAX];
};
/** ERROR_INVALID with invalidFilter: also for another operator, and for an attribute that can't be searched. */
RESULT scim_filter_read(const char *text, struct scim_filter *filter_out, struct error *err);

/** `members[value eq "ID"]`: one member; `active`; `emails[type eq "work"].value`, which is not kept. */
struct scim_path {
    enum scim_attribute attribute;
    bool has_value; /* of members: one alone */
    char value[SCIM_NAME_MAX + 1];
};
/** ERROR_INVALID with invalidPath. */
RESULT scim_path_read(const char *text, struct scim_path *path_out, struct error *err);
