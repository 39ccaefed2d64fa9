#include "authz/person.h"

#include <string.h>

#include "authz/snapshot.h"

struct person person_of(const struct authz_snapshot *snapshot, const struct principal *principal)
{
    struct person person = {.key = ""};

    if (principal->kind == PRINCIPAL_EXTERNAL) principal_key(principal, person.key);
    if (principal->kind != PRINCIPAL_ROBOT) return person;
    const struct authz_robot *robot = authz_snapshot_robot(snapshot, &principal->id);
    return robot == NULL ? person : robot->person;
}

static bool is_somebody(const struct person *person)
{
    return person->key[0] != '\0';
}

bool person_is_another(const struct person *one, const struct person *other)
{
    return is_somebody(one) && is_somebody(other) && strcmp(one->key, other->key) != 0;
}

bool person_is_same(const struct person *one, const struct person *other)
{
    return is_somebody(one) && strcmp(one->key, other->key) == 0;
}
