/*
 * keyd/policy_ids.h -- the ids of all policies that sets had which keyd has pinned. An added policy may set content free that is pinned to its id, so
 * whether a set only restricts depends on whether an earlier set had the id (docs/decisions/0141).
 *
 * The file `policy-ids` in keyd's folder is a journal (journal/journal.h) under the ledger's key. A copy: "SJPI" | u8 1 | u64 generation | u8 1 if it
 * is complete | u64 the highest epoch that was noted | u32 count | for each: SHA-256[32] of the id, digest[32] of the first set that had it | HMAC-SHA256[32];
 * zeros to the end of the block.
 *
 * Rule: no id counts as unused unless the file has known all sets from the first one on. So a file that is missing, older than the ledger, full, or made
 * when a set was pinned already says of no id that it is unused, and more persons must sign. Thread-safe.
 */
#pragma once

#include "base/owned.h"
#include "documents/format/set_change.h"
#include "journal/journal.h"
#include "keyd/ledger.h"

#define POLICY_IDS_FILE "policy-ids"
#define POLICY_IDS_MAX  4096 /* 256 KiB in memory; a registry with one new policy each day has them in eleven years */

struct policy_ids;

/** A folder without the file gets one. ERROR_CORRUPT: the file is damaged; ERROR_CONFLICT: another process has it open. */
RESULT policy_ids_open(int directory, const uint8_t key[JOURNAL_KEY_SIZE], struct ledger *ledger, struct policy_ids **ids_out,
                       struct error *err);
/** Notes the ids of a set that is about to be pinned. Durable on return. ERROR_UNAVAILABLE: the file can't be written. */
RESULT policy_ids_note(struct policy_ids *ids, const struct keyd_policy_ids *of, uint64_t epoch, struct error *err);
/** A bit for each id that no set had before the one with the digest of `of`. */
uint64_t policy_ids_unused(struct policy_ids *ids, const struct keyd_policy_ids *of);
/** Whether a write has failed. */
bool policy_ids_is_broken(const struct policy_ids *ids);
void policy_ids_free(struct policy_ids *ids);
DEFINE_OWNED(policy_ids);
