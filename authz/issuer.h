/*
 * authz/issuer.h -- trusted issuers of tokens, and their keys.
 *
 * A record holds what an administrator has configured; an issuer adds the verifiers made from its keys (RFC 7517).
 * The keys are replaced as a whole, so they can be renewed while the snapshot stays. The keys of an issuer that is followed are fetched from it; they
 * count for ISSUER_STALE_S after it last published them.
 */
#pragma once

#include <jansson.h>

#include "authz/jws.h"
#include "base/bytes.h"
#include "base/owned.h"
#include "base/uuid.h"

#define ISSUER_URL_SIZE       256
#define ISSUER_KEYS_MAX       32 /* of one issuer; large ones publish four */
#define ISSUER_JWKS_MAX       262144
#define ISSUER_DIGEST_SIZE    33 /* 32 hex digits and '\0' */
#define ISSUER_LIFETIME_MAX_S 86400
#define ISSUER_STALE_S        86400

/** The values of `typ` that a foreign token may have: all but that of our own tokens. */
#define ISSUER_TYPES (1U << JWS_TYPE_JWT | 1U << JWS_TYPE_ACCESS)

struct issuer_record {
    struct uuid id;
    char url[ISSUER_URL_SIZE]; /* compared byte by byte with `iss` */
    char audience[256];        /* `aud` must be exactly this */
    unsigned algorithms;       /* bits of enum jose_algorithm */
    unsigned types;            /* bits of enum jws_type */
    unsigned lifetime_max_s;   /* the maximum of exp - iat */
    bool follows;              /* its keys are fetched from it */
    int64_t confirmed_ms;      /* with `follows`: when it last published these keys; 0: never yet */
    const char *jwks; /* JWK set; with `follows` "" before it was fetched. Read only by issuer_new() and issuer_equals() */
};

struct issuer;
struct issuer_key;

/** Whether a text is a valid `iss`. For records, and for bindings to subjects; their issuer need not be trusted yet. */
#define ISSUER_URL_RULE \
    "an issuer is a URL that begins with https:// and a host in small letters, without blanks, query or fragment"
bool issuer_url_is_valid(const char *url);

/** Parses the key set. ERROR_INVALID if the record or the set breaks a rule, or no key is usable; ERROR_NO_MEMORY. */
RESULT issuer_new(const struct issuer_record *record, struct issuer **issuer_out, struct error *err);
/** Parses a new key set and replaces the old one; on failure the old one stays. Thread-safe. */
RESULT issuer_replace_keys(struct issuer *issuer, const char *jwks, struct error *err);
/**
 * Whether issuer_new() of the record would make an equal one. If so, the issuer takes the record's `confirmed_ms`, so that a new snapshot can share it
 * with the one before: verifiers cost much.
 */
bool issuer_equals(const struct issuer *issuer, const struct issuer_record *record);
/** The issuer has published these keys at that time. A time before the one that is known changes nothing. */
void issuer_confirm(const struct issuer *issuer, int64_t confirmed_ms);
/** Adds an owner; issuer_free() removes one. */
struct issuer *issuer_keep(const struct issuer *issuer);
/** Whether a token named a key that is not known, since the last call: then the keys of an issuer that is followed should be fetched. */
bool issuer_take_wish(const struct issuer *issuer);
/** The record without `jwks`, which is NULL. */
const struct issuer_record *issuer_record_of(const struct issuer *issuer);
/** The first half of the SHA-256 of the URL, in hex: it stands for the URL in our own tokens. */
const char *issuer_digest(const struct issuer *issuer);
/** The same of any URL. */
void issuer_digest_of(const char *url, char digest_out[ISSUER_DIGEST_SIZE]);

/**
 * Checks that a parsed token fits this issuer (alg, typ, kid) and that one of the issuer's keys signed it. With
 * `is_late` a token is accepted after its exp. ERROR_DENIED says what is wrong; ERROR_NO_MEMORY. Thread-safe.
 */
RESULT issuer_verify(const struct issuer *issuer, const struct jws *token, bool is_late, struct error *err);
/** A number for the key that would verify this token, different for each key; 0 if there is no such key. For caches. */
uint64_t issuer_key_serial(const struct issuer *issuer, const struct jws *token);

void issuer_free(struct issuer *issuer);
DEFINE_OWNED(issuer);
