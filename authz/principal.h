/*
 * authz/principal.h -- who is asking, as far as a checked credential says.
 *
 * A principal is only an upper bound: what it may do is decided anew for each request from live bindings.
 */
#pragma once

#include "base/bytes.h"
#include "base/uuid.h"

enum principal_kind {
    PRINCIPAL_NONE,     /* no credential: challenged */
    PRINCIPAL_ROBOT,    /* `id` is the robot */
    PRINCIPAL_EXTERNAL, /* a trusted issuer's subject */
    PRINCIPAL_SYSTEM    /* the server's own jobs */
};

/** What a registry token was minted for; a request outside it is 401 insufficient_scope. */
struct principal_access {
    char name[256];
    struct uuid repository; /* nil: did not exist when the token was made */
    bool pull, push, remove;
};
#define PRINCIPAL_ACCESS_MAX 16

struct principal {
    enum principal_kind kind;
    struct uuid id;           /* of the robot */
    struct uuid organisation; /* of the robot; nil: it is the registry's own, or no robot */
    char issuer[256];         /* "" for robots of this registry */
    char subject[256];        /* "robot$acme+ci", or the issuer's sub */
    char source[80];          /* id of the credential behind the token: revoking it ends sessions too */
    char confirmation[44];    /* x5t#S256 that the token is bound to, or "" */
    int64_t expires_ms;       /* of the credential; wall clock */
    int64_t replaced_ms;      /* of a robot: when its last secret was replaced, as known when this was checked; -1: by that secret */
    bool is_limited;          /* a token: only `access`, `catalog`, `administration` below; else (Basic) all */
    bool catalog, administration;
    size_t access_count;
    struct principal_access access[PRINCIPAL_ACCESS_MAX];
};
