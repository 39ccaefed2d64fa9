/*
 * authz/rows_priv.h -- the inserts of changes of rights, after the check of the permit. The initialisation of a
 * registry uses them under a permit of its own (authz/administrator.h).
 */
#pragma once

#include "authz/binding.h"
#include "authz/robot.h"

/** Inside the caller's transaction; scope, organisation, project and pattern must be set. Errors as of the change. */
RESULT binding_row_insert(struct pg *pg, struct binding_create *create, struct error *err);
RESULT robot_row_insert(struct pg *pg, struct robot_create *create, struct error *err);
