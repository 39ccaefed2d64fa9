/*
 * authz/person.h -- the person behind a principal: the only comparison for "another person" (docs/identity.md,
 * "Persons").
 *
 * A subject of an issuer is a person. A robot counts as the person that made it; if a robot made it, as the person
 * behind that robot. The person is stored when the robot is made, and stays when its maker is revoked. A robot is
 * nobody if no person made it, or if another person has seen its secret. "Nobody" does not count as another person. The subject of a trust
 * rule is nobody, because it is not known here who has signed the rule, or started the job.
 */
#pragma once

#include "authz/role.h"

struct authz_snapshot;

/**
 * "ext:" and 64 hex digits as from principal_key(), PERSON_ADMINISTRATOR, or "" for nobody. Store it beside the
 * record of an act.
 */
struct person {
    char key[PRINCIPAL_KEY_SIZE];
};
#define PERSON_ADMINISTRATOR "administrator" /* the person that runs the machine of an embedded registry */

struct person person_of(const struct authz_snapshot *snapshot, const struct principal *principal);
/** The same for a principal that a document names by its principal_key(); nobody if the text is not such a key. */
struct person person_of_key(const struct authz_snapshot *snapshot, const char *principal);
/** True unless it is nobody. */
bool person_is_known(const struct person *person);
/** True if both are persons, and not the same one: then each may approve acts of the other. */
bool person_is_another(const struct person *one, const struct person *other);
/** True if both are the same person; false if either is nobody. */
bool person_is_same(const struct person *one, const struct person *other);
