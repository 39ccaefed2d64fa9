/*
 * audit/format/succession.h -- the statement that a log goes on under a new origin, because entries that were signed are lost
 * (docs/formats/succession.md).
 *
 * Two officers sign its text, or as many persons as the root is by the policy set; for a registry on one machine, with one administrator, the root of approvers alone. sijil-keyd checks the signatures, and takes the
 * statement for the one log that it states. A registry keeps its name; its first log has this name as origin, and the log after the n-th recovery has "NAME/N", with
 * N = n + 1. Reading a statement proves nothing.
 */
#pragma once

#include "audit/format/checkpoint.h"
#include "audit/format/merkle.h"
#include "audit/format/note.h"
#include "crypto/keyd_client.h"

#define SUCCESSION_TITLE        "sijil-log-succession/v2"
#define SUCCESSION_FIRST_TITLE  "sijil-log-succession/v1" /* without the key of the new log: refused */
#define SUCCESSION_PAYLOAD      "application/vnd.sijil.log-succession.v1"
#define SUCCESSION_MAX          16384 /* bytes of a statement: two of them, signed, fit into a message to sijil-keyd */
#define SUCCESSION_ENVELOPE_MAX 26624 /* the same in base64, and a signature */
#define SUCCESSION_REASON_MAX   200
#define SUCCESSION_OFFICERS \
    2 /* persons that must sign, unless the policy set says that the root is more, or a registry has one administrator */
#define SUCCESSION_OFFICERS_MAX ROOT_PERSONS_MAX

/** A log up to a size. */
struct succession_log {
    char origin[CHECKPOINT_ORIGIN_MAX + 1];
    uint64_t size;
    struct merkle_hash root;
};
struct succession {
    char registry[CHECKPOINT_ORIGIN_MAX + 1];
    struct succession_log before; /* the log that ends, as sijil-keyd has signed it last */
    struct succession_log after;  /* the log that begins, with the entries that are left of the other one */
    struct note_key key;          /* of the log that begins: its name is the origin of `after` */
    unsigned
        officers; /* persons that must sign: SUCCESSION_OFFICERS or more; 1: the root of approvers, in a registry on one machine */
    uint64_t made_ms; /* since 1970 */
    char reason[SUCCESSION_REASON_MAX + 1];
    struct document_pin pins[DOCUMENT_KINDS_MAX]; /* what is in force from now on, of the kind with the number i + 1 */
    struct bytes checkpoint;                      /* the note of the newest checkpoint of the log that ends: a view */
};

/** Appends the text. ERROR_INVALID for values that a statement can't have. */
RESULT succession_write(const struct succession *succession, struct buffer *text, struct error *err);
/** `checkpoint` is a view into `text`. ERROR_INVALID unless each line has its one spelling, and the origins are those of one registry. */
RESULT succession_read(struct bytes text, struct succession *succession_out, struct error *err);

#define SUCCESSION_ACTION      "log.succeed" /* of the first own entry of the log that begins */
#define SUCCESSION_DETAIL_SIZE 141
/**
 * "sha256:STATEMENT SIZE ROOT OFFICERS", the detail of that entry: size and root of the checkpoint in the statement, which the witnesses of the log that ended have
 * cosigned, if it had some; and how many officers have signed. ROOT is base64url.
 */
RESULT succession_detail(const struct succession *succession, struct bytes statement, char detail_out[SUCCESSION_DETAIL_SIZE],
                         struct error *err);

/** The origin of the registry's log number `number`, from 1. ERROR_LIMIT if it is too long. */
RESULT succession_origin(const char *registry, uint64_t number, char origin_out[CHECKPOINT_ORIGIN_MAX + 1], struct error *err);
/** The number of the log with this origin; 0: it is of another registry. */
uint64_t succession_number(const char *origin, const char *registry);
