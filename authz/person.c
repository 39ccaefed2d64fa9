#include "authz/person.h"

#include <stdio.h>
#include <string.h>

#include "authz/trust_login.h"

struct person person_of(const struct authz_snapshot *snapshot, const struct principal *principal)
{
    struct person person = {.key = ""};

    if (principal->kind == PRINCIPAL_EXTERNAL && !trust_is_rule(principal)) principal_key(principal, person.key);
    if (principal->kind != PRINCIPAL_ROBOT) return person;
    const struct authz_robot *robot = authz_snapshot_robot(snapshot, &principal->id);
    return robot == NULL ? person : robot->person;
}

struct person person_of_key(const struct authz_snapshot *snapshot, const char *principal)
{
    struct principal robot = {.kind = PRINCIPAL_ROBOT};
    struct person person = {.key = ""};

    if (strncmp(principal, "ext:", 4) == 0) (void)snprintf(person.key, sizeof person.key, "%s", principal);
    if (strncmp(principal, "robot:", 6) != 0 || !uuid_parse(bytes_of_text(principal + 6), &robot.id)) return person;
    return person_of(snapshot, &robot);
}

bool person_is_known(const struct person *person)
{
    return person->key[0] != '\0';
}

bool person_is_another(const struct person *one, const struct person *other)
{
    return person_is_known(one) && person_is_known(other) && strcmp(one->key, other->key) != 0;
}

bool person_is_same(const struct person *one, const struct person *other)
{
    return person_is_known(one) && strcmp(one->key, other->key) == 0;
}
