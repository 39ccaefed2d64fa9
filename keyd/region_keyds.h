/*
 * keyd/region_keyds.h -- which regions have a sijil-keyd of their own, as the policy sets name them that the main one has pinned (docs/region-keyd.md). So no gateway makes it say that
 * the version of a key is destroyed which another one holds.
 *
 * The file `region-keyds` in keyd's folder is a journal (journal/journal.h) under the ledger's key. A copy: "SJRK" | u8 1 | u64 generation | u64 epoch, digest[32] of the set before,
 * u64 epoch, digest[32] of the set now, which were noted | u8 1 if it is full | u32 count | for each: SHA-256[32] of the region's name, thumbprint[32] of the key that a set named last |
 * HMAC-SHA256[32]; zeros to the end of the block.
 *
 * Rule: a region that a set has named once stays here. Of no region the file says that it has none unless the set in force was noted: a file that is missing, or older than the ledger,
 * waits until a gateway shows that set. Thread-safe.
 */
#pragma once

#include "base/owned.h"
#include "crypto/ecdsa.h"
#include "documents/format/document.h"
#include "journal/journal.h"
#include "keyd/ledger.h"

#define REGION_KEYDS_FILE "region-keyds"
#define REGION_KEYDS_MAX  1024 /* of all sets that ever were; 64 KiB in memory */

struct region_keyds;

/** A folder without the file gets one. ERROR_CORRUPT: the file is damaged; ERROR_CONFLICT: another process has it open. */
RESULT region_keyds_open(int directory, const uint8_t key[JOURNAL_KEY_SIZE], struct region_keyds **keyds_out, struct error *err);
/** Notes the regions of a set that is about to be pinned. Durable on return. ERROR_UNAVAILABLE: the file can't be written. */
RESULT region_keyds_note(struct region_keyds *keyds, const struct document *set, struct error *err);
/** The same for the set in force. No signature is looked at: ERROR_DENIED unless the ledger has pinned exactly this set; ERROR_INVALID: it is no set. */
RESULT region_keyds_show(struct region_keyds *keyds, struct ledger *ledger, struct bytes envelope, struct error *err);
/**
 * Whether all keys of the region are with the main one. ERROR_DENIED: a set has named another one, or the file is full and does not have the region. ERROR_CONFLICT: the set in force was
 * not noted; show it first.
 */
RESULT region_keyds_check(struct region_keyds *keyds, struct ledger *ledger, const char *region, struct error *err);
/** The thumbprint that a set named last for the region; "": none did. */
void region_keyds_name(struct region_keyds *keyds, const char *region, char thumbprint_out[ECDSA_THUMBPRINT_SIZE]);
/** Whether a write has failed. */
bool region_keyds_are_broken(const struct region_keyds *keyds);
void region_keyds_free(struct region_keyds *keyds);
DEFINE_OWNED(region_keyds);
