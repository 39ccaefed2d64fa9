/*
 * authz/scim_entry.h -- the SCIM services that have documents (docs/scim.md), as a list of trust rules has them, and what they decide.
 *
 * The document names an issuer and a robot. The robot may provision while the document is in force. Persons of the issuer come in only if they are provisioned and
 * active, also after the document has expired: only a withdrawal ends that. A person that was deactivated stays out in any case.
 */
#pragma once

#include "authz/claims.h"
#include "authz/scim_persons.h"
#include "authz/snapshot.h"
#include "authz/trust_rules.h"
#include "documents/format/scim_service.h"

#define SCIM_ENTRIES_MAX       8   /* documents that were not withdrawn */
#define SCIM_SERVICE_TEXT_SIZE 256 /* of an externalId, which is a subject or another claim */

struct scim_entry {
    char name[SCIM_SERVICE_NAME_MAX + 1];
    struct pinned_entry pinned;
    struct scim_service service; /* views into pinned.json */
};

size_t scim_entries_count(const struct trust_rules *rules);
const struct scim_entry *scim_entries_at(const struct trust_rules *rules, size_t number);
/** The one in force of this issuer; NULL: none. */
const struct scim_entry *scim_entry_of_issuer(const struct trust_rules *rules, const char *issuer, int64_t now_ms);
/** The one in force that names this principal as its client; NULL: none. */
const struct scim_entry *scim_entry_of_client(const struct trust_rules *rules, const struct principal *principal, int64_t now_ms);
/** Whether one that has not expired names it, also one that begins later. Nobody but who made the robot has seen its secret then. */
bool scim_entry_names(const struct trust_rules *rules, const struct principal *principal, int64_t now_ms);

/** Whether a subject of an issuer may come in, as far as SCIM decides that. */
bool scim_admits(const struct authz_snapshot *snapshot, const char *issuer, const char *subject, int64_t now_ms);

/** A token whose signature, audience and times are good. */
struct scim_login {
    const struct authz_snapshot *snapshot;
    const json_t *payload;
    const struct claims *claims;
    int64_t now_ms;
    bool is_at_token; /* else it is ERROR_DENIED if a service has its issuer: only there a token is joined with its person */
};
/**
 * Whose token it is: writes its externalId if the token must be joined with the person first (scim_link_init()), else "". ERROR_DENIED: the person is not
 * provisioned or not active, or the subject belongs to another person.
 */
RESULT scim_login(const struct scim_login *login, char external_id_out[SCIM_SERVICE_TEXT_SIZE], struct error *err);
