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

/* The principal_key()s of all subjects that SCIM has joined with the person of this one. */
#define SUBJECTS_OF_PERSON(issuer_of, subject_of)                                                                     \
    "(SELECT 'ext:' || encode(sha256(convert_to(s.issuer || E'\n' || s.subject, 'UTF8')), 'hex') FROM scim_subject s" \
    " WHERE s.person = (SELECT person FROM scim_subject WHERE issuer = " issuer_of " AND subject = " subject_of "))"
