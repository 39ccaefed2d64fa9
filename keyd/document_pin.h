/*
 * keyd/document_pin.h -- keeps the keys that may approve, and a pin for each kind of signed documents, so that no older
 * document comes into force again (documents/format/document.h).
 *
 * keyd reads and counts all signatures itself. Signatures alone do not bring a document into force: the log must also record
 * it. So a pin needs the entry of an event that names exactly these envelopes, and the proof that this entry is in the log
 * that keyd signed last. keyd trusts neither the gateway nor the database.
 */
#pragma once

#include "documents/format/document.h"
#include "documents/format/set_change.h"
#include "keyd/key_register.h"
#include "keyd/ledger.h"
#include "keyd/organisation_officers.h"
#include "keyd/organisation_restrictions.h"
#include "keyd/policy_ids.h"
#include "keyd/region_keyds.h"
#include "keyd/replacement.h"

/** Pins the root, once. The same key again is no error, another one is ERROR_DENIED. ERROR_INVALID for bytes that
 *  are not a key. */
RESULT approver_pin(struct ledger *ledger, const uint8_t public_key[ECDSA_PUBLIC_SIZE], struct error *err);

/** The keys that may approve at `now_ms`. */
void document_trust_read(struct ledger *ledger, int64_t now_ms, struct document_trust *trust_out);

/** Where pins are kept, and who knows policies. */
struct document_place {
    struct ledger *ledger;
    struct key_register *keys;
    struct policy_ids *ids;      /* NULL: no id counts as unused */
    set_change_check *check_set; /* NULL: each change of policies counts as a loosening */
    struct replacements *replacements;
    struct organisation_officers *officers;         /* NULL: no restriction is pinned */
    struct organisation_restrictions *restrictions; /* NULL: a restriction is not noted for runs */
    struct region_keyds *regions;                   /* NULL: those of sets are not noted */
};
/**
 * ERROR_DENIED: no root is pinned, too few keys that count have signed, or the epoch is not larger than the pinned one (the
 * same document again is no error), or the register of keys refuses the key. ERROR_INVALID: not a document. ERROR_LIMIT: no free slot for another approver or key.
 * ERROR_NOT_FOUND: the signed log has no such event. ERROR_CONFLICT: the proof is for another size than that of the last
 * checkpoint. The pin is durable on return.
 *
 * Events are asked for in the order of the log. A refusal of a document that is no policy set is durable too, and final: the event that was
 * refused and all earlier ones are ERROR_DENIED from then on. A later event with the same document may be pinned.
 */
RESULT document_pin(const struct document_place *place, const struct document_pin_request *request, int64_t now_ms,
                    struct document_pin *pin_out, struct error *err);

#define DOCUMENT_REPLACES "key.replace" /* the event that begins the wait of a key */
/**
 * Begins the wait of another key of a person whose keys give power (keyd/replacement.h). The document has all signatures, and the event is one that begins the wait: so everybody who reads the log
 * sees it. The errors of document_pin(), and ERROR_CONFLICT if it needs no wait. *counts_ms_out: from when on it may be pinned.
 */
RESULT document_replace(const struct replacement_place *place, const struct document_pin_request *request, int64_t now_ms,
                        int64_t *counts_ms_out, struct error *err);
