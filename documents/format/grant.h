/*
 * documents/format/grant.h -- what the grants of signed documents may give, and where: trust rules, and the roles of groups.
 */
#pragma once

#include "base/bytes.h"

#define GRANT_PLACE_MAX 255

/**
 * A role on content, or one of your own (documents/format/own_role.h), on an organisation, a project, a repository or what is below a path, inside the scope ("": anywhere). ERROR_INVALID: a document
 * makes no officer, approver or administrator.
 */
RESULT grant_check(const char *role, const char *on, const char *scope, struct error *err);
