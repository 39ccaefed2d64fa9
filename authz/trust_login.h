/*
 * authz/trust_login.h -- a token of a CI system becomes the subject of a trust rule (docs/ci.md).
 *
 * Of several rules that match, the one of the highest priority counts, alone; two of the same priority are refused. A token that a rule
 * matches is accepted at /token only, so that a rule can limit how long and how often it counts.
 */
#pragma once

#include "authz/claims.h"
#include "authz/group_login.h"
#include "authz/snapshot.h"

#define TRUST_CLAIMS_SIZE 4096 /* claims of GitHub have about 1,500 bytes */
#define TRUST_SPENT_MORE_S \
    600 /* a spent token is remembered so much longer than it is valid: clocks of gateways and database differ */

/** What a rule says of the request for a token. */
struct trust_use {
    char key[TRUST_KEY_SIZE];      /* "": no rule matched */
    char digest[DIGEST_TEXT_SIZE]; /* of its document */
    unsigned ttl_max_s;
    bool single_use;
    uint8_t spent[SHA256_SIZE]; /* of the issuer, a line feed, and jti */
    int64_t spent_until_ms;
    char claims[TRUST_CLAIMS_SIZE]; /* of the token, as JSON, for the sealed part of the event; "" if they are too long */
    struct group_use groups;        /* if no rule matched */
};

struct trust_login {
    const struct authz_snapshot *snapshot;
    const json_t *payload;         /* of a token whose signature, audience and times are good */
    const struct claims *claims;   /* the same */
    const struct sockaddr *client; /* NULL: its address is not known */
    const char *thumbprint;        /* of its certificate; NULL: none */
    int64_t now_ms;
    bool is_undated; /* its issuer does not say when it made the token; `claims` has the present moment */
};
/**
 * If a rule matches, writes the rule's subject into `principal`, which is that of the issuer, and fills *use. If none does, fills use->groups.
 * `use` is NULL if the token was sent elsewhere than to /token; then a rule that matches is ERROR_DENIED. ERROR_DENIED also if two rules of one
 * priority match, or the rule demands another client.
 */
RESULT trust_login(const struct trust_login *login, struct principal *principal, struct trust_use *use, struct error *err);

/** A token of ours that a rule has made: whether the rule still counts, also for this client. ERROR_DENIED. */
struct trust_resumption {
    const struct authz_snapshot *snapshot;
    const char *key;
    const struct sockaddr *client;
    const char *thumbprint;
    int64_t now_ms;
};
RESULT trust_resume(const struct trust_resumption *resumption, struct error *err);

/** Whether a rule of another organisation that gives a role takes tokens that `rule`, in this scope, would take, too. */
bool trust_rule_meets_another(const struct authz_snapshot *snapshot, const struct trust_rule *rule, const char *scope,
                              int64_t now_ms);

/** Whether a principal is the subject of a trust rule. */
bool trust_is_rule(const struct principal *principal);
/** Whether the rule behind such a principal is in force, and its issuer trusted. */
bool trust_rule_is_live(const struct authz_snapshot *snapshot, const char *key, int64_t now_ms);
