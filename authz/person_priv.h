/* authz/person_priv.h -- the person behind a stored principal_key(), in SQL: the same as person_of() gives at that moment. */
#pragma once

/* `key` is an expression of the type text. The inner CASE converts only robots' keys to an id. */
#define PERSON_BEHIND(key)                                                  \
    "coalesce((SELECT maker.person FROM robot maker WHERE maker.robot_id =" \
    " CASE WHEN " key " LIKE 'robot:%' THEN substr(" key ", 7)::uuid END), CASE WHEN " key " LIKE 'ext:%' THEN " key " END)"
