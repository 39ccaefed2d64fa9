/*
 * keyd/region.h -- the sijil-keyd of a region: it has the key-encryption keys of one region and a pin of the policy set, and does nothing else
 * (docs/region-keyd.md).
 *
 * The rule: its key ring says of which region it is, so no option and no message makes it another one. It opens a key only while the main sijil-keyd has
 * said within the last ten minutes which policy set is in force, and never takes a statement about an older set than it has seen. Its ledger has as
 * `approver` the key of the main one, and as the first pin the set of the newest statement; nothing else of the ledger is used but the unwraps and the
 * versions.
 */
#pragma once

#include "crypto/keyd_protocol.h"
#include "crypto/keyd_region.h"
#include "keyd/keyring.h"
#include "keyd/ledger.h"

struct region_keyd;

struct region_keyd_options {
    const char *ring, *geo, *control; /* what its operator says of it; NULL: nothing */
    unsigned patience_s;              /* 0: KEYD_CURRENT_S */
};

/** Appends the origin of the key ring of a region's sijil-keyd, or of the main one (`region` NULL). ERROR_INVALID: no origin, or no name of a region. */
RESULT region_keyd_origin(const char *origin, const char *region, struct buffer *text, struct error *err);
/** The region of a key ring; NULL: it is the one of the registry. A view. */
const char *region_keyd_of(const struct keyring *keyring);
/** Whose statements count, from now on, also over others that were taken before: the pin of the policy set begins anew. For the operator alone. */
RESULT region_keyd_trust(struct ledger *ledger, const struct ecdsa_key *main_key, struct error *err);

/**
 * *region_out is NULL for the key ring of a registry. ERROR_INVALID: an option is too long, or is given for such a key ring. ERROR_DENIED: there is no key of a main
 * sijil-keyd yet. Key ring and ledger are borrowed. Thread-safe.
 */
RESULT region_keyd_new(const struct keyring *keyring, struct ledger *ledger, const struct region_keyd_options *options,
                       struct region_keyd **region_out, struct error *err);
void region_keyd_free(struct region_keyd *region);
DEFINE_OWNED(region_keyd);

/** Whether it may answer. `region` NULL: the main one, which takes no message to those of regions. ERROR_DENIED; ERROR_UNAVAILABLE without a statement. */
RESULT region_keyd_check(struct region_keyd *region, const struct keyd_request *request, struct error *err);
/** ERROR_DENIED: not signed by the main one, of another registry, not of the last minutes, or about an older or another set. The pin is durable on return. */
RESULT region_keyd_take(struct region_keyd *region, struct bytes envelope, int64_t now_ms, struct document_pin *pin_out,
                        struct error *err);
/** Appends the signed statement about itself. */
RESULT region_keyd_place(struct region_keyd *region, const uint8_t nonce[32], int64_t now_ms, struct buffer *envelope,
                         struct error *err);

/** Of the main one: appends the signed statement about the set that is pinned. Within CURRENT_EVERY_MS it says the same. */
#define CURRENT_EVERY_MS 2000
RESULT current_sign(const struct keyring *keyring, struct ledger *ledger, int64_t now_ms, struct buffer *envelope,
                    struct error *err);
