/*
 * authz/scim_persons.h -- the persons that a SCIM service has provisioned, as a snapshot of the rights has them (docs/scim.md).
 *
 * A list is immutable and shared by successive snapshots until the rights of the registry change. A check allocates nothing.
 */
#pragma once

#include <stdatomic.h>

#include "base/owned.h"
#include "base/result.h"

/** One row for each subject of tokens that a person has; one with the subject "" if it has none yet. */
struct scim_person {
    const char *issuer, *external_id, *subject;
    bool is_active;
    bool is_untold; /* no event tells the externalId, or the subject: an earlier version wrote the row */
};
struct scim_persons;

/** Copies the rows. ERROR_NO_MEMORY. */
RESULT scim_persons_new(const struct scim_person *rows, size_t count, struct scim_persons **persons_out, struct error *err);
/** NULL stands for nobody, here and below. */
struct scim_persons *scim_persons_keep(const struct scim_persons *persons);
void scim_persons_free(struct scim_persons *persons);
DEFINE_OWNED(scim_persons);

/** NULL: nobody. Views live as long as the list. */
const struct scim_person *scim_persons_of_subject(const struct scim_persons *persons, const char *issuer, const char *subject);
const struct scim_person *scim_persons_of_external(const struct scim_persons *persons, const char *issuer,
                                                   const char *external_id);
/** By the principal_key() of a subject of a person's tokens. */
const struct scim_person *scim_persons_of_key(const struct scim_persons *persons, const char *key);
