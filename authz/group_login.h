/*
 * authz/group_login.h -- the groups that a person's token names become rows, if documents give roles to them (docs/identity.md, "Groups").
 *
 * Only a token that comes to /token tells them. It replaces what an older token told, so a person who has left a group loses its roles with the next token. Other routes
 * refuse tokens of such an issuer: there, a person could go on with the groups of an earlier token.
 */
#pragma once

#include "audit/sequencer.h"
#include "authz/claims.h"
#include "authz/group_place.h"

#define GROUP_LOGIN_MAX         64                   /* groups of one person that documents give roles */
#define GROUP_ORGANISATIONS_MAX 32                   /* whose rights alone are read again */
#define GROUP_LOGIN_MS          (24LL * 3600 * 1000) /* a row counts so long after the newest token */
#define GROUP_LOGIN_HALF        (GROUP_LOGIN_MS / 2) /* a row with less time left is written again */

/** What a token says, compared with what the snapshot has. */
struct group_use {
    bool is_new; /* the row must be written */
    char issuer[256], subject[256];
    size_t count;
    char groups[GROUP_LOGIN_MAX][GROUP_NAME_MAX + 1];
    int64_t issued_ms;
    size_t grants;             /* that the groups have */
    bool is_everywhere;        /* in more organisations than have room here */
    size_t organisation_count; /* where they have them */
    char organisations[GROUP_ORGANISATIONS_MAX][64];
    char external_id[256]; /* of SCIM: the subject must be joined with this person; "": it is, or there is no such service */
    size_t left_count;     /* organisations in which the person has roles by groups until now */
    struct uuid left[GROUP_ORGANISATIONS_MAX];
};

/** Whether the event of the token has a change. */
bool group_use_changes(const struct group_use *use);

struct group_login {
    const struct authz_snapshot *snapshot;
    const json_t *payload; /* of a token whose signature, audience and times are good */
    const struct claims *claims;
    int64_t now_ms;
    bool is_undated; /* the issuer does not say when it made the token */
};
/**
 * Finds the groups. `use` NULL: the token was sent elsewhere than to /token, which is ERROR_DENIED if groups of its issuer have roles. The same
 * for a token that is undated: an old one would seem to be the newest. ERROR_DENIED also for more than GROUP_LOGIN_MAX groups or GROUP_GRANTS_MAX grants.
 */
RESULT group_login(const struct group_login *login, struct group_use *use, struct error *err);

/** Notes that the subject is to be joined with the person of this externalId ("": nothing is noted), who has roles by the groups of SCIM then. */
void group_login_link(const struct group_login *login, const char *external_id, struct group_use *use);

/** Statements of the change below, for the sequencer. */
extern const struct pg_table group_login_table;
#define GROUP_LOGIN_TOLD "login=" /* and 32 digits: a digest of the row, in the event of the token (migrations/0187) */
#define GROUP_MINT_DETAIL_SIZE \
    (RESOURCE_DETAIL_MAX + 32 + 40 + 192) /* the scope, a number, that digest, and what SCIM_TOLD_SIZE has room for */
/**
 * For the event of a token that is made for the person, under a permit for ACTION_TOKEN_MINT: writes the row, and raises the epoch of each organisation in which the
 * person gets or loses roles. The event tells a digest of the row, and gateways believe no other row. A row of a newer token stays. The event of a token whose subject is joined with a person of SCIM tells that (docs/scim.md).
 */
struct group_mint {
    struct change change; /* points into this struct: don't copy it */
    const struct group_use *use;
    size_t length; /* of the detail without the person that the subject is joined with */
    char detail[GROUP_MINT_DETAIL_SIZE];
};
/** `scope` is the detail that the event would have otherwise. `use` must outlive the record. */
void group_mint_init(struct group_mint *mint, const struct group_use *use, const char *scope);
