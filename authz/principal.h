/*
 * authz/principal.h -- the authenticated caller of a request.
 *
 * A principal is only an upper bound: each request is decided again from live bindings.
 */
#pragma once

#include "base/bytes.h"
#include "base/uuid.h"
#include "crypto/digest.h"

enum principal_kind {
    PRINCIPAL_NONE,     /* no credential: challenged */
    PRINCIPAL_ROBOT,    /* `id` is the robot */
    PRINCIPAL_EXTERNAL, /* a trusted issuer's subject */
    PRINCIPAL_SYSTEM,   /* the server's own jobs */
    PRINCIPAL_RUNNER,   /* `id` is the runner; its document was in force when it was authenticated */
    PRINCIPAL_RUN       /* `id` is the run; its runner holds the lease that `source` names (authz/run_token.h) */
};

/** One repository in the scope of a registry token; a request outside the scope is 401 insufficient_scope. */
struct principal_access {
    char name[256];
    struct uuid repository; /* nil: it did not exist when the token was minted */
    bool pull, push, remove;
};
#define PRINCIPAL_ACCESS_MAX  16
#define PRINCIPAL_ACR_SIZE    128
#define PRINCIPAL_CLIENT_SIZE 128
#define PRINCIPAL_TOKEN_SIZE  64 /* an id of a request (36), a dot, and 22 characters: keyd/token.c */

struct principal {
    enum principal_kind kind;
    struct uuid id;                   /* of the robot, the runner or the run */
    struct uuid organisation;         /* of the same; nil: it belongs to the registry, or the principal is another one */
    char issuer[256];                 /* "" for robots of this registry */
    char subject[256];                /* "robot$acme+ci", or the issuer's sub */
    char source[80];                  /* id of the credential behind the token; when that is revoked, upload sessions end too */
    char token[PRINCIPAL_TOKEN_SIZE]; /* id of the token of ours that it came with; "" without one */
    char confirmation[44];            /* x5t#S256 that the token is bound to, or "" */
    bool is_key_bound;                /* the token is bound to the key of a proof, which came with the request */
    bool is_joining; /* a token at /token: the event of what is minted for it joins its subject with an active person of SCIM */
    unsigned lifetime_s;          /* of the token, from iat to exp; 0: the credential is no token */
    char acr[PRINCIPAL_ACR_SIZE]; /* how the person logged in, as the issuer says it; "" if it says nothing */
    char client
        [PRINCIPAL_CLIENT_SIZE]; /* of the issuer, by which the person logged in; "" if it says nothing, or in a token of ours */
    int64_t auth_time_s;         /* when; 0 if the issuer does not say */
    int64_t expires_ms;          /* of the credential; wall clock */
    int64_t replaced_ms; /* of a robot: when its secret was last replaced, as known at authentication; -1: it used the replaced
                                 secret */
    bool is_limited;     /* a token of ours: its rights are limited to `access`, `catalog` and `administration` below */
    bool catalog, administration;
    size_t access_count;
    struct principal_access access[PRINCIPAL_ACCESS_MAX]; /* of a run: what its order allows this one request */
    char content[DIGEST_TEXT_SIZE];                       /* of a run: the only digest that this request may read; "": none */
};
