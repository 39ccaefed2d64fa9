/*
 * policy/set.h -- the signed policy set: policies, regions, groups, networks, exceptions and declassifications
 * (docs/policies.md).
 *
 * A set is valid only if the approver that sijil-keyd has pinned signed it, and (epoch, digest) are those that
 * sijil-keyd has pinned. It is transferred as a DSSE envelope whose payload is canonical JSON.
 */
#pragma once

#include <sys/socket.h>

#include "base/uuid.h"
#include "crypto/ecdsa.h"
#include "policy/document.h"
#include "policy/target.h"

#define POLICY_SET_TYPE         "application/vnd.sijil.policy-set.v1+json"
#define POLICY_SET_BYTES_MAX    (1024 * 1024)              /* of the payload: room for 64 policies of 6 KiB and 1000 regions */
#define POLICY_SET_ENVELOPE_MAX (2 * POLICY_SET_BYTES_MAX) /* base64 of it, and signatures */

struct policy_set;

/** The parts of a set; JSON as in docs/policies.md. NULL is an empty part. Borrowed. */
struct policy_set_parts {
    uint64_t epoch;     /* from 1; larger than that of any set before */
    json_t *policies;   /* array of policy documents */
    json_t *regions;    /* {"azure/uaenorth": facts} */
    json_t *groups;     /* {"GCC": group} */
    json_t *networks;   /* [{"cidr": "10.1.0.0/16", "facts": facts}]; in the place of cidr an authority or a listener */
    json_t *exceptions; /* array */
    json_t *
        declassified; /* array [{"policy": id, "scope": patterns, "reason": text, "evidence": digest}]; NULL: the set lacks the member */
    json_t *root;     /* how many persons must sign from then on (documents/format/set_approval.h); NULL: as many as now */
    json_t *approval; /* what its signers agree to; NULL: the root signs alone */
};
/** Whether this is the name of a member of a policy set. The signer must refuse unknown members, not drop them. */
bool policy_set_has_member(const char *name);
/** Checks all parts as policy_set_read() will, and appends the payload to be signed. ERROR_INVALID, ERROR_LIMIT. */
RESULT policy_set_compose(const struct policy_set_parts *parts, struct buffer *payload, struct error *err);
/** Appends the envelope. The payload is compiled first, so a set that can't be loaded is never signed. */
RESULT policy_set_sign(struct bytes payload, const struct ecdsa_key *signer, struct buffer *envelope, struct error *err);
/** Checks signature, form and digest, and compiles. ERROR_DENIED for another signer, ERROR_INVALID, ERROR_LIMIT. */
RESULT policy_set_read(struct bytes envelope, const struct ecdsa_key *approver, struct policy_set **set_out, struct error *err);
/**
 * As policy_set_read() with the root's key, but a set that several persons sign needs no signature of the root. For a caller that compares epoch
 * and digest with what sijil-keyd has pinned or signed, because sijil-keyd counts these persons.
 */
RESULT policy_set_read_named(struct bytes envelope, const struct ecdsa_key *root, struct policy_set **set_out, struct error *err);
/** Whether the set says what its signers agree to, so that several persons may sign it. */
bool policy_set_has_approval(const struct policy_set *set);
/** The whole payload. Borrowed. */
/** Whether the signature of the root is not all that counts: others sign the set, or its exceptions name persons that must have signed. */
bool policy_set_names_others(const struct policy_set *set);
const json_t *policy_set_json(const struct policy_set *set);
/** Compiles a payload without its signature: before it is signed, and in tests. */
RESULT policy_set_compile(struct bytes payload, struct policy_set **set_out, struct error *err);

/**
 * Whether all that `set` declassifies, and `before` (NULL: none) does not, names its evidence: the digest of a file with the grounds. Sets that are older than
 * this member have none, and what they declassify stays as it is. ERROR_INVALID.
 */
RESULT policy_set_check_evidence(const struct policy_set *set, const struct policy_set *before, struct error *err)
    __attribute__((nonnull(1, 3)));
/** The bytes that policy_set_read() has read; empty for a set that was compiled from its document. A view. */
struct bytes policy_set_envelope(const struct policy_set *set);
uint64_t policy_set_epoch(const struct policy_set *set);
/** "sha256:..." of the payload without its members "digest" and "approval". */
const char *policy_set_digest(const struct policy_set *set);
/**
 * For the set in force: no event of the log before this number loads a newer set. 0 until policy_set_load() has
 * looked; only it raises the number.
 */
uint64_t policy_set_checked_until(const struct policy_set *set);
void policy_set_note_checked(struct policy_set *set, uint64_t until);
const struct policy_documents *policy_set_documents(const struct policy_set *set);
const struct policy_groups *policy_set_groups(const struct policy_set *set);
/**
 * Facts of a region at a time; NULL if it is not in the catalogue. Once an attested attribute has expired, nothing is known of its attributes, so rules
 * that ask for one deny.
 */
const struct policy_target *policy_set_region(const struct policy_set *set, const char *region, int64_t now_us);
/**
 * "attested:local/dxb" is the place of an attested runner in the region local/dxb, for policy_set_region(): the facts of the region, with the assurance 4.
 * No region has such a name. What a set itself states of the assurance of a region is about other machines there.
 */
