/* authz/scim_rights_priv.h -- what changes of persons and of groups have in common, in their transactions. */
#pragma once

#include "authz/scim_user.h"

#define SCIM_PLACES_MAX 32

/** The organisations in which signed documents give roles to groups of SCIM. */
struct scim_places {
    bool is_everywhere; /* in more than have room here */
    size_t count;
    char names[SCIM_PLACES_MAX][64];
};
/** Of the group with this id or externalId; both NULL: of all groups. Adds to *places. */
void scim_places_find(const struct trust_rules *rules, const char *issuer, const char *id, const char *external_id,
                      struct scim_places *places);
/** Raises the epoch of these organisations, and of the registry if `registry` is set or nothing else was raised. */
RESULT scim_raise(struct pg *pg, const struct scim_places *places, bool registry, struct error *err);

/**
 * The service of the client by the documents that count when the change runs: of the newest snapshot, which the caller frees. ERROR_DENIED: there is none, or its
 * issuer is another one than when the request was read.
 */
RESULT scim_service_now(const struct scim_client *client, struct authz_snapshot **snapshot_out,
                        const struct scim_entry **entry_out, struct error *err);

#define SCIM_TOLD_SIZE 192 /* " person=", " as=" and " link=": audit/format/scim_state.h */
/**
 * For the change of a token's event, which will have this number: joins a subject with the person of an externalId, and gives the words by which the event tells it.
 * ERROR_CONFLICT: the person is not active, has 16 subjects, or its row is not the one that the log tells.
 */
struct scim_joining {
    const char *issuer, *subject, *external_id;
    uint64_t entry;
};
RESULT scim_join(struct pg *pg, const struct scim_joining *joining, char told_out[SCIM_TOLD_SIZE], struct error *err);
