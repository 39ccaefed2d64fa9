/*
 * authz/issuer.h -- issuers whose tokens are accepted, and their keys.
 *
 * A record is what an administrator states; an issuer adds the verifiers made from its keys (RFC 7517). Keys are a
 * set of their own, replaced as a whole, so that a fetcher may renew them beside a snapshot that stays.
 */
#pragma once

#include <jansson.h>

#include "authz/gate.h"
#include "base/bytes.h"
#include "base/owned.h"
#include "base/uuid.h"

#define ISSUER_URL_SIZE     256
#define ISSUER_KEYS_MAX     32          /* of one issuer; large ones publish four */
#define ISSUER_JWKS_MAX     262144
#define ISSUER_DIGEST_SIZE  33          /* 32 hex digits and '\0' */
#define ISSUER_LIFETIME_MAX_S 86400

/** What others may say in `typ`: anything but what our own tokens say. */
#define ISSUER_TYPES (1U << GATE_TYPE_JWT | 1U << GATE_TYPE_ACCESS)

struct issuer_record {
    struct uuid id;
    char url[ISSUER_URL_SIZE];      /* compared byte by byte with `iss` */
    char audience[256];             /* what `aud` must be, alone */
    unsigned algorithms;            /* bits of enum jose_algorithm */
    unsigned types;                 /* bits of enum gate_type */
    unsigned lifetime_max_s;        /* exp - iat may not be more */
    const char *jwks;               /* JWK set; only read while the issuer is made */
};

struct issuer;
struct issuer_key;

/** May this be the `iss` of an issuer? For records, and for bindings of an issuer that need not be trusted yet. */
#define ISSUER_URL_RULE \
    "an issuer is a URL that begins with https:// and a host in small letters, without blanks, query or fragment"
bool issuer_url_is_valid(const char *url);

/** Reads the key set. ERROR_INVALID if the record or the set breaks a rule, or no key is usable; ERROR_NO_MEMORY. */
RESULT issuer_new(const struct issuer_record *record, struct issuer **issuer_out, struct error *err);
/** Reads a new key set and puts it in place of the old; on failure the old one stays. Thread-safe. */
RESULT issuer_replace_keys(struct issuer *issuer, const char *jwks, struct error *err);
/** The record without `jwks`, which is NULL. */
const struct issuer_record *issuer_record_of(const struct issuer *issuer);
/** First half of the SHA-256 of the URL, in hex: stands for it inside our own tokens. */
const char *issuer_digest(const struct issuer *issuer);

/**
 * Does the token that passed the gate fit this issuer (alg, typ, kid), and is its signature one of the issuer's? With
 * `is_late` also when its exp has passed.
 * ERROR_DENIED with what is wrong if not; ERROR_NO_MEMORY. Thread-safe.
 */
RESULT issuer_verify(const struct issuer *issuer, const struct gate_token *token, bool is_late, struct error *err);
/** Names the key that would verify this token, never the same for two keys; 0 if there is none. For caches. */
uint64_t issuer_key_serial(const struct issuer *issuer, const struct gate_token *token);

void issuer_free(struct issuer *issuer);
DEFINE_OWNED(issuer);
