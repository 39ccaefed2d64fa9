/*
 * tests/unit/keyd_recovery_fixture.h -- a log of sijil-keyd that goes on under a new origin, and statements about it. The header has definitions, so only one source file of a program may
 * include it.
 */
#pragma once

#include "tests/unit/keyd_folder_fixture.h"

#include <stdio.h>
#include <string.h>

#include "audit/format/succession.h"
#include "crypto/digest.h"
#include "crypto/dsse.h"
#include "keyd/checkpoint.h"
#include "keyd/document_pin.h"
#include "keyd/recovery.h"

#define REGISTRY "x.example/log"
#define NOW_MS   1767225600000
#define SIZE     9
#define LEFT     7

enum signer { ROOT, ALICE, ALICE_AGAIN, BOB, EXPIRED, REVOKED, STRANGER, SIGNER_COUNT };

static struct folder folder;
static struct keyring *keyring;
static struct ledger *ledger;
static struct key_register *keys;
static struct replacements *replacements;
static struct log_rotation *rotation;
static bool one_officer;   /* of keyd */
static enum signer holder; /* of the root's key; ROOT: nobody says whose it is */
static uint8_t persons;    /* that are the root; 0: as the rest says */
static enum signer third;  /* signs, too; ROOT: nobody does */
static size_t stated_key;  /* of the key ring, and in statements */
static struct ecdsa_key *signers[SIGNER_COUNT];

static struct result begin_log(const void *context, struct ledger_state *state, struct error *err)
{
    (void)context, (void)err;
    state->log_number = 1;
    state->log_size = SIZE;
    memset(state->log_root, 7, sizeof state->log_root);
    (void)snprintf(state->finding, sizeof state->finding, "entry 4");
    memset(state->witness_digest, 0, sizeof state->witness_digest);
    memset(state->approvers, 0, sizeof state->approvers);
    state->terms = (struct root_terms){.policies = 1, .root = holder == ROOT ? 1 : 2, .officers = 1, .holder = {(uint8_t)holder}};
    if (persons > 0) state->terms.root = persons;
    for (size_t i = ALICE; i <= REVOKED; i++) {
        struct document_approver *approver = &state->approvers[i - 1];
        ecdsa_key_public(signers[i], approver->point);
        approver->principal[0] = i == ALICE_AGAIN ? ALICE : (uint8_t)i;
        approver->expires_ms = i == EXPIRED ? NOW_MS : NOW_MS + 1;
        approver->is_revoked = i == REVOKED;
    }
    for (size_t i = 0; i < DOCUMENT_KINDS_MAX; i++) {
        state->pins[i] = (struct document_pin){.epoch = 8, .digest = {1}};
        state->asked[i] = 8;
    }
    return SUCCESS;
}

static struct checkpoint_signer signer_of_log(void)
{
    return (struct checkpoint_signer){keyring, ledger, rotation};
}

static struct recovery_place place(void)
{
    return (struct recovery_place){signer_of_log(), keys, replacements, one_officer};
}

static int new_log(void **state)
{
    struct error err = {0};

    (void)state;
    must(ledger_change(ledger, begin_log, NULL, &err), &err);
    return 0;
}

static struct succession fresh(void)
{
    struct succession wanted = {.registry = REGISTRY, .made_ms = 1, .officers = 2, .reason = "lost"};

    (void)snprintf(wanted.before.origin, sizeof wanted.before.origin, "%s", REGISTRY);
    (void)snprintf(wanted.after.origin, sizeof wanted.after.origin, "%s/2", REGISTRY);
    wanted.before.size = SIZE;
    memset(wanted.before.root.bytes, 7, sizeof wanted.before.root.bytes);
    wanted.after.size = LEFT;
    memset(wanted.after.root.bytes, 5, sizeof wanted.after.root.bytes);
    wanted.pins[0] = (struct document_pin){.epoch = 3, .digest = {2}};
    wanted.pins[1] = (struct document_pin){.epoch = 5, .digest = {2}};
    return wanted;
}

static void sign(struct bytes statement, enum signer signer, struct buffer *signature)
{
    struct buffer OWNED_BUFFER message = BUFFER(SUCCESSION_MAX + 256);
    struct error err = {0};

    must(dsse_preauthentication(SUCCESSION_PAYLOAD, statement, &message, &err), &err);
    must(ecdsa_sign_der(signers[signer], buffer_bytes(&message), signature, &err), &err);
}

static struct result ask_as(const struct succession *wanted, const enum signer by[2], struct error *err)
{
    struct buffer OWNED_BUFFER statement = BUFFER(SUCCESSION_MAX), first = BUFFER(ECDSA_DER_MAX), second = BUFFER(ECDSA_DER_MAX),
                               last = BUFFER(ECDSA_DER_MAX);
    const struct recovery_place where = place();
    struct succession whole = *wanted;

    must(note_key_make(whole.after.origin, NOTE_ED25519, keyring_log_key(keyring, stated_key)->public_key, &whole.key, err), err);
    must(succession_write(&whole, &statement, err), err);
    sign(buffer_bytes(&statement), by[0], &first);
    sign(buffer_bytes(&statement), by[1], &second);
    if (third != ROOT) sign(buffer_bytes(&statement), third, &last);
    const struct keyd_recovery request = {.statement = buffer_bytes(&statement),
                                          .signature_count = third == ROOT ? 2 : 3,
                                          .signatures = {buffer_bytes(&first), buffer_bytes(&second), buffer_bytes(&last)}};
    err->kind = ERROR_NONE;
    return recovery_take(&where, &request, NOW_MS, err);
}

static struct result ask(struct succession *wanted, const enum signer by[2], struct error *err)
{
    struct buffer OWNED_BUFFER note = BUFFER(KEYD_NOTE_MAX);

    const struct checkpoint_signer signs_now = signer_of_log();
    must(recovery_last_checkpoint(&signs_now, NOW_MS, &note, err), err);
    wanted->checkpoint = buffer_bytes(&note);
    return ask_as(wanted, by, err);
}
