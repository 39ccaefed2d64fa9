/*
 * keyd/document_pin.h -- remembers whose signatures count, and of each kind of signed documents what is in force, so that nothing older
 * ever is (documents/format/document.h).
 *
 * keyd reads every signature and counts them itself. That enough have signed does not bring a document into force: somebody must have
 * put it there, and the log must say so. So a pin comes with the entry of the event that names these very envelopes, and its inclusion
 * proof in the log as keyd has signed it last. Neither the gateway nor the database is believed.
 */
#pragma once

#include "documents/format/document.h"
#include "keyd/ledger.h"

/** The root: once only; the same key again is no error, another one ERROR_DENIED. ERROR_INVALID for bytes that are no key. */
RESULT approver_pin(struct ledger *ledger, const uint8_t public_key[ECDSA_PUBLIC_SIZE], struct error *err);

/** Whose signatures count at `now_ms`. */
void document_trust_read(struct ledger *ledger, int64_t now_ms, struct document_trust *trust_out);

/**
 * ERROR_DENIED: no root is pinned, too few keys that count have signed, or the epoch is not larger than the pinned one (the same document
 * again is no error). ERROR_INVALID: not a document. ERROR_LIMIT: no place for one more approver. ERROR_NOT_FOUND: the log that was
 * signed has no such event. ERROR_CONFLICT: the proof leads to another size than that of the last checkpoint. The pin is durable on return.
 */
RESULT document_pin(struct ledger *ledger, const struct document_pin_request *request, int64_t now_ms, struct document_pin *pin_out,
                    struct error *err);