#define POLICY_ATTESTED_MARK "attested:"
#define POLICY_ATTESTED_SIZE (sizeof POLICY_ATTESTED_MARK + 63) /* with a region's name */
/** The first moment at which an attested attribute of a region has expired, in microseconds since 1970; 0: none ever does. */
int64_t policy_set_attested_until(const struct policy_set *set);
/** The whole record of a region, as signed. NULL: the set lacks the region. Borrowed. */
const json_t *policy_set_region_record(const struct policy_set *set, const char *region);
/** The member `store` of a region: which store it is (docs/regions.md). NULL: the set does not say, or lacks the region. Borrowed. */
const json_t *policy_set_region_store(const struct policy_set *set, const char *region);
/** The thumbprint of the key of the region's own sijil-keyd (docs/region-keyd.md). NULL: it has none. Borrowed. */
const char *policy_set_region_keyd(const struct policy_set *set, const char *region);
/** What the set says of the region's keys: "ring", "geo", "control". May be NULL. Borrowed. */
const json_t *policy_set_region_key(const struct policy_set *set, const char *region);
/** What the signed record of a runner says of where a run is. */
enum policy_runner {
    POLICY_RUNNER_NONE,     /* nobody has the run yet, or it is no runner */
    POLICY_RUNNER_ENROLLED, /* in its region, not more */
    POLICY_RUNNER_ATTESTED, /* its record has an attestation, and the connection comes from one of the networks that this names */
    POLICY_RUNNER_ELSEWHERE, /* its record has an attestation, and the connection comes from somewhere else */
};
/** How a client has come. NULL: not known, or none. */
struct policy_client {
    const struct sockaddr *address;
    const char *
        authorities; /* of tls_client_ca, that the client's certificate leads to: "sha256:..." of each one's, with spaces between */
    const char *listener; /* name of the gateway's port that it has come to */
    enum policy_runner runner;
};
#define POLICY_PLACE_SIZE 96 /* "authority:sha256:..." */
/**
 * Facts of a client, and the name of what they are from: the network with the longest prefix ("10.1.0.0/16"), its listener ("listener:ae") or an authority
 * of its certificate ("authority:sha256:..."). Of several the one with the lowest assurance. NULL: the set has none of them.
 */
const struct policy_target *policy_set_client(const struct policy_set *set, const struct policy_client *client,
                                              const char **name_out);
/** Whether the set has the place of an authority. */
bool policy_set_places_authorities(const struct policy_set *set);
/**
 * Facts of a run's runner in `region`, and their name: "attested:REGION" if it is attested and nothing that the set says about its connection names another
 * place; a runner without an attestation: the region. Otherwise the less certain of the region and of policy_set_client(). NULL: nothing is known.
 */
const struct policy_target *policy_set_runner(const struct policy_set *set, const char *region,
                                              const struct policy_client *client, int64_t now_us, const char **name_out);
/** For a name that policy_set_runner() has given. NULL: the set has none such. */
const struct policy_target *policy_set_runner_named(const struct policy_set *set, const char *name, int64_t now_us);
/** A target without any known fact. */
const struct policy_target *policy_set_unknown(const struct policy_set *set);
/** The exceptions of one project, in the order that facts need. */
const struct policy_exception *const *policy_set_exceptions(const struct policy_set *set, const struct uuid *project,
                                                            size_t *count_out);

/**
 * Whether the set declassifies the repository `name` for the policy of this id. Then labels that the policy left there
 * are ignored.
 */
bool policy_set_declassifies(const struct policy_set *set, const char *policy, const char *name);

/** The catalogue, sorted by name. */
size_t policy_set_region_count(const struct policy_set *set);
const char *policy_set_region_name(const struct policy_set *set, size_t index);

/** Appends {"digest", "epoch", "policies": [{"digest", "id", "review_by", "version"}]} as canonical JSON, for the API. */
RESULT policy_set_describe(const struct policy_set *set, struct buffer *json, struct error *err);

/** Appends the signed set without signature, "root" and "approval", as canonical JSON: a person can change it and sign it again. */
RESULT policy_set_write(const struct policy_set *set, struct buffer *json, struct error *err);

/**
 * The regions of the catalogue that would be allowed, for explanations: evaluates `facts` with each region as its
 * target, for the strongest client there (assurance 4, the same controller). `allowed_out` has room for
 * policy_set_region_count() names, in the order of the catalogue. ERROR_NO_MEMORY, ERROR_LIMIT.
 */
struct policy_facts;
RESULT policy_set_allowed_regions(const struct policy_set *set, const struct policy_facts *facts, const char **allowed_out,
                                  size_t *count_out, struct error *err);

/** Adds an owner. */
struct policy_set *policy_set_keep(struct policy_set *set);
/** Removes an owner; the last one frees the set. */
void policy_set_free(struct policy_set *set);
DEFINE_OWNED(policy_set);

/** The first policy set of a registry on a single machine. */
struct policy_default_options {
    uint64_t epoch;            /* 1 */
    const char *region;        /* "local/main" */
    const char *geo;           /* "AE", "AE/DU"; NULL: "AE" */
    const char *operator_name; /* operator of the machine; NULL: "operator" */
    int64_t now_ms;            /* the policy is in force from a day before, and due for review a year later */
    const char *network;       /* "10.1.0.0/16": clients with proof that they are where the region is; NULL: none */
};
/**
 * Appends the payload: one policy for all names ("**"). It labels everything `confidential` and permits up to
 * `sensitive` in regions inside the UAE. Health data and its keys stay inside the State under the customer's control;
 * only clients with proof that they are there may read it.
 */
RESULT policy_default_set(const struct policy_default_options *options, struct buffer *payload, struct error *err);
