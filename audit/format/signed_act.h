/*
 * audit/format/signed_act.h -- the signature of a request that its principal has signed one by one with its enrolled key (docs/identity.md, "What is signed one by one"), as an event keeps it.
 *
 * The event's note names the key, and what is sealed beside the event has the whole signature: so whoever may open that checks the signature without the registry. Rule: this says that the
 * holder of the key has signed this request, and not whose key it is: its document says so (docs/documents.md).
 */
#pragma once

#include "audit/format/leaf.h"
#include "crypto/digest.h"
#include "crypto/key_proof.h"

#define SIGNED_ACT_TYPE   "sijil-act+jwt"
#define SIGNED_ACT_NOTE   "signed by "
#define SIGNED_ACT_MEMBER "act" /* of the payload */
#define SIGNED_ACT_LATE_S 900   /* a signature counts for a minute, and rights that change have a request decided again */

/* The SHA-256 of what is signed: other signatures over the same have the same id (with ES256 anybody can make a second one). */
struct signed_act_id {
    uint8_t digest[SHA256_SIZE];
};

struct signed_act {
    struct key_proof proof;
    const char *method, *target, *body; /* views into the proof: "POST", path and query, base64url of the SHA-256 of the body */
    int64_t issued_s;
    struct signed_act_id id;
};
/** `text`: of the header Sijil-Act. ERROR_INVALID: it is no such signature, or a bad one; ERROR_NO_MEMORY. */
RESULT signed_act_read(const char *text, struct signed_act *act_out, struct error *err);
void signed_act_done(struct signed_act *act);
#define OWNED_SIGNED_ACT __attribute__((cleanup(signed_act_done))) struct signed_act

/** Whether an action of acts.def is asked for in this way. */
bool signed_act_fits(const char *action, const char *method, const char *target);
/** The key that the note of an event names; false: it names none. */
bool signed_act_key(const char *note, char key_out[KEY_PROOF_KEY_SIZE]);
/**
 * Checks the signature of an event whose payload was opened. *is_signed_out: the event names a key, and has a good signature of it over a request for its action, at its time; *id_out (if
 * id_out is not NULL) is the id of this signature: whether another event has it, too, acts_seen_add() says. ERROR_DENIED: it names a key and has another signature, or none.
 */
RESULT signed_act_check(const struct leaf *leaf, struct bytes payload, bool *is_signed_out, struct signed_act_id *id_out,
                        struct error *err);
