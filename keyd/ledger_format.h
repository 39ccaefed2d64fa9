/*
 * keyd/ledger_format.h -- the bytes of one copy of the ledger, with the header and HMAC of every journal (journal/journal.h).
 *
 * "SJKL" | u8 9 | u64 sequence | u64 log size | root[32] | u64 policy epoch | digest[32] | approver[65] | u64 unwraps |
 * chain[32] | u32 unused versions | u64 tokens by scope[6] | u64 lost | u64 reserved | 64 times: credential[16], u64 tokens |
 * finding[128], zeros behind it | 15 times, of kinds 2 to 16 of signed documents: u64 epoch, digest[32] | 12 times, of
 * approvers: point[65], principal[32], u64 expires in ms, u8 1 if revoked | 16 times, of kinds 1 to 16: u64 the highest event
 * that was pinned or refused | u64 epoch, digest[32] of the policy of witnesses | u32 number of the log, u8 place of its first key | u8 policies, u8 root, u8 officers: the numbers of persons
 * that must sign, SHA-256[32] of the principal that has the root's key | HMAC-SHA256[32] over all bytes before it, under the ledger key; zeros up to LEDGER_COPY_SIZE.
 *
 * Older formats are read and never written. Format 8 ends with the number of the log, format 7 ends with the policy of witnesses, and is of the first log; format 6 ends with these events, format 5 ends with the approvers, format 4 with the finding, format 3 before the
 * finding. Format 2 ends with the unused versions, format 1 before them.
 */
#pragma once

#include "journal/journal.h"
#include "keyd/ledger.h"

#define LEDGER_APPROVER_SIZE (ECDSA_PUBLIC_SIZE + DOCUMENT_DIGEST_SIZE + 9)
#define LEDGER_DOCUMENTS_SIZE \
    ((DOCUMENT_KINDS_MAX - 1) * (8 + DOCUMENT_DIGEST_SIZE) + DOCUMENT_APPROVERS_MAX * LEDGER_APPROVER_SIZE)
#define LEDGER_ASKED_SIZE     (8 * DOCUMENT_KINDS_MAX)
#define LEDGER_WITNESSES_SIZE (8 + DOCUMENT_DIGEST_SIZE)
#define LEDGER_NUMBER_SIZE    5
#define LEDGER_TERMS_SIZE     (3 + DOCUMENT_DIGEST_SIZE)
#define LEDGER_BODY_SIZE                                                                                           \
    (202 + 8 * (MINT_SCOPES + 2) + MINTERS_MAX * (MINTER_ID_SIZE + 8) + KEYD_FINDING_MAX + LEDGER_DOCUMENTS_SIZE + \
     LEDGER_ASKED_SIZE + LEDGER_WITNESSES_SIZE + LEDGER_NUMBER_SIZE + LEDGER_TERMS_SIZE)
#define LEDGER_USED_SIZE (LEDGER_BODY_SIZE + 32)

/** The format of a struct ledger_state in the journal. */
extern const struct journal_format ledger_format;
