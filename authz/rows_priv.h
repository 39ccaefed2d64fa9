/*
 * authz/rows_priv.h -- the inserts of changes of rights, after the check of the permit. The initialisation of a
 * registry uses them under a permit of its own (authz/administrator.h).
 */
#pragma once

#include "authz/binding.h"
#include "authz/robot.h"

/** Inside the caller's transaction; scope, organisation, project and pattern must be set. Errors as of the change. */
RESULT binding_row_insert(struct pg *pg, struct binding_create *create, struct error *err);
/** Robot, issuer and subject: each is NULL where the grantee has none. */
void binding_add_grantee(struct pg_arguments *arguments, const struct authz_binding *binding);
void binding_grantee_key(const struct authz_binding *binding, char key_out[PRINCIPAL_KEY_SIZE]);
RESULT robot_row_insert(struct pg *pg, struct robot_create *create, struct error *err);
