/*
 * keyd/key_register_format.h -- the file of the register of keys (keyd/key_register.h), in memory and as bytes.
 *
 * A copy: "SJKR" | u8 8 | u64 generation | 13 times, of signing keys, runners, trust rules, sinks, detection rules, legal holds, roles of groups, persons, SCIM services, broken glasses, roles, officers and restrictions: u64 epoch, digest[32] before,
 * u64 epoch, digest[32] now | u32 entries | 16,384 times: name[32], owner[32], u64 event, u8 flags, organisation[6], u32 end | HMAC-SHA256[32]; zeros up to the
 * copy's size. The flags: 1 if withdrawn; 4 if it has replaced earlier versions; 2 if the entry has a version: then the owner is equal to the name, and in its place are 24 zeros and u64 version. The
 * name is the thumbprint of a key, or the SHA-256 of the owner. The organisation is the beginning of the SHA-256 of its name; zeros: the registry. The
 * end is that of the document, in hours since 1970, rounded up; 0: it is not known, or never comes. Version 7 had no restrictions. Version 6 had neither roles nor officers. Version 5 had no broken glasses. Version 4 had neither persons nor SCIM services. Version 3 had three kinds, and no versions of rules. Version 2
 * had the name as 43 letters, and neither organisation nor end. Version 1 had no pins and no entries of trust rules either.
 */
#pragma once

#include "crypto/ecdsa.h"
#include "documents/format/document.h"
#include "journal/journal.h"
#include "keyd/key_register.h"
#include "keyd/ledger.h"

enum {
    KEY_REGISTER_KINDS = 13,
    KEY_REGISTER_SEVENTH_KINDS = 12,
    KEY_REGISTER_SIXTH_KINDS = 10,
    KEY_REGISTER_FIFTH_KINDS = 9,
    KEY_REGISTER_FOURTH_KINDS = 7,
    KEY_REGISTER_THIRD_KINDS = 3,
    KEY_REGISTER_FIRST_KINDS = 2
}; /* SEVENTH, SIXTH, FIFTH, FOURTH, THIRD, FIRST: of versions 7, 6, 5, 4, 3 and 1 */
extern const enum document_kind key_register_kinds[KEY_REGISTER_KINDS];

#define KEY_REGISTER_HOUR_MS INT64_C(3600000)

/* In place of an event that is lost (keyd/recovery.h): another event has its number now. */
#define KEY_REGISTER_NO_EVENT UINT64_MAX

struct key_register_entry {
    char name[ECDSA_THUMBPRINT_SIZE];
    uint8_t owner
        [DOCUMENT_DIGEST_SIZE]; /* SHA-256 of "robot:ID", "ext:DIGEST", "runner:ID", "rule:SCOPE:ID", or for other kinds "KIND:SCOPE:ID" */
    uint64_t
        version; /* the highest that was pinned, also of a withdrawal. 0: of a key; or not known, because an earlier keyd pinned it */
    uint64_t sequence; /* of the event that enrolled it; of its withdrawal if nobody had enrolled it; or KEY_REGISTER_NO_EVENT */
    uint64_t organisation; /* 48 bits; 0: the registry, or not known */
    uint32_t end_hours;    /* of the document; 0: not known, or never */
    bool is_withdrawn;
    bool is_replaced; /* it stands for earlier versions, too */
};

struct key_register_state {
    bool is_of_older; /* it was read from a file of an earlier version. Not in the file */
    struct document_pin before[KEY_REGISTER_KINDS], now[KEY_REGISTER_KINDS];
    uint32_t count;
    struct key_register_entry entries[KEY_REGISTER_MAX];
};

/** Reads and writes a struct key_register_state. */
extern const struct journal_format key_register_format;
