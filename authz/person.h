/*
 * authz/person.h -- who is behind a principal: the only comparison for "another person" (docs/identity.md, "Persons").
 *
 * A subject of an issuer is a person. A robot counts as the person who made it, and a robot that a robot made as the person at the
 * root: that is stored when it is made, and stays when the maker is revoked. A robot whose secret another person has seen, and one that
 * no person made, is nobody. Nobody is never another person.
 */
#pragma once

#include "authz/role.h"

struct authz_snapshot;

/** "ext:" and 64 hex digits as principal_key() has it, PERSON_ADMINISTRATOR, or "": nobody. Store it beside what somebody did. */
struct person {
    char key[PRINCIPAL_KEY_SIZE];
};
#define PERSON_ADMINISTRATOR "administrator" /* whoever runs the machine of an embedded registry */

struct person person_of(const struct authz_snapshot *snapshot, const struct principal *principal);
/** Both are somebody, and not the same: the one may approve what the other did. */
bool person_is_another(const struct person *one, const struct person *other);
/** Both are somebody, and the same. */
bool person_is_same(const struct person *one, const struct person *other);
