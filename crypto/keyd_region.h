/*
 * crypto/keyd_region.h -- the sijil-keyd of a region, which has the key-encryption keys of that region and a pin of the policy set, and nothing else
 * (docs/region-keyd.md).
 *
 * The rule: keys of a region that has a sijil-keyd of its own never go to the main one. keyd_wrap(), keyd_unwrap() and keyd_rewrap() choose by the region
 * of the scope; while that sijil-keyd is not known to be the right one, they are ERROR_UNAVAILABLE.
 */
#pragma once

#include "crypto/ecdsa.h"
#include "crypto/keyd_client.h"

#define KEYD_REGIONS_MAX    32  /* as many as a gateway serves (registry/registry.h) */
#define KEYD_CURRENT_S      600 /* a region's sijil-keyd without a statement as young as this one opens no key */
#define KEYD_FACT_SIZE      64  /* a text about where a sijil-keyd is, and '\0' */
#define KEYD_REGION_REFUSED "SYS-NOT-CURRENT: the sijil-keyd of region " /* the start of its message without such a statement */

#define KEYD_CURRENT_TYPE "application/vnd.sijil.policy-current.v1+json"
/** Which policy set is in force: said by the main sijil-keyd, of its own pin, at its own time. */
struct keyd_current {
    char origin[128]; /* of the registry's first log, by which a registry is known */
    uint64_t epoch;   /* 0: no set is pinned yet */
    uint8_t digest[DOCUMENT_DIGEST_SIZE];
    int64_t at_ms; /* wall time */
};
RESULT keyd_current_write(const struct keyd_current *current, struct buffer *payload, struct error *err);
/** ERROR_INVALID unless keyd_current_write() could have written it. */
RESULT keyd_current_read(struct bytes payload, struct keyd_current *current_out, struct error *err);

#define KEYD_PLACE_TYPE "application/vnd.sijil.keyd-place.v1+json"
/** What the sijil-keyd of a region says of itself. Only who runs it knows whether the first four are so. */
struct keyd_place {
    char region[64], ring[KEYD_FACT_SIZE], geo[KEYD_FACT_SIZE], control[KEYD_FACT_SIZE]; /* the last three may be "" */
    char origin[128];                                                                    /* of the registry that it serves */
    char main_key[44]; /* thumbprint of the key whose statements it believes */
    uint8_t nonce[32]; /* of who asked */
    uint64_t epoch;    /* of the newest statement that it ever took; 0: none */
    uint8_t digest[DOCUMENT_DIGEST_SIZE];
    int64_t current_ms, at_ms;          /* time of the newest statement since its start, 0: none; now. Wall time */
    bool is_current;                    /* it opens keys */
    uint32_t key_version, unused_below; /* as in struct keyd_identity */
    uint64_t unwraps;
};
RESULT keyd_place_write(const struct keyd_place *place, struct buffer *payload, struct error *err);
/** ERROR_INVALID unless keyd_place_write() could have written it. */
RESULT keyd_place_read(struct bytes payload, struct keyd_place *place_out, struct error *err);

/** Appends the signed statement of the main sijil-keyd about the set in force: an envelope. */
RESULT keyd_ask_current(struct keyd_client *client, struct buffer *envelope, struct error *err);

/**
 * From now on keys of `region` go to the sijil-keyd at this socket ("": none that this gateway reaches), and never to the main one. It is closed until
 * keyd_region_open(), and for good if the path is too long for a socket. Again for the same region: nothing changes. ERROR_LIMIT.
 */
RESULT keyd_region_use(struct keyd_client *client, const char *region, const char *socket_path, struct error *err);
/** Keys of the region can be had, or not: `why` is for the log. The region is in use. */
void keyd_region_open(struct keyd_client *client, const char *region);
void keyd_region_close(struct keyd_client *client, const char *region, const char *why);
/** Its keys are asked of the main one again: for a region that never got a key from the other. Whether it had one. */
bool keyd_region_drop(struct keyd_client *client, const char *region);
/**
 * Asks the sijil-keyd of a region who and where it is. The answer is fresh, and signed by the key whose thumbprint key_out gets. ERROR_DENIED: it is not what it
 * says, or speaks of another region. ERROR_UNAVAILABLE: it is not reached. ERROR_NOT_FOUND: the region has none.
 */
RESULT keyd_ask_place(struct keyd_client *client, const char *region, struct keyd_place *place_out,
                      char key_out[ECDSA_THUMBPRINT_SIZE], struct error *err);
/** Gives it a statement of the main one. ERROR_DENIED: it is too old, not signed by the main one, or of an older set than it has. */
RESULT keyd_region_hand(struct keyd_client *client, const char *region, struct bytes envelope, struct document_pin *pin_out,
                        struct error *err);

/** As keyd_versions_unused(), for the versions of a region's sijil-keyd. */
RESULT keyd_region_versions_unused(struct keyd_client *client, const char *region, uint32_t version, struct error *err);

/** As keyd_certify_deletion(), for a key of a region with a sijil-keyd of its own: the main one does not know what that one holds, and says so (stage 1). It names that one if it knows the set in force. */
RESULT keyd_certify_deletion_elsewhere(struct keyd_client *client, const struct deletion_request *wanted, struct buffer *envelope,
                                       struct error *err);
/** Shows the main one the set that it has pinned, so that it knows which regions have a sijil-keyd of their own. ERROR_DENIED: that is another set. */
RESULT keyd_show_set(struct keyd_client *client, struct bytes envelope, struct error *err);
