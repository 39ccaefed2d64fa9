/*
 * policy/set.h -- the signed set of everything that officers decide: policies, regions, groups, networks,
 * exceptions, what is declassified (docs/policies.md).
 *
 * A set counts only when its signature is by the approver that keyd has pinned and (epoch, digest) are those that
 * keyd has pinned. It travels as a DSSE envelope whose payload is canonical JSON.
 */
#pragma once

#include <sys/socket.h>

#include "base/uuid.h"
#include "crypto/ecdsa.h"
#include "policy/document.h"
#include "policy/target.h"

#define POLICY_SET_TYPE      "application/vnd.sijil.policy-set.v1+json"
#define POLICY_SET_BYTES_MAX (1024 * 1024) /* of the payload: 64 policies of 6 KiB and 1000 regions have room */
#define POLICY_SET_ENVELOPE_MAX (2 * POLICY_SET_BYTES_MAX) /* base64 of it, and signatures */

struct policy_set;

/** What a set is made of; JSON as in docs/policies.md. NULL is an empty one. Borrowed. */
struct policy_set_parts {
    uint64_t epoch;      /* larger than any before; from 1 */
    json_t *policies;    /* array of policy documents */
    json_t *regions;     /* {"azure/uaenorth": facts} */
    json_t *groups;      /* {"GCC": group} */
    json_t *networks;    /* [{"cidr": "10.1.0.0/16", "facts": facts}] */
    json_t *exceptions;  /* array */
    json_t *declassified; /* array [{"policy": id, "scope": patterns, "reason": text}]; NULL: not in the set at all */
};
/** Is that a member of a policy set? What is not must not be signed away in silence. */
bool policy_set_has_member(const char *name);
/** Checks all parts as policy_set_read() will, and appends the payload to be signed. ERROR_INVALID, ERROR_LIMIT. */
RESULT policy_set_compose(const struct policy_set_parts *parts, struct buffer *payload, struct error *err);
/** Appends the envelope. The payload is checked first: nothing is signed that could not be loaded. */
RESULT policy_set_sign(struct bytes payload, const struct ecdsa_key *signer, struct buffer *envelope,
                       struct error *err);
/** Checks signature, form and digest, and compiles. ERROR_DENIED for another signer, ERROR_INVALID, ERROR_LIMIT. */
RESULT policy_set_read(struct bytes envelope, const struct ecdsa_key *approver, struct policy_set **set_out,
                       struct error *err);
/** Compiles a payload whose signature does not matter: what is about to be signed, tests. */
RESULT policy_set_compile(struct bytes payload, struct policy_set **set_out, struct error *err);

uint64_t policy_set_epoch(const struct policy_set *set);
/** "sha256:..." of the payload without its member "digest". */
const char *policy_set_digest(const struct policy_set *set);
/**
 * Of the set in force: no event of the log before this number loads a set that is newer. 0 until policy_set_load() has looked; it
 * alone notes more.
 */
uint64_t policy_set_judged_until(const struct policy_set *set);
void policy_set_note_judged(struct policy_set *set, uint64_t until);
const struct policy_documents *policy_set_documents(const struct policy_set *set);
const struct policy_groups *policy_set_groups(const struct policy_set *set);
/** Facts of a region; NULL when the catalogue does not have it. */
const struct target *policy_set_region(const struct policy_set *set, const char *region);
/** Facts of the network with the longest prefix that holds `address`, and its name ("10.1.0.0/16"); NULL if none. */
const struct target *policy_set_network(const struct policy_set *set, const struct sockaddr *address,
                                        const char **name_out);
/** A target of which nothing is known. */
const struct target *policy_set_unknown(const struct policy_set *set);
/** The exceptions of one project, sorted as facts want them. */
const struct policy_exception *const *policy_set_exceptions(const struct policy_set *set, const struct uuid *project,
                                                            size_t *count_out);

/** May what was stored in the repository `name` under the policy of that id be taken for never labelled by it? */
bool policy_set_declassifies(const struct policy_set *set, const char *policy, const char *name);

/** The catalogue, sorted by name. */
size_t policy_set_region_count(const struct policy_set *set);
const char *policy_set_region_name(const struct policy_set *set, size_t index);

/** Appends {"digest", "epoch", "policies": [{"digest", "id", "review_by", "version"}]} as canonical JSON, for people. */
RESULT policy_set_describe(const struct policy_set *set, struct buffer *json, struct error *err);

/** Appends the set as it was signed, without the signature, as canonical JSON: a person reads, changes and signs it anew. */
RESULT policy_set_write(const struct policy_set *set, struct buffer *json, struct error *err);

/**
 * Which regions of the catalogue would be allowed, for explaining: `facts` with each region in turn as its target, and
 * there the strongest client (assurance 4, the same controller). `allowed_out` has room for policy_set_region_count()
 * names; their order is the catalogue's. ERROR_NO_MEMORY, ERROR_LIMIT.
 */
struct policy_facts;
RESULT policy_set_allowed_regions(const struct policy_set *set, const struct policy_facts *facts,
                                  const char **allowed_out, size_t *count_out, struct error *err);

/** One more owner. */
struct policy_set *policy_set_keep(struct policy_set *set);
/** One owner less; the last one frees it. */
void policy_set_free(struct policy_set *set);
DEFINE_OWNED(policy_set);

/** The set that a fresh single machine starts with. */
struct policy_default_options {
    uint64_t epoch;               /* 1 */
    const char *region;           /* "local/main" */
    const char *geo;              /* "AE", "AE/DU"; NULL: "AE" */
    const char *operator_name;    /* who runs the machine; NULL: "operator" */
    int64_t now_ms;               /* in force from a day before; to be reviewed a year later */
    const char *network;          /* clients that are proven to be where the region is, "10.1.0.0/16"; NULL: none */
};
/**
 * Appends the payload: one policy for everything ("**") that gives all a label of class confidential and permits up
 * to `sensitive` in regions inside the UAE; health data and its keys stay inside the State under the customer's
 * control, and are read only by clients that are proven to be there.
 */
RESULT policy_default_set(const struct policy_default_options *options, struct buffer *payload, struct error *err);
