/* authz/person_priv.h -- the persons behind a stored principal_key(), in SQL: the same as persons_of() gives at that moment, without today's documents. */
#pragma once

/* `key` is an expression of the type text. The inner CASE converts only robots' keys to an id. */
#define MAKER_OF(key) "robot maker WHERE maker.robot_id = CASE WHEN " key " LIKE 'robot:%' THEN substr(" key ", 7)::uuid END"

/* The one person, or nobody. */
#define PERSON_BEHIND(key) \
    "coalesce((SELECT maker.person FROM " MAKER_OF(key) "), CASE WHEN " key " LIKE 'ext:%' THEN " key " END)"

/* Everybody, as persons_add_text() reads them; `issuer` is that of a subject. So many that a row would grow without end count as unknown. */
#define PERSONS_BEHIND(key, issuer)                                                                                                \
    "coalesce((SELECT CASE WHEN cardinality(maker.behind) BETWEEN 1 AND 15 THEN maker.behind ELSE '{unknown}' END FROM " MAKER_OF( \
        key) "), CASE WHEN " key " LIKE 'ext:%' THEN ARRAY[concat_ws(' ', " key ", nullif(" issuer                                 \
             ", ''))] ELSE '{unknown}' END)"
