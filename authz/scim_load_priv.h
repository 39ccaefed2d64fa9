/* authz/scim_load_priv.h -- reads what SCIM has provisioned, for a snapshot of the rights. */
#pragma once

#include "authz/scim_persons.h"
#include "storage/pg.h"

/** All persons, also those that were deleted. */
RESULT scim_load_persons(struct pg *pg, struct scim_persons **persons_out, struct error *err);
/** Issuer, subject, and the id or externalId of a group that is among `groups`; by issuer and subject. */
RESULT scim_load_members(struct pg *pg, const struct bytes *groups, size_t count, struct pg_rows **rows_out, struct error *err);
