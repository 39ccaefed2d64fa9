/*
 * authz/rows_priv.h -- what changes of rights do to rows once their permit fitted. The founding of a registry has a permit of its
 * own (authz/administrator.h) and does the same.
 */
#pragma once

#include "authz/binding.h"
#include "authz/robot.h"

/** Scope, organisation, project and pattern are set. Inside the caller's transaction. Errors as of the change. */
RESULT binding_row_insert(struct pg *pg, struct binding_create *create, struct error *err);
RESULT robot_row_insert(struct pg *pg, struct robot_create *create, struct error *err);
