/*
 * authz/person.h -- the persons behind an act: the only comparison for "another person" (docs/identity.md, "Persons").
 *
 * A subject of an issuer is a person. An act of a robot counts as done by everybody who made it or saw a secret of it; an act by a trust rule as done by everybody
 * who signed the rule. These are sets. If somebody is behind an act whom nobody knows, such as the person that started a job of a CI system, the set is not complete.
 *
 * Subjects of different issuers count as one person, because one person may have an account at each. A signed document of the organisation says from which issuer its
 * persons come, and which subjects are separate persons; once there is one, a subject of another issuer that it does not name is nobody. Subjects that SCIM has joined with
 * one person are that person, whatever a document says.
 */
#pragma once

#include "authz/role.h"

struct authz_snapshot;

#define PERSON_ADMINISTRATOR "administrator" /* the person that runs the machine of an embedded registry */
#define PERSON_ISSUER_SIZE   16
#define PERSONS_MAX          8

/** "ext:" and 64 hex digits as from principal_key(), PERSON_ADMINISTRATOR, or "" for nobody. Store it, and the issuer, beside the record of an act. */
struct person {
    char key[PRINCIPAL_KEY_SIZE];
    uint8_t issuer[PERSON_ISSUER_SIZE];      /* of its SHA-256; zeros: not known, or no subject of an issuer */
    uint8_t provisioned[PERSON_ISSUER_SIZE]; /* which person of SCIM; zeros: none. It may have several subjects at one issuer */
    bool is_separate;                        /* a document says so */
};
/** `issuer` NULL or "": not known. */
struct person person_new(const char *key, const char *issuer);

struct persons {
    size_t count;
    bool has_unknown; /* somebody else, too, whom nobody knows */
    bool cannot_tell; /* who else is behind it can't be told here: too many, or no documents. Nobody is another than these */
    struct person each[PERSONS_MAX];
};

/** Each person once. With more than PERSONS_MAX the set is not complete, and nobody is another than these. */
void persons_add(struct persons *persons, const struct person *person);
/** From a row: "KEY", "KEY ISSUER", or PERSON_UNKNOWN. */
#define PERSON_UNKNOWN "unknown"
void persons_add_text(struct persons *persons, struct bytes text);
/** Several such texts, with a line feed between; "" is somebody unknown. */
void persons_add_lines(struct persons *persons, const char *lines);

/** Where persons are compared. */
struct persons_scope {
    const struct authz_snapshot *snapshot;
    const struct uuid *organisation; /* nil: the registry */
    int64_t now_ms;
};
/** Of a trust rule nobody but the unknown one: its signers are in its document (decider_persons_of_key()). */
struct persons persons_of(const struct persons_scope *scope, const struct principal *principal);
/** The same for a principal that a document names by its principal_key(); the unknown one if the text is not such a key. */
struct persons persons_of_key(const struct persons_scope *scope, const char *principal);
/** A set of stored persons, as the documents of today have them. */
struct persons persons_as_of_now(const struct persons_scope *scope, const struct persons *stored);

/** The subjects that the documents of an organisation, and of the registry, call separate persons. */
#define PERSONS_SEPARATED_MAX 256
struct persons_separated {
    size_t count;
    char keys[PERSONS_SEPARATED_MAX][PRINCIPAL_KEY_SIZE];
};
void persons_separated(const struct persons_scope *scope, struct persons_separated *separated_out);

/** Everybody is known, and there is somebody. */
bool persons_are_known(const struct persons *persons);
/** Exactly one person is behind it. */
bool persons_are_one(const struct persons *persons);
/** Both are known, and nobody is in both, also with the account of another issuer: then each may approve acts of the other. */
bool persons_are_others(const struct persons *one, const struct persons *other);
/** `one` is known, and none of it is known to be in `other`, which may not be complete: then one more approval is needed. */
bool persons_are_none_of(const struct persons *one, const struct persons *other);
/** Somebody is known to be in both. */
bool persons_meet(const struct persons *one, const struct persons *other);
