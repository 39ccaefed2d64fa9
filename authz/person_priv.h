/*
 * authz/person_priv.h -- the person behind a principal_key() that is stored, in SQL: as person_of() has it, at that moment.
 */
#pragma once

/* `key` is an expression of the type text; the inner CASE keeps what is no robot's from being read as an id. */
#define PERSON_BEHIND(key)                                                                                      \
    "coalesce((SELECT maker.person FROM robot maker WHERE maker.robot_id ="                                      \
    " CASE WHEN " key " LIKE 'robot:%' THEN substr(" key ", 7)::uuid END), CASE WHEN " key " LIKE 'ext:%' THEN " key " END)"
